// One SM of the schedule: the blocks that run in it, and when the next of them ends.
//
// Blocks progress alike: at full speed while their shares of the SM come to 1 at most, else slower by what they come
// to. So all times are kept in the SM's own time, which runs at that speed, and a block's end never has to be moved.
//
// Ends fall on whole 1/1024 ns: else those of several SMs that are one by rights come apart by what was rounded, and
// the SM that is free first, if only by that, is given all that is ready.
//
// Owned by one thread.
#pragma once

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "src/device/cpu/blocks/launch_chain.h"

namespace pergola::device::cpu::blocks {

class SmClock {
 public:
  // Times given never fall.
  void start(double now_ns, BlockName block, const BlockCost& cost, const BlockRoom& room) {
    move_to(now_ns);
    threads_ += room.threads, shared_bytes_ += room.shared_bytes;
    ends_.push_back({own_ns_ + cost.alone_ns, cost.sm_share, block, room});
    std::ranges::push_heap(ends_, later);
    running_.push_back(block);
    share_ += cost.sm_share;
  }

  double next_end_ns() const {
    if (ends_.empty()) return std::numeric_limits<double>::infinity();
    return std::round((at_ns_ + (ends_.front().own_ns - own_ns_) * slowdown()) / kGridNs) * kGridNs;
  }

  // Appends the blocks that have ended by now, which is no later than next_end_ns().
  void end_until(double now_ns, std::vector<BlockName>& ended) {
    if (next_end_ns() > now_ns) return;
    at_ns_ = now_ns;
    own_ns_ = ends_.front().own_ns;  // exactly, whatever was rounded on the way
    while (!ends_.empty() && ends_.front().own_ns <= own_ns_ + kGridNs / 2) {
      std::ranges::pop_heap(ends_, later);
      share_ -= ends_.back().share;
      threads_ -= ends_.back().room.threads, shared_bytes_ -= ends_.back().room.shared_bytes;
      ended.push_back(ends_.back().block);
      std::erase(running_, ends_.back().block);
      ends_.pop_back();
    }
    if (ends_.empty()) share_ = 0;
  }

  const std::vector<BlockName>& running() const { return running_; }
  std::uint32_t threads() const { return threads_; }
  std::uint32_t shared_bytes() const { return shared_bytes_; }

 private:
  static constexpr double kGridNs = 1.0 / 1024;
  struct End {
    double own_ns, share;
    BlockName block;
    BlockRoom room;
  };
  static bool later(const End& a, const End& b) { return a.own_ns > b.own_ns; }
  double slowdown() const { return std::max(1.0, share_); }
  void move_to(double now_ns) {
    own_ns_ += (now_ns - at_ns_) / slowdown();
    at_ns_ = now_ns;
  }

  std::vector<End> ends_;  // a heap, the earliest first
  std::vector<BlockName> running_;
  double at_ns_ = 0, own_ns_ = 0;
  double share_ = 0;
  std::uint32_t threads_ = 0, shared_bytes_ = 0;  // that running blocks keep
};

}  // namespace pergola::device::cpu::blocks
