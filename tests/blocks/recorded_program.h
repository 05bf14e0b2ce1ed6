// The truth about a program of bench/blocks: run launch by launch on the interpreter with every access recorded, what
// each block of each launch read and wrote, and which blocks therefore depend on which. Analyses are held against this.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "bench/blocks/program.h"
#include "src/device/device.h"

namespace pergola::blocks_test {

// Bytes begin ... end - 1 of a buffer of the program.
struct ByteRange {
  std::uint32_t buffer = 0;
  std::uint64_t begin = 0, end = 0;
  auto operator<=>(const ByteRange&) const = default;
};

// Sorted, and no two of them touch.
struct BlockAccesses {
  std::vector<ByteRange> reads, writes;
};

struct RecordedLaunch {
  std::string kernel;
  // By block: x + grid.x * (y + grid.y * z).
  std::vector<BlockAccesses> blocks;
};

// Runs the program once on fresh memory; its check is not made. `device` must be a CPU device of the interpreter tier,
// and nothing else may run on it.
Result<std::vector<RecordedLaunch>> record(device::Device& device, const bench::blocks::Program& program);

enum class Hazards : std::uint8_t { kReadAfterWrite, kAll };

// The parents of each child, ascending.
using Relation = std::vector<std::vector<std::uint32_t>>;
Relation dependencies(const RecordedLaunch& parent, const RecordedLaunch& child, Hazards hazards);

// The number that Table I gives the relation. Where several fit, the first of: (7); (3), which pairs all of as many
// parents as children; (4), no child has two parents, and (5), no parent has two children, of which (5) where both hold
// and there are more parents than children; (1); (2); (6).
int pattern_of(const Relation& relation, std::size_t parents);

}  // namespace pergola::blocks_test
