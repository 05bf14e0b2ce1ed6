// Turns of launches that come again, one by one (turn_repetition.h): the scheduler's side.
#include "src/scheduler/scheduler.h"

namespace pergola::scheduler {

// The launch comes where its like did, a turn before (TurnRepetition::is_next()). None where it cannot go as that did,
// and then nothing has happened but perhaps some of the waits.
std::optional<Status> Scheduler::repeat_in_turn(const Launch& launch, const GraphLowering::Decision& lowered,
                                                Ticket* ticket) {
  if (has_universal_under_way()) return std::nullopt;
  TurnRepetition::Step& step = turn_.step();
  Stream& stream = *streams_[step.stream];
  TurnWaits waits;
  if (!wait_in_turn(step, stream, waits).ok()) return std::nullopt;
  KernelDurations* durations = nullptr;
  if (policy_.fork_cost_us != 0) {
    durations = durations_.count_untimed(*launch.site, step.size);
    if (durations == nullptr) return std::nullopt;
  }
  const nvtx::Range range(nvtx_, launch.site->name.c_str());
  Status status = stream.queue->launch(launch.module, *launch.kernel, launch.config, launch.parameters);
  const double expected_ns = waits.empty() ? Durations::expected_ns(durations) : kUnknownDurationNs;
  stream.expect(expected_ns, at_least(expected_ns), true);
  const std::uint64_t id = pool_.next_id(), position = ++stream.tail_position;
  write_log_of_turn(id, position, stream, waits);
  step.position = position;
  step.mark.reset();
  step.mark_used = false;
  step.expected_until_ns = stream.expected_ns;
  ++counters_.computations;
  ++counters_.repeated;
  turn_.repeated(id);
  mutex_.leave();
  if (lowered.ended != nullptr || lowered.marks) mark_in_turn(step, stream, lowered);
  if (ticket != nullptr) *ticket = position << kTicketStreamBits | stream.index;
  return status;
}

// As keep_parent_reachable() and wait_across(), of whom it is known who waits for them.
Status Scheduler::wait_in_turn(const TurnRepetition::Step& step, Stream& stream, TurnWaits& waits) {
  if (TurnRepetition::Step& last = turn_.tail(stream);
      last.has_others && last.mark == nullptr && !stream.knows_end_of(last.position)) {
    PERGOLA_ASSIGN(last.mark, record_behind(stream, MarkFor::kStream));
  }
  for (const std::uint32_t at : step.waits_for) {
    TurnRepetition::Step& parent = turn_.step(at);
    Stream& other = *streams_[parent.stream];
    if (parent.position <= other.well_position) continue;
    if (other.index < stream.clock.size() && stream.clock[other.index] >= parent.position) continue;
    TurnRepetition::Step& last = turn_.tail(other);
    MarkPtr mark = parent.mark;
    if (mark == nullptr && &last != &parent) mark = mark_that_covers(other, parent.position);
    if (mark == nullptr) {
      PERGOLA_ASSIGN(mark, record_behind(other, MarkFor::kStream));
      last.mark = mark;
    }
    parent.mark_used = true;
    PERGOLA_TRY(stream.queue->wait(mark->event));
    const bool is_late = mark->position != parent.position;
    counters_.late_events += is_late ? 1 : 0;
    ++counters_.waits;
    waits.emplace_back(at, is_late);
    merge_clock(stream.clock, mark->clock);
  }
  return {};
}

// As write_log(), of the launch that is next.
void Scheduler::write_log_of_turn(std::uint64_t id, std::uint64_t position, const Stream& stream,
                                  const TurnWaits& waits) {
  const auto order_after = [&](const DagVertex::Edge& edge) {
    const std::size_t at = turn_.before(id - edge.parent);
    const TurnRepetition::Step& parent = turn_.step(at);
    if (parent.position <= streams_[parent.stream]->well_position) return Order::kEnded;
    if (parent.stream == stream.index) return Order::kSameStream;
    for (const auto& [waited_for, is_late] : waits)
      if (waited_for == at) return is_late ? Order::kLateEvent : Order::kEvent;
    return Order::kImplied;
  };
  counters_.dependencies += log_.repeat_of(turn_.turn(), id, position, turn_.first_id(), order_after);
}

// What carry_out() records behind a launch: for the device's progress, not for what depends on it.
void Scheduler::mark_in_turn(TurnRepetition::Step& step, Stream& stream, const GraphLowering::Decision& lowered) {
  Result<MarkPtr> mark = record_behind(stream, lowered.ended != nullptr ? MarkFor::kTime : MarkFor::kStream);
  if (!mark.ok()) return;
  step.mark = *mark;
  if (lowered.ended != nullptr)
    lowering_->ended(lowered.ended, *std::move(mark));
  else
    step.mark_used = true;
}

// Repeated launches take the places in their arrays that they have had since.
void Scheduler::write_down() {
  mutex_.written_down();
  if (!turn_.repeats()) return;
  turn_.take_left([&](const Launch& launch, TurnRepetition::Step& step, std::uint64_t id) {
    Stream& stream = *streams_[step.stream];
    Computation& who = *pool_.take_as(id);
    ++who.holds;
    who.site = launch.site;
    who.prediction_slot = prediction_slot(launch.accesses);
    who.mark = step.mark;
    who.mark_used = step.mark_used;
    who.expected_until_ns = step.expected_until_ns;
    Dependencies parents;
    EndedParents ended;
    for (const Access& access : launch.accesses)
      access.resource->access(access.range, mode_among_launches(access.mode), who, pool_, parents, ended);
    release(parents, pool_);
    who.stream = &stream;  // not before: while it takes its places it has not ended
    who.position = step.position;
    become_tail(stream, who);
    pool_.let_go(who);
  });
}

}  // namespace pergola::scheduler
