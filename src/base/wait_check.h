// Whether a thread that waits in the library for another thread, or to copy what is too large to be staged, is to go on
// waiting: asked now and then, of a function that it has set (pergola_thread_set_check()). An interpreter hears a signal
// so.
//
// Each thread has its own, which it alone reads and writes.
#pragma once

#include <chrono>
#include <cstdint>

#include "src/base/result.h"

namespace pergola {

struct WaitCheck {
  using Function = std::int32_t (*)(void* user);
  static constexpr std::chrono::milliseconds kEach{50};

  Function function = nullptr;  // null: none. Other than 0 ends the wait
  void* user = nullptr;

  // Without a lock of the library, as the function may call it, or wait for who does.
  Status ask() const {
    if (function == nullptr || function(user) == 0) return {};
    return PERGOLA_ERROR(kCallFailed, "The wait was ended by the check that this thread has set.");
  }
};

inline thread_local WaitCheck wait_check;

}  // namespace pergola
