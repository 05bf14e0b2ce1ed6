// Memory requests that dependency lists and parent counters add (paper 001, III-D "Architectural Support" and Figure
// 13).
//
// Lists and counters lie in global memory. A block that starts brings its list into the dependency list buffer, four
// children a request; lists of the patterns that Table I encodes are made from the pattern and bring nothing. For each
// child a counter is brought into the parent counter buffer where it is not there already: a request. The buffer has
// so many counters; the one unused for the longest makes room, and is written back: a request. A counter leaves when
// its child starts. A parent that ends asks for its children's counters once more.
//
// Owned by one thread.
#pragma once

#include <cstdint>
#include <list>
#include <span>
#include <unordered_map>

#include "src/device/cpu/blocks/dependency_counters.h"

namespace pergola::device::cpu::blocks {

class DependencyTraffic {
 public:
  // The paper's: 28 * 32 counters, four children in an entry of the list.
  explicit DependencyTraffic(std::uint32_t counters_held = 896, std::uint32_t children_an_entry = 4)
      : counters_held_(counters_held), children_an_entry_(children_an_entry) {}

  // A running block's list in a launch: when the block starts, or when that launch becomes resident.
  void list_read(const DependencyCounters::Children& children);
  void block_started(BlockName block);
  void block_ended(std::span<const DependencyCounters::Children> children);

  std::uint64_t requests() const { return requests_; }

 private:
  void use_counter(BlockName child);

  const std::uint32_t counters_held_, children_an_entry_;
  std::list<std::uint64_t> by_use_;  // keys, the latest used first
  std::unordered_map<std::uint64_t, std::list<std::uint64_t>::iterator> held_;
  std::uint64_t requests_ = 0;
};

}  // namespace pergola::device::cpu::blocks
