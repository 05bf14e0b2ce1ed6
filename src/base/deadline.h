// How long may still be waited.
#pragma once

#include <algorithm>
#include <chrono>
#include <optional>

namespace pergola {

// Nothing less than 0; none where there is no deadline.
inline std::optional<std::chrono::nanoseconds> left_until(
    const std::optional<std::chrono::steady_clock::time_point>& deadline) {
  if (!deadline) return std::nullopt;
  return std::max(*deadline - std::chrono::steady_clock::now(), std::chrono::nanoseconds(0));
}

}  // namespace pergola
