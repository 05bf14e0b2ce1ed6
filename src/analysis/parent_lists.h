// For each block of a launch the blocks of an earlier one that it waits for, kept as few lists of ranges: blocks with
// the same parents share a list, and blocks of a box whose parents are the same but for a distance share one too.
//
//   box of children     its first child's parents     what a step along x and y adds
//   [1,255) x [1,63)    66 67 | 322 323               1, 256
//
// A list is found from a child's number when it is asked for; nothing is kept for each pair of blocks.
#pragma once

#include <cstdint>
#include <iterator>
#include <span>
#include <vector>

#include "src/analysis/block_lists.h"
#include "src/analysis/grid_box.h"

namespace pergola::analysis {

// The blocks of some ranges, ascending, each `shift` further on.
class BlockView {
 public:
  class Iterator {
   public:
    using value_type = std::uint32_t;
    using difference_type = std::ptrdiff_t;
    using iterator_category = std::forward_iterator_tag;
    Iterator() = default;
    Iterator(const BlockInterval* range, std::uint32_t offset, std::int64_t shift)
        : range_(range), offset_(offset), shift_(shift) {}
    std::uint32_t operator*() const { return static_cast<std::uint32_t>(range_->begin + offset_ + shift_); }
    Iterator& operator++() {
      if (range_->begin + ++offset_ == range_->end) {
        ++range_;
        offset_ = 0;
      }
      return *this;
    }
    Iterator operator++(int) {
      const Iterator before = *this;
      ++*this;
      return before;
    }
    bool operator==(const Iterator& other) const { return range_ == other.range_ && offset_ == other.offset_; }

   private:
    const BlockInterval* range_ = nullptr;
    std::uint32_t offset_ = 0;
    std::int64_t shift_ = 0;
  };

  BlockView() = default;
  BlockView(std::span<const BlockInterval> ranges, std::int64_t shift) : ranges_(ranges), shift_(shift) {}
  Iterator begin() const { return {ranges_.data(), 0, shift_}; }
  Iterator end() const { return {ranges_.data() + ranges_.size(), 0, shift_}; }
  bool empty() const { return ranges_.empty(); }
  std::uint32_t size() const;
  bool contains(std::uint32_t block) const;

 private:
  std::span<const BlockInterval> ranges_;
  std::int64_t shift_ = 0;
};

// Immutable once made; its views borrow it.
class ParentLists {
 public:
  // The parents of the first child of a box; those of another one are shift * (its index - box.begin) further on.
  struct Family {
    GridBox children;
    std::int64_t shift[3] = {0, 0, 0};  // 0 along axes of one block
    BlockList list;
  };

  ParentLists() = default;
  // Of each child, ascending.
  explicit ParentLists(const std::vector<std::vector<std::uint32_t>>& parents);
  // Of each child the number of its list.
  ParentLists(const BlockListPool& pool, std::vector<std::uint32_t> list_of_child);
  // `tree` says which family a child of the grid belongs to.
  ParentLists(const std::uint32_t (&grid)[3], const std::vector<Family>& families, BoxTree tree);

  bool empty() const { return first_range_.empty(); }  // made of nothing: no list is known
  BlockView of(std::uint32_t child) const;
  std::uint32_t lists() const { return empty() ? 0 : static_cast<std::uint32_t>(first_range_.size() - 1); }
  bool is_of_boxes() const { return !tree_.empty(); }
  std::uint64_t bytes() const;

 private:
  struct Box {
    std::uint32_t begin[3];
    std::int64_t shift[3];
  };
  void add(const BlockList& list);
  std::span<const BlockInterval> ranges(std::uint32_t list) const {
    return {ranges_.data() + first_range_[list], ranges_.data() + first_range_[list + 1]};
  }

  std::vector<BlockInterval> ranges_;
  std::vector<std::uint32_t> first_range_;    // of each list, and one behind the last
  std::vector<std::uint32_t> list_of_child_;  // empty where boxes say it
  std::uint32_t grid_[3] = {1, 1, 1};
  std::vector<Box> boxes_;  // by list
  BoxTree tree_;
};

}  // namespace pergola::analysis
