// The host half of the executor of narrow tasks (Pagoda, paper 000, sections 3 and 4): rings that any thread puts tasks
// into, and the life of the resident kernel that reads them.
//
//   spawn ─▶ HostRing ═ host memory ═▶ resident kernel ═▶ answers ─▶ is_done, wait
//
//            start()                       park(): a new generation, an ordinary kernel, no work for park_after
//   away ──────────────▶ running ─────────────────────────────────────────────────▶ away
//            (a spawn, a wait, the keeper)                its fault ─▶ failed, for ever
//
// Floors. Tasks and ordinary work of the session take turns where both go on without end: where tasks find the kernel
// away it is started before launches that come later; and started, each block takes and places for some rounds before
// it looks whether it is to park. Work of the process that nobody tells it of gets the device once in longest_stay, if
// ever.
//
// Shapes: two resident blocks of 1024 threads a multiprocessor, with 32 registers a thread, or one with 64. The first
// while no body spills there; else the second where it takes less local memory, for good (measured, decision 18). It
// changes while no task is open: a ring whose block is not resident would keep what is in it.
//
// Parked blocks finish what they have begun and give back what they have only taken; rings stay as they are, and the
// next launch reads on. So nothing is lost, and whoever wants the device waits for no more than the running tasks.
//
// Stays. Work may be queued on the device behind tasks that are in rings: whoever does so has the kernel stay until
// they have ended, however, and then has it leave for that work. Whoever else wants it away waits for that; nothing
// that ends the stay asks a driver or takes a lock, so that it comes also where threads wait inside the driver for that
// work.
//
// A kernel that nobody has leave. A driver may hold a lock that most calls need while it waits for the resident kernel,
// in a call of whoever does not know of it; then who would tell the kernel may wait for that lock. So blocks leave by
// themselves once none of them has had a task for idle_ms(), which is far longer than the keeper lets them.
//
// Starting waits for the ordinary work of the session twice: first with `starting_` alone, so that who needs the kernel
// away or asks for anything goes on beside work that never ends, then, with all locks, for what has come meanwhile, but
// for no longer than the first wait took (a second at most; 1 ms at least), and where that does not suffice both again,
// the second for twice as long each time: so it comes to an end beside whoever launches for ever. All of that is the
// keeper's: spawns and waits, whose callers have a time to wait or are to hear of something else, start the kernel
// where nothing is to be waited for, and else leave it to the keeper.
//
// Threads. A thread writes records into rings of its own (producers.h), a few into each before it goes on to the next.
// `adding_` is held by who adds a body, over the compilation; `lifecycle_` guards starting, parking and generations;
// `quiet_` is held, shared, by whoever needs the kernel away. A spawn stores its record and then loads `running_`; a
// park stores `running_` and then looks at the rings: the two are ordered by membarrier(2) on the side of the park,
// which is rare, and where that is not to be had by a fence on both.
#pragma once

#include <array>
#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <shared_mutex>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "src/base/byte_rows.h"
#include "src/base/fork.h"
#include "src/base/function_ref.h"
#include "src/device/device.h"
#include "src/device/task_failures.h"
#include "src/executor/fence_table.h"
#include "src/executor/host_ring.h"
#include "src/executor/producers.h"
#include "src/executor/task_faults.h"
#include "src/executor/task_traces.h"
#include "src/transform/entry_to_task.h"

namespace pergola::executor {

// The ring + 1 above, the position in it below; of a task of several pieces the highest bit and a number. Never 0.
using TaskId = std::uint64_t;
inline constexpr int kIdRingShift = 48;
inline constexpr TaskId kGroupBit = TaskId{1} << 63;
inline constexpr TaskId kPositionMask = (TaskId{1} << kIdRingShift) - 1;

struct ExecutorOptions {
  // Called before each start, one thread at a time; waits for what shall run before the resident kernel fills the
  // device, for so long at most, and says whether all of it has ended.
  using AtMost = std::optional<std::chrono::nanoseconds>;
  std::function<bool(AtMost)> before_start = [](AtMost) { return true; };
  // Whether that may find something to wait for: then a spawn leaves the start to the keeper. Any thread.
  std::function<bool()> start_waits = [] { return false; };
  std::uint32_t blocks = 0;  // 0: as many as the device holds
  std::chrono::microseconds park_after{200};
  // With tasks without end it leaves for a moment after that, so that work of the process which nobody tells it of gets
  // the device too: after twenty times as long as leaving took, where that is longer. 0: never, so that tasks may wait
  // for what later ones do.
  std::chrono::microseconds longest_stay{0};
  bool fences = true;   // around bodies (docs/decisions/0020-fences.md)
  bool slices = false;  // resident blocks note when tasks ran (abi/task_trace.h)
};

// What spawn() wants to know of a kind.
struct Kind {
  std::uint32_t number = 0;
  bool is_urgent = false;             // its tasks are placed before others that wait
  std::uint32_t pieces = 1;           // of a task of several blocks, which run on any resident blocks
  std::uint32_t parameter_bytes = 0;  // in whole words
  // Records that a ring has open at most when another is put there: half as many again as its block runs at once, so
  // that what comes next waits on the host for the block that is free first. Of many at once there may be more, up to
  // most_depth, of which the block has read all: it runs some and holds as many waiting as it does at least.
  std::uint32_t depth = 1, most_depth = 1;
  std::uint32_t usual_depth = 1, usual_most_depth = 1;  // of those that are not urgent

  // The same with that priority. Urgent ones find room where others wait on the host, and are read at once.
  Kind with_urgency(bool urgent) const;
};

struct ExecutorInfo {
  std::uint32_t blocks = 0, blocks_per_sm = 0, registers_per_thread = 0, local_bytes_per_thread = 0,
                most_shared_bytes = 0;
  std::uint64_t memory_bytes = 0, launches = 0, spawned = 0;
  std::uint64_t spawned_by_tasks = 0;  // when the blocks last parked
  bool is_running = false;
};

class Executor {
 public:
  static Result<std::shared_ptr<Executor>> create(device::DevicePtr device, const ExecutorOptions& options);
  ~Executor();  // waits for all tasks, and until the kernel has left
  Executor(const Executor&) = delete;
  Executor& operator=(const Executor&) = delete;

  // Some tasks will be urgent: others that wait for room find it where these do, in the end. Thread-safe.
  void expect_urgent() { expects_urgent_.store(true, std::memory_order_relaxed); }

  // How bodies are to be fenced (TaskConfig::fences).
  std::optional<transform::FenceConfig> fences() const;

  // The number of a new body, which the next launch has. Compiles while tasks run; then those that run end, what else
  // has been spawned waits, and the program is exchanged. kUnsupported where the executor with it asks for more than
  // the device has; it is as before then.
  Result<std::uint32_t> add_body(transform::TaskBody body);
  // Several at once, in the time of one: all, or none. The number of the first, the others' follow.
  Result<std::uint32_t> add_bodies(std::vector<transform::TaskBody> bodies);
  // A body with a shape. kUnsupported, with the numbers, where the shape does not fit; kInvalidArgument for a grid or a
  // block of nothing.
  Result<Kind> add_kind(std::uint32_t body, const device::LaunchConfig& shape);

  // `parameters` are of kind.parameter_bytes at least. Waits where every ring is full. An error only once the executor
  // has failed.
  Result<TaskId> spawn(const Kind& kind, std::span<const std::byte> parameters);

  // The same for each row; *spawned is how many there are, all unless there is an error. `ids`: null, or room for
  // as many. `more` come after them.
  Status spawn_many(const Kind& kind, const ByteRows& parameters, TaskId* ids, std::size_t more, std::size_t& spawned);

  // The same where a ring has room at once, for a task of one piece whose parameters fit a record; else 0.
  TaskId try_spawn(const Kind& kind, std::span<const std::byte> parameters) noexcept;
  // What try_spawn() may lack but room: starts the resident kernel, gives the thread rings, lets the fences know new
  // memory. May wait.
  Status prepare_to_try();
  bool is_running() const { return running_.load(std::memory_order_acquire); }

  // What stands for a kind where tasks spawn tasks (abi/task_inbox.h). kUnsupported, with the numbers, where its
  // parameters do not fit a record of an inbox, or where it has too many pieces.
  Result<std::uint64_t> handle_of(const Kind& kind) const;

  // How the task has ended: success, or its own failure, where it has fences; kTimeout where it goes on; the executor's
  // failure where it was lost by that. kInvalidArgument for what is no id of this executor. wait_all() tells the
  // failures that nobody has been told of, once.
  Status wait(TaskId id, std::optional<std::chrono::nanoseconds> timeout);
  Result<bool> check(TaskId id);
  Status wait_all(std::optional<std::chrono::nanoseconds> timeout);
  // The records open now that may have been given an address from `begin` to `end`, as ids for the next: those of which
  // a parameter is one, and of kinds whose parameters do not fit a record all.
  std::vector<TaskId> users_of(device::DeviceAddress begin, device::DeviceAddress end);
  // As wait_all(), for these.
  Status wait_for(std::span<const TaskId> ids, std::optional<std::chrono::nanoseconds> timeout);
  bool has_untold();  // whether that would tell any now
  Status failure();   // of the resident kernel, with which all tasks are lost; asks its event
  // Whether it has ended, whatever how; tells nobody of a failure. Of an id that it gave out.
  bool has_ended(TaskId id);
  // Messages call the task by `as` from now on (TaskFailures::call_by).
  void call_by(TaskId id, TaskId as) { failures_.call_by(id, as); }

  // From now on slices are kept; those so far are forgotten. Where ExecutorOptions::slices says so, else this does
  // nothing, and there are none. Both have the kernel leave, and so wait for the tasks that have begun.
  Status keep_slices();
  // Those of the tasks that have ended since.
  Result<device::TaskSlices> take_slices();

  Status park();
  // Parks, and holds off the next start for as long as the result lives.
  using Quiet = std::shared_lock<std::shared_mutex>;
  Result<Quiet> quiesce();
  // The same for who may not wait for tasks without end once the pool is given up: kUnavailable then.
  Result<Quiet> quiesce_unless_abandoned();
  ExecutorInfo info() const;

  // The resident kernel stays until leave(), and runs all tasks that are in rings now or then. False where it cannot:
  // it has failed, or is sent away again and again. Where it is away it is started, which may wait for ordinary work.
  // One stay at a time; the caller sees to that.
  bool stay();
  // Of the stay: the kernel is told to leave, then `told` is called, then the kernel is waited for.
  void leave(FunctionRef<void()> told);
  // The tasks in rings now, for the two below: by ring, how many there have been.
  std::vector<std::uint64_t> heads() const;
  // Whether all of them have ended, or been lost. Asks no driver and takes no lock.
  bool have_ended(std::span<const std::uint64_t> heads);
  static bool covers(std::span<const std::uint64_t> heads, TaskId id);
  bool has_open_tasks();

  // For whoever is about to end: records that have ended, and that there have been; and whether the kernel is away by
  // `deadline`, told to leave if need be. None waits for anything else, whoever has the locks.
  std::uint64_t ended();
  std::uint64_t spawned() const;
  bool leaves_by(std::chrono::steady_clock::time_point deadline);
  // It is never to be destroyed, and not looked after any more.
  void abandon();

 private:
  using Deadline = std::optional<std::chrono::steady_clock::time_point>;
  struct Program {
    device::ModulePtr module;
    const device::Kernel* kernel = nullptr;
  };

  Executor(device::DevicePtr device, const ExecutorOptions& options);
  Status allocate();
  Result<Program> load(std::uint32_t blocks_per_sm, const FunctionRef<Status()>& when_compiled) const;
  Status fence_variables(const ptx::Module& text, const device::Module& module) const;
  void take_faults(std::uint32_t ring);
  void take_all_faults();
  Status outcome(TaskId id);
  // What whoever replaces the program holds: the kernel is away, and stays so.
  struct Away {
    std::unique_lock<std::mutex> turn;
    std::unique_lock<std::shared_mutex> quiet;
    std::unique_lock<std::mutex> lifecycle;
  };
  Status send_away(std::optional<Away>& away);
  // Of bodies_; with adding_. Tasks run while it compiles.
  Status make_program(std::size_t first_new);
  Status make_wider();
  void widen();  // with lifecycle_, while it is parked
  Status fit_large_parameters(std::uint32_t bytes);
  Status make_inboxes();  // with lifecycle_

  // All entered. A thread puts tasks into the ring that it is at, by number, where that has room.
  static std::uint32_t number_of_ring(const Producer& producer) { return producer.owned[producer.at]; }
  bool has_ring(const Producer& producer, const Kind& kind);
  // What a thread puts into rings before it goes on: `tasks` into each, which then has `depth` records open at most.
  struct Turn {
    std::uint32_t tasks, depth;
  };
  static Turn turn_of_many(const Producer& producer, const Kind& kind, std::size_t left);
  bool go_on(Producer& producer, const Turn& turn, std::size_t most);
  TaskId try_next_rings(Producer& producer, const Kind& kind, std::span<const std::byte> parameters) noexcept;
  template <std::size_t kMostWords>
  TaskId put(Producer& producer, std::uint32_t ring, const Kind& kind, std::uint32_t piece,
             std::span<const std::byte> parameters);
  template <std::size_t kMostWords>
  TaskId put_and_leave(Producer& producer, std::uint32_t ring, const Kind& kind,
                       std::span<const std::byte> parameters) noexcept;
  bool see_that_it_runs() const;
  Result<TaskId> push(Producer& producer, const Kind& kind, std::uint32_t piece, std::span<const std::byte> parameters);
  bool go_on_beside_urgent(Producer& producer, std::uint32_t depth);
  Status find_room(Producer& producer, const Turn& turn);
  Status push_some(Producer& producer, const Kind& kind, const ByteRows& parameters, const Turn& turn,
                   std::size_t until, TaskId* ids, std::size_t& spawned);
  Status see_to_fences();
  void see_to_start();
  Status start_unless_it_waits();
  bool need_not_wait(ExecutorOptions::AtMost at_most);  // with starting_
  Result<TaskId> push_pieces(Producer& producer, const Kind& kind, std::span<const std::byte> parameters,
                             std::vector<TaskId>& pieces);
  bool is_piece_done(TaskId id) const;
  Result<bool> is_done(TaskId id);
  Status wait_until(Deadline deadline, FunctionRef<Result<bool>()> is_over);

  Quiet share_quiet();
  bool is_abandoned();
  Status start();                                            // unless it runs; with none of the locks
  Status start_locked();                                     // with all of them
  void await_stay(std::unique_lock<std::mutex>& lifecycle);  // before the kernel is told to leave
  Status park_locked();
  Status park_unless_it_stays();  // the keeper's, which must not wait for the end of a stay: it looks for faults
  std::string lost_tasks();       // with lifecycle_, when the kernel has failed
  void tell_to_park();
  std::uint32_t idle_ms() const;
  std::uint32_t reserve_ns() const;
  void wake_keeper();
  TaskId wake_keeper_for(TaskId id) noexcept;
  void keep();  // the keeper's thread
  bool stays_too_long() const;
  void leave_for_a_moment();  // the keeper's
  static Deadline deadline_after(std::optional<std::chrono::nanoseconds> timeout);

  const device::DevicePtr device_;
  const ExecutorOptions options_;
  std::uint32_t arena_bytes_ = 0;
  bool fences_ = true;  // membarrier(2) is not to be had

  std::unique_ptr<device::Queue> queue_, copies_;
  device::BufferPtr rings_memory_, answers_, states_, kinds_memory_;
  device::BufferPtr inboxes_;  // once a body spawns tasks; guarded by lifecycle_
  // Where parameters beyond a record lie, `bytes` for each record, and on the device for each entry.
  struct Slab {
    device::BufferPtr on_host, on_device;
    std::uint32_t bytes = 0;
  };
  std::vector<std::unique_ptr<const Slab>> slabs_;  // records may name earlier ones; guarded by lifecycle_
  std::atomic<const Slab*> slab_{nullptr};          // the last one
  // By kind, whether its parameters lie there: written before the first task of it is spawned.
  std::array<std::atomic<std::uint64_t>, abi::kMostKinds / 64> large_kinds_{};
  std::vector<HostRing> rings_;
  std::shared_ptr<Producers> producers_;
  std::unique_ptr<FenceTable> fence_table_;  // null without fences
  std::unique_ptr<TaskTraces> traces_;       // null without slices; what it has is guarded by lifecycle_
  TaskFaults faults_told_;
  device::TaskFailures failures_;

  std::mutex adding_;    // of bodies; taken before all others
  std::mutex starting_;  // by start(), before the three below
  mutable std::mutex lifecycle_;
  std::mutex turnstile_;  // passed by whoever wants quiet_, so that those who share it let others in
  std::shared_mutex quiet_;
  std::atomic<bool> running_{false}, failed_{false}, expects_urgent_{false};
  std::atomic<bool> stays_{false};  // written with lifecycle_; relaxed where the keeper only saves itself a wait
  ForkedCondition stay_over_;       // with lifecycle_
  // Guarded by lifecycle_:
  std::uint32_t blocks_per_sm_ = 2, blocks_ = 0;  // the shape; there are rings for the most blocks that there may be
  Program program_;
  std::optional<Program> wider_;             // of one block a multiprocessor: is program_ once no task is open
  std::vector<transform::TaskBody> bodies_;  // changed with adding_ too, so either will do for looking
  std::vector<abi::TaskKindEntry> kinds_;
  device::EventPtr ended_;
  Status failure_;
  std::uint32_t launches_ = 0;
  std::atomic<std::chrono::steady_clock::rep> started_at_{0};  // written with lifecycle_
  std::chrono::steady_clock::duration stay_{};                 // the keeper's: how long it may run

  // Tasks of several pieces, until somebody has seen them done.
  std::mutex groups_mutex_;
  std::map<TaskId, std::vector<TaskId>> groups_;
  TaskId next_group_;
  std::size_t most_groups_ = 1024;

  std::mutex keeper_mutex_;
  ForkedCondition keeper_wakes_;
  bool keeper_stops_ = false, keeper_looks_ = false;  // guarded by keeper_mutex_; looks: at once
  Status keepers_start_;  // how the keeper's last one ended, if the kernel has not been started since; likewise
  std::thread keeper_;
};

}  // namespace pergola::executor
