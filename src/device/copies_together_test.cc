#include "src/device/copies_together.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <map>
#include <random>
#include <set>
#include <tuple>

#include "src/device/graph_order.h"
#include "src/device/test_graphs.h"

namespace pergola::device {
namespace {

using ::testing::ElementsAre;

// Memory that is nowhere.
class Part final : public Buffer {
 public:
  Part(MemoryKind kind, DeviceAddress address, std::size_t size_bytes, const void* piece)
      : kind_(kind), address_(address), size_bytes_(size_bytes), piece_(piece) {}
  DeviceAddress address() const override { return address_; }
  std::size_t size_bytes() const override { return size_bytes_; }
  MemoryKind kind() const override { return kind_; }
  std::byte* host_pointer() const override { return nullptr; }
  const void* piece() const override { return piece_ != nullptr ? piece_ : this; }

 private:
  const MemoryKind kind_;
  const DeviceAddress address_;
  const std::size_t size_bytes_;
  const void* const piece_;
};

// Buffers one behind the other, as an allocator of packed memory gives them.
class Piece {
 public:
  explicit Piece(MemoryKind kind) : kind_(kind) {}
  BufferPtr take(std::size_t size_bytes, std::size_t gap_bytes = 0) {
    next_ += gap_bytes;
    auto made = std::make_shared<Part>(kind_, next_, size_bytes, this);
    next_ += (size_bytes + Buffer::kPieceAlignBytes - 1) / Buffer::kPieceAlignBytes * Buffer::kPieceAlignBytes;
    return made;
  }

 private:
  const MemoryKind kind_;
  DeviceAddress next_ = 1 << 20;
};

class CopiesTogetherTest : public ::testing::Test {
 protected:
  void add(BufferPtr to, BufferPtr from, std::vector<NodeId> after = {}) {
    const std::size_t bytes = to->size_bytes();
    spec.nodes.push_back({CopyNode{std::move(to), 0, std::move(from), 0, bytes}, std::move(after), {}});
  }
  void launch(std::vector<NodeId> after) { spec.nodes.push_back({KernelNode{}, std::move(after), {}}); }
  static const CopyNode& copy(const GraphSpec& of, NodeId node) { return std::get<CopyNode>(of.nodes[node].work); }

  Piece device{MemoryKind::kDevice}, host{MemoryKind::kHostVisible};
  GraphSpec spec;
};

//  ten times: up ─▶ launch ─▶ down, of 0.5 MB
TEST_F(CopiesTogetherTest, TenProblems_AreCopiedInTwos) {
  std::vector<BufferPtr> at_host[2];
  for (auto& side : at_host)
    for (int i = 0; i < 10; ++i) side.push_back(host.take(500'000));
  for (NodeId i = 0; i < 10; ++i) {
    add(device.take(500'000), at_host[0][i]);
    launch({3 * i});
    add(at_host[1][i], device.take(500'000), {3 * i + 1});
  }
  const auto together = copies_together(spec);
  ASSERT_TRUE(together);
  EXPECT_EQ(together->before, 20u);
  EXPECT_EQ(together->after, 10u);
  ASSERT_EQ(together->spec.nodes.size(), 20u);
  // up of 0 and 1, their launches, down of both; the next
  for (NodeId pair = 0; pair < 5; ++pair) {
    const NodeId first = 4 * pair;
    EXPECT_THAT(together->spec.nodes[first].after, ElementsAre()) << pair;
    EXPECT_THAT(together->spec.nodes[first + 1].after, ElementsAre(first));
    EXPECT_THAT(together->spec.nodes[first + 2].after, ElementsAre(first));
    EXPECT_THAT(together->spec.nodes[first + 3].after, ElementsAre(first + 1, first + 2));
    const CopyNode& up = copy(together->spec, first);
    ASSERT_EQ(up.more_rows.size(), 1u);
    EXPECT_EQ(up.source, at_host[0][2 * pair]);
    EXPECT_EQ(up.more_rows[0].source, at_host[0][2 * pair + 1]);
    const auto shape = copies_shape(up);
    ASSERT_TRUE(shape);
    EXPECT_EQ(shape->line_bytes, 0u) << "on the device what comes down lies between them";
    EXPECT_EQ(shape->destination_pitch_bytes, 2 * 500'224u);
    EXPECT_EQ(shape->source_pitch_bytes, 500'224u);
  }
}

TEST_F(CopiesTogetherTest, SmallOnesOfAllSizes_ThatLieInALine_AreOne) {
  const std::size_t sizes[] = {4, 1000, 512, 33};
  for (const std::size_t size : sizes) add(device.take(size), host.take(size));
  launch({0, 1, 2, 3});
  const auto together = copies_together(spec);
  ASSERT_TRUE(together);
  EXPECT_EQ(together->after, 1u);
  ASSERT_EQ(together->spec.nodes.size(), 2u);
  EXPECT_THAT(together->spec.nodes[1].after, ElementsAre(0));
  const auto shape = copies_shape(copy(together->spec, 0));
  ASSERT_TRUE(shape);
  EXPECT_EQ(shape->line_bytes, 512 + 1024 + 512 + 33u);
}

TEST_F(CopiesTogetherTest, WhatIsSomebodysBetweenThem_IsNotCopied) {
  add(device.take(4), host.take(4));
  add(device.take(1000, 512), host.take(1000, 512));  // another array lies there
  add(device.take(100), host.take(100, 512));         // not as far from each other on both sides
  EXPECT_FALSE(copies_together(spec));
}

TEST_F(CopiesTogetherTest, PartsOfBuffers_AreRowsButNoLine) {
  const BufferPtr to[] = {device.take(1000), device.take(1000)}, from[] = {host.take(1000), host.take(1000)};
  for (int i = 0; i < 2; ++i) spec.nodes.push_back({CopyNode{to[i], 8, from[i], 8, 900}, {}, {}});
  const auto together = copies_together(spec);
  ASSERT_TRUE(together);
  const auto shape = copies_shape(copy(together->spec, 0));
  ASSERT_TRUE(shape);
  EXPECT_EQ(shape->line_bytes, 0u) << "what lies between them is the arrays' own";
  EXPECT_EQ(shape->destination_pitch_bytes, 1024u);
}

TEST_F(CopiesTogetherTest, GoingDownInBothMemories_TheyAreRowsFromTheLowest) {
  const BufferPtr to[] = {device.take(64), device.take(64), device.take(64)},
                  from[] = {host.take(64), host.take(64), host.take(64)};
  for (const int i : {2, 1, 0}) add(to[i], from[i]);
  const auto together = copies_together(spec);
  ASSERT_TRUE(together);
  EXPECT_EQ(copy(together->spec, 0).destination, to[0]);
  EXPECT_EQ(copy(together->spec, 0).more_rows[1].source, from[2]);
  EXPECT_TRUE(copies_shape(copy(together->spec, 0)));
}

TEST_F(CopiesTogetherTest, OfDifferentDepth_Direction_OrMemory_TheyStay) {
  Piece other_host(MemoryKind::kHostVisible);
  const auto own = [](std::size_t bytes) {
    return std::make_shared<Part>(MemoryKind::kHostVisible, 1 << 30, bytes, nullptr);
  };
  add(device.take(64), host.take(64));
  launch({0});
  add(device.take(64), host.take(64), {1});  // deeper
  add(host.take(64), device.take(64));       // down
  add(device.take(64), other_host.take(64));
  add(device.take(64), own(64));
  EXPECT_FALSE(copies_together(spec));
}

TEST_F(CopiesTogetherTest, LargeOnes_StayByThemselves) {
  for (int i = 0; i < 10; ++i) add(device.take(5'000'000), host.take(5'000'000));
  EXPECT_FALSE(copies_together(spec));
}

TEST_F(CopiesTogetherTest, AGraphWhoseNodesStartEarly_StaysAsItIs) {
  for (int i = 0; i < 2; ++i) add(device.take(64), host.take(64));
  launch({0});
  launch({});
  spec.nodes.back().early_after = 2;
  EXPECT_FALSE(copies_together(spec));
}

TEST_F(CopiesTogetherTest, ANodeOfNothing_HasNoRows) {
  const CopyNode none{device.take(8), 0, host.take(8), 0, 0, {{device.take(8), host.take(8), 8}}};
  EXPECT_FALSE(copies_shape(none));
}

// What comes before what in `spec`, by a chain of edges.
std::vector<std::vector<bool>> reached(const GraphSpec& spec) {
  std::vector<std::vector<bool>> before(spec.nodes.size(), std::vector<bool>(spec.nodes.size(), false));
  for (std::size_t i = 0; i < spec.nodes.size(); ++i)
    for (const NodeId earlier : spec.nodes[i].after) {
      before[i][earlier] = true;
      for (std::size_t k = 0; k < earlier; ++k)
        if (before[earlier][k]) before[i][k] = true;
    }
  return before;
}

// Each copy is in one node, each node comes behind all that it came behind before, and earlier nodes alone are named.
TEST_F(CopiesTogetherTest, OfRandomGraphs_NothingIsLost_AndAllStaysOrdered) {
  const std::uint32_t seed = std::random_device()();
  SCOPED_TRACE(seed);
  std::mt19937 random(seed);
  int were_less = 0, were_in_rows = 0;
  for (int round = 0; round < 300; ++round) {
    spec = GraphSpec();
    std::map<std::pair<const Buffer*, const Buffer*>, std::size_t> copies;  // by both sides: the node
    const std::size_t count = 1 + random() % 24;
    for (NodeId i = 0; i < count; ++i) {
      std::vector<NodeId> after;
      for (NodeId earlier = 0; earlier < i; ++earlier)
        if (random() % 8 == 0) after.push_back(earlier);
      const std::size_t size = random() % 4 == 0 ? 1 + random() % 300'000 : 64;
      const BufferPtr on_device = device.take(size, 512 * (random() % 8 / 7)),
                      on_host = host.take(size, 512 * (random() % 8 / 7));
      switch (random() % 3) {
        case 0: spec.nodes.push_back({KernelNode{{}, {}, {}, {std::byte(i)}}, std::move(after), {}}); break;
        case 1: add(on_device, on_host, std::move(after)), copies[{on_device.get(), on_host.get()}] = i; break;
        default: add(on_host, on_device, std::move(after)), copies[{on_host.get(), on_device.get()}] = i; break;
      }
    }
    const auto together = copies_together(spec);
    if (!together) continue;
    ++were_less;
    const GraphSpec& made = together->spec;
    EXPECT_EQ(made.nodes.size() + together->before - together->after, spec.nodes.size());
    std::vector<NodeId> place(count, ~NodeId{0});
    for (NodeId n = 0; n < made.nodes.size(); ++n) {
      for (const NodeId earlier : made.nodes[n].after) ASSERT_LT(earlier, n);
      if (const auto* const kernel = std::get_if<KernelNode>(&made.nodes[n].work)) {
        place[std::to_integer<NodeId>(kernel->parameters[0])] = n;
        continue;
      }
      const CopyNode& its = copy(made, n);
      ASSERT_TRUE(copies_shape(its));
      const auto is_at = [&](const BufferPtr& to, const BufferPtr& from, std::size_t bytes) {
        const auto found = copies.find({to.get(), from.get()});
        ASSERT_NE(found, copies.end());
        EXPECT_EQ(bytes, to->size_bytes());
        EXPECT_EQ(place[found->second], ~NodeId{0}) << "copied twice";
        place[found->second] = n;
      };
      is_at(its.destination, its.source, its.size_bytes);
      for (const CopyNode::Row& row : its.more_rows) is_at(row.destination, row.source, row.size_bytes);
    }
    EXPECT_EQ(std::ranges::count(place, ~NodeId{0}), 0);
    const std::optional<GraphSpec> in_rows = engines_in_rows(made);
    were_in_rows += in_rows ? 1 : 0;
    const auto was = reached(spec), is = reached(made), is_in_rows = reached(in_rows ? *in_rows : made);
    for (NodeId i = 0; i < count; ++i)
      for (NodeId k = 0; k < i; ++k)
        if (was[i][k]) {
          EXPECT_TRUE(is[place[i]][place[k]]) << i << " after " << k;
          EXPECT_TRUE(is_in_rows[place[i]][place[k]]) << i << " after " << k << " in rows";
        }
  }
  EXPECT_GT(were_less, 30);
  EXPECT_GT(were_in_rows, 20);
}

}  // namespace
}  // namespace pergola::device
