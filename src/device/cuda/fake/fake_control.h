// What a test may do to the fake driver (fake_driver.cc), found in it by name.
#pragma once

#include <cstdint>
#include <string>

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
  // What the driver tells of itself: "version", "devices", "memory_bytes", and 0 or 1: "managed", "concurrent",
  // "virtual" (memory management; 0 at first).
  void (*set)(const char* what, std::int64_t value);
  // What was queued since this was last asked, a line each, streams by number and managed memory by letter, both in the
  // order in which they were made since reset(): "prefetch a to device on 0", "attach a to 0", "attach a to host on 0",
  // "add_one on 0", "1 waits for 0", "1 waits for a value" (that is not there yet), "copy to device on 0", "copy to
  // host on 0", "copy on 0", "fill on 0", and of a graph's nodes, in their order, "node 1 early after 0".
  std::string (*log)();
  // As fail(), and after it every call does, as after a fault of the device.
  void (*lose)(const char* function, int result, int skip);
  // What has been made and is not destroyed: "2 events, 1 streams"; empty where nothing is.
  std::string (*alive)();
  // How often each function has been called since reset(): "cuInit 1", a line each.
  std::string (*all_calls)();
  // The next `times` calls of `function` return `result` and do nothing.
  void (*fail_times)(const char* function, int result, int times);
  // How many calls since reset() were refused as their thread had no context: where the device is closed, none is
  // right. A thread has one from cuCtxSetCurrent() to its next launch, which needs none.
  int (*strays)();
};

// Exported by the fake driver: extern "C" const FakeControl* fake_cuda_control().
using FakeControlFunction = const FakeControl* (*)();

}  // namespace pergola::device::cuda
