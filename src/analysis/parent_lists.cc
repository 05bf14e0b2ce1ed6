#include "src/analysis/parent_lists.h"

#include <algorithm>

namespace pergola::analysis {

std::uint32_t BlockView::size() const {
  std::uint32_t result = 0;
  for (const BlockInterval& range : ranges_) result += range.end - range.begin;
  return result;
}

bool BlockView::contains(std::uint32_t block) const {
  const std::int64_t wanted = std::int64_t{block} - shift_;
  const auto behind = std::ranges::upper_bound(ranges_, wanted, {}, &BlockInterval::begin);
  return behind != ranges_.begin() && wanted < (behind - 1)->end;
}

ParentLists::ParentLists(const std::vector<std::vector<std::uint32_t>>& parents) {
  BlockListPool pool;
  std::vector<std::uint32_t> numbers;
  for (const std::vector<std::uint32_t>& list : parents) {
    BlockList ranges;
    for (const std::uint32_t parent : list) ranges.push_back({parent, parent + 1});
    normalize(ranges);
    numbers.push_back(pool.number_of(std::move(ranges)));
  }
  *this = ParentLists(pool, std::move(numbers));
}

ParentLists::ParentLists(const BlockListPool& pool, std::vector<std::uint32_t> list_of_child)
    : list_of_child_(std::move(list_of_child)) {
  ranges_.reserve(pool.ranges());
  first_range_.reserve(pool.lists() + 1);
  for (std::uint32_t number = 0; number < pool.lists(); ++number) add(pool[number]);
  first_range_.push_back(static_cast<std::uint32_t>(ranges_.size()));
}

ParentLists::ParentLists(const std::uint32_t (&grid)[3], const std::vector<Family>& families, BoxTree tree)
    : grid_{grid[0], grid[1], grid[2]}, tree_(std::move(tree)) {
  for (const Family& family : families) {
    const GridBox& box = family.children;
    boxes_.push_back({.begin = {box.begin[0], box.begin[1], box.begin[2]},
                      .shift = {family.shift[0], family.shift[1], family.shift[2]}});
    add(family.list);
  }
  first_range_.push_back(static_cast<std::uint32_t>(ranges_.size()));
}

void ParentLists::add(const BlockList& list) {
  first_range_.push_back(static_cast<std::uint32_t>(ranges_.size()));
  ranges_.insert(ranges_.end(), list.begin(), list.end());
}

BlockView ParentLists::of(std::uint32_t child) const {
  if (empty()) return {};
  if (tree_.empty()) return {ranges(list_of_child_[child]), 0};
  const GridIndex index = index_of(child, grid_);
  const std::uint32_t number = tree_.box_of(index.at);
  const Box& box = boxes_[number];
  std::int64_t shift = 0;
  for (int axis = 0; axis < 3; ++axis) shift += box.shift[axis] * (std::int64_t{index.at[axis]} - box.begin[axis]);
  return {ranges(number), shift};
}

std::uint64_t ParentLists::bytes() const {
  return ranges_.size() * sizeof(BlockInterval) + boxes_.size() * sizeof(Box) + tree_.bytes() +
         (first_range_.size() + list_of_child_.size()) * sizeof(std::uint32_t);
}

}  // namespace pergola::analysis
