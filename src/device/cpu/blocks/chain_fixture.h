// Chains of launches for tests, from lists of parents.
#pragma once

#include <algorithm>
#include <memory>
#include <random>
#include <vector>

#include "src/device/cpu/blocks/launch_chain.h"

namespace pergola::device::cpu::blocks::test {

// parents[c]: of child c.
inline RelationPtr relation(std::uint32_t parents, const std::vector<std::vector<std::uint32_t>>& of_child) {
  auto made = std::make_shared<analysis::BlockRelation>();
  made->parents = parents;
  made->children = static_cast<std::uint32_t>(of_child.size());
  made->lists = analysis::ParentLists(of_child);
  for (const auto& list : of_child) made->edges += list.size();
  made->pattern = analysis::BlockPattern::kOverlapped;
  return made;
}

inline RelationPtr whole(analysis::BlockPattern pattern, std::uint32_t parents, std::uint32_t children) {
  auto made = std::make_shared<analysis::BlockRelation>();
  made->parents = parents, made->children = children, made->pattern = pattern;
  return made;
}
inline RelationPtr full(std::uint32_t parents, std::uint32_t children) {
  return whole(analysis::BlockPattern::kFull, parents, children);
}
inline RelationPtr independent(std::uint32_t parents, std::uint32_t children) {
  return whole(analysis::BlockPattern::kIndependent, parents, children);
}
inline RelationPtr one_to_one(std::uint32_t blocks) {
  std::vector<std::vector<std::uint32_t>> parents(blocks);
  for (std::uint32_t i = 0; i < blocks; ++i) parents[i] = {i};
  return relation(blocks, parents);
}

inline ChainLaunch launch(const std::vector<double>& ns, std::vector<RelationPtr> relations = {}) {
  ChainLaunch made;
  for (const double alone : ns) made.blocks.push_back({alone, 0});
  made.relations = std::move(relations);
  return made;
}

// 2 to 8 launches of 1 to 20 blocks of whole nanoseconds, with every kind of relation on all launches before, up to 3.
inline LaunchChain random_chain(std::uint64_t seed, bool with_shares) {
  std::mt19937_64 random(seed);
  const auto below = [&](std::uint32_t bound) { return static_cast<std::uint32_t>(random() % bound); };
  LaunchChain chain(2 + below(7));
  for (std::size_t i = 0; i < chain.size(); ++i) {
    chain[i].blocks.resize(1 + below(20));
    for (BlockCost& cost : chain[i].blocks) cost = {1.0 + below(50), with_shares ? below(9) / 8.0 : 0};
    for (std::size_t d = 1; d <= std::min<std::size_t>(i, 3); ++d) {
      const std::uint32_t parents = chain[i - d].size(), children = chain[i].size();
      const std::uint32_t kind = below(8);
      if (kind < 2) {
        chain[i].relations.push_back(kind == 0 ? full(parents, children) : independent(parents, children));
        continue;
      }
      std::vector<std::vector<std::uint32_t>> of_child(children);
      for (auto& list : of_child) {
        for (std::uint32_t p = 0; p < parents; ++p) {
          if (below(parents) < kind - 2) list.push_back(p);
        }
      }
      chain[i].relations.push_back(relation(parents, of_child));
    }
  }
  return chain;
}

inline bool depends(const LaunchChain& chain, BlockName child, BlockName parent) {
  if (child.launch <= parent.launch) return false;
  const std::size_t back = child.launch - parent.launch;
  if (back > chain[child.launch].relations.size()) return false;
  const analysis::BlockRelation& relation = *chain[child.launch].relations[back - 1];
  return relation.pattern == analysis::BlockPattern::kFull || relation.parents_of(child.block).contains(parent.block);
}

}  // namespace pergola::device::cpu::blocks::test
