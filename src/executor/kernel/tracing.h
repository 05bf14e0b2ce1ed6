// When tasks began and ended (abi/task_trace.h). Where the kernel is not compiled with PERGOLA_TASKS_TRACE there is
// nothing of it.
#pragma once

#include "executor_board.h"
#include "src/abi/task_trace.h"

namespace {

#ifdef PERGOLA_TASKS_TRACE

__shared__ u64 begun_ns[kTaskEntries];  // the scheduler's, until it has ordered the entry's first warps; then constant
__shared__ u32 traced;                  // records so far; by atomics

// The first warp's, before the block's other warps go on.
__device__ void begin_trace(const TaskExecutorParameters& parameters, u32 lane) {
  if (lane != 0) return;
  TaskTrace& trace = parameters.traces[blockIdx.x];
  traced = trace.count;
  trace.started_ns = global_time();
}
// The scheduler's, when no warp has anything left to run.
__device__ void end_trace(const TaskExecutorParameters& parameters, u32 lane) {
  if (lane == 0) parameters.traces[blockIdx.x].count = load_relaxed(&traced);
}
// The scheduler's whole warp, before it orders some of the entry's warps: `placed` have been so far. What it writes is
// before the orders, whichever lanes give them.
__device__ void note_begin(u32 entry, u32 placed, u32 lane) {
  if (placed == 0 && lane == 0) begun_ns[entry] = global_time();
  __syncwarp();
}
// One lane's, of the entry's last warp, before the entry is free.
__device__ void note_end(const TaskExecutorParameters& parameters, u32 number, bool is_spawned) {
  const Entry& entry = entries[number];
  TaskTraceRecord& to = parameters.traces[blockIdx.x].records[add_relaxed(&traced, 1) % kTraceRecords];
  to.task = entry.position | (is_spawned ? kTraceSpawned : 0);
  to.begun_ns = begun_ns[number];
  to.ended_ns = global_time();
  to.body = entry.kind.body;
}

#else

__device__ void begin_trace(const TaskExecutorParameters&, u32) {}
__device__ void end_trace(const TaskExecutorParameters&, u32) {}
__device__ void note_begin(u32, u32, u32) {}
__device__ void note_end(const TaskExecutorParameters&, u32, bool) {}

#endif

}  // namespace
