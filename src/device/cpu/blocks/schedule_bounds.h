// What no schedule of a chain can beat, whatever its policy: which of them is the largest says what a program's time
// hangs on, and how much of it better scheduling could still take away.
//
// All hold of every timeline of schedule_blocks() over the same options. They take the chain's relations as they are,
// so they fall where an analysis becomes more precise, and its blocks' times and shares.
#pragma once

#include <algorithm>

#include "src/device/cpu/blocks/block_schedule.h"

namespace pergola::device::cpu::blocks {

struct ScheduleBounds {
  double launching_ns = 0;  // launches, each a launch's time behind the one that made room for it in the window
  double chain_ns = 0;      // a launch, then the longest chain of blocks by the relations, each as if alone
  double work_ns = 0;       // a launch, then all SMs issue or fetch all that they can until all is done
  double room_ns = 0;       // a launch, then all SMs are full of blocks, each as if alone, until all is done

  double least_ns() const { return std::max({launching_ns, chain_ns, work_ns, room_ns}); }
};

// `chain` and `options` as schedule_blocks() takes them.
ScheduleBounds bounds_of(const LaunchChain& chain, const ScheduleOptions& options);

}  // namespace pergola::device::cpu::blocks
