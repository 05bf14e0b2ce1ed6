// What is submitted to the scheduler.
#pragma once

#include <span>

#include "src/base/function_ref.h"
#include "src/base/result.h"
#include "src/device/kernel.h"
#include "src/device/queue.h"
#include "src/scheduler/dag_log.h"
#include "src/scheduler/resource.h"
#include "src/scheduler/timeline.h"

namespace pergola::scheduler {

struct Access {
  Resource* resource = nullptr;
  Range range;
  Mode mode = Mode::kNone;
};

// A kernel launch as a graph would repeat it.
struct KernelCall {
  const device::ModulePtr& module;
  const device::Kernel& kernel;
  const device::LaunchConfig& config;
  std::span<const std::byte> parameters;
};

struct Work {
  WorkKind kind = WorkKind::kKernel;
  WorkSite* site = nullptr;  // of Scheduler::site()
  std::span<const Access> accesses;
  Mode universal = Mode::kNone;      // accesses to it cannot be told
  const KernelCall* call = nullptr;  // of a launch that may become part of a graph; what `enqueue` would do
  // For recordings: called under the lock, where there is one. May be null.
  const FunctionRef<WorkDetail()>* detail = nullptr;
  bool host_waits = false;  // soon: an event is recorded right behind it
  // Called under the lock with the queue that the work goes on, once that waits for what the work depends on and before
  // the work is queued. May be null.
  const FunctionRef<Status(device::Queue&)>* prepare = nullptr;
};

}  // namespace pergola::scheduler
