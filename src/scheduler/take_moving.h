// Work::prepare of launches whose submitter is not there: takes the memory that they use and that moves.
#pragma once

#include <algorithm>
#include <span>

#include "src/scheduler/policy.h"
#include "src/scheduler/work.h"

namespace pergola::scheduler {

class TakeMoving {
 public:
  TakeMoving(const Policy& policy, std::span<const Access> accesses)
      : may_move_(policy.memory == Memory::kManaged), accesses_(accesses) {}
  Status operator()(device::Queue& queue) const {
    for (const Access& access : accesses_)
      if (MovingMemory* const memory = access.resource->moving()) PERGOLA_TRY(memory->take(queue));
    return {};
  }
  bool is_needed() const {
    return may_move_ && std::any_of(accesses_.begin(), accesses_.end(),
                                    [](const Access& access) { return access.resource->moving() != nullptr; });
  }

 private:
  const bool may_move_;
  const std::span<const Access> accesses_;
};

}  // namespace pergola::scheduler
