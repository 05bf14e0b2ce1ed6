// What a resident block notes of the tasks that have ended, where its pool is made for that (TaskPoolOptions::slices):
// when each began and ended, on the device's clock (%globaltimer, PTX ISA 10.21).
//
//   warps ── one record a task, or a piece of one ──▶ │ header │ r │ r │ ... │ kTraceRecords │ ──▶ host, while the
//                                                                                                  kernel is away
//
// The device's memory. A record is written by the warp that ends the task, at the place that it has got by an addition
// to the block's count; the oldest are overwritten. The host reads when the resident kernel has ended, so nothing here
// needs an order of its own.
#pragma once

#include "src/abi/task_slot.h"

namespace pergola::abi {

inline constexpr u32 kTraceRecords = 1024;  // a power of two: the counts may wrap

struct alignas(32) TaskTraceRecord {
  u64 task;  // its record's position in the ring; bit 63: another task has spawned it, and the position is the inbox's
  u64 begun_ns, ended_ns;
  u64 body;  // TaskKindEntry::body
};
inline constexpr u64 kTraceSpawned = u64{1} << 63;

struct alignas(64) TaskTrace {
  u64 started_ns;  // when the block last started
  u32 count;       // records written so far, as it was when the block last ended
  u32 unused[13];
  TaskTraceRecord records[kTraceRecords];
};

static_assert(sizeof(TaskTraceRecord) == 32 && sizeof(TaskTrace) == 64 + 32 * kTraceRecords);

}  // namespace pergola::abi
