#include "src/runtime/packed_nodes.h"

#include <algorithm>
#include <bit>
#include <cstring>

namespace pergola::runtime {

using device::KernelNode;
using transform::PackedShape;

std::optional<PackedShape> packing_of(const device::LaunchConfig& config, std::uint32_t multiprocessors,
                                      const PackingOptions& options) {
  const std::uint64_t threads = config.block.count(), blocks = config.grid.count();
  if (config.cooperative || !(config.cluster == device::Dim3{0, 0, 0}) || config.dynamic_shared_bytes != 0 ||
      threads == 0 || threads > options.most_threads || blocks > std::uint64_t{1} << 30)
    return std::nullopt;
  const std::uint64_t fit = options.block_threads / threads;
  const std::uint64_t all = std::uint64_t{options.least_resident} * multiprocessors;
  const std::uint64_t spare = all == 0 ? fit : blocks / all;
  const auto most = static_cast<std::uint32_t>(std::min(fit, spare));
  if (most < options.fewest_blocks || most == 0) return std::nullopt;
  return PackedShape{config.block.x, config.block.y, config.block.z, std::bit_floor(most)};
}

Status pack_node(KernelNode& work, const PackedShape& shape, const BlockKernel::Form& form) {
  const std::uint32_t threads = shape.threads() * shape.blocks;
  const std::uint32_t most = form.kernel->resources().max_threads_per_block;
  if (most != 0 && threads > most)
    return PERGOLA_ERROR(kResourceExhausted,
                         "Kernel '{}' with {} blocks in one runs in blocks of {} threads at most, not {}.",
                         form.kernel->signature().name, shape.blocks, most, threads);
  device::Dim3& grid = work.config.grid;
  const std::uint32_t own[] = {grid.x, grid.y, grid.z};
  work.parameters.resize(*form.grid_offset_bytes + sizeof own);
  std::memcpy(work.parameters.data() + *form.grid_offset_bytes, own, sizeof own);
  const auto blocks = static_cast<std::uint32_t>(grid.count());
  grid = {(blocks + shape.blocks - 1) / shape.blocks, 1, 1};
  work.config.block = {threads, 1, 1};
  work.module = form.module;
  work.kernel = form.kernel;
  return {};
}

PackedNodes pack_nodes(const device::Device& device, const device::GraphSpec& plain,
                       std::span<const std::shared_ptr<BlockKernel>> kernels, const PackingOptions& options) {
  PackedNodes packed;
  packed.spec = plain;
  for (std::size_t i = 0; i < plain.nodes.size(); ++i) {
    std::string& why = packed.reasons.emplace_back();
    auto* const work = std::get_if<KernelNode>(&packed.spec.nodes[i].work);
    if (work == nullptr || kernels[i] == nullptr) {
      why = work == nullptr ? "it is no kernel launch" : "its kernel's PTX is not known";
      continue;
    }
    const auto shape = packing_of(work->config, device.info().sm_count, options);
    if (!shape) {
      why = "its blocks are not small, or not many";
      continue;
    }
    const Result<BlockKernel::Form> form = kernels[i]->packed(*shape);
    const Status made = form.ok() ? pack_node(*work, *shape, *form) : form.status();
    if (made.ok())
      ++packed.launches;
    else
      why = made.message();
  }
  return packed;
}

}  // namespace pergola::runtime
