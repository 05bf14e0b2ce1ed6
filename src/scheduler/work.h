// What is submitted to the scheduler.
#pragma once

#include <algorithm>
#include <boost/container/small_vector.hpp>
#include <functional>
#include <memory>
#include <span>

#include "src/base/call_text.h"
#include "src/base/function_ref.h"
#include "src/base/result.h"
#include "src/device/gate.h"
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
  std::uint16_t argument = 0;  // of a kernel, its number and 1, for pictures; 0: none, or none that has it alone
  bool operator==(const Access&) const = default;
};

inline bool any_writes(std::span<const Access> accesses) {
  return std::any_of(accesses.begin(), accesses.end(), [](const Access& access) { return writes(access.mode); });
}

// Bytes of a kernel's parameter buffer.
struct ByteRange {
  std::uint32_t begin = 0, end = 0;
};
using ByteRanges = boost::container::small_vector<ByteRange, 8>;

// A kernel in another form: its one parameter is the address of a block in memory that holds what were its parameters,
// in their layout. Graphs use it where scalars change from launch to launch.
class BlockForm {
 public:
  virtual ~BlockForm() = default;
  struct Kernel {
    device::ModulePtr module;
    const device::Kernel* kernel = nullptr;
  };
  // Compiles when it is first called, so it is called where nobody waits for a launch; the same answer every time. An
  // error says why there is none. By one thread at a time.
  virtual Result<Kernel> make() = 0;
  // It has been made and there is none: guarded by the scheduler's lock.
  bool refused = false;
};

// A kernel launch as a graph would repeat it.
struct KernelCall {
  const device::ModulePtr& module;
  const device::Kernel& kernel;
  const device::LaunchConfig& config;
  std::span<const std::byte> parameters;
  // Which bytes are plain numbers, ascending: where others stand in them the launch accesses the same arrays. Asked
  // only while launches are compared. Both are null where there is no other form.
  const FunctionRef<ByteRanges()>* scalars = nullptr;
  const std::shared_ptr<BlockForm>* block_form = nullptr;
  // As its caller wrote it, where the same text may stand for the same launch again; else null.
  const CallText* text = nullptr;
};

// A copy between an array's page-locked host side and its memory on the device, as a graph would repeat it. Both are
// those of the resources that the work accesses, and live as long as these.
struct CopyCall {
  const device::BufferPtr& to;
  const device::BufferPtr& from;
  std::size_t size_bytes = 0;  // from the first byte of both
};

// What whoever submits holds and tasks under way may need to go on. Submitting gives it back while it waits for tasks.
class HeldFromTasks {
 public:
  virtual ~HeldFromTasks() = default;
  virtual void release() = 0;
  virtual Status acquire() = 0;
};

// Tasks that work comes after, queued behind a gate that whoever runs them opens when they have ended, however.
struct BehindTasks {
  device::GatePtr gate;
  std::uint32_t number = 0;
  std::function<bool(std::uint64_t task)> covers;  // whether that TaskId is one of them; any thread
};

struct Work {
  WorkKind kind = WorkKind::kKernel;
  WorkSite* site = nullptr;  // of Scheduler::site()
  std::span<const Access> accesses;
  Mode universal = Mode::kNone;      // accesses to it cannot be told
  const KernelCall* call = nullptr;  // of a launch that may become part of a graph; what `enqueue` would do
  const CopyCall* copy = nullptr;    // the same of a copy
  // For recordings: called under the lock, where there is one. May be null.
  const FunctionRef<WorkDetail()>* detail = nullptr;
  bool may_wait = true;  // for other threads at its bytes; else kTimeout where there are any, and nothing has happened
  bool host_waits = false;  // soon: an event is recorded right behind it, or when the host begins to wait
  // Called under the lock with the queue that the work goes on, once that waits for what the work depends on and before
  // the work is queued. May be null.
  const FunctionRef<Status(device::Queue&)>* prepare = nullptr;
  HeldFromTasks* held_from_tasks = nullptr;  // acquired when the work is submitted, and afterwards
  const BehindTasks* behind = nullptr;       // its stream waits for them; may be null
  double least_ns = 0;                       // of a graph: what it takes at least, as far as is known
};

}  // namespace pergola::scheduler
