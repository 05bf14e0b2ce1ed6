// Edges between streams and tasks: a thread of the pool's, the edges' keeper, waits for them, so that neither who
// spawns nor who launches does.
//
//   spawn behind work on streams                              the work's events
//     hold() ─▶ [high: ▪▪▪][normal: ▪▪▪▪▪] ── all have ended ─▶ spawn(), with the runner's own id ─▶ released
//                                          └─ one has failed ─▶ skipped: the task's failure, which names the cause
//
// A held task has an id of its own (kHeldBit) from the beginning; messages call it by that (TaskFailures::call_by). Of
// tasks whose work has ended those of high priority go first, and each class in the order of its spawns. At most
// kMostHeld are held: a further hold() waits.
//
// Looking. The keeper polls each event once a round, however many tasks wait for it: on a GPU a look at the word that
// the stream writes (cuda/host_word.h), else a question to the driver. It looks without sleeping for 20 us after
// anything has happened, then sleeps from 20 to 200 us between two looks; where nothing is held it sleeps.
//
// Ownership: the pool's work has it, and what a held task is spawned with. It holds no arrays and no session: who lets
// go of the last of these waits for the tasks, which the keeper must not. Threads: thread-safe; mutex_ guards what says
// so, and is not held while events are asked or tasks spawned. No atomics: all that threads share is behind it.
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "src/device/event.h"
#include "src/device/task_failures.h"
#include "src/scheduler/scheduler.h"
#include "src/scheduler/task_launches.h"

namespace pergola::runtime {

class TaskEdges {
 public:
  using TaskId = scheduler::TaskId;
  using Deadline = scheduler::Scheduler::Deadline;
  static constexpr TaskId kHeldBit = TaskId{1} << 62;
  static constexpr TaskId kNeverRan = ~TaskId{0};  // was skipped, or ended long ago
  static constexpr std::size_t kMostHeld = 4096;

  struct Task {
    std::string kernel;  // for messages
    bool high_priority = false;
    scheduler::Predecessors after;
    std::function<Result<TaskId>()> spawn;  // called once at most, by the keeper; may wait for room
  };

  // Of whoever runs the tasks; called by any thread, has_ended() under mutex_.
  struct Runner {
    std::function<bool(TaskId id)> has_ended;
    std::function<void(TaskId id, TaskId as)> call_by;  // in messages, from now on
  };
  explicit TaskEdges(Runner runner) : runner_(std::move(runner)) {}
  ~TaskEdges();  // once all that is held has been released or skipped
  TaskEdges(const TaskEdges&) = delete;
  TaskEdges& operator=(const TaskEdges&) = delete;

  // The id of the task, which the keeper spawns. Waits where too many are held.
  TaskId hold(Task task);

  static bool is_held_id(TaskId id) { return (id & kHeldBit) != 0 && id >> 63 == 0; }
  // The runner's id of a task that was held; 0 while it is, kNeverRan where it ended long ago. Its failure where it was
  // skipped or could not be spawned; kInvalidArgument for what is no such id.
  Result<TaskId> released(TaskId id);
  // The same, waiting for it: kTimeout where it is still held.
  Result<TaskId> await_release(TaskId id, Deadline deadline);
  // All that were held before the call.
  Status await_all(Deadline deadline);
  // The failures of tasks that never ran and that nobody has been told of, once (TaskFailures::untold).
  Status untold() { return failures_.untold(); }
  std::size_t held() const;

 private:
  struct Watch {
    device::EventPtr event;  // until its outcome is known
    std::optional<Status> outcome;
  };
  struct Held {
    std::uint64_t number = 0;
    Task task;
    std::vector<std::shared_ptr<Watch>> watches;
  };
  using Queues = std::list<Held>[2];  // of high priority, and the others

  void run();
  // The keeper's, without the lock: whether anything has happened.
  bool look();
  bool release_ready();
  bool high_has_arrived() const;
  void release(Held held);
  std::shared_ptr<Watch> watch(const device::EventPtr& event);
  TaskId find(std::uint64_t number) const;  // under mutex_
  Result<TaskId> told(TaskId id, TaskId found);

  static constexpr std::size_t kMostKnown = device::TaskFailures::kMost;

  const Runner runner_;
  device::TaskFailures failures_;  // of tasks that never ran, by the ids given out here

  mutable std::mutex mutex_;
  std::condition_variable wakes_, has_room_, has_released_;
  // Guarded by mutex_:
  Queues arrived_;
  std::size_t held_ = 0;
  std::uint32_t high_wait_for_room_ = 0;
  bool stops_ = false;
  // What became of them by number, from first_known_ on: the runner's id, kNeverRan, or 0. Ids given out long ago are
  // forgotten as ones that have ended; nothing that may go on is, so a task without end keeps those after it known.
  std::deque<TaskId> known_;
  std::uint64_t first_known_ = 1, first_held_ = 1;  // all before the second have been released

  // The keeper's:
  Queues waiting_;
  std::vector<std::shared_ptr<Watch>> watches_;
  bool has_new_ = false;         // in waiting_, that nobody has looked at
  bool was_broken_off_ = false;  // releasing, for what is to go first
  std::thread keeper_;           // from the first hold() on; written under mutex_
};

}  // namespace pergola::runtime
