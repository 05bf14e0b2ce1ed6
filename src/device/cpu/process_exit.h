// The end of the process, as a CPU device sees it: a kernel that spins for ever must not keep it.
//
//   exit() ─▶ thread-local objects of the main thread   ─▶ process_is_ending(): a queue that is destroyed from now on
//            ─▶ static destructors and atexit handlers       waits for its grace only, whatever its kernel does
//            ─▶ our atexit handler                       ─▶ all work of all devices is cancelled
//
// The handler alone would come too late for a queue in a static object that was made after the first device.
// Thread-safe.
#pragma once

#include <memory>

namespace pergola::device::cpu {

class CpuDevice;

// Has `device` cancelled at the end of the process while it lives.
void cancel_at_exit(std::weak_ptr<CpuDevice> device);

// Called where handles are made: the main thread notices the end only if it came by here.
void watch_for_exit();

bool process_is_ending();

}  // namespace pergola::device::cpu
