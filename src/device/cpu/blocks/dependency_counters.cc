#include "src/device/cpu/blocks/dependency_counters.h"

#include "src/base/check.h"

namespace pergola::device::cpu::blocks {

using analysis::BlockPattern;
using analysis::BlockRelation;

void DependencyCounters::enter(std::vector<BlockName>& ready) {
  const std::uint32_t launch = entered();
  PERGOLA_CHECK(launch < chain_.size());
  const ChainLaunch& now = chain_[launch];
  Resident added;
  added.counters.resize(now.size());
  added.finished.resize(now.size());
  added.unfinished = now.size();
  PERGOLA_CHECK(launch - completed_ <= now.relations.size());
  for (std::uint32_t parent = completed_; parent < launch; ++parent) {
    const Resident& before = at(parent);
    if (before.unfinished == 0) continue;
    const BlockRelation& relation = *now.relations[launch - parent - 1];
    PERGOLA_CHECK(relation.pattern == BlockPattern::kIndependent || relation.pattern == BlockPattern::kFull ||
                  (!relation.lists.empty() && relation.children == now.size()));
    if (relation.pattern == BlockPattern::kIndependent) continue;
    Lists& lists = added.lists.emplace_back(Lists{parent, relation.pattern, {}, {}});
    if (relation.pattern == BlockPattern::kFull) {
      ++added.full_parents;
      continue;
    }
    lists.first_child.resize(chain_[parent].size() + 1);
    for (std::uint32_t child = 0; child < now.size(); ++child) {
      for (const std::uint32_t p : relation.parents_of(child)) ++lists.first_child[p + 1];
    }
    for (std::size_t p = 1; p < lists.first_child.size(); ++p) lists.first_child[p] += lists.first_child[p - 1];
    lists.child_list.resize(lists.first_child.back());
    std::vector<std::uint32_t> next(lists.first_child.begin(), lists.first_child.end() - 1);
    for (std::uint32_t child = 0; child < now.size(); ++child) {
      for (const std::uint32_t p : relation.parents_of(child)) {
        lists.child_list[next[p]++] = child;
        added.counters[child] += !before.finished[p];
      }
    }
  }
  resident_.push_back(std::move(added));
  if (at(launch).full_parents == 0) release_held(launch, ready);
}

void DependencyCounters::release_held(std::uint32_t launch, std::vector<BlockName>& ready) const {
  const Resident& held = at(launch);
  for (std::uint32_t block = 0; block < held.counters.size(); ++block) {
    if (held.counters[block] == 0) ready.push_back({launch, block});
  }
}

void DependencyCounters::finish(BlockName block, std::vector<BlockName>& ready) {
  PERGOLA_CHECK(block.launch >= completed_ && block.launch < entered());
  Resident& parent = at(block.launch);
  PERGOLA_CHECK(!parent.finished[block.block]);
  parent.finished[block.block] = true;
  --parent.unfinished;
  for (std::uint32_t later = block.launch + 1; later < entered(); ++later) {
    Resident& child = at(later);
    for (const Lists& lists : child.lists) {
      if (lists.parent_launch != block.launch) continue;
      for (const std::uint32_t c : lists.of(block.block)) {
        if (--child.counters[c] == 0 && child.full_parents == 0) ready.push_back({later, c});
      }
      if (lists.pattern == BlockPattern::kFull && parent.unfinished == 0 && --child.full_parents == 0) {
        release_held(later, ready);
      }
    }
  }
  while (!resident_.empty() && resident_.front().unfinished == 0) {
    resident_.pop_front();
    ++completed_;
  }
}

std::vector<DependencyCounters::Children> DependencyCounters::children(BlockName parent) const {
  std::vector<Children> result;
  for (std::uint32_t later = parent.launch + 1; later < entered(); ++later) {
    for (const Lists& lists : at(later).lists) {
      if (lists.parent_launch == parent.launch && !lists.of(parent.block).empty()) {
        result.push_back({later, lists.pattern, lists.of(parent.block)});
      }
    }
  }
  return result;
}

}  // namespace pergola::device::cpu::blocks
