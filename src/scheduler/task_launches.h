// Launches that run as narrow tasks (policy tasks=small): small ones that are expected to be short go to the session's
// pool of tasks, which runs them beside each other without a stream, an event or a launch of the driver's.
//
//   launch ─▶ offer_task() ─┬─▶ spawned, and noted with its arrays ── ends at some time ─▶ forgotten when next looked
//   at
//                           └─▶ declined, and why (task_report.h) ─▶ submit(), to a stream
//
// Order. A launch becomes a task only where nothing that it has to come after is under way: neither work on a stream
// nor a task nor an access of the host. So nobody waits for anything on its behalf, tasks under way conflict with no
// others, and a chain of small launches stays on its stream, where the device keeps the order for less than the host
// could. What comes later and conflicts with a task under way waits for just that one, on the host, but for those that
// Work::behind covers: for these its stream waits.
//
// The check, the spawn and the note are one step under the scheduler's lock, as is submit()'s look at the tasks and
// placing the work: two threads whose launches conflict are ordered one way or the other. A spawn never waits
// therefore: where there is no room the launch goes to its stream. And a wait for a task never is under the lock, nor
// with what would keep the resident kernel away (Work::held_from_tasks).
//
// Guarded by the scheduler's lock.
#pragma once

#include <boost/container/small_vector.hpp>
#include <chrono>
#include <memory>
#include <optional>
#include <string_view>
#include <vector>

#include "src/device/event.h"
#include "src/scheduler/task_report.h"
#include "src/scheduler/work.h"

namespace pergola::scheduler {

using TaskId = std::uint64_t;  // of the session's pool; never 0
// Work on a stream that a task comes after.
struct Predecessor {
  device::EventPtr end;   // of it, or of what comes later on its stream
  std::string_view name;  // a kernel's, or "copy" and the like; as old as the scheduler
};
using Predecessors = boost::container::small_vector<Predecessor, 4>;

// The session's pool of tasks. Thread-safe; calls nothing of the scheduler's.
class TaskHost {
 public:
  virtual ~TaskHost() = default;
  // Whether the task has ended; its error where it failed. Never blocks.
  virtual Result<bool> check(TaskId id) = 0;
  virtual Status wait(TaskId id, std::optional<std::chrono::nanoseconds> timeout) = 0;
  // Whether a task would have a resident kernel started, which fills the device and waits for what runs there.
  virtual bool would_start_kernel() const = 0;
};

// A kernel with a shape, as a task. Thread-safe.
class TaskForm {
 public:
  enum class State : std::uint8_t { kMaking, kReady, kRefused };
  virtual ~TaskForm() = default;
  // The first call has it made, on another thread.
  virtual State state() = 0;
  virtual std::string refusal() const = 0;  // of kRefused
  // Spawns a task where that takes no waiting; else 0. Of kReady.
  virtual Result<TaskId> try_spawn(std::span<const std::byte> parameters) = 0;
  // What try_spawn() may have lacked, but for room. May wait, for work on streams too.
  virtual Status get_ready() = 0;
};

// A kernel's, by shape. Thread-safe.
class TaskForms {
 public:
  virtual ~TaskForms() = default;
  virtual std::shared_ptr<TaskForm> of(const device::LaunchConfig& shape) = 0;
};

// As the event of a launch that runs as a task: it ends with the task and has its error, and no time.
class TaskEvent final : public device::Event {
 public:
  TaskEvent(std::shared_ptr<TaskHost> host, TaskId id) : host_(std::move(host)), id_(id) {}
  std::optional<Status> poll() override;
  Status wait(std::optional<std::chrono::nanoseconds> timeout) override { return host_->wait(id_, timeout); }
  Result<double> elapsed_ns(const device::Event& start) override;

 private:
  const std::shared_ptr<TaskHost> host_;
  const TaskId id_;
};

// What is small enough, and what is worth starting the resident kernel for.
struct TaskBounds {
  double most_ns = 50e3;                 // that a launch is expected to take
  std::uint32_t most_warps = 31;         // of a launch: of one resident block
  std::uint32_t launches_in_a_row = 16;  // that might be tasks, before the first is, where that starts a kernel
};

struct TaskLaunches {
  static constexpr std::size_t kTickets = 1024;  // a power of two

  std::shared_ptr<TaskHost> host;  // null until there is a pool
  TaskBounds bounds;
  std::vector<TaskId> open;     // not known to have ended
  std::size_t prune_at = 1024;  // so many are asked whether they have ended
  std::uint32_t in_a_row = 0;
  std::uint64_t spawned = 0;
  Status failed;                                                // the first that has since failures were cleared
  std::vector<TaskId> tickets = std::vector<TaskId>(kTickets);  // of the latest, by their number
};

}  // namespace pergola::scheduler
