// Relations found by boxes of blocks held against the same found block by block, and both against every pair of blocks:
// random launches of up to three dimensions, whose blocks fall into boxes with a shape and steps each.
#include "src/analysis/block_boxes.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <map>
#include <random>

#include "src/analysis/block_equality.h"

namespace pergola::analysis {
namespace {

using Region = BlockPlaces::Region;

class RandomGrids : public ::testing::Test {
 protected:
  std::uint32_t below(std::uint32_t bound) { return static_cast<std::uint32_t>(random_() % bound); }

  // Cuts a box at random; about one in eight parts does not make the access.
  void cut(const GridBox& box, int depth, std::vector<GridBox>& parts) {
    const int axis = static_cast<int>(below(3));
    if (depth == 0 || box.extent(axis) == 1) {
      if (below(8) != 0) parts.push_back(box);
      return;
    }
    const GridCut at{axis, box.begin[axis] + 1 + below(box.extent(axis) - 1)};
    cut(below_of(box, at), depth - 1, parts);
    cut(above(box, at), depth - 1, parts);
  }
  static GridBox below_of(const GridBox& box, const GridCut& at) { return analysis::below(box, at); }

  ByteShape random_shape() {
    ByteShape shape{{}, 1 + below(below(3) == 0 ? 40 : 9)};
    const std::uint64_t strides[] = {pitch_, plane_, 2 * pitch_, 8, 4, 1 + below(60)};
    for (std::uint32_t d = 0, count = below(3); d < count; ++d)
      shape.dimensions.push_back({strides[below(6)], 1 + below(5)});
    return normalized(shape);
  }

  // Mostly tiles of one matrix or volume, else anything.
  AccessFootprint random_access(const std::uint32_t (&grid)[3]) {
    AccessFootprint result{.allocation = below(4) == 0 ? 1u : 0u};
    const std::uint32_t use = 1 + below(3);
    result.reads = (use & 1) != 0;
    result.writes = (use & 2) != 0;
    for (std::uint32_t i = 0, count = 1 + below(2); i < count; ++i) result.shapes.push_back(random_shape());
    std::vector<GridBox> parts;
    cut(whole_grid(grid), static_cast<int>(below(4)), parts);
    const std::int64_t units[] = {8, static_cast<std::int64_t>(pitch_), static_cast<std::int64_t>(plane_), 0, 16, 4};
    std::int64_t step[3];
    const bool is_plain = below(3) != 0;
    for (std::uint32_t axis = 0; axis < 3; ++axis)
      step[axis] = is_plain ? units[axis] : units[below(6)] * (1 + below(3)) * (below(6) == 0 ? -1 : 1);
    const std::int64_t origin = below(64);
    std::vector<Region> regions;
    for (const GridBox& part : parts) {
      Region region{.box = part, .first = origin};
      for (int axis = 0; axis < 3; ++axis) {
        region.step[axis] = step[axis];
        region.first += step[axis] * part.begin[axis];
      }
      if (below(4) == 0) region.first += below(40);
      region.shape = below(static_cast<std::uint32_t>(result.shapes.size()));
      regions.push_back(region);
    }
    result.places = BlockPlaces(grid, std::move(regions));
    return result;
  }

  LaunchFootprint random_launch() {
    LaunchFootprint result;
    for (std::uint32_t& extent : result.grid) extent = below(3) == 0 ? 1 : 1 + below(9);
    for (std::uint32_t i = 0, count = 1 + below(3); i < count; ++i) {
      result.accesses.push_back(random_access(result.grid));
      if (below(10) == 0) result.accesses.back().whole_reason = "a reason";
    }
    return result;
  }

  static std::vector<std::uint32_t> parents_by_pair(const LaunchFootprint& parent, const LaunchFootprint& child,
                                                    std::uint32_t c) {
    std::vector<std::uint32_t> found;
    for (std::uint32_t p = 0; p < parent.blocks(); ++p) {
      bool meets = false;
      for (const AccessFootprint& a : parent.accesses) {
        for (const AccessFootprint& b : child.accesses) {
          if (a.allocation != b.allocation || !(a.writes || b.writes) || meets) continue;
          const BlockPlaces::Place x = a.places[p], y = b.places[c];
          if (x.shape == a.kNoShape || y.shape == b.kNoShape) continue;
          meets = overlaps({x.first, a.shapes[x.shape]}, {y.first, b.shapes[y.shape]});
        }
      }
      if (meets) found.push_back(p);
    }
    return found;
  }

  const std::uint64_t seed_ = std::random_device{}();
  std::mt19937_64 random_{seed_};
  std::uint64_t pitch_ = 64, plane_ = 1024;
};

TEST_F(RandomGrids, RelationsByBoxes_AreThoseByBlocks) {
  std::map<BlockPattern, int> met;
  std::map<std::string, int> reasons;
  int by_boxes = 0;
  constexpr int kRounds = 3000;
  for (int i = 0; i < kRounds; ++i) {
    const LaunchFootprint parent = random_launch(), child = random_launch();
    const DependencyOptions options{.max_degree = below(3) == 0 ? 5u : 64u, .raw_only = below(4) == 0};
    DependencyOptions by_block = options;
    by_block.by_boxes = false;
    const BlockRelation boxes = block_dependencies(parent, child, options),
                        blocks = block_dependencies(parent, child, by_block);
    ASSERT_TRUE(are_equal(boxes, blocks)) << "seed " << seed_ << " round " << i << ": " << to_string(boxes.pattern)
                                          << " and " << to_string(blocks.pattern);
    by_boxes += boxes.by_block_reason.empty();
    ++reasons[boxes.by_block_reason];
    ++met[boxes.pattern];
    if (options.raw_only || boxes.pattern == BlockPattern::kFull) continue;
    for (std::uint32_t c = 0; c < child.blocks(); c += 1 + below(7)) {
      ASSERT_TRUE(std::ranges::equal(boxes.parents_of(c), parents_by_pair(parent, child, c)))
          << "seed " << seed_ << " round " << i << " child " << c;
    }
  }
  for (const auto& [reason, count] : reasons)
    fmt::print("{} of {}: {}\n", count, kRounds, reason.empty() ? "by boxes" : reason);
  EXPECT_EQ(met.size(), 7u);
  EXPECT_GT(by_boxes, kRounds / 2);
}

// Of a grid of tiles nine lists are kept, however many blocks there are.
TEST(BlockBoxes, TilesWithAHalo_AreNineFamilies) {
  const std::uint32_t grid[3] = {300, 200, 1};
  const std::int64_t pitch = std::int64_t{302} * 64;  // a tile more at either side
  const auto tiles = [&](std::int64_t halo) {
    AccessFootprint access{.allocation = 0, .reads = halo != 0, .writes = halo == 0};
    const auto rows = static_cast<std::uint64_t>(16 + 2 * halo), width = static_cast<std::uint64_t>(64 + 8 * halo);
    access.shapes.push_back(normalized({{{static_cast<std::uint64_t>(pitch), rows}}, width}));
    access.places = BlockPlaces(grid, {{.box = whole_grid(grid),
                                        .first = 16 * pitch + 64 - halo * (pitch + 4),
                                        .step = {64, 16 * pitch, 0},
                                        .shape = 0}});
    return access;
  };
  LaunchFootprint parent{.accesses = {tiles(0)}}, child{.accesses = {tiles(1)}};
  std::copy_n(grid, 3, parent.grid);
  std::copy_n(grid, 3, child.grid);
  const BlockRelation relation = block_dependencies(parent, child);
  EXPECT_EQ(relation.by_block_reason, "");
  EXPECT_EQ(relation.pattern, BlockPattern::kOverlapped);
  EXPECT_EQ(relation.max_degree, 9u);
  EXPECT_EQ(relation.lists.lists(), 9u);
  EXPECT_LT(relation.lists.bytes(), 4096u);
  const BlockView corner = relation.parents_of(0), inner = relation.parents_of(300 * 10 + 7);
  EXPECT_EQ(std::vector<std::uint32_t>(corner.begin(), corner.end()), (std::vector<std::uint32_t>{0, 1, 300, 301}));
  EXPECT_EQ(inner.size(), 9u);
  EXPECT_TRUE(inner.contains(300 * 11 + 8) && inner.contains(300 * 9 + 6) && !inner.contains(300 * 9 + 9));
}

// Rows and columns of tiles, whose parents move along different axes: refused with the reason, and found all the same.
TEST(BlockBoxes, AccessesThatMoveDifferently_AreFoundByBlock) {
  const std::uint32_t grid[3] = {8, 8, 1};
  const auto access = [&](int use, std::int64_t x, std::int64_t y, std::uint64_t width) {
    AccessFootprint made{.allocation = 0, .reads = use == 1, .writes = use == 2, .shapes = {{{}, width}}};
    made.places = BlockPlaces(grid, {{.box = whole_grid(grid), .first = 0, .step = {x, y, 0}, .shape = 0}});
    return made;
  };
  LaunchFootprint parent{.accesses = {access(2, 4, 32, 4)}},
      child{.accesses = {access(1, 4, 0, 4), access(1, 0, 32, 4)}};
  std::copy_n(grid, 3, parent.grid);
  std::copy_n(grid, 3, child.grid);
  const BlockRelation relation = block_dependencies(parent, child);
  EXPECT_NE(relation.by_block_reason.find("move differently"), std::string::npos) << relation.by_block_reason;
  EXPECT_EQ(relation.parents_of(8 * 3 + 2).size(), 2u);
  EXPECT_TRUE(relation.parents_of(8 * 3 + 2).contains(2) && relation.parents_of(8 * 3 + 2).contains(24));
}

}  // namespace
}  // namespace pergola::analysis
