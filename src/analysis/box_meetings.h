// Pairs of regions of two accesses that may meet, and where: the first part of block_boxes.h.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "src/analysis/block_boxes.h"

namespace pergola::analysis {

// Blocks of an endless grid.
struct FreeBox {
  std::int64_t begin[3], end[3];
};

struct Meeting {
  GridBox children, parents;
  // What a step of the child along an axis adds to its parents' indices: shift[axis of the child][of the parents].
  std::int64_t shift[3][3] = {};
  // Where the parents of the first child lie; of them those count that lie in `parents`.
  std::vector<FreeBox> boxes;
  std::uint32_t pair = 0;  // of accesses
};

// "" or the reason why these have none.
std::string find_meetings(std::span<const AccessPair> pairs, std::vector<Meeting>& found);

}  // namespace pergola::analysis
