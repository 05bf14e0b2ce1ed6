// Random kernels whose indices are made of thread and block numbers by all the arithmetic that compilers use for it, in
// branches and loops, and which stay inside their arrays.
#pragma once

#include <cstdint>

#include "tests/pointer_modes/recorded_run.h"

namespace pergola::footprints_test {

// The same kernel for the same seed. Tame ones have no loads in indices and few steps that may wrap.
pointer_modes_test::Experiment random_indices(std::uint64_t seed, bool is_tame);

}  // namespace pergola::footprints_test
