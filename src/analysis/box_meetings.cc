#include "src/analysis/box_meetings.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>

#include "src/analysis/affine.h"

namespace pergola::analysis {
namespace {

using Region = BlockPlaces::Region;

constexpr std::size_t kMaxMeetings = 4096;
constexpr std::size_t kMaxBoxes = 1024;            // of one
constexpr std::uint64_t kMaxSingles = 64;          // blocks of one side that are each a meeting
constexpr std::uint64_t kMaxSteps = 1u << 17;      // of looking for parents, in all
constexpr std::uint64_t kMaxTrialsEach = 1u << 8;  // of whether a place is in a set; strides that nest take one each

// A region, with all bytes of it: [begin, end).
struct Hull {
  const Region* region = nullptr;
  std::int64_t begin = 0, end = 0;
};

std::vector<Hull> hulls(const AccessFootprint& access) {
  std::vector<Hull> result;
  for (const Region& region : access.places.regions()) {
    std::int64_t begin = region.first, end = region.first;
    for (int axis = 0; axis < 3; ++axis) {
      const std::int64_t last = region.step[axis] * (std::int64_t{region.box.extent(axis)} - 1);
      (last < 0 ? begin : end) += last;
    }
    result.push_back({&region, begin, end + static_cast<std::int64_t>(access.shapes[region.shape].extent())});
  }
  std::ranges::sort(result, {}, &Hull::begin);
  return result;
}

// Indices of an endless grid whose step * index is in a set, within a box.
class Solver {
 public:
  // Those r in `box` with distance - step * r in `set`. False: it would take too long to tell.
  bool solve(const std::int64_t (&step)[3], const FreeBox& box, std::int64_t distance, const ByteSet& set,
             std::vector<FreeBox>& found) {
    std::copy_n(step, 3, step_);
    box_ = box;
    set_ = &set;
    found_ = &found;
    axes_ = 0;
    for (int axis = 0; axis < 3; ++axis) {
      if (step[axis] != 0 && box.end[axis] - box.begin[axis] > 1) order_[axes_++] = axis;
    }
    std::ranges::sort(order_, order_ + axes_, {}, [&](int axis) { return -std::abs(step[axis]); });
    for (int axis = 0; axis < 3; ++axis) {
      if (std::find(order_, order_ + axes_, axis) == order_ + axes_) distance -= step[axis] * box.begin[axis];
    }
    FreeBox one = box;
    if (!solve_axis(0, distance, one)) return false;
    merge(found);
    return found.size() <= kMaxBoxes;
  }

 private:
  // `left`: the distance less what the axes before `at` take.
  bool solve_axis(int at, std::int64_t left, FreeBox& box) {
    if (at == axes_) {
      const auto is_in = tells(left);
      if (is_in && *is_in) found_->push_back(box);
      return is_in.has_value();
    }
    const int axis = order_[at];
    // What the axes behind it take, at least and at most.
    std::int64_t least = 0, most = 0;
    for (int other = at + 1; other < axes_; ++other) {
      const std::int64_t a = step_[order_[other]] * box_.begin[order_[other]],
                         b = step_[order_[other]] * (box_.end[order_[other]] - 1);
      least += std::min(a, b);
      most += std::max(a, b);
    }
    // set.begin <= left - step * r - rest < set.end
    std::int64_t low = left - most - set_->end() + 1, high = left - least - set_->begin();
    const std::int64_t size = std::abs(step_[axis]);
    if (step_[axis] < 0) {
      std::swap(low, high);
      low = -low;
      high = -high;
    }
    const std::int64_t first = std::max(box_.begin[axis], -floor_div(-low, size)),
                       last = std::min(box_.end[axis] - 1, floor_div(high, size));
    if (at + 1 == axes_ && set_->shape.dimensions.empty()) {
      if (first <= last) add(box, axis, first, last + 1);
      return true;
    }
    for (std::int64_t r = first; r <= last; ++r) {
      if (steps_-- == 0) return false;
      box.begin[axis] = r;
      box.end[axis] = r + 1;
      if (at + 1 < axes_) {
        if (!solve_axis(at + 1, left - step_[axis] * r, box)) return false;
        continue;
      }
      const auto is_in = tells(left - step_[axis] * r);
      if (!is_in) return false;
      if (*is_in) add(box, axis, r, r + 1);
    }
    box.begin[axis] = box_.begin[axis];
    box.end[axis] = box_.end[axis];
    return true;
  }

  std::optional<bool> tells(std::int64_t distance) const { return set_->contains_within(distance, kMaxTrialsEach); }

  // To the box before it, where it goes on with that.
  void add(const FreeBox& like, int axis, std::int64_t begin, std::int64_t end) {
    FreeBox box = like;
    box.begin[axis] = begin;
    box.end[axis] = end;
    if (!found_->empty() && joined(found_->back(), box, axis)) return;
    found_->push_back(box);
  }

  static bool joined(FreeBox& box, const FreeBox& next, int axis) {
    for (int other = 0; other < 3; ++other) {
      if (other != axis && (box.begin[other] != next.begin[other] || box.end[other] != next.end[other])) return false;
    }
    if (box.end[axis] != next.begin[axis]) return false;
    box.end[axis] = next.end[axis];
    return true;
  }

  // Rows that follow each other with the same columns; they come in order.
  void merge(std::vector<FreeBox>& boxes) const {
    for (int at = axes_ - 2; at >= 0; --at) {
      std::size_t kept = 0;
      for (std::size_t i = 1; i < boxes.size(); ++i) {
        if (!joined(boxes[kept], boxes[i], order_[at])) boxes[++kept] = boxes[i];
      }
      boxes.resize(std::min(boxes.size(), kept + 1));
    }
  }

  std::int64_t step_[3] = {};
  FreeBox box_{};
  const ByteSet* set_ = nullptr;
  std::vector<FreeBox>* found_ = nullptr;
  int order_[3] = {}, axes_ = 0;  // axes along which something moves, the largest step first
  std::uint64_t steps_ = kMaxSteps;
};

GridBox single(const GridBox& box, std::uint64_t number) {
  GridBox result = box;
  for (int axis = 0; axis < 3; ++axis) {
    result.begin[axis] = box.begin[axis] + static_cast<std::uint32_t>(number % box.extent(axis));
    result.end[axis] = result.begin[axis] + 1;
    number /= box.extent(axis);
  }
  return result;
}

Region part(const Region& region, const GridBox& box) {
  Region result = region;
  result.box = box;
  result.first = region.first_of(box.begin);
  for (int axis = 0; axis < 3; ++axis) {
    if (box.extent(axis) == 1) result.step[axis] = 0;
  }
  return result;
}

class Finder {
 public:
  explicit Finder(std::vector<Meeting>& found) : found_(found) {}

  std::string find(std::span<const AccessPair> pairs) {
    for (pair_ = 0; pair_ < pairs.size(); ++pair_) {
      const AccessFootprint &parent = *pairs[pair_].parent, &child = *pairs[pair_].child;
      const std::vector<Hull> parents = hulls(parent), children = hulls(child);
      std::vector<std::int64_t> ends;  // of those up to each, the furthest
      for (const Hull& hull : parents) ends.push_back(ends.empty() ? hull.end : std::max(ends.back(), hull.end));
      for (const Hull& c : children) {
        const auto behind = std::ranges::lower_bound(parents, c.end, {}, &Hull::begin) - parents.begin();
        for (auto i = std::ranges::upper_bound(ends, c.begin) - ends.begin(); i < behind; ++i) {
          const Hull& p = parents[static_cast<std::size_t>(i)];
          if (p.end <= c.begin) continue;
          const ByteSet distances = meeting_distances(parent.shapes[p.region->shape], child.shapes[c.region->shape]);
          relate(*p.region, *c.region, distances);
          if (!reason_.empty()) return std::move(reason_);
        }
      }
    }
    return "";
  }

 private:
  void relate(const Region& parent, const Region& child, const ByteSet& distances) {
    if (found_.size() > kMaxMeetings) reason_ = fmt::format("more than {} pairs of boxes meet", kMaxMeetings);
    if (!reason_.empty()) return;
    Meeting meeting{.children = child.box, .parents = parent.box, .shift = {}, .boxes = {}, .pair = pair_};
    for (int axis = 0; axis < 3; ++axis) {
      if (child.step[axis] == 0 || find_shift(child.step[axis], parent, meeting.shift[axis])) continue;
      if (parent.box.blocks() <= kMaxSingles) return each_parent(parent, child, distances);
      if (child.box.extent(axis) <= kMaxSingles) return each_slice(parent, child, axis, distances);
      reason_ = fmt::format(
          "blocks that follow each other along {} begin {} bytes apart, which is no whole number of "
          "steps of the earlier launch's blocks",
          "xyz"[axis], child.step[axis]);
      return;
    }
    // Where p - shift * (c - first) may lie.
    FreeBox box{};
    for (int axis = 0; axis < 3; ++axis) {
      box.end[axis] = parent.box.extent(axis);
      for (int of = 0; of < 3; ++of) {
        const std::int64_t last = meeting.shift[of][axis] * (std::int64_t{child.box.extent(of)} - 1);
        box.begin[axis] -= std::max<std::int64_t>(last, 0);
        box.end[axis] -= std::min<std::int64_t>(last, 0);
      }
    }
    if (!solver_.solve(parent.step, box, child.first - parent.first, distances, meeting.boxes)) {
      reason_ = "there are too many places at which blocks may meet";
      return;
    }
    for (FreeBox& found : meeting.boxes) {
      for (int axis = 0; axis < 3; ++axis) {
        found.begin[axis] += parent.box.begin[axis];
        found.end[axis] += parent.box.begin[axis];
      }
    }
    if (!meeting.boxes.empty()) found_.push_back(std::move(meeting));
  }

  // Along the axis of the parents with which it takes the fewest steps.
  static bool find_shift(std::int64_t step, const Region& parent, std::int64_t (&shift)[3]) {
    int best = -1;
    for (int axis = 0; axis < 3; ++axis) {
      if (parent.step[axis] == 0 || step % parent.step[axis] != 0) continue;
      if (best < 0 || std::abs(parent.step[axis]) > std::abs(parent.step[best])) best = axis;
    }
    if (best >= 0) shift[best] = step / parent.step[best];
    return best >= 0;
  }

  // The children of one parent after another, which are found as parents are.
  void each_parent(const Region& parent, const Region& child, const ByteSet& distances) {
    FreeBox box{};
    for (int axis = 0; axis < 3; ++axis) box.end[axis] = child.box.extent(axis);
    const ByteSet mirrored{1 - distances.end(), distances.shape};
    for (std::uint64_t i = 0; i < parent.box.blocks(); ++i) {
      const Region one = part(parent, single(parent.box, i));
      std::vector<FreeBox> children;
      // one - (child + step * r) is in the mirrored set where child + step * r - one is in the set.
      if (!solver_.solve(child.step, box, one.first - child.first, mirrored, children)) {
        reason_ = "there are too many places at which blocks may meet";
        return;
      }
      for (const FreeBox& found : children) {
        Meeting& meeting = found_.emplace_back();
        meeting.pair = pair_;
        meeting.parents = one.box;
        FreeBox& of = meeting.boxes.emplace_back();
        for (int axis = 0; axis < 3; ++axis) {
          meeting.children.begin[axis] = child.box.begin[axis] + static_cast<std::uint32_t>(found.begin[axis]);
          meeting.children.end[axis] = child.box.begin[axis] + static_cast<std::uint32_t>(found.end[axis]);
          of.begin[axis] = one.box.begin[axis];
          of.end[axis] = one.box.end[axis];
        }
      }
    }
  }

  void each_slice(const Region& parent, const Region& child, int axis, const ByteSet& distances) {
    GridBox slice = child.box;
    for (std::uint32_t at = child.box.begin[axis]; at < child.box.end[axis]; ++at) {
      slice.begin[axis] = at;
      slice.end[axis] = at + 1;
      relate(parent, part(child, slice), distances);
    }
  }

  std::vector<Meeting>& found_;
  Solver solver_;
  std::uint32_t pair_ = 0;
  std::string reason_;
};

}  // namespace

std::string find_meetings(std::span<const AccessPair> pairs, std::vector<Meeting>& found) {
  return Finder(found).find(pairs);
}

}  // namespace pergola::analysis
