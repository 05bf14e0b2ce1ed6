// What the warps of a resident block share: orders, entries, what is free and what is done with. Who writes what is in
// resident.cu's opening comment.
#pragma once

#include "executor_memory.h"
#include "src/abi/task_inbox.h"

using namespace pergola::abi;

extern "C" {
__shared__ TaskSlot pergola_task_slots[32];
__shared__ u64 pergola_fence_table;  // where bodies have fences (transform/fence_accesses.h); else 0
}

namespace {

constexpr u32 kAll = ~0u;
constexpr u32 kExecutors = 0xfffffffeu;
constexpr u32 kNamedBarriers = 0xfffeu;  // 0 is __syncthreads'
// An order: kGo, the entry, and which of its warps; or, where warps belong together, the number in `blocks` and which
// of the block's warps.
constexpr u32 kGo = 1u << 31, kQuit = 1u << 30, kOrderEntryShift = 24, kOrderIndexMask = (1u << 24) - 1;

struct alignas(16) Entry {  // a task, or a piece of one
  u64 parameters[kRecordWords - 1];
  u32 position, piece;
  TaskKindEntry kind;
  u32 warps;  // of the piece
  u32 left;   // of these, not ended
  // The family (task_inbox.h) that its tasks are of: the block that has it * kRingRecords + the record of that ring. Bit
  // 31: the entry is the one it began with. Where bodies spawn.
  u32 family;
  u32 has_spawned;  // some warp of it has; only asked where bit 31 is set
};
constexpr u32 kFamilyFounder = 1u << 31;
constexpr u32 kHasSpawned = 1u << 31;  // beside a number of TaskRingState::placed

struct Block {           // of a task whose warps are placed together
  u32 left;              // warps that have not ended
  u32 index;             // in the grid
  u32 base;              // of its allocation in the arena
  u32 leaves[2], named;  // what it has of both
};

struct Stuck {             // the first of a class that does not fit,
  u32 key, rounds, since;  // for how many rounds, and since when, in ns, that was long enough for others to pass it
};

struct Board {
  u32 orders[32];
  // What warps have freed since the scheduler looked: kTaken words.
  u32 idle, freed_blocks, freed_named, freed_entries[2], freed_leaves[2];
  u32 done[kRingRecords / 32];
  u32 under_way;              // bits 8-31: positions taken; bits 0-7: how many of these are not done with
  u32 cold_since;             // when the scheduler, without a task, began to sleep long, in ms from 1 on; 0: it does not
  u32 families;               // of these, those whose own warps have ended; by atomics
  Stuck stuck[kTaskClasses];  // the scheduler's own, which has few registers
  TaskInbox* inboxes;         // of all blocks
  u32 waiting[kTaskClasses][kTaskEntries];  // entries that are not wholly placed, in circles: urgent ones are class 1
};
constexpr u32 kTaken = 7;

__shared__ Board board;
__shared__ Entry entries[kTaskEntries];
__shared__ Block blocks[32];
__shared__ TaskKindEntry known_kinds[16];  // as cached from TaskExecutorParameters::kinds, by the number's low bits
__shared__ u32 known_numbers[16];          // the number + 1
extern __shared__ __attribute__((aligned(1024))) unsigned char arena[];

__device__ u32 lowest(u32 bits) {
  return static_cast<u32>(__ffs(static_cast<int>(bits))) - 1;
}
__device__ u32 count(u32 bits) {
  return static_cast<u32>(__popc(static_cast<int>(bits)));
}

}  // namespace
