// Sets of bytes of one allocation, as loops over arrays make them:
//
//   { first + stride[0] * k[0] + stride[1] * k[1] + ... + w  :  0 <= k[i] < count[i],  0 <= w < width }
//
// A tile of a matrix is {stride = pitch, count = rows}, width = the bytes of a row of the tile. A shape is a set
// without its place; blocks of a launch mostly share few shapes, so that a relation between blocks is found once for a
// pair of shapes and a distance.
//
// Invariants of a normal shape: strides are positive and descend, counts are at least 2, width is at least 1, and what
// touches or overlaps without a gap is one width. Sets may still name a byte twice where strides interleave.
#pragma once

#include <boost/container/small_vector.hpp>
#include <cstdint>
#include <optional>
#include <vector>

namespace pergola::analysis {

struct ByteShape {
  struct Dimension {
    std::uint64_t stride = 0;
    std::uint64_t count = 1;
    bool operator==(const Dimension&) const = default;
  };
  boost::container::small_vector<Dimension, 4> dimensions;
  std::uint64_t width = 1;

  // From the first byte to behind the last.
  std::uint64_t extent() const;
  bool operator==(const ByteShape&) const = default;
};

// The normal shape of the same set. Strides may be given in any order and be 0; counts must be at least 1.
ByteShape normalized(ByteShape shape);

struct ByteSet {
  std::int64_t first = 0;  // from the allocation's begin
  ByteShape shape;

  std::int64_t begin() const { return first; }
  std::int64_t end() const { return first + static_cast<std::int64_t>(shape.extent()); }
  bool contains(std::int64_t byte) const;
  // The same, but true where more than kMaxTrials combinations would have to be tried. (Where strides nest, one is left
  // at each of them.)
  bool may_contain(std::int64_t byte) const;
  // contains(); nullopt where more than `trials` combinations would have to be tried.
  std::optional<bool> contains_within(std::int64_t byte, std::uint64_t trials) const;
};
inline constexpr std::uint32_t kMaxTrials = 4096;

// Two normal sets of these shapes have a byte in common exactly where b.first - a.first is one of these. It is a set of
// the same kind, as a difference of two sums of loops is one sum of all their loops; its shape is normal.
ByteSet meeting_distances(const ByteShape& a, const ByteShape& b);

// Whether two normal sets have a byte in common; as may_contain() where it would take long to tell.
bool overlaps(const ByteSet& a, const ByteSet& b);

}  // namespace pergola::analysis
