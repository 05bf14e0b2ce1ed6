// The in-process session: PTX is parsed, analysed and loaded here, and work goes to one queue of one device.
#pragma once

#include <string_view>

#include "src/device/device.h"
#include "src/session/session.h"

namespace pergola::runtime {

// A session on the device called `device_name` ("": what PERGOLA_DEVICE says; devices.h).
Result<session::SessionPtr> create_session(std::string_view device_name = {});
// A session on this device.
Result<session::SessionPtr> create_session(device::DevicePtr device);

}  // namespace pergola::runtime
