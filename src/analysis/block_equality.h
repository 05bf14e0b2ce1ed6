// Whether two ways of working out a footprint or a relation have the same answer, for tests and benchmarks: by boxes of
// blocks, and block by block.
#pragma once

#include <algorithm>

#include "src/analysis/block_dependencies.h"

namespace pergola::analysis {

// The same bytes of the same accesses, block by block.
inline bool are_equal(const LaunchFootprint& a, const LaunchFootprint& b) {
  const auto same_access = [&](const AccessFootprint& x, const AccessFootprint& y) {
    if (x.allocation != y.allocation || x.reads != y.reads || x.writes != y.writes || x.line != y.line ||
        x.whole_reason != y.whole_reason || x.places.size() != y.places.size())
      return false;
    return std::ranges::equal(x.places.expanded(), y.places.expanded(),
                              [&](const BlockPlaces::Place& p, const BlockPlaces::Place& q) {
                                if (p.shape == BlockPlaces::kNoShape || q.shape == BlockPlaces::kNoShape)
                                  return p.shape == q.shape;
                                return p.first == q.first && x.shapes[p.shape] == y.shapes[q.shape];
                              });
  };
  return std::ranges::equal(a.grid, b.grid) && a.reads_anything == b.reads_anything &&
         a.writes_anything == b.writes_anything && a.anything_reason == b.anything_reason &&
         std::ranges::equal(a.accesses, b.accesses, same_access);
}

// The same pattern for the same reasons, and the same parents of each block.
inline bool are_equal(const BlockRelation& a, const BlockRelation& b) {
  if (a.pattern != b.pattern || a.raw != b.raw || a.war != b.war || a.waw != b.waw || a.parents != b.parents ||
      a.children != b.children || a.max_degree != b.max_degree || a.edges != b.edges ||
      a.full_reason != b.full_reason || a.lists.empty() != b.lists.empty())
    return false;
  for (std::uint32_t child = 0; child < a.children; ++child) {
    if (!std::ranges::equal(a.parents_of(child), b.parents_of(child))) return false;
  }
  return true;
}

}  // namespace pergola::analysis
