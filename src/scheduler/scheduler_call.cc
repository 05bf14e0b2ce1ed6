// Calls of other libraries as pieces of work: the scheduler's side.
//
//   lock       what conflicts is waited for ─▶ parents ─▶ stream, which waits for them and is reserved
//   no lock    function(stream)
//   lock       the computation takes its place on the stream, behind what the function has queued
//
// The function is called without the lock: a library may take long to make itself ready, and takes locks of its own.
// Until it has returned, work of other threads that conflicts waits as for an access of the host, and other work goes
// to other streams: so nothing comes between the library's work and the place that it takes. The thread that runs the
// function would wait for itself, and is refused instead.
#include "src/scheduler/scheduler.h"

namespace pergola::scheduler {
namespace {

// The calls that this thread is inside of, the innermost first.
struct Frame {
  const Scheduler* scheduler;
  const Frame* before;
};
thread_local const Frame* innermost = nullptr;

class InsideCall {
 public:
  explicit InsideCall(const Scheduler* scheduler) : frame_{scheduler, innermost} { innermost = &frame_; }
  ~InsideCall() { innermost = frame_.before; }
  InsideCall(const InsideCall&) = delete;
  InsideCall& operator=(const InsideCall&) = delete;

 private:
  const Frame frame_;
};

constexpr std::uint64_t kDefaultStreams[] = {1, 2};  // the legacy one, and the calling thread's

}  // namespace

struct Scheduler::CallUnderWay {
  void* handle = nullptr;  // null: synchronous
  Stream* stream = nullptr;
  StreamReason reason = StreamReason::kNew;
  Dependencies parents;
  Waits waits;
  device::EventPtr start;                    // of a recording
  std::uint64_t before_first = 0, last = 0;  // the numbers of its accesses in host_accesses_
};

Status Scheduler::refuse_on_this_thread() const {
  for (const Frame* frame = innermost; frame != nullptr; frame = frame->before)
    if (frame->scheduler == this)
      return PERGOLA_ERROR(kFailedPrecondition,
                           "This thread is inside the function of a library call of the same session, which can submit "
                           "and wait for nothing: queue work on the stream that the function is given, and the rest "
                           "before or after the call.");
  return {};
}

Status Scheduler::call(const Work& work, bool synchronous, Function function) {
  CallUnderWay call;
  std::unique_lock lock(mutex_);
  PERGOLA_TRY(refuse_inside_call());
  PERGOLA_TRY(begin_call(lock, work, synchronous, call));
  lock.unlock();
  Status status;
  {
    const InsideCall inside(this);
    const nvtx::Range range(work.site == nullptr ? nullptr : nvtx_,
                            work.site == nullptr ? "" : work.site->name.c_str());
    status = function(call.handle);
  }
  // A library that takes no stream may leave work on a default one.
  if (call.handle == nullptr && device_->info().kind == device::DeviceKind::kCuda)
    for (const std::uint64_t stream : kDefaultStreams) {
      const Result<device::EventPtr> end = device_->record_foreign(stream);
      const Status ended = end.ok() ? (*end)->wait() : end.status();
      if (status.ok()) status = ended;
    }
  lock.lock();
  const Status placed = end_call(lock, work, call);
  return status.ok() ? placed : status;
}

Status Scheduler::begin_call(StateLock& lock, const Work& work, bool synchronous, CallUnderWay& call) {
  bool any_write = false;
  for (const Access& access : work.accesses) any_write = any_write || writes(access.mode);
  PERGOLA_ASSIGN(void* const any_handle, streams_.front()->queue->native_handle());
  synchronous = synchronous || any_handle == nullptr;
  while (true) {
    PERGOLA_TRY(await_turn(lock, work));
    launch_held();
    for (const Access& access : work.accesses) access.resource->collect(access.range, access.mode, call.parents);
    universal_dependencies(Mode::kNone, any_write, call.parents);
    if (!synchronous || call.parents.empty()) break;
    PERGOLA_TRY(
        wait_for_parents(lock, work.accesses.empty() ? Access() : work.accesses.front(), call.parents, std::nullopt));
  }
  if (synchronous) PERGOLA_TRY(tell_failure());

  const Result<StreamChoice> choice = stream_for(work, call.parents);
  Status status = choice.status();
  if (status.ok()) status = keep_parent_reachable(*choice->stream);
  if (status.ok()) status = wait_across(*choice->stream, call.parents, call.waits);
  if (status.ok() && work.prepare != nullptr) status = (*work.prepare)(*choice->stream->queue);
  if (status.ok() && !synchronous) {
    const Result<void*> handle = choice->stream->queue->native_handle();
    status = handle.status();
    if (handle.ok()) call.handle = *handle;
  }
  if (status.ok() && recorder_ != nullptr) {
    Result<device::EventPtr> start = choice->stream->queue->record();
    status = start.status();
    if (start.ok()) call.start = *std::move(start);
  }
  if (!status.ok()) {
    release(call.parents, pool_);
    return status;
  }
  call.stream = choice->stream;
  call.reason = choice->reason;
  call.stream->reserved = true;
  std::erase(by_use_, call.stream);
  call.before_first = last_host_access_;
  for (const Access& access : work.accesses) host_accesses_.emplace_back(++last_host_access_, access);
  call.last = last_host_access_;
  ++calls_under_way_;
  return {};
}

Status Scheduler::end_call(StateLock& lock, const Work& work, CallUnderWay& call) {
  Stream& stream = *call.stream;
  --calls_under_way_;
  stream.reserved = false;
  by_use_.push_back(&stream);
  std::erase_if(host_accesses_,
                [&](const auto& host) { return host.first > call.before_first && host.first <= call.last; });
  host_access_ended_.notify_all();

  const bool was_idle = stream.idle();
  Computation& who = *pool_.take();
  ++who.holds;
  who.site = work.site;
  if (!work.accesses.empty())
    who.prediction_slot = static_cast<std::uint8_t>(work.accesses.back().resource->id() % EventPrediction::kSlots);
  // Those of before, as what conflicts has waited, or fewer; under no-const readers that came meanwhile, too.
  Dependencies parents;
  EndedParents ended;
  add_parents(work, who, parents, ended);
  Status status = wait_across(stream, parents, call.waits);
  const bool comes_after_others = !parents.empty();
  release(parents, pool_);
  append(stream, who, kUnknownDurationNs, 0);
  write_log({work, who, call.parents, ended, {&stream, call.reason}}, call.waits);
  release(call.parents, pool_);
  if (call.start != nullptr && recorder_ != nullptr) {
    std::uint64_t bytes = 0;
    for (const Access& access : work.accesses) bytes += access.range.end - access.range.begin;
    const Result<MarkPtr> end = record_on(stream, MarkFor::kTime);
    if (end.ok()) recorder_->add(log_.last(), bytes, {}, std::move(call.start), (*end)->event);
    if (status.ok()) status = end.status();
  }
  if (call.handle == nullptr && was_idle && !comes_after_others) {  // it has ended, and is the last
    if (stream.well_position == stream.ended_position) stream.well_position = stream.tail_position;
    stream.ended_position = stream.tail_position;
  }
  MarkPtr mark;
  if (policy_.execution == Execution::kSync && call.handle != nullptr) {
    Result<MarkPtr> recorded = who.mark != nullptr ? who.mark : record_on(stream);
    who.mark_used = true;
    if (recorded.ok()) mark = *recorded;
    if (status.ok()) status = recorded.status();
  }
  pool_.let_go(who);
  if (mark == nullptr || !status.ok()) return status;
  return wait_unlocked(lock, std::span(&mark, 1));
}

}  // namespace pergola::scheduler
