// How tasks spawn tasks: an inbox of records for each resident block, in the device's memory, into which any lane of
// any block puts tasks and which the block's scheduler reads beside its ring. And who waits for these: a *family*, a
// task of the host's with all that it and its descendants have spawned, which is done when all of them are.
//
//   lane of a task ── claims room, then a position, writes a record ─▶ │ r │ r │ r │ ... │ inbox of a block ─▶ scheduler
//
// Records are those of a ring (task_ring.h), with phases of these laps. Word 0: `piece` has the first of the task's
// pieces that it stands for below and their number above; word 7 is the family, so a task spawned here has 48 bytes of
// parameters at most.
//
// `used` counts tasks that have been claimed and have not ended, not more than there are records. They are taken in
// order; so while one waits all behind it are counted, and its record is not written over. It can be read again by the
// executor's next launch.
#pragma once

#include "src/abi/task_ring.h"

namespace pergola::abi {

// The device function that a kernel calls (pergola/device/tasks.h): of the executor in a body, of the device elsewhere.
inline constexpr char kTaskSpawnFunction[] = "pergola_task_spawn";

inline constexpr u32 kInboxRecords = 512;  // a power of two
inline constexpr u32 kInboxParameterBytes = kRecordParameterBytes - 8;

constexpr u32 inbox_phase_of(u32 position) {
  return (position / kInboxRecords & 1) ^ 1;
}

struct alignas(64) TaskInbox {
  TaskRecord records[kInboxRecords];
  u32 used;  // by atomics
  u32 tail;  // the next position, by atomics
  u32 unused[14];
  // Bit n: the family of the ring's record n is over. Set by who ends its last task, taken by the scheduler.
  u32 over[kRingRecords / 32];
  u32 unused_too[14];
  // Of each record of the block's ring: tasks of its family, itself apart, that have not ended; and kFamilyAlone once
  // it has ended itself.
  u32 families[kRingRecords];
};
inline constexpr u32 kFamilyAlone = 1u << 31;

// What stands for a kind on the device, as an argument of kernels: its number, whether its tasks are urgent, its bytes
// of parameters, and how many pieces a task of it has.
//
//   bit 63    48 47     32 31       16 15       14     0
//      │ magic  │ pieces  │ bytes     │ urgent │ kind   │
constexpr u64 kHandleMagic = 0x9e7a;
inline constexpr u32 kHandleUrgentShift = 15, kHandleBytesShift = 16, kHandlePiecesShift = 32, kHandleMagicShift = 48;
inline constexpr u32 kMostHandlePieces = 0xffff;
constexpr u64 task_handle(u32 kind, bool is_urgent, u32 parameter_bytes, u32 pieces) {
  return kHandleMagic << kHandleMagicShift | u64{pieces} << kHandlePiecesShift |
         u64{parameter_bytes} << kHandleBytesShift | u64{is_urgent} << kHandleUrgentShift | kind;
}

static_assert(sizeof(TaskInbox) == kInboxRecords * sizeof(TaskRecord) + 128 + 4 * kRingRecords);
static_assert(kMostKinds <= 1 << kHandleUrgentShift);

}  // namespace pergola::abi
