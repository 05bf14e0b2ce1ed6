// Events: where they are recorded, and what is learnt of work's end by them.
#include <fmt/ranges.h>

#include <algorithm>

#include "src/scheduler/scheduler.h"

namespace pergola::scheduler {

Result<MarkPtr> Scheduler::mark_of(Computation& computation, MarkFor wanted) {
  if (computation.site != nullptr) computation.site->prediction.used(computation.prediction_slot);
  computation.mark_used = true;
  if (computation.mark != nullptr) return computation.mark;
  if (computation.stream->tail != &computation) ++counters_.late_events;
  return mark_covering(*computation.stream, computation.position, wanted);
}

// Marks are in order: the first that covers it; null where none does.
MarkPtr Scheduler::mark_that_covers(const Stream& stream, std::uint64_t position) {
  const auto covering = std::lower_bound(stream.marks.begin(), stream.marks.end(), position,
                                         [](const MarkPtr& mark, std::uint64_t at) { return mark->position < at; });
  return covering != stream.marks.end() ? *covering : nullptr;
}

Result<MarkPtr> Scheduler::mark_covering(Stream& stream, std::uint64_t position, MarkFor wanted) {
  if (MarkPtr covering = mark_that_covers(stream, position)) return covering;
  Result<MarkPtr> recorded = record_on(stream, wanted);
  if (recorded.ok() || recorded.status().code() != Code::kDeviceLost) return recorded;
  note_failure(recorded.status());  // which names what is lost
  return (failure_.code() == Code::kDeviceLost ? tell_failure() : recorded.status()).error();
}

Result<device::EventPtr> Scheduler::event_of(Ticket ticket, Status* failed_task) {
  std::unique_lock lock(mutex_);
  PERGOLA_TRY(refuse_inside_call());
  launch_held();
  if ((ticket & (kHeldTicket | kTaskTicket)) == kTaskTicket) {
    if (device::EventPtr event = event_of_task(ticket)) return event;
    lock.unlock();
    return record(failed_task);
  }
  if ((ticket & kHeldTicket) != 0) {
    const std::uint64_t number = ticket & ~kHeldTicket;
    if (number >= held_resolved_)
      return PERGOLA_ERROR(kInvalidArgument, "{:#x} is no ticket of this session's work.", ticket);
    if (number + kHeldTickets < held_resolved_) {  // long ago: all work so far comes behind it
      lock.unlock();
      return record(failed_task);
    }
    ticket = held_tickets_[number % kHeldTickets];
    if (ticket == 0) {  // it could not be queued, and its failure is noted
      lock.unlock();
      return record(failed_task);
    }
  }
  const std::uint64_t index = ticket & ((1u << kTicketStreamBits) - 1), position = ticket >> kTicketStreamBits;
  if (index >= streams_.size() || position == 0 || position > streams_[index]->tail_position)
    return PERGOLA_ERROR(kInvalidArgument, "{:#x} is no ticket of this session's work.", ticket);
  Stream& stream = *streams_[index];
  for (const MarkPtr& mark : stream.marks)
    if (mark->timed && mark->position >= position) return mark->event;
  const bool ended = stream.idle();
  PERGOLA_ASSIGN(const MarkPtr mark, record_on(stream, MarkFor::kTime));
  if (ended) (void)mark->event->wait();  // nothing is before it: whoever polls it finds what is known already
  return mark->event;
}

// For the host, which waits for it soon: at once for the first since it last waited. The others come when it begins to
// wait, as it has nothing else to do then, and while it queues more the device is not to wait for its calls.
// Where it cannot be told, whoever waits asks for an event.
void Scheduler::tell_end_of(Computation& who) {
  constexpr std::size_t kMostUntold = 64;
  if (std::exchange(has_told_end_, true) && untold_ends_.size() < kMostUntold) {
    untold_ends_.push_back({who.stream, who.position});
    return;
  }
  who.mark_used = record_on(*who.stream, MarkFor::kHost).ok();
}

void Scheduler::tell_ends() {
  has_told_end_ = false;
  if (untold_ends_.empty()) return;
  for (const Arrival& each : std::exchange(untold_ends_, {})) {
    Stream& stream = *each.stream;
    if (stream.knows_end_of(each.position)) continue;
    if (stream.reserved) {  // a library call has it, and may be recording what it does
      untold_ends_.push_back(each);
      continue;
    }
    if (const auto mark = mark_covering(stream, each.position, MarkFor::kHost); !mark.ok()) note_failure(mark.status());
    if (stream.tail != nullptr && stream.tail->position == each.position) stream.tail->mark_used = true;
  }
}

Result<MarkPtr> Scheduler::record_on(Stream& stream, MarkFor wanted) {
  Result<MarkPtr> mark = record_behind(stream, wanted);
  if (mark.ok() && stream.tail != nullptr) stream.tail->mark = *mark;
  return mark;
}

// The caller tells the last computation on the stream that there is a mark behind it.
Result<MarkPtr> Scheduler::record_behind(Stream& stream, MarkFor wanted) {
  Result<device::EventPtr> recorded = wanted == MarkFor::kTime   ? stream.queue->record()
                                      : wanted == MarkFor::kHost ? stream.queue->record_for_host()
                                                                 : stream.queue->record_untimed();
  PERGOLA_ASSIGN(auto event, std::move(recorded));
  ++counters_.events;
  auto mark = std::make_shared<Mark>();
  mark->event = std::move(event);
  mark->stream = &stream;
  mark->position = stream.tail_position;
  mark->timed = wanted == MarkFor::kTime;
  mark->at_least_ns = stream.all_at_least_ns;
  set_clock_behind(stream, mark->clock);
  stream.drop_known_marks();
  if (stream.marks.size() >= stream.poll_at_marks) {
    poll(stream);
    stream.poll_at_marks = stream.marks.size() + Stream::kManyMarks;
  }
  stream.marks.push_back(mark);
  return mark;
}

void Scheduler::learn_end(const Mark& mark, const Status& outcome) {
  note_failure(outcome);  // first: of a lost device it names what is not known to have ended
  for (std::size_t i = 0; i < mark.clock.size() && i < streams_.size(); ++i) {
    Stream& stream = *streams_[i];
    stream.ended_position = std::max(stream.ended_position, mark.clock[i]);
    // What comes after a failure is skipped, and says so: nothing before what ended well has failed.
    if (outcome.ok()) stream.well_position = std::max(stream.well_position, mark.clock[i]);
  }
}

void Scheduler::note_failure(const Status& outcome) {
  if (outcome.ok()) return;
  const bool skipped = outcome.code() == Code::kSkipped;
  Status& kept = skipped ? skip_ : failure_;
  if (!skipped && !kept.ok() && kept.code() != Code::kDeviceLost) note_failed_beside(outcome.message());
  if (!kept.ok()) return;
  if (!skipped) failure_told_ = false;
  kept = outcome;
  if (outcome.code() != Code::kDeviceLost) return;
  turn_.write_log(log_);  // by which suspects are named
  kept = name_suspects(outcome);
}

void Scheduler::note_failed_beside(const std::string& message) {
  constexpr std::size_t kMost = 64;  // that are known; each end that is learnt later tells of them again
  if (failed_beside_.size() == kMost || message == failure_.message()) return;
  if (std::ranges::count(failed_beside_, message) != 0) return;
  failed_beside_.push_back(message);
  failure_told_ = false;
}

Status Scheduler::tell_all_failures() {
  constexpr std::size_t kMostTold = 4;
  Status first = tell_failure();
  const std::vector<std::string> beside = std::exchange(failed_beside_, {});
  failure_ = skip_ = Status();
  if (tasks_ != nullptr) tasks_->failed = Status();
  failure_told_ = false;  // of the next
  if (first.ok() || beside.empty()) return first;
  Error all = first.error();
  const auto told = std::span(beside).first(std::min(beside.size(), kMostTold));
  all.message += fmt::format(" Failed besides: {}", fmt::join(told, " "));
  if (told.size() < beside.size()) all.message += fmt::format(" And {} more.", beside.size() - told.size());
  return all;
}

// A GPU does not say which kernel was at fault: those not known to have ended are told, oldest first.
Status Scheduler::name_suspects(const Status& lost) const {
  constexpr std::size_t kMost = 4;
  std::vector<std::string> names;
  std::size_t more = 0;
  for (const DagVertex& vertex : log_.picture().vertices) {
    const bool runs_kernels =
        vertex.kind == WorkKind::kKernel || vertex.kind == WorkKind::kGraph || vertex.kind == WorkKind::kLibrary;
    if (!runs_kernels || !vertex.is_on_stream() || streams_[vertex.stream]->knows_end_of(vertex.position)) continue;
    const std::string name = fmt::format("'{}'", vertex.name);
    if (std::find(names.begin(), names.end(), name) != names.end()) continue;
    if (names.size() < kMost)
      names.push_back(name);
    else
      ++more;
  }
  Error error = lost.error();
  if (const std::string arrays = lost_arrays_locked(); !arrays.empty()) error.message += ' ' + arrays;
  if (names.empty()) return error;
  error.message += fmt::format(" It may have been kernel {}{}, not known to have ended then.", fmt::join(names, " or "),
                               more == 0   ? ""
                               : more == 1 ? " or another"
                                           : fmt::format(" or one of {} others", more));
  return error;
}

// Each question is a call of the driver. The last mark that has ended well stands for those before it: it is looked for
// by steps of 1, 2, 4 and so on, so that there is one question where the first has not ended, and then by halves. Where
// there is a failure they are asked one after the other: it is told by the event right behind it.
void Scheduler::poll(Stream& stream) {
  stream.drop_known_marks();
  std::size_t ended = 0, open = stream.marks.size();  // those before `ended` have ended well, `open` has not
  bool fails = false;
  const auto ask = [&](std::size_t at) {
    const std::optional<Status> outcome = stream.marks[at]->event->poll();
    fails = outcome && !outcome->ok();
    (outcome ? ended : open) = outcome ? at + 1 : at;
    return outcome.has_value();
  };
  for (std::size_t step = 1; ended < open && !fails && ask(std::min(ended + step, open) - 1);) step *= 2;
  while (ended < open && !fails) ask((ended + open) / 2);
  if (!fails) {
    if (ended != 0) learn_end(*MarkPtr(stream.marks[ended - 1]), {});
    stream.drop_known_marks();
    return;
  }
  for (; !stream.marks.empty(); stream.drop_known_marks()) {
    const MarkPtr first = stream.marks.front();
    const std::optional<Status> outcome = first->event->poll();
    if (!outcome) return;
    learn_end(*first, *outcome);
    stream.marks.pop_front();
  }
}

void Scheduler::poll_all() {
  for (const auto& stream : streams_)
    if (!stream->marks.empty()) poll(*stream);  // else there is nothing to ask: a session has more streams than it uses
}

}  // namespace pergola::scheduler
