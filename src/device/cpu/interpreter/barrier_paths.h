// Which lanes have gone past an aligned barrier at which others of their warp wait.
//
// bar and barrier.aligned are for whole warps: "all threads in the warp must execute the same barrier instruction" (ISA
// 9.7.13.1). Lanes that have exited count as arrived, and a lane may return early, also by a way out that others take
// behind the barrier. So a lane is wrong only where it has come to what all who pass the barrier come to, cannot or did
// not turn back to the barrier, and does something there that others see:
//
//   b: bar.sync      way out: on all paths from b to the end, none leads back: who comes to it never comes to b again
//   ...              turn: on all paths from b to the end. Late lanes (turns end, scheduling.cc) pass it once at most
#pragma once

#include <cstdint>
#include <map>
#include <utility>

#include "src/device/cpu/interpreter/thread.h"

namespace pergola::device::cpu::interp {

// Not thread-safe: a Machine's own.
class BarrierPaths {
 public:
  // `runs` is about to come to the instruction at `pc` of its function while `waits` stands at a barrier: counts in
  // runs.past_barrier, and answers whether it has gone past it. Where the two are in different calls, the innermost
  // call that they share decides.
  bool has_gone_past(const Thread& waits, Thread& runs, std::uint32_t pc);

 private:
  static constexpr std::uint32_t kNone = ~0u;
  struct Marks {
    std::uint32_t turn = kNone, way_out = kNone;
  };
  static Marks marks_of(const FunctionCode& function, std::uint32_t barrier);

  // By the barrier (or the call that leads to it).
  std::map<std::pair<const FunctionCode*, std::uint32_t>, Marks> marks_;
};

// An aligned barrier that lanes wait at.
bool is_aligned_barrier(const Inst& inst);
// What others can see of a thread: stores, atomics, calls.
bool is_effect(const Inst& inst);

}  // namespace pergola::device::cpu::interp
