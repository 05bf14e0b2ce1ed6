#include "src/device/graph_order.h"

#include <gmock/gmock.h>

#include <random>

namespace pergola::device {
namespace {

using ::testing::ElementsAre;

// A node of `after`, which says by its pattern which one it is.
GraphSpec graph_of(std::vector<std::vector<NodeId>> after) {
  GraphSpec spec;
  for (std::size_t i = 0; i < after.size(); ++i)
    spec.nodes.push_back({FillNode{nullptr, 0, 0, static_cast<std::uint32_t>(i), 1}, std::move(after[i]), {}});
  return spec;
}

std::vector<std::uint32_t> order_of(const GraphSpec& spec) {
  std::vector<std::uint32_t> order;
  for (const GraphNode& node : spec.nodes) order.push_back(std::get<FillNode>(node.work).pattern);
  return order;
}

TEST(GraphOrder, ALongChainLaunchedLast_ComesFirst) {
  //  0   1   2      3 ─▶ 4 ─▶ 5
  const GraphSpec spec = graph_of({{}, {}, {}, {}, {3}, {4}});
  const std::optional<GraphSpec> ordered = longest_first(spec, {});
  ASSERT_TRUE(ordered);
  EXPECT_THAT(order_of(*ordered), ElementsAre(3, 4, 5, 0, 1, 2));
  EXPECT_THAT(ordered->nodes[1].after, ElementsAre(0));
  EXPECT_THAT(ordered->nodes[2].after, ElementsAre(1));
}

TEST(GraphOrder, ChainsThatMeet_ComeOneAfterTheOther) {
  //  0 ─▶ 1 ─┐
  //  2 ─▶ 3 ─▶ 4 ─▶ 5
  const GraphSpec spec = graph_of({{}, {0}, {}, {2}, {3}, {1, 4}});
  const std::optional<GraphSpec> ordered = longest_first(spec, {});
  ASSERT_TRUE(ordered);
  EXPECT_THAT(order_of(*ordered), ElementsAre(2, 3, 4, 0, 1, 5));
  EXPECT_THAT(ordered->nodes[5].after, ElementsAre(4, 2));
}

TEST(GraphOrder, WhatANodeTakes_Counts) {
  const GraphSpec spec = graph_of({{}, {0}, {}});
  const std::vector<double> weights{1, 1, 5};
  const std::optional<GraphSpec> ordered = longest_first(spec, weights);
  ASSERT_TRUE(ordered);
  EXPECT_THAT(order_of(*ordered), ElementsAre(2, 0, 1));
}

TEST(GraphOrder, AChainOrEqualNodes_StayAsTheyAre) {
  EXPECT_FALSE(longest_first(graph_of({{}, {0}, {1}}), {}));
  EXPECT_FALSE(longest_first(graph_of({{}, {}, {}}), {}));
  EXPECT_FALSE(longest_first(graph_of({}), {}));
}

TEST(GraphOrder, RandomGraphs_KeepTheirNodesAndDependencies) {
  for (unsigned seed = 1; seed <= 200; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937 random(seed);
    std::vector<std::vector<NodeId>> after(1 + random() % 20);
    std::vector<double> weights;
    for (std::size_t i = 0; i < after.size(); ++i) {
      for (NodeId j = 0; j < i; ++j)
        if (random() % 4 == 0) after[i].push_back(j);
      weights.push_back(1 + static_cast<double>(random() % 100));
    }
    const std::optional<GraphSpec> ordered = longest_first(graph_of(after), weights);
    if (!ordered) continue;
    const std::vector<std::uint32_t> order = order_of(*ordered);
    ASSERT_EQ(order.size(), after.size());
    std::vector<std::size_t> place(order.size(), order.size());
    for (std::size_t i = 0; i < order.size(); ++i) {
      ASSERT_EQ(place.at(order[i]), order.size()) << "twice";
      place[order[i]] = i;
    }
    for (std::size_t i = 0; i < order.size(); ++i) {
      std::vector<NodeId> named;
      for (const NodeId earlier : ordered->nodes[i].after) {
        EXPECT_LT(earlier, i);
        named.push_back(order[earlier]);
      }
      EXPECT_THAT(named, ::testing::UnorderedElementsAreArray(after[order[i]]));
    }
  }
}

}  // namespace
}  // namespace pergola::device
