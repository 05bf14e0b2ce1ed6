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
//   ordinary work behind tasks                              the tasks have ended, however
//     follow() ─▶ a gate, which its stream waits for ────────────▶ the gate is opened, the resident kernel sent away
//
// Stays. A resident kernel fills the device, so what waits behind its tasks needs it away. The first follow() has it
// stay (executor.h), and later ones join that stay; none joins any more once the tasks of one have ended. When those of
// all have, the kernel is told to leave and all the gates are opened: it has run the tasks waited for and those begun.
// While it stays other ordinary work goes behind the same gates (join()) instead of waiting for it on the host. From
// follow() to the opening no driver is asked for anything, nothing is started and no lock is taken that somebody holds
// inside a driver: so a launch that waits in there, for room or for the device, waits for tasks alone. Hence the keeper
// neither asks events nor releases tasks while a resident kernel stays, and a task that is still held back cannot be
// followed there: it may need that kernel's next start.
// Threads that run tasks fill nothing, and know no stays: a gate is opened when its tasks have ended.
//
// Ending. A session that goes waits for all that is held and followed, as long as anything gets on (moves()). Where
// nothing does, what a held task comes after may never end: refuse_held() has the keeper skip all that is held, and say
// what each has waited for. What streams wait behind gates for is tasks, which are waited for, or stopped, as such.
//
// Looking. The keeper polls each event once a round, however many tasks wait for it: on a GPU a look at the word that
// the stream writes (cuda/host_word.h), else a question to the driver. It looks without sleeping for 20 us after
// anything has happened, then sleeps from 20 to 200 us between two looks; where nothing is held it sleeps.
//
// Ownership: the pool's work has it, and what a held task is spawned with. It holds no arrays and no session: who lets
// go of the last of these waits for the tasks, which the keeper must not. Threads: thread-safe; mutex_ guards what says
// so, and is not held while events are asked or tasks spawned. No atomics: all that threads share is behind it.
#pragma once

#include <chrono>
#include <deque>
#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "src/base/fork.h"
#include "src/base/function_ref.h"
#include "src/device/device.h"
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

  // Tasks that are open at a time, as their runner puts it: how many each ring has had, or ids in ascending order.
  using Open = std::vector<std::uint64_t>;
  // Of whoever runs the tasks; called by any thread, has_ended() and open() under mutex_.
  struct Runner {
    std::function<bool(TaskId id)> has_ended;
    std::function<void(TaskId id, TaskId as)> call_by;  // in messages, from now on
    std::function<Open()> open;
    std::function<bool(const Open& open)> have_ended;
    std::function<bool(const Open& open, TaskId id)> covers;
    // Of a resident kernel (Executor::stay, leave); else empty.
    std::function<bool()> stay;
    std::function<void(FunctionRef<void()> told)> leave;
  };
  explicit TaskEdges(Runner runner) : runner_(std::move(runner)) {}
  ~TaskEdges();  // once all that is held has been released, skipped or refused, and all gates have been opened
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
  bool has_untold() { return failures_.has_untold(); }
  std::size_t held() const;
  bool is_idle() const;  // nothing is held, no gate closed
  // Grows with each task that is released and each gate that is opened.
  std::uint64_t moves() const;
  // The session ends: tasks that are held still, which nobody adds to any more, are not run, and fail as skipped. A
  // warning names them and what they have waited for. False where the keeper has not come to it by `deadline`: it is
  // in the middle of releasing one.
  bool refuse_held(std::chrono::steady_clock::time_point deadline);
  // The pool is given up, and its tasks count as lost, which have ended for what is behind them.
  void open_all();

  // All tasks so far.
  struct SoFar {
    std::vector<std::uint64_t> held;  // numbers of those that were held
    Open open;
  };
  SoFar so_far() const;
  bool have_ended(const SoFar& tasks) const;

  // Whether follow() may give something: `device` has gates. Before anything is asked, and again for the answer.
  Status use_gates(const device::DevicePtr& device);
  bool has_gates() const { return device_ != nullptr; }
  // What work that comes after all tasks so far is to be queued behind; none where the host has to wait: without gates,
  // where the resident kernel is about to leave or cannot stay, or beside kMostFollowed others. Where a kernel is
  // resident it waits until tasks that are held back have been released, and for that kernel's start. Afterwards
  // has_left() is to be asked.
  struct Behind : scheduler::BehindTasks {
    std::uint64_t stay = 0;
  };
  std::optional<Behind> follow();
  // What other work may be queued behind, rather than wait until a resident kernel leaves; none where it need not.
  std::optional<Behind> join();
  // Behind was too late: the kernel had been told to leave before the work was queued, and may be there again.
  bool has_left(const Behind& behind) const;

 private:
  struct Watch {
    device::EventPtr event;  // until its outcome is known
    std::optional<Status> outcome;
  };
  struct Held {
    std::uint64_t number = 0;
    Task task;
    std::chrono::steady_clock::time_point since{};
    std::vector<std::shared_ptr<Watch>> watches;
  };
  using Queues = std::list<Held>[2];  // of high priority, and the others
  struct Followed {
    device::GatePtr gate;
    std::uint32_t number = 0;
    std::uint64_t end_of_held = 0;    // tasks with lower numbers had been held before it
    std::vector<std::uint64_t> held;  // of these, those that were held still: not in `open` before they are released
    std::shared_ptr<const Open> open;
    bool has_ended = false;
  };

  void run();
  // The keeper's, without the lock: whether anything has happened.
  bool look();
  bool release_ready(bool goes_on);
  bool high_has_arrived() const;
  bool look_at_followed();
  void take_released(Followed& followed) const;  // under mutex_
  void open_ended();
  void leave();
  std::optional<Followed> take_gate();
  std::optional<Behind> find_same(const Open& open) const;  // under mutex_
  Behind behind(const Followed& followed) const;            // likewise
  void release(Held held);
  void refuse();  // all that is waiting
  static std::string refusal(const Held& held);
  void end_held(const Held& held, TaskId given);
  std::shared_ptr<Watch> watch(const device::EventPtr& event);
  TaskId find(std::uint64_t number) const;  // under mutex_
  Result<TaskId> told(TaskId id, TaskId found);

  static constexpr std::size_t kMostKnown = device::TaskFailures::kMost;
  static constexpr std::size_t kMostFollowed = 256;  // gates that are closed at a time

  const Runner runner_;
  device::DevicePtr device_;       // null without gates; written once, before other threads have this
  device::TaskFailures failures_;  // of tasks that never ran, by the ids given out here

  mutable std::mutex mutex_;
  ForkedCondition wakes_, has_room_, has_released_;
  // Guarded by mutex_:
  Queues arrived_;
  std::size_t held_ = 0;
  std::uint32_t high_wait_for_room_ = 0;
  bool stops_ = false, refuses_ = false;
  std::uint64_t moves_ = 0;
  // What became of them by number, from first_known_ on: the runner's id, kNeverRan, or 0. Ids given out long ago are
  // forgotten as ones that have ended; nothing that may go on is, so a task without end keeps those after it known.
  std::deque<TaskId> known_;
  std::uint64_t first_known_ = 1, first_held_ = 1;  // all before the second have been released
  std::vector<Followed> followed_, free_gates_;     // these opened to their number
  bool stays_ = false, leaves_ = false;             // the resident kernel, for followed_; leaves: none joins any more
  bool asks_ = false;                               // the keeper is in look()
  ForkedCondition has_asked_;
  std::uint64_t stays_left_ = 0;  // stays whose kernel has been told to leave

  std::mutex following_;  // over follow(), where a kernel is resident; taken before mutex_, never by the keeper

  // The keeper's:
  Queues waiting_;
  std::vector<std::shared_ptr<Watch>> watches_;
  bool has_new_ = false;         // in waiting_, that nobody has looked at
  bool was_broken_off_ = false;  // releasing, for what is to go first
  std::thread keeper_;           // from the first hold() on; written under mutex_
};

}  // namespace pergola::runtime
