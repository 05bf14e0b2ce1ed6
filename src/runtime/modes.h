// The session's words for accesses, as the scheduler has them.
#pragma once

#include "src/scheduler/resource.h"
#include "src/session/types.h"

namespace pergola::runtime {

// What is not known counts as both.
constexpr scheduler::Mode mode_of(session::Access access) {
  switch (access) {
    case session::Access::kNone: return scheduler::Mode::kNone;
    case session::Access::kRead: return scheduler::Mode::kRead;
    case session::Access::kWrite: return scheduler::Mode::kWrite;
    case session::Access::kReadWrite:
    case session::Access::kUnknown: break;
  }
  return scheduler::Mode::kReadWrite;
}

}  // namespace pergola::runtime
