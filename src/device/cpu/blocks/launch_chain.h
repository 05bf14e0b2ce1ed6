// A sequence of launches as blocks that wait for blocks of earlier ones: what schedules, orders and counters of blocks
// are made from. Plain data; nothing here runs a kernel.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "src/analysis/block_dependencies.h"

namespace pergola::device::cpu::blocks {

// What one block takes.
struct BlockCost {
  double alone_ns = 0;  // with an SM to itself
  // Of what an SM can issue and fetch, while it runs so: blocks of one SM that ask for more than 1 together slow down
  // alike. 0: it runs as if alone, whatever runs beside it.
  double sm_share = 0;
};

using RelationPtr = std::shared_ptr<const analysis::BlockRelation>;

// What a block keeps of its SM from its start to its end, beside one of its places for blocks.
struct BlockRoom {
  std::uint32_t threads = 0;  // of whole warps
  std::uint32_t shared_bytes = 0;
};

struct ChainLaunch {
  std::vector<BlockCost> blocks;
  BlockRoom room;  // of each of them
  // relations[d - 1]: on the launch d before this one, of all ways of dependence (RAW, WAR, WAW). Never null. A window
  // of w launches needs those of w - 1 launches before, or of all where there are fewer.
  std::vector<RelationPtr> relations;

  std::uint32_t size() const { return static_cast<std::uint32_t>(blocks.size()); }
};
using LaunchChain = std::vector<ChainLaunch>;

struct BlockName {
  std::uint32_t launch = 0, block = 0;
  bool operator==(const BlockName&) const = default;
};

}  // namespace pergola::device::cpu::blocks
