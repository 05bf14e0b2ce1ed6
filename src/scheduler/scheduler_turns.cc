// Turns of launches that come again, one by one (turn_repetition.h): the scheduler's side.
#include <algorithm>

#include "src/scheduler/scheduler.h"

namespace pergola::scheduler {
namespace {

// The event behind the step, as a mark.
MarkPtr mark_of_step(TurnRepetition::Step& step, Stream& stream) {
  if (!step.is_recorded || step.mark != nullptr) return step.mark;
  auto mark = std::make_shared<Mark>();
  mark->event = std::move(step.event);
  mark->stream = &stream;
  mark->position = step.position;
  mark->clock = step.clock;
  mark->at_least_ns = step.at_least_ns;
  step.is_recorded = false;
  step.mark = mark;
  if (mark->position > stream.well_position) {
    const auto behind = std::ranges::upper_bound(stream.marks, mark->position, {}, &Mark::position);
    stream.marks.insert(behind, mark);
  }
  return mark;
}

}  // namespace

// The launch comes where its like did, a turn before (TurnRepetition::is_next()). None where it cannot go as that did,
// and then nothing has happened but perhaps some of the waits, and the events that they are for. `marked`: what was
// decided of it, where there is anything.
std::optional<Status> Scheduler::repeat_in_turn(const Launch& launch, const GraphLowering::Decision* marked,
                                                Ticket* ticket) {
  if (has_universal_under_way()) return std::nullopt;
  TurnRepetition::Step& step = turn_.step();
  Stream& stream = *streams_[step.stream];
  TurnWaits waits;
  if (!prepare_waits_in_turn(step, stream, waits).ok()) return std::nullopt;
  KernelDurations* durations = nullptr;
  if (policy_.fork_cost_us != 0) {
    durations = durations_.count_untimed(*launch.site, step.size);
    if (durations == nullptr) return std::nullopt;
  }
  const nvtx::Range range(nvtx_, launch.site->name.c_str());
  const bool has_mark = marked != nullptr && (marked->ended != nullptr || marked->marks);
  const bool has_event = step.has_others && !has_mark && stream.queue->records_again();
  device::Queue::Between between{.after = {waits.events.data(), waits.events.size()},
                                 .behind = has_event ? &step.event : nullptr,
                                 .known = &step.known};
  Status status =
      stream.queue->launch_between(between, launch.module, *launch.kernel, launch.config, launch.parameters);
  if (!between.has_waited) {
    if (durations != nullptr) --durations->launches;  // it counts where it is placed
    return std::nullopt;
  }
  for (const TurnWaits::For& wait : waits.all) {
    turn_.step(wait.step).mark_used = true;
    counters_.late_events += wait.is_late ? 1 : 0;
    ++counters_.waits;
    merge_clock(stream.clock, *wait.clock);
  }
  const double expected_ns = waits.all.empty() ? Durations::expected_ns(durations) : kUnknownDurationNs;
  stream.expect(expected_ns, at_least(expected_ns), true);
  const std::uint32_t orders = orders_in_turn(step, waits);
  step.position = ++stream.tail_position;
  step.mark.reset();
  step.mark_used = false;
  step.expected_until_ns = stream.expected_ns;
  step.is_recorded = between.behind != nullptr && status.ok() && step.event != nullptr;
  if (step.is_recorded) {
    ++counters_.events;
    set_clock_behind(stream, step.clock);
    step.at_least_ns = stream.all_at_least_ns;
  }
  ++counters_.computations;
  ++counters_.repeated;
  turn_.repeated(pool_.next_id(), orders);
  mutex_.leave();
  if (has_mark) mark_in_turn(step, stream, *marked);
  if (ticket != nullptr) *ticket = step.position << kTicketStreamBits | stream.index;
  return status;
}

// As keep_parent_reachable() and wait_across(), of whom it is known who waits for them. Nothing waits yet; events that
// are missing are recorded.
Status Scheduler::prepare_waits_in_turn(const TurnRepetition::Step& step, Stream& stream, TurnWaits& waits) {
  const auto is_reachable = [](const TurnRepetition::Step& of) { return of.is_recorded || of.mark != nullptr; };
  if (TurnRepetition::Step& last = turn_.tail(stream);
      last.has_others && !is_reachable(last) && !stream.knows_end_of(last.position)) {
    PERGOLA_ASSIGN(last.mark, record_behind(stream, MarkFor::kStream));
  }
  for (const std::uint32_t at : step.waits_for) {
    const TurnRepetition::Step& parent = turn_.step(at);
    Stream& other = *streams_[parent.stream];
    const auto covers = [&](const Clock& clock) {
      return other.index < clock.size() && clock[other.index] >= parent.position;
    };
    if (parent.position <= other.well_position || covers(stream.clock)) continue;
    if (std::ranges::any_of(waits.all, [&](const TurnWaits::For& wait) { return covers(*wait.clock); })) continue;
    if (parent.is_recorded) {
      waits.all.push_back({at, false, &parent.clock});
      waits.events.push_back(&parent.event);
      continue;
    }
    MarkPtr mark = parent.mark;
    TurnRepetition::Step& last = turn_.tail(other);
    if (mark == nullptr && &last != &parent) mark = mark_that_covers(other, parent.position);
    if (mark == nullptr) {
      PERGOLA_ASSIGN(mark, record_behind(other, MarkFor::kStream));
      last.mark = mark;
    }
    waits.all.push_back({at, mark->position != parent.position, &mark->clock});
    waits.events.push_back(&mark->event);
    waits.marks.push_back(std::move(mark));
  }
  return {};
}

// The orders of the launch's edges, once it has waited and before the turn goes on: DagLog::Repeated::orders.
std::uint32_t Scheduler::orders_in_turn(const TurnRepetition::Step& step, const TurnWaits& waits) {
  const auto order_of = [&](std::uint32_t at) {
    const TurnRepetition::Step& parent = turn_.step(at);
    if (parent.position <= streams_[parent.stream]->well_position) return Order::kEnded;
    if (parent.stream == step.stream) return Order::kSameStream;
    for (const TurnWaits::For& wait : waits.all)
      if (wait.step == at) return wait.is_late ? Order::kLateEvent : Order::kEvent;
    return Order::kImplied;
  };
  std::uint32_t orders = 0, shift = 0;
  for (const std::uint32_t at : step.parents) {
    if (at != TurnRepetition::Step::kNone) {
      const Order order = order_of(at);
      counters_.dependencies += order == Order::kEnded ? 0 : 1;
      orders |= static_cast<std::uint32_t>(order) << shift;
    }
    shift += DagLog::Repeated::kOrderBits;
  }
  return orders;
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
  turn_.write_log(log_);
  turn_.take_left([&](const Launch& launch, TurnRepetition::Step& step, std::uint64_t id) {
    Stream& stream = *streams_[step.stream];
    Computation& who = *pool_.take_as(id);
    ++who.holds;
    who.site = launch.site;
    who.prediction_slot = prediction_slot(launch.accesses);
    who.mark = mark_of_step(step, stream);
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
