// Which blocks of a launch meet which of an earlier one, box by box (grid_box.h) in place of block by block.
//
// Where block c of one region begins at f + s * c and block p of the other at g + t * p, they meet where the distance
// of these is one of a set. If a step of c along an axis moves it as far as some whole steps v of p, then the parents
// of c + 1 are those of c moved by v, as far as the region of the parents goes: they are found once, for one child.
//
//   regions   Each pair of regions that may meet gives a meeting: a box of children, and where the parents of its first
//             one lie, as boxes that need not lie in the parents' region; what moves with the child is cut to it later.
//             Where no v is there, and one side is few blocks, each of them is a meeting.
//   families  The grid of the children is cut into boxes in which the same meetings count, cut alike by the ends of
//             their regions, so that the union of their parents is one list that moves with the child.
//
// What is not so (accesses of a block whose parents move differently, too many of anything) is refused with the
// reason, and is then done block by block (block_dependencies.cc).
#pragma once

#include <span>
#include <string>
#include <vector>

#include "src/analysis/launch_footprint.h"
#include "src/analysis/parent_lists.h"

namespace pergola::analysis {

struct AccessPair {
  const AccessFootprint *parent = nullptr, *child = nullptr;
};

struct BoxRelation {
  std::vector<ParentLists::Family> families;  // each child is of one
  BoxTree tree;                               // which one
  std::vector<bool> meets;  // by pair of accesses: whether some block of the one meets one of the other
  std::string reason;       // why there is none of these; "" where there is
};

// The blocks that meet in any of these pairs of accesses. Exact: the same as of the places themselves.
BoxRelation relate_boxes(std::span<const AccessPair> pairs, const std::uint32_t (&parent_grid)[3],
                         const std::uint32_t (&child_grid)[3]);

}  // namespace pergola::analysis
