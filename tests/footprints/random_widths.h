// Random kernels whose indices are made of registers of 16, 32 and 64 bits and of predicates, by whatever takes one
// width to another or does not read a register as the number it looks like; they stay inside their arrays.
#pragma once

#include <cstdint>

#include "tests/pointer_modes/recorded_run.h"

namespace pergola::footprints_test {

// The same kernel for the same seed.
pointer_modes_test::Experiment random_widths(std::uint64_t seed);

}  // namespace pergola::footprints_test
