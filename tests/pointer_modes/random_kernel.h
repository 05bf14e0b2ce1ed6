// Random kernels that use pointers in every way we know of, and whose every address is valid by construction.
#pragma once

#include <cstdint>

#include "tests/pointer_modes/recorded_run.h"

namespace pergola::pointer_modes_test {

// What the kernels may do with pointers.
enum class Style : std::uint8_t {
  kTame,  // what C++ gives: offsets, selects, loops, stack copies, calls
  kWild,  // also xor, differences, tags, halves, doubles, pointers through shared and global memory
};

// The same kernel for the same seed and style, on every machine.
Experiment random_kernel(std::uint64_t seed, Style style);

}  // namespace pergola::pointer_modes_test
