// Which arrays the launches of a chunk use, where these are others in each turn.
//
//   as it was met   k1(x, t1)   k2(t1, y)      slots   x, t1, y
//   comes           k1(x, t2)   k2(t2, y)      the graph stands for it: t2 is bound where t1 was
//   comes           k1(x, t2)   k2(t3, y)      it does not: what was one array is two
//   comes           k1(x, y)    k2(y, y)       it does not: two launches that might run at once would conflict
//
// A slot is bytes of an array that launches of the chunk were met with. The chunk's graph orders any two launches that
// conflicted then. It stands for launches with other arrays where no other two conflict, which is so if
//   1. all that was one slot is the same bytes of one array, and
//   2. two slots that overlap, one of which is written by any launch, overlapped when they were met.
// For a conflict is of two accesses, each of a slot, and their modes are as they were: it is within one slot and was
// there before, or between two that overlapped before, and so was there as well.
//
// Slots that a launch uses whose arrays do not change are fixed: bound to what they were met with, from the begin of
// each turn on.
//
// Guarded by the scheduler's lock.
#pragma once

#include <vector>

#include "src/scheduler/work.h"

namespace pergola::scheduler {

class ArraySlots {
 public:
  // The next launch of the chunk as it was met; of the resources their numbers, as they may have gone.
  void add(std::span<const Access> accesses, std::span<const std::uint64_t> ids, bool rebinds);
  // A turn: nothing is bound but what is fixed.
  void begin();
  // This launch, one that rebinds, comes with these. They have the modes of those that it was met with. False where the
  // graph would not stand for it, and the turn is to be given up.
  bool bind(std::size_t launch, std::span<const Access> accesses);
  // Of all launches of the turn, which have come: what they use, each slot once.
  void collect(std::vector<Access>& out) const;
  std::size_t count() const { return slots_.size(); }
  // Whether launches that were added here stand to each other as those there do.
  bool is_like(const ArraySlots& other) const { return of_ == other.of_ && begins_ == other.begins_; }

 private:
  struct Bytes {
    std::uint64_t id = 0;  // Resource::id
    Range range;
    bool is(const Bytes& other) const { return id == other.id && range == other.range; }
    bool is_empty() const { return range.begin >= range.end; }
    bool overlaps(const Bytes& other) const { return id == other.id && range.overlaps(other.range); }
  };
  struct Slot {
    Bytes met;
    bool fixed = false;
  };
  struct Binding {
    Bytes bytes;
    Access access;  // the first of the turn, of which the modes are all there are
    std::uint32_t slot = 0;
  };
  bool may_bind(std::uint32_t slot, const Bytes& bytes) const;

  std::vector<Slot> slots_;
  std::vector<Mode> modes_;              // of each slot: of all launches together
  std::vector<std::uint32_t> of_;        // the slot of each access, launch by launch
  std::vector<std::size_t> begins_{0};   // of each launch, in of_; and the end
  std::vector<Access> fixed_;            // the first of each fixed slot, as it was met
  std::vector<std::uint32_t> fixed_of_;  // their slots
  // Of this turn: what is bound, the fixed ones first; and of each slot its place there, or kUnbound.
  static constexpr std::uint32_t kUnbound = ~std::uint32_t{0};
  std::vector<Binding> bound_;
  std::vector<std::uint32_t> place_;
};

// Equal for launches that are equal but for their scalars and arrays, and stand to the launches before them in the same
// way: of each array, how many launches ago one used it last, and whether the same bytes, others or some of both. It
// only proposes, as all hashes do (recurrence.h). `number`: of the launches that are asked about, ascending from 1.
std::uint64_t pattern_of(const Work& work, std::uint64_t number);

}  // namespace pergola::scheduler
