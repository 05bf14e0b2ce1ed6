// What each thread block of one launch reads and writes in global memory: what footprints.h makes and
// block_dependencies.h relates.
//
// Blocks are numbered as the device does: x + grid.x * (y + grid.y * z).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "src/analysis/block_places.h"
#include "src/analysis/byte_set.h"

namespace pergola::analysis {

// Who names an allocation decides its number: equal numbers are equal memory, different ones are disjoint.
using AllocationId = std::uint32_t;

// One instruction that accesses global memory.
struct AccessFootprint {
  static constexpr std::uint32_t kNoShape = BlockPlaces::kNoShape;
  using Place = BlockPlaces::Place;

  AllocationId allocation = 0;
  bool reads = false, writes = false;
  std::vector<ByteShape> shapes;  // normal
  BlockPlaces places;
  // Why the access covers its whole allocation in every block, as "indirect: ..."; "" where it does not.
  std::string whole_reason;
  std::uint32_t line = 0;  // of the PTX; where several instructions became one access, the first one's
  // What it took to work it out: boxes of blocks. 1, or where a bound bends in a block's index, as i / 3 does, as many
  // as there are indices.
  std::uint32_t boxes = 0;
};

struct LaunchFootprint {
  std::uint32_t grid[3] = {1, 1, 1};
  std::vector<AccessFootprint> accesses;
  // Accesses whose allocation nobody can tell: every block may touch anything.
  bool reads_anything = false, writes_anything = false;
  std::string anything_reason;  // "" where there are none
  // Nobody has looked whether its blocks wait for each other, as its control flow is not understood; a loop that may is
  // above.
  bool may_wait = false;

  // Which allocation each instruction accesses, in the order of the text; of those in functions that are called none.
  struct Instruction {
    static constexpr AllocationId kAnything = ~AllocationId{0};
    std::uint32_t line = 0;  // of the PTX
    AllocationId allocation = kAnything;
  };
  std::vector<Instruction> instructions;

  std::uint32_t blocks() const { return grid[0] * grid[1] * grid[2]; }
};

}  // namespace pergola::analysis
