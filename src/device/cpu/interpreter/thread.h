// The state of the threads and warps of one block.
//
//            barrier, collective                       exit, ret of the entry
//   kReady ───────────────────────▶ kBarrier/kCollective      kReady ──────────▶ kExited
//     ▲  └── nanosleep ──▶ kSleeping ──┐     │
//     └──────── next step ─────────────┴─────┘ released by the machine
//
// Owned by the Machine of the block, and so by one OS thread.
#pragma once

#include <cstdint>
#include <vector>

#include "src/device/cpu/interpreter/code.h"
#include "src/device/types.h"

namespace pergola::device::cpu::interp {

enum class ThreadStatus : std::uint8_t { kReady, kSleeping, kBarrier, kCollective, kExited };

struct Frame {
  const FunctionCode* function = nullptr;
  std::uint32_t return_pc = 0;
  std::uint32_t cells = 0;        // first cell of the frame
  std::uint32_t stack = 0;        // first byte of the frame
  std::uint32_t saved_top = 0;
  const CallSite* site = nullptr;
};

struct Thread {
  std::uint64_t* regs = nullptr;            // the current frame's cells
  const std::uint64_t* constants = nullptr; // the current function's
  const FunctionCode* function = nullptr;
  std::uint32_t pc = 0;
  std::uint32_t frame = 0;                  // the current frame's first byte in the stack
  std::uint32_t stack_top = 0;              // first free byte
  std::uint32_t carry = 0;                  // CC.CF
  ThreadStatus status = ThreadStatus::kReady;
  std::uint32_t lane = 0;
  std::uint32_t warp = 0;
  Dim3 tid{0, 0, 0};
  std::byte* stack = nullptr;
  std::vector<Frame> frames;
  std::vector<std::uint64_t> cells;
  // Waiting: at which instruction, with which lanes, at which barrier.
  const Inst* waiting = nullptr;
  LaneMask members = 0;
  std::int32_t barrier = -1;
  // What it has done behind an aligned barrier where others of its warp wait (barrier_paths.h).
  const Inst* gone_past = nullptr;
  std::uint32_t past_barrier = 0;
  // Its last look at what others may change: where it spins, should it spin.
  const Inst* looked_by = nullptr;
  const std::byte* looked_at = nullptr;
  // The range of the memory map used last, valid for one generation of the map.
  std::uintptr_t cached_begin = 0, cached_end = 0;
  bool cached_writable = false;
  std::uint64_t cached_generation = 0;
};

struct Warp {
  Thread* threads = nullptr;   // lane 0's
  std::uint32_t size = 0;      // lanes that exist
  LaneMask live = 0;           // not exited
  LaneMask ready = 0;
  LaneMask sleeping = 0;
  LaneMask at_barrier = 0;     // waiting at aligned barriers
  int leader = -1;             // scheduling.cc: the lane whose turn it is out of order, -1 lowest pc first
  int last_leader = -1;
  std::uint32_t turn = 0;      // instructions left of the current turn
};

}  // namespace pergola::device::cpu::interp
