// A list of names that may be too long for a message.
#pragma once

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "src/base/log.h"

namespace pergola {

// All of them, or the first 32 and that a warning in the log, which is written then, has all: `what` they are.
inline std::string name_list(const std::vector<std::string>& names, std::string_view what) {
  constexpr std::size_t kMost = 32;
  if (names.size() <= kMost) return fmt::format("{}", fmt::join(names, ", "));
  PERGOLA_WARN("{}: {}", what, fmt::join(names, ", "));
  return fmt::format("{} and others, which a warning in the log names", fmt::join(std::span(names).first(kMost), ", "));
}

}  // namespace pergola
