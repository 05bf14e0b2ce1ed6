// Random chains of random affine kernels over a few overlapping arrays, whose results tell every missed dependence.
#pragma once

#include <cstdint>
#include <string>

#include "bench/blocks/program.h"

namespace pergola::block_orders_test {

struct RandomChain {
  // Buffers and launches; no source file and no check: its reference is what the stream's order gives.
  bench::blocks::Program program;
  std::string ptx;
};

// 3 to 6 launches, or 5 to 8 that are alike, the same for the same seed. The blocks of one launch do not disturb each
// other: a thread writes elements of its own, and reads others where no thread of its launch writes.
//
// Alike: most launches have one grid and block, kernels are launched again on other windows, and windows and indices
// are often the same, so that there is something to merge, to stack and to cut into columns.
RandomChain random_chain(std::uint64_t seed, bool is_alike = false);

}  // namespace pergola::block_orders_test
