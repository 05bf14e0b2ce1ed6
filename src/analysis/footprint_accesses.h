// One access of a kernel at one launch's values, and its bytes block by block.
#pragma once

#include <string>
#include <vector>

#include "src/analysis/footprint_symbols.h"

namespace pergola::analysis {

struct SymbolicAccess {
  AllocationId allocation = 0;
  std::uint64_t allocation_bytes = 0;
  Affine offset;       // from the allocation's begin
  Constraints guards;  // what holds where it is made
  std::uint64_t width = 0;
  bool reads = false, writes = false;
  std::uint32_t line = 0;
  std::string whole_reason;
};

// The accesses of a launch before they are evaluated block by block.
struct SymbolicLaunch {
  LaunchFootprint closed;  // what the closed form makes of them
  std::string reason;      // why only that is known; "" where the rest is the launch
  std::vector<SymbolicAccess> accesses;
  FootprintTerms terms;
  std::vector<IterationBound> bounds;
};

// With i = 16 * (i / 16) + i % 16 both a quotient and its thread index in an offset, their connection would be lost:
// the index is written as 16 * quotient + remainder.
void split_indices(FootprintTerms& terms, SymbolicAccess& access);

// Accesses that differ in their constants alone become one where they lie side by side or at equal distances: what
// unrolling took apart.
std::vector<SymbolicAccess> fused(FootprintTerms& terms, std::vector<SymbolicAccess> accesses);

// Drops guards that hold in the whole launch.
void drop_certain_guards(const FootprintTerms& terms, SymbolicAccess& access);

// footprint_blocks.cc. `each_block`: works out each block by itself, which gives the same and takes longer.
AccessFootprint footprint_of(const SymbolicAccess& access, const FootprintTerms& terms,
                             std::span<const IterationBound> bounds, const std::uint32_t (&grid)[3], bool each_block);

}  // namespace pergola::analysis
