// What an executor warp holds while it runs one warp of a task: who it is in the task's block, and where that block's
// memory is. Written by whoever places the warp (the scheduler warp of a resident block), read by the task's body.
//
//   shared memory of a resident block, which is one-dimensional
//   pergola_task_slots ─▶ │ slot of warp 0 │ slot of warp 1 │ ... │ slot of warp 31 │   a thread's: number %tid.x / 32
//
// A slot must be whole, and visible to all lanes of its warp, before the warp enters the body; it stays as it is until
// the last lane has left, `live` apart, which is the body's own. PTX that transform/entry_to_task makes has these
// offsets as numbers, so they are asserted here; device code includes this header and gets the same assertions.
#pragma once

#ifdef __CUDACC_RTC__
namespace pergola::abi {
using u32 = unsigned;
using u64 = unsigned long long;
#else
#include <cstddef>
#include <cstdint>
namespace pergola::abi {
using u32 = std::uint32_t;
using u64 = std::uint64_t;
#endif

inline constexpr u32 kTaskMostThreads = 992;  // of a block of a task: 31 warps, one is the scheduler's

struct alignas(16) TaskSlot {
  u32 block_x, block_y, block_z;  // %ntid
  u32 threads;                    // their product
  u32 index_x, index_y, index_z;  // %ctaid
  u32 warp;                       // of this warp in its block
  u32 grid_x, grid_y, grid_z;     // %nctaid
  u32 shared_base;                // of the block's shared memory, as an address of .shared
  u64 parameters;                 // of the parameter block, as an address of .global (or .shared, see TaskConfig)
  u32 barriers;                   // of the block's TaskBarriers, as an address of .shared
  u32 named_barrier;              // the first of as many named barriers as the body wants; 0: none
  u64 task_id;                    // %gridid
  u32 dynamic_shared_bytes;
  u32 live;  // lanes that have not returned; the body writes it
  u32 here;  // lanes that wait for each other; zero outside of a body
  // Of a body with fences (abi/task_fence.h), which writes them: what the warp did wrong first, as kFault says, and the
  // address; how many accesses that may wait for others it has left out. Zero before a body.
  u32 fault;
  u64 fault_address;
  u32 left_out;
  u32 unused[3];
};

// A barrier of a block of a task: an mbarrier that counts warps, or a word of the form below. Which of the two is
// TaskBarrierKind in transform/entry_to_task.h; the number of warps of the block is in both at the start.
//
//   bit 63      44 43    32 31         20 19      18        17     12 11      6 5      0
//       │ phase   │ result │ sum so far  │counted│ draining │ readers │ expected │ arrived │
//
// A warp arrives once, for all its lanes. `expected` is how many warps are left in the block, for arrivals without a
// count. `result` is the last phase's sum of bar.red; until its `readers` have it (`draining`) nobody may arrive.
struct alignas(8) TaskBarrier {
  u64 state;
};

inline constexpr u32 kTaskBarrierExpectedShift = 6;
inline constexpr u32 kTaskBarrierReadersShift = 12;
inline constexpr u32 kTaskBarrierDrainingBit = 18;
inline constexpr u32 kTaskBarrierCountedBit = 19;
inline constexpr u32 kTaskBarrierSumShift = 20;
inline constexpr u32 kTaskBarrierResultShift = 32;
inline constexpr u32 kTaskBarrierPhaseShift = 44;

#define PERGOLA_SLOT_AT(field, offset) static_assert(__builtin_offsetof(TaskSlot, field) == (offset))
PERGOLA_SLOT_AT(block_x, 0);
PERGOLA_SLOT_AT(block_y, 4);
PERGOLA_SLOT_AT(block_z, 8);
PERGOLA_SLOT_AT(threads, 12);
PERGOLA_SLOT_AT(index_x, 16);
PERGOLA_SLOT_AT(index_y, 20);
PERGOLA_SLOT_AT(index_z, 24);
PERGOLA_SLOT_AT(warp, 28);
PERGOLA_SLOT_AT(grid_x, 32);
PERGOLA_SLOT_AT(grid_y, 36);
PERGOLA_SLOT_AT(grid_z, 40);
PERGOLA_SLOT_AT(shared_base, 44);
PERGOLA_SLOT_AT(parameters, 48);
PERGOLA_SLOT_AT(barriers, 56);
PERGOLA_SLOT_AT(named_barrier, 60);
PERGOLA_SLOT_AT(task_id, 64);
PERGOLA_SLOT_AT(dynamic_shared_bytes, 72);
PERGOLA_SLOT_AT(live, 76);
PERGOLA_SLOT_AT(here, 80);
PERGOLA_SLOT_AT(fault, 84);
PERGOLA_SLOT_AT(fault_address, 88);
PERGOLA_SLOT_AT(left_out, 96);
#undef PERGOLA_SLOT_AT
static_assert(sizeof(TaskSlot) == 112);
static_assert(sizeof(TaskBarrier) == 8);

}  // namespace pergola::abi
