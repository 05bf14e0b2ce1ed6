// Where the blocks of a launch make one access, as few boxes of blocks in each of which the place is linear in the
// block's index (grid_box.h): a grid of 16,384 blocks has some ten, and nothing is kept for each block.
#pragma once

#include <cstdint>
#include <vector>

#include "src/analysis/grid_box.h"

namespace pergola::analysis {

class BlockPlaces {
 public:
  static constexpr std::uint32_t kNoShape = ~std::uint32_t{0};

  struct Place {
    std::int64_t first = 0;          // byte of the allocation
    std::uint32_t shape = kNoShape;  // kNoShape: this block does not make the access
    bool operator==(const Place&) const = default;
  };
  // All blocks of a box, with one shape, from first + step * (index - box.begin) on.
  struct Region {
    GridBox box;
    std::int64_t first = 0;
    std::int64_t step[3] = {0, 0, 0};  // 0 along axes of one block
    std::uint32_t shape = 0;
    bool operator==(const Region&) const = default;
    std::int64_t first_of(const std::uint32_t (&block)[3]) const {
      std::int64_t result = first;
      for (int axis = 0; axis < 3; ++axis) result += step[axis] * (std::int64_t{block[axis]} - box.begin[axis]);
      return result;
    }
  };

  BlockPlaces() = default;
  // Of a grid that is x alone.
  BlockPlaces(std::vector<Place> places);  // NOLINT(google-explicit-constructor): as tests write them
  // Regions do not overlap; those that are one together become one.
  BlockPlaces(const std::uint32_t (&grid)[3], std::vector<Region> regions);

  std::uint32_t size() const { return grid_[0] * grid_[1] * grid_[2]; }  // blocks
  const std::vector<Region>& regions() const { return regions_; }
  // By block number. One takes time in the number of regions, all of them once for each block.
  Place operator[](std::uint32_t block) const;
  std::vector<Place> expanded() const;
  bool operator==(const BlockPlaces&) const = default;

 private:
  std::uint32_t grid_[3] = {0, 1, 1};
  std::vector<Region> regions_;  // by index of their first block, z first
};

}  // namespace pergola::analysis
