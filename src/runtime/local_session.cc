#include "src/runtime/local_session.h"

#include <cstring>
#include <filesystem>
#include <limits>
#include <thread>

#include "src/base/end_grace.h"
#include "src/base/environment.h"
#include "src/base/file.h"
#include "src/base/fork.h"
#include "src/base/left_to_process.h"
#include "src/base/log.h"
#include "src/base/plural.h"
#include "src/runtime/block_ways.h"
#include "src/runtime/deadline.h"
#include "src/runtime/devices.h"
#include "src/runtime/load.h"
#include "src/runtime/local_array.h"
#include "src/runtime/local_task_pool.h"
#include "src/runtime/runtime.h"
#include "src/runtime/small_tasks.h"

namespace pergola::runtime {
namespace {

std::uint64_t next_session_id() {
  static std::atomic<std::uint64_t> counter{1};  // relaxed: only distinct values are wanted
  return counter.fetch_add(1, std::memory_order_relaxed);
}

class LocalEvent final : public session::Event {
 public:
  // `module` owns the name.
  LocalEvent(std::shared_ptr<LocalSession> session, device::EventPtr event, device::ModulePtr module,
             std::string_view kernel, Status failed)
      : session_(std::move(session)),
        module_(std::move(module)),
        event_(std::move(event)),
        kernel_(kernel),
        failed_(std::move(failed)) {}

  std::optional<Status> poll() override {
    std::optional<Status> status = event_->poll();
    if (!status) return status;
    return outcome(*status);
  }

  Status wait(std::optional<std::chrono::nanoseconds> timeout) override {
    Status status = event_->wait(timeout);
    if (status.code() == Code::kTimeout) return status;
    return outcome(status);
  }

  Result<double> elapsed_ns(const Event& start) override {
    const auto* from = dynamic_cast<const LocalEvent*>(&start);
    if (from == nullptr || from->session_ != session_)
      return PERGOLA_ERROR(kInvalidArgument, "The two events are of different sessions, whose clocks do not compare.");
    if (dynamic_cast<const scheduler::TaskEvent*>(from->event_.get()) != nullptr)
      return from->event_->elapsed_ns(*event_);  // says why there is no time
    return event_->elapsed_ns(*from->event_);
  }

 private:
  Status outcome(const Status& status) const {
    if (!status.ok()) return session_->explain(status, kernel_);
    return failed_.ok() ? failed_ : session_->explain(failed_, "");
  }

  const std::shared_ptr<LocalSession> session_;
  const device::ModulePtr module_;
  const device::EventPtr event_;
  const std::string_view kernel_;
  const Status failed_;
};

}  // namespace

Status name_kernel(std::string_view kernel, const Status& status) {
  if (status.ok() || kernel.empty() || status.message().find(fmt::format("'{}'", kernel)) != std::string::npos)
    return status;
  Error error = status.error();
  error.message = fmt::format("Kernel '{}' failed: {}", kernel, error.message);
  return error;
}

namespace {

constexpr std::uint64_t kMostMemoryBytes = std::uint64_t{1} << 50;
constexpr std::uint64_t kSpareOfMemory = 16;  // a sixteenth, at most

}  // namespace

LocalSession::LocalSession(device::DevicePtr device, std::unique_ptr<scheduler::Scheduler> scheduler,
                           std::uint64_t most_spare_bytes, std::chrono::milliseconds end_grace)
    : id_(next_session_id()),
      device_(std::move(device)),
      spare_(std::make_shared<SpareMemory>(most_spare_bytes)),
      scheduler_(std::move(scheduler)),
      sites_{scheduler_->site("write"),
             scheduler_->site("read"),
             scheduler_->site("fill"),
             scheduler_->site("copy"),
             scheduler_->site("upload"),
             scheduler_->site("download"),
             scheduler_->site("wait for a stream")},
      starts_(std::make_shared<Starts>(scheduler_.get())),
      end_grace_(end_grace) {}

Result<std::shared_ptr<LocalSession>> LocalSession::create(device::DevicePtr device, std::string_view policy_text) {
  scheduler::Policy policy;
  // A stream of the CPU device is a thread, and its grids share the cores anyway.
  if (device->info().kind == device::DeviceKind::kCpu) policy.max_streams = 8;
  if (!policy_text.empty()) {
    PERGOLA_ASSIGN(policy, scheduler::parse_policy(policy_text, policy));
  } else if (const auto given = setting("PERGOLA_SCHEDULER")) {
    Result<scheduler::Policy> parsed = scheduler::parse_policy(*given, policy);
    if (!parsed.ok()) return PERGOLA_ERROR(kInvalidArgument, "PERGOLA_SCHEDULER: {}", parsed.message());
    policy = *parsed;
  }
  if (policy.memory == scheduler::Memory::kManaged && device->info().managed == device::ManagedAccess::kNone)
    return PERGOLA_ERROR(kUnsupported, "'{}' ({}) has no managed memory: use memory=device, which is the default.",
                         device->info().id, device->info().name);
  PERGOLA_ASSIGN(auto scheduler,
                 scheduler::Scheduler::create(device, policy, std::make_shared<BlockWays>(device, policy.blocks)));
  PERGOLA_ASSIGN(const std::chrono::milliseconds end_grace, end_grace_from_environment());
  PERGOLA_ASSIGN(const auto given_spare, number_setting("PERGOLA_SPARE_MEMORY_BYTES", 0, kMostMemoryBytes, "bytes"));
  const std::uint64_t spare = given_spare.value_or(device->info().memory_bytes / kSpareOfMemory);
  std::shared_ptr<LocalSession> session(new LocalSession(std::move(device), std::move(scheduler), spare, end_grace));
  device::MemoryShortage::add(session->spare_);
  if (session->scheduler_->takes_tasks()) session->small_tasks_ = std::make_unique<SmallTasks>(*session);
  PERGOLA_TRY(session->record_as_asked());
  session->at_exit_ = std::make_unique<AtExit>([of = session.get()] { of->end_recordings_at_exit(); });
  return session;
}

// The process ends, and the session, of which nobody knows what else it does, lives.
void LocalSession::end_recordings_at_exit() {
  constexpr std::chrono::milliseconds kPatience(1000);
  const Status status = scheduler_->end_recordings_at_exit(kPatience);
  if (!status.ok()) PERGOLA_WARN("A session is left by the program's end: {}", status.message());
}

LocalSession::~LocalSession() {
  at_exit_.reset();
  dag_file_.reset();
  if (is_forked_child()) {
    small_tasks_.reset();
    return;
  }
  const auto start_at_once = [this] { starts_->ends.store(true, std::memory_order_relaxed); };
  const bool all_ended = !has_tasks() || tasks_->end(start_at_once);
  start_at_once();
  if (all_ended) add_task_slices();
  if (!all_ended) {
    PERGOLA_WARN(
        "A session on '{}' ends, and its pool of narrow tasks does not within {} ms (PERGOLA_END_GRACE_MS) in which "
        "nothing gets on. The pool is left with what its tasks use, until the process ends.",
        device_->info().id, end_grace_.count());
    leave_to_the_process(tasks_);  // its threads may wait, too
    tasks_->abandon();
    // It may be in the middle of giving a kernel to the pool.
    if (small_tasks_ != nullptr && !small_tasks_->stop_by(std::chrono::steady_clock::now() + end_grace_))
      leave_to_the_process(std::move(small_tasks_));
  }
  if (small_tasks_ != nullptr || !all_ended) {
    small_tasks_.reset();
    scheduler_->end_tasks(all_ended);  // while there is the pool
  }
  const std::lock_guard lock(starts_->mutex);
  starts_->scheduler = nullptr;
}

bool LocalSession::Starts::wait_for_ordinary_work(std::optional<std::chrono::nanoseconds> at_most) {
  if (!worked.load(std::memory_order_acquire)) return true;
  waits.store(true, std::memory_order_release);
  const bool have_ended = !worked.exchange(false, std::memory_order_acq_rel) || await_streams(at_most);
  // Without a time to it others may note work meanwhile that they have yet to submit: the next wait looks again.
  if (!have_ended || !at_most) worked.store(true, std::memory_order_release);
  waits.store(false, std::memory_order_release);
  return have_ended;
}

bool LocalSession::Starts::await_streams(std::optional<std::chrono::nanoseconds> at_most) {
  constexpr std::chrono::milliseconds kSlice(20), kBusily(1);
  device::EventPtr all;
  {
    const std::lock_guard lock(mutex);
    if (scheduler == nullptr) return true;
    Result<device::EventPtr> recorded = scheduler->record_streams();
    if (!recorded.ok()) return !at_most || at_most->count() != 0;  // who would not wait may be in a library call
    all = *std::move(recorded);
  }
  // As an untimed wait would do it, on a GPU.
  const auto begin = std::chrono::steady_clock::now();
  while (!all->poll()) {  // a failure is told to who waits for it
    if (ends.load(std::memory_order_relaxed)) return true;
    const auto waited = std::chrono::steady_clock::now() - begin;
    if (at_most && waited >= *at_most) return false;
    if (waited < kBusily)
      std::this_thread::yield();
    else
      (void)all->wait(at_most ? std::min<std::chrono::nanoseconds>(kSlice, *at_most - waited) : kSlice);
  }
  return true;
}

Status LocalSession::record_as_asked() {
  // Of a process's later sessions each has a file of its own: trace.json, trace.2.json, ...
  const auto own = [this](std::filesystem::path path) {
    if (id_ != 1 && !is_written_in_place(path))
      path.replace_extension(fmt::format("{}{}", id_, path.extension().string()));
    return path;
  };
  if (const auto file = setting("PERGOLA_TRACE")) {
    const Status status = trace(own(*file).string());
    if (!status.ok()) return Error{status.code(), "PERGOLA_TRACE: " + status.message(), __FILE__, __LINE__};
  }
  if (const auto file = setting("PERGOLA_DOT_FILE")) {
    Result<std::unique_ptr<DagFile>> made = DagFile::create(own(*file), *scheduler_);
    if (!made.ok()) return Error{made.code(), "PERGOLA_DOT_FILE: " + made.message(), __FILE__, __LINE__};
    dag_file_ = *std::move(made);
  }
  if (const auto file = setting("PERGOLA_HISTORY")) {
    const Status status = history(std::string(*file));
    if (!status.ok()) return Error{status.code(), "PERGOLA_HISTORY: " + status.message(), __FILE__, __LINE__};
  }
  if (const auto file = setting("PERGOLA_USE_HISTORY")) {
    const Status status = use_history(std::string(*file));
    if (!status.ok()) return Error{status.code(), "PERGOLA_USE_HISTORY: " + status.message(), __FILE__, __LINE__};
  }
  if (const auto file = setting("PERGOLA_TUNING")) {
    const Status status = tuning(std::string(*file));
    if (!status.ok()) return Error{status.code(), "PERGOLA_TUNING: " + status.message(), __FILE__, __LINE__};
  }
  return {};
}

Result<session::ModulePtr> LocalSession::load_file(const std::string& path, const session::LoadOptions& options) {
  PERGOLA_ASSIGN(const LoadRequest request, read_source(path, options));
  return load(shared_from_this(), request);
}

Result<session::ModulePtr> LocalSession::load_text(std::string_view text, const session::LoadOptions& options) {
  return load(shared_from_this(), text_source(text, options));
}

Result<session::ArrayPtr> LocalSession::allocate(session::ElementType type, std::uint32_t element_bytes,
                                                 std::uint64_t count) {
  PERGOLA_ASSIGN(element_bytes, session::element_bytes_of(type, element_bytes));
  if (count > std::numeric_limits<std::uint64_t>::max() / 2 / element_bytes)
    return PERGOLA_ERROR(kResourceExhausted, "An array of {} elements of {} is more than any device has.", count,
                         plural(element_bytes, "byte"));
  auto resource = scheduler_->create_resource(count * element_bytes);  // also frees what nobody uses any more
  const bool managed = scheduler_->policy().memory == scheduler::Memory::kManaged;
  const auto kind = managed ? device::MemoryKind::kManaged : device::MemoryKind::kDevice;
  if (has_tasks()) tasks_->let_go_of_kept();
  Result<device::BufferPtr> buffer = allocate_memory(count * element_bytes, kind);
  if (buffer.code() == Code::kResourceExhausted && has_tasks()) {
    tasks_->await_kept();
    PERGOLA_ASSIGN(const Quiet quiet, quiet_tasks());  // what was freed beside the resident kernel goes with it
    buffer = device_->allocate(count * element_bytes, kind);
  }
  if (!buffer.ok()) return buffer.status();
  return session::ArrayPtr(std::make_shared<LocalArray>(shared_from_this(), std::move(*buffer), std::move(resource),
                                                        type, element_bytes, count));
}

Result<device::BufferPtr> LocalSession::allocate_memory(std::uint64_t size_bytes, device::MemoryKind kind) {
  if (device::BufferPtr spare = spare_->take(size_bytes, kind)) return spare;
  if (spare_->is_far_ahead(size_bytes, kind)) {
    const bool is_very_far = spare_->is_far_ahead(size_bytes, kind, true);
    const auto until = std::chrono::steady_clock::now() + spare_->patience();
    if (scheduler_->await_retired(!is_very_far, until)) {  // some more have ended by then: an event is for several
      if (device::BufferPtr spare = spare_->take(size_bytes, kind)) return spare;
    } else if (std::chrono::steady_clock::now() >= until) {
      spare_->note_vain_wait();
    }
  }
  Result<device::BufferPtr> buffer = device_->allocate(size_bytes, kind);  // which has had back what was spare
  if (buffer.code() != Code::kResourceExhausted || kind == device::MemoryKind::kHostVisible) return buffer;
  const std::uint64_t all = device_->info().memory_bytes;
  return all == 0 || size_bytes <= all ? allocate_when_some_ends(size_bytes, kind) : buffer;
}

// Waits for the work of what has gone by now, as long as some of it ends within the grace. What other threads let go
// meanwhile counts within the last of these alone.
Result<device::BufferPtr> LocalSession::allocate_when_some_ends(std::uint64_t size_bytes, device::MemoryKind kind) {
  const std::uint64_t last = scheduler_->last_retired();
  std::size_t left = std::numeric_limits<std::size_t>::max();
  auto until = std::chrono::steady_clock::now() + end_grace_;
  for (bool is_last_try = false;;) {
    const std::uint64_t seen = scheduler_->last_retired();
    const bool has_ended = scheduler_->await_retired(false, until);
    Result<device::BufferPtr> buffer = device_->allocate(size_bytes, kind);
    if (buffer.code() != Code::kResourceExhausted) return buffer;
    const auto now = std::chrono::steady_clock::now();
    if (const std::size_t still = scheduler_->left_of_retired(last); still < left)
      left = still, until = now + end_grace_;
    // Or another thread has let some go, and taken it, between the two: it will again.
    const bool moves = has_ended || scheduler_->last_retired() != seen;
    if (moves && now < until) continue;
    if (is_last_try || !scheduler_->release_kept_by_queues()) return buffer;
    is_last_try = true;
  }
}

Result<session::ArrayPtr> LocalSession::adopt(session::ElementType type, std::uint32_t element_bytes,
                                              std::uint64_t count, device::ForeignMemory memory) {
  PERGOLA_ASSIGN(element_bytes, session::element_bytes_of(type, element_bytes));
  if (__builtin_mul_overflow(count, element_bytes, &memory.size_bytes))
    return PERGOLA_ERROR(kInvalidArgument, "{} elements of {} are more than any memory has.", count,
                         plural(element_bytes, "byte"));
  PERGOLA_ASSIGN(auto buffer, device_->adopt(memory));
  auto resource = scheduler_->create_foreign_resource(memory.size_bytes, buffer->address());
  auto array = std::make_shared<LocalArray>(shared_from_this(), std::move(buffer), std::move(resource), type,
                                            element_bytes, count);
  array->mark_shared();
  return session::ArrayPtr(std::move(array));
}

session::EventPtr LocalSession::wrap(device::EventPtr event, device::ModulePtr module, std::string_view kernel,
                                     Status failed) {
  return std::make_shared<LocalEvent>(shared_from_this(), std::move(event), std::move(module), kernel,
                                      std::move(failed));
}

Result<session::TaskPoolPtr> LocalSession::task_pool(const session::TaskPoolOptions& options) {
  PERGOLA_ASSIGN(auto work, task_work(options));
  return session::TaskPoolPtr(std::make_shared<LocalTaskPool>(shared_from_this(), std::move(work)));
}

Result<std::shared_ptr<TaskWork>> LocalSession::task_work(const session::TaskPoolOptions& options) {
  const std::lock_guard lock(tasks_mutex_);
  if (tasks_ == nullptr) {
    // Whoever has launched gets its turn before tasks take the device again.
    const auto before_start = [starts = starts_](executor::ExecutorOptions::AtMost at_most) {
      return starts->wait_for_ordinary_work(at_most);
    };
    const auto start_waits = [starts = starts_] { return starts->would_wait(); };
    PERGOLA_ASSIGN(tasks_, TaskWork::create(device_, options, before_start, start_waits, end_grace_));
    scheduler_->set_task_host(tasks_);
    has_tasks_.store(true, std::memory_order_release);
    if (scheduler_->traces()) PERGOLA_TRY(tasks_->keep_slices());
  }
  return tasks_;
}

Status LocalSession::end_tasks(std::optional<std::chrono::nanoseconds> timeout) {
  if (!has_tasks_.load(std::memory_order_acquire)) return {};
  return traced_wait(*scheduler_, *tasks_, [&] { return tasks_->wait_all(timeout); });
}

Status LocalSession::end_users_of(ArrayTasks& tasks, std::optional<std::chrono::nanoseconds> timeout) {
  const std::uint64_t begun = tasks.begun.load(std::memory_order_acquire);
  const Status ended = universal_tasks_.load(std::memory_order_relaxed)
                           ? end_tasks(timeout)
                           : traced_wait(*scheduler_, *tasks_, [&] { return tasks_->wait_for_users(tasks, timeout); });
  PERGOLA_TRY(with_lost_arrays(ended));
  tasks.ended.store(begun, std::memory_order_release);  // an older one makes somebody wait once more
  return {};
}

Status LocalSession::with_lost_arrays(Status status) const {
  if (status.code() != Code::kDeviceLost) return status;
  Error error = status.error();
  if (const std::string arrays = scheduler_->lost_arrays(); !arrays.empty()) error.message += ' ' + arrays;
  return error;
}

Status LocalSession::await_tasks_of(ArrayTasks& tasks) {
  const std::uint64_t begun = tasks.begun.load(std::memory_order_acquire);
  if (!has_open_tasks_of(tasks)) return {};
  PERGOLA_ASSIGN(const bool all_told, traced_wait(*scheduler_, *tasks_, [&] { return tasks_->await_all(); }));
  if (all_told) tasks.ended.store(begun, std::memory_order_release);
  return {};
}

Result<LocalSession::Quiet> LocalSession::quiet_tasks() {
  if (!has_tasks_.load(std::memory_order_acquire)) return Quiet();
  if (tasks_->resident() == nullptr) return Quiet();
  note_ordinary_work();  // first: between the two somebody may start the kernel, and would find nothing to wait for
  PERGOLA_ASSIGN(auto quiet, tasks_->resident()->quiesce());
  note_ordinary_work();
  return Quiet(std::move(quiet));
}

Result<session::EventPtr> LocalSession::record() {
  Status failed;
  PERGOLA_ASSIGN(auto event, scheduler_->record(&failed));
  return wrap(std::move(event), nullptr, "", std::move(failed));
}

Status LocalSession::synchronize(std::optional<std::chrono::nanoseconds> timeout) {
  const auto deadline = deadline_in(timeout);
  Status tasks = end_tasks(timeout);
  if (timeout && tasks.code() == Code::kTimeout) return tasks;
  if (!tasks.ok()) {  // which is told once: kept until it is
    const std::lock_guard lock(untold_tasks_mutex_);
    if (untold_tasks_.ok()) untold_tasks_ = std::move(tasks);
  }
  Status status = scheduler_->synchronize(deadline);
  if (timeout && status.code() == Code::kTimeout) return status;
  if (!timeout) spare_->give_back_old();  // for which the driver may wait, for others' work
  Status untold;
  if (has_tasks()) {
    const std::lock_guard lock(untold_tasks_mutex_);
    untold = std::exchange(untold_tasks_, Status());
  }
  if (!status.ok()) mirrors_.failed();
  return status.ok() ? untold : status;
}

Result<std::string> LocalSession::dag(std::string_view format) {
  if (format == "dot") return scheduler_->picture().dot();
  if (format == "mermaid") return scheduler_->picture().mermaid();
  if (format == "svg") return scheduler_->picture().svg();
  return PERGOLA_ERROR(kInvalidArgument, "'{}' is no format of graphs; there are 'svg', 'dot' and 'mermaid'.", format);
}

Result<std::string> LocalSession::graphs(std::string_view format) {
  if (format == "text") return scheduler::explain(scheduler_->graphs());
  if (format == "json") return scheduler::print_graphs(scheduler_->graphs());
  return PERGOLA_ERROR(kInvalidArgument, "'{}' is no format of what became graphs; there are 'text' and 'json'.",
                       format);
}

Status LocalSession::trace(const std::optional<std::string>& path) {
  add_task_slices();  // of the trace that ends
  if (!path) return scheduler_->end_trace();
  PERGOLA_TRY(scheduler_->start_trace(*path));
  return has_tasks() ? tasks_->keep_slices() : Status();
}

// The trace is of use without them.
void LocalSession::add_task_slices() {
  if (!has_tasks() || !scheduler_->traces()) return;
  const Result<device::TaskSlices> slices = tasks_->take_slices();
  if (slices.ok())
    scheduler_->add_tasks(*slices);
  else
    PERGOLA_WARN("a trace lacks its narrow tasks: {}", slices.message());
}

Status LocalSession::history(const std::optional<std::string>& path) {
  return path ? scheduler_->start_history(*path) : scheduler_->end_history();
}

Status LocalSession::end_recordings(std::optional<std::chrono::nanoseconds> timeout) {
  add_task_slices();
  return scheduler_->end_recordings(deadline_in(timeout));
}

Status LocalSession::tuning(const std::optional<std::string>& path) {
  return path ? scheduler_->start_tuning(*path) : scheduler_->end_tuning();
}

Status LocalSession::copy_to_host_now(std::span<std::byte> destination, const device::BufferPtr& source,
                                      std::size_t offset_bytes) {
  return on_reader([&](device::Queue& queue) { return queue.copy_to_host(destination, source, offset_bytes); });
}

Status LocalSession::give_to_host_now(const device::BufferPtr& buffer) {
  const std::lock_guard lock(give_mutex_);
  return on_reader([&](device::Queue& queue) { return queue.give_managed_to_host(buffer); });
}

template <typename Use>
Status LocalSession::on_reader(const Use& use) {
  constexpr std::size_t kMostIdleReaders = 8;
  std::unique_ptr<device::Queue> reader;
  {
    const std::lock_guard lock(readers_mutex_);
    if (!readers_.empty()) {
      reader = std::move(readers_.back());
      readers_.pop_back();
    }
  }
  if (reader == nullptr) {
    PERGOLA_ASSIGN(reader, device_->create_queue());
  }
  Status status = use(*reader);
  if (status.ok()) status = reader->synchronize();
  const std::lock_guard lock(readers_mutex_);
  if (readers_.size() < kMostIdleReaders) readers_.push_back(std::move(reader));
  return status;
}

Status LocalSession::refuse_where_restricted(std::string_view doing) const {
  if (scheduler_->policy().memory != scheduler::Memory::kManaged ||
      device_->info().managed != device::ManagedAccess::kRestricted)
    return {};
  return PERGOLA_ERROR(kUnsupported,
                       "{}: '{}' shows a managed array to one stream at a time, which the session chooses. Use "
                       "memory=device.",
                       doing, device_->info().id);
}

Status LocalSession::explain(const Status& status, std::string_view kernel) {
  if (status.code() != Code::kSkipped && !kernel.empty()) return name_kernel(kernel, status);
  Status failure = scheduler_->failure();
  if (failure.ok()) return status;
  if (kernel.empty()) return failure;
  return PERGOLA_ERROR(kSkipped, "Kernel '{}' was not run, because work before it failed: {}", kernel,
                       failure.message());
}

Result<session::SessionPtr> create_session(device::DevicePtr device, std::string_view policy) {
  PERGOLA_ASSIGN(auto session, LocalSession::create(std::move(device), policy));
  return session::SessionPtr(std::move(session));
}

Result<session::SessionPtr> create_session(std::string_view device_name, std::string_view policy) {
  watch_for_fork();
  PERGOLA_ASSIGN(auto device, open_device(device_name));
  return create_session(std::move(device), policy);
}

}  // namespace pergola::runtime
