// When a time to wait is over.
#pragma once

#include <chrono>
#include <optional>

#include "src/scheduler/scheduler.h"

namespace pergola::runtime {

// None, and a time beyond the clock's range, are for ever.
inline scheduler::Scheduler::Deadline deadline_in(std::optional<std::chrono::nanoseconds> timeout) {
  if (!timeout || *timeout > std::chrono::hours(24 * 365)) return std::nullopt;
  return std::chrono::steady_clock::now() + *timeout;
}

}  // namespace pergola::runtime
