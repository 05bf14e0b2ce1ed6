// Runs a kernel on the interpreter with every access recorded by block, and holds each against the block's footprint.
#pragma once

#include <string>

#include "src/analysis/launch_footprint.h"
#include "tests/pointer_modes/recorded_run.h"

namespace pergola::footprints_test {

struct BlockOutcome {
  analysis::LaunchFootprint footprint;
  // Accesses outside the footprint of their block, a few of them, and where that is not the same when each block is
  // worked out by itself; empty where it is sound.
  std::string violations;
  // Bytes of all blocks, read and written apart: truly accessed, and in the footprints.
  std::uint64_t true_bytes = 0, footprint_bytes = 0;
  // Of some bytes that are in a footprint and not accessed, those that affine sets leave out.
  std::size_t excess_asked = 0, excess_excluded = 0;
  std::size_t accesses = 0;        // sites with a footprint
  std::size_t whole_accesses = 0;  // of them, those that cover their allocation
  std::size_t small_accesses = 0;  // of them, those that in no block reach across a quarter of it
};

// `device` must be a CPU device of the interpreter tier, and nothing else may run on it.
// Affine sets take most of the time.
Result<BlockOutcome> run_blocks(device::Device& device, const pointer_modes_test::Experiment& experiment,
                                bool with_affine_sets = true);

// What launch values the experiment has with its buffers at these addresses: allocation b is buffer b.
struct RecordedAccess {
  std::uint32_t block = 0;  // linear
  std::uint32_t buffer = 0;
  std::uint32_t offset = 0;  // in the buffer
  std::uint32_t bytes = 0;
  bool is_write = false;
  auto operator<=>(const RecordedAccess&) const = default;
};

// The first few accesses that no footprint allows; "" where there are none.
std::string violations(const analysis::LaunchFootprint& footprint, const std::vector<RecordedAccess>& accesses);

}  // namespace pergola::footprints_test
