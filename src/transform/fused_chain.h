// Launches one after the other become one: a kernel that stays, whose warps run the blocks of each launch in turn. For
// chains of launches so small that a few multiprocessors hold each of them, where starting a launch takes longer than
// it does.
//
//   stream     ─[a]─ ─[b]─ ─[c]─ ─[a]─ ...        each ─ some 2 to 4 us, in a graph 1 to 1.5
//   fused      [a|b|c|a| ... ]                    each | a barrier of one block, or of a cluster of up to 8
//
// Blocks of the chain's kernels are tasks (entry_to_task.h): a block of one warp is a warp of the cluster, a larger one
// some warps next to each other, which meet at named barriers. What a step is told is in abi/fused_step.h.
//
// In columns the same kernel has any number of blocks, each of which runs its part of every launch and waits for none
// of the others: for launches whose blocks need nothing of another column (analysis/block_columns.h).
//
// No deadlock: all blocks of a cluster are on the device at once (PTX ISA 2.2.2), every warp passes every step's
// barrier, and a block of a launch waits for its own warps alone, which have been placed together.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "src/transform/entry_to_task.h"

namespace pergola::transform {

inline constexpr std::string_view kFusedKernel = "pergola_fused";

enum class FusedColumns : std::uint8_t { kNone, kAdjacent, kStrided };

struct FusedShape {
  std::uint32_t blocks = 1;  // of the cluster: 1 to 8
  std::uint32_t warps = 32;  // of each of them: 1 to 32
  // Each block of the grid, of any size, is alone and runs a column of the launches (abi/fused_step.h). `blocks` is 1.
  FusedColumns columns = FusedColumns::kNone;
  bool operator==(const FusedShape&) const = default;
};

// How bodies of a fused kernel are made: parameters lie in shared memory.
TaskConfig fused_config(bool is_one_warp, std::vector<std::uint32_t> constant_lines);

// Whether blocks of `body` can be run so: kUnsupported where they have several warps and their barriers cannot be named
// ones. `one_warp` is what its TaskConfig had.
Status can_be_fused(const TaskBody& body, bool is_one_warp);

// Named barriers that a block of such a body of several warps takes; a block of the cluster has 15.
inline constexpr std::uint32_t kFusedNamedBarriers = 15;
inline std::uint32_t fused_named_barriers(const TaskBody& body) {
  return body.named_barriers == 0 ? 1 : body.named_barriers;
}

// Where in dynamic shared memory the blocks' own begins: behind the table.
inline constexpr std::uint32_t fused_blocks_offset(std::uint32_t table_bytes) {
  return (table_bytes + 255) / 256 * 256;
}

// The module whose kernel runs bodies by their place in `bodies`. Takes abi::FusedParameters, a grid of shape.blocks,
// or of as many as there are columns, and blocks of 32 * shape.warps; dynamic shared memory for the table and what
// follows it. Thread-safe.
Result<ptx::Module> fused_chain(std::span<const TaskBody* const> bodies, const FusedShape& shape);

}  // namespace pergola::transform
