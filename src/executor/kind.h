// A task's kernel with a shape: what the shape may be, and what of it resident blocks read (abi::TaskKindEntry).
#pragma once

#include <algorithm>
#include <cstdint>

#include "src/abi/task_ring.h"
#include "src/base/result.h"
#include "src/device/types.h"
#include "src/transform/entry_to_task.h"

namespace pergola::executor {

// Shared memory of a resident block, for the tasks in it.
inline constexpr std::uint32_t kArenaBytes = 64 * 1024;
// What a body's static arrays may have of it.
constexpr std::uint32_t most_static_shared_bytes(std::uint32_t arena_bytes) {
  return std::min(arena_bytes, std::uint32_t{48 * 1024});
}

// kUnsupported where the body has more barriers than a task can have.
Status check_body(const transform::TaskBody& body);

// kUnsupported, with the numbers, where a resident block with so much shared memory cannot run tasks of that shape;
// kInvalidArgument for a grid or a block of nothing, and for what the kernel does not allow.
Result<abi::TaskKindEntry> kind_entry(const transform::TaskBody& body, std::uint32_t number,
                                      const device::LaunchConfig& shape, std::uint32_t arena_bytes);

}  // namespace pergola::executor
