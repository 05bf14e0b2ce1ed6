// Columns of a run of launches: its grids cut into equal parts, so that no block needs a block of another part. A
// column can be run by one thread block, launch after launch, without waiting for anybody.
//
//   adjacent                                strided
//   launch 0   0 1 2 3 4 5 6 7              launch 0   0 1 2 3 4 5 6 7      a block of launch 2 needs the one of its
//              │\│ │\│ │\│ │\│                         │ │ │ │ │ │ │ │      number, and the one half the grid further
//   launch 1   0 1 2 3 4 5 6 7              launch 1   0 1 2 3 4 5 6 7
//              \ / \ / \ / \ /                         │ │ │ │ (4 5 6 7)
//   launch 2    0   1   2   3               launch 2   0 1 2 3
//
//   4 columns: {01|01|0} {23|23|1} ...      4 columns: {04|04|0} {15|15|1} ...
//
// Blocks are taken by their numbers, x first. Of a grid of n an adjacent column c of C has the blocks from c * n / C
// on, a strided one those whose number leaves c when divided by C. Whatever two launches of the run conflict in (RAW,
// WAR, WAW; block_dependencies.h) lies inside of a column, for all pairs of launches and not successive ones alone:
// nothing else orders them. Where footprints are larger than the truth there are fewer columns, never more.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "src/analysis/block_chain.h"

namespace pergola::analysis {

struct ColumnOptions {
  std::uint32_t most_blocks_of_column = 8;  // of any launch
  std::uint32_t most_blocks = 1u << 16;     // of a launch: larger ones belong to no run
  std::size_t shortest = 2;                 // a launch that conflicts with none of as many begins a run of its own
  // Whether a launch may join the run that begins with `first`; null: all may.
  std::function<bool(std::size_t first, std::size_t launch)> may_join;
  DependencyOptions dependencies{};
  RelationCache* cache = nullptr;  // of relations, where there is one
};

// Launches [first, first + count). Columns are two or more; 1 where `count` is 1: that launch stays by itself.
struct ColumnRun {
  std::size_t first = 0, count = 0;
  std::uint32_t columns = 1;
  bool is_strided = false;
  bool operator==(const ColumnRun&) const = default;
};

// Runs in order, which have all launches; each is as long as it can be, from the first launch on, and has as many
// columns as it can have, adjacent ones where that is no difference. Footprints are by
// block and name allocations by the same numbers in all launches. A launch without a footprint, or which may touch
// anything or wait for others of its blocks, is alone. Deterministic; thread-safe.
std::vector<ColumnRun> find_columns(std::span<const ChainLaunch> launches, const ColumnOptions& options = {});

}  // namespace pergola::analysis
