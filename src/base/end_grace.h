// How long whatever ends (a queue, a session) waits for work that gets nowhere before it gives that up: the end of a
// process never hangs.
//
// 2 seconds, or PERGOLA_END_GRACE_MS. What counts as getting on is the device's to say: on the CPU device any kernel
// that does not only wait, on a GPU work that has ended.
#pragma once

#include <algorithm>
#include <chrono>

#include "src/base/result.h"

namespace pergola {

inline constexpr std::chrono::milliseconds kEndGrace{2000};

// For how long nothing has moved, as far as somebody has looked. Between two looks a tenth of a second counts at most:
// in a process that was stopped (Ctrl-Z) or on a machine that stood still, what is waited for has stood still as well.
// Of one thread at a time.
class Stillness {
 public:
  explicit Stillness(std::chrono::nanoseconds already = {}) : still_for_(already) {}
  // At each look, from the first on.
  std::chrono::nanoseconds after_look(bool has_moved) {
    constexpr std::chrono::nanoseconds kMostALook = std::chrono::milliseconds(100);
    const auto now = std::chrono::steady_clock::now();
    if (has_moved)
      still_for_ = {};
    else if (last_look_ != std::chrono::steady_clock::time_point())
      still_for_ += std::min<std::chrono::nanoseconds>(now - last_look_, kMostALook);
    last_look_ = now;
    return still_for_;
  }

 private:
  std::chrono::nanoseconds still_for_;
  std::chrono::steady_clock::time_point last_look_;
};

// kInvalidArgument names the variable and its value.
Result<std::chrono::milliseconds> end_grace_from_environment();

}  // namespace pergola
