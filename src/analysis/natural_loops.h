// The loops of a function: each header with the blocks from which its back edges come and all blocks of its body.
//
// A back edge leads to a block that dominates its source. Where an edge leads backwards and is none (control flow that
// is not reducible), `is_reducible` is false and analyses by loops say nothing.
#pragma once

#include <cstdint>
#include <vector>

#include "src/analysis/cfg.h"

namespace pergola::analysis {

inline constexpr std::uint32_t kNoLoop = ~0u;

struct NaturalLoop {
  std::uint32_t header = 0;
  std::vector<std::uint32_t> latches;  // sources of back edges
  std::vector<bool> contains;          // by block
};

struct NaturalLoops {
  std::vector<NaturalLoop> loops;
  std::vector<std::uint32_t> loop_of_header;  // by block; kNoLoop
  bool is_reducible = true;
};

NaturalLoops natural_loops(const Cfg& cfg);

// Whether every way to `block` leads through `by`; a block dominates itself.
bool dominates(const Cfg& cfg, std::uint32_t by, std::uint32_t block);

}  // namespace pergola::analysis
