#include "src/device/cpu/blocks/block_orders.h"

#include <algorithm>
#include <random>

#include "src/base/check.h"
#include "src/device/cpu/blocks/dependency_counters.h"

namespace pergola::device::cpu::blocks {
namespace {

// A heap, whose top is taken next.
class ReadyBlocks {
 public:
  explicit ReadyBlocks(BlockChoice choice, std::uint64_t seed) : choice_(choice), random_(seed) {}

  bool empty() const { return blocks_.empty(); }
  void add(const std::vector<BlockName>& blocks) {
    for (const BlockName& block : blocks) {
      blocks_.push_back({rank_of(block), block});
      std::ranges::push_heap(blocks_, {}, &Entry::rank);
    }
  }
  BlockName take() {
    std::ranges::pop_heap(blocks_, {}, &Entry::rank);
    const BlockName block = blocks_.back().block;
    blocks_.pop_back();
    return block;
  }

 private:
  struct Entry {
    std::uint64_t rank;
    BlockName block;
  };
  std::uint64_t rank_of(const BlockName& block) {
    switch (choice_) {
      case BlockChoice::kLatestLaunch: return std::uint64_t{block.launch} << 32 | block.block;
      case BlockChoice::kReversedBlocks: return std::uint64_t{~block.launch} << 32 | block.block;
      case BlockChoice::kRandom: return random_();
    }
    return 0;
  }

  const BlockChoice choice_;
  std::mt19937_64 random_;
  std::vector<Entry> blocks_;
};

}  // namespace

std::vector<BlockName> block_order(const LaunchChain& chain, std::uint32_t window, BlockChoice choice,
                                   std::uint64_t seed) {
  PERGOLA_CHECK(window >= 1);
  DependencyCounters counters(chain);
  ReadyBlocks ready(choice, seed);
  std::vector<BlockName> order, now_ready;
  while (counters.completed() < chain.size()) {
    now_ready.clear();
    while (counters.entered() < chain.size() && counters.entered() < counters.completed() + window) {
      counters.enter(now_ready);
    }
    ready.add(now_ready);
    PERGOLA_CHECK(!ready.empty());
    order.push_back(ready.take());
    now_ready.clear();
    counters.finish(order.back(), now_ready);
    ready.add(now_ready);
  }
  return order;
}

}  // namespace pergola::device::cpu::blocks
