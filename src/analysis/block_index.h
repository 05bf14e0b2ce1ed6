// The blocks of a launch that make one access, indexed by where they begin, to be asked which of them meet a set of
// bytes.
//
//   groups   Blocks whose shapes have the same strides and nearly the same counts and width are one group, with a hull:
//            few groups, however many shapes there are.
//   places   A group's blocks that a set meets begin at places that are a set of bytes themselves (meeting_distances of
//            hull and set).
//   rows     Of places { x + stride * k + w }, those of one k are a run of the blocks sorted by their begin.
//   columns  The same places have a few remainders by the stride. Of the blocks sorted by remainder and begin, those of
//            one remainder are a run.
//
// Whichever has fewer runs is taken, and rows without a block are skipped, so that asking costs about as much as the
// answer is long. Blocks of a group with several shapes are then tested one by one.
#pragma once

#include <map>
#include <vector>

#include "src/analysis/block_lists.h"
#include "src/analysis/launch_footprint.h"

namespace pergola::analysis {

// Thread-compatible. Borrows the access.
class BlockIndex {
 public:
  explicit BlockIndex(const AccessFootprint& access);

  // The shape of the sets to be asked for next.
  void ask_for(const ByteShape& shape);
  // The blocks that meet the set of that shape at `first`.
  BlockList find(std::int64_t first);

 private:
  struct Entry {
    std::int64_t first;
    std::uint32_t block, shape;
  };
  struct Order {
    struct Run {  // of one remainder: entries [begin, next run's begin)
      std::int64_t remainder;
      std::uint32_t begin;
    };
    std::int64_t stride = 0;  // 0: no remainders, one run
    std::vector<Entry> entries;
    std::vector<Run> runs;  // and one behind the last
    double used_rows = 1;   // of all rows of `stride` places, the share that has blocks
    // For each entry, behind the last one of its run up to which block numbers are successive.
    std::vector<std::uint32_t> successive_end;
  };
  struct Group {
    ByteShape hull;
    bool is_exact = true;  // all blocks have the hull's shape
    Order by_first;
    std::map<std::int64_t, Order> by_stride;
    // Where blocks of this group begin that meet the asked shape at 0, mirrored so that it counts upwards.
    ByteSet places;
    std::size_t main = 0;            // the dimension of `places` that has rows and columns
    std::uint64_t combinations = 1;  // of the others
    const Order* order = nullptr;
  };
  // Of a shape and the asked one, made when first needed.
  struct Meeting {
    std::uint32_t asked = 0;
    ByteSet distances;
  };

  static Order ordered(std::vector<Entry> entries, std::int64_t stride);
  void find_in(const Group& group, std::int64_t first, BlockList& found);
  void find_places(const Group& group, std::size_t dimension, std::int64_t at, BlockList& found);
  void find_rows_or_columns(const Group& group, std::int64_t at, BlockList& found);
  void add(const Group& group, const Order& order, std::uint32_t begin, std::uint32_t end, BlockList& found);
  bool meets(const Entry& entry);

  const AccessFootprint& access_;
  std::vector<Group> groups_;
  std::vector<Meeting> meetings_;  // by shape of the access
  ByteShape asked_shape_;
  std::uint32_t asked_ = 0;
  std::int64_t first_ = 0;
};

}  // namespace pergola::analysis
