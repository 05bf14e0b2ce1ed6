// Launches of a graph as a chain in which each starts early and its blocks wait for blocks (analysis/block_chain.h says
// for which, transform/block_signals.h how). The graph's other edges go; its results are those of its nodes in order.
//
//   plain   0 ──▶ 1 ──▶ 2 ──▶ 3            lowered   0 ─ ▶ 1 ─ ▶ 2 ─ ▶ 3        ─ ▶ early_after
//                                                    ▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒        counters, epochs, lists: one buffer
//
// A launch whose kernel has no such form, or one that is no kernel, stays as it is: it starts when the one before it
// has ended, and the one after it when it has.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "src/analysis/block_chain.h"
#include "src/device/device.h"
#include "src/runtime/block_kernel.h"
#include "src/runtime/chain_launches.h"
#include "src/runtime/packed_nodes.h"

namespace pergola::runtime {

struct BlockLoweringOptions {
  analysis::ChainOptions chain{};
  // Launches of at most so many blocks let the next one start at once; larger ones when their blocks have ended.
  std::uint32_t most_triggers = 1024;
  // Small blocks are several to one of the device's (packed_nodes.h), where launches wait for launches alone
  // (`chain.by_block` is false). Null: they are not.
  const PackingOptions* packing = nullptr;
  // Of the device, for lists of blocks: what needs more is kResourceExhausted.
  std::uint64_t most_memory_bytes = ~std::uint64_t{0};
};

struct LoweredBlocks {
  device::GraphSpec spec;  // as many nodes as the plain one, in order
  std::vector<analysis::ChainStep> steps;
  std::vector<std::string> plain_reasons;  // by node: why it stays as it is; "" where it does not
  std::size_t packed = 0;                  // launches
  std::uint64_t memory_bytes = 0;          // that the chain needs on the device
};

// `kernels` and `allocations` as ChainLaunches has them. Waits for a copy to the device. The graph must not run beside
// itself. Thread-safe.
Result<LoweredBlocks> lower_blocks(device::Device& device, const device::GraphSpec& plain,
                                   std::span<const std::shared_ptr<BlockKernel>> kernels,
                                   std::span<const BlockAllocation> allocations,
                                   const BlockLoweringOptions& options = {});

}  // namespace pergola::runtime
