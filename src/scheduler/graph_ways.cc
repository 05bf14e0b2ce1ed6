#include "src/scheduler/graph_ways.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "src/base/log.h"

namespace pergola::scheduler {
namespace {

constexpr std::string_view kInstance = " #";  // "merged #2"

// Of many times the mean, without the longest of each so many, which something disturbed.
double mean_of(const std::vector<double>& ascending, std::size_t disturbed_of) {
  const std::size_t counted = ascending.size() - ascending.size() / disturbed_of;
  return std::accumulate(ascending.begin(), ascending.begin() + static_cast<std::ptrdiff_t>(counted), 0.0) /
         static_cast<double>(counted);
}

void insert_into(std::vector<double>& ascending, double value) {
  ascending.insert(std::ranges::upper_bound(ascending, value), value);
}

// Each node comes after the one before it: there are no branches.
bool is_chain(const device::GraphSpec& spec) {
  for (std::size_t i = 1; i < spec.nodes.size(); ++i) {
    const device::GraphNode& node = spec.nodes[i];
    const auto before = static_cast<device::NodeId>(i - 1);
    if (std::ranges::find(node.after, before) == node.after.end() && node.early_after != before) return false;
  }
  return true;
}

// " (by stream: 40.9, 41.4, 44.3 us)", the best first; "" of one.
std::string lanes_text(const GraphWays::Way& way) {
  std::vector<double> times;
  for (std::size_t i = 0; i < GraphWays::kMostLanes; ++i)
    if (const double ns = way.took_on(i); ns != 0) times.push_back(ns * 1e-3);
  if (times.size() < 2) return {};
  std::ranges::sort(times);
  return fmt::format(" (by stream: {:.1f} us)", fmt::join(times, ", "));
}

}  // namespace

const device::Queue* GraphWays::choose() {
  if (!is_planned_) settle_next();
  if (ways_.size() > 1 && !knows_lanes_) return nullptr;
  return planned_lane_ < lanes_.size() ? lanes_[planned_lane_] : nullptr;
}

void GraphWays::settle_next() {
  if (ways_.size() == 1) chosen_ = 0;
  if (chosen_ != kUndecided && ways_.size() > 1 && ++since_chosen_ > again_after()) try_again();
  if (chosen_ == kUndecided) settle();
  if (chosen_ != kUndecided)
    plan(chosen_, lane_);
  else
    choose_trial();
}

void GraphWays::choose_trial() {
  std::size_t least = ways_.size();
  for (std::size_t i = 0; i < ways_.size(); ++i)
    if (ways_[i].graph != nullptr && !is_tried(ways_[i]) &&
        (least == ways_.size() || ways_[i].tries() < ways_[least].tries()))
      least = i;
  // All have been tried often enough and not all times are known yet: no more events.
  if (least == ways_.size()) return plan(running_, lane_);
  if (times_again_ == 0) return plan(least, lane_to_try(ways_[least]), true);
  if (due_in_ == 0 && ways_[next_].graph != nullptr) return plan(next_, next_lane_, true);
  if (due_in_ == 0)
    due_in_ = kSpread - 1;  // late times of it were enough, and it has been put back since it was planned
  if (--due_in_ != 0) return plan(running_, lane_);
  next_ = least;
  next_lane_ = lane_to_try(ways_[least]);
  plan(next_, next_lane_);
}

void GraphWays::plan(std::size_t way, std::size_t lane, bool is_timed) {
  launched_ = way;
  planned_lane_ = lane;
  is_timed_ = is_timed;
  is_planned_ = true;
}

bool GraphWays::is_of_trial(std::size_t lane) const {
  return lane < lanes_.size() && (times_again_ == 0 || std::ranges::find(again_, lane) != again_.end());
}

std::size_t GraphWays::trial_lanes() const {
  std::size_t count = 0;
  for (std::size_t lane = 0; has_lanes_ && lane < lanes_.size(); ++lane) count += is_of_trial(lane) ? 1 : 0;
  return count;
}

// Of a trial again, once lanes are known: the one that stands and one more, each in turn.
void GraphWays::fix_trial_lanes() {
  const std::size_t lanes = lanes_.size();
  again_[0] = lane_ < lanes ? lane_ : 0;
  again_[1] = next_other_ % lanes;
  if (again_[1] == again_[0]) again_[1] = (again_[1] + 1) % lanes;
  next_other_ = again_[1] + 1;
}

std::uint32_t GraphWays::tries_needed(const Way& way, std::size_t lane) const {
  const std::uint32_t of_each = times_again_ != 0 || trial_lanes() > 1 ? kManyTimes : kTries;
  return lane == way.best_lane && way.times_ns[lane].size() >= kManyTimes && is_fastest(way) ? kSureTimes : of_each;
}

// Of those whose times are known, with the others.
bool GraphWays::is_fastest(const Way& way) const {
  return ways_.size() > 1 && std::ranges::none_of(ways_, [&](const Way& other) {
           return other.best_ns != 0 && other.counted_ns() < way.counted_ns();
         });
}

// Of those of the trial on which it needs more, that with the fewest tries, those that went elsewhere among them.
std::size_t GraphWays::lane_to_try(const Way& way) const {
  if (!has_lanes_) return kAnyLane;
  std::size_t least = kAnyLane;
  for (std::size_t lane = 0; lane < lanes_.size(); ++lane) {
    if (!is_of_trial(lane) || way.tries_on[lane] >= tries_needed(way, lane)) continue;
    if (least == kAnyLane || way.tries_on[lane] + missed_on_[lane] < way.tries_on[least] + missed_on_[least])
      least = lane;
  }
  return least;
}

// One alone stays where it is, and looks for no others.
void GraphWays::note_lane(const device::Queue& queue) {
  if (knows_lanes_) return;
  if (std::ranges::find(lanes_, &queue) == lanes_.end()) {
    lanes_.push_back(&queue);
    met_again_ = 0;
  } else if (ways_.size() > 1) {
    ++met_again_;
  }
  knows_lanes_ = lanes_.size() == kMostLanes || met_again_ == kMetAgain;
  if (knows_lanes_ && times_again_ != 0) fix_trial_lanes();
}

// That one always has something else to do. Where tries come to no other either there are none, and all are tried anew
// wherever they go.
void GraphWays::give_up_lane(std::size_t lane) {
  missed_ = 0;
  missed_on_ = {};
  const bool any = std::ranges::any_of(ways_, [](const Way& way) { return way.tries() != 0; });
  if (lane < lanes_.size() && lanes_.size() > 1 && any) return drop_lane(lane);
  has_lanes_ = false;
  lane_ = kAnyLane;
  trials_.clear();
  for (Way& way : ways_) way.begin_anew();
}

void GraphWays::drop_lane(std::size_t lane) {
  const auto moved = [lane](std::size_t other) { return other == lane ? 0 : other > lane ? other - 1 : other; };
  lanes_.erase(lanes_.begin() + static_cast<std::ptrdiff_t>(lane));
  std::erase_if(trials_, [lane](const Trial& trial) { return trial.lane == lane; });
  for (Trial& trial : trials_) trial.lane = moved(trial.lane);
  for (Way& way : ways_) way.drop_lane(lane);
  if (lane_ != kAnyLane) lane_ = moved(lane_);
  for (std::size_t& other : again_) other = moved(other);
}

Status GraphWays::launch(device::Queue& queue, bool was_free) {
  if (!is_planned_) settle_next();
  is_planned_ = is_wait_asked_ = false;
  const bool knew_lanes = knows_lanes_;
  if (was_free) note_lane(queue);
  if (!is_timed_) {
    if (chosen_ != kUndecided && lane_ < lanes_.size() && lanes_[lane_] != &queue) ++elsewhere_;
    return ways_[launched_].graph->launch(queue);
  }
  const bool is_there = was_free && knew_lanes && planned_lane_ < lanes_.size() && lanes_[planned_lane_] == &queue;
  if (!has_lanes_ || is_there) {
    missed_ = missed_on_[planned_lane_] = 0;
    due_in_ = kSpread - 1;
    return try_planned(queue, has_lanes_ ? planned_lane_ : kAnyLane);
  }
  missed_ = was_free && !knew_lanes ? 0 : missed_ + 1;
  ++missed_on_[planned_lane_];
  if (missed_ > kMostMissed) give_up_lane(planned_lane_);
  // After three launches, then five, then seven: one of them goes with the rhythm in which the program waits.
  due_in_ = 2 * (1 + missed_ / kMissedOfAGap);
  launched_ = running_;
  return ways_[launched_].graph->launch(queue);
}

std::uint64_t GraphWays::again_after() const {
  const std::size_t times = (ways_.size() + kFewWays - 1) / kFewWays * (lanes_.size() > 1 ? 2 : 1);
  return kAgainAfter * times << kAgainGrowth * times_again_;
}

void GraphWays::try_again() {
  standing_ = std::exchange(chosen_, kUndecided);
  times_again_ = std::min(times_again_ + 1, kMostGrowths);
  due_in_ = kSpread - 1;
  missed_ = met_again_ = 0;
  missed_on_ = {};
  has_lanes_ = true;
  knows_lanes_ = lanes_.size() == kMostLanes;  // there may be more streams by now
  if (lane_ == kAnyLane && !lanes_.empty()) lane_ = next_other_ % lanes_.size();
  if (knows_lanes_) fix_trial_lanes();
  changed_ = true;
  const double hopeless_ns = kHopeless * ways_[standing_].best_ns;
  for (Way& way : ways_) {
    way.was_hopeless = way.best_ns > hopeless_ns;
    way.begin_anew();
  }
}

void GraphWays::Way::took(double ns, std::size_t lane) {
  insert_into(times_ns[lane], ns);
  count();
}

void GraphWays::Way::count() {
  best_ns = 0;
  best_lane = kAnyLane;
  for (std::size_t i = 0; i < times_ns.size(); ++i) {
    const double there = took_on(i);
    if (there == 0 || (best_ns != 0 && there >= best_ns)) continue;
    best_ns = there;
    best_lane = i;
  }
}

void GraphWays::Way::drop_lane(std::size_t lane) {
  const auto at = static_cast<std::ptrdiff_t>(lane);
  std::rotate(tries_on.begin() + at, tries_on.begin() + at + 1, tries_on.end() - 1);
  std::rotate(times_ns.begin() + at, times_ns.begin() + at + 1, times_ns.end() - 1);
  tries_on[kMostLanes - 1] = 0;
  times_ns[kMostLanes - 1].clear();
  count();
}

std::size_t GraphWays::Way::timed() const {
  std::size_t count = 0;
  for (const std::vector<double>& times : times_ns) count += times.size();
  return count;
}

double GraphWays::Way::took_on(std::size_t lane) const {
  const std::vector<double>& times = times_ns[lane];
  if (times.size() < kManyTimes) return times.empty() ? 0 : times.front();
  return mean_of(times, kManyTimes);
}

std::optional<double> GraphWays::Way::took_beyond_ns() const {
  if (beyond_ns.size() < kManyTimes) return std::nullopt;
  return mean_of(beyond_ns, kManyTimes);
}

void GraphWays::add(Way way) {
  is_planned_ = false;
  ways_.push_back(std::move(way));
  if (times_again_ != 0 && chosen_ != kUndecided) standing_ = chosen_;  // as in try_again()
  chosen_ = kUndecided;
  changed_ = true;
}

std::vector<std::size_t> GraphWays::in_order_of_time() const {
  std::vector<std::pair<double, std::size_t>> times;  // of equals the one that was made first
  for (std::size_t i = 0; i < ways_.size(); ++i)
    times.emplace_back(ways_[i].best_ns == 0 ? std::numeric_limits<double>::max() : ways_[i].counted_ns(), i);
  std::ranges::sort(times);
  std::vector<std::size_t> order;
  for (const auto& [ns, way] : times) order.push_back(way);
  return order;
}

std::string_view GraphWays::name_without_instance(std::string_view name) {
  return name.substr(0, name.find(kInstance));
}

std::vector<std::string> GraphWays::by_time() const {
  std::vector<std::string> names;
  for (const std::size_t way : in_order_of_time())
    if (std::string name(name_without_instance(ways_[way].name)); std::ranges::find(names, name) == names.end())
      names.push_back(std::move(name));
  return names;
}

GraphWays::Found GraphWays::found() const {
  Found found = found_;
  for (const auto& [name, ns] : times_ns()) found.times_ns.emplace(name, ns);
  return found;
}

std::map<std::string, double> GraphWays::times_ns() const {
  std::map<std::string, double> times;
  for (const std::size_t way : in_order_of_time())  // of instances the fastest comes first
    if (ways_[way].best_ns != 0) times.emplace(name_without_instance(ways_[way].name), ways_[way].best_ns);
  return times;
}

GraphWays::Draw GraphWays::draw() const {
  const std::vector<std::size_t> order = in_order_of_time();
  const auto base = [](const Way& way) { return name_without_instance(way.name); };
  const auto is_drawn = [&](const Way& way) { return base(way) != way.name; };
  if (ways_[order.front()].best_ns > kLongNs &&
      std::ranges::count_if(ways_, is_drawn) >= static_cast<std::ptrdiff_t>(kDrawsOfLong))
    return {};
  const Way* drawn = nullptr;
  double most_ns = kHopeless * ways_[order.front()].counted_ns();
  std::ptrdiff_t fewest = 0;
  for (const std::size_t i : order) {
    const Way& way = ways_[i];
    if (way.best_ns == 0 || way.counted_ns() > most_ns) break;
    if (way.spec == nullptr || is_chain(*way.spec)) continue;
    const auto instances = std::ranges::count_if(ways_, [&](const Way& one) { return base(one) == base(way); });
    if (drawn == nullptr) most_ns = std::min(most_ns, kNearlyAsFast * way.counted_ns());
    if (drawn != nullptr && instances >= fewest) continue;
    drawn = &way;
    fewest = instances;
  }
  return drawn == nullptr ? Draw() : Draw{fmt::format("{}{}{}", base(*drawn), kInstance, fewest + 1), drawn->spec};
}

void GraphWays::Way::forget_times() {
  best_ns = host_ns = 0;
  best_lane = kAnyLane;
  tries_on = {};
  times_ns = {};
  beyond_ns.clear();
}

void GraphWays::Way::begin_anew() {
  forget_times();
  is_due = graph == nullptr && spec != nullptr;
}

bool GraphWays::report(std::span<const WayReport> refused, std::vector<WayReport>& out) {
  if (!std::exchange(changed_, false)) return false;
  out.clear();
  for (std::size_t i = 0; i < ways_.size(); ++i) {
    const Way& way = ways_[i];
    WayReport::State state = WayReport::State::kOnly;
    if (ways_.size() > 1 && chosen_ == kUndecided)
      state = WayReport::State::kTried;
    else if (ways_.size() > 1)
      state = i == chosen_ ? WayReport::State::kKept : WayReport::State::kPutBack;
    out.push_back({way.name, way.why + lanes_text(way), way.best_ns, way.tries(), state});
  }
  out.insert(out.end(), refused.begin(), refused.end());
  return true;
}

bool GraphWays::is_tried(const Way& way) const {
  if (way.graph == nullptr) return true;           // or will be, once it is made again
  if (has_lanes_ && lanes_.empty()) return false;  // nor are they known not to be
  const std::size_t lanes = trial_lanes();
  // The first may have paid for an upload, and one of its streams may be a slow one.
  const std::size_t at_least = lanes_.size() < 2 ? kTriesAtLeast : 1 + (has_lanes_ ? lanes : kMostLanes);
  if (way.was_hopeless && way.tries() >= at_least) return true;
  if (way.timed() >= at_least && ways_[standing_].best_ns != 0 && way.best_ns > kHopeless * ways_[standing_].best_ns)
    return true;
  if (lanes == 0) return way.tries_on[kAnyLane] >= tries_needed(way, kAnyLane);
  for (std::size_t lane = 0; lane < lanes_.size(); ++lane)
    if (is_of_trial(lane) && way.tries_on[lane] < tries_needed(way, lane)) return false;
  return true;
}

Status GraphWays::try_planned(device::Queue& queue, std::size_t lane) {
  Trial trial{launched_, lane, nullptr, nullptr};
  Way& tried = ways_[launched_];
  PERGOLA_ASSIGN(trial.start, queue.record());
  trial.began_ns = clock_.now_ns();
  PERGOLA_TRY(tried.graph->launch(queue));
  const double host_ns = clock_.now_ns() - trial.began_ns;
  PERGOLA_ASSIGN(trial.end, queue.record());
  tried.host_ns = tried.host_ns == 0 ? host_ns : std::min(tried.host_ns, host_ns);
  ++tried.tries_on[lane];
  trials_.push_back(std::move(trial));
  is_wait_asked_ = true;
  return {};
}

// What has ended by then would tell what else the host has done.
bool GraphWays::host_waits() {
  is_wait_asked_ = is_wait_asked_ && !trials_.empty() && !trials_.back().end->poll();
  return is_wait_asked_;
}

void GraphWays::host_waited() {
  const double now = clock_.now_ns();
  if (!std::exchange(is_wait_asked_, false) || trials_.empty() || !trials_.back().end->poll()) return;
  trials_.back().waited_ns = now - trials_.back().began_ns;
}

bool GraphWays::costs_less(const Way& way, const Way& other) {
  return way.host_ns < std::min(other.host_ns * kHostGain, other.host_ns - kHostGainNs);
}

// By how much the device may wait for the host's launch of it, after something else.
double GraphWays::late_ns(const Way& way) {
  return std::max(0.0, way.host_ns - way.best_ns * kHostHalf) * kLateShare;
}

// How much longer than the other `way` takes for the host, beyond what they take by events; less: below 0.
double GraphWays::beyond_ns(const Way& way, const Way& other) {
  if (!costs_less(way, other) && !costs_less(other, way)) return 0;
  const std::optional<double> its = way.took_beyond_ns(), others = other.took_beyond_ns();
  const double costs_ns = way.host_ns - other.host_ns, most_ns = std::abs(costs_ns);
  if (!its || !others) return costs_ns * kHostShare;
  return std::clamp(*its - *others, -most_ns, most_ns) + late_ns(way) - late_ns(other);
}

// Than the one that stands by enough, than one that is itself by anything; or it costs the host less, and is not slower
// with that counted.
bool GraphWays::is_better(const Way& way, const Way& than) const {
  if (way.best_ns == 0 || than.best_ns == 0) return false;
  const double way_ns = way.counted_ns() + beyond_ns(way, than), than_ns = than.counted_ns();
  if (costs_less(way, than) && way_ns <= than_ns) return true;
  const bool stands = &than == &ways_[standing_];
  return way_ns < (stands ? std::min(than_ns * kGain, than_ns - kGainNs) : than_ns);
}

void GraphWays::settle() {
  std::erase_if(trials_, [&](const Trial& trial) {
    if (!trial.end->poll()) return false;
    const Result<double> time = trial.end->elapsed_ns(*trial.start);
    if (!time.ok()) return true;
    Way& way = ways_[trial.way];
    way.took(*time, trial.lane);
    const double beyond_ns = trial.waited_ns - *time;
    if (trial.waited_ns != 0 && beyond_ns <= kMostBeyondNs) insert_into(way.beyond_ns, beyond_ns);
    changed_ = true;
    return true;
  });
  const bool all_tried = std::all_of(ways_.begin(), ways_.end(), [&](const Way& way) { return is_tried(way); });
  if (!all_tried || !trials_.empty()) return;
  bool goes_on = false;
  for (Way& way : ways_) {
    if (way.graph == nullptr || !std::exchange(way.was_hopeless, false) ||
        way.best_ns > kHopeless * ways_[standing_].best_ns)
      continue;
    goes_on = true;
  }
  if (goes_on) return;
  const std::size_t best = fastest();
  put_back_all_but(best);
  if (ways_[best].graph == nullptr) ways_[best].is_due = true;  // its times are of a graph that has gone; it has a spec
  if (!awaits_another()) choose_now(best);
}

// Of those whose times are known.
std::size_t GraphWays::fastest() const {
  std::size_t best = ways_[standing_].best_ns != 0 ? standing_ : running_;
  for (std::size_t i = 0; i < ways_.size(); ++i)
    if (is_better(ways_[i], ways_[best])) best = i;
  return best;
}

void GraphWays::put_back_all_but(std::size_t fastest) {
  for (std::size_t i = 0; i < ways_.size(); ++i) {
    if (i == fastest || i == running_ || ways_[i].graph == nullptr || ways_[i].spec == nullptr) continue;
    put_back_.push_back(std::move(ways_[i].graph));
    asks_ = true;
  }
}

// Tried again, one after the other, before what was found counts.
bool GraphWays::awaits_another() {
  if (awaited_ != kNone) return true;
  const auto due = std::ranges::find_if(ways_, &Way::is_due);
  if (due == ways_.end()) return false;
  awaited_ = static_cast<std::size_t>(due - ways_.begin());
  asks_ = true;
  return true;
}

std::size_t GraphWays::to_make() {
  return std::exchange(is_taken_, awaited_ != kNone) ? kNone : awaited_;
}

void GraphWays::made(std::size_t way, std::shared_ptr<device::ExecutableGraph> graph) {
  Way& its = ways_[way];
  if (graph == nullptr) {
    its.forget_times();  // by which it could be the fastest
    its.was_hopeless = false;
  }
  its.graph = std::move(graph);
  its.is_due = false;
  make_later();
  changed_ = true;
}

std::vector<std::shared_ptr<device::ExecutableGraph>> GraphWays::take_put_back() {
  asks_ = false;
  return std::exchange(put_back_, {});
}

void GraphWays::choose_now(std::size_t way) {
  chosen_ = running_ = way;
  since_chosen_ = elsewhere_ = 0;
  changed_ = true;
  lane_ = ways_[chosen_].best_lane;
  found_ = {times_ns(), std::string(name_without_instance(ways_[chosen_].name))};
  put_back_all_but(chosen_);
  asks_ = true;  // for more ways, which wait for that
  std::string times;
  for (const Way& each : ways_)
    times += fmt::format("{}{} {:.1f} us", times.empty() ? "" : ", ", each.name, each.best_ns / 1e3);
  PERGOLA_INFO("a graph of recurring launches runs in the way '{}' from now on ({}): {}", ways_[chosen_].name, times,
               ways_[chosen_].why);
}

}  // namespace pergola::scheduler
