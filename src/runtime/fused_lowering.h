// Runs of tiny launches of a graph as one launch each: a kernel of one block, or of a cluster of up to eight, whose
// warps run the blocks of each launch in turn (transform/fused_chain.h). The graph's other launches, and edges to and
// from them, stay.
//
//   plain   0 ──▶ 1 ──▶ 2 ──▶ 3 ──▶ 4        fused   [ 0 1 2 3 ] ──▶ 4          4 is too large
//
// Where a launch needs nothing that those since the last barrier of the cluster made, there is none before it.
//
// In columns: launches of any size whose grids can be cut into parts that need nothing of each other
// (analysis/block_columns.h) are one launch, each of whose blocks runs one part of all of them. It waits for nobody, so
// there may be more of them than the device holds.
//
//   plain   0 ──▶ 1 ──▶ 2                    columns  [ 0 1 2 ]  of as many blocks as there are columns
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "src/device/device.h"
#include "src/runtime/chain_launches.h"
#include "src/transform/fused_chain.h"

namespace pergola::runtime {

struct FusedOptions {
  std::uint32_t blocks = 8;       // of the cluster at most; 1: none
  std::uint32_t most_warps = 16;  // of each of its blocks
  // A launch has at most so many times the warps that the cluster has.
  std::uint32_t most_waves = 2;
  // Runs of fewer launches stay as they are.
  std::size_t shortest = 4;
  // No cluster, and of what is above only most_warps and shortest: runs fall into columns.
  bool columns = false;
  analysis::RelationCache* cache = nullptr;  // of footprints and relations, where there is one

  static FusedOptions in_columns() { return {.blocks = 1, .most_warps = 32, .shortest = 2, .columns = true}; }
};

// Of a launch alone: why it stays one of its own where others are fused, or "" where it can be a part. `constant_lines`
// as ChainLaunches has them; `most_shared_bytes`: of a block of the device.
std::string why_not_fused(BlockKernel& kernel, const device::LaunchConfig& config,
                          const std::vector<std::uint32_t>& constant_lines, std::uint64_t most_shared_bytes,
                          const FusedOptions& options = {});

struct FusedSegment {
  std::size_t first = 0, count = 0;  // launches of the plain graph
  transform::FusedShape shape;
  std::size_t barriers = 0;   // of the whole cluster; in columns of a block, before each launch but the first
  std::uint32_t columns = 0;  // blocks of the launch, where it is in columns
};

struct LoweredFused {
  device::GraphSpec spec;  // as many nodes fewer as launches are fused into one
  std::vector<FusedSegment> segments;
  std::vector<std::string> plain_reasons;  // by node of the plain graph: why it stays a launch; "" where it does not
  std::uint64_t memory_bytes = 0;          // that the fused launches need on the device
};

// `kernels` and `allocations` as ChainLaunches has them. Where no run is long enough the graph is the plain one and
// `segments` is empty. Compiles; waits for a copy to the device. kUnsupported where the device has no such clusters.
// Thread-safe.
Result<LoweredFused> lower_fused(device::Device& device, const device::GraphSpec& plain,
                                 std::span<const std::shared_ptr<BlockKernel>> kernels,
                                 std::span<const BlockAllocation> allocations, const FusedOptions& options = {});

}  // namespace pergola::runtime
