// Fences: how bodies of tasks know which memory there is, and how the executor tells the host of a task that has left
// it (docs/decisions/0020-fences.md).
//
//   address │ tag │ index, kFenceIndexBits │ offset in its granule │        table[index] == tag: the granule is memory
//
// The table has a 16-bit tag for each index, kFenceNone where no memory is. It is folded: of addresses that differ in
// their tags alone one has the entry; where two of them are memory it is kFenceSeveral, which lets all of them pass.
// Behind it lie kFenceScratchBytes that are always zero, then as many that anybody writes: what a lane that has failed,
// and whose warp counts on it, accesses in place of what it must not. Behind these are the runs: of 16 bits for each
// index, how many granules from that one on are memory whose entries have their own tags, 0xffff where there are more;
// 0 where the entry is none, or of several.
#pragma once

#include "src/abi/task_slot.h"

namespace pergola::abi {

inline constexpr u32 kFenceIndexBits = 22;
inline constexpr u32 kFenceNone = 0xffff, kFenceSeveral = 0xfffe;
inline constexpr u32 kFenceScratchBytes = 8192;
inline constexpr u64 kFenceTableBytes = u64{2} << kFenceIndexBits;
inline constexpr u64 kFenceRunsOffset = kFenceTableBytes + 2 * kFenceScratchBytes;
inline constexpr u32 kFenceLongestRun = 0xffff;
inline constexpr u64 kFenceMemoryBytes = kFenceRunsOffset + kFenceTableBytes;

// TaskSlot::fault: bits 0-4 the lane, above it the number of the instruction in its body (TaskBody::fences) + 1.
inline constexpr u32 kFaultSiteShift = 5;
// In place of a number: a task spawned another with what is no handle, or with arguments of another size.
inline constexpr u32 kFaultNoHandle = (1u << (32 - kFaultSiteShift)) - 1;
// Accesses that may wait for others, left out by a warp: after kLeftOutZeros they yield how many more there have been,
// so that most loops end; after kMostLeftOut it traps, since it would spin for ever.
inline constexpr u32 kLeftOutZeros = 1u << 12;
inline constexpr u32 kMostLeftOut = 1u << 22;

// What a warp of a task (or of a piece of one) that has noted a fault tells the host, before the task counts as done;
// then it counts up TaskAnswer::faults. It stands in the place of the record of the ring that the task's family began
// with. One at a time: who finds it there tells nothing, and the host, which looks at the count whenever it looks at
// what is done, has taken it before it gives the place to another record.
struct alignas(64) TaskFault {
  u64 address;
  u32 is_told;                    // written last; the host sets it back to 0 when it has read the rest
  u32 body, fault;                // TaskSlot::fault
  u32 index_x, index_y, index_z;  // of the block in the task's grid
  u32 block_x, block_y, warp;     // the block's extents, and which of its warps
  u32 is_spawned;                 // by a task; the record is of the one that the family began with
  u32 unused[4];
};
static_assert(sizeof(TaskFault) == 64);

}  // namespace pergola::abi
