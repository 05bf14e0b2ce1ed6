#include "src/scheduler/host_pace.h"

#include <algorithm>

#include "src/scheduler/median.h"

namespace pergola::scheduler {

void HostPace::begin(State state) {
  state_ = state;
  turns_ = making_ = others_ = 0;
  took_.clear();
}

void HostPace::give_up() {
  watch_ = std::min(4 * watch_, kMostWatched);
  begin(State::kWatching);
}

bool HostPace::passes() {
  if (state_ != State::kWatching) return false;
  if (turns_ + kWatch < watch_) return ++turns_ != 0;
  return others_ >= kOthersWatched && passed_.passes();
}

void HostPace::ended(Turn how, double ns) {
  const bool counts = how == (state_ == State::kWatching ? Turn::kLaunches : Turn::kGraphs);
  if (!counts) {
    if (state_ == State::kWatching) {
      ++others_;
      return;
    }
    if (how == Turn::kMaking) {
      if (++making_ > kMostMaking) give_up();
    } else if (++others_ > kMostOthers) {
      give_up();
    }
    return;
  }
  others_ = making_ = 0;
  if (state_ == State::kHolding) return;
  if (++turns_ <= kSettle) return;
  if (took_.size() == kCounted) took_.erase(took_.begin());
  took_.push_back(ns);
  if (state_ == State::kWatching) {
    if (turns_ < watch_) return;
    launches_ns_ = median(took_);
    graphs_ns_ = 0;
    ++tries_;
    begin(State::kTrying);
    return;
  }
  if (took_.size() < kCounted) return;
  graphs_ns_ = median(took_);
  graphs_ns_ < kGain* launches_ns_ ? begin(State::kHolding) : give_up();
}

}  // namespace pergola::scheduler
