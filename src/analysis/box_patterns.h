// Table I's pattern of a relation that is known box by box (block_boxes.h), with no look at each pair of blocks.
#pragma once

#include "src/analysis/block_boxes.h"
#include "src/analysis/block_dependencies.h"

namespace pergola::analysis {

// Sets edges, max_degree and pattern; `parents` and `children` are known.
void classify(const BoxRelation& boxes, BlockRelation& relation);

// Whether every child waits for every parent.
bool are_all(const BoxRelation& boxes, std::uint32_t parents);

}  // namespace pergola::analysis
