#include "src/runtime/local_task_pool.h"

#include <boost/container/small_vector.hpp>
#include <charconv>
#include <cstdlib>
#include <string_view>

#include "src/device/cpu/task_crew.h"
#include "src/executor/generation.h"
#include "src/executor/kind.h"
#include "src/ptx/parser.h"
#include "src/runtime/local_array.h"
#include "src/session/arguments.h"
#include "src/transform/entry_to_task.h"

namespace pergola::runtime {

// A kernel with a shape, of one pool.
class LocalTaskKind final : public session::TaskKind {
 public:
  LocalTaskKind(std::shared_ptr<LocalSession> session, std::shared_ptr<TaskWork> work,
                std::shared_ptr<LocalKernel> kernel, TaskWork::Kind kind)
      : session_(std::move(session)),
        work_(std::move(work)),
        kernel_(std::move(kernel)),
        resident_(work_->resident()),
        kind_(std::move(kind)) {}

  Result<session::TaskKindPtr> with_priority(session::TaskPriority priority) override {
    TaskWork::Kind other = kind_;
    const bool high = priority == session::TaskPriority::kHigh;
    // A ring takes more of them: they find room where others wait on the host, and are read before these.
    if (high != kind_.high_priority)
      other.resident.depth = high ? kind_.resident.depth + kDeeper : kind_.resident.depth - kDeeper;
    other.resident.is_urgent = high;
    other.high_priority = high;
    return session::TaskKindPtr(std::make_shared<LocalTaskKind>(session_, work_, kernel_, std::move(other)));
  }

  Result<std::uint64_t> on_device() override {
    return resident_ != nullptr ? resident_->handle_of(kind_.resident)
                                : work_->direct()->handle_of(kind_.direct, kind_.high_priority);
  }

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
    Result<session::TaskId> id = start(parameters);
    for (const session::Argument& argument : arguments)
      if (const auto* given = std::get_if<session::ArrayArgument>(&argument))
        static_cast<const LocalArray&>(*given->array).note_task();
    return id;
  }

  Result<session::TaskId> spawn_packed(std::span<const std::byte> parameters) override {
    if (parameters.size() != kernel_->info().parameter_bytes) [[unlikely]]
      return PERGOLA_ERROR(kInvalidArgument, "Kernel '{}' takes {} bytes of parameters, not {}.", kernel_->info().name,
                           kernel_->info().parameter_bytes, parameters.size());
    return start(parameters);
  }

  session::TaskId try_spawn_packed(std::span<const std::byte> parameters) noexcept override {
    if (resident_ == nullptr || parameters.size() != kernel_->info().parameter_bytes) return 0;
    return resident_->try_spawn(kind_.resident, parameters);
  }

 private:
  static constexpr std::uint32_t kDeeper = 16;  // depth is 47 at most, and a ring has 64 records
  static_assert(47 + kDeeper <= abi::kRingRecords);

  Result<session::TaskId> start(std::span<const std::byte> parameters) {
    if (resident_ != nullptr) return resident_->spawn(kind_.resident, parameters);
    return work_->direct()->spawn(kind_.direct, parameters, kind_.high_priority);
  }

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
  executor::Executor* const resident_;
  const TaskWork::Kind kind_;
};

namespace {

Result<session::TaskExecutor> wanted_executor(session::TaskExecutor asked) {
  const char* given = std::getenv("PERGOLA_TASK_EXECUTOR");
  if (asked != session::TaskExecutor::kUsual || given == nullptr || *given == '\0') return asked;
  if (std::string_view(given) == "resident") return session::TaskExecutor::kResident;
  if (std::string_view(given) == "threads") return session::TaskExecutor::kThreads;
  return PERGOLA_ERROR(kInvalidArgument, "PERGOLA_TASK_EXECUTOR is '{}'; it can be 'resident' or 'threads'.", given);
}

Result<bool> wanted_fences(bool asked) {
  const char* given = std::getenv("PERGOLA_TASK_FENCES");
  if (given == nullptr || *given == '\0') return asked;
  if (std::string_view(given) == "on") return true;
  if (std::string_view(given) == "off") return false;
  return PERGOLA_ERROR(kInvalidArgument, "PERGOLA_TASK_FENCES is '{}'; it can be 'on' or 'off'.", given);
}

// PERGOLA_TASK_STAY_MS; 0: not asked for.
Result<std::chrono::microseconds> wanted_stay() {
  constexpr std::uint32_t kMostMs = 1'000'000;
  const char* given = std::getenv("PERGOLA_TASK_STAY_MS");
  if (given == nullptr || *given == '\0') return std::chrono::microseconds(0);
  const std::string_view text(given);
  std::uint32_t ms = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), ms);
  if (error != std::errc() || end != text.data() + text.size() || ms > kMostMs)
    return PERGOLA_ERROR(kInvalidArgument, "PERGOLA_TASK_STAY_MS is '{}'; it can be a number of milliseconds up to {}.",
                         text, kMostMs);
  return std::chrono::microseconds(std::chrono::milliseconds(ms));
}

}  // namespace

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
  PERGOLA_ASSIGN(const session::TaskExecutor executor, wanted_executor(options.executor));
  PERGOLA_ASSIGN(own.fences, wanted_fences(options.fences));
  PERGOLA_ASSIGN(own.longest_stay, wanted_stay());
  auto work = std::make_shared<TaskWork>();
  if (executor != session::TaskExecutor::kResident) {
    PERGOLA_ASSIGN(work->direct_, device::cpu::create_task_runner(device, options.blocks));
    if (work->direct_ != nullptr) return work;
    if (executor == session::TaskExecutor::kThreads)
      return PERGOLA_ERROR(kUnsupported,
                           "'{}' has no threads that run tasks, which the CPU device has; ask for a resident kernel.",
                           device->info().id);
  }
  PERGOLA_ASSIGN(work->resident_, executor::Executor::create(std::move(device), own));
  return work;
}

Result<TaskWork::Made> TaskWork::body_of(const Ptx& ptx, const session::KernelInfo& info) {
  const std::lock_guard lock(mutex_);
  Made& made = bodies_[{ptx.get(), info.name}];
  if (made.ptx.lock() == ptx) return made;
  PERGOLA_ASSIGN(const ptx::Module parsed, ptx::parse(*ptx, info.name));
  transform::TaskConfig config =
      executor::task_config(info.parameter_bytes, executor::most_static_shared_bytes(executor::kArenaBytes));
  if (resident_ != nullptr) config.fences = resident_->fences();
  PERGOLA_ASSIGN(auto body, transform::entry_to_task(parsed, info.name, config));
  Made fresh{ptx};
  if (resident_ != nullptr) {
    PERGOLA_ASSIGN(fresh.number, resident_->add_body(std::move(body)));
  } else {
    PERGOLA_TRY(executor::check_body(body));
    body.module = {};
    fresh.body = std::make_shared<const transform::TaskBody>(std::move(body));
  }
  made = fresh;
  return fresh;
}

Result<TaskWork::Kind> TaskWork::prepare(const Ptx& ptx, const session::KernelInfo& info,
                                         const device::ModulePtr& device_module, const device::Kernel& kernel,
                                         const session::LaunchShape& shape) {
  PERGOLA_ASSIGN(const Made made, body_of(ptx, info));
  Kind kind;
  if (resident_ != nullptr) {
    PERGOLA_ASSIGN(kind.resident, resident_->add_kind(made.number, shape));
    return kind;
  }
  PERGOLA_TRY(executor::kind_entry(*made.body, 0, shape, executor::kArenaBytes).status());
  PERGOLA_ASSIGN(kind.direct, direct_->kind(device_module, kernel, shape));
  return kind;
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
  const LocalModule& module = *local->module();
  PERGOLA_ASSIGN(const device::Kernel* const own, module.kernels_[local->index()]);
  PERGOLA_ASSIGN(TaskWork::Kind made, work_->prepare(module.ptx_, local->info(), module.module_, *own, shape));
  auto kind = std::make_shared<LocalTaskKind>(session_, work_, local, std::move(made));
  prepared_.push_back({local, shape, kind});
  return session::TaskKindPtr(std::move(kind));
}

Status LocalTaskPool::wait(session::TaskId id, std::optional<std::chrono::nanoseconds> timeout) {
  return work_->wait(id, timeout);
}

Result<bool> LocalTaskPool::check(session::TaskId id) {
  return work_->check(id);
}

Status LocalTaskPool::wait_all(std::optional<std::chrono::nanoseconds> timeout) {
  return work_->wait_all(timeout);
}

Status LocalTaskPool::park() {
  return work_->resident() != nullptr ? work_->resident()->park() : Status();
}

session::TaskPoolInfo LocalTaskPool::info() const {
  session::TaskPoolInfo info;
  info.most_threads = abi::kTaskMostThreads;
  if (const device::TaskRunner* direct = work_->direct()) {
    const device::TaskRunnerInfo of = direct->info();
    info.blocks = of.threads;
    info.most_shared_bytes = executor::kArenaBytes;
    info.memory_bytes = of.memory_bytes;
    info.spawned = of.spawned;
    info.spawned_by_tasks = of.spawned_by_tasks;
    return info;
  }
  const executor::ExecutorInfo of = work_->resident()->info();
  info.blocks = of.blocks;
  info.registers_per_thread = of.registers_per_thread;
  info.local_bytes_per_thread = of.local_bytes_per_thread;
  info.most_shared_bytes = of.most_shared_bytes;
  info.memory_bytes = of.memory_bytes;
  info.launches = of.launches;
  info.spawned = of.spawned;
  info.spawned_by_tasks = of.spawned_by_tasks;
  info.is_running = of.is_running;
  return info;
}

}  // namespace pergola::runtime
