#include "src/runtime/local_task_pool.h"

#include <boost/container/small_vector.hpp>

#include "src/ptx/parser.h"
#include "src/runtime/local_array.h"
#include "src/session/arguments.h"
#include "src/transform/entry_to_task.h"

namespace pergola::runtime {

// A kernel with a shape, of one pool.
class LocalTaskKind final : public session::TaskKind {
 public:
  LocalTaskKind(std::shared_ptr<LocalSession> session, std::shared_ptr<TaskWork> work,
                std::shared_ptr<LocalKernel> kernel, executor::Kind kind)
      : session_(std::move(session)),
        work_(std::move(work)),
        kernel_(std::move(kernel)),
        executor_(work_->executor()),
        kind_(kind) {}

  Result<session::TaskId> spawn(std::span<const session::Argument> arguments) override {
    const session::KernelInfo& info = kernel_->info();
    boost::container::small_vector<std::byte, 256> parameters(info.parameter_bytes);
    PERGOLA_TRY(session::bind_arguments(info, session_->id(), arguments, parameters));
    const LocalModule::LaunchState& state = kernel_->state_;
    scheduler::Mode universal = state.universal;
    for (std::size_t i = 0; i < arguments.size(); ++i) {
      if (const auto* given = std::get_if<session::ArrayArgument>(&arguments[i])) {
        // Of this session, as bind_arguments() has seen: its arrays are all LocalArrays.
        if (state.modes[i] != scheduler::Mode::kNone)
          PERGOLA_TRY(static_cast<const LocalArray&>(*given->array).begin_task(state.modes[i]));
      } else if (may_be_address(arguments[i], info.parameters[i])) {
        universal = universal | state.modes[i];
      }
    }
    if (universal != scheduler::Mode::kNone) PERGOLA_TRY(begin_universal(universal));
    Result<session::TaskId> id = executor_.spawn(kind_, parameters);
    for (const session::Argument& argument : arguments)
      if (const auto* given = std::get_if<session::ArrayArgument>(&argument))
        static_cast<const LocalArray&>(*given->array).note_task();
    return id;
  }

  Result<session::TaskId> spawn_packed(std::span<const std::byte> parameters) override {
    if (parameters.size() != kernel_->info().parameter_bytes) [[unlikely]]
      return PERGOLA_ERROR(kInvalidArgument, "Kernel '{}' takes {} bytes of parameters, not {}.", kernel_->info().name,
                           kernel_->info().parameter_bytes, parameters.size());
    return executor_.spawn(kind_, parameters);
  }

  session::TaskId try_spawn_packed(std::span<const std::byte> parameters) noexcept override {
    return parameters.size() == kernel_->info().parameter_bytes ? executor_.try_spawn(kind_, parameters) : 0;
  }

 private:
  // What may be used is anybody's.
  Status begin_universal(scheduler::Mode mode) {
    session_->note_universal_task();
    PERGOLA_TRY(session_->mirrors().settle_all());
    PERGOLA_ASSIGN(const device::EventPtr all, session_->scheduler().record());
    PERGOLA_TRY(all->wait());
    if (scheduler::writes(mode)) session_->mirrors().all_changed_on_device();
    return {};
  }

  const std::shared_ptr<LocalSession> session_;
  const std::shared_ptr<TaskWork> work_;
  const std::shared_ptr<LocalKernel> kernel_;
  executor::Executor& executor_;
  const executor::Kind kind_;
};

Result<std::shared_ptr<TaskWork>> TaskWork::create(device::DevicePtr device, const session::TaskPoolOptions& options,
                                                   std::function<void()> before_start) {
  executor::ExecutorOptions own;
  own.blocks = options.blocks;
  own.before_start = std::move(before_start);
  if (options.park_after.count() != 0) own.park_after = options.park_after;
  if (own.park_after.count() < 0)
    return PERGOLA_ERROR(kInvalidArgument,
                         "A pool cannot park after {} microseconds: give 0 for the usual 200, or more.",
                         own.park_after.count());
  PERGOLA_ASSIGN(auto executor, executor::Executor::create(std::move(device), own));
  return std::shared_ptr<TaskWork>(new TaskWork(std::move(executor)));
}

Result<std::uint32_t> TaskWork::body_of(const std::shared_ptr<const LocalModule>& module, std::size_t index,
                                        const session::KernelInfo& info) {
  const std::lock_guard lock(mutex_);
  Made& made = bodies_[{module.get(), index}];
  if (made.module.lock() == module) return made.body;
  PERGOLA_ASSIGN(const ptx::Module parsed, ptx::parse(module->ptx(), info.name));
  PERGOLA_ASSIGN(auto body, transform::entry_to_task(parsed, info.name, executor_->task_config(info.parameter_bytes)));
  PERGOLA_ASSIGN(const std::uint32_t number, executor_->add_body(std::move(body)));
  made = {module, number};
  return number;
}

Result<session::TaskKindPtr> LocalTaskPool::prepare(const session::KernelPtr& kernel,
                                                    const session::LaunchShape& shape) {
  auto local = std::dynamic_pointer_cast<LocalKernel>(kernel);
  if (local == nullptr || local->module()->session() != session_)
    return PERGOLA_ERROR(kInvalidArgument, "The kernel is {}.",
                         kernel == nullptr ? "null" : "of another session than the pool; load it there");
  const std::lock_guard lock(mutex_);
  std::erase_if(prepared_, [](const Prepared& one) { return one.kind.expired(); });
  for (const Prepared& one : prepared_)
    if (one.kernel.lock() == local && one.shape == shape)
      if (auto kind = one.kind.lock()) return kind;
  PERGOLA_ASSIGN(const std::uint32_t body, work_->body_of(local->module(), local->index(), local->info()));
  PERGOLA_ASSIGN(const executor::Kind number, work_->executor().add_kind(body, shape));
  auto kind = std::make_shared<LocalTaskKind>(session_, work_, local, number);
  prepared_.push_back({local, shape, kind});
  return session::TaskKindPtr(std::move(kind));
}

Status LocalTaskPool::wait(session::TaskId id, std::optional<std::chrono::nanoseconds> timeout) {
  return work_->executor().wait(id, timeout);
}

Result<bool> LocalTaskPool::check(session::TaskId id) {
  return work_->executor().check(id);
}

Status LocalTaskPool::wait_all(std::optional<std::chrono::nanoseconds> timeout) {
  return work_->executor().wait_all(timeout);
}

Status LocalTaskPool::park() {
  return work_->executor().park();
}

session::TaskPoolInfo LocalTaskPool::info() const {
  const executor::ExecutorInfo of = work_->executor().info();
  session::TaskPoolInfo info;
  info.blocks = of.blocks;
  info.registers_per_thread = of.registers_per_thread;
  info.local_bytes_per_thread = of.local_bytes_per_thread;
  info.most_threads = abi::kTaskMostThreads;
  info.most_shared_bytes = of.most_shared_bytes;
  info.memory_bytes = of.memory_bytes;
  info.launches = of.launches;
  info.spawned = of.spawned;
  info.is_running = of.is_running;
  return info;
}

}  // namespace pergola::runtime
