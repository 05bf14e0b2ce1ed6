#include "src/analysis/block_lists.h"

#include <gtest/gtest.h>

#include <random>
#include <set>

namespace pergola::analysis {
namespace {

std::set<std::uint32_t> blocks_of(const BlockList& ranges) {
  std::set<std::uint32_t> result;
  for (const BlockInterval& range : ranges) {
    for (std::uint32_t i = range.begin; i < range.end; ++i) result.insert(i);
  }
  return result;
}

void expect_normal(const BlockList& ranges) {
  for (std::size_t i = 0; i < ranges.size(); ++i) {
    EXPECT_LT(ranges[i].begin, ranges[i].end);
    if (i > 0) {
      EXPECT_GT(ranges[i].begin, ranges[i - 1].end);
    }
  }
}

class BlockLists : public testing::Test {
 protected:
  BlockList random_ranges() {
    BlockList result;
    for (std::uint32_t i = 0, count = static_cast<std::uint32_t>(random_() % 6); i < count; ++i) {
      const auto begin = static_cast<std::uint32_t>(random_() % 40);
      result.push_back({begin, begin + 1 + static_cast<std::uint32_t>(random_() % 5)});
    }
    return result;
  }
  const std::uint64_t seed_ = std::random_device{}();
  std::mt19937_64 random_{seed_};
};

TEST_F(BlockLists, NormalizedAndUnited_HaveTheSameBlocks) {
  SCOPED_TRACE(testing::Message() << "seed " << seed_);
  for (int i = 0; i < 2000; ++i) {
    BlockList a = random_ranges(), b = random_ranges();
    const auto of_a = blocks_of(a), of_b = blocks_of(b);
    normalize(a), normalize(b);
    expect_normal(a);
    ASSERT_EQ(blocks_of(a), of_a);
    ASSERT_EQ(size(a), of_a.size());
    const BlockList both = united(a, b);
    expect_normal(both);
    std::set<std::uint32_t> of_both = of_a;
    of_both.insert(of_b.begin(), of_b.end());
    ASSERT_EQ(blocks_of(both), of_both);
  }
}

TEST_F(BlockLists, Numbers_AreEqualWhereListsAre) {
  BlockListPool pool;
  EXPECT_EQ(pool.number_of({}), 0u);
  EXPECT_EQ(pool.number_of({{1, 4}}), 1u);
  EXPECT_EQ(pool.number_of({{1, 4}, {6, 7}}), 2u);
  EXPECT_EQ(pool.number_of({{1, 4}}), 1u);
  EXPECT_EQ(pool.number_of({}), 0u);
  EXPECT_EQ(pool.lists(), 3u);
  EXPECT_EQ(pool.ranges(), 3u);
  for (std::uint32_t i = 10; i < 2000; ++i) ASSERT_EQ(pool.number_of({{i, i + 1}}), i - 7);
  for (std::uint32_t i = 10; i < 2000; ++i) ASSERT_EQ(pool.number_of({{i, i + 1}}), i - 7);
}

}  // namespace
}  // namespace pergola::analysis
