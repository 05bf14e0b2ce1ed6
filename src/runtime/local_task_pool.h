// The in-process session's pool of narrow tasks: kernels made bodies of an executor, and the order between tasks and
// the session's other work on arrays.
//
//   spawn(arguments) ── waits for the session's work on them ─▶ executor::Executor
//   other work on an array that tasks were given ── waits for all tasks ─▶ goes on
//   launches, fills, copies on the device, loads ── have the resident kernel leave first, for it fills the device
//
// Ownership: the session holds the pool, kinds hold the session. Thread-safe.
#pragma once

#include <atomic>
#include <map>
#include <memory>
#include <mutex>

#include "src/executor/executor.h"
#include "src/runtime/local_module.h"
#include "src/runtime/local_session.h"
#include "src/session/task_pool.h"

namespace pergola::runtime {

// What a session has of its pool; it outlives the users' handles.
class TaskWork {
 public:
  static Result<std::shared_ptr<TaskWork>> create(device::DevicePtr device, const session::TaskPoolOptions& options,
                                                  std::function<void()> before_start);

  executor::Executor& executor() { return *executor_; }
  // Of a kernel of a loaded module, the number of its body; made by the first call.
  Result<std::uint32_t> body_of(const std::shared_ptr<const LocalModule>& module, std::size_t index,
                                const session::KernelInfo& info);

 private:
  explicit TaskWork(std::shared_ptr<executor::Executor> executor) : executor_(std::move(executor)) {}

  const std::shared_ptr<executor::Executor> executor_;
  std::mutex mutex_;
  // Of a module that is still the one at its address; it holds the session, so it is not held.
  struct Made {
    std::weak_ptr<const LocalModule> module;
    std::uint32_t body = 0;
  };
  std::map<std::pair<const LocalModule*, std::size_t>, Made> bodies_;  // guarded by mutex_
};

class LocalTaskPool final : public session::TaskPool, public std::enable_shared_from_this<LocalTaskPool> {
 public:
  LocalTaskPool(std::shared_ptr<LocalSession> session, std::shared_ptr<TaskWork> work)
      : session_(std::move(session)), work_(std::move(work)) {}

  Result<session::TaskKindPtr> prepare(const session::KernelPtr& kernel, const session::LaunchShape& shape) override;
  Status wait(session::TaskId id, std::optional<std::chrono::nanoseconds> timeout) override;
  Result<bool> check(session::TaskId id) override;
  Status wait_all(std::optional<std::chrono::nanoseconds> timeout) override;
  Status park() override;
  session::TaskPoolInfo info() const override;

 private:
  const std::shared_ptr<LocalSession> session_;
  const std::shared_ptr<TaskWork> work_;
  std::mutex mutex_;
  struct Prepared {
    std::weak_ptr<LocalKernel> kernel;
    session::LaunchShape shape;
    std::weak_ptr<session::TaskKind> kind;
  };
  std::vector<Prepared> prepared_;  // guarded by mutex_
};

}  // namespace pergola::runtime
