// Narrow tasks that a device runs by itself, where it can run many small launches as cheaply as a resident kernel would
// (executor/): each with an end and an error of its own, in no order with each other nor with the device's queues.
//
//   spawn() ─▶ open ─▶ ended, well or with its own error ─▶ wait(), check(), wait_all()
//
// Thread-safe. A runner keeps its device, a kind its module, an open task its kind.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "src/base/result.h"
#include "src/device/kernel.h"
#include "src/device/task_slices.h"
#include "src/device/types.h"

namespace pergola::device {

struct TaskRunnerInfo {
  std::uint32_t threads = 0;    // of the host, that run tasks
  std::uint32_t most_open = 0;  // tasks, before a spawn waits
  std::uint64_t memory_bytes = 0, spawned = 0, spawned_by_tasks = 0, failed = 0;
};

// A task that has been spawned by tasks has no id: the one that it began with, the host's, ends when all of them have,
// and fails with what the first of them fails with.
class TaskRunner {
 public:
  using Id = std::uint64_t;  // of one runner; never 0

  // A kernel with a shape, checked.
  class Kind {
   public:
    virtual ~Kind() = default;
  };
  using KindPtr = std::shared_ptr<const Kind>;

  virtual ~TaskRunner() = default;  // as end()
  // Waits for its tasks, as a queue for its work that is destroyed: those that get nowhere are stopped. Nothing may be
  // spawned from now on; what has become of tasks may be asked.
  virtual void end() = 0;

  // Checks what Queue::launch() would.
  virtual Result<KindPtr> kind(const ModulePtr& module, const Kernel& kernel, const LaunchConfig& config) = 0;
  // `parameters` are as the kernel's signature lays them out, and are copied. Waits where as many tasks as there is
  // room for are open. Tasks of high priority are begun before all others that wait, in the order of their spawns as
  // these.
  virtual Result<Id> spawn(const KindPtr& kind, std::span<const std::byte> parameters, bool high_priority) = 0;
  // The same where there is room at once; else 0.
  virtual Result<Id> try_spawn(const KindPtr& kind, std::span<const std::byte> parameters) = 0;

  // What stands for a kind where tasks spawn tasks (abi/task_inbox.h); the runner keeps the kind from then on.
  // kUnsupported, with the numbers, where its parameters are too many for that.
  virtual Result<std::uint64_t> handle_of(const KindPtr& kind, bool high_priority) = 0;

  // How the task ended: its own error where it failed. kTimeout where it goes on, kInvalidArgument for what is no id.
  virtual Status wait(Id id, std::optional<std::chrono::nanoseconds> timeout) = 0;
  // Whether it has ended; its error where it failed.
  virtual Result<bool> check(Id id) = 0;
  // Whether it has ended, whatever how; tells nobody of a failure. Of an id that it gave out.
  virtual bool has_ended(Id id) = 0;
  // Those that have not ended now, in the order of their spawns.
  virtual std::vector<Id> open_tasks() = 0;
  // Messages call the task by `as` from now on (TaskFailures::call_by).
  virtual void call_by(Id id, Id as) = 0;
  // For all spawned before the call. The failures that nobody has been told of yet are told here, once: the first one's
  // error, and which tasks they are.
  virtual Status wait_all(std::optional<std::chrono::nanoseconds> timeout) = 0;
  // Those that go on and may have been given an address from `begin` to `end`, or have spawned one that may; in the
  // order of their spawns.
  virtual std::vector<Id> users_of(DeviceAddress begin, DeviceAddress end) = 0;
  // As wait_all(), for these.
  virtual Status wait_for(std::vector<Id> ids, std::optional<std::chrono::nanoseconds> timeout) = 0;
  // From now on the newest `most` slices are kept; those so far are forgotten. 0: none are, which is so at first.
  virtual void keep_slices(std::size_t most) = 0;
  // Those of the tasks that have ended since; spawned ones have the id 0. Takes them away.
  virtual TaskSlices take_slices() = 0;
  // Whether wait_all() would tell any now.
  virtual bool has_untold() = 0;
  virtual TaskRunnerInfo info() const = 0;
};

}  // namespace pergola::device
