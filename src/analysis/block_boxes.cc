#include "src/analysis/block_boxes.h"

#include <algorithm>
#include <cstdlib>
#include <numeric>
#include <optional>

#include "src/analysis/box_meetings.h"

namespace pergola::analysis {
namespace {

constexpr std::size_t kMaxFamilies = 1u << 14;
constexpr std::uint64_t kMaxChecks = 1u << 16;  // of a box of parents in a box of children, in all
constexpr std::uint64_t kMaxRows = 1u << 16;    // ranges of one list
constexpr int kMaxDepth = 200;                  // of cuts

// An end of the parents' region and a box of parents that moves with the child: at most 0 where the box does not reach
// over this end, above 0 where it lies behind it.
LinearRange at_low_end(const Meeting& meeting, const FreeBox& box, int axis) {
  LinearRange range{.low = meeting.parents.begin[axis] - box.end[axis] + 1,
                    .high = meeting.parents.begin[axis] - box.begin[axis]};
  for (int of = 0; of < 3; ++of) {
    range.step[of] = -meeting.shift[of][axis];
    range.low -= range.step[of] * meeting.children.begin[of];
    range.high -= range.step[of] * meeting.children.begin[of];
  }
  return range;
}
LinearRange at_high_end(const Meeting& meeting, const FreeBox& box, int axis) {
  LinearRange range{.low = box.begin[axis] - meeting.parents.end[axis] + 1,
                    .high = box.end[axis] - meeting.parents.end[axis]};
  for (int of = 0; of < 3; ++of) {
    range.step[of] = meeting.shift[of][axis];
    range.low -= range.step[of] * meeting.children.begin[of];
    range.high -= range.step[of] * meeting.children.begin[of];
  }
  return range;
}

enum class Overlap : std::uint8_t { kNone, kSome, kAll };
Overlap overlap(const GridBox& box, const GridBox& of) {
  Overlap result = Overlap::kAll;
  for (int axis = 0; axis < 3; ++axis) {
    if (box.end[axis] <= of.begin[axis] || of.end[axis] <= box.begin[axis]) return Overlap::kNone;
    if (box.begin[axis] < of.begin[axis] || box.end[axis] > of.end[axis]) result = Overlap::kSome;
  }
  return result;
}

class Divider {
 public:
  Divider(std::span<const Meeting> meetings, const std::uint32_t (&parent_grid)[3],
          const std::uint32_t (&child_grid)[3], BoxRelation& result)
      : meetings_(meetings), result_(result) {
    std::copy_n(parent_grid, 3, parent_grid_);
    parents_ = parent_grid[0] * parent_grid[1] * parent_grid[2];
    std::vector<std::uint32_t> all(meetings.size());
    std::iota(all.begin(), all.end(), 0);
    divide(whole_grid(child_grid), all, 0);
  }

 private:
  // Gives the node of the box.
  std::uint32_t divide(const GridBox& box, const std::vector<std::uint32_t>& among, int depth) {
    checks_ += among.size();
    if (result_.families.size() > kMaxFamilies || checks_ > kMaxChecks || depth > kMaxDepth)
      refuse("the grid falls into too many boxes");
    if (!result_.reason.empty()) return 0;
    std::optional<GridCut> cut;
    std::vector<std::uint32_t> met;
    for (const std::uint32_t number : among) {
      const Overlap overlaps = overlap(box, meetings_[number].children);
      if (overlaps == Overlap::kNone) continue;
      met.push_back(number);
      if (overlaps == Overlap::kSome) cut_between(box, meetings_[number].children, cut);
    }
    if (!cut) {
      for (const std::uint32_t number : met) cut_at_ends(box, meetings_[number], cut);
    }
    if (!cut) return add_family(box, met);
    const std::uint32_t low = divide(below(box, *cut), met, depth + 1), high = divide(above(box, *cut), met, depth + 1);
    return result_.tree.add_cut(*cut, low, high);
  }

  // Of all cuts that are called for the one next to the middle of the box, as then few are above each box.
  static void prefer(const GridBox& box, const GridCut& one, std::optional<GridCut>& cut) {
    const auto distance = [&](const GridCut& of) {
      const std::int64_t extent = box.extent(of.axis), at = std::int64_t{of.at} - box.begin[of.axis];
      return static_cast<double>(std::abs(2 * at - extent)) / static_cast<double>(extent);
    };
    if (!cut || distance(one) < distance(*cut)) cut = one;
  }

  static void cut_between(const GridBox& box, const GridBox& children, std::optional<GridCut>& cut) {
    for (int axis = 0; axis < 3; ++axis) {
      for (const std::uint32_t at : {children.begin[axis], children.end[axis]}) {
        if (at > box.begin[axis] && at < box.end[axis]) prefer(box, {axis, at}, cut);
      }
    }
  }

  void cut_at_ends(const GridBox& box, const Meeting& meeting, std::optional<GridCut>& cut) {
    checks_ += meeting.boxes.size();
    if (checks_ > kMaxChecks) return;
    for (const FreeBox& of : meeting.boxes) {
      std::optional<LinearRange> varies;
      bool is_outside = false;
      for (int axis = 0; axis < 3; ++axis) {
        for (const LinearRange& range : {at_low_end(meeting, of, axis), at_high_end(meeting, of, axis)}) {
          const Holds holds = at_most_zero(range, box);
          is_outside |= holds == Holds::kNever;
          if (holds == Holds::kVaries && !varies) varies = range;
        }
      }
      if (varies && !is_outside) prefer(box, cut_of(*varies, box), cut);
    }
  }

  std::uint32_t add_family(const GridBox& box, const std::vector<std::uint32_t>& met) {
    ParentLists::Family family{.children = box, .shift = {}, .list = {}};
    bool is_first = true, is_all = false, agrees = true;
    for (const std::uint32_t number : met) {
      const Meeting& meeting = meetings_[number];
      std::size_t before = family.list.size();
      for (const FreeBox& of : meeting.boxes) add_parents(box, meeting, of, family.list);
      if (family.list.size() == before) continue;
      result_.meets[meeting.pair] = true;
      std::int64_t shift[3];
      for (int axis = 0; axis < 3; ++axis) {
        shift[axis] = box.extent(axis) == 1
                          ? 0
                          : meeting.shift[axis][0] + parent_grid_[0] * meeting.shift[axis][1] +
                                std::int64_t{parent_grid_[0]} * parent_grid_[1] * meeting.shift[axis][2];
      }
      for (; before < family.list.size(); ++before) is_all |= family.list[before] == BlockInterval{0, parents_};
      if (is_first) std::copy_n(shift, 3, family.shift);
      agrees &= std::ranges::equal(shift, family.shift);
      is_first = false;
    }
    if (is_all) {
      family.list = {{0, parents_}};
      std::ranges::fill(family.shift, 0);
    } else if (!agrees) {
      refuse("the blocks that two accesses of a block wait for move differently from block to block");
    }
    normalize(family.list);
    result_.families.push_back(std::move(family));
    return result_.tree.add_box(static_cast<std::uint32_t>(result_.families.size() - 1));
  }

  // The parents of the box's first child.
  void add_parents(const GridBox& box, const Meeting& meeting, const FreeBox& of, BlockList& list) {
    std::int64_t begin[3], end[3];
    for (int axis = 0; axis < 3; ++axis) {
      std::int64_t moved = 0;
      for (int child = 0; child < 3; ++child)
        moved += meeting.shift[child][axis] * (std::int64_t{box.begin[child]} - meeting.children.begin[child]);
      begin[axis] = std::max<std::int64_t>(of.begin[axis] + moved, meeting.parents.begin[axis]);
      end[axis] = std::min<std::int64_t>(of.end[axis] + moved, meeting.parents.end[axis]);
      if (begin[axis] >= end[axis]) return;
    }
    const std::int64_t row = parent_grid_[0], plane = row * parent_grid_[1];
    const bool are_rows_whole = end[0] - begin[0] == row,
               are_planes_whole = are_rows_whole && end[1] - begin[1] == parent_grid_[1];
    const auto add = [&](std::int64_t first, std::int64_t count) {
      list.push_back({static_cast<std::uint32_t>(first), static_cast<std::uint32_t>(first + count)});
    };
    if (are_planes_whole) return add(begin[2] * plane, (end[2] - begin[2]) * plane);
    for (std::int64_t z = begin[2]; z < end[2]; ++z) {
      if (are_rows_whole) {
        add(z * plane + begin[1] * row, (end[1] - begin[1]) * row);
        continue;
      }
      if (list.size() > kMaxRows) return refuse("a list of parents has too many ranges");
      for (std::int64_t y = begin[1]; y < end[1]; ++y) add(z * plane + y * row + begin[0], end[0] - begin[0]);
    }
  }

  void refuse(std::string reason) {
    if (result_.reason.empty()) result_.reason = std::move(reason);
  }

  std::span<const Meeting> meetings_;
  BoxRelation& result_;
  std::uint32_t parent_grid_[3] = {1, 1, 1};
  std::uint32_t parents_ = 0;
  std::uint64_t checks_ = 0;
};

}  // namespace

BoxRelation relate_boxes(std::span<const AccessPair> pairs, const std::uint32_t (&parent_grid)[3],
                         const std::uint32_t (&child_grid)[3]) {
  BoxRelation result;
  result.meets.resize(pairs.size());
  std::vector<Meeting> meetings;
  result.reason = find_meetings(pairs, meetings);
  if (result.reason.empty()) Divider(meetings, parent_grid, child_grid, result);
  return result;
}

}  // namespace pergola::analysis
