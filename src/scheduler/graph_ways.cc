#include "src/scheduler/graph_ways.h"

#include <algorithm>
#include <chrono>
#include <limits>
#include <utility>

#include "src/base/log.h"

namespace pergola::scheduler {

Status GraphWays::launch(device::Queue& queue) {
  if (ways_.size() == 1) chosen_ = 0;
  if (chosen_ != kUndecided && ways_.size() > 1 && ++since_chosen_ > again_after()) try_again();
  if (chosen_ == kUndecided) settle();
  if (chosen_ != kUndecided) return launch_of(chosen_, queue);
  std::size_t least = ways_.size();
  for (std::size_t i = 0; i < ways_.size(); ++i)
    if (!is_tried(ways_[i]) && (least == ways_.size() || ways_[i].tries < ways_[least].tries)) least = i;
  // All have been tried often enough and not all times are known yet: no more events.
  if (least == ways_.size()) return launch_of(standing_, queue);
  if (times_again_ == 0) return try_way(least, queue);
  if (++spread_ == kSpread) {
    spread_ = 0;
    return try_way(next_, queue);
  }
  if (spread_ + 1 == kSpread) return launch_of(next_ = least, queue);
  return launch_of(standing_, queue);
}

Status GraphWays::launch_of(std::size_t way, device::Queue& queue) {
  launched_ = way;
  return ways_[way].graph->launch(queue);
}

std::uint64_t GraphWays::again_after() const {
  const std::size_t times = (ways_.size() + kFewWays - 1) / kFewWays;
  return kAgainAfter * times << kAgainGrowth * times_again_;
}

void GraphWays::try_again() {
  standing_ = std::exchange(chosen_, kUndecided);
  times_again_ = std::min(times_again_ + 1, kMostGrowths);
  spread_ = 0;
  changed_ = true;
  const double hopeless_ns = kHopeless * ways_[standing_].best_ns;
  for (Way& way : ways_) {
    way.was_hopeless = way.best_ns > hopeless_ns;
    way.forget_times();
    if (way.was_hopeless)
      way.tries = kTriesAgain - kTriesAtLeast;  // nobody may wait, and times be known only after all of them
  }
}

void GraphWays::Way::took(double ns) {
  ++timed;
  times_ns.insert(std::ranges::upper_bound(times_ns, ns), ns);
  best_ns = times_ns[timed < kManyTimes ? 0 : (times_ns.size() - 1) / 2];
}

void GraphWays::add(Way way) {
  ways_.push_back(std::move(way));
  if (times_again_ != 0 && chosen_ != kUndecided) standing_ = chosen_;  // as in try_again()
  chosen_ = kUndecided;
  changed_ = true;
}

std::vector<std::string> GraphWays::by_time() const {
  std::vector<std::pair<double, std::size_t>> times;  // of equals the one that was made first
  for (std::size_t i = 0; i < ways_.size(); ++i)
    times.emplace_back(ways_[i].best_ns == 0 ? std::numeric_limits<double>::max() : ways_[i].best_ns, i);
  std::ranges::sort(times);
  std::vector<std::string> names;
  for (const auto& [ns, way] : times) names.push_back(ways_[way].name);
  return names;
}

void GraphWays::Way::forget_times() {
  tries = timed = 0;
  best_ns = host_ns = 0;
  times_ns.clear();
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
    out.push_back({way.name, way.why, way.best_ns, way.tries, state});
  }
  out.insert(out.end(), refused.begin(), refused.end());
  return true;
}

bool GraphWays::is_tried(const Way& way) const {
  if (way.tries >= tries_needed()) return true;
  return way.timed >= kTriesAtLeast && ways_[standing_].best_ns != 0 &&
         way.best_ns > kHopeless * ways_[standing_].best_ns;
}

Status GraphWays::try_way(std::size_t way, device::Queue& queue) {
  launched_ = way;
  Trial trial{way, nullptr, nullptr};
  Way& tried = ways_[way];
  PERGOLA_ASSIGN(trial.start, queue.record());
  const auto before = std::chrono::steady_clock::now();
  PERGOLA_TRY(tried.graph->launch(queue));
  const std::chrono::duration<double, std::nano> host = std::chrono::steady_clock::now() - before;
  PERGOLA_ASSIGN(trial.end, queue.record());
  tried.host_ns = tried.host_ns == 0 ? host.count() : std::min(tried.host_ns, host.count());
  ++tried.tries;
  trials_.push_back(std::move(trial));
  return {};
}

// Than the one that stands by enough, than one that is itself by anything; or it takes as long and costs the host less.
bool GraphWays::is_better(const Way& way, const Way& than) const {
  if (way.best_ns == 0 || than.best_ns == 0) return false;
  if (way.best_ns <= than.best_ns && way.host_ns < std::min(than.host_ns * kHostGain, than.host_ns - kHostGainNs))
    return true;
  const bool stands = &than == &ways_[standing_];
  const double below = stands ? std::min(than.best_ns * kGain, than.best_ns - kGainNs) : than.best_ns;
  return way.best_ns < below;
}

void GraphWays::settle() {
  std::erase_if(trials_, [&](const Trial& trial) {
    if (!trial.end->poll()) return false;
    const Result<double> time = trial.end->elapsed_ns(*trial.start);
    if (!time.ok()) return true;
    ways_[trial.way].took(*time);
    changed_ = true;
    return true;
  });
  const bool all_tried = std::all_of(ways_.begin(), ways_.end(), [&](const Way& way) { return is_tried(way); });
  if (!all_tried || !trials_.empty()) return;
  bool goes_on = false;
  for (Way& way : ways_) {
    if (!std::exchange(way.was_hopeless, false) || way.best_ns > kHopeless * ways_[standing_].best_ns) continue;
    way.tries = way.timed;
    goes_on = true;
  }
  if (goes_on) return;
  chosen_ = standing_;
  since_chosen_ = 0;
  changed_ = true;
  for (std::size_t i = 0; i < ways_.size(); ++i)
    if (is_better(ways_[i], ways_[chosen_])) chosen_ = i;
  std::string times;
  for (const Way& way : ways_)
    times += fmt::format("{}{} {:.1f} us", times.empty() ? "" : ", ", way.name, way.best_ns / 1e3);
  PERGOLA_INFO("a graph of recurring launches runs in the way '{}' from now on ({}): {}", ways_[chosen_].name, times,
               ways_[chosen_].why);
}

}  // namespace pergola::scheduler
