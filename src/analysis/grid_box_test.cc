#include "src/analysis/grid_box.h"

#include <gtest/gtest.h>

#include <random>

#include "src/analysis/block_places.h"

namespace pergola::analysis {
namespace {

// Cut until it says the same of all blocks of each box: it does, and no box is cut that need not be.
struct Cutter {
  LinearRange range;
  int boxes = 0, wrong = 0;

  Holds of_block(const std::uint32_t (&block)[3]) const {
    return at_most_zero(range, {{block[0], block[1], block[2]}, {block[0] + 1, block[1] + 1, block[2] + 1}});
  }
  void visit(const GridBox& box) {
    const Holds holds = at_most_zero(range, box);
    if (holds == Holds::kVaries) {
      const GridCut cut = cut_of(range, box);
      ASSERT_TRUE(cut.at > box.begin[cut.axis] && cut.at < box.end[cut.axis]);
      visit(below(box, cut));
      visit(above(box, cut));
      return;
    }
    ++boxes;
    std::uint32_t block[3];
    for (block[2] = box.begin[2]; block[2] < box.end[2]; ++block[2])
      for (block[1] = box.begin[1]; block[1] < box.end[1]; ++block[1])
        for (block[0] = box.begin[0]; block[0] < box.end[0]; ++block[0]) {
          const Holds its = of_block(block);
          wrong += holds == Holds::kAlike ? its == Holds::kVaries : its != holds;
        }
  }
};

TEST(GridBox, CutsAgreeWithEachBlock) {
  std::mt19937_64 random(7);
  const auto below_bound = [&](std::int64_t bound) { return static_cast<std::int64_t>(random() % bound); };
  for (int i = 0; i < 400; ++i) {
    Cutter cutter;
    for (std::int64_t& step : cutter.range.step) step = below_bound(2) == 0 ? 0 : below_bound(41) - 20;
    cutter.range.low = below_bound(200) - 100;
    cutter.range.high = cutter.range.low + below_bound(30);
    if (below_bound(8) == 0) cutter.range.high = LinearRange::kOpen;
    GridBox box;
    for (std::uint32_t& end : box.end) end = static_cast<std::uint32_t>(1 + below_bound(9));
    cutter.visit(box);
    EXPECT_EQ(cutter.wrong, 0);
  }
}

TEST(GridBox, GuardOfTheLastRowAndColumn_MakesFewBoxes) {
  // 256 * x + [0, 255] - 99'999 <= 0: i < 100,000 in a grid of 400.
  Cutter cutter{.range = {.low = -99'999, .high = 255 - 99'999, .step = {256, 0, 0}}};
  cutter.visit({{0, 0, 0}, {400, 300, 1}});
  EXPECT_EQ(cutter.boxes, 3);  // holds, narrows, fails
}

TEST(BoxTree, EachBlockIsInItsBox) {
  BoxTree tree;
  const std::uint32_t a = tree.add_box(5), b = tree.add_box(6), c = tree.add_box(7);
  const std::uint32_t right = tree.add_cut({1, 2}, b, c);
  tree.add_cut({0, 3}, a, right);
  EXPECT_EQ(tree.box_of({2, 9, 0}), 5u);
  EXPECT_EQ(tree.box_of({3, 1, 0}), 6u);
  EXPECT_EQ(tree.box_of({3, 2, 0}), 7u);
}

TEST(BlockPlaces, RunsBecomeRegionsAndComeBack) {
  std::vector<BlockPlaces::Place> places;
  for (std::int64_t b = 0; b < 100; ++b) places.push_back({b * 64 + (b >= 50 ? 8 : 0), b == 70 ? 1u : 0u});
  places[20] = {};
  const BlockPlaces made(places);
  EXPECT_EQ(made.regions().size(), 5u);
  EXPECT_EQ(made.expanded(), places);
  for (std::uint32_t b = 0; b < 100; ++b) EXPECT_EQ(made[b], places[b]);
}

TEST(BlockPlaces, ColumnsBecomeOneRegion) {
  const std::uint32_t grid[3] = {40, 30, 2};
  std::vector<BlockPlaces::Region> columns;
  for (std::uint32_t x = 40; x-- > 0;)
    columns.push_back({.box = {{x, 0, 0}, {x + 1, 30, 2}}, .first = x * 4, .step = {99, 160, 8}, .shape = 0});
  const BlockPlaces made(grid, columns);
  ASSERT_EQ(made.regions().size(), 1u);
  EXPECT_EQ(made[39 + 40 * (29 + 30)].first, 39 * 4 + 29 * 160 + 8);
}

}  // namespace
}  // namespace pergola::analysis
