#include "src/analysis/natural_loops.h"

namespace pergola::analysis {

bool dominates(const Cfg& cfg, std::uint32_t by, std::uint32_t block) {
  while (block != by) {
    const std::uint32_t up = cfg.immediate_dominator[block];
    if (up == block || up == ~0u) return false;
    block = up;
  }
  return true;
}

NaturalLoops natural_loops(const Cfg& cfg) {
  NaturalLoops found;
  found.loop_of_header.assign(cfg.blocks.size(), kNoLoop);
  std::vector<std::uint32_t> order(cfg.blocks.size(), ~0u);
  for (std::uint32_t i = 0; i < cfg.reverse_post_order.size(); ++i) order[cfg.reverse_post_order[i]] = i;
  for (const std::uint32_t block : cfg.reverse_post_order) {
    for (const std::uint32_t successor : cfg.blocks[block].successors) {
      if (order[successor] > order[block]) continue;
      if (!dominates(cfg, successor, block)) {
        found.is_reducible = false;
        continue;
      }
      std::uint32_t& loop = found.loop_of_header[successor];
      if (loop == kNoLoop) {
        loop = static_cast<std::uint32_t>(found.loops.size());
        found.loops.push_back({.header = successor, .latches = {}, .contains = std::vector<bool>(cfg.blocks.size())});
        found.loops.back().contains[successor] = true;
      }
      found.loops[loop].latches.push_back(block);
    }
  }
  for (NaturalLoop& loop : found.loops) {
    std::vector<std::uint32_t> work = loop.latches;
    while (!work.empty()) {
      const std::uint32_t block = work.back();
      work.pop_back();
      if (loop.contains[block] || order[block] == ~0u) continue;
      loop.contains[block] = true;
      for (const std::uint32_t predecessor : cfg.blocks[block].predecessors) work.push_back(predecessor);
    }
  }
  return found;
}

}  // namespace pergola::analysis
