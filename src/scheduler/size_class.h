// Classes of sizes of launches: class c of a number holds those of c bits, so [2^(c-1), 2^c), and class 0 is 0.
#pragma once

#include <bit>
#include <compare>
#include <cstdint>

namespace pergola::scheduler {

struct SizeClass {
  std::uint32_t threads = 0;  // of the whole grid
  std::uint32_t bytes = 0;    // of the arrays that it was given
  auto operator<=>(const SizeClass&) const = default;
  static SizeClass of(std::uint64_t grid_threads, std::uint64_t argument_bytes) {
    return {static_cast<std::uint32_t>(std::bit_width(grid_threads)),
            static_cast<std::uint32_t>(std::bit_width(argument_bytes))};
  }
};

}  // namespace pergola::scheduler
