// The bipartite graph of a relation between blocks as a picture (paper 001, Figure 8): parents above, children below.
#pragma once

#include <string>

#include "src/analysis/block_dependencies.h"

namespace pergola::tool {

// At most `most_blocks` of each side are drawn; the picture says how many are left out.
std::string blocks_svg(const analysis::BlockRelation& relation, const std::string& parent, const std::string& child,
                       std::uint32_t most_blocks = 64);

}  // namespace pergola::tool
