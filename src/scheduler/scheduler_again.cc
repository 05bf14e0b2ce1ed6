// Launches that are known by what their caller wrote (base/call_text.h) and are expected next: nobody looks at their
// arguments, or asks who submits them.
//
//   known ──▶ held behind others for a graph    it is counted
//         ├─▶ the first or last that is held    GraphLowering::again() says what is to be done
//         ├─▶ behind its like (repetition.h)    launched, and written down in that one's place: repeat()
//         ├─▶ of a turn like the one before     launched where its like was: repeat_in_turn() (turn_repetition.h)
//         └─▶ else                              placed and launched like any other: place_again()
#include <algorithm>

#include "src/scheduler/scheduler.h"
#include "src/scheduler/take_moving.h"

namespace pergola::scheduler {
namespace {

// What the launch changes is older at the host from now on. False where the host has what the device has not, and
// nothing has happened.
bool note_changes(const Launch& launch) {
  bool any = false;
  for (const Access& access : launch.accesses) {
    const HostState state = access.resource->host_state();
    if (state == HostState::kHost) return false;
    any = any || (state != HostState::kNone && state != HostState::kDevice && writes(access.mode));
  }
  if (!any) return true;
  for (const Access& access : launch.accesses)
    if (writes(access.mode)) access.resource->changed_on_device();
  return true;
}

}  // namespace

std::optional<Status> Scheduler::submit_again(const CallText& text, Ticket* ticket) {
  mutex_.lock_as_is();
  StateLock lock(mutex_, std::adopt_lock);
  if (lowering_ == nullptr || tasks_ != nullptr || recorder_ != nullptr || calls_under_way_ != 0 ||
      !host_accesses_.empty())
    return std::nullopt;
  GraphLowering::Expected next = lowering_->expected(text, {});
  if (next.launch == nullptr) return std::nullopt;
  if (next.call == nullptr) {
    if (std::optional<Status> status = upload_before(lock, text, next); !status || !status->ok()) return status;
  }
  // What changes is a change of the states, too: the next time there is nothing.
  if (const std::uint64_t changes = host_state_changes.load(std::memory_order_acquire);
      next.call->looked_at != changes) {
    if (!note_changes(*next.launch)) return std::nullopt;
    next.call->looked_at = changes;
  }
  if (!lowering_->hold_again()) return run_again(lock, *next.launch, ticket);
  take_held_ticket(ticket);
  return Status();
}

// The uploads that are expected before the launch that `text` stands for, `next` the first; then that launch is next.
// None where there is more to it than this can do.
std::optional<Status> Scheduler::upload_before(StateLock& lock, const CallText& text, GraphLowering::Expected& next) {
  write_down();
  for (; next.launch != nullptr && next.call == nullptr; next = lowering_->expected(text, next))
    if (std::optional<Status> status = upload_again(lock, *next.launch); !status || !status->ok()) return status;
  if (next.launch == nullptr) return std::nullopt;
  return Status();
}

// The launch, which is expected next: held as the first or the last of its chunk, or launched by itself.
Status Scheduler::run_again(StateLock& lock, const Launch& launch, Ticket* ticket) {
  const TurnRepetition::At at{lowering_->region().get(), lowering_->place()};
  if (lowering_->pass_again()) {
    if (std::optional<Status> status = repeat_any(launch, at, nullptr, ticket)) return *std::move(status);
    return place_again(lock, launch, at, {}, ticket);
  }
  const GraphLowering::Decision lowered = lowering_->again(arriving());
  if (lowered.is_launched())
    if (std::optional<Status> status = repeat_any(launch, at, &lowered, ticket)) return *std::move(status);
  return place_again(lock, launch, at, lowered, ticket);
}

// In the place of its like, where it can be. `lowered`: null where nothing was decided.
std::optional<Status> Scheduler::repeat_any(const Launch& launch, const TurnRepetition::At& at,
                                            const GraphLowering::Decision* lowered, Ticket* ticket) {
  if (repetition_.is_next(launch, pool_.last_id()) && (lowered == nullptr || lowered->is_plain()))
    if (std::optional<Status> status = repeat(launch, ticket)) return status;
  if (!turn_.is_next(at, changes(), pool_.last_id())) return std::nullopt;
  return repeat_in_turn(launch, lowered, ticket);
}

// Placed and launched like any other; or held, where `lowered` says so.
Status Scheduler::place_again(StateLock& lock, const Launch& launch, const TurnRepetition::At& at,
                              const GraphLowering::Decision& lowered, Ticket* ticket) {
  write_down();
  if (lowered.only_holds()) {
    take_held_ticket(ticket);
    return {};
  }
  if (!durations_.is_empty() && pool_.last_id() % kSettlesEach == 0) durations_.settle();
  if (lowered.held && lowered.flush.empty()) {
    take_held_ticket(ticket);
    return launch_graph(lowered.run, lowered.ended, false);
  }
  const KernelCall call{launch.module, *launch.kernel, launch.config, launch.parameters};
  Work work = launch.work();
  work.call = &call;
  const TakeMoving take(policy_, work.accesses);
  const FunctionRef<Status(device::Queue&)> prepare = take;
  if (take.is_needed()) work.prepare = &prepare;
  Status status = carry_out(
      lock, work,
      [&](device::Queue& queue) { return queue.launch(call.module, call.kernel, call.config, call.parameters); },
      lowered, nullptr, ticket);
  if (lowered.held || policy_.memory == Memory::kManaged) return status;
  repetition_.placed(launch, pool_.last_id(), log_);
  if (has_universal_under_way())
    turn_.forget();
  else
    turn_.placed(at, lowering_->region(), changes(), pool_.last_id(), log_);
  // No further reader will be added, with which those before it would go.
  if (repetition_.begins() && repetition_.reads_only())
    for (const Access& access : launch.accesses) access.resource->keep_last_readers(access.range, pool_);
  return status;
}

// The launch comes behind its like (Repetition::is_next()), and takes its place. None where something has happened to
// that one since, or something is to be known of this one; then nothing has happened.
std::optional<Status> Scheduler::repeat(const Launch& launch, Ticket* ticket) {
  Stream& stream = *streams_[log_.last().stream];
  Computation& who = *stream.tail;
  // Nobody but its stream holds it, so none that waits will take its end for that of the one before.
  const bool is_as_it_was = who.id == pool_.last_id() && who.holds == 1 && who.mark == nullptr && !stream.idle();
  if (!is_as_it_was || has_universal_under_way()) return std::nullopt;
  // Others may come to depend on it, and an event right behind it be wanted for them (keep_parent_reachable()).
  if (repetition_.reads_only() && who.site->prediction.expects_use(who.prediction_slot)) return std::nullopt;
  KernelDurations* durations = nullptr;
  if (policy_.fork_cost_us != 0) {
    durations = durations_.count_untimed(*launch.site, repetition_.size());
    if (durations == nullptr) return std::nullopt;
  }
  const nvtx::Range range(nvtx_, launch.site->name.c_str());
  Status status = stream.queue->launch(launch.module, *launch.kernel, launch.config, launch.parameters);
  const double expected_ns = Durations::expected_ns(durations);
  stream.expect(expected_ns, at_least(expected_ns), false);
  who.id = pool_.next_id();
  who.position = ++stream.tail_position;
  who.expected_until_ns = stream.expected_ns;
  ++counters_.computations;
  ++counters_.repeated;
  counters_.dependencies += log_.repeat(who.id, who.position);
  repetition_.repeated(who.id);
  if (ticket != nullptr) *ticket = ticket_of(who);
  return status;
}

// As its array would submit it; none where that has to, and nothing has happened.
std::optional<Status> Scheduler::upload_again(StateLock& lock, const Launch& upload) {
  HostSide* const side = upload.accesses.back().resource->host_side();
  if (side == nullptr || !side->begin_upload()) return std::nullopt;
  const GraphLowering::Decision lowered = lowering_->again(arriving());
  Status status;
  if (lowered.only_holds()) {
    ++held_count_;
  } else {  // the array lives, and so do both sides
    const device::BufferPtr to = upload.copy->to.lock(), from = upload.copy->from.lock();
    const CopyCall call{to, from, upload.copy->size_bytes};
    Work work = upload.work();
    work.copy = &call;
    const auto copy = [&](device::Queue& queue) { return queue.copy(to, 0, from, 0, call.size_bytes); };
    status = carry_out(lock, work, copy, lowered, nullptr, nullptr);
  }
  side->end_upload(status.ok());
  return status;
}

}  // namespace pergola::scheduler
