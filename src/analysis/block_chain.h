// A chain of launches in which each may start before those ahead of it have ended: which blocks each block must wait
// for by itself, so that the results are those of launches one after the other (paper 001, III-B and III-D; RAW, WAR
// and WAW).
//
//   launch      0         1         2         3         4
//   limits                          x                           launch 3 starts after launch 1 has ended
//   waits for             0 by      1 by      all before  by
//                         block     block                 block
//
// Launches start in order, and each ends after those before it. A launch that waits for all waits until the one before
// it has ended, and with it all. Where a block waits for another, it need not wait for what that one has waited for:
// such parents are left out.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "src/analysis/block_dependencies.h"
#include "src/analysis/relation_cache.h"

namespace pergola::analysis {

struct ChainLaunch {
  std::shared_ptr<const LaunchFootprint> footprint;  // null: nobody can tell what it touches
  std::string unknown_reason;                        // why, where it is null
  // It cannot start early, nor can the launch after it start before it has ended.
  bool is_plain = false;
  // Its blocks may wait each for its own; else it waits for all where it conflicts with anything unfinished. Where
  // blocks do not fit the device at once most start when those before have ended anyway, and looking costs each of
  // them.
  bool may_wait_by_block = true;
  // The launch after it starts only when its blocks have ended (its code does not let that start before).
  bool lets_next_start_late = false;
};

struct ChainOptions {
  // False: a launch that shares an allocation with one that is unfinished, and one of them writes it, waits for all.
  // Footprints need no blocks then (KernelFootprints::allocations_at).
  bool by_block = true;
  // At most so many launches run at once; at least 2. The last launch of each run of `most_running - 1` limits.
  std::uint32_t most_running = 4;
  std::uint32_t most_parents = 64;  // of a block; with more the launch waits for all
  DependencyOptions dependencies{};
  RelationCache* cache = nullptr;  // of relations, where there is one
};

struct ChainStep {
  struct Parent {
    std::uint32_t launch = 0, block = 0;
    bool operator==(const Parent&) const = default;
    auto operator<=>(const Parent&) const = default;
  };
  bool waits_for_all = false;
  bool limits = false;   // the launch after it starts after the one before it has ended; its code sees to it
  bool signals = false;  // some later block waits for a block of this launch
  // Of block b: parents[first_parent[b] .. first_parent[b + 1]), ascending. Both empty where no block waits by itself.
  std::vector<std::uint32_t> first_parent;
  std::vector<Parent> parents;
  BlockPattern pattern = BlockPattern::kIndependent;  // on the launch before it
  std::string reason;                                 // why it waits for all; "" where it does not

  std::span<const Parent> parents_of(std::uint32_t block) const {
    if (first_parent.empty()) return {};
    return {parents.data() + first_parent[block], parents.data() + first_parent[block + 1]};
  }
};

// One step a launch, in order. Footprints name allocations by the same numbers in all launches. Deterministic;
// thread-safe.
std::vector<ChainStep> plan_chain(std::span<const ChainLaunch> launches, const ChainOptions& options = {});

}  // namespace pergola::analysis
