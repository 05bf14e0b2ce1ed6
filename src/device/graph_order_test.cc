#include "src/device/graph_order.h"

#include <gmock/gmock.h>

#include <random>

#include "src/device/test_graphs.h"

namespace pergola::device {
namespace {

using ::testing::ElementsAre;

TEST(GraphOrder, ALongChainLaunchedLast_ComesFirst) {
  //  0   1   2      3 ─▶ 4 ─▶ 5
  const GraphSpec spec = graph_of({{}, {}, {}, {}, {3}, {4}});
  const GraphSpec ordered = in_order(spec, longest_first(spec, {}));
  EXPECT_THAT(order_of(ordered), ElementsAre(3, 4, 5, 0, 1, 2));
  EXPECT_THAT(ordered.nodes[1].after, ElementsAre(0));
  EXPECT_THAT(ordered.nodes[2].after, ElementsAre(1));
}

TEST(GraphOrder, ChainsThatMeet_ComeOneAfterTheOther) {
  //  0 ─▶ 1 ─┐
  //  2 ─▶ 3 ─▶ 4 ─▶ 5
  const GraphSpec spec = graph_of({{}, {0}, {}, {2}, {3}, {1, 4}});
  const GraphSpec ordered = in_order(spec, longest_first(spec, {}));
  EXPECT_THAT(order_of(ordered), ElementsAre(2, 3, 4, 0, 1, 5));
  EXPECT_THAT(ordered.nodes[5].after, ElementsAre(4, 2));
}

TEST(GraphOrder, WhatANodeTakes_Counts) {
  const GraphSpec spec = graph_of({{}, {0}, {}});
  const std::vector<double> weights{1, 1, 5};
  const GraphSpec ordered = in_order(spec, longest_first(spec, weights));
  EXPECT_THAT(order_of(ordered), ElementsAre(2, 0, 1));
}

TEST(GraphOrder, AChainOrEqualNodes_StayAsTheyAre) {
  EXPECT_THAT(longest_first(graph_of({{}, {0}, {1}}), {}), ElementsAre(0, 1, 2));
  EXPECT_THAT(longest_first(graph_of({{}, {}, {}}), {}), ElementsAre(0, 1, 2));
  EXPECT_THAT(longest_first(graph_of({}), {}), ElementsAre());
}

TEST(GraphOrder, OfRandomGraphs_EachComesAfterWhatItDependsOn) {
  std::mt19937 random(7);
  for (int round = 0; round < 200; ++round) {
    std::vector<std::vector<NodeId>> after(random() % 20);
    std::vector<double> weights;
    for (std::size_t i = 0; i < after.size(); ++i) {
      for (NodeId earlier = 0; earlier < i; ++earlier)
        if (random() % 4 == 0) after[i].push_back(earlier);
      weights.push_back(random() % 3);
    }
    const GraphSpec spec = graph_of(std::move(after));
    in_order(spec, longest_first(spec, weights));  // which checks it
  }
}

//  0 ─▶ 1 ─▶ 4      0 and 2 become one, and 3 and 4: what 1 waits for waits for more, and 3 for it
//  2 ─▶ 3    5
TEST(JoinedOrder, EachComesAfterAllThatItsMembersDependOn_AndElseAsItWas) {
  const GraphSpec spec = graph_of({{}, {0}, {}, {2}, {1}, {}});
  EXPECT_THAT(joined_order(spec, std::vector<NodeId>{0, 1, 2, 3, 4, 5}), ElementsAre(0, 1, 2, 3, 4, 5));
  EXPECT_THAT(joined_order(spec, std::vector<NodeId>{0, 1, 0, 3, 3, 5}), ElementsAre(0, 1, 3, 5));
  EXPECT_THAT(joined_order(spec, std::vector<NodeId>{0, 1, 1, 3, 4, 5}), ElementsAre(0, 1, 3, 4, 5));
  const GraphSpec chain = graph_of({{}, {0}, {}, {2}});
  EXPECT_THAT(joined_order(chain, std::vector<NodeId>{0, 1, 2, 0}), ElementsAre(2, 0, 1)) << "0 waits for 2 then";
}

TEST(GraphPriorities, TheLongestWayHasTheHighest_AndWhatCanWaitALowerOne) {
  //  0 ─▶ 1 ─▶ 4      2 and 3 could wait a tenth and half of it
  //  2 ──────▶ 4
  //  3
  GraphSpec spec = graph_of({{}, {0}, {}, {}, {1, 2}});
  for (GraphNode& node : spec.nodes) node.work = KernelNode{};
  const std::vector<double> weights{4, 4, 7, 5, 2};
  const auto priorities_of = [](const GraphSpec& made) {
    std::vector<int> all;
    for (const GraphNode& node : made.nodes) all.push_back(node.priority);
    return all;
  };
  EXPECT_THAT(priorities_of(with_priorities(spec, weights)),
              ElementsAre(kMostPriority, kMostPriority, 3, 0, kMostPriority));
  spec.nodes[0].work = FillNode{};
  EXPECT_THAT(priorities_of(with_priorities(spec, weights)), ElementsAre(0, kMostPriority, 3, 0, kMostPriority));
  for (const auto& after : std::vector<std::vector<std::vector<NodeId>>>{{{}, {0}, {1}}, {{}, {}, {}}}) {
    GraphSpec alike = graph_of(after);
    for (GraphNode& node : alike.nodes) node.work = KernelNode{};
    EXPECT_THAT(priorities_of(with_priorities(alike, {})), ElementsAre(0, 0, 0))
        << "a chain, and launches side by side";
  }
}

// Of a kind, and nothing else.
class SomeMemory final : public Buffer {
 public:
  explicit SomeMemory(MemoryKind kind) : kind_(kind) {}
  DeviceAddress address() const override { return 0; }
  std::size_t size_bytes() const override { return 1; }
  MemoryKind kind() const override { return kind_; }
  std::byte* host_pointer() const override { return nullptr; }

 private:
  const MemoryKind kind_;
};

TEST(UploadsSideBySide, AreThoseBehindNoOther) {
  const auto device = std::make_shared<SomeMemory>(MemoryKind::kDevice),
             host = std::make_shared<SomeMemory>(MemoryKind::kHostVisible);
  //  0 up    1 up    2 up    3 up ─▶ 4 ─▶ 5 up    6 down
  GraphSpec spec = graph_of({{}, {}, {}, {}, {3}, {4}, {}});
  EXPECT_EQ(uploads_side_by_side(spec), 0u) << "nothing is copied yet";
  for (const std::size_t up : {0, 1, 2, 3, 5}) spec.nodes[up].work = CopyNode{device, 0, host, 0, 1};
  spec.nodes[6].work = CopyNode{host, 0, device, 0, 1};
  EXPECT_EQ(uploads_side_by_side(spec), 4u);
  EXPECT_EQ(uploads_side_by_side(*copies_in_rows(spec)), 2u);
  EXPECT_EQ(uploads_side_by_side(*uploads_in_a_row(spec)), 1u);
  spec.nodes[4].after.clear(), spec.nodes[4].early_after = 3;
  EXPECT_EQ(uploads_side_by_side(spec), 4u) << "5 comes after 3 as before";
}

TEST(UploadsInARow, EachComesAfterTheOneBefore_AndNothingElseChanges) {
  const auto device = std::make_shared<SomeMemory>(MemoryKind::kDevice),
             host = std::make_shared<SomeMemory>(MemoryKind::kHostVisible);
  //  0 up ─▶ 1    2 up ─▶ 3 ─▶ 4 up, after what it overwrites    5 down    6 up
  GraphSpec spec = graph_of({{}, {0}, {}, {2}, {3}, {3}, {}});
  for (const std::size_t up : {0, 2, 4, 6}) spec.nodes[up].work = CopyNode{device, 0, host, 0, 1};
  spec.nodes[5].work = CopyNode{host, 0, device, 0, 1};
  const std::optional<GraphSpec> in_a_row = uploads_in_a_row(spec);
  ASSERT_TRUE(in_a_row);
  ASSERT_EQ(in_a_row->nodes.size(), spec.nodes.size());
  EXPECT_THAT(in_a_row->nodes[2].after, ElementsAre(0));
  EXPECT_THAT(in_a_row->nodes[6].after, ElementsAre(2));
  for (const std::size_t same : {0, 1, 3, 4, 5}) EXPECT_EQ(in_a_row->nodes[same].after, spec.nodes[same].after) << same;
}

TEST(UploadsInARow, OneAlone_NeedsNoRow) {
  const auto device = std::make_shared<SomeMemory>(MemoryKind::kDevice),
             host = std::make_shared<SomeMemory>(MemoryKind::kHostVisible);
  GraphSpec spec = graph_of({{}, {0}, {}});
  spec.nodes[0].work = CopyNode{device, 0, host, 0, 1};
  spec.nodes[2].work = CopyNode{device, 0, device, 0, 1};
  EXPECT_FALSE(uploads_in_a_row(spec));
}

TEST(CopiesInRows, UploadsAreTwo_AndDownloadsOne) {
  const auto device = std::make_shared<SomeMemory>(MemoryKind::kDevice),
             host = std::make_shared<SomeMemory>(MemoryKind::kHostVisible);
  //  0 to 4 up    5 to 7 down after 0 to 2    8 a launch ─▶ 10 up    9 down after 7 already
  GraphSpec spec = graph_of({{}, {}, {}, {}, {}, {0}, {1}, {2}, {}, {7}, {8}});
  for (const std::size_t up : {0, 1, 2, 3, 4, 10}) spec.nodes[up].work = CopyNode{device, 0, host, 0, 1};
  for (const std::size_t down : {5, 6, 7, 9}) spec.nodes[down].work = CopyNode{host, 0, device, 0, 1};
  const std::optional<GraphSpec> in_rows = copies_in_rows(spec);
  ASSERT_TRUE(in_rows);
  EXPECT_THAT(in_rows->nodes[2].after, ElementsAre(0));
  EXPECT_THAT(in_rows->nodes[3].after, ElementsAre(1));
  EXPECT_THAT(in_rows->nodes[4].after, ElementsAre(2));
  EXPECT_THAT(in_rows->nodes[6].after, ElementsAre(1, 5));
  EXPECT_THAT(in_rows->nodes[7].after, ElementsAre(2, 6));
  for (const std::size_t same : {0, 1, 5, 8, 9, 10})
    EXPECT_EQ(in_rows->nodes[same].after, spec.nodes[same].after) << same;
}

TEST(CopiesInRows, DownloadsAlone_AreARow_AndWhatIsOneAlready_IsTheSameGraph) {
  const auto device = std::make_shared<SomeMemory>(MemoryKind::kDevice),
             host = std::make_shared<SomeMemory>(MemoryKind::kHostVisible);
  GraphSpec spec = graph_of({{}, {}, {}});
  spec.nodes[0].work = CopyNode{device, 0, host, 0, 1};
  for (const std::size_t down : {1, 2}) spec.nodes[down].work = CopyNode{host, 0, device, 0, 1};
  const std::optional<GraphSpec> in_rows = copies_in_rows(spec);
  ASSERT_TRUE(in_rows);
  EXPECT_THAT(in_rows->nodes[2].after, ElementsAre(1));
  EXPECT_FALSE(copies_in_rows(*in_rows));
}

TEST(EnginesInRows, CopiesEachWay_AndLaunches_AreARowEach_WithoutEdgesThatOthersImply) {
  const auto device = std::make_shared<SomeMemory>(MemoryKind::kDevice),
             host = std::make_shared<SomeMemory>(MemoryKind::kHostVisible);
  //  three times up, launch, down; then a launch after the first and the last of the launches, and an upload after it
  GraphSpec spec = graph_of({{}, {0}, {1}, {}, {3}, {4}, {}, {6}, {7}, {1, 7}, {9}});
  for (const std::size_t up : {0, 3, 6, 10}) spec.nodes[up].work = CopyNode{device, 0, host, 0, 1};
  for (const std::size_t down : {2, 5, 8}) spec.nodes[down].work = CopyNode{host, 0, device, 0, 1};
  for (const std::size_t launch : {1, 4, 7, 9}) spec.nodes[launch].work = KernelNode{};
  const std::optional<GraphSpec> in_rows = engines_in_rows(spec);
  ASSERT_TRUE(in_rows);
  EXPECT_THAT(in_rows->nodes[3].after, ElementsAre(0));
  EXPECT_THAT(in_rows->nodes[4].after, ElementsAre(1, 3));
  EXPECT_THAT(in_rows->nodes[5].after, ElementsAre(2, 4));
  EXPECT_THAT(in_rows->nodes[6].after, ElementsAre(3));
  EXPECT_THAT(in_rows->nodes[7].after, ElementsAre(4, 6));
  EXPECT_THAT(in_rows->nodes[8].after, ElementsAre(5, 7));
  EXPECT_THAT(in_rows->nodes[9].after, ElementsAre(7)) << "launch 1 comes before 7 in the row";
  for (const std::size_t same : {0, 1, 2, 10}) EXPECT_EQ(in_rows->nodes[same].after, spec.nodes[same].after) << same;
  EXPECT_FALSE(engines_in_rows(*in_rows)) << "it is in rows";
}

TEST(EnginesInRows, LaunchesAlone_AndWhatIsOneOfEachKind_AreTheSameGraph) {
  GraphSpec launches = graph_of({{}, {}, {0, 1}});
  for (GraphNode& node : launches.nodes) node.work = KernelNode{};
  EXPECT_FALSE(engines_in_rows(launches));
  const auto device = std::make_shared<SomeMemory>(MemoryKind::kDevice),
             host = std::make_shared<SomeMemory>(MemoryKind::kHostVisible);
  GraphSpec spec = graph_of({{}, {0}, {1}});
  spec.nodes[0].work = CopyNode{device, 0, host, 0, 1};
  spec.nodes[1].work = KernelNode{};
  spec.nodes[2].work = CopyNode{host, 0, device, 0, 1};
  EXPECT_FALSE(engines_in_rows(spec));
}

// Whatever the graph: what came before a node still does.
TEST(EnginesInRows, RandomGraphs_KeepTheirOrder) {
  const auto device = std::make_shared<SomeMemory>(MemoryKind::kDevice),
             host = std::make_shared<SomeMemory>(MemoryKind::kHostVisible);
  const auto comes_before = [](const GraphSpec& spec) {
    std::vector<std::vector<bool>> before(spec.nodes.size(), std::vector<bool>(spec.nodes.size(), false));
    for (std::size_t i = 0; i < spec.nodes.size(); ++i)
      for (const NodeId earlier : spec.nodes[i].after) {
        EXPECT_LT(earlier, i);
        before[i][earlier] = true;
        for (std::size_t j = 0; j < earlier; ++j) before[i][j] = before[i][j] || before[earlier][j];
      }
    return before;
  };
  std::size_t changed = 0;
  for (unsigned seed = 1; seed <= 300; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937 random(seed);
    std::vector<std::vector<NodeId>> after(2 + random() % 20);
    for (std::size_t i = 0; i < after.size(); ++i)
      for (NodeId j = 0; j < i; ++j)
        if (random() % 5 == 0) after[i].push_back(j);
    GraphSpec spec = graph_of(after);
    for (GraphNode& node : spec.nodes) {
      const unsigned kind = random() % 5;  // 4: a fill, which is in no row
      if (kind == 0) node.work = CopyNode{device, 0, host, 0, 1};
      if (kind == 1) node.work = CopyNode{host, 0, device, 0, 1};
      if (kind == 2 || kind == 3) node.work = KernelNode{};
    }
    const std::optional<GraphSpec> in_rows = engines_in_rows(spec);
    if (!in_rows) continue;
    ++changed;
    const auto was = comes_before(spec), is = comes_before(*in_rows);
    for (std::size_t i = 0; i < was.size(); ++i)
      for (std::size_t j = 0; j < i; ++j) EXPECT_TRUE(!was[i][j] || is[i][j]) << j << " before " << i;
    EXPECT_FALSE(engines_in_rows(*in_rows));
  }
  EXPECT_GT(changed, 200u);
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
    const GraphSpec ordered = in_order(graph_of(after), longest_first(graph_of(after), weights));
    const std::vector<std::uint32_t> order = order_of(ordered);
    ASSERT_EQ(order.size(), after.size());
    std::vector<std::size_t> place(order.size(), order.size());
    for (std::size_t i = 0; i < order.size(); ++i) {
      ASSERT_EQ(place.at(order[i]), order.size()) << "twice";
      place[order[i]] = i;
    }
    for (std::size_t i = 0; i < order.size(); ++i) {
      std::vector<NodeId> named;
      for (const NodeId earlier : ordered.nodes[i].after) {
        EXPECT_LT(earlier, i);
        named.push_back(order[earlier]);
      }
      EXPECT_THAT(named, ::testing::UnorderedElementsAreArray(after[order[i]]));
    }
  }
}

}  // namespace
}  // namespace pergola::device
