// Which device a session runs on.
//
//   "cpu"      the virtual GPU on this machine's cores
//   "cuda:N"   the N-th GPU; "cuda" is "cuda:0"
//   "null"     runs no kernel; for tests
//   ""         $PERGOLA_DEVICE; where that is unset or empty too, cuda:0 where a driver works, else cpu
//
// A device that was named is opened or refused, never replaced by another one.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "src/device/device.h"

namespace pergola::runtime {

// Thread-safe. kUnavailable says what to install; kInvalidArgument lists the names that exist.
Result<device::DevicePtr> open_device(std::string_view name);

struct DeviceChoice {
  device::DeviceKind kind = device::DeviceKind::kNull;
  int index = 0;     // of a GPU
  bool any = false;  // a GPU where there is one, else the CPU
};
// The meaning of a name; "" only after the environment was looked into (then `any`).
Result<DeviceChoice> parse_device_name(std::string_view name);

}  // namespace pergola::runtime
