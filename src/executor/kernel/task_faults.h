// A task that has left its memory, or trapped: the warp's slot says so when its body is over, and the host is told
// before the task counts as done (abi/task_fence.h). Rare, so one warp of the device at a time for each ring.
#pragma once

#include "executor_board.h"
#include "spawning.h"
#include "src/abi/task_fence.h"

namespace {

// One lane's, behind the body of one of the entry's warps.
__device__ void tell_fault(const TaskExecutorParameters& parameters, const TaskSlot& slot, const Entry& entry) {
  u32 ring = blockIdx.x, record = entry.position % kRingRecords, is_spawned = 0;
  if constexpr (kSpawns) {
    const u32 family = entry.family & ~kFamilyFounder;
    ring = family / kRingRecords;
    record = family % kRingRecords;
    is_spawned = (entry.family & kFamilyFounder) == 0 ? 1 : 0;
  }
  u32* const lock = &parameters.states[ring].fault_lock;
  u32* const told = &parameters.answers[ring].faults;
  TaskFault* const fault = parameters.faults + u64{ring} * kRingRecords + record;
  while (compare_and_swap_global(lock, 0, 1) != 0) __nanosleep(100);
  if (load_system(&fault->is_told) == 0) {
    store_system(&fault->address, slot.fault_address);
    store_system(&fault->body, entry.kind.body);
    store_system(&fault->fault, slot.fault);
    store_system(&fault->index_x, slot.index_x);
    store_system(&fault->index_y, slot.index_y);
    store_system(&fault->index_z, slot.index_z);
    store_system(&fault->block_x, slot.block_x);
    store_system(&fault->block_y, slot.block_y);
    store_system(&fault->warp, slot.warp);
    store_system(&fault->is_spawned, is_spawned);
    fence_system();
    store_system(&fault->is_told, 1);
    const u32 number = load_system(told) + 1;
    fence_system();
    store_system(told, number);
    fence_system();
  }
  store_release_global(lock, 0);
}

}  // namespace
