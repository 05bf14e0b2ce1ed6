// The in-process session: PTX is parsed, analysed and loaded here, and work goes to the streams of one device.
#pragma once

#include <string_view>

#include "src/device/device.h"
#include "src/session/session.h"

namespace pergola::runtime {

// A session on the device called `device_name` ("": what PERGOLA_DEVICE says; devices.h). `policy` is of
// scheduler/policy.h
// ("": what PERGOLA_SCHEDULER says, else the defaults).
Result<session::SessionPtr> create_session(std::string_view device_name = {}, std::string_view policy = {});
// A session on this device.
Result<session::SessionPtr> create_session(device::DevicePtr device, std::string_view policy = {});

}  // namespace pergola::runtime
