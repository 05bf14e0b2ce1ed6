// The scheduler's side of recordings (recorder.h): none of this runs where nothing is recorded.
#include <algorithm>
#include <filesystem>

#include "src/base/deadline.h"
#include "src/base/file.h"
#include "src/base/log.h"
#include "src/scheduler/scheduler.h"
#include "src/scheduler/trace_file.h"

namespace pergola::scheduler {
namespace {

// What it was given; of a copy, which may be between two arrays or an array and its host side, what it moves.
std::uint64_t bytes_of(const Work& work) {
  std::uint64_t given = 0, read = 0, written = 0;
  for (const Access& access : work.accesses) {
    if (access.resource->id() == kParameterBlocks) continue;
    const std::uint64_t bytes = access.range.end - access.range.begin;
    given += bytes;
    if (reads(access.mode)) read += bytes;
    if (writes(access.mode)) written += bytes;
  }
  const bool copies =
      work.kind == WorkKind::kCopyToDevice || work.kind == WorkKind::kCopyToHost || work.kind == WorkKind::kCopy;
  return copies ? std::max(read, written) : given;
}

// Waits for that until then.
bool have_ended_by(Scheduler::Deadline deadline, std::span<const device::EventPtr> ends) {
  return std::ranges::none_of(
      ends, [&](const device::EventPtr& end) { return end->wait(left_until(deadline)).code() == Code::kTimeout; });
}

Status left_behind() {
  return PERGOLA_ERROR(kTimeout, "Work that is recorded goes on: what has ended is written, without it.");
}

}  // namespace

Status Scheduler::enqueue_recorded(const Work& work, Stream& stream, Enqueue enqueue,
                                   const KernelDurations* durations) {
  PERGOLA_ASSIGN(device::EventPtr start, stream.queue->record());
  const auto before = std::chrono::steady_clock::now();
  PERGOLA_TRY(enqueue(*stream.queue));
  const std::chrono::duration<double, std::nano> took = std::chrono::steady_clock::now() - before;
  PERGOLA_ASSIGN(const MarkPtr end, record_on(stream, MarkFor::kTime));
  // Without times no launch would be a task where a trace is on.
  if (tasks_ != nullptr && durations != nullptr && durations_.wants(*durations))
    durations_.add(work, start, end->event, took.count());
  recorder_->add(log_.last(), bytes_of(work), work.detail == nullptr ? WorkDetail() : (*work.detail)(),
                 std::move(start), end->event);
  return {};
}

HostSlice Scheduler::open_host(HostKind kind, const Access& access) {
  return recorder_->open_host(kind, access.resource == nullptr ? 0 : access.resource->id(),
                              access.range.end - access.range.begin);
}

std::optional<HostSlice> Scheduler::open_host_wait(const Access& access, const Dependencies& parents) {
  if (recorder_ == nullptr) return std::nullopt;
  HostSlice slice = open_host(HostKind::kWait, access);
  for (const Dependency& parent : parents)
    slice.parents.push_back({parent.parent->id, parent.resource, parent.hazard, Order::kEvent});
  return slice;
}

std::optional<HostSlice> Scheduler::begin_task_wait() {
  if (!traces_.load(std::memory_order_relaxed)) return std::nullopt;
  const std::lock_guard lock(mutex_);
  if (recorder_ == nullptr) return std::nullopt;
  return recorder_->open_host(HostKind::kTasks, 0, 0);
}

void Scheduler::end_task_wait(HostSlice slice, std::uint64_t tasks) {
  slice.tasks = tasks;
  const std::lock_guard lock(mutex_);
  close_host_wait(std::move(slice));
}

void Scheduler::add_tasks(const device::TaskSlices& slices) {
  const std::lock_guard lock(mutex_);
  if (recorder_ != nullptr) recorder_->add_tasks(slices);
}

void Scheduler::close_host_wait(std::optional<HostSlice> slice) {
  if (slice && recorder_ != nullptr) recorder_->close_host(*std::move(slice));
}

// With the lock, which is held from then on: another thread that ends the last recording lets go of the recorder.
Status Scheduler::ensure_recorder(StateLock& lock, RecorderOptions options) {
  if (recorder_ != nullptr) return {};
  lock.unlock();
  auto made = Recorder::create(*device_, to_string(policy_), std::move(options));  // waits: no lock
  lock.lock();
  PERGOLA_TRY(made.status());
  if (recorder_ == nullptr) recorder_ = *std::move(made);
  return {};
}

Status Scheduler::start_trace(const std::string& given, RecorderOptions options) {
  PERGOLA_TRY(end_trace());
  const std::string path = from_root(given).string();
  PERGOLA_ASSIGN(OpenTrace file, OpenTrace::open(path));
  Timeline nothing;
  nothing.device = device_->info().name;
  nothing.policy = to_string(policy_);
  // Where it cannot be written is told now, and an earlier trace stays until this one is whole. What reads a pipe is to
  // get one trace, the whole one.
  if (!is_written_in_place(path)) PERGOLA_TRY(claim_named_file(path, print_trace(nothing)));
  std::unique_lock lock(mutex_);
  PERGOLA_TRY(ensure_recorder(lock, std::move(options)));
  launch_held();
  has_recorded_.store(true, std::memory_order_relaxed);
  recorder_->begin_trace(std::move(file), pool_.last_id());
  traces_.store(true, std::memory_order_relaxed);
  return {};
}

Status Scheduler::start_history(const std::string& given, RecorderOptions options) {
  PERGOLA_TRY(end_history());
  const std::string path = from_root(given).string();
  PERGOLA_ASSIGN(History known, History::load(path));
  if (!is_written_in_place(path)) PERGOLA_TRY(write_named_file(path, known.print()));  // as a trace
  std::unique_lock lock(mutex_);
  PERGOLA_TRY(ensure_recorder(lock, std::move(options)));
  launch_held();
  durations_.know(known);
  has_recorded_.store(true, std::memory_order_relaxed);
  recorder_->begin_history(path, std::move(known));
  return {};
}

Status Scheduler::use_history(const std::string& given) {
  const std::filesystem::path path = from_root(given);
  std::error_code error;
  const std::filesystem::file_status status = std::filesystem::status(path, error);
  if (status.type() == std::filesystem::file_type::not_found)
    return PERGOLA_ERROR(kNotFound, "There is no file '{}'; a history is recorded with PERGOLA_HISTORY={} first.",
                         given, given);
  if (error) return PERGOLA_ERROR(kIo, "'{}' cannot be read: {}.", given, error.message());
  if (status.type() != std::filesystem::file_type::regular)
    return PERGOLA_ERROR(kInvalidArgument, "'{}' is no file, as a history is that is to be used.", given);
  PERGOLA_ASSIGN(const History known, History::load(path));
  const std::lock_guard lock(mutex_);
  durations_.know(known);
  return {};
}

// Waits for all that is being recorded; tells no failures, which are for others to tell. The lock is held again after
// it. False where some of it goes on.
bool Scheduler::settle_recording(StateLock& lock, Deadline deadline) {
  const std::vector<device::EventPtr> ends = recorder_->unsettled();
  lock.unlock();
  const bool have_ended = have_ended_by(deadline, ends);
  lock.lock();
  if (recorder_ != nullptr) deadline ? recorder_->settle_ended() : recorder_->settle();
  return have_ended;
}

Status Scheduler::end_trace() {
  std::unique_lock lock(mutex_);
  if (recorder_ == nullptr || !recorder_->has_trace()) return {};
  launch_held();
  settle_recording(lock);
  return write(std::move(lock), take_trace());
}

Scheduler::Write Scheduler::take_trace() {
  if (recorder_ == nullptr || !recorder_->has_trace()) return {};
  traces_.store(false, std::memory_order_relaxed);
  Timeline timeline = recorder_->take_timeline();
  timeline.graphs = graphs_locked();
  const auto file = std::make_shared<const OpenTrace>(recorder_->take_trace());
  if (recorder_->is_idle()) recorder_.reset();
  return [file, timeline = std::move(timeline)] { return write_named_file(file->path(), print_trace(timeline)); };
}

Status Scheduler::write(StateLock lock, const Write& taken) {
  lock.unlock();
  return taken ? taken() : Status();
}

Status Scheduler::end_history() {
  std::unique_lock lock(mutex_);
  if (recorder_ == nullptr || recorder_->history_path().empty()) return {};
  settle_recording(lock);
  return write(std::move(lock), take_history());
}

Scheduler::Write Scheduler::take_history() {
  if (recorder_ == nullptr || recorder_->history_path().empty()) return {};
  const std::string path = recorder_->history_path();
  const History fresh = recorder_->take_history();
  if (recorder_->is_idle()) recorder_.reset();
  return [path, fresh] { return fresh.add_to(path); };
}

// Another thread may be in the scheduler, and wait there for a device that gets nowhere: all is taken with the lock at
// once, and written without it.
Status Scheduler::end_recordings_at_exit(std::chrono::milliseconds patience) {
  if (!has_recorded_.load(std::memory_order_relaxed)) return {};
  const auto busy = [] {
    return PERGOLA_ERROR(kUnavailable, "Another thread submits work, or waits for the device, while the process ends.");
  };
  if (!mutex_.try_lock_for(patience)) return busy();
  StateLock lock(mutex_, std::adopt_lock);
  if (recorder_ != nullptr) {  // its work is given as much
    const std::vector<device::EventPtr> ends = recorder_->unsettled();
    lock.unlock();
    (void)have_ended_by(std::chrono::steady_clock::now() + patience, ends);
    if (!mutex_.try_lock_for(patience)) return busy();
    lock = StateLock(mutex_, std::adopt_lock);
  }
  bool has_ended = true;
  if (recorder_ != nullptr) {
    recorder_->settle_ended();
    has_ended = recorder_->unsettled().empty();
  }
  const Write history = take_history(), trace = take_trace(), tuning = take_tuning();
  lock.unlock();
  Status first;
  for (const Write* const taken : {&trace, &history, &tuning})
    if (Status status = *taken ? (*taken)() : Status(); first.ok()) first = std::move(status);
  return first.ok() && !has_ended ? left_behind() : first;
}

Status Scheduler::end_recordings(Deadline deadline) {
  std::unique_lock lock(mutex_);
  if (recorder_ == nullptr) return {};
  if (!deadline) launch_held();  // which may wait for the device; else they go by themselves
  const bool have_ended = settle_recording(lock, deadline);
  const Status history = write(std::move(lock), take_history());
  lock = std::unique_lock(mutex_);
  const Status trace = write(std::move(lock), take_trace());
  if (!history.ok() || !trace.ok()) return history.ok() ? trace : history;
  return have_ended ? Status() : left_behind();
}

Status Scheduler::start_tuning(const std::string& given) {
  PERGOLA_TRY(end_tuning());
  const std::string path = from_root(given).string();
  PERGOLA_ASSIGN(Tuning known, Tuning::open(path));
  std::unique_lock lock(mutex_);
  while (!tuning_path_.empty()) {  // another thread has begun one meanwhile
    PERGOLA_TRY(write(std::move(lock), take_tuning()));
    lock = std::unique_lock(mutex_);
  }
  tuning_path_ = path;
  has_recorded_.store(true, std::memory_order_relaxed);
  if (lowering_ != nullptr) lowering_->begin_tuning(std::move(known));
  return {};
}

Status Scheduler::end_tuning() {
  std::unique_lock lock(mutex_);
  return write(std::move(lock), take_tuning());
}

Scheduler::Write Scheduler::take_tuning() {
  if (tuning_path_.empty()) return {};
  const std::string path = std::exchange(tuning_path_, {});
  const Tuning found = lowering_ == nullptr ? Tuning() : lowering_->end_tuning();
  return [path, found] { return found.add_to(path); };
}

std::optional<Estimate> Scheduler::estimate(std::string_view kernel, SizeClass size) {
  const std::lock_guard lock(mutex_);
  if (recorder_ == nullptr) return std::nullopt;
  recorder_->settle();
  return recorder_->estimate(kernel, size);
}

// The session ends; its work has.
void Scheduler::end_recording() {
  if (recorder_ == nullptr) return;
  recorder_->settle();
  std::unique_lock lock(mutex_);
  const Status history = write(std::move(lock), take_history());
  if (!history.ok()) PERGOLA_WARN("kernels' times are lost: {}", history.message());
  lock = std::unique_lock(mutex_);
  const Status trace = write(std::move(lock), take_trace());
  if (!trace.ok()) PERGOLA_WARN("a trace is lost: {}", trace.message());
}

}  // namespace pergola::scheduler
