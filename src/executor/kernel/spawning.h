// Tasks that spawn tasks: pergola_task_spawn(), which bodies call (pergola/device/tasks.h), and the ends of families
// (abi/task_inbox.h).
//
// A lane looks at two inboxes, anybody's, and takes the emptier one: tasks spread over the device, and none waits long
// behind others while there is room elsewhere. Claims are atomics of the device's memory; a record is written by who
// claimed it, behind a fence, and read by the scheduler of the block.
//
// Who ends a family's last task sees, by the acq_rel additions to its count, what all of its tasks have written, and
// releases it to the block that the family began in.
#pragma once

#include "executor_board.h"
#include "src/abi/task_fence.h"

#ifdef PERGOLA_TASKS_SPAWN
constexpr bool kSpawns = true;
#else
constexpr bool kSpawns = false;  // no body in the executor does: it costs nothing
#endif

namespace {

constexpr u32 kInboxTries = 4;

__device__ TaskInbox& inbox_of_family(u32 family) {
  return board.inboxes[(family & ~kFamilyFounder) / kRingRecords];
}

// The number of an inbox with one more place that is the caller's; kAll where there was none.
__device__ u32 claim_inbox() {
  u32 clock;
  asm volatile("mov.u32 %0, %%clock;" : "=r"(clock));
  u32 random = (clock ^ threadIdx.x * 0x9e3779b9u ^ blockIdx.x * 0x85ebca6bu) * 0xc2b2ae35u;
  for (u32 tries = 0; tries < kInboxTries; ++tries) {
    const u32 one = __umulhi(random, gridDim.x);
    random = random * 1664525u + 1013904223u;
    const u32 other = __umulhi(random, gridDim.x);
    random = random * 1664525u + 1013904223u;
    const u32 used_one = load_relaxed_global(&board.inboxes[one].used);
    const u32 used_other = load_relaxed_global(&board.inboxes[other].used);
    const u32 best = used_one <= used_other ? one : other;
    if (add_global(&board.inboxes[best].used, 1) < kInboxRecords) return best;
    add_release_global(&board.inboxes[best].used, kAll);
  }
  return kAll;
}

// Into a place that has been claimed. `pieces`: how many from `piece` on.
__device__ void write_record(u32 inbox, u64 head, const u64 (&words)[kRecordWords - 1]) {
  TaskInbox& to = board.inboxes[inbox];
  const u32 position = add_global(&to.tail, 1);
  const u64 phase = u64{inbox_phase_of(position)} << kRecordPhaseBit;
  constexpr u64 kPhase = u64{1} << kRecordPhaseBit;
  head |= phase;
  for (u32 n = 0; n + 1 < kRecordWords; ++n)
    head |= (words[n] >> kRecordPhaseBit) << (kRecordDisplacedShift + 1 + n);
  u64* const record = to.records[position % kInboxRecords].words;
  store_relaxed_global(record + 2, (words[1] & ~kPhase) | phase, (words[2] & ~kPhase) | phase);
  store_relaxed_global(record + 4, (words[3] & ~kPhase) | phase, (words[4] & ~kPhase) | phase);
  store_relaxed_global(record + 6, (words[5] & ~kPhase) | phase, (words[6] & ~kPhase) | phase);
  store_relaxed_global(record, head, (words[0] & ~kPhase) | phase);
}

// One lane's: all warps of the entry have ended. Whether that is to be told now: of a task from the host, unless its
// family goes on.
__device__ bool end_in_family(const Entry& entry) {
  TaskInbox& home = inbox_of_family(entry.family);
  const u32 record = entry.family % kRingRecords;
  if ((entry.family & kFamilyFounder) != 0) {
    if (entry.has_spawned == 0) return true;
    add(&board.families, 1);  // before others can end the family
    if (add_acq_rel_global(&home.families[record], kFamilyAlone) != 0) return false;
    subtract(&board.families);
    store_relaxed_global(&home.families[record], 0);
    return true;
  }
  add_release_global(&board.inboxes[blockIdx.x].used, kAll);
  if (add_acq_rel_global(&home.families[record], kAll) == (kFamilyAlone | 1)) {
    store_relaxed_global(&home.families[record], 0);
    set_bits_global(&home.over[record / 32], 1u << record % 32);
  }
  return false;
}

}  // namespace

#ifdef PERGOLA_TASKS_SPAWN
// Whether it has been spawned. A task of several pieces becomes as many records where there is room for them; the
// first one, which is written last, stands for those that found none.
extern "C" __device__ __attribute__((noinline)) u32 pergola_task_spawn(u64 handle, u32 bytes, u64 word_0, u64 word_1,
                                                                       u64 word_2, u64 word_3, u64 word_4,
                                                                       u64 word_5) {
  if (handle >> kHandleMagicShift != kHandleMagic || (handle >> kHandleBytesShift & 0xffff) != bytes) {
    if (pergola_fence_table == 0) __trap();  // nobody is told
    TaskSlot& slot = pergola_task_slots[threadIdx.x / 32];
    if (compare_and_swap(&slot.fault, 0, kFaultNoHandle << kFaultSiteShift | threadIdx.x % 32) == 0)
      slot.fault_address = handle;
    return 0;
  }
  Entry& entry = entries[board.orders[threadIdx.x / 32] >> kOrderEntryShift & (kTaskEntries - 1)];
  const u32 family = entry.family & ~kFamilyFounder;
  const u32 first = claim_inbox();
  if (first == kAll) return 0;
  u32* const members = &inbox_of_family(family).families[family % kRingRecords];
  const u64 words[kRecordWords - 1] = {word_0, word_1, word_2, word_3, word_4, word_5, family};
  const u64 kind =
      (handle & (kMostKinds - 1)) << kRecordKindShift | (handle >> kHandleUrgentShift & 1) << kRecordUrgentShift;
  entry.has_spawned = 1;
  add_global(members, 1);  // before anybody can end it
  fence_device();
  u32 pieces = static_cast<u32>(handle >> kHandlePiecesShift) & kMostHandlePieces;
  for (; pieces > 1; --pieces) {
    const u32 other = claim_inbox();
    if (other == kAll) break;
    add_global(members, 1);
    fence_device();
    write_record(other, kind | 1u << 16 | (pieces - 1), words);
  }
  write_record(first, kind | u64{pieces} << 16, words);
  return 1;
}
#endif
