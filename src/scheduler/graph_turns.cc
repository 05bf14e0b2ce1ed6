// Which form of a turn is taken (turn_forms.h): what one turn was, and the chunks of the forms.
//
//   found, cut ─▶ leads ─▶ tried by turns ─▶ the fastest form    its chunks alone are kept
//                   ▲                           │
//                   └───────────────────────────┘  while it is tried, a launch's scalars are found to change or the
//                                                  region is cut: all begins again. What is chosen does not fit:
//                                                  likewise, but only kMostTrials times
//
// A form changes with the first launch of a turn, when nothing is held. To the scheduler a graph is one piece of work
// and a launch is another: what they come after follows from what they use, whichever they are. So results are those of
// any form, and of the first turns of one form while the last of another still run.
//
// What a turn took is from its begin to that of the next, by the host's clock. It counts where it was as its form says:
// all chunks that are to be graphs were, nothing was launched before its time, nothing else of what recurs came, and
// the host has waited in it for the device. Without such a wait it would be the time that the host takes for calls, and
// the device would pay for one form in turns of the next: nothing is tried then. With one, no more than a turn is left
// when the next begins, as a turn uses the arrays of the turn before; TurnForms::kSettle turns are for that.
//
// Where a turn begins with no uploads there are forms only with graphs=measured. By that policy launches are held on a
// device that has nothing queued (Region::on_idle) while forms are tried and where graphs were chosen then; before, for
// as long as it takes to see that turns count, kMostUnsteady at most; and else only while it has enough to do. Where
// something that is held goes before its time in kMostFlushedTurns such turns in a row, the turns are not any more what
// was measured, and forms are tried anew.
//
// What was chosen is tried against the others again after kAgainAfter turns, then after four times as many and
// so on (TurnForms::again()): it may have been chosen in a moment in which something else disturbed it. The same goes
// for pieces that were made shorter as the host was too slow for them (flush_overdue()): after so many turns they are
// whole again.
//
// Nothing of this is done where forms do not differ, or meanwhile, once one is chosen.
#include <algorithm>

#include "src/scheduler/graph_lowering.h"

namespace pergola::scheduler {
namespace {

constexpr std::uint32_t kMostUnsteady = 64, kMostFlushedTurns = 32;
constexpr std::uint32_t kMostTrials = 4;  // of a region's that begin as what was chosen does not fit any more

bool may_be_graph(const Chunk& chunk) {
  return chunk.state != Chunk::State::kRefused;
}

}  // namespace

TurnForm GraphLowering::first_form() const {
  switch (turn_policy_) {
    case Turns::kMeasured:
    case Turns::kLeads: return TurnForm::kLeads;
    case Turns::kWhole: return TurnForm::kWhole;
    case Turns::kLaunches: return TurnForm::kLaunches;
  }
  return TurnForm::kLeads;
}

// The first launch of the region has come.
void GraphLowering::look_at_pace() {
  if (region_->pace.passes()) return;
  RegionReport& report = region_->story->report;
  const double now = turn_clock_.now_ns();
  std::optional<HostPace::Turn> turn = turn_for_pace();
  // What cannot be compared tells all the same that holding does not go well.
  if (!turn && region_->pace.holds() && counters_.flushed != pace_begin_.flushed) turn = HostPace::Turn::kOther;
  const double took_ns = now - pace_begin_.ns;
  pace_begin_ = {region_.get(), now, offered_, counters_.flushed, waits_, counters_.replaced, report.too_little};
  if (!turn) return;
  HostPace& pace = region_->pace;
  const HostPace::State was = pace.state();
  pace.ended(*turn, took_ns);
  if (pace.state() == was) return;
  if (was == HostPace::State::kWatching) forget_in_flight();  // which is not asked any more
  report.paced = pace.tries();
  report.holds_pace = pace.state() == HostPace::State::kHolding;
  report.paced_launches_ns = pace.launches_ns();
  report.paced_graphs_ns = pace.graphs_ns();
}

// Of the turn that has just ended; none where another region's launches have come since, or the host has waited.
std::optional<HostPace::Turn> GraphLowering::turn_for_pace() const {
  const PaceBegin& begin = pace_begin_;
  if (begin.region != region_.get() || offered_ != begin.offered + region_->launches.size() || waits_ != begin.waits)
    return std::nullopt;
  const std::uint64_t replaced = counters_.replaced - begin.replaced;
  const bool is_flushed = counters_.flushed != begin.flushed;
  if (replaced == 0 && !is_flushed && region_->story->report.too_little != begin.too_little)
    return HostPace::Turn::kLaunches;
  if (!is_flushed && 2 * replaced > region_->launches.size()) return HostPace::Turn::kGraphs;
  const bool is_making = building_ || !jobs_.empty() || improving_;
  return is_making ? HostPace::Turn::kMaking : HostPace::Turn::kOther;
}

// The first launch of the region has come, and forms are tried.
void GraphLowering::begin_turn() {
  TurnForms& trial = *region_->trial;
  if (trial.passes()) return;
  const double now = turn_clock_.now_ns();
  if (trial.current() == region_->form && !trial.has_passed()) trial.ended(how_it_was(), now - turn_begin_.ns);
  if (trial.current() != region_->form) take_form(trial.current());
  if (trial.has_changed()) tell_of_forms();
  if (trial.is_decided()) return end_forms();
  if (!trial.is_under_way() && trial.unsteady_turns() >= kMostUnsteady) region_->on_idle = false;
  turn_begin_ = {now, offered_, counters_.flushed, waits_};
  for (const std::shared_ptr<Chunk>& chunk : region_->chunks) chunk->launched_before = chunk->launched;
}

// The turn that has just ended, if one had begun and went through. Other regions' may have come since: offered_ tells.
TurnForms::Turn GraphLowering::how_it_was() const {
  std::uint64_t graphs = 0, launched = 0;
  bool is_making = building_ || !jobs_.empty() || improving_;
  for (const std::shared_ptr<Chunk>& chunk : region_->chunks) {
    graphs += may_be_graph(*chunk) ? 1 : 0;
    launched += chunk->launched - chunk->launched_before;
    // One that is not launched as a graph, as something comes in between in each turn, would be tried for ever.
    const bool tries_ways =
        chunk->launched != chunk->launched_before && chunk->ways.all().size() > 1 && chunk->ways.chosen() == nullptr;
    is_making = is_making || chunk->state == Chunk::State::kBuilding || tries_ways;
  }
  if (is_making) return TurnForms::Turn::kMaking;
  const bool is_as_said = launched == graphs && (graphs != 0 || region_->form == TurnForm::kLaunches);
  const bool is_undisturbed =
      offered_ == turn_begin_.offered + region_->launches.size() && counters_.flushed == turn_begin_.flushed;
  const bool counts = is_as_said && is_undisturbed && waits_ != turn_begin_.waits;
  return counts ? TurnForms::Turn::kCounts : TurnForms::Turn::kDisturbed;
}

// Its graphs are made at once, while the turn is launched one by one: others of the region were worth it.
void GraphLowering::take_form(TurnForm form) {
  region_->take(form);
  refuse_chunks();
  tell_of_chunks();
  const bool any = std::any_of(region_->chunks.begin(), region_->chunks.end(),
                               [](const auto& chunk) { return chunk->state == Chunk::State::kNone; });
  if (any) make_graphs();
}

// With the one that is taken. The graphs of the others go, on the thread. Turns without uploads that are launched one
// by one go on as they would without having been tried.
void GraphLowering::end_forms() {
  if (region_->form == TurnForm::kLaunches && !is_first_form() && !region_->has_leads) {
    region_->take(first_form());
    refuse_chunks();
  }
  for (const auto& chunks : region_->aside)
    for (const std::shared_ptr<Chunk>& chunk : chunks)
      if (chunk->report != nullptr) chunk->report->state = GraphReport::State::kPutBack;
  region_->aside = {};
  region_->on_idle = measures_idle_ && region_->trial != nullptr && region_->trial->prefers_graphs();
  region_->flushed_turns = 0;
  region_->again_in = 0;
  if (region_->trial != nullptr && region_->trial->is_decided())
    region_->again_in = turns_until_again(region_->times_again);
  region_->trial = nullptr;
  if (region_->form == TurnForm::kLaunches || region_->on_idle)
    forget_in_flight();  // which would keep its graphs: it is not asked any more
  tell_of_chunks();
  wake_.notify_all();
  improve_.notify_all();  // ways have waited for it
}

// From now on, where there is anything to try: all of it anew, with the first form from the next turn on.
void GraphLowering::try_forms() {
  const bool any =
      turn_policy_ == Turns::kMeasured && (region_->has_leads || measures_idle_) && region_->begins_at_a_cut();
  region_->aside = {};
  region_->trial = any ? std::make_unique<TurnForms>(region_->has_leads, true, region_->launches.size()) : nullptr;
  region_->on_idle = measures_idle_ && any;
  region_->again_in = region_->times_again = 0;
  turn_begin_ = {};
  tell_of_forms();
  wake_.notify_all();
}

// From this turn on: what was chosen against the others.
void GraphLowering::try_again() {
  const bool are_launches = !region_->has_leads && !region_->on_idle;  // but for the rule
  const TurnForm chosen = are_launches ? TurnForm::kLaunches : region_->form;
  region_->trial = std::make_unique<TurnForms>(
      TurnForms::again(region_->has_leads, chosen, region_->on_idle, region_->launches.size()));
  region_->on_idle = measures_idle_;
  turn_begin_ = {};
  begin_turn();
}

// The first launch of a turn has come, whose form was chosen.
void GraphLowering::look_at_turn() {
  if (is_whole_again()) return make_whole();
  if (region_->again_in != 0 && --region_->again_in == 0) return try_again();
  if (!region_->on_idle) return;
  // It is a graph on an idle device.
  const bool is_flushed = std::exchange(turn_begin_.flushed, counters_.flushed) != counters_.flushed;
  region_->flushed_turns = is_flushed ? region_->flushed_turns + 1 : 0;
  if (region_->flushed_turns < kMostFlushedTurns) return;
  region_->flushed_turns = 0;
  if (++region_->trials < kMostTrials) return try_forms();
  region_->on_idle = false;
}

std::uint32_t GraphLowering::turns_until_again(std::uint32_t& times) {
  const std::uint32_t turns = kAgainAfter << kAgainGrowth * times;
  times = std::min(times + 1, kMostGrowths);
  return turns;
}

// Not while forms are compared: all would begin anew.
bool GraphLowering::is_whole_again() {
  return !is_trying(*region_) && region_->whole_in != 0 && --region_->whole_in == 0;
}

// From this turn on its pieces are as long as they were at first: the host that was too slow for them may have been
// busy with something else.
void GraphLowering::make_whole() {
  region_->most_launches = kMostLaunches;
  region_->most_grown = Region::kMostGrown;
  region_->cuts -= std::min(region_->cuts, region_->shortened + 1);  // which were not for the host's steps
  region_->shortened = region_->late = 0;
  recut();
  if (region_->trial != nullptr) begin_turn();
}

// Whether the region is, or was to be, in another form than the first, and so does not take what this one would have:
// a cut that the first may not need, or a region given up. The form changes with the next turn.
bool GraphLowering::leaves_form(const char* why) {
  if (is_challenger()) {
    region_->trial->drop(region_->form, why);
    return true;
  }
  if (is_first_form()) return false;
  const bool tries = ++region_->trials < kMostTrials;
  region_->trial = std::make_unique<TurnForms>(region_->has_leads, tries, region_->launches.size());
  region_->on_idle = measures_idle_;
  region_->again_in = region_->times_again = 0;
  tell_of_forms();
  return true;
}

}  // namespace pergola::scheduler
