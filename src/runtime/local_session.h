// The in-process session.
//
//   Kernel::launch ──┐                            ┌─▶ queues of the device, one a stream
//   Array::write ────┼─▶ scheduler::Scheduler ────┤
//   Array::read ─────┘   (what depends on what)   └─▶ Event (device's, wrapped: names the kernel that failed)
//
// Ownership: arrays, modules, kernels and events hold the session; the session holds the device and the scheduler,
// which keeps the memory of arrays that go while work uses it, and no session objects, so there is no cycle. Threads:
// everything is thread-safe, by the scheduler's lock.
#pragma once

#include <atomic>
#include <chrono>
#include <mutex>

#include "src/device/device.h"
#include "src/executor/executor.h"
#include "src/runtime/dag_file.h"
#include "src/runtime/host_mirror.h"
#include "src/runtime/managed_memory.h"
#include "src/runtime/spare_memory.h"
#include "src/scheduler/scheduler.h"
#include "src/session/session.h"

namespace pergola::runtime {

// "Kernel 'saxpy' failed: ..." unless the message names the kernel by itself.
Status name_kernel(std::string_view kernel, const Status& status);

class SmallTasks;
class TaskWork;

// Tasks that were given an array: how often one was begun, and how many of these have ended for sure.
struct ArrayTasks {
  std::atomic<std::uint64_t> begun{0}, ended{0};
  device::DeviceAddress address = 0;  // where the array is; constant
  std::uint64_t size_bytes = 0;
};

class LocalSession final : public session::Session, public std::enable_shared_from_this<LocalSession> {
 public:
  static Result<std::shared_ptr<LocalSession>> create(device::DevicePtr device, std::string_view policy);
  ~LocalSession() override;

  const device::DeviceInfo& device() const override { return device_->info(); }
  Result<session::ModulePtr> load_file(const std::string& path, const session::LoadOptions& options) override;
  Result<session::ModulePtr> load_text(std::string_view text, const session::LoadOptions& options) override;
  Result<session::ArrayPtr> allocate(session::ElementType type, std::uint32_t element_bytes,
                                     std::uint64_t count) override;
  Result<session::ArrayPtr> adopt(session::ElementType type, std::uint32_t element_bytes, std::uint64_t count,
                                  device::ForeignMemory memory) override;
  Status call(std::string_view name, std::span<const session::CallAccess> accesses, bool synchronous,
              session::CallFunction function) override;
  Status wait_stream(std::uint64_t stream) override;
  Status make_stream_wait(std::uint64_t stream) override;
  Result<std::shared_ptr<session::TaskPool>> task_pool(const session::TaskPoolOptions& options) override;
  Result<session::EventPtr> record() override;
  Status synchronize(std::optional<std::chrono::nanoseconds> timeout = std::nullopt) override;
  Result<std::string> dag(std::string_view format) override;
  Result<std::string> graphs(std::string_view format) override;
  Status trace(const std::optional<std::string>& path) override;
  Status history(const std::optional<std::string>& path) override;
  Status use_history(const std::string& path) override { return scheduler_->use_history(path); }
  Status end_recordings(std::optional<std::chrono::nanoseconds> timeout) override;
  Status tuning(const std::optional<std::string>& path) override;

  // ── Tasks (local_task_pool.h) ──
  // Waits for all tasks, where there is a pool, and tells failures: for the host.
  Status end_tasks(std::optional<std::chrono::nanoseconds> timeout = std::nullopt);
  // The same for those that were given an array, or may use any.
  Status end_tasks_of(ArrayTasks& tasks, std::optional<std::chrono::nanoseconds> timeout = std::nullopt) {
    return has_open_tasks_of(tasks) ? end_users_of(tasks, timeout) : Status();
  }
  Status end_users_of(ArrayTasks& tasks, std::optional<std::chrono::nanoseconds> timeout);
  // What tasks failed with, with the arrays that a lost device has taken.
  Status with_lost_arrays(Status status) const;
  // The same for work on the device, which comes after them however they end: a failure is left for the host.
  Status await_tasks_of(ArrayTasks& tasks);
  // Of an array that tasks may have been given: whether some are not known to have ended.
  bool has_open_tasks_of(const ArrayTasks& tasks) const {
    return tasks.ended.load(std::memory_order_acquire) != tasks.begun.load(std::memory_order_acquire) ||
           universal_tasks_.load(std::memory_order_relaxed);
  }
  bool has_tasks() const { return has_tasks_.load(std::memory_order_acquire); }
  void note_universal_task() { universal_tasks_.store(true, std::memory_order_relaxed); }
  // Has the resident kernel leave, and stay away as long as the result lives; nothing where there is no pool.
  using Quiet = std::optional<executor::Executor::Quiet>;
  Result<Quiet> quiet_tasks();
  // Ordinary work has been, or is about to be, submitted: the resident kernel's next start lets it go first.
  void note_ordinary_work() { starts_->worked.store(true, std::memory_order_release); }
  TaskWork* tasks() const { return has_tasks() ? tasks_.get() : nullptr; }
  // The pool's work, which is made where there is none yet.
  Result<std::shared_ptr<TaskWork>> task_work(const session::TaskPoolOptions& options);
  // Launches that may go there by themselves; null where the policy has none.
  SmallTasks* small_tasks() const { return small_tasks_.get(); }

  // For arrays, kernels and events of this session.
  std::uint64_t id() const { return id_; }
  device::Device& raw_device() { return *device_; }
  const device::DevicePtr& device_pointer() const { return device_; }
  scheduler::Scheduler& scheduler() { return *scheduler_; }
  struct Sites {
    scheduler::WorkSite *write, *read, *fill, *copy, *upload, *download, *stream_wait;
  };
  const Sites& sites() const { return sites_; }
  Mirrors& mirrors() { return mirrors_; }
  ManagedMemories& managed() { return managed_; }
  SpareMemory& spare() { return *spare_; }
  // What is spare of that size, or new. Where the host is far ahead with it, or memory is short, what has gone is waited
  // for; kResourceExhausted where that does not suffice.
  Result<device::BufferPtr> allocate_memory(std::uint64_t size_bytes, device::MemoryKind kind);
  Result<device::BufferPtr> allocate_when_some_ends(std::uint64_t size_bytes, device::MemoryKind kind);
  // The device's event of one launch, or with "" of anything else, for users. `module` owns the name.
  // `failed`: what else has that the event stands for.
  session::EventPtr wrap(device::EventPtr event, device::ModulePtr module, std::string_view kernel,
                         Status failed = Status());
  // Device to host where no work is under way on either side; returns when it is done.
  Status copy_to_host_now(std::span<std::byte> destination, const device::BufferPtr& source, std::size_t offset_bytes);
  // The same of managed memory, in place.
  Status give_to_host_now(const device::BufferPtr& buffer);
  // What to tell of work that ended with `status`; `kernel` is "" where it is not a launch.
  Status explain(const Status& status, std::string_view kernel);

 private:
  LocalSession(device::DevicePtr device, std::unique_ptr<scheduler::Scheduler> scheduler, std::uint64_t most_spare_bytes,
               std::chrono::milliseconds end_grace);
  void add_task_slices();     // to the trace that is on
  void end_recordings_at_exit();
  Status record_as_asked();  // PERGOLA_TRACE, _HISTORY, _TUNING, _DOT_FILE

  const std::uint64_t id_;
  const device::DevicePtr device_;
  // Calls `use(queue)` with one beside the scheduler's that nobody else uses meanwhile, and waits for what that has
  // queued. Threads do not wait for each other: one that reads 4 bytes would for another's gigabyte, and for hundreds
  // of milliseconds where the other reads again and again, as a std::mutex goes to whoever asks first.
  template <typename Use>
  Status on_reader(const Use& use);
  // That other libraries' streams see this session's arrays, for `doing`.
  Status refuse_where_restricted(std::string_view doing) const;

  std::mutex readers_mutex_;
  // Of on_reader(), those that are not in use: as many are made as threads read at once, and some of them are kept.
  // Guarded by readers_mutex_.
  std::vector<std::unique_ptr<device::Queue>> readers_;
  std::mutex give_mutex_;  // one thread at a time gives managed memory to the host
  const std::shared_ptr<SpareMemory> spare_;
  const std::unique_ptr<scheduler::Scheduler> scheduler_;  // destroyed first: it waits for what uses the rest
  const Sites sites_;                                      // of scheduler_
  Mirrors mirrors_;
  ManagedMemories managed_;

  std::mutex tasks_mutex_;
  std::mutex untold_tasks_mutex_;
  Status untold_tasks_;  // what tasks failed with while launches went on longer than synchronize() might wait; under it
  std::atomic<bool> has_tasks_{false}, universal_tasks_{false};
  // What the resident kernel's starts have of the session, which a pool that is given up may outlive.
  struct Starts {
    explicit Starts(scheduler::Scheduler* of) : scheduler(of) {}
    // For so long at most; whether all of it has ended. One thread at a time.
    bool wait_for_ordinary_work(std::optional<std::chrono::nanoseconds> at_most);
    bool would_wait() const {  // a wait whose time is over sets the one before it takes back the other
      return worked.load(std::memory_order_acquire) || waits.load(std::memory_order_acquire) ||
             worked.load(std::memory_order_acquire);
    }
    std::atomic<bool> worked{false};  // ordinary work has been submitted since the kernel was last started
    std::atomic<bool> waits{false};   // somebody is in wait_for_ordinary_work(), and finds some
    std::atomic<bool> ends{false};  // the session ends, and has been patient: relaxed, it is looked at again and again
    bool await_streams(std::optional<std::chrono::nanoseconds> at_most);

    std::mutex mutex;
    scheduler::Scheduler* scheduler;  // guarded by mutex; null once the session goes
  };
  const std::shared_ptr<Starts> starts_;
  const std::chrono::milliseconds end_grace_;
  std::shared_ptr<TaskWork> tasks_;  // written once, under tasks_mutex_, before has_tasks_
  std::unique_ptr<SmallTasks> small_tasks_;
  std::unique_ptr<DagFile> dag_file_;  // where one is asked for
  std::unique_ptr<AtExit> at_exit_;    // ends what is recorded; null until the session is made
};

}  // namespace pergola::runtime
