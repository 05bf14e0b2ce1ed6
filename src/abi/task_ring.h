// How the host and the resident executor speak: a ring of task records for each resident block, which the host writes
// and the block reads, and a line of answers, which the block writes and the host reads. Both are host memory that the
// device reaches (Pagoda, paper 000, 4.2: the TaskTable; docs/decisions/0012 says what replaced its fields).
//
//   host ── records ──▶ │ r │ r │ r │ ... │ kRingRecords of 64 bytes │ ──▶ block        one read brings a task
//   host ◀── answer ─── │ done: a bit a record │ frontier │ state    │ ◀── block        one write tells of many
//
// Nothing here is atomic over the bus but a load or store of one word. Therefore *phases*: a ring is gone through in
// laps, and each word of a record carries the phase of the lap that it was written in, `phase_of(position)`. A record
// is there when all its words have the phase that is due, however the bus has cut the read; no word is looked at twice.
// In the same way a bit of `done` that equals the phase says that the record of this lap is done with. Memory is zero
// at first, so the first lap's phase is 1.
#pragma once

#include "src/abi/task_fence.h"
#include "src/abi/task_slot.h"

namespace pergola::abi {

// A power of two, and a multiple of 32. Few: the rings of a thread stay in its caches, where it writes them fastest.
inline constexpr u32 kRingRecords = 64;
inline constexpr u32 kRecordWords = 8;
inline constexpr u32 kRecordParameterBytes = (kRecordWords - 1) * 8;  // beyond, the first word is their address
inline constexpr u32 kRecordPhaseBit = 63;

// Positions count the records of a ring from 0, over all laps.
constexpr u32 phase_of(u64 position) {
  return (static_cast<u32>(position / kRingRecords) & 1) ^ 1;
}

// Word 0: the kind, the piece of the task (its blocks from piece * TaskKindEntry::piece_blocks on), and the bits that
// the phases have displaced from words 1 to 7, which are the task's parameters.
//
//   bit 63     62          56 55     49 48       47     32 31     0
//      │ phase │ displaced 7..1 │ unused  │ urgent │ kind    │ piece │
struct alignas(64) TaskRecord {
  u64 words[kRecordWords];
};
inline constexpr u32 kRecordDisplacedShift = 55;  // of word w the bit is kRecordDisplacedShift + w
inline constexpr u32 kRecordKindShift = 32;
inline constexpr u32 kRecordUrgentShift = 48;
inline constexpr u32 kTaskClasses = 2;  // of entries that wait: of urgent ones, which are placed first, and of others
inline constexpr u32 kMostKinds = 4096;

// A line of its own for each block, `parks` too: reads of one line of host memory by many blocks wait for each other,
// 3 us each on an H200.
struct TaskRing {
  TaskRecord records[kRingRecords];
  u32 parks;  // the number of the launch that is to end
  u32 unused[15];
};

// Written by the block in whole words; a line, so that the host's read of one thing brings the rest.
struct alignas(64) TaskAnswer {
  u32 done[kRingRecords / 32];
  // All records before this position are done with; its low kFrontierBits. Told at once by the last warp of a block
  // that has nothing more under way, so that the host need not wait for the scheduler warp's next round.
  u32 frontier;
  u32 spawned_here;  // into the block's inbox and taken from it, when the block last parked
  u32 faults;        // how many have been told (abi/task_fence.h)
  u32 unused[11];
};
inline constexpr u32 kFrontierBits = 24;

// What the device keeps of a ring between launches of the executor: a block that parks gives back what it has taken and
// not begun. Of the first one of a class some warps may have been run; the others begin in the next launch.
inline constexpr u32 kMostReturned = 32;   // a lane gives one back
inline constexpr u32 kFewestWaiting = 20;  // that a block holds before it reads no more
struct TaskRingState {
  u32 next;      // position of the record that is read next, without its high bits
  u32 returned;  // how many records before it are to be read again
  u32 positions[kMostReturned];
  u32 done[kRingRecords / 32];  // as told
  // How many warps of the first one of each class have ended already; the urgent ones come first in positions.
  u32 placed[kTaskClasses];
  // Where tasks may spawn tasks (task_inbox.h):
  u32 inbox_next;  // as `next`, of the inbox
  u32 from_inbox;  // bit n: positions[n] is the inbox's
  u32 families;    // of the ring's records that have ended themselves, those whose family goes on
  // Of the first block's alone, for all: how many blocks have had nothing to do for a while, and the last launch whose
  // blocks leave for that.
  u32 cold_blocks, left_cold;
  u32 fault_lock;  // 1: some warp of the device tells a fault of one of the ring's tasks, or their families
};

// A kernel with a shape. The device's copy is written before any record names it, and not changed while the executor
// runs.
struct alignas(16) TaskKindEntry {
  u32 block_x, block_y, block_z, threads;
  u32 grid_x, grid_y, grid_z, piece_blocks;
  u32 body;  // under which the executor has its kernel
  u32 dynamic_shared_bytes;
  u32 shared_bytes;     // of a block: its barriers, then its shared memory
  u32 shared_offset;    // of that memory in it
  u32 barriers;         // bits 0-7: how many; 8-15: named ones it may have instead; 16-31: which of them are words
  u32 blocks;           // of the grid
  u32 parameter_bytes;  // in multiples of 8
  u32 blocks_warps;     // bits 0-7: warps of a block; bit 8: they must be placed together
};
inline constexpr u32 kKindNeedsBlock = 1u << 8;

// What the executor's kernel is launched with.
struct TaskExecutorParameters {
  const TaskRing* rings;
  TaskAnswer* answers;
  TaskRingState* states;
  const TaskKindEntry* kinds;
  struct TaskInbox* inboxes;        // null where no body spawns tasks
  unsigned char* large_parameters;  // of the device: kTaskEntries * large_bytes for each block
  u32 launch;                       // its number, from 1 on
  u32 large_bytes;
  u32 arena_bytes;           // dynamic shared memory: kArenaLeaves * a power of two
  u32 idle_ms;               // blocks leave by themselves once none has had a task for as long
  TaskFault* faults;         // kRingRecords for each block, in host memory
  const void* fence_table;   // abi/task_fence.h; null where bodies have no fences
  struct TaskTrace* traces;  // abi/task_trace.h; null where nothing is noted
  u32 reserve_ns;            // what does not fit is passed by narrower ones for so long, and then waited for
  u32 padding;
};
inline constexpr u32 kTaskEntries = 64;  // tasks, or pieces of them, that a block has taken and not finished
inline constexpr u32 kArenaLeaves = 64;  // the smallest pieces of its shared memory
inline constexpr u32 kTaskMostBarriers = 16;

static_assert(sizeof(TaskRecord) == 64 && sizeof(TaskAnswer) == 64 && sizeof(TaskKindEntry) == 64);
static_assert(sizeof(TaskExecutorParameters) == 96);

}  // namespace pergola::abi
