// Merged launches that start early: those of lower_merged() in a chain in which each is on the device before the one
// before it has ended, and waits for its end there (transform/block_signals.h).
//
//   merged   [0 1] ─▶ [2 3] ─▶ 4            merged-early   [0 1] ─ ▶ [2 3] ─ ▶ 4            ─ ▶ early_after
//
// A launch that comes after nothing in the graph waits for nothing. Where a kernel has no such form its launch starts
// when the one before it has ended, and so does the one after it.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "src/runtime/chain_launches.h"
#include "src/runtime/merged_lowering.h"

namespace pergola::runtime {

struct LoweredMergedEarly {
  device::GraphSpec spec;                  // as many nodes as the merged one, in order
  std::size_t early = 0;                   // nodes that start early
  std::vector<std::string> plain_reasons;  // by node of it: why it does not; "" where it does, and of the first
};

// `merged`: of `plain`, in layers alone. `kernels` and `allocations` as ChainLaunches has them. Launches of at most
// `most_triggers` blocks let the next one start at once. Compiles. Thread-safe.
Result<LoweredMergedEarly> start_early(const device::GraphSpec& plain, const LoweredMerged& merged,
                                       std::span<const std::shared_ptr<BlockKernel>> kernels,
                                       std::span<const BlockAllocation> allocations,
                                       analysis::RelationCache* cache = nullptr, std::uint32_t most_triggers = 1024);

}  // namespace pergola::runtime
