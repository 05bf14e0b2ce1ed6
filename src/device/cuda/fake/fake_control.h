// What a test may do to the fake driver (fake_driver.cc), found in it by name.
#pragma once

#include <cstdint>

namespace pergola::device::cuda {

// Thread-safe. Names are those of driver_symbols.def's first column.
struct FakeControl {
  // Everything as at the start: no failures, not lost, streams run. All work must have ended.
  void (*reset)();
  // The call of `function` after the next `skip` ones returns `result` and does nothing.
  void (*fail)(const char* function, int result, int skip);
  // How often `function` has been called since reset().
  int (*calls)(const char* function);
  // Streams stop before their next piece of work, until go().
  void (*hold)();
  void (*go)();
  // What the driver tells of itself: "version", "devices", "memory_bytes".
  void (*set)(const char* what, std::int64_t value);
};

// Exported by the fake driver: extern "C" const FakeControl* fake_cuda_control().
using FakeControlFunction = const FakeControl* (*)();

}  // namespace pergola::device::cuda
