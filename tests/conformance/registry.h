// Which devices the suites run on, and what each of them is excused from.
//
//   suites (TEST_P in *_suite.cc)  ×  devices()  ─▶ one test "devices/Launches.Grid1d/cpu_interpreter"
//                                     exceptions() ─▶ kUnsupported: skipped, with a reason that holds for ever
//                                                     kExpectedFailure: must fail; fails as soon as it passes
//
// A device that this machine lacks is not registered; main() prints why in one line.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "src/device/device.h"

namespace pergola::conformance {

struct DeviceCase {
  std::string name;     // in test names and in exceptions: "null", "cpu_interpreter", "cpu_jit", "cuda_0"
  bool loses_on_fault;  // a fault ends the device for this process, so fault tests get a process each
  device::DevicePtr device;
};

// Made at the first call, and kept till the end of the process.
const std::vector<DeviceCase>& devices();
// One line for each device that is not there, with the reason.
const std::vector<std::string>& missing_devices();

struct Exception {
  enum class Kind { kUnsupported, kExpectedFailure };
  std::string device;  // a DeviceCase's name, or its beginning with a '*' behind
  std::string test;    // "Suite.Case" or "Suite.*"
  Kind kind;
  std::string reason;
};
const std::vector<Exception>& exceptions();
// The exception that holds for a test on a device; null where none does.
const Exception* find_exception(const std::string& device, const std::string& test);

}  // namespace pergola::conformance
