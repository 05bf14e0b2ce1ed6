// Launches of a graph without their blocks that write nothing (analysis/idle_blocks.h): smaller grids, the same
// results.
//
// A block that returns at once costs the device some 0.3 to 0.6 ns, and a launch of thousands of them takes longer than
// what the others do.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "src/analysis/relation_cache.h"
#include "src/device/device.h"
#include "src/runtime/chain_launches.h"

namespace pergola::runtime {

struct TrimmedGrids {
  device::GraphSpec spec;               // the plain graph's nodes and edges
  std::size_t launches = 0;             // that have smaller grids
  std::uint64_t before = 0, after = 0;  // blocks of these
  std::vector<std::string> reasons;     // by node: why its grid stays; "" where it is smaller, or all its blocks write
};

// `kernels` and `allocations` as ChainLaunches has them; `cache` may be null. Thread-safe.
TrimmedGrids trim_grids(const device::GraphSpec& plain, std::span<const std::shared_ptr<BlockKernel>> kernels,
                        std::span<const BlockAllocation> allocations, analysis::RelationCache* cache = nullptr);

}  // namespace pergola::runtime
