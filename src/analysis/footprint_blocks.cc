// The bytes of an access, block by block.
//
// What an access covers in a block follows from the bounds of its terms there. They are worked out once for a box of
// blocks in which that gives the same bytes but for where they begin:
//
//   bent axes   along which a bound is no linear number of the block's index (a quotient, a minimum, the end of a
//   loop):
//               each index of such an axis is a box of its own.
//   guards      Each is a sum of bounded terms and of the block's index times numbers (LinearRange). Where it holds for
//               every value of the terms it narrows nothing; where it holds for none the access is not made; else it
//               narrows all blocks alike in which the block's part of it is the same number. The grid is cut until one
//               of these is so of each guard.
//   clipping    So are the ends of the allocation.
//
// Where they never are, boxes of one block are left, and nothing is refused.
#include <algorithm>
#include <cstdlib>

#include "src/analysis/footprint_accesses.h"

namespace pergola::analysis {
namespace {

using Region = BlockPlaces::Region;

// All terms that are in an access.
std::vector<TermId> terms_in(const SymbolicAccess& access) {
  std::vector<TermId> found;
  const auto add = [&](const Affine& a) {
    for (const Affine::Part& part : a.parts) found.push_back(part.term);
  };
  add(access.offset);
  for (const Affine& guard : access.guards) add(guard);
  std::ranges::sort(found);
  found.erase(std::ranges::unique(found).begin(), found.end());
  return found;
}

// Bytes that are accessed, or the whole allocation.
struct Covered {
  ByteSet set;
  bool is_whole = false;
};

// Works out one access in one block after another.
class BlockAccess {
 public:
  BlockAccess(const SymbolicAccess& access, const FootprintTerms& terms, std::span<const IterationBound> bounds)
      : access_(access), ranges_(terms, bounds), ids_(terms_in(access)), intervals_(ids_.size()) {
    for (const Affine::Part& part : access.offset.parts) in_offset_.push_back(index_of(part.term));
    for (const Affine& guard : access.guards) {
      auto& indices = in_guards_.emplace_back();
      for (const Affine::Part& part : guard.parts) indices.push_back(index_of(part.term));
    }
  }

  void enter(const std::uint32_t (&block)[3]) { ranges_.enter(block); }
  Interval range_of(TermId id) { return ranges_.of(id); }

  // False: no thread of this block makes the access. What it covers may lie outside the allocation.
  bool at(const std::uint32_t (&block)[3], Covered& covered) {
    ranges_.enter(block);
    for (std::size_t i = 0; i < ids_.size(); ++i) intervals_[i] = ranges_.of(ids_[i]);
    for (int round = 0; round < 2; ++round) {
      for (std::size_t g = 0; g < in_guards_.size(); ++g) {
        if (!tighten(access_.guards[g], in_guards_[g])) return false;
      }
    }
    covered.is_whole = !access_.whole_reason.empty() || !place(covered.set);
    return true;
  }

 private:
  std::size_t index_of(TermId id) const {
    return static_cast<std::size_t>(std::ranges::lower_bound(ids_, id) - ids_.begin());
  }

  // Each term of a guard has the room that the least of the others leaves it.
  bool tighten(const Affine& guard, const boost::container::small_vector<std::size_t, 6>& indices) {
    for (std::size_t i = 0; i < indices.size(); ++i) {
      Interval others = Interval::point(guard.constant);
      for (std::size_t j = 0; j < indices.size(); ++j) {
        if (j != i) others = sum(others, product(intervals_[indices[j]], guard.parts[j].coefficient));
      }
      if (!others.has_low()) continue;
      const std::int64_t coefficient = guard.parts[i].coefficient;
      Interval& interval = intervals_[indices[i]];
      if (coefficient > 0) {
        interval.high = std::min(interval.high, floor_div(-others.low, coefficient));
      } else if (-coefficient > 0) {
        interval.low = std::max(interval.low, -floor_div(-others.low, -coefficient));
      }
      if (interval.is_empty()) return false;
    }
    return !indices.empty() || guard.constant <= 0;
  }

  // False: some term has no bounds.
  bool place(ByteSet& set) const {
    set.first = access_.offset.constant;
    set.shape.dimensions.clear();
    set.shape.width = access_.width;
    Interval reach = Interval::point(access_.offset.constant);
    for (std::size_t i = 0; i < in_offset_.size(); ++i) {
      const Interval& interval = intervals_[in_offset_[i]];
      const std::int64_t coefficient = access_.offset.parts[i].coefficient;
      if (!interval.is_bounded()) return false;
      reach = sum(reach, product(interval, coefficient));
      if (!reach.is_bounded()) return false;
      set.first += coefficient * (coefficient > 0 ? interval.low : interval.high);
      const auto count = static_cast<std::uint64_t>(interval.high) - static_cast<std::uint64_t>(interval.low) + 1;
      if (count > 1) set.shape.dimensions.push_back({static_cast<std::uint64_t>(std::abs(coefficient)), count});
    }
    return true;
  }

  const SymbolicAccess& access_;
  BlockRanges ranges_;
  std::vector<TermId> ids_;
  std::vector<Interval> intervals_;  // by index into ids_
  boost::container::small_vector<std::size_t, 6> in_offset_;
  std::vector<boost::container::small_vector<std::size_t, 6>> in_guards_;
};

// What lies outside the allocation is not accessed. False: nothing is left.
bool clip(ByteSet& set, std::uint64_t allocation_bytes) {
  const auto bytes = static_cast<std::int64_t>(allocation_bytes);
  for (ByteShape::Dimension& dimension : set.shape.dimensions) {
    const auto stride = static_cast<std::int64_t>(dimension.stride);
    const auto rest =
        static_cast<std::int64_t>(set.shape.extent()) - stride * (static_cast<std::int64_t>(dimension.count) - 1);
    // Rounds that end at or before the first byte, and those that begin behind the last one.
    if (set.first + rest <= 0) {
      const std::int64_t away = std::min<std::int64_t>(floor_div(-(set.first + rest), stride) + 1,
                                                       static_cast<std::int64_t>(dimension.count) - 1);
      set.first += away * stride;
      dimension.count -= static_cast<std::uint64_t>(away);
    }
    if (set.first + stride * (static_cast<std::int64_t>(dimension.count) - 1) >= bytes && set.first < bytes) {
      dimension.count = static_cast<std::uint64_t>((bytes - 1 - set.first) / stride + 1);
    }
  }
  return set.begin() < bytes && set.end() > 0;
}

bool is_small(std::int64_t value) {
  return value >= -LinearRange::kMost && value <= LinearRange::kMost;
}

// Axes of the grid that the bounds of a term depend on.
using Axes = std::uint8_t;
constexpr Axes kAllAxes = 7;

class BoxedAccess {
 public:
  BoxedAccess(const SymbolicAccess& access, const FootprintTerms& terms, std::span<const IterationBound> bounds,
              const std::uint32_t (&grid)[3], bool each_block)
      : access_(access), terms_(terms), bounds_(bounds), worker_(access, terms, bounds) {
    std::copy_n(grid, 3, grid_);
    footprint_ = {.allocation = access.allocation, .reads = access.reads, .writes = access.writes};
    footprint_.line = access.line;
    footprint_.whole_reason = access.whole_reason;
    has_unknown_ = terms.find_unknown(access.offset) != nullptr;
    bent_ = each_block ? kAllAxes : bent_axes();
    find_own_terms();
  }

  AccessFootprint run() {
    straighten(whole_grid(grid_), 0);
    footprint_.places = BlockPlaces(grid_, std::move(regions_));
    return std::move(footprint_);
  }

 private:
  Axes bent_axes() {
    Axes result = 0;
    const auto add = [&](const Affine& a) {
      for (const Affine::Part& part : a.parts) {
        const Term& term = terms_[part.term];
        const bool is_small = part.coefficient < LinearRange::kMostStep && part.coefficient > -LinearRange::kMostStep;
        if (!term.is_by_block || (term.kind == Term::Kind::kBlock && is_small)) continue;
        std::vector<bool> seen(terms_.size());
        result |= axes_of(part.term, seen);
      }
    };
    if (access_.whole_reason.empty()) add(access_.offset);  // else only whether it is made matters
    for (const Affine& guard : access_.guards) add(guard);
    return result;
  }

  Axes axes_of(TermId id, std::vector<bool>& seen) const {
    if (seen[id] || !terms_[id].is_by_block) return 0;
    seen[id] = true;
    const Term& term = terms_[id];
    if (term.kind == Term::Kind::kBlock) return static_cast<Axes>(1 << term.index);
    Axes result = axes_of(term.a, seen) | axes_of(term.b, seen);
    for (const IterationBound& bound : bounds_) {
      if (bound.iteration == id) result |= axes_of(bound.stay, seen);
    }
    return result;
  }
  Axes axes_of(const Affine& a, std::vector<bool>& seen) const {
    Axes result = 0;
    for (const Affine::Part& part : a.parts) result |= axes_of(part.term, seen);
    return result;
  }

  // Terms of one guard that are nowhere else: it holds for some value of theirs, and what it says of them matters to
  // nothing.
  void find_own_terms() {
    for (std::size_t g = 0; g < access_.guards.size(); ++g) {
      auto& own = own_terms_.emplace_back();
      for (const Affine::Part& part : access_.guards[g].parts) {
        bool is_elsewhere = access_.offset.coefficient(part.term) != 0;
        for (std::size_t other = 0; other < access_.guards.size(); ++other)
          is_elsewhere |= other != g && access_.guards[other].coefficient(part.term) != 0;
        own.push_back(!is_elsewhere);
      }
    }
  }

  // Each index of a bent axis by itself.
  void straighten(const GridBox& box, int axis) {
    if (axis == 3) return cover_straight(box);
    if ((bent_ >> axis & 1) == 0) return straighten(box, axis + 1);
    GridBox slice = box;
    for (std::uint32_t at = box.begin[axis]; at < box.end[axis]; ++at) {
      slice.begin[axis] = at;
      slice.end[axis] = at + 1;
      straighten(slice, axis + 1);
    }
  }

  void cover_straight(const GridBox& box) {
    ++footprint_.boxes;
    guards_.clear();
    if (box.blocks() > 1) {
      worker_.enter(box.begin);
      for (std::size_t g = 0; g < access_.guards.size(); ++g)
        guards_.push_back(range_of(access_.guards[g], own_terms_[g]));
    }
    cover(box);
  }

  LinearRange range_of(const Affine& guard, const std::vector<bool>& is_own) {
    LinearRange result;
    Interval all = Interval::point(guard.constant);
    for (std::size_t i = 0; i < guard.parts.size(); ++i) {
      const Term& term = terms_[guard.parts[i].term];
      if (term.kind == Term::Kind::kBlock) {
        // Of an axis that is bent, and so of one index here, it is a number.
        const bool is_bent = (bent_ >> term.index & 1) != 0;
        if (!is_bent) result.step[term.index] = guard.parts[i].coefficient;
        if (!is_bent) continue;
      }
      Interval range = product(worker_.range_of(guard.parts[i].term), guard.parts[i].coefficient);
      if (is_own[i] && range.has_low()) range.high = range.low;
      all = sum(all, range);
    }
    result.low = all.has_low() && is_small(all.low) ? all.low : -LinearRange::kOpen;
    result.high = all.has_high() && is_small(all.high) ? all.high : LinearRange::kOpen;
    return result;
  }

  void cover(const GridBox& box) {
    const LinearRange* varies = nullptr;
    for (const LinearRange& guard : guards_) {
      const Holds holds = at_most_zero(guard, box);
      if (holds == Holds::kNever) return;
      if (holds == Holds::kVaries && varies == nullptr) varies = &guard;
    }
    if (varies != nullptr) return cut(*varies, box);
    Covered covered;
    if (!worker_.at(box.begin, covered)) return;
    if (covered.is_whole) return add_whole(box);
    Region region{.box = box, .first = covered.set.first};
    for (const Affine::Part& part : access_.offset.parts) {
      const Term& term = terms_[part.term];
      if (term.kind == Term::Kind::kBlock && box.extent(static_cast<int>(term.index)) > 1)
        region.step[term.index] = part.coefficient;
    }
    place(region, covered.set);
  }

  void place(Region& region, ByteSet& set) {
    const bool is_still = std::ranges::all_of(region.step, [](std::int64_t step) { return step == 0; });
    if (!is_still && !(is_small(set.begin()) && is_small(set.end()))) return halve(region.box);
    const auto bytes = static_cast<std::int64_t>(access_.allocation_bytes);
    if (is_still ? set.begin() < 0 || set.end() > bytes : !is_inside(region, set)) {
      if (!is_still) return cut_at_ends(region, set);
      if (has_unknown_) return add_whole(region.box);
      if (!clip(set, access_.allocation_bytes)) return;
      region.first = set.first;
    }
    region.shape = shape_number(normalized(std::move(set.shape)));
    regions_.push_back(region);
  }

  void halve(const GridBox& box) {
    LinearRange any;
    for (int axis = 0; axis < 3; ++axis) any.step[axis] = box.extent(axis) > 1 ? 1 : 0;
    any.low = -LinearRange::kOpen;
    any.high = LinearRange::kOpen;
    cut(any, box);
  }

  // Both ends of the allocation, as numbers that are at most 0 where a block stays inside it.
  std::pair<LinearRange, LinearRange> ends(const Region& region, const ByteSet& set) const {
    LinearRange low{.low = -set.begin(), .high = -set.begin()},
        high{.low = set.end() - static_cast<std::int64_t>(access_.allocation_bytes), .high = 0};
    for (int axis = 0; axis < 3; ++axis) {
      const std::int64_t until_box = region.step[axis] * region.box.begin[axis];
      low.step[axis] = -region.step[axis];
      low.low += until_box;
      high.step[axis] = region.step[axis];
      high.low -= until_box;
    }
    low.high = low.low;
    high.high = high.low;
    return {low, high};
  }
  bool is_inside(const Region& region, const ByteSet& set) const {
    const auto [low, high] = ends(region, set);
    return at_most_zero(low, region.box) == Holds::kAlways && at_most_zero(high, region.box) == Holds::kAlways;
  }
  void cut_at_ends(const Region& region, const ByteSet& set) {
    const auto [low, high] = ends(region, set);
    const Holds of_low = at_most_zero(low, region.box), of_high = at_most_zero(high, region.box);
    if (has_unknown_ && (of_low == Holds::kNever || of_high == Holds::kNever)) return add_whole(region.box);
    cut(of_low == Holds::kAlways ? high : low, region.box);
  }

  void cut(const LinearRange& range, const GridBox& box) {
    const GridCut at = cut_of(range, box);
    cover(below(box, at));
    cover(above(box, at));
  }

  void add_whole(const GridBox& box) {
    if (footprint_.whole_reason.empty()) {
      const Term* unknown = terms_.find_unknown(access_.offset);
      footprint_.whole_reason =
          unknown != nullptr ? "an index is unknown: " + unknown->reason : "an index has no bounds";
    }
    regions_.push_back({.box = box, .first = 0, .shape = shape_number({{}, access_.allocation_bytes})});
  }

  std::uint32_t shape_number(const ByteShape& shape) {
    for (std::size_t i = footprint_.shapes.size(); i > 0; --i) {
      if (footprint_.shapes[i - 1] == shape) return static_cast<std::uint32_t>(i - 1);
    }
    footprint_.shapes.push_back(shape);
    return static_cast<std::uint32_t>(footprint_.shapes.size() - 1);
  }

  const SymbolicAccess& access_;
  const FootprintTerms& terms_;
  std::span<const IterationBound> bounds_;
  BlockAccess worker_;
  std::uint32_t grid_[3] = {1, 1, 1};
  bool has_unknown_ = false;
  Axes bent_ = 0;
  std::vector<std::vector<bool>> own_terms_;  // by guard and part
  std::vector<LinearRange> guards_;           // of the box that is being covered; none where it is one block
  std::vector<Region> regions_;
  AccessFootprint footprint_;
};

}  // namespace

AccessFootprint footprint_of(const SymbolicAccess& access, const FootprintTerms& terms,
                             std::span<const IterationBound> bounds, const std::uint32_t (&grid)[3], bool each_block) {
  return BoxedAccess(access, terms, bounds, grid, each_block).run();
}

}  // namespace pergola::analysis
