// How long whatever ends (a queue, a session) waits for work that gets nowhere before it gives that up: the end of a
// process never hangs.
//
// 2 seconds, or PERGOLA_END_GRACE_MS. What counts as getting on is the device's to say: on the CPU device any kernel
// that does not only wait, on a GPU work that has ended.
#pragma once

#include <chrono>

#include "src/base/result.h"

namespace pergola {

inline constexpr std::chrono::milliseconds kEndGrace{2000};

// kInvalidArgument names the variable and its value.
Result<std::chrono::milliseconds> end_grace_from_environment();

}  // namespace pergola
