// Boxes of thread blocks, numbers that are linear in a block's index, and how a grid is cut into boxes in which such
// numbers say the same of every block.
//
//        x ──▶
//      ┌───────────┬─┐      A guard such as i < n - 1 holds for every thread of the blocks inside, narrows the last
//    y │           │ │      row and the last column, and both in the corner: four boxes, however large the grid is.
//    │ │           │ │
//    ▼ ├───────────┼─┤
//      └───────────┴─┘
#pragma once

#include <cstdint>
#include <vector>

namespace pergola::analysis {

// Blocks begin[a] <= index[a] < end[a]; never empty.
struct GridBox {
  std::uint32_t begin[3] = {0, 0, 0}, end[3] = {1, 1, 1};

  std::uint32_t extent(int axis) const { return end[axis] - begin[axis]; }
  std::uint64_t blocks() const { return std::uint64_t{extent(0)} * extent(1) * extent(2); }
  bool contains(const std::uint32_t (&block)[3]) const;
  bool operator==(const GridBox&) const = default;
};
GridBox whole_grid(const std::uint32_t (&grid)[3]);
// The index of block number `block`.
struct GridIndex {
  std::uint32_t at[3];
};
GridIndex index_of(std::uint32_t block, const std::uint32_t (&grid)[3]);

// In block b: a number between low + step * b and high + step * b. kOpen is no bound.
struct LinearRange {
  static constexpr std::int64_t kOpen = std::int64_t{1} << 62;  // -kOpen for `low`
  // Further apart than these, sums over a grid would not fit: whoever makes one keeps to them.
  static constexpr std::int64_t kMost = std::int64_t{1} << 60, kMostStep = std::int64_t{1} << 36;
  std::int64_t low = 0, high = 0;
  std::int64_t step[3] = {0, 0, 0};
};

// What step * b adds in the blocks of a box, at least and at most.
struct Moved {
  std::int64_t least = 0, most = 0;
};
Moved moved(const std::int64_t (&step)[3], const GridBox& box);

enum class Holds : std::uint8_t {
  kAlways,  // at most 0 for all of the range, in every block
  kNever,   // above 0 for all of the range, in every block
  kAlike,   // the same range in every block
  kVaries,
};
Holds at_most_zero(const LinearRange& range, const GridBox& box);

struct GridCut {
  int axis = 0;
  std::uint32_t at = 0;  // the first index above the cut
};
// Where to cut a box in which a range varies: where it begins or ceases to hold, or not to, if there is such a place,
// else in the middle.
GridCut cut_of(const LinearRange& range, const GridBox& box);
GridBox below(const GridBox& box, const GridCut& cut);
GridBox above(const GridBox& box, const GridCut& cut);

// Which of the boxes that a grid was cut into a block lies in. Nodes are added from the boxes up; the last one is the
// root. Thread-compatible.
class BoxTree {
 public:
  // Both give the node's number.
  std::uint32_t add_box(std::uint32_t box);
  std::uint32_t add_cut(const GridCut& cut, std::uint32_t below, std::uint32_t above);
  bool empty() const { return nodes_.empty(); }
  std::uint32_t box_of(const std::uint32_t (&block)[3]) const;
  std::uint64_t bytes() const { return nodes_.size() * sizeof(Node); }

 private:
  struct Node {
    std::int32_t axis = -1;  // -1: a box, whose number is `below`
    std::uint32_t at = 0, below = 0, above = 0;
  };
  std::vector<Node> nodes_;
};

}  // namespace pergola::analysis
