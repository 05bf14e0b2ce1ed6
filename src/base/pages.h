// The host's pages, and rounding up to them.
#pragma once

#include <unistd.h>

#include <cstddef>

namespace pergola {

inline std::size_t page_bytes() {
  static const auto bytes = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
  return bytes;
}

// The smallest multiple of unit (more than 0) that is not below value.
inline std::size_t round_up(std::size_t value, std::size_t unit) { return (value + unit - 1) / unit * unit; }

}  // namespace pergola
