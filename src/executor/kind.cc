#include "src/executor/kind.h"

#include <array>

namespace pergola::executor {
namespace {

Status check_shape(const transform::TaskBody& body, const device::LaunchConfig& shape) {
  constexpr std::uint32_t kMostBlocks = 1u << 20;  // in each dimension too, so that no product wraps
  for (const device::Dim3& extents : {shape.grid, shape.block})
    if (std::max({extents.x, extents.y, extents.z}) > kMostBlocks)
      return PERGOLA_ERROR(kUnsupported,
                           "A task has {} blocks at most; kernel '{}' is to have {} x {} x {} of {} x {} x {}.",
                           kMostBlocks, body.kernel, shape.grid.x, shape.grid.y, shape.grid.z, shape.block.x,
                           shape.block.y, shape.block.z);
  const std::uint64_t threads = shape.block.count(), blocks = shape.grid.count();
  if (threads == 0 || blocks == 0)
    return PERGOLA_ERROR(kInvalidArgument, "A task of kernel '{}' has {} blocks of {} threads; it needs one of each.",
                         body.kernel, blocks, threads);
  if (threads > abi::kTaskMostThreads)
    return PERGOLA_ERROR(kUnsupported,
                         "A block of a task has {} threads at most, and this of kernel '{}' has {}: launch it as an "
                         "ordinary kernel.",
                         abi::kTaskMostThreads, body.kernel, threads);
  const std::array<std::uint32_t, 3> block{shape.block.x, shape.block.y, shape.block.z};
  if (body.required_threads && *body.required_threads != block)
    return PERGOLA_ERROR(kInvalidArgument, "Kernel '{}' requires blocks of {} threads (.reqntid), not of {}.",
                         body.kernel, fmt::join(*body.required_threads, " x "), fmt::join(block, " x "));
  if (body.max_threads) {
    const auto& most = *body.max_threads;
    if (threads > std::uint64_t{most[0]} * most[1] * most[2])
      return PERGOLA_ERROR(kInvalidArgument, "Kernel '{}' allows blocks of {} threads (.maxntid), and this has {}.",
                           body.kernel, fmt::join(most, " x "), threads);
  }
  if (shape.cooperative || shape.programmatic || shape.cluster != device::Dim3{0, 0, 0})
    return PERGOLA_ERROR(
        kUnsupported, "A task is no cooperative or programmatic launch and has no clusters; kernel '{}'.", body.kernel);
  if (blocks > kMostBlocks)
    return PERGOLA_ERROR(kUnsupported, "A task has {} blocks at most; this of kernel '{}' has {}.", kMostBlocks,
                         body.kernel, blocks);
  return {};
}

}  // namespace

Status check_body(const transform::TaskBody& body) {
  if (body.barriers.size() > abi::kTaskMostBarriers)
    return PERGOLA_ERROR(kUnsupported, "Kernel '{}' uses {} barriers; a task has {} at most.", body.kernel,
                         body.barriers.size(), abi::kTaskMostBarriers);
  return {};
}

Result<abi::TaskKindEntry> kind_entry(const transform::TaskBody& body, std::uint32_t number,
                                      const device::LaunchConfig& shape, std::uint32_t arena_bytes) {
  PERGOLA_TRY(check_shape(body, shape));
  const std::uint64_t threads = shape.block.count(), blocks = shape.grid.count();
  const auto warps = static_cast<std::uint32_t>((threads + 31) / 32);
  abi::TaskKindEntry kind{};
  kind.block_x = shape.block.x, kind.block_y = shape.block.y, kind.block_z = shape.block.z;
  kind.threads = static_cast<std::uint32_t>(threads);
  kind.grid_x = shape.grid.x, kind.grid_y = shape.grid.y, kind.grid_z = shape.grid.z;
  kind.blocks = static_cast<std::uint32_t>(blocks);
  kind.piece_blocks = std::max(1u, 31 / warps);
  kind.body = number;
  kind.dynamic_shared_bytes = shape.dynamic_shared_bytes;
  const std::uint64_t own = std::uint64_t{body.dynamic_shared_offset} + shape.dynamic_shared_bytes;
  kind.shared_offset = static_cast<std::uint32_t>(body.barriers.size() * sizeof(abi::TaskBarrier));
  const std::uint32_t align = std::max(body.shared_align_bytes, 16u);
  kind.shared_offset = (kind.shared_offset + align - 1) / align * align;
  const std::uint64_t shared_bytes = own == 0 && body.barriers.empty() ? 0 : kind.shared_offset + own;
  if (shared_bytes > arena_bytes)
    return PERGOLA_ERROR(
        kUnsupported,
        "A block of this task of kernel '{}' wants {} bytes of shared memory ({} static, {} dynamic, {} "
        "for barriers); the executor has {}.",
        body.kernel, shared_bytes, body.static_shared_bytes, shape.dynamic_shared_bytes, kind.shared_offset,
        arena_bytes);
  kind.shared_bytes = static_cast<std::uint32_t>(shared_bytes);
  std::uint32_t words = 0;
  for (std::size_t n = 0; n < body.barriers.size(); ++n)
    if (body.barriers[n] == transform::TaskBarrierKind::kWord) words |= 1u << n;
  const std::uint32_t named = threads % 32 == 0 ? body.named_barriers : 0;
  kind.barriers = static_cast<std::uint32_t>(body.barriers.size()) | named << 8 | words << 16;
  kind.parameter_bytes = (body.parameter_bytes + 7) / 8 * 8;
  kind.blocks_warps = warps | (body.needs_block ? abi::kKindNeedsBlock : 0);
  return kind;
}

}  // namespace pergola::executor
