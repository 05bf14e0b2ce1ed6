// What threads of a block do together: named barriers and the results of warp collectives (ISA 9.7.13).
//
// Shared by the tiers. Nothing here blocks: a tier decides who waits; these types say when a wait is over and what
// the lanes then get. Owned by one block and so by one OS thread.
#pragma once

#include <array>
#include <bit>
#include <cstdint>
#include <span>
#include <vector>

namespace pergola::device::cpu {

// One of the 16 barriers of a block. Arrivals are counted per warp. A lane that has exited, or never existed, counts
// with its warp once some lane of the warp has arrived, for the ISA counts whole warps:
//   complete  ⇔  Σ over warps with an arrival |arrived ∪ dead lanes| ≥ expected, or, without an expected count,
//                every live thread of the block has arrived.
class NamedBarrier {
 public:
  void reset(std::uint32_t warp_count);
  bool idle() const { return arrived_total_ == 0; }
  // `expected` 0: all threads of the block. `predicate` is only used by barrier.red.
  void arrive(std::uint32_t warp, std::uint32_t lane, std::uint32_t expected, bool predicate) {
    arrive_together(warp, std::uint32_t{1} << lane, expected, predicate ? std::uint32_t{1} << lane : 0);
  }
  // As arrive() for each lane of `lanes`; `truths` are those whose predicate is true.
  void arrive_together(std::uint32_t warp, std::uint32_t lanes, std::uint32_t expected, std::uint32_t truths) {
    arrived_[warp] |= lanes;
    // Whole warps without predicates are the common case, and counting bits is a call on the oldest processors.
    arrived_total_ += lanes == 0xffffffffu ? 32 : static_cast<std::uint32_t>(std::popcount(lanes));
    if (truths != 0) true_count_ += static_cast<std::uint32_t>(std::popcount(truths));
    expected_ = expected;
  }
  // `live` holds the live-lane mask of each warp.
  bool complete(std::span<const std::uint32_t> live) const;
  std::uint32_t popc() const { return true_count_; }
  bool all() const { return true_count_ == arrived_total_; }
  bool any() const { return true_count_ != 0; }
  std::uint32_t arrived() const { return arrived_total_; }
  std::uint32_t expected() const { return expected_; }
  void clear();

 private:
  std::vector<std::uint32_t> arrived_;  // lanes, by warp
  std::uint32_t arrived_total_ = 0;
  std::uint32_t true_count_ = 0;
  std::uint32_t expected_ = 0;
};

enum class ShuffleMode : std::uint8_t { kUp, kDown, kBfly, kIdx };

// The lane that `lane` reads from in shfl (ISA 9.7.9.6), and whether it is in range (the |p result); out of range it
// is `lane` itself. `b` and `c` are the operands, clamp and segment mask packed in c.
struct ShuffleSource {
  std::uint32_t lane = 0;
  bool in_range = false;
};
ShuffleSource shuffle_source(ShuffleMode mode, std::uint32_t lane, std::uint32_t b, std::uint32_t c);

enum class ReduxOp : std::uint8_t { kAdd, kMin, kMax, kAnd, kOr, kXor };
// The reduction of the values of the lanes in `members`; `values` is indexed by lane.
std::uint32_t redux(ReduxOp op, bool is_signed, std::uint32_t members, std::span<const std::uint32_t, 32> values);

// The n-th set bit of `mask` from bit `base`, up or down (fns.b32); 0xffffffff where there is none.
std::uint32_t find_nth_set(std::uint32_t mask, std::uint32_t base, std::int32_t offset);

}  // namespace pergola::device::cpu
