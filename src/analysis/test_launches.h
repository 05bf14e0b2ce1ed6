// Launches of which a test says what each block touches.
#pragma once

#include <cstdint>
#include <vector>

#include "src/analysis/launch_footprint.h"

namespace pergola::analysis {

// Of block b, or of the first of its group of blocks, the bytes [first + step * b, + width) of an allocation.
struct BlockUse {
  AllocationId allocation = 0;
  bool writes = false;
  std::int64_t first = 0, step = 0, width = 4;
  std::uint32_t group = 1;
};

inline LaunchFootprint launch_of(std::uint32_t blocks, const std::vector<BlockUse>& uses) {
  LaunchFootprint made;
  made.grid[0] = blocks;
  for (const BlockUse& use : uses) {
    AccessFootprint access;
    access.allocation = use.allocation;
    access.reads = !use.writes;
    access.writes = use.writes;
    access.shapes.push_back({{}, static_cast<std::uint64_t>(use.width)});
    std::vector<AccessFootprint::Place> places;
    for (std::uint32_t b = 0; b < blocks; ++b)
      places.push_back({use.first + use.step * (b / use.group * use.group), 0});
    access.places = places;
    made.accesses.push_back(std::move(access));
  }
  return made;
}

}  // namespace pergola::analysis
