// Which cycles of a run of instructions are taken, of one warp's scheduler: each instruction takes the first free ones
// from when what it reads is there. Cycles count from where the run began.
//
// next_[c] is c where cycle c is free, else a later cycle; what is past the end is free. So a search skips what is
// taken, and halves the way for those after it.
//
// Owned by one thread.
#pragma once

#include <cstdint>
#include <vector>

namespace pergola::device::cpu::blocks {

class IssueSlots {
 public:
  void clear() { next_.clear(); }

  // Takes the first `cycles` free cycles from `from` on, at least one; returns the cycle behind the last of them.
  std::uint64_t take(std::uint64_t from, std::uint32_t cycles) {
    std::uint64_t cycle = from;
    for (std::uint32_t i = 0; i < cycles; ++i) {
      cycle = free_from(cycle);
      while (next_.size() <= cycle) next_.push_back(static_cast<std::uint32_t>(next_.size()));
      next_[cycle] = static_cast<std::uint32_t>(cycle + 1);
      ++cycle;
    }
    return cycle;
  }

 private:
  std::uint64_t free_from(std::uint64_t cycle) {
    while (cycle < next_.size() && next_[cycle] != cycle) {
      const std::uint32_t next = next_[cycle];
      if (next < next_.size()) next_[cycle] = next_[next];
      cycle = next;
    }
    return cycle;
  }

  std::vector<std::uint32_t> next_;
};

}  // namespace pergola::device::cpu::blocks
