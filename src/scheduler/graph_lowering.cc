#include "src/scheduler/graph_lowering.h"

#include <algorithm>

namespace pergola::scheduler {
namespace {

// Launches that recur but for scalars may recur as they are in a longer turn, and need no block then (an index in an
// inner loop): short turns wait kConfirmShortShape launches for that, and are given up for it for so many more.
constexpr std::uint64_t kLookOn = 2 * Recurrence::kLongestPeriod + Recurrence::kConfirm;
constexpr std::size_t kRegionsKnown = 8, kMostInFlight = 256;
// What has been held too long against graphs launched. Two graphs of a turn that is bound by its copies are in each
// other's way on the link (ten uploads, launches and downloads of 5 MB: 1.26 ms, as one graph 1.15, and launched one by
// one 1.22 to 1.30): it is cut only where it is late in most turns.
constexpr std::uint32_t kGraphsALateOne = 8, kTurnsALateOne = 1, kTooLate = 32;
constexpr std::uint32_t kMostCuts = 12;                     // a region that needs more is left alone,
constexpr std::uint32_t kShortestRest = 8, kMostRests = 4;  // for so many of its turns, twice as many each time
constexpr std::uint32_t kAskedInARow = 4, kMostUnasked = 64;
// While much is queued one event for so many parts of it is enough, once a chunk's time has been seen so often.
constexpr double kMarksAQueue = 4;
constexpr std::uint32_t kMostUnmarked = 8, kTimesSeen = 3;

}  // namespace

GraphLowering::GraphLowering(device::DevicePtr device, StateMutex& mutex, Graphs graphs, Resource& blocks,
                             const ComputationPool& computations, std::function<void()> overdue, bool readers_conflict)
    : device_(std::move(device)),
      mutex_(mutex),
      always_(graphs == Graphs::kAlways),
      measures_idle_(graphs == Graphs::kMeasured),
      blocks_(blocks),
      computations_(computations),
      overdue_(std::move(overdue)),
      readers_conflict_(readers_conflict),
      tuning_device_(device_->info().driver.empty() ? device_->info().name
                                                    : device_->info().name + ", " + device_->info().driver) {
  if (always_) patience_ns_ = kPatienceOfAlways.count();
}

GraphLowering::~GraphLowering() {
  if (is_forked_child()) {  // which has no such threads
    if (thread_.joinable()) thread_.detach();
    if (improver_.joinable()) improver_.detach();
    return;
  }
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  wake_.notify_all();
  improve_.notify_all();
  if (thread_.joinable()) thread_.join();
  if (improver_.joinable()) improver_.join();
}

// ── What comes ──────────────────────────────────────────────────────────────────────────────────────────────────────

GraphLowering::Decision GraphLowering::offer(const Work& work, bool may_hold, std::span<const std::uint64_t> arriving) {
  Decision decision;
  ++offered_;
  if (region_ != nullptr && region_->same_again && held_ == 0) {
    region_->same_again = false;
    stop_following();
  }
  if (region_ == nullptr) {
    learn(work);
    return decision;
  }
  Launch& expected = region_->launches[phase_];
  const Match as_expected = match(expected, work, region_->rebinds);
  const bool comes_between = work.copy != nullptr && !region_->found_without_copies;
  if (as_expected == Match::kNone && comes_between) {  // a copy that does not recur
    decision.flush = interrupt_for(work.accesses, true);
    return decision;
  }
  if (as_expected == Match::kNone) {
    decision.flush = take_held();
    if (work.copy == nullptr) {
      ++region_->story->report.mismatched;
      region_->story->report.mismatch = mismatch_text(phase_, expected, work);
    }
    stop_following();
    learn(work);
    return decision;
  }
  if (offered_ <= look_on_until_) {
    if (const std::size_t longer = longer_period(work); longer != 0) {
      decision.flush = take_held();
      begin_following(longer, {});
      return decision;
    }
  }
  const bool is_rebound = as_expected == Match::kArrays;
  if ((is_rebound && !expected.rebinds()) || (as_expected == Match::kShape && !expected.varies())) {
    decision.flush = take_held();
    vary_here(is_rebound);
  }
  KnownCall& known = region_->calls[place_];
  if (known.looks_at.empty()) known.note_looks(work.accesses);
  if (expected.rebinds()) {
    expected.set_latest_accesses(work.accesses);
    if (offered_ < look_at_arrays_until_) look_at_arrays(expected);
  }
  if (expected.varies())
    expected.set_latest(work.call->parameters);
  else if (work.call != nullptr && work.call->text != nullptr && !known.changes)
    known.text.keep(*work.call->text);
  follow(&work, may_hold, arriving, decision);
  give_up_binding();
  return decision;
}

// The launch that is expected, whose scalars or arrays have changed for the first time.
void GraphLowering::vary_here(bool rebinds) {
  const Launch& launch = region_->launches[phase_];
  const bool is_first = !region_->varies() && region_->cuts < kMostCuts;
  region_->vary(phase_, rebinds);
  if (is_first || launch.goes_alone)
    recut();
  else if (region_->trial != nullptr || region_->on_idle)
    try_forms();  // anew: the chunks of others have the launch as it was
  ++(rebinds ? counters_.rebinding : counters_.varying);
  rebinds ? tell_of_rebinding(*region_->story, launch) : tell_of_variation(*region_->story, launch);
  tell_of_chunks();
}

// Where an upload is expected and `text` stands for the launch behind it and perhaps others. `known`: the call that it
// was found to stand for, whose bytes need not be compared again.
GraphLowering::Expected GraphLowering::expected_upload(const CallText& text, const KnownCall* known) const {
  if (region_->launches[phase_].kind != WorkKind::kCopyToDevice) return {};
  std::size_t at = phase_;
  while (region_->launches[at].kind == WorkKind::kCopyToDevice)
    if (at = at + 1 == region_->launches.size() ? 0 : at + 1; at == phase_) return {};
  const Launch& launch = region_->launches[at];
  const KnownCall& call = region_->call_of(at);
  if (&call == known ? !call.text.stands(text) : !call.text.is(text)) return {};
  // The launch's arrays live, as its text says. One of them is what the upload fills, or it is the program's own.
  const Launch& upload = region_->launches[phase_];
  const std::uint64_t filled = upload.resource_ids.back();
  const bool is_of_launch = std::ranges::find(launch.resource_ids, filled) != launch.resource_ids.end();
  if (!is_of_launch) return {};
  return {.launch = &upload, .behind = &call};
}

GraphLowering::Decision GraphLowering::again(std::span<const std::uint64_t> arriving) {
  ++offered_;
  if (!region_->launches[phase_].copy) ++counters_.by_text;
  Decision decision;
  follow(nullptr, true, arriving, decision);
  return decision;
}

// The launch that was expected has come. `work`: where it was not known by its text.
void GraphLowering::follow(const Work* work, bool may_hold, std::span<const std::uint64_t> arriving,
                           Decision& decision) {
  if (held_ == 0) {
    if (phase_ == 0 && region_->trial != nullptr)
      is_whole_again() ? make_whole() : begin_turn();
    else if (phase_ == 0 && (region_->on_idle || region_->again_in != 0 || region_->whole_in != 0))
      look_at_turn();
    if (phase_ == 0 && may_pace()) look_at_pace();
    const Chunk* const chunk = region_->chunk_of(phase_).get();
    std::shared_ptr<Chunk> cut;  // the same, where it may be by now
    const bool ends = phase_ + 1 == chunk->end;
    decision.leads = chunk->leads;
    decision.follows_lead = chunk->leads && region_->leads_to_graph;
    if (decision.follows_lead) decision.queue = region_->queue_behind(*chunk);
    if (chunk->begin == phase_ && may_hold && may_hold_chunk(*chunk)) {
      cut = region_->chunk_of(phase_);
      const std::size_t waits_longer = first_that_waits_longer(*chunk, arriving);
      if (waits_longer == chunk->end)
        held_chunk_ = cut;
      else if (is_first_form())
        cut_before(waits_longer);  // of another, which may just begin, the first may not need the cut
      else if (region_->trial == nullptr)
        leaves_form("its launches would wait for different uploads");
    }
    if (chunk->begin == phase_ && chunk->is_first) region_->leads_to_graph = held_chunk_ != nullptr;
    if (ends) {
      const std::shared_ptr<Chunk>& same = cut ? cut : region_->chunk_of(phase_);
      if (wants_event(same)) decision.ended = same;
    }
    if (!ends && held_chunk_ == nullptr) decision.marks = wants_mark(*chunk);
  } else if (!may_hold) {
    decision.flush = take_held();
  }
  if (held_chunk_ != nullptr && !binds(work)) {
    decision.flush = take_held();
    held_chunk_ = nullptr;
  }
  const bool goes_ahead = held_chunk_ != nullptr && held_chunk_->goes_ahead(phase_);
  if (Launch& launch = region_->launches[phase_]; launch.copy) launch.went_ahead = goes_ahead;
  advance();
  if (held_chunk_ == nullptr) return;
  region_->look_ahead(phase_);
  if (goes_ahead) {
    ++held_;  // it has its place among them
    decision.leads = decision.follows_lead = true;
    return;
  }
  hold();
  decision.held = true;
  if (held_ < held_chunk_->end - held_chunk_->begin) return;
  decision.run = std::exchange(held_chunk_, nullptr);
  region_->stage(*decision.run);
  if (wants_event(decision.run)) decision.ended = decision.run;
  ++decision.run->launched;
  if (region_->unbound != 0) --region_->unbound;
  if (region_->late != 0) --region_->late;
  if (decision.run->late != 0) --decision.run->late;
  ++counters_.launches;
  if (decision.run->report != nullptr) ++decision.run->report->launched;
  const std::size_t replaced = std::exchange(held_, 0) - decision.run->ahead.size();
  region_->story->report.replaced += replaced;
  counters_.replaced += replaced;
  held_since_.store(0, std::memory_order_relaxed);
}

void GraphLowering::advance() {
  step();
  if (phase_ != region_->launches.size()) return;
  phase_ = 0;
  if (region_->rest == 0 || --region_->rest != 0) return;
  // The program may do something else by now.
  region_->cuts = 0;
  region_->shortened = std::min(region_->shortened, 1u);
  region_->cut_before.assign(region_->launches.size(), false);
  region_->chunks.clear();
  recut();
}

// The first launch of the chunk that needs a copy from the host which the chunk's first launch does not need.
std::size_t GraphLowering::first_that_waits_longer(const Chunk& chunk, std::span<const std::uint64_t> arriving) const {
  const auto uses = [&](std::size_t launch, std::uint64_t resource) {
    const auto& ids = region_->launches[launch].resource_ids;
    return std::find(ids.begin(), ids.end(), resource) != ids.end();
  };
  std::size_t first = chunk.end;
  for (const std::uint64_t resource : arriving) {
    const std::size_t delayed = region_->first_delayed_by(chunk, resource);
    for (std::size_t i = delayed; i < first && !uses(delayed, resource); ++i)
      if (uses(i, resource)) first = i;
  }
  return first;
}

// Where a second turn of the region is cut in the same place, all are.
void GraphLowering::cut_before(std::size_t launch) {
  // Where nothing is held a step of the host is in nobody's way, and it may be the only one.
  if (region_->form == TurnForm::kLaunches && !is_first_form()) return;
  if (leaves_form("the host steps in where its graph would have to be cut")) return;
  std::vector<bool>& cuts = region_->cut_before;
  const std::size_t turn = region_->turn;
  bool again = false;
  for (std::size_t i = launch % turn; i < cuts.size(); i += turn) again |= cuts[i] && i != launch;
  for (std::size_t i = launch % turn; i < cuts.size(); i += turn) cuts[i] = cuts[i] || again || i == launch;
  if (again && launch % turn == 0) keep_one_turn();
  recut();
}

// All turns begin where the host steps in: they are alike, and the graphs of one serve all.
void GraphLowering::keep_one_turn() {
  const std::size_t turn = region_->turn;
  std::vector<Launch> launches(region_->launches.begin(),
                               region_->launches.begin() + static_cast<std::ptrdiff_t>(turn));
  std::vector<KnownCall> calls(region_->calls.begin(), region_->calls.begin() + static_cast<std::ptrdiff_t>(turn));
  for (std::size_t i = turn; i < region_->launches.size(); ++i) {
    Launch& launch = launches[i % turn];
    if (region_->launches[i].varies() && !launch.varies()) {
      launch.vary();
      calls[i % turn].change();
    }
    if (region_->launches[i].rebinds() && !launch.rebinds()) launch.rebind();
  }
  std::shared_ptr<Region> one = region_->with(std::move(launches), std::move(calls));
  std::copy_n(region_->cut_before.begin(), turn, one->cut_before.begin());
  one->cuts = region_->cuts - 1;
  one->rests = region_->rests;
  one->cut();  // there are chunks, even if they are to be refused
  replace_region(std::move(one));
  phase_ %= turn;
  place_ = phase_;
}

// By one that holds some of its launches, in another order or not. What was given out of it stands a while.
void GraphLowering::replace_region(std::shared_ptr<Region> by) {
  std::replace(known_.begin(), known_.end(), region_, by);
  before_turning_ = std::exchange(region_, std::move(by));
  before_turning_->chunks.clear();  // that is launches: its graphs go
  before_turning_->aside = {};
}

void GraphLowering::hold() {
  if (held_++ != 0) return;
  held_since_.store(kJustNow, std::memory_order_relaxed);
  if (watching_) return;
  watching_ = true;
  wake_.notify_all();
}

std::span<const Launch> GraphLowering::take_held() {
  if (held_ == 0) return {};
  const std::span<const Launch> held = std::span(region_->launches).subspan(held_chunk_->begin, held_);
  const auto flushed = static_cast<std::size_t>(std::ranges::count(held, false, &Launch::went_ahead));
  counters_.flushed += flushed;
  region_->story->report.flushed += flushed;
  held_ = 0;
  held_chunk_ = nullptr;
  held_since_.store(0, std::memory_order_relaxed);
  return held;
}

std::span<const Launch> GraphLowering::interrupt(bool is_event) {
  begins_turn_ = true;
  if (region_ == nullptr) return {};
  const std::span<const Launch> held = take_held();
  if (!held.empty()) ++counters_.interrupted, ++region_->story->report.interrupted;
  const std::pair<const Region*, std::size_t> here{region_.get(), phase_};
  if (!is_event || std::exchange(event_at_, here) == here) cut_here();
  return held;
}

// A chunk that spans this place would be interrupted in every turn. Uploads with which one begins here may go at once.
void GraphLowering::cut_here() {
  if (region_->cut_before[phase_]) return;
  if (region_->chunk_of(phase_)->begin == phase_ && !region_->would_lead(phase_)) {
    if (phase_ != 0) return;
    region_->cut_before[0] = true;
    if (measures_idle_) try_forms();  // which are of turns that begin so
  } else if (phase_ == 0 || region_->begins_at_a_cut()) {
    cut_before(phase_);
  } else {
    begin_here();
  }
}

// The host's first step into the region is a better place for it to begin than where it happened to be found: what lies
// between two steps then is one piece.
void GraphLowering::begin_here() {
  std::vector<Launch> launches = region_->launches;
  std::vector<KnownCall> calls = region_->calls;
  // Those before this place came in this turn, the others in the one before: in that order they met each other.
  if (region_->rebinds)
    for (Launch& launch : launches) launch.meet_again();
  std::rotate(launches.begin(), launches.begin() + static_cast<std::ptrdiff_t>(phase_), launches.end());
  std::rotate(calls.begin(), calls.begin() + static_cast<std::ptrdiff_t>(place_), calls.end());
  replace_region(region_->with(std::move(launches), std::move(calls)));
  phase_ = place_ = 0;
  cut_before(0);
}

std::span<const Launch> GraphLowering::flush_overdue() {
  const std::int64_t since = held_since_.load(std::memory_order_relaxed);
  if (held_ == 0 || !is_overdue(since)) return {};
  const std::size_t wanted = held_chunk_->end - held_chunk_->begin;
  const bool has_grown = region_->grows && !held_chunk_->is_first && region_->most_grown > region_->most_launches;
  const std::shared_ptr<Chunk> chunk = held_chunk_;
  const std::span<const Launch> held = take_held();
  ++counters_.overdue;
  ++region_->story->report.overdue;
  if (host_waits_ != 0) {  // which would outlast the patience in every turn
    cut_here();
    return held;
  }
  // Where it is more than the odd interruption the host is slower than thought: fewer at a time. While a way is made
  // the device's compiler is in its way. A form that is tried is held for longer than the first would be, or it is no
  // form for this host.
  if (improving_ || is_challenger()) return held;
  const bool is_bound_by_copies = region_->is_bound_by_copies(*chunk);
  std::uint32_t& late = is_bound_by_copies ? chunk->late : region_->late;
  late += is_bound_by_copies ? kTurnsALateOne : kGraphsALateOne;
  if (late >= kTooLate && (has_grown || region_->most_launches > kFewestLaunches)) {
    late = 0;
    if (leaves_form("it is held for too long")) return held;  // the first form need not be shorter for that
    if (has_grown)
      region_->most_grown = std::max(region_->most_launches, std::min(wanted, region_->most_grown) / 2);
    else
      region_->most_launches = std::max(kFewestLaunches, region_->most_launches / 2);
    if (region_->shortened++ == 0) region_->whole_in = turns_until_again(region_->times_shortened);
    recut();
  }
  return held;
}

// ── Regions ─────────────────────────────────────────────────────────────────────────────────────────────────────────

void GraphLowering::learn(const Work& work) {
  const Hashes hashes = hashes_of(work);
  if (work.copy != nullptr) return learn_copy(work, hashes.whole);
  const std::size_t with_copies = copies_come_ ? with_copies_.push(hashes.whole) : 0;
  const std::uint64_t in_turn = std::exchange(begins_turn_, false) ? ~hashes.whole : hashes.whole;
  std::size_t period = recurrence_.push(hashes.whole);
  const std::size_t turn = turns_.push(in_turn), shape_period = shape_.push(hashes.shape);
  const std::size_t pattern_period = pattern_.push(pattern_hash(work, hashes.whole));
  // A turn of the host is the better piece where a shorter one recurs in it: it is waited for while it is on its way.
  if (turn != 0)
    period = turn;
  else if (turns_.run() >= kWorthKeeping && turns_.candidate() > period)
    period = 0;
  if (!is_worth_keeping()) return kept_.clear();
  keep(work, hashes.whole);
  ++since_copy_;
  if (follow_with_copies(with_copies)) return;
  if (period == 0 && shape_period == 0 && pattern_period == 0) return;
  const auto launches = static_cast<std::size_t>(
      std::count_if(kept_.begin(), kept_.end(), [](const Launch& launch) { return !launch.copy; }));
  if (period != 0 && launches >= period) return begin_following(period, {});
  if (shape_period != 0 && launches >= shape_period && is_shape_period(shape_period))
    return begin_following(shape_period, {.look_on = shape_period < Recurrence::kConfirm});
  if (pattern_period != 0 && launches >= pattern_period && is_pattern_period(pattern_period))
    begin_following(pattern_period, {.rebinds = true});
}

void GraphLowering::keep(const Work& work, std::uint64_t hash) {
  kept_.emplace_back(work, hash);
  if (kept_.size() > Recurrence::kLongestPeriod) kept_.pop_front();
}

// While a short turn is followed whose scalars change: the period of whole launches that has
// been borne out, or 0.
std::size_t GraphLowering::longer_period(const Work& work) {
  const std::uint64_t hash = hashes_of(work).whole;
  const std::size_t period = recurrence_.push(hash);
  if (recurrence_.run() < kWorthKeeping) {
    kept_.clear();
    return 0;
  }
  keep(work, hash);
  return period > region_->turn && kept_.size() >= period ? period : 0;
}

// Whether it is to be acted on: no longer one is on its way that needs no blocks.
bool GraphLowering::is_shape_period(std::size_t period) const {
  if (recurrence_.run() >= kWorthKeeping && recurrence_.candidate() != period) return false;
  if (turns_.run() >= kWorthKeeping && turns_.candidate() != period) return false;
  return period >= Recurrence::kConfirm || shape_.run() >= kConfirmShortShape;
}

// The latest launches, whole turns of them. They are kept on just while a longer turn is looked for.
std::vector<Launch> GraphLowering::met(std::size_t period, bool with_copies) {
  const std::size_t turns = std::max<std::size_t>(1, kFewestRepeated / period);
  std::vector<Launch> launches;
  launches.reserve(turns * period);
  const auto counts = [&](const Launch& launch) { return with_copies || !launch.copy; };
  auto kept = kept_.end();
  for (std::size_t left = period; left != 0; left -= counts(*kept) ? 1 : 0) --kept;
  const bool are_kept = offered_ <= look_on_until_;  // else forget_what_came() lets them go next
  for (; kept != kept_.end(); ++kept) {
    if (!counts(*kept)) continue;
    if (are_kept)
      launches.push_back(*kept);
    else
      launches.push_back(std::move(*kept));
  }
  for (std::size_t i = 0; i < period && !with_copies; ++i) {
    Launch& launch = launches[period - 1 - i];
    if (recurrence_.equalled(i, period) || launch.scalars.empty()) continue;  // it has seen the same launches
    launch.vary();
    ++counters_.varying;
  }
  // Short ones several times over, so that a graph has many launches.
  for (std::size_t i = period; i < turns * period; ++i) launches.push_back(launches[i - period]);
  return launches;
}

void GraphLowering::begin_following(std::size_t period, Found by) {
  look_on_until_ = by.look_on ? offered_ + kLookOn : 0;
  auto found = std::make_shared<Region>();
  found->rebinds = by.rebinds;
  found->launches = by.rebinds ? met_with_arrays(period) : met(period, by.with_copies);
  forget_what_came();
  if (by.rebinds) {
    if (2 * std::ranges::count_if(found->launches, &Launch::goes_alone) > std::ssize(found->launches))
      return rest_from_patterns();  // no graph would be left
    look_at_arrays_until_ = offered_ + kLookOn;
  }
  // Perhaps it is one that has been met before, entered at another place.
  const auto same_from = [&](const Region& known, std::size_t start) {
    for (std::size_t i = 0; i < found->launches.size(); ++i)
      if (!stands_for(known.launches[(start + i) % known.launches.size()], found->launches[i])) return false;
    return !known.rebinds || known.has_pattern_of(*found, start);
  };
  for (auto known = known_.begin(); known != known_.end(); ++known) {
    if ((*known)->turn != period || (*known)->rebinds != by.rebinds) continue;
    for (std::size_t start = 0; start < period; ++start) {
      if (!same_from(**known, start)) continue;
      region_ = *known;
      region_->found_without_copies = !takes_copies();
      phase_ = place_ = start;
      known_.erase(known);
      known_.push_back(region_);
      ++region_->story->report.met_again;
      return;
    }
  }
  region_ = std::move(found);
  phase_ = place_ = 0;
  region_->calls.resize(by.rebinds ? region_->launches.size() : period);
  region_->cut_before.assign(region_->launches.size(), false);
  region_->turn = period;
  region_->most_launches = kMostLaunches;
  region_->grows = always_;
  region_->found_without_copies = !takes_copies();
  ++counters_.regions;
  tell_of_region(*region_);
  known_.push_back(region_);
  if (known_.size() > kRegionsKnown) known_.pop_front();
  recut();
  make_graphs_soon();
}

void GraphLowering::stop_following() {
  region_ = nullptr;
  forget_what_came();
  look_on_until_ = 0;
}

// But for what is looked for further while a short turn is followed, and after it: a mismatch may be its longer turn's.
void GraphLowering::forget_what_came() {
  turns_.clear();
  shape_.clear();
  pattern_.clear();
  with_copies_.clear();
  copies_come_ = false;
  if (offered_ <= look_on_until_) return;
  recurrence_.clear();
  kept_.clear();
}

void GraphLowering::forget(const std::shared_ptr<const Region>& region) {
  std::erase(known_, region);
  PERGOLA_CHECK(held_ == 0);  // nothing is held while graphs are made
  if (region_ == region) stop_following();
}

void GraphLowering::recut() {
  if (region_->rest != 0) return;
  if (region_->cuts >= kMostCuts) {
    for (const std::shared_ptr<Chunk>& chunk : region_->chunks) {
      chunk->state = Chunk::State::kRefused;
      chunk->refusal = "the host steps in at too many places";
    }
    end_forms();
    region_->story->report.forms.clear();
    region_->rest = kShortestRest << region_->rests;
    region_->rests = std::min(region_->rests + 1, kMostRests);
    tell_of_chunks();
    return;
  }
  const TurnForm first = first_form();
  if (std::exchange(region_->form, first) != first) region_->chunks.clear();
  region_->cut();
  refuse_chunks();
  try_forms();
  tell_of_chunks();
}

// Those that are to be no graphs.
void GraphLowering::refuse_chunks() {
  // By the policy alone turns without such uploads are none; by what was measured they are.
  const bool are_launches =
      region_->form == TurnForm::kLaunches && (region_->has_leads || turn_policy_ == Turns::kMeasured);
  for (const std::shared_ptr<Chunk>& chunk : region_->chunks) {
    if (!are_launches && !chunk->leads && chunk->end - chunk->begin >= kFewestLaunches) continue;
    chunk->state = Chunk::State::kRefused;
    chunk->refusal = are_launches && region_->has_leads ? "turns that begin with such uploads are launched one by one"
                     : are_launches                     ? "launched one by one such turns were measured to take less"
                     : region_->launches[chunk->begin].goes_alone
                         ? "its arrays change, and its kernel cannot take its parameters from memory"
                     : chunk->leads ? "uploads that a turn begins with go at once, while the rest of it is held"
                                    : "too few launches in a row";
  }
}

void GraphLowering::make_graphs() {
  for (const std::shared_ptr<Chunk>& chunk : region_->chunks) {
    if (chunk->state != Chunk::State::kNone) continue;
    chunk->state = Chunk::State::kBuilding;
    if (chunk->report != nullptr) chunk->report->state = GraphReport::State::kMaking;
    jobs_.push_back({region_, chunk});
  }
  start_thread();
  wake_.notify_all();
}

// ── What the device has to do ───────────────────────────────────────────────────────────────────────────────────────

bool GraphLowering::may_hold_chunk(const Chunk& chunk) {
  if (chunk.state == Chunk::State::kRefused || chunk.state == Chunk::State::kBuilding) return false;
  if (!enough_queued()) {
    ++region_->story->report.too_little;
    return false;
  }
  if (chunk.state == Chunk::State::kNone) make_graphs();
  // While the thread makes graphs nobody would look after what is held.
  return chunk.state == Chunk::State::kReady && !building_ && jobs_.empty();
}

bool GraphLowering::enough_queued() {
  if (holds_on_idle()) return true;
  const Clock::time_point time = Clock::now();
  if (known_queue_ - (time - known_at_) >= kEnoughQueued) return true;
  known_queue_ = {};
  if (unasked_ != 0) return false;
  std::chrono::nanoseconds now = queued();
  if (now < kEnoughQueued && expected_queue_) now = std::max(now, expected_queue_());
  double& most = region_->story->report.most_queued_ns;
  most = std::max(most, static_cast<double>(now.count()));
  if (now >= kEnoughQueued) {
    known_queue_ = now;
    known_at_ = time;
    asked_ = last_unasked_ = 0;
    return true;
  }
  if (in_flight_.size() > 1 || asked_ < kAskedInARow) return false;
  asked_ = 0;
  unasked_ = last_unasked_ = std::clamp<std::uint32_t>(2 * last_unasked_, kAskedInARow, kMostUnasked);
  in_a_row_ = false;
  return false;
}

bool GraphLowering::wants_event(const std::shared_ptr<Chunk>& chunk) {
  if (chunk->state == Chunk::State::kRefused) return false;
  if (holds_on_idle()) {  // it is not asked what is queued
    in_a_row_ = false;
    return false;
  }
  if (unasked_ != 0) {
    --unasked_;
    return false;
  }
  const double unmarked = unmarked_ns_ + chunk->device_ns;
  if (chunk->times_seen >= kTimesSeen && unmarked_ < kMostUnmarked && in_flight_.size() < kMostInFlight &&
      unmarked * kMarksAQueue < static_cast<double>(known_queue_.count())) {
    unmarked_ns_ = unmarked;
    ++unmarked_;
    in_flight_.push_back({chunk, nullptr, false});
    in_a_row_ = false;
    return false;
  }
  ++asked_;
  return true;
}

// Before there are graphs; they are made as soon as it looks as if they were wanted soon.
bool GraphLowering::wants_mark(const Chunk& chunk) {
  using State = Chunk::State;
  if (holds_on_idle() || unasked_ != 0 || (chunk.state != State::kNone && chunk.state != State::kBuilding))
    return false;
  if (!is_marked(chunk)) return false;
  if (chunk.state == State::kNone) make_graphs_soon();
  return true;
}

// Where it looks as if they were wanted soon.
void GraphLowering::make_graphs_soon() {
  if (!holds_on_idle() && expected_queue_ && expected_queue_() >= kWorthMaking) make_graphs();
}

std::chrono::nanoseconds GraphLowering::queued() {
  const auto first_with_mark = [&] {
    return std::find_if(in_flight_.begin(), in_flight_.end(),
                        [](const InFlight& each) { return each.mark != nullptr; });
  };
  auto first = first_with_mark();
  for (; first != in_flight_.end() && first->mark->event->poll(); first = first_with_mark()) {
    Chunk& chunk = *first->chunk;
    if (first->in_a_row && last_ended_ != nullptr)
      if (const Result<double> between = first->mark->event->elapsed_ns(*last_ended_->event);
          between.ok() && *between > 0) {
        chunk.device_ns = chunk.device_ns == 0 ? *between : std::min(chunk.device_ns, *between);
        ++chunk.times_seen;
      }
    last_ended_ = first->mark;
    in_flight_.erase(in_flight_.begin(), std::next(first));
  }
  // Of those without a mark at the end it is not known whether they have ended where there is none before them.
  double sum = 0;
  while (first != in_flight_.end() && ++first != in_flight_.end()) sum += first->chunk->device_ns;
  return std::chrono::nanoseconds(static_cast<std::int64_t>(sum));
}

void GraphLowering::ended(const std::shared_ptr<Chunk>& chunk, MarkPtr mark) {
  if (in_flight_.size() >= kMostInFlight) queued();
  unmarked_ns_ = 0;
  unmarked_ = 0;
  if (in_flight_.size() < kMostInFlight) in_flight_.push_back({chunk, std::move(mark), std::exchange(in_a_row_, true)});
}

}  // namespace pergola::scheduler
