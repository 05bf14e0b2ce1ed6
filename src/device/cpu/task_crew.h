// Narrow tasks of the CPU device (task_runner.h): workers, as many as virtual SMs, that take tasks one by one.
//
//                      ┌ high ┐
//   spawn ─▶ [slots] ─▶┤      ├─▶ worker: [block][block] …   step() each in turn; ended: the task's own error, its slot
//                      └normal┘                              free again
//
// A resident kernel would be run here a thread at a time, and a launch per task would pass by a queue that runs one
// after the other. A worker instead runs a task's blocks to their end where they run through; where all that it has
// wait for something, or none has ended for kPatience, it takes another beside them, up to kMostResidents: so tasks
// that wait for what a later one does get on, as beside the warps of a resident kernel.
//
// Tasks spawn tasks: these have slots too, while there are some, and no id. The one of the host that it began with,
// their founder, keeps its slot until all of them have ended.
//
// A task has a slot from spawn to end, of kMostOpen. Its id is the slot's number and how often the slot had been given
// out: what is asked for later is known to have ended without being kept. Failures are kept (task_failures.h).
//
// Locks: mutex_ guards all but what says otherwise; no kernel runs under it. The crew is shared by its owner and its
// threads, so that a kernel that ignores cancellation can be left behind. Thread-safe.
#pragma once

#include <atomic>
#include <condition_variable>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "src/device/cpu/aligned_bytes.h"
#include "src/device/cpu/cpu_device.h"
#include "src/device/cpu/cpu_module.h"
#include "src/device/cpu/print.h"
#include "src/device/cpu/resident_block.h"
#include "src/device/task_failures.h"
#include "src/device/task_runner.h"

namespace pergola::device::cpu {

// With at most so many threads; 0: as many as virtual SMs. Null where `device` is no CPU device.
Result<std::unique_ptr<TaskRunner>> create_task_runner(const DevicePtr& device, std::uint32_t most_threads);

class TaskCrew : public std::enable_shared_from_this<TaskCrew> {
 public:
  using Id = TaskRunner::Id;
  using Deadline = std::optional<std::chrono::steady_clock::time_point>;
  static constexpr std::uint32_t kSlotBits = 12, kMostOpen = 1u << kSlotBits;
  static constexpr std::size_t kMostResidents = 32;
  static constexpr std::uint64_t kHighInARow = 256;

  class Kind final : public TaskRunner::Kind {
   public:
    ModulePtr module;
    const CpuKernel* kernel = nullptr;
    LaunchConfig config;
    std::uint32_t shared_bytes = 0;
    std::size_t parameter_bytes = 0;
    const TaskCrew* crew = nullptr;
  };

  explicit TaskCrew(std::shared_ptr<CpuDevice> device);
  TaskCrew(const TaskCrew&) = delete;
  TaskCrew& operator=(const TaskCrew&) = delete;
  void start(std::uint32_t threads);

  Result<TaskRunner::KindPtr> kind(const ModulePtr& module, const Kernel& kernel, const LaunchConfig& config) const;
  // Where there is no room, it waits or gives 0.
  Result<Id> spawn(const TaskRunner::KindPtr& kind, std::span<const std::byte> parameters, bool high_priority,
                   bool waits);
  Result<std::uint64_t> handle_of(const TaskRunner::KindPtr& kind, bool high_priority);
  Status wait(Id id, Deadline deadline);
  Result<bool> check(Id id);
  Result<bool> has_ended(Id id) const;
  std::vector<Id> open_tasks() const;
  void call_by(Id id, Id as) { failures_.call_by(id, as); }
  Status wait_all(Deadline deadline) { return wait_for(open_tasks(), deadline); }
  std::vector<Id> users_of(DeviceAddress begin, DeviceAddress end) const;
  Status wait_for(std::vector<Id> open, Deadline deadline);
  bool has_untold() { return failures_.has_untold(); }
  void keep_slices(std::size_t most);
  TaskSlices take_slices();
  TaskRunnerInfo info() const;

  // Ends what runs and what waits, for good; `why` is the error of both.
  void cancel(const Error& why);
  // Waits for the tasks, cancels them where no kernel of the device has got on for `grace`, ends the threads. Once.
  void close(std::chrono::milliseconds grace);
  // The end in a forked child, which has none of the threads.
  void abandon();

 private:
  // A task's; of the task's workers where it says so.
  struct Slot final : TaskSpawner {
    Result<bool> spawn(std::uint64_t handle, std::uint32_t parameter_bytes,
                       std::span<const std::uint64_t, kWords> words) override;
    TaskCrew* crew = nullptr;   // constant
    Slot* founder = nullptr;    // itself where the host spawned it; constant while the task is open
    std::uint64_t members = 0;  // a founder's: tasks of its family, itself apart, that go on
    bool has_ended_itself = false;
    Status outcome;  // a founder's: the first failure of its family
    // How often the slot was given out, and in bit 0 whether the task goes on. Written under mutex_; release when it
    // has ended, for those who look without.
    std::atomic<std::uint64_t> state{0};
    std::shared_ptr<const Kind> kind;
    AlignedBytes parameters;
    Launch launch;                                // constant while the task is open
    std::optional<FaultSlot> fault;               // thread-safe, made anew for each task
    std::optional<PrintBuffer> print;             // likewise
    std::optional<BufferMargins::Watch> margins;  // of the worker that begins the task, then of the one that ends it
    std::uint64_t first_heap_block = 0;           // likewise
    std::uint64_t next = 0, total = 0;            // block that is taken next, of how many
    std::uint64_t serial = 0;                     // of the spawn
    // Where slices are kept: of the worker that begins the task.
    std::uint64_t begun_ns = 0, ended_ns = 0;  // begun_ns 0: it has not, or they are not
    std::uint32_t worker = 0;
    std::string kernel_name;
    bool waited_for = false;             // by some thread that sleeps
    std::atomic<std::uint64_t> left{0};  // blocks that have not ended; acq_rel: who ends the task sees them all
  };
  // Blocks of a task that a worker has.
  struct Part {
    Slot* slot = nullptr;
    BlockRun run;
  };
  class Worker;  // task_worker.h

  Part take();                                   // under mutex_; none where nothing waits
  void begin(Slot& slot, std::uint32_t worker);  // by whoever takes the first block
  Status end(Slot& slot);                        // by whoever has run the last one
  void note_ended(Slot& slot, Status status);    // under mutex_
  void note_slice(Slot& slot);                   // likewise
  void close_slot(Slot& slot);                   // likewise
  Result<bool> spawn_from(Slot& parent, std::uint64_t handle, std::uint32_t parameter_bytes,
                          std::span<const std::uint64_t, TaskSpawner::kWords> words);
  Slot& enqueue(std::uint32_t number, bool high_priority);  // under mutex_
  void await_work(std::unique_lock<std::mutex>& lock);
  bool has_work() const { return !high_.empty() || !normal_.empty(); }
  // After so many of the other class, so that what is not urgent is late and not for ever.
  bool is_normals_turn() const { return high_taken_ >= kHighInARow; }
  bool is_normals_spawn() const { return high_spawns_ >= kHighInARow; }
  bool await_idle(std::unique_lock<std::mutex>& lock, std::chrono::milliseconds grace);

  Id id_of(const Slot& slot, std::uint64_t state) const;
  // `counts_as` of each task that goes on: a slot of one that does, or null. In the order of their spawns.
  template <typename CountsAs>
  std::vector<Id> find_open(const CountsAs& counts_as) const;
  template <typename IsOver>
  Status wait_until(Deadline deadline, const IsOver& is_over);
  Status open_slot(Slot& slot, const TaskRunner::KindPtr& kind, std::span<const std::byte> parameters);

  const std::shared_ptr<CpuDevice> device_;
  const std::unique_ptr<Slot[]> slots_;
  mutable std::mutex mutex_;
  std::condition_variable has_work_, has_room_, has_ended_;
  std::vector<std::uint32_t> free_;
  std::deque<std::uint32_t> high_, normal_;                               // with blocks to take
  std::uint64_t high_taken_ = 0, high_spawns_ = 0;                        // since one of the others was
  std::size_t looking_ = 0, sleeping_ = 0;                                // workers without anything
  std::size_t wait_for_room_ = 0, high_wait_for_room_ = 0, waiting_ = 0;  // threads that spawn, and that wait
  std::size_t open_ = 0;
  std::uint64_t last_serial_ = 0, spawned_ = 0, spawned_by_tasks_ = 0;
  std::vector<TaskRunner::KindPtr> handles_;  // by their numbers
  struct NamedSlice {
    TaskSlice slice;
    std::string kernel_name;
  };
  std::atomic<std::size_t> most_slices_{
      0};  // written under mutex_; relaxed, as a task that begins meanwhile may be left out
  std::deque<NamedSlice> slices_;
  std::uint64_t dropped_slices_ = 0;
  std::atomic<std::uint64_t> arrived_{0};  // as QueueWorker's: what looks for work without the lock looks at it
  TaskFailures failures_;                  // added to under mutex_, before the failed task's state
  Status cancelled_;
  bool stop_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace pergola::device::cpu
