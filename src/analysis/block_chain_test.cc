#include "src/analysis/block_chain.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>
#include <set>

#include "src/analysis/test_launches.h"

namespace pergola::analysis {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using Parent = ChainStep::Parent;

struct Launches {
  std::vector<LaunchFootprint> footprints;
  std::vector<ChainStep> plan(const ChainOptions& options = {}) {
    std::vector<ChainLaunch> launches(footprints.size());
    for (std::size_t i = 0; i < launches.size(); ++i)
      launches[i].footprint = std::make_shared<const LaunchFootprint>(footprints[i]);
    return plan_chain(launches, options);
  }
};

std::vector<Parent> parents(const ChainStep& step, std::uint32_t block) {
  const auto list = step.parents_of(block);
  return {list.begin(), list.end()};
}

TEST(BlockChain, EachBlock_WaitsForWhatItReads) {
  Launches chain{{launch_of(4, {{0, true, 0, 4}}), launch_of(4, {{0, false, -4, 4, 8}, {1, true, 0, 4}})}};
  const auto steps = chain.plan();
  EXPECT_FALSE(steps[1].waits_for_all);
  EXPECT_TRUE(steps[0].signals);
  EXPECT_FALSE(steps[1].signals);
  EXPECT_THAT(parents(steps[1], 0), ElementsAre(Parent{0, 0}));
  EXPECT_THAT(parents(steps[1], 2), ElementsAre(Parent{0, 1}, Parent{0, 2}));
}

// Every hazard counts, and every unfinished launch: not only what is read, and not only the launch before.
TEST(BlockChain, WritesWaitForReadersAndWriters_OfEveryUnfinishedLaunch) {
  Launches chain{{launch_of(2, {{0, false, 0, 4}, {1, true, 0, 4}}), launch_of(2, {{2, true, 0, 4}}),
                  launch_of(2, {{0, true, 0, 4}}), launch_of(2, {{1, true, 4, -4}})}};
  const auto steps = chain.plan({.most_running = 100});
  EXPECT_TRUE(steps[1].first_parent.empty());
  EXPECT_THAT(parents(steps[2], 1), ElementsAre(Parent{0, 1})) << "WAR, two launches back";
  EXPECT_THAT(parents(steps[3], 0), ElementsAre(Parent{0, 1})) << "WAW, three launches back";
}

TEST(BlockChain, WhatAParentHasWaitedFor_IsLeftOut) {
  std::vector<LaunchFootprint> same(3, launch_of(3, {{0, true, 0, 4}}));
  Launches chain{same};
  const auto steps = chain.plan({.most_running = 100});
  EXPECT_THAT(parents(steps[2], 1), ElementsAre(Parent{1, 1}));
}

TEST(BlockChain, ALaunchThatLimits_EndsTheLookBack) {
  // 0 and 3 conflict; 1 and 2 with nobody. With three running launch 1 limits: 2 starts after 0 has ended.
  Launches chain{{launch_of(2, {{0, true, 0, 4}}), launch_of(2, {{1, true, 0, 4}}), launch_of(2, {{2, true, 0, 4}}),
                  launch_of(2, {{0, false, 0, 4}})}};
  const auto bounded = chain.plan({.most_running = 3});
  EXPECT_TRUE(bounded[1].limits);
  EXPECT_TRUE(bounded[3].first_parent.empty());
  EXPECT_FALSE(bounded[3].waits_for_all);
  const auto unbounded = chain.plan({.most_running = 100});
  EXPECT_THAT(parents(unbounded[3], 1), ElementsAre(Parent{0, 1}));
}

TEST(BlockChain, TooManyParents_OrUnknownAccesses_WaitForAll) {
  Launches chain{{launch_of(9, {{0, true, 0, 4}}), launch_of(2, {{0, false, 0, 0, 36}})}};
  EXPECT_EQ(chain.plan({.most_parents = 9})[1].parents.size(), 18u);
  const auto few = chain.plan({.most_parents = 8});
  EXPECT_TRUE(few[1].waits_for_all);
  EXPECT_FALSE(few[0].signals);
  EXPECT_THAT(few[1].parents, IsEmpty());
  EXPECT_NE(few[1].reason, "");

  std::vector<ChainLaunch> launches(3);
  launches[0].footprint = std::make_shared<const LaunchFootprint>(chain.footprints[0]);
  launches[1].unknown_reason = "nobody has its code";
  launches[2].footprint = launches[0].footprint;
  const auto steps = plan_chain(launches);
  EXPECT_EQ(steps[1].reason, "nobody has its code");
  EXPECT_TRUE(steps[2].waits_for_all) << "of the unknown one";
}

TEST(BlockChain, WithoutBlocks_SharedAllocationsDecide) {
  Launches chain{{launch_of(2, {{0, true, 0, 4}}), launch_of(2, {{1, true, 0, 4}}), launch_of(2, {{0, true, 400, 4}})}};
  for (LaunchFootprint& one : chain.footprints)
    for (AccessFootprint& access : one.accesses) access.places = {}, access.shapes.clear();
  const auto steps = chain.plan({.by_block = false, .most_running = 100});
  EXPECT_FALSE(steps[1].waits_for_all);
  EXPECT_TRUE(steps[2].waits_for_all) << "disjoint bytes of one allocation, which nobody has looked at";
}

// Whatever the plan leaves out, two blocks that conflict are ordered by it: directly, through others, or by the ends of
// launches.
TEST(BlockChain, RandomChains_OrderAllThatConflicts) {
  const unsigned seed = std::random_device{}();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937 random(seed);
  const auto below = [&](std::uint32_t n) { return static_cast<std::uint32_t>(random() % n); };
  std::size_t by_block = 0;
  for (int round = 0; round < 300; ++round) {
    Launches chain;
    const std::uint32_t length = 2 + below(8);
    for (std::uint32_t k = 0; k < length; ++k) {
      std::vector<BlockUse> uses;
      for (std::uint32_t u = 0; u < 1 + below(3); ++u)
        uses.push_back({below(3), below(2) == 0, 4 * static_cast<std::int64_t>(below(4)),
                        4 * static_cast<std::int64_t>(below(4)), 4 * (1 + static_cast<std::int64_t>(below(3)))});
      chain.footprints.push_back(launch_of(1 + below(6), uses));
    }
    const std::vector<ChainStep> steps = chain.plan({.most_running = 2 + below(6), .most_parents = 1 + below(8)});
    // reached[k][b]: the blocks that have ended when block b of launch k starts its work.
    std::vector<std::vector<std::set<std::pair<std::uint32_t, std::uint32_t>>>> reached(length);
    std::uint32_t ended = 0;  // launches before it have ended when the next starts
    for (std::uint32_t k = 0; k < length; ++k) {
      if (k >= 2 && steps[k - 1].limits) ended = k - 1;
      for (std::uint32_t b = 0; b < chain.footprints[k].blocks(); ++b) {
        auto& before = reached[k].emplace_back();
        for (std::uint32_t j = 0; j < (steps[k].waits_for_all ? k : ended); ++j)
          for (std::uint32_t p = 0; p < chain.footprints[j].blocks(); ++p) before.emplace(j, p);
        for (const Parent& parent : steps[k].parents_of(b)) {
          ++by_block;
          before.emplace(parent.launch, parent.block);
          before.insert(reached[parent.launch][parent.block].begin(), reached[parent.launch][parent.block].end());
        }
        for (std::uint32_t j = 0; j < k; ++j) {
          const BlockRelation relation = block_dependencies(chain.footprints[j], chain.footprints[k]);
          for (std::uint32_t p = 0; p < relation.parents; ++p) {
            const auto list = relation.parents_of(b);
            const bool needed = relation.pattern == BlockPattern::kFull || std::ranges::count(list, p) != 0;
            if (needed) {
              ASSERT_TRUE(before.contains({j, p})) << "round " << round << ": block " << b << " of launch " << k
                                                   << " needs block " << p << " of launch " << j;
            }
          }
        }
      }
    }
  }
  EXPECT_GT(by_block, 1000u) << "or nothing was tested";
}

}  // namespace
}  // namespace pergola::analysis
