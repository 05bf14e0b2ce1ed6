// Control-flow graph of a function body.
//
// Blocks are numbered in textual order; block 0 is the entry; a block may be empty (a label at the end). Edges follow
// labels, brx.idx tables, fall-through and guarded branches; exit, ret and trap have no successor. An opaque instruction
// is a plain one here (it may not branch: an opaque spelling that could is refused by the parser's table of roots).
#pragma once

#include <cstdint>
#include <string>
#include <unordered_map>
#include <vector>

#include "src/base/result.h"
#include "src/ptx/module.h"

namespace pergola::analysis {

struct BasicBlock {
  std::vector<std::uint32_t> statements;  // indices into Function::body of its instructions, in order
  std::vector<std::uint32_t> successors, predecessors;
};

struct Cfg {
  std::vector<BasicBlock> blocks;
  std::unordered_map<std::string, std::uint32_t> block_of_label;
  std::vector<std::uint32_t> reverse_post_order;      // reachable blocks only
  std::vector<std::uint32_t> immediate_dominator;      // of each block; itself for the entry; ~0u unreachable
  std::vector<std::uint32_t> immediate_post_dominator; // ~0u: the virtual exit, or no way leads there
};

// kParseError where a branch names a label that is not there.
Result<Cfg> build_cfg(const ptx::Function& function);

}  // namespace pergola::analysis
