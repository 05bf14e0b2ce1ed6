// Dependency lists and parent counters of the launches that are resident (paper 001, III-D).
//
//   parent block ── list ──▶ child blocks of later resident launches, each with a counter of parents that run or wait
//   a parent ends:  its children's counters fall; at zero a child is ready
//   a full relation has no lists: one bit, and the children are held until the parent launch has no block left
//
// The paper tracks the launch before alone, and what is further back follows from its in-order completion. Here every
// launch of the window that has not ended is tracked, since a block may overwrite what an earlier launch still reads.
// Launches complete in order all the same (III-B): a window moves on past its oldest launch alone.
//
// Owned by one thread.
#pragma once

#include <cstdint>
#include <deque>
#include <span>
#include <vector>

#include "src/device/cpu/blocks/launch_chain.h"

namespace pergola::device::cpu::blocks {

class DependencyCounters {
 public:
  // `chain` outlives the object.
  explicit DependencyCounters(const LaunchChain& chain) : chain_(chain) {}

  // The next launch becomes resident: its counters are what its unfinished parents are. Appends its blocks that are
  // ready. Its relations must reach back to the oldest launch that is not complete.
  void enter(std::vector<BlockName>& ready);
  // A block that was ready has ended. Appends those that it was the last parent of.
  void finish(BlockName block, std::vector<BlockName>& ready);

  std::uint32_t entered() const { return completed_ + static_cast<std::uint32_t>(resident_.size()); }
  // Launches of which all blocks, and all those of launches before, have ended.
  std::uint32_t completed() const { return completed_; }

  // The children of a block in one later resident launch, from the parent's dependency list.
  struct Children {
    std::uint32_t launch = 0;
    analysis::BlockPattern pattern{};
    std::span<const std::uint32_t> blocks;
  };
  // Of each later resident launch with a list. The spans are good until a launch completes.
  std::vector<Children> children(BlockName parent) const;

 private:
  // Of a pair of resident launches: the relation by parent.
  struct Lists {
    std::uint32_t parent_launch = 0;
    analysis::BlockPattern pattern{};
    std::vector<std::uint32_t> first_child, child_list;  // empty where independent or full
    std::span<const std::uint32_t> of(std::uint32_t parent) const {
      if (first_child.empty()) return {};
      return {child_list.data() + first_child[parent], child_list.data() + first_child[parent + 1]};
    }
  };
  struct Resident {
    std::vector<std::uint32_t> counters;
    std::vector<bool> finished;
    std::uint32_t unfinished = 0;
    std::uint32_t full_parents = 0;  // launches that it is held for as a whole
    std::vector<Lists> lists;        // of its parents
  };
  Resident& at(std::uint32_t launch) { return resident_[launch - completed_]; }
  const Resident& at(std::uint32_t launch) const { return resident_[launch - completed_]; }
  void release_held(std::uint32_t launch, std::vector<BlockName>& ready) const;

  const LaunchChain& chain_;
  std::deque<Resident> resident_;  // from launch completed_ on
  std::uint32_t completed_ = 0;
};

}  // namespace pergola::device::cpu::blocks
