#include "src/runtime/trimmed_grids.h"

#include "src/analysis/idle_blocks.h"

namespace pergola::runtime {

TrimmedGrids trim_grids(const device::GraphSpec& plain, std::span<const std::shared_ptr<BlockKernel>> kernels,
                        std::span<const BlockAllocation> allocations, analysis::RelationCache* cache) {
  TrimmedGrids trimmed;
  trimmed.spec = plain;
  trimmed.reasons.resize(plain.nodes.size());
  const ChainLaunches launches(plain, kernels, allocations, true, cache);
  for (std::size_t i = 0; i < plain.nodes.size(); ++i) {
    const analysis::ChainLaunch launch = launches.launch(i);
    if (launch.is_plain || launch.footprint == nullptr) {
      trimmed.reasons[i] = launch.is_plain ? launches.plain_reason(i) : launch.unknown_reason;
      continue;
    }
    const auto [x, y, z] = analysis::writing_grid(*launch.footprint);
    device::Dim3& grid = std::get<device::KernelNode>(trimmed.spec.nodes[i].work).config.grid;
    const device::Dim3 needed{x, y, z};
    if (needed == grid) continue;
    if (const Status may = launches.kernel(i).may_leave_blocks_out(); !may.ok()) {
      trimmed.reasons[i] = may.message();
      continue;
    }
    ++trimmed.launches;
    trimmed.before += grid.count();
    grid = needed;
    trimmed.after += grid.count();
  }
  return trimmed;
}

}  // namespace pergola::runtime
