// The buddies of a resident block's shared memory, by random allocations and releases held against a list of ranges.
#include "src/executor/kernel/buddies.h"

#include <gtest/gtest.h>

#include <bit>
#include <cstdint>
#include <optional>
#include <random>
#include <vector>

namespace pergola::executor {
namespace {

constexpr std::uint32_t kLeaves = abi::kArenaLeaves;

TEST(Buddies, SizesAreTheNextPowerOfTwo) {
  for (const std::uint32_t leaf : {512u, 1024u, 2048u})
    for (std::uint32_t bytes = 1; bytes <= kLeaves * leaf; bytes += 37) {
      const std::uint32_t many = buddy_leaves(bytes, leaf);
      EXPECT_TRUE(std::has_single_bit(many));
      EXPECT_GE(std::uint64_t{many} * leaf, bytes);
      EXPECT_TRUE(many == 1 || std::uint64_t{many / 2} * leaf < bytes) << bytes << " of " << leaf;
    }
  EXPECT_EQ(buddy_mask(1), 1u);
  EXPECT_EQ(buddy_mask(32), 0xffffffffu);
  EXPECT_EQ(buddy_mask(64), ~std::uint64_t{0});
}

// As the device does it: the first of those that are free.
std::optional<std::uint32_t> allocate(std::uint64_t& free, std::uint32_t many) {
  for (std::uint32_t n = 0; n < kLeaves; ++n) {
    if (!is_buddy_free(free, n, many)) continue;
    free &= ~(buddy_mask(many) << n * many);
    return n * many;
  }
  return std::nullopt;
}

TEST(Buddies, RandomAllocations_NeverOverlap_AndFailOnlyWhereNoneIsFree) {
  const auto seed = std::random_device()();
  SCOPED_TRACE(testing::Message() << "seed " << seed);
  std::mt19937 random(seed);
  std::size_t refused_by_fragments = 0, full = 0;
  for (int round = 0; round < 300; ++round) {
    std::uint64_t free = ~std::uint64_t{0};
    std::vector<bool> taken(kLeaves);
    struct Range {
      std::uint32_t first, many;
    };
    std::vector<Range> ranges;
    for (int step = 0; step < 200; ++step) {
      if (!ranges.empty() && random() % 3 == 0) {
        const std::size_t which = random() % ranges.size();
        const Range range = ranges[which];
        free |= buddy_mask(range.many) << range.first;
        for (std::uint32_t leaf = 0; leaf < range.many; ++leaf) taken[range.first + leaf] = false;
        ranges.erase(ranges.begin() + static_cast<std::ptrdiff_t>(which));
      } else {
        const std::uint32_t many = 1u << random() % 7;
        bool fits = false;
        for (std::uint32_t first = 0; first < kLeaves; first += many) {
          bool all = true;
          for (std::uint32_t leaf = first; leaf < first + many; ++leaf) all = all && !taken[leaf];
          fits = fits || all;
        }
        const std::optional<std::uint32_t> first = allocate(free, many);
        ASSERT_EQ(first.has_value(), fits) << many << " leaves";
        if (!first) {
          refused_by_fragments += static_cast<std::uint32_t>(std::popcount(free)) >= many;
          full += free == 0;
          continue;
        }
        ASSERT_EQ(*first % many, 0u);
        for (std::uint32_t leaf = *first; leaf < *first + many; ++leaf) {
          ASSERT_FALSE(taken[leaf]);
          taken[leaf] = true;
        }
        ranges.push_back({*first, many});
      }
      for (std::uint32_t leaf = 0; leaf < kLeaves; ++leaf) ASSERT_EQ((free >> leaf & 1) == 0, taken[leaf]);
    }
    for (const Range& range : ranges) free |= buddy_mask(range.many) << range.first;
    ASSERT_EQ(free, ~std::uint64_t{0}) << "what is given back is one again";
    EXPECT_TRUE(is_buddy_free(free, 0, kLeaves));
  }
  EXPECT_GT(refused_by_fragments, 0u);
  EXPECT_GT(full, 0u);
}

}  // namespace
}  // namespace pergola::executor
