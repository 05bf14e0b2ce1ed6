// What is known of the launches of a graph that is to be made otherwise than with an edge wherever two conflict: their
// footprints, by allocation or by block, and which of their loads read what none of them writes.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "src/analysis/block_chain.h"
#include "src/device/device.h"
#include "src/runtime/block_kernel.h"

namespace pergola::runtime {

// Memory that launches may reach through pointers among their parameters.
struct BlockAllocation {
  device::DeviceAddress address = 0;
  std::uint64_t size_bytes = 0;
};

class ChainLaunches {
 public:
  // `kernels`: by node, null where the node is no kernel or nothing is known of it; `allocations` are disjoint. What
  // lies in a parameter and points into none of them is taken for a number; used as an address it may point anywhere.
  // All must outlive this. `cache`: of footprints, may be null.
  ChainLaunches(const device::GraphSpec& graph, std::span<const std::shared_ptr<BlockKernel>> kernels,
                std::span<const BlockAllocation> allocations, bool by_block, analysis::RelationCache* cache = nullptr);

  // For plan_chain(): the footprint, or why there is none. is_plain where node() has no kernel, or one that is
  // cooperative or in clusters.
  analysis::ChainLaunch launch(std::size_t node) const;
  // Why it stays as it is for all that is known here; "" where it need not.
  const std::string& plain_reason(std::size_t node) const { return plain_reasons_[node]; }
  // Lines of its kernel's text that load what no launch of the graph writes, ascending.
  std::vector<std::uint32_t> constant_lines(std::size_t node) const;

  std::size_t size() const { return graph_.nodes.size(); }
  const device::KernelNode& kernel_node(std::size_t node) const {
    return std::get<device::KernelNode>(graph_.nodes[node].work);
  }
  std::uint32_t blocks(std::size_t node) const {
    return static_cast<std::uint32_t>(kernel_node(node).config.grid.count());
  }
  std::uint32_t threads(std::size_t node) const {
    return static_cast<std::uint32_t>(kernel_node(node).config.block.count());
  }
  BlockKernel& kernel(std::size_t node) const { return *kernels_[node]; }

 private:
  void look_at(std::size_t node);
  using FootprintPtr = analysis::RelationCache::FootprintPtr;
  Result<FootprintPtr> footprint_of(std::size_t node);
  void find_written();

  const device::GraphSpec& graph_;
  const std::span<const std::shared_ptr<BlockKernel>> kernels_;
  const std::span<const BlockAllocation> allocations_;
  const bool by_block_;
  analysis::RelationCache* const cache_;
  std::vector<FootprintPtr> footprints_;  // by node; null where there is none
  std::vector<std::string> plain_reasons_, unknown_reasons_;
  std::size_t most_allocations_ = 0;  // with the variables of modules
  std::vector<bool> written_;         // by allocation
};

}  // namespace pergola::runtime
