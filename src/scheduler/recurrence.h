// Finds out that a sequence of launches repeats itself: an online search for a period.
//
//   hashes   a b c d a b c d a b c d ...      run: how many in a row equalled the one `period` before
//                    └── period 4 ──┘
//
// The candidate is the distance to the last launch with the same hash; it is given up as soon as one differs. What came
// before a candidate was thought of bears it out as well: where shorter periods come first (a b a b ... c), a turn's
// only own launch is its last. A period counts once kConfirm launches in a row have borne it out, and at least a whole
// turn has. Hashes only propose: who acts on a period compares the launches themselves.
#pragma once

#include <algorithm>
#include <array>
#include <boost/unordered/unordered_flat_map.hpp>
#include <cstddef>
#include <cstdint>

namespace pergola::scheduler {

class Recurrence {
 public:
  static constexpr std::size_t kLongestPeriod = 2048;
  static constexpr std::uint64_t kConfirm = 64;

  // The next launch. Returns the period that holds with it, or 0.
  std::size_t push(std::uint64_t hash) {
    const std::uint64_t here = count_++;
    if (period_ != 0 && ring_[(here - period_) % kRing] == hash)
      ++run_;
    else
      look_for_period(hash, here);
    ring_[here % kRing] = hash;
    remember(hash, here);
    return period_ != 0 && run_ >= kConfirm && run_ >= period_ ? period_ : 0;
  }
  // Whether the n-th launch before the last (0: the last) equalled the one `period` before it. n + period < kRing.
  bool equalled(std::size_t n, std::size_t period) const {
    const std::uint64_t at = count_ - 1 - n;
    return ring_[at % kRing] == ring_[(at - period) % kRing];
  }
  std::size_t candidate() const { return period_; }
  std::uint64_t run() const { return period_ == 0 ? 0 : run_; }
  void clear() {
    since_ = count_;
    period_ = 0;
    run_ = 0;
    last_seen_.clear();
  }

 private:
  static constexpr std::size_t kRing = 4096;  // at least kLongestPeriod

  void look_for_period(std::uint64_t hash, std::uint64_t here) {
    period_ = 0;
    run_ = 0;
    const auto seen = last_seen_.find(hash);
    if (seen == last_seen_.end() || here - seen->second > kLongestPeriod) return;
    period_ = static_cast<std::size_t>(here - seen->second);
    run_ = 1;
    const std::uint64_t enough = std::max<std::uint64_t>(kConfirm, period_);
    for (std::uint64_t at = here; run_ < enough && at-- >= since_ + period_ + 1 && at + kRing > here + period_; ++run_)
      if (ring_[at % kRing] != ring_[(at - period_) % kRing]) return;
  }
  void remember(std::uint64_t hash, std::uint64_t here) {
    if (last_seen_.size() >= 4 * kLongestPeriod) last_seen_.clear();  // of launches that never came again
    last_seen_[hash] = here;
  }

  std::array<std::uint64_t, kRing> ring_{};
  boost::unordered_flat_map<std::uint64_t, std::uint64_t> last_seen_;  // hash -> position
  std::uint64_t count_ = 0, run_ = 0;
  std::uint64_t since_ = 0;  // count_ at the last clear()
  std::size_t period_ = 0;
};

}  // namespace pergola::scheduler
