// Whether a region's launches are worth holding on a device that has nothing queued, where the host goes on and on and
// does not wait for its turns. The device has nothing queued then because the host needs longer for a launch than the
// device does, so by the rule (graph_lowering.h) no launch would ever be held, and all stays as slow as the host is;
// where graphs stand for the launches the host is several times as fast.
//
//   watching ── kWatch turns, none of them held ──▶ trying ── kCounted turns as graphs, shorter by kGain ──▶ holding
//      ▲                                               │                                                        │
//      └─────────── in vain: from now on four times as many turns, of which the last kWatch are watched ──────────┘
//
// What is compared is what turns take from begin to begin by the host's clock: with nothing queued it is the program's
// time, and where the host is ahead as graphs come the device has enough to do for the rule. Turns in which the host
// has waited for the device say nothing of that and are not counted: where it waits in each, forms are tried
// (turn_forms.h).
//
// Guarded by the scheduler's lock.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "src/scheduler/passed_turns.h"

namespace pergola::scheduler {

class HostPace {
 public:
  static constexpr std::uint32_t kWatch = 64, kMostWatched = 16384;  // turns
  static constexpr std::uint32_t kSettle = 4;  // those as graphs that do not count: the first ones load them
  static constexpr std::size_t kCounted = 16;
  static constexpr double kGain = 0.9;
  // Turns, other than as graphs, after which it is given up: one after the other; and in which graphs are being made.
  static constexpr std::uint32_t kMostOthers = 32, kMostMaking = 2048;
  static constexpr std::uint32_t kOthersWatched = 256, kPassed = PassedTurns::kPassed;

  enum class State : std::uint8_t { kWatching, kTrying, kHolding };
  enum class Turn : std::uint8_t {
    kLaunches,  // nothing was held, as the device had too little to do
    kGraphs,    // all that may be graphs was
    kMaking,    // graphs, or their ways, are being made
    kOther,
  };

  // A turn in which the host did not wait has taken so long.
  void ended(Turn how, double ns);
  // A turn begins; whether it need not be looked at. It was tried in vain, and the turns by which that is tried again
  // are to come, of which it is one. Or of so many turns in a row none was of launches that could have been held
  // (PassedTurns).
  bool passes();
  State state() const { return state_; }
  bool holds() const { return state_ != State::kWatching; }
  // For reports: times that it was tried; and what turns took when that was last compared, or 0.
  std::uint64_t tries() const { return tries_; }
  double launches_ns() const { return launches_ns_; }
  double graphs_ns() const { return graphs_ns_; }

 private:
  void begin(State state);
  void give_up();

  State state_ = State::kWatching;
  std::uint32_t watch_ = kWatch, turns_ = 0, making_ = 0, others_ = 0;
  PassedTurns passed_;
  std::vector<double> took_;  // the latest turns, at most kCounted of them
  std::uint64_t tries_ = 0;
  double launches_ns_ = 0, graphs_ns_ = 0;
};

}  // namespace pergola::scheduler
