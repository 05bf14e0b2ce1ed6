#include "src/device/cpu/blocks/dependency_traffic.h"

namespace pergola::device::cpu::blocks {
namespace {

using analysis::BlockPattern;

std::uint64_t key_of(BlockName name) {
  return std::uint64_t{name.launch} << 32 | name.block;
}

// Table I has no list for these: children are computed from the parent's number.
bool is_encoded(BlockPattern pattern) {
  return pattern == BlockPattern::kOneToOne || pattern == BlockPattern::kOneToN || pattern == BlockPattern::kNToOne ||
         pattern == BlockPattern::kGroups;
}

}  // namespace

void DependencyTraffic::list_read(const DependencyCounters::Children& children) {
  if (!is_encoded(children.pattern)) {
    requests_ += (children.blocks.size() + children_an_entry_ - 1) / children_an_entry_;
  }
  for (const std::uint32_t child : children.blocks) use_counter({children.launch, child});
}

void DependencyTraffic::block_started(BlockName block) {
  const auto found = held_.find(key_of(block));
  if (found == held_.end()) return;
  by_use_.erase(found->second);
  held_.erase(found);
}

void DependencyTraffic::block_ended(std::span<const DependencyCounters::Children> children) {
  for (const auto& of_launch : children) {
    for (const std::uint32_t child : of_launch.blocks) use_counter({of_launch.launch, child});
  }
}

void DependencyTraffic::use_counter(BlockName child) {
  const std::uint64_t key = key_of(child);
  if (const auto found = held_.find(key); found != held_.end()) {
    by_use_.splice(by_use_.begin(), by_use_, found->second);
    return;
  }
  ++requests_;
  if (held_.size() == counters_held_) {
    ++requests_;
    held_.erase(by_use_.back());
    by_use_.pop_back();
  }
  by_use_.push_front(key);
  held_[key] = by_use_.begin();
}

}  // namespace pergola::device::cpu::blocks
