#include "src/analysis/grid_box.h"

#include <algorithm>
#include <cstdlib>

#include "src/analysis/affine.h"

namespace pergola::analysis {

bool GridBox::contains(const std::uint32_t (&block)[3]) const {
  for (int axis = 0; axis < 3; ++axis) {
    if (block[axis] < begin[axis] || block[axis] >= end[axis]) return false;
  }
  return true;
}

GridBox whole_grid(const std::uint32_t (&grid)[3]) {
  return {.begin = {0, 0, 0}, .end = {grid[0], grid[1], grid[2]}};
}

GridIndex index_of(std::uint32_t block, const std::uint32_t (&grid)[3]) {
  return {{block % grid[0], block / grid[0] % grid[1], block / grid[0] / grid[1]}};
}

Moved moved(const std::int64_t (&step)[3], const GridBox& box) {
  Moved result;
  for (int axis = 0; axis < 3; ++axis) {
    const std::int64_t first = step[axis] * box.begin[axis], last = step[axis] * (std::int64_t{box.end[axis]} - 1);
    result.least += std::min(first, last);
    result.most += std::max(first, last);
  }
  return result;
}

Holds at_most_zero(const LinearRange& range, const GridBox& box) {
  const Moved by = moved(range.step, box);
  if (range.high < LinearRange::kOpen && range.high + by.most <= 0) return Holds::kAlways;
  if (range.low > -LinearRange::kOpen && range.low + by.least > 0) return Holds::kNever;
  return by.least == by.most ? Holds::kAlike : Holds::kVaries;
}

GridCut cut_of(const LinearRange& range, const GridBox& box) {
  GridCut cut;
  std::int64_t most = 0;
  for (int axis = 0; axis < 3; ++axis) {
    const std::int64_t reach = std::abs(range.step[axis]) * (box.extent(axis) - 1);
    if (reach > most) {
      most = reach;
      cut.axis = axis;
    }
  }
  const std::int64_t step = range.step[cut.axis], begin = box.begin[cut.axis], end = box.end[cut.axis];
  std::int64_t others[3];
  for (int axis = 0; axis < 3; ++axis) others[axis] = axis == cut.axis ? 0 : range.step[axis];
  const Moved rest = moved(others, box);
  // Slices of this axis in which it holds, and in which it does not, in every block: with a step above 0 those up to an
  // index and those from one on, else the other way round.
  const auto is_inside = [&](std::int64_t at) { return at > begin && at < end; };
  if (range.high < LinearRange::kOpen) {
    const std::int64_t free = -(range.high + rest.most);  // step * index <= free
    const std::int64_t at = step > 0 ? floor_div(free, step) + 1 : -floor_div(free, -step);
    if (is_inside(at)) return {cut.axis, static_cast<std::uint32_t>(at)};
  }
  if (range.low > -LinearRange::kOpen) {
    const std::int64_t free = -(range.low + rest.least);  // step * index > free
    const std::int64_t at = step > 0 ? floor_div(free, step) + 1 : -floor_div(free, -step);
    if (is_inside(at)) return {cut.axis, static_cast<std::uint32_t>(at)};
  }
  cut.at = static_cast<std::uint32_t>(begin + (end - begin) / 2);
  return cut;
}

GridBox below(const GridBox& box, const GridCut& cut) {
  GridBox result = box;
  result.end[cut.axis] = cut.at;
  return result;
}

GridBox above(const GridBox& box, const GridCut& cut) {
  GridBox result = box;
  result.begin[cut.axis] = cut.at;
  return result;
}

std::uint32_t BoxTree::add_box(std::uint32_t box) {
  nodes_.push_back({.axis = -1, .at = 0, .below = box, .above = 0});
  return static_cast<std::uint32_t>(nodes_.size() - 1);
}

std::uint32_t BoxTree::add_cut(const GridCut& cut, std::uint32_t below, std::uint32_t above) {
  nodes_.push_back({.axis = cut.axis, .at = cut.at, .below = below, .above = above});
  return static_cast<std::uint32_t>(nodes_.size() - 1);
}

std::uint32_t BoxTree::box_of(const std::uint32_t (&block)[3]) const {
  const Node* node = &nodes_.back();
  while (node->axis >= 0) node = &nodes_[block[node->axis] < node->at ? node->below : node->above];
  return node->below;
}

}  // namespace pergola::analysis
