#include "src/runtime/local_task_pool.h"

#include <algorithm>
#include <boost/container/small_vector.hpp>
#include <cstring>
#include <thread>
#include <utility>

#include "src/base/deadline.h"
#include "src/base/environment.h"
#include "src/base/log.h"
#include "src/base/plural.h"
#include "src/device/cpu/task_crew.h"
#include "src/executor/generation.h"
#include "src/executor/kind.h"
#include "src/ptx/parser.h"
#include "src/runtime/deadline.h"
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
    other.resident = kind_.resident.with_urgency(high);
    if (high && resident_ != nullptr) resident_->expect_urgent();
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
    const Uses uses = uses_of(arguments, {});
    PERGOLA_ASSIGN(scheduler::Predecessors after, predecessors(uses));
    note(uses);
    Result<session::TaskId> id = after.empty() ? start(parameters) : hold(std::move(after), parameters);
    note(uses);
    return id;
  }

  Status spawn_each(std::span<const session::Argument> arguments, std::span<const session::TaskColumn> columns,
                    std::size_t count, std::span<session::TaskId> ids, std::size_t& spawned) override {
    spawned = 0;
    const session::KernelInfo& info = kernel_->info();
    boost::container::small_vector<std::byte, 256> sample(info.parameter_bytes);
    PERGOLA_TRY(session::bind_arguments(info, session_->id(), arguments, sample));
    for (const session::TaskColumn& column : columns)
      if (column.argument >= arguments.size() || !std::holds_alternative<session::Number>(arguments[column.argument]))
        return PERGOLA_ERROR(kInvalidArgument,
                             "Argument {} of kernel '{}' is to be another one for each task, and is no number.",
                             column.argument, info.name);
    PERGOLA_TRY(check_room(ids, count));
    // Rows are made some at a time.
    const std::size_t stride = (sample.size() + 7) / 8 * 8;
    std::vector<std::byte> rows(stride * std::min(count, kRowsAtOnce));
    for (std::size_t n = 0; n < rows.size() && stride != 0; n += stride)
      std::copy(sample.begin(), sample.end(), rows.begin() + static_cast<std::ptrdiff_t>(n));
    const Uses uses = uses_of(arguments, columns);
    Status status;
    while (status.ok() && spawned < count) {
      const std::size_t some = std::min(count - spawned, kRowsAtOnce);
      for (const session::TaskColumn& column : columns) {
        const session::ParameterInfo& parameter = info.parameters[column.argument];
        const std::byte* from = column.values + spawned * column.stride_bytes;
        for (std::size_t n = 0; n < some; ++n, from += column.stride_bytes)
          std::memcpy(rows.data() + n * stride + parameter.offset_bytes, from, parameter.size_bytes);
      }
      std::size_t there = 0;
      status = start_ordered({rows.data(), sample.size(), stride, some}, uses,
                             ids.empty() ? ids : ids.subspan(spawned, some), count - spawned - some, there);
      spawned += there;
    }
    return status;
  }

  Result<session::TaskId> spawn_packed(std::span<const std::byte> parameters) override {
    if (parameters.size() != kernel_->info().parameter_bytes) [[unlikely]]
      return refuse_size(parameters.size());
    return start(parameters);
  }

  Status spawn_many(const ByteRows& parameters, std::span<session::TaskId> ids, std::size_t& spawned) override {
    spawned = 0;
    if (parameters.row_bytes != kernel_->info().parameter_bytes) return refuse_size(parameters.row_bytes);
    PERGOLA_TRY(check_room(ids, parameters.count));
    return start_many(parameters, ids, 0, spawned);
  }

  session::TaskId try_spawn_packed(std::span<const std::byte> parameters) noexcept override {
    if (resident_ == nullptr || parameters.size() != kernel_->info().parameter_bytes) return 0;
    return resident_->try_spawn(kind_.resident, parameters);
  }

 private:
  Status refuse_size(std::size_t given) const {
    return PERGOLA_ERROR(kInvalidArgument, "Kernel '{}' takes {} of parameters, not {}.", kernel_->info().name,
                         plural(kernel_->info().parameter_bytes, "byte"), given);
  }
  static Status check_room(std::span<const session::TaskId> ids, std::size_t tasks) {
    if (ids.empty() || ids.size() == tasks) return {};
    return PERGOLA_ERROR(kInvalidArgument, "There is room for {} of {}.", plural(ids.size(), "id"),
                         plural(tasks, "task"));
  }

  Result<session::TaskId> start(std::span<const std::byte> parameters) {
    return resident_ != nullptr ? resident_->spawn(kind_.resident, parameters) : work_->spawn(kind_, parameters);
  }

  // `more` come after these.
  Status start_many(const ByteRows& parameters, std::span<session::TaskId> ids, std::size_t more,
                    std::size_t& spawned) {
    if (resident_ != nullptr) return resident_->spawn_many(kind_.resident, parameters, ids.data(), more, spawned);
    for (; spawned < parameters.count; ++spawned) {
      PERGOLA_ASSIGN(const session::TaskId id, work_->spawn(kind_, parameters[spawned]));
      if (!ids.empty()) ids[spawned] = id;
    }
    return {};
  }

  // What a task uses: arrays, and what may be any of them.
  struct Uses {
    boost::container::small_vector<std::pair<const LocalArray*, scheduler::Mode>, 8> arrays;
    scheduler::Mode universal = scheduler::Mode::kNone;
  };
  static constexpr std::size_t kRowsAtOnce = 64;  // few: other threads' work on the arrays may come between

  // Of arguments that have been bound. What a column has may be an address where a number may.
  Uses uses_of(std::span<const session::Argument> arguments, std::span<const session::TaskColumn> columns) const {
    const session::KernelInfo& info = kernel_->info();
    const LocalModule::LaunchState& state = kernel_->state_;
    Uses uses{{}, state.universal};
    for (std::size_t i = 0; i < arguments.size(); ++i) {
      if (const auto* given = std::get_if<session::ArrayArgument>(&arguments[i])) {
        // Of this session, as bind_arguments() has seen: its arrays are all LocalArrays.
        uses.arrays.emplace_back(static_cast<const LocalArray*>(given->array.get()), state.modes[i]);
      } else if (may_be_address(info, arguments, i, columns)) {
        uses.universal = uses.universal | state.modes[i];
      }
    }
    for (const session::TaskColumn& column : columns)
      if (may_be_address(info, arguments, column.argument, columns))
        uses.universal = uses.universal | state.modes[column.argument];
    return uses;
  }

  // Those rows' tasks, behind what uses the same; `more` come after them.
  Status start_ordered(const ByteRows& rows, const Uses& uses, std::span<session::TaskId> ids, std::size_t more,
                       std::size_t& spawned) {
    PERGOLA_ASSIGN(scheduler::Predecessors after, predecessors(uses));
    note(uses);
    Status status;
    // Each is held by itself, until what they come after has ended.
    while (status.ok() && !after.empty() && spawned < rows.count) {
      const session::TaskId id = hold(std::exchange(after, {}), rows[spawned]);
      note(uses);
      if (!ids.empty()) ids[spawned] = id;
      if (++spawned == rows.count) break;
      Result<scheduler::Predecessors> next = predecessors(uses);
      status = next.status();
      if (next.ok()) after = *std::move(next);
    }
    if (status.ok() && spawned < rows.count) {
      std::size_t there = 0;
      const ByteRows rest{rows.first + spawned * rows.stride_bytes, rows.row_bytes, rows.stride_bytes,
                          rows.count - spawned};
      status = start_many(rest, ids.empty() ? ids : ids.subspan(spawned), more, there);
      spawned += there;
    }
    note(uses);
    return status;
  }

  // What of the session's work has to end first; what the host has of the arrays goes up before.
  Result<scheduler::Predecessors> predecessors(const Uses& uses) {
    boost::container::small_vector<scheduler::Access, 8> accesses;
    for (const auto& [array, mode] : uses.arrays) {
      if (mode == scheduler::Mode::kNone) continue;
      PERGOLA_TRY(array->settle_for_task());
      accesses.push_back(array->access(0, array->size_bytes(), mode));
    }
    if (uses.universal != scheduler::Mode::kNone) {  // what may be used is anybody's
      session_->note_universal_task();
      PERGOLA_TRY(session_->mirrors().settle_all());
    }
    return session_->scheduler().predecessors(accesses, uses.universal);
  }

  // Before the task is there: whoever uses an array from now on waits for it. And after: whoever has waited for the
  // array's tasks since, and brought it to the host, has not waited for this one.
  void note(const Uses& uses) {
    for (const auto& [array, mode] : uses.arrays) {
      array->note_task();
      if (scheduler::writes(mode)) array->changed_on_device();
    }
    if (scheduler::writes(uses.universal)) session_->mirrors().all_changed_on_device();
  }

  // Behind work that goes on: the keeper of the edges spawns it, which holds nothing of the session.
  session::TaskId hold(scheduler::Predecessors after, std::span<const std::byte> parameters) {
    const auto spawn = [work = work_.get(), kind = kind_,
                        bytes = std::vector<std::byte>(parameters.begin(), parameters.end())] {
      return work->spawn(kind, bytes);
    };
    return work_->edges().hold({kernel_->info().name, kind_.high_priority, std::move(after), spawn});
  }

  const std::shared_ptr<LocalSession> session_;
  const std::shared_ptr<TaskWork> work_;
  const std::shared_ptr<LocalKernel> kernel_;
  executor::Executor* const resident_;
  const TaskWork::Kind kind_;
};

namespace {

Result<session::TaskExecutor> wanted_executor(session::TaskExecutor asked) {
  if (asked != session::TaskExecutor::kUsual) return asked;
  PERGOLA_ASSIGN(const auto given, choice_setting("PERGOLA_TASK_EXECUTOR", {"resident", "threads"}));
  if (!given) return asked;
  return *given == 0 ? session::TaskExecutor::kResident : session::TaskExecutor::kThreads;
}

Result<bool> wanted_fences(bool asked) {
  PERGOLA_ASSIGN(const auto given, choice_setting("PERGOLA_TASK_FENCES", {"on", "off"}));
  return given ? *given == 0 : asked;
}

Result<bool> wanted_slices(bool asked) {
  PERGOLA_ASSIGN(const auto given, choice_setting("PERGOLA_TASK_SLICES", {"on", "off"}));
  return given ? *given == 0 : asked;
}

// Whether streams are to wait for tasks, or who submits work to them.
Result<bool> wanted_gates() {
  PERGOLA_ASSIGN(const auto given, choice_setting("PERGOLA_TASK_EDGES", {"stream", "host"}));
  return given.value_or(0) == 0;
}

// 0: not asked for.
Result<std::chrono::microseconds> wanted_stay() {
  PERGOLA_ASSIGN(const auto ms, number_setting("PERGOLA_TASK_STAY_MS", 0, 1'000'000, "milliseconds"));
  return std::chrono::microseconds(std::chrono::milliseconds(ms.value_or(0)));
}

}  // namespace

Result<std::shared_ptr<TaskWork>> TaskWork::create(const device::DevicePtr& device,
                                                   const session::TaskPoolOptions& options,
                                                   std::function<bool(executor::ExecutorOptions::AtMost)> before_start,
                                                   std::function<bool()> start_waits, std::chrono::milliseconds grace) {
  executor::ExecutorOptions own;
  own.blocks = options.blocks;
  own.before_start = std::move(before_start);
  own.start_waits = start_waits;
  if (options.park_after.count() != 0) own.park_after = options.park_after;
  if (own.park_after.count() < 0)
    return PERGOLA_ERROR(kInvalidArgument,
                         "A pool cannot park after {} microseconds: give 0 for the usual 200, or more.",
                         own.park_after.count());
  PERGOLA_ASSIGN(const session::TaskExecutor executor, wanted_executor(options.executor));
  PERGOLA_ASSIGN(own.fences, wanted_fences(options.fences));
  PERGOLA_ASSIGN(own.slices, wanted_slices(options.slices));
  PERGOLA_ASSIGN(own.longest_stay, wanted_stay());
  PERGOLA_ASSIGN(const bool gates, wanted_gates());
  auto work = std::make_shared<TaskWork>();
  work->device_ = device;
  work->start_waits_ = std::move(start_waits);
  work->grace_ = grace;
  work->slices_ = own.slices;
  if (executor != session::TaskExecutor::kResident) {
    PERGOLA_ASSIGN(work->direct_, device::cpu::create_task_runner(device, options.blocks));
    if (work->direct_ != nullptr) {
      work->make_edges(device, gates);
      return work;
    }
    if (executor == session::TaskExecutor::kThreads)
      return PERGOLA_ERROR(kUnsupported,
                           "'{}' has no threads that run tasks, which the CPU device has; ask for a resident kernel.",
                           device->info().id);
  }
  PERGOLA_ASSIGN(work->resident_, executor::Executor::create(device, own));
  device->add_resident(work.get(), [weak = std::weak_ptr(work)]() -> Result<std::shared_ptr<void>> {
    struct Away {
      std::shared_ptr<TaskWork> of;
      executor::Executor::Quiet quiet;  // goes first
    };
    std::shared_ptr<TaskWork> owner = weak.lock();
    if (owner == nullptr) return std::shared_ptr<void>();
    PERGOLA_ASSIGN(executor::Executor::Quiet quiet, owner->resident_->quiesce_unless_abandoned());
    return std::shared_ptr<void>(std::make_shared<Away>(Away{std::move(owner), std::move(quiet)}));
  });
  work->make_edges(device, gates);
  return work;
}

namespace {

TaskEdges::Runner runner_of(device::TaskRunner& direct) {
  TaskEdges::Runner runner;
  runner.has_ended = [&](session::TaskId id) { return direct.has_ended(id); };
  runner.call_by = [&](session::TaskId id, session::TaskId as) { direct.call_by(id, as); };
  runner.open = [&] {
    TaskEdges::Open open = direct.open_tasks();
    std::sort(open.begin(), open.end());
    return open;
  };
  runner.have_ended = [&](const TaskEdges::Open& open) {
    return std::all_of(open.begin(), open.end(), [&](session::TaskId id) { return direct.has_ended(id); });
  };
  runner.covers = [](const TaskEdges::Open& open, session::TaskId id) {
    return std::binary_search(open.begin(), open.end(), id);
  };
  return runner;
}

TaskEdges::Runner runner_of(executor::Executor& resident) {
  TaskEdges::Runner runner;
  runner.has_ended = [&](session::TaskId id) { return resident.has_ended(id); };
  runner.call_by = [&](session::TaskId id, session::TaskId as) { resident.call_by(id, as); };
  runner.open = [&] { return resident.heads(); };
  runner.have_ended = [&](const TaskEdges::Open& open) { return resident.have_ended(open); };
  runner.covers = [](const TaskEdges::Open& open, session::TaskId id) { return executor::Executor::covers(open, id); };
  runner.stay = [&] { return resident.stay(); };
  runner.leave = [&](FunctionRef<void()> told) { resident.leave(told); };
  return runner;
}

}  // namespace

void TaskWork::make_edges(const device::DevicePtr& device, bool streams_wait) {
  edges_.emplace(direct_ != nullptr ? runner_of(*direct_) : runner_of(*resident_));
  if (!streams_wait) {
    PERGOLA_INFO("Work that comes after narrow tasks of '{}' waits for them on the host: PERGOLA_TASK_EDGES is 'host'.",
                 device->info().id);
    return;
  }
  if (const Status gates = edges_->use_gates(device); !gates.ok())
    PERGOLA_INFO("Work that comes after narrow tasks of '{}' waits for them on the host: {}", device->info().id,
                 gates.message());
}

bool TaskWork::is_idle() {
  if (edges_->held() != 0) return false;
  return direct_ != nullptr ? direct_->open_tasks().empty() : !resident_->has_open_tasks();
}

Status TaskWork::keep_slices() {
  if (!slices_) return {};
  if (resident_ != nullptr) return resident_->keep_slices();
  constexpr std::size_t kMostSlices = std::size_t{1} << 18;
  direct_->keep_slices(kMostSlices);
  return {};
}

Result<device::TaskSlices> TaskWork::take_slices() {
  if (!slices_) return device::TaskSlices();
  if (!wait_while_it_gets_on() && resident_ != nullptr)
    return PERGOLA_ERROR(kTimeout,
                         "Tasks get nowhere, and what their resident kernel has noted can be read once it has left.");
  if (resident_ != nullptr) return resident_->take_slices();
  device::TaskSlices taken = direct_->take_slices();
  direct_->keep_slices(0);
  return taken;
}

std::uint64_t TaskWork::spawned() const {
  return direct_ != nullptr ? direct_->info().spawned : resident_->spawned();
}

Status TaskWork::wait(session::TaskId id, std::optional<std::chrono::nanoseconds> timeout) {
  if (!TaskEdges::is_held_id(id)) return wait_released(id, timeout);
  const auto deadline = deadline_in(timeout);
  PERGOLA_ASSIGN(const TaskId given, edges_->await_release(id, deadline));
  return given == TaskEdges::kNeverRan ? Status() : wait_released(given, left_until(deadline));
}

Result<bool> TaskWork::check(session::TaskId id) {
  if (TaskEdges::is_held_id(id)) {
    PERGOLA_ASSIGN(id, edges_->released(id));
    if (id == 0) return false;
    if (id == TaskEdges::kNeverRan) return true;
  }
  return direct_ != nullptr ? direct_->check(id) : resident_->check(id);
}

Status TaskWork::wait_all(std::optional<std::chrono::nanoseconds> timeout) {
  const auto deadline = deadline_in(timeout);
  PERGOLA_TRY(edges_->await_all(deadline));
  const auto left = left_until(deadline);
  const Status waited = direct_ != nullptr ? direct_->wait_all(left) : resident_->wait_all(left);
  let_go_of_kept();
  PERGOLA_TRY(waited);
  return edges_->untold();
}

Status TaskWork::wait_for_users(const ArrayTasks& array, std::optional<std::chrono::nanoseconds> timeout) {
  const auto deadline = deadline_in(timeout);
  PERGOLA_TRY(edges_->await_all(deadline));
  const auto begin = array.address, end = begin + array.size_bytes;
  const auto left = left_until(deadline);
  const Status waited = direct_ != nullptr ? direct_->wait_for(direct_->users_of(begin, end), left)
                                           : resident_->wait_for(resident_->users_of(begin, end), left);
  let_go_of_kept();
  PERGOLA_TRY(waited);
  return edges_->untold();
}

Result<bool> TaskWork::await_all() {
  constexpr std::chrono::microseconds kFirstNap(20), kLastNap(200);
  const TaskEdges::SoFar tasks = edges_->so_far();
  for (auto nap = kFirstNap; !edges_->have_ended(tasks); nap = std::min(2 * nap, kLastNap))
    std::this_thread::sleep_for(nap);
  let_go_of_kept();
  if (resident_ != nullptr) PERGOLA_TRY(resident_->failure());
  return !edges_->has_untold() && !(direct_ != nullptr ? direct_->has_untold() : resident_->has_untold());
}

// ── Ending ──────────────────────────────────────────────────────────────────────────────────────────────────────────

std::uint64_t TaskWork::moves() {
  const std::uint64_t edges = edges_->moves();
  if (resident_ != nullptr) return edges + resident_->spawned() + resident_->ended();
  return edges + 2 * direct_->info().spawned - direct_->open_tasks().size();
}

bool TaskWork::gets_on() {
  const std::uint64_t moves = this->moves();
  const std::lock_guard lock(patience_mutex_);
  // The resident kernel's own turns would count on the CPU device.
  const bool computes = direct_ != nullptr && device_->gets_on();
  const bool has_moved = std::exchange(seen_moves_, moves) != moves;
  return stillness_.after_look(computes || has_moved) < grace_;
}

template <typename Over>
bool TaskWork::await(const Over& over) {
  constexpr std::chrono::microseconds kFirstNap(20), kLastNap(2000);
  for (auto nap = kFirstNap; !over(); nap = std::min(2 * nap, kLastNap)) {
    if (!gets_on()) return over();
    std::this_thread::sleep_for(nap);
  }
  return true;
}

bool TaskWork::wait_while_it_gets_on() {
  const TaskEdges::SoFar tasks = edges_->so_far();
  const bool ended = await([&] { return edges_->have_ended(tasks); });
  let_go_of_kept();
  if (!ended) device_->note_given_up();
  return ended;
}

TaskWork::~TaskWork() {
  if (resident_ != nullptr) device_->remove_resident(this);
}

bool TaskWork::end(FunctionRef<void()> starts_wait_no_longer) {
  const auto is_over = [&] { return edges_->is_idle() && (direct_ != nullptr || !resident_->has_open_tasks()); };
  const auto has_released = [&] { return edges_->held() == 0; };
  const bool gets_there = direct_ != nullptr ? await(has_released) : await(is_over);
  starts_wait_no_longer();
  const auto soon = [&] { return std::chrono::steady_clock::now() + grace_; };
  if (!gets_there) {
    device_->note_given_up();
    if (!edges_->refuse_held(soon())) return false;
    const std::lock_guard lock(patience_mutex_);
    stillness_ = Stillness();  // what waited for the launch's end goes on now
  }
  if (direct_ != nullptr) {
    direct_->end();
    return await([&] { return edges_->is_idle(); });
  }
  return await(is_over) && resident_->leaves_by(soon());
}

void TaskWork::abandon() {
  device_->note_given_up();
  edges_->open_all();
  if (resident_ != nullptr) resident_->abandon();
}

void TaskWork::keep(device::BufferPtr memory) {
  constexpr std::uint64_t kShare = 8;  // of the device's memory
  const std::uint64_t size_bytes = memory->size_bytes();
  bool is_much = false;
  {
    const std::lock_guard lock(kept_mutex_);
    if (kept_.empty() || kept_.back().users) kept_.emplace_back();
    kept_.back().memory.push_back(std::move(memory));
    kept_.back().size_bytes += size_bytes;
    kept_bytes_ += size_bytes;
    is_much = kept_bytes_ > device_->info().memory_bytes / kShare;
  }
  is_much ? await_kept() : let_go_of_kept();
}

void TaskWork::let_go_of_kept() {
  std::list<Kept> going;  // without the lock
  const std::lock_guard lock(kept_mutex_);
  while (!kept_.empty()) {
    Kept& first = kept_.front();
    if (!first.users) first.users = edges_->so_far();
    if (!edges_->have_ended(*first.users)) return;
    kept_bytes_ -= first.size_bytes;
    going.splice(going.end(), kept_, kept_.begin());
  }
}

// A task that is held, or that waits for the resident kernel's start, may be so for ever.
void TaskWork::await_kept() {
  let_go_of_kept();
  {
    const std::lock_guard lock(kept_mutex_);
    if (kept_.empty()) return;
  }
  if (edges_->held() == 0 && !waits_for_ordinary_work()) (void)wait_while_it_gets_on();
}

Result<transform::TaskBody> TaskWork::make_body(const std::string& ptx, const session::KernelInfo& info) const {
  PERGOLA_ASSIGN(const ptx::Module parsed, ptx::parse(ptx, info.name));
  transform::TaskConfig config =
      executor::task_config(info.parameter_bytes, executor::most_static_shared_bytes(executor::kArenaBytes));
  if (resident_ != nullptr) config.fences = resident_->fences();
  return transform::entry_to_task(parsed, info.name, config);
}

Status TaskWork::add_kernels(std::span<const NewKernel> kernels) {
  const std::lock_guard lock(mutex_);
  std::map<Made*, Made> fresh;  // and what each will be
  std::vector<transform::TaskBody> bodies;
  std::vector<Made*> owners;
  for (const NewKernel& kernel : kernels) {
    Made& known = bodies_[{kernel.ptx.get(), kernel.info->name}];
    if (known.ptx.lock() == kernel.ptx || fresh.contains(&known)) continue;
    PERGOLA_ASSIGN(auto body, make_body(*kernel.ptx, *kernel.info));
    Made& its = fresh[&known] = Made{kernel.ptx};
    if (resident_ != nullptr) {
      owners.push_back(&known);
      bodies.push_back(std::move(body));
      continue;
    }
    PERGOLA_TRY(executor::check_body(body));
    body.module = {};
    its.body = std::make_shared<const transform::TaskBody>(std::move(body));
  }
  if (!bodies.empty()) {
    PERGOLA_ASSIGN(std::uint32_t number, resident_->add_bodies(std::move(bodies)));
    for (Made* const owner : owners) fresh[owner].number = number++;
  }
  for (auto& [known, made] : fresh) *known = std::move(made);
  return {};
}

Result<TaskWork::Made> TaskWork::body_of(const Ptx& ptx, const session::KernelInfo& info) {
  const NewKernel kernel{ptx, &info};
  PERGOLA_TRY(add_kernels({&kernel, 1}));
  const std::lock_guard lock(mutex_);
  return bodies_[{ptx.get(), info.name}];
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

Result<std::shared_ptr<LocalKernel>> LocalTaskPool::own(const session::KernelPtr& kernel, std::string_view name) const {
  auto local = std::dynamic_pointer_cast<LocalKernel>(kernel);
  if (local == nullptr || local->module()->session() != session_)
    return PERGOLA_ERROR(kInvalidArgument, "{} is {}.", name,
                         kernel == nullptr ? "null" : "of another session than the pool; load it there");
  return local;
}

Result<session::TaskKindPtr> LocalTaskPool::prepare(const session::KernelPtr& kernel,
                                                    const session::LaunchShape& shape) {
  PERGOLA_ASSIGN(const auto local, own(kernel, "The kernel"));
  const std::lock_guard lock(mutex_);
  std::erase_if(prepared_, [](const Prepared& one) { return one.kind.expired(); });
  for (const Prepared& one : prepared_)
    if (one.kernel == &local->info() && one.shape == shape)
      if (auto kind = one.kind.lock()) return kind;
  const LocalModule& module = *local->module();
  PERGOLA_ASSIGN(const device::Kernel* const own, module.kernels_[local->index()]);
  PERGOLA_ASSIGN(TaskWork::Kind made, work_->prepare(module.ptx_, local->info(), module.module_, *own, shape));
  auto kind = std::make_shared<LocalTaskKind>(session_, work_, local, std::move(made));
  prepared_.push_back({&local->info(), shape, kind});
  return session::TaskKindPtr(std::move(kind));
}

Status LocalTaskPool::add_kernels(std::span<const session::KernelPtr> kernels) {
  std::vector<TaskWork::NewKernel> wanted;
  for (std::size_t i = 0; i < kernels.size(); ++i) {
    PERGOLA_ASSIGN(const auto local, own(kernels[i], fmt::format("Kernel {} of {}", i, kernels.size())));
    wanted.push_back({local->module()->ptx_, &local->info()});
  }
  return work_->add_kernels(wanted);
}

Status LocalTaskPool::wait(session::TaskId id, std::optional<std::chrono::nanoseconds> timeout) {
  if (timeout && *timeout <= std::chrono::nanoseconds::zero())
    return session_->with_lost_arrays(work_->wait(id, timeout));  // asks
  return session_->with_lost_arrays(
      traced_wait(session_->scheduler(), *work_, [&] { return work_->wait(id, timeout); }));
}

Result<bool> LocalTaskPool::check(session::TaskId id) {
  Result<bool> ended = work_->check(id);
  if (!ended.ok()) return session_->with_lost_arrays(ended.status()).error();
  return ended;
}

Status LocalTaskPool::wait_all(std::optional<std::chrono::nanoseconds> timeout) {
  return session_->with_lost_arrays(
      traced_wait(session_->scheduler(), *work_, [&] { return work_->wait_all(timeout); }));
}

Status LocalTaskPool::park() {
  return work_->resident() != nullptr ? work_->resident()->park() : Status();
}

session::TaskPoolInfo LocalTaskPool::info() const {
  session::TaskPoolInfo info;
  info.most_threads = abi::kTaskMostThreads;
  info.held = work_->edges().held();
  info.streams_wait = work_->edges().has_gates();
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
