#include "src/analysis/block_columns.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>
#include <memory>
#include <numeric>
#include <random>

#include "src/analysis/test_launches.h"

namespace pergola::analysis {
namespace {

using testing::ElementsAre;

ChainLaunch column_launch(std::uint32_t blocks, const std::vector<BlockUse>& uses) {
  ChainLaunch launch;
  launch.footprint = std::make_shared<const LaunchFootprint>(launch_of(blocks, uses));
  return launch;
}

// Each block makes of its element of one array that of another.
ChainLaunch map_of(std::uint32_t blocks, AllocationId from, AllocationId to) {
  return column_launch(blocks, {{from, false, 0, 4}, {to, true, 0, 4}});
}

TEST(BlockColumns, ElementByElement_IsAColumnABlock) {
  EXPECT_THAT(find_columns(std::vector{map_of(12, 0, 1), map_of(12, 1, 2), map_of(12, 2, 0)}),
              ElementsAre(ColumnRun{0, 3, 12}));
}

TEST(BlockColumns, GridsOfDifferentSizes_FallIntoPartsOfEach) {
  const std::vector launches{map_of(8, 0, 1), column_launch(4, {{1, false, 0, 8, 8}, {2, true, 0, 4}}),
                             column_launch(8, {{2, false, 0, 2, 2}, {3, true, 0, 4}})};
  EXPECT_THAT(find_columns(launches), ElementsAre(ColumnRun{0, 3, 4}));
}

// Of every pair, not of those that follow each other alone; and of what is overwritten.
TEST(BlockColumns, AConflictTwoLaunchesBack_Counts) {
  const std::vector launches{map_of(8, 0, 1), map_of(8, 1, 2), column_launch(8, {{2, false, 0, 4}, {0, true, 28, -4}})};
  EXPECT_THAT(find_columns(launches), ElementsAre(ColumnRun{0, 2, 8}, ColumnRun{2, 1, 1}));
}

TEST(BlockColumns, Neighbours_MakeNoColumns) {
  const std::vector launches{map_of(8, 0, 1), column_launch(8, {{1, false, -4, 4, 12}, {2, true, 0, 4}})};
  EXPECT_THAT(find_columns(launches), ElementsAre(ColumnRun{0, 1, 1}, ColumnRun{1, 1, 1}));
}

TEST(BlockColumns, GroupsOfBlocks_AreWiderColumns_UpToALimit) {
  const std::vector launches{map_of(16, 0, 1), column_launch(16, {{1, false, 0, 4, 16, 4}, {2, true, 0, 4}})};
  EXPECT_THAT(find_columns(launches), ElementsAre(ColumnRun{0, 2, 4}));
  EXPECT_THAT(find_columns(launches, {.most_blocks_of_column = 3}),
              ElementsAre(ColumnRun{0, 1, 1}, ColumnRun{1, 1, 1}));
}

// A block needs the one of its number, and the one half the grid further on.
TEST(BlockColumns, BlocksFarApart_AreStridedColumns) {
  const ChainLaunch check = column_launch(4, {{1, false, 0, 4}, {1, false, 16, 4}, {2, true, 0, 4}});
  EXPECT_THAT(find_columns(std::vector{map_of(8, 0, 1), check}), ElementsAre(ColumnRun{0, 2, 4, true}));
  EXPECT_THAT(find_columns(std::vector{map_of(8, 0, 1), map_of(8, 1, 0), check, map_of(8, 0, 1)}),
              ElementsAre(ColumnRun{0, 4, 4, true}));
  EXPECT_THAT(find_columns(std::vector{map_of(8, 0, 1),
                                       column_launch(4, {{1, false, 0, 4}, {1, false, 12, 4}, {2, true, 0, 4}})}),
              ElementsAre(ColumnRun{0, 1, 1}, ColumnRun{1, 1, 1}))
      << "three blocks further on divides no grid";
}

TEST(BlockColumns, WhatNeedsNothingOfTheRun_BeginsItsOwn) {
  const std::vector launches{map_of(4, 0, 1), map_of(4, 1, 0), map_of(4, 2, 3), map_of(4, 3, 2)};
  EXPECT_THAT(find_columns(launches), ElementsAre(ColumnRun{0, 2, 4}, ColumnRun{2, 2, 4}));
  EXPECT_THAT(find_columns(launches, {.shortest = 3}), ElementsAre(ColumnRun{0, 4, 4}));
}

TEST(BlockColumns, WhatIsNotKnown_IsAlone) {
  auto anything = std::make_shared<LaunchFootprint>(*map_of(4, 1, 2).footprint);
  anything->reads_anything = true;
  auto waiting = std::make_shared<LaunchFootprint>(*map_of(4, 1, 2).footprint);
  waiting->may_wait = true;
  std::vector launches(6, map_of(4, 0, 1));
  launches[1].footprint = anything;
  launches[2].footprint = nullptr;
  launches[3].is_plain = true;
  launches[4].footprint = waiting;
  std::vector<ColumnRun> alone;
  for (std::size_t i = 0; i < launches.size(); ++i) alone.push_back({i, 1, 1});
  EXPECT_EQ(find_columns(launches), alone);
  EXPECT_EQ(find_columns(std::vector{map_of(4, 0, 1), map_of(4, 1, 2)}, {.most_blocks = 3}).size(), 2u);
  EXPECT_EQ(find_columns(std::vector{map_of(4, 0, 1), map_of(4, 1, 2)},
                         {.may_join = [](std::size_t, std::size_t) { return false; }})
                .size(),
            2u);
  EXPECT_TRUE(find_columns({}).empty());
}

// All pairs of blocks of all launches of a run, byte by byte.
bool conflict(const ChainLaunch& a, std::uint32_t block, const ChainLaunch& b, std::uint32_t other) {
  for (const AccessFootprint& one : a.footprint->accesses)
    for (const AccessFootprint& two : b.footprint->accesses) {
      if (one.allocation != two.allocation || (!one.writes && !two.writes)) continue;
      const std::int64_t x = one.places[block].first, y = two.places[other].first;
      if (x < y + static_cast<std::int64_t>(two.shapes[0].width) &&
          y < x + static_cast<std::int64_t>(one.shapes[0].width))
        return true;
    }
  return false;
}

bool are_columns(std::span<const ChainLaunch> run, std::uint32_t columns, bool is_strided) {
  const auto column = [&](std::uint32_t block, std::uint32_t of) {
    return is_strided ? block % columns : block / (of / columns);
  };
  for (std::size_t k = 1; k < run.size(); ++k)
    for (std::size_t j = 0; j < k; ++j) {
      const std::uint32_t m = run[j].footprint->blocks(), n = run[k].footprint->blocks();
      for (std::uint32_t a = 0; a < m; ++a)
        for (std::uint32_t b = 0; b < n; ++b)
          if (column(a, m) != column(b, n) && conflict(run[j], a, run[k], b)) return false;
    }
  return true;
}

TEST(BlockColumns, RandomRuns_HaveNoConflictBetweenColumns_AndAsManyAsCanBe) {
  const char* const given = std::getenv("PERGOLA_SEED");
  const unsigned seed = given == nullptr ? std::random_device{}() : static_cast<unsigned>(std::atol(given));
  std::printf("seed %u\n", seed);
  std::mt19937 random(seed);
  const auto below = [&](std::uint32_t n) { return static_cast<std::uint32_t>(random() % n); };
  int several = 0, wide = 0, strided = 0;
  for (int round = 0; round < 1500; ++round) {
    SCOPED_TRACE("seed " + std::to_string(seed) + ", round " + std::to_string(round));
    RelationCache cache;
    std::vector<ChainLaunch> launches;
    const std::uint32_t length = 2 + below(6);
    for (std::uint32_t k = 0; k < length; ++k) {
      if (k > 1 && below(3) == 0) {  // one that recurs
        launches.push_back(launches[below(k)]);
        continue;
      }
      const std::uint32_t sizes[] = {4, 8, 8, 16, 12};
      const std::uint32_t blocks = sizes[below(5)];
      // Of 48 bytes a block has its part, at times a little off it.
      const std::int64_t step = 48 / std::int64_t{blocks};
      std::vector<BlockUse> uses;
      for (std::uint32_t u = 0; u < 2; ++u) {
        BlockUse use{below(4), u == 1, 0, step, step};
        if (below(12) == 0) use.first = 1;
        if (below(5) == 0 && u == 0) use.group = 2, use.width = 2 * step;
        if (below(12) == 0) use.first = 47, use.step = -step, use.width = 1;
        if (below(20) == 0) use.step = 0;
        if (below(8) == 0 && blocks < 12) use.first = 24, use.step /= 2, use.width /= 2;  // in the second half
        uses.push_back(use);
      }
      launches.push_back(column_launch(blocks, uses));
    }
    ColumnOptions options;
    if (below(2) == 0) options.cache = &cache;
    std::size_t next = 0;
    for (const ColumnRun& run : find_columns(launches, options)) {
      ASSERT_EQ(run.first, next);
      next += run.count;
      if (run.count == 1) continue;
      ++several;
      const std::span<const ChainLaunch> part(launches.data() + run.first, run.count);
      std::uint32_t places = 0;
      for (const ChainLaunch& launch : part) places = std::gcd(places, launch.footprint->blocks());
      ASSERT_TRUE(run.columns >= 2 && places % run.columns == 0);
      ASSERT_TRUE(are_columns(part, run.columns, run.is_strided));
      wide += run.columns < places;
      strided += run.is_strided;
      for (std::uint32_t more = run.columns + 1; more <= places; ++more) {
        if (places % more == 0) {
          ASSERT_FALSE(are_columns(part, more, false) || are_columns(part, more, true)) << more;
        }
      }
    }
    ASSERT_EQ(next, launches.size());
  }
  EXPECT_GT(several, 300);
  EXPECT_GT(wide, 10);
  EXPECT_GT(strided, 10);
}

}  // namespace
}  // namespace pergola::analysis
