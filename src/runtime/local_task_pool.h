// The in-process session's pool of narrow tasks: kernels made bodies of an executor, or handed to a device that runs
// tasks by itself, and the order between tasks and the session's other work on arrays.
//
//   spawn(arguments) ─┬─▶ executor::Executor, or device::TaskRunner
//                     └─ the session's work on them goes on ─▶ TaskEdges holds it back until that has ended ─▶ there
//   launches, fills, copies on the device behind tasks ─▶ their stream waits for a gate, which TaskEdges opens
//   the host's accesses to an array that tasks were given ── wait for these, and for all that are held ─▶ go on
//   launches, fills and copies that cannot wait on their stream, other libraries' streams ── wait for all tasks
//   launches, fills, copies on the device, loads ── have the resident kernel leave first, for it fills the device
//
// Both take the same kernels and shapes: what a resident kernel could not run is refused by the other too, so that a
// program that runs on the CPU device runs on a GPU.
//
// Ownership: the session holds the pool, kinds hold the session. Thread-safe.
#pragma once

#include <atomic>
#include <chrono>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <span>

#include "src/base/end_grace.h"
#include "src/device/task_runner.h"
#include "src/executor/executor.h"
#include "src/runtime/local_module.h"
#include "src/runtime/local_session.h"
#include "src/runtime/task_edges.h"
#include "src/session/task_pool.h"

namespace pergola::runtime {

// What a session has of its pool; it outlives the users' handles. Thread-safe.
class TaskWork final : public scheduler::TaskHost {
 public:
  using TaskId = session::TaskId;
  TaskWork() = default;
  ~TaskWork() override;
  TaskWork(const TaskWork&) = delete;
  TaskWork& operator=(const TaskWork&) = delete;
  static Result<std::shared_ptr<TaskWork>> create(const device::DevicePtr& device,
                                                  const session::TaskPoolOptions& options,
                                                  std::function<bool(executor::ExecutorOptions::AtMost)> before_start,
                                                  std::function<bool()> start_waits, std::chrono::milliseconds grace);

  // A kernel with a shape, of whichever of the two there is.
  struct Kind {
    executor::Kind resident;
    device::TaskRunner::KindPtr direct;
    bool high_priority = false;
  };
  // `device_module` has `kernel`, whose PTX is in `ptx`, which is of just one module.
  using Ptx = std::shared_ptr<const std::string>;
  struct NewKernel {
    Ptx ptx;
    const session::KernelInfo* info = nullptr;
  };
  // What prepare() would compile for the first shape of each, in one go: all, or none.
  Status add_kernels(std::span<const NewKernel> kernels);
  Result<Kind> prepare(const Ptx& ptx, const session::KernelInfo& info, const device::ModulePtr& device_module,
                       const device::Kernel& kernel, const session::LaunchShape& shape);
  Result<session::TaskId> spawn(const Kind& kind, std::span<const std::byte> parameters) {
    return direct_ != nullptr ? direct_->spawn(kind.direct, parameters, kind.high_priority)
                              : resident_->spawn(kind.resident, parameters);
  }
  // Where that takes no waiting; else 0.
  Result<session::TaskId> try_spawn(const Kind& kind, std::span<const std::byte> parameters) {
    return direct_ != nullptr ? direct_->try_spawn(kind.direct, parameters)
                              : resident_->try_spawn(kind.resident, parameters);
  }
  // What that may lack, but for room.
  Status prepare_to_try() { return resident_ != nullptr ? resident_->prepare_to_try() : Status(); }

  // The one that there is; the other is null.
  executor::Executor* resident() const { return resident_.get(); }
  device::TaskRunner* direct() const { return direct_.get(); }
  TaskEdges& edges() { return *edges_; }
  bool is_idle();  // all tasks have ended

  // For who may not wait for ever: for tasks so far as long as anything gets on (a task ends, is spawned or released, a
  // kernel of the device gets on), and for `grace` where nothing does. False where some have not ended then.
  bool wait_while_it_gets_on();
  // Whether waiting for tasks would wait for ordinary work first: the resident kernel is away, and its start does.
  bool waits_for_ordinary_work() const {
    return resident_ != nullptr && !resident_->is_running() && start_waits_() && resident_->has_open_tasks();
  }
  // The session goes; nobody else uses this any more. Waits as above; then `starts_wait_no_longer` is called, tasks
  // that are held are refused, by a warning with their names, and what else goes on has its grace. False where
  // something does still: then this may not be destroyed, for that waits for it, and what tasks use is to be kept.
  bool end(FunctionRef<void()> starts_wait_no_longer);
  // Then: its tasks count as lost, which have ended for the work behind them.
  void abandon();

  // For a trace that begins: slices are kept from now on, those so far forgotten. Nothing where the pool was made
  // without them.
  Status keep_slices();
  // For one that ends: waits for all tasks so far, as long as anything gets on. kTimeout where a resident kernel's do
  // not.
  Result<device::TaskSlices> take_slices();

  std::uint64_t spawned() const;  // by the host
  // Of tasks that are held back too.
  Status wait(session::TaskId id, std::optional<std::chrono::nanoseconds> timeout) override;
  bool would_start_kernel() const override { return resident_ != nullptr && !resident_->is_running(); }
  Result<bool> check(session::TaskId id) override;
  Status wait_all(std::optional<std::chrono::nanoseconds> timeout);
  // The same for those that were given an array, and for all that are held, whatever they were given. The failures that
  // nobody has been told of are told of all.
  Status wait_for_users(const ArrayTasks& array, std::optional<std::chrono::nanoseconds> timeout);
  // Waits for all tasks so far, and tells nobody of their failures: for work that comes after them. Whether there are
  // none to be told; an error where a resident kernel is lost.
  Result<bool> await_all();

  // Keeps memory that tasks so far may use, held ones too, until they have ended. It goes on a thread that calls one of
  // these or wait_all(), or with the pool. Where much is kept already it waits for tasks that need nobody else.
  void keep(device::BufferPtr memory);
  void let_go_of_kept();
  // The second for whoever needs memory now: waits for such tasks.
  void await_kept();

 private:
  void make_edges(const device::DevicePtr& device, bool streams_wait);
  Status wait_released(TaskId id, std::optional<std::chrono::nanoseconds> timeout) {
    return direct_ != nullptr ? direct_->wait(id, timeout) : resident_->wait(id, timeout);
  }
  // A kernel as a body: in the executor under its number, else what is known of it.
  struct Made {
    std::weak_ptr<const std::string> ptx;
    std::uint32_t number = 0;
    std::shared_ptr<const transform::TaskBody> body;
  };
  Result<transform::TaskBody> make_body(const std::string& ptx, const session::KernelInfo& info) const;
  Result<Made> body_of(const Ptx& ptx, const session::KernelInfo& info);

  std::uint64_t moves();
  bool gets_on();  // since it was last asked
  template <typename Over>
  bool await(const Over& over);

  device::DevicePtr device_;  // this, and the two below, are written by create()
  std::function<bool()> start_waits_;
  std::chrono::milliseconds grace_{};
  bool slices_ = false;
  std::mutex patience_mutex_;  // guards the two below
  std::uint64_t seen_moves_ = 0;
  Stillness stillness_;

  // What was let go of together. The last one is added to until the one before it has gone; from then on its users are
  // known, all tasks so far: few lists, however much is kept.
  struct Kept {
    std::optional<TaskEdges::SoFar> users;
    std::vector<device::BufferPtr> memory;
    std::uint64_t size_bytes = 0;
  };
  std::mutex kept_mutex_;
  // Both guarded by kept_mutex_; they go last: all that is below has ended then.
  std::list<Kept> kept_;
  std::uint64_t kept_bytes_ = 0;
  std::shared_ptr<executor::Executor> resident_;  // this, or the next; written by create()
  std::unique_ptr<device::TaskRunner> direct_;
  std::mutex mutex_;
  // By the text, which is still the one at its address, and the kernel's name.
  std::map<std::pair<const std::string*, std::string>, Made> bodies_;  // guarded by mutex_
  std::optional<TaskEdges> edges_;  // made by create(); goes first: what it holds is spawned
};

// `wait`, and what a trace of the session has of it.
template <typename Wait>
auto traced_wait(scheduler::Scheduler& scheduler, const TaskWork& work, const Wait& wait) {
  std::optional<scheduler::HostSlice> slice = scheduler.begin_task_wait();
  auto outcome = wait();
  if (slice) scheduler.end_task_wait(*std::move(slice), work.spawned());
  return outcome;
}

class LocalTaskPool final : public session::TaskPool, public std::enable_shared_from_this<LocalTaskPool> {
 public:
  LocalTaskPool(std::shared_ptr<LocalSession> session, std::shared_ptr<TaskWork> work)
      : session_(std::move(session)), work_(std::move(work)) {}

  Result<session::TaskKindPtr> prepare(const session::KernelPtr& kernel, const session::LaunchShape& shape) override;
  Status add_kernels(std::span<const session::KernelPtr> kernels) override;
  Status wait(session::TaskId id, std::optional<std::chrono::nanoseconds> timeout) override;
  Result<bool> check(session::TaskId id) override;
  Status wait_all(std::optional<std::chrono::nanoseconds> timeout) override;
  Status park() override;
  session::TaskPoolInfo info() const override;

 private:
  // kInvalidArgument, about what is called `name`, where it is none of the session's.
  Result<std::shared_ptr<LocalKernel>> own(const session::KernelPtr& kernel, std::string_view name) const;

  const std::shared_ptr<LocalSession> session_;
  const std::shared_ptr<TaskWork> work_;
  std::mutex mutex_;
  struct Prepared {
    const session::KernelInfo* kernel;  // the module's, or a signature's; the kind keeps it
    session::LaunchShape shape;
    std::weak_ptr<session::TaskKind> kind;
  };
  std::vector<Prepared> prepared_;  // guarded by mutex_
};

}  // namespace pergola::runtime
