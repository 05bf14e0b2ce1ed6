// Lists of thread blocks as ranges of successive numbers, which most are: the blocks of a row of tiles are one range,
// all blocks of a launch another.
#pragma once

#include <boost/container/small_vector.hpp>
#include <boost/unordered/unordered_flat_set.hpp>
#include <cstdint>
#include <deque>
#include <optional>
#include <vector>

namespace pergola::analysis {

struct BlockInterval {
  std::uint32_t begin = 0, end = 0;
  bool operator==(const BlockInterval&) const = default;
};
// Ascending, and no two touch.
using BlockList = boost::container::small_vector<BlockInterval, 2>;

// The same blocks, from ranges in any order that may overlap.
void normalize(BlockList& ranges);
BlockList united(const BlockList& a, const BlockList& b);
std::uint32_t size(const BlockList& ranges);

// Distinct lists, each with a number.
class BlockListPool {
 public:
  BlockListPool() = default;
  BlockListPool(const BlockListPool&) = delete;
  BlockListPool& operator=(const BlockListPool&) = delete;

  std::uint32_t number_of(BlockList list);
  const BlockList& operator[](std::uint32_t number) const { return lists_[number]; }
  std::uint32_t lists() const { return static_cast<std::uint32_t>(lists_.size()); }
  std::uint64_t ranges() const { return ranges_; }  // of all lists

 private:
  struct Hash {
    const std::vector<std::uint64_t>* hashes;
    std::size_t operator()(std::uint32_t number) const { return (*hashes)[number]; }
  };
  struct Equal {
    const std::deque<BlockList>* lists;
    bool operator()(std::uint32_t a, std::uint32_t b) const { return (*lists)[a] == (*lists)[b]; }
  };
  std::deque<BlockList> lists_;
  std::vector<std::uint64_t> hashes_;  // of lists
  boost::unordered_flat_set<std::uint32_t, Hash, Equal> known_{0, Hash{&hashes_}, Equal{&lists_}};
  std::uint64_t ranges_ = 0;
};

}  // namespace pergola::analysis
