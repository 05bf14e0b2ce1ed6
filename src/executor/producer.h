// What the executor's two halves of code share: a thread's place among the rings, and how ids are made.
#pragma once

#include <atomic>
#include <memory>
#include <vector>

#include "src/executor/executor.h"

namespace pergola::executor {

// Ids: the ring + 1 above, the position below; of a task of several pieces the highest bit and a number.
inline constexpr int kIdRingShift = 48;
inline constexpr TaskId kGroupBit = TaskId{1} << 63;
inline constexpr TaskId kPositionMask = (TaskId{1} << kIdRingShift) - 1;

// Tasks that a thread puts into one ring before it goes on to the next: few, so that they spread; not one, so that a
// ring's lines change hands seldom.
inline constexpr std::uint32_t kTasksOfATurn = 4;

// A thread's, for one executor. It is used by that thread alone, but for is_orphan.
struct Executor::Producer {
  std::shared_ptr<std::vector<HostRing>> rings;
  std::uint32_t ring = 0;
  std::uint32_t left = 0;  // tasks of this turn
  bool holds = false;      // rings[ring]
  std::uint64_t executor = 0;
  std::atomic<bool> is_orphan{false};  // the executor is gone

  HostRing& held() const { return (*rings)[ring]; }
  void let_go() {
    if (holds) held().release();
    holds = false;
  }
};

}  // namespace pergola::executor
