// The index held against asking every block: random accesses of blocks of many shapes, as rows, columns, tiles and
// without order.
#include "src/analysis/block_index.h"

#include <gtest/gtest.h>

#include <random>

namespace pergola::analysis {
namespace {

BlockList asked_one_by_one(const AccessFootprint& access, const ByteSet& set) {
  BlockList result;
  for (std::uint32_t block = 0; block < access.places.size(); ++block) {
    const AccessFootprint::Place place = access.places[block];
    if (place.shape == AccessFootprint::kNoShape) continue;
    if (overlaps({place.first, access.shapes[place.shape]}, set)) result.push_back({block, block + 1});
  }
  normalize(result);
  return result;
}

class BlockIndexes : public testing::Test {
 protected:
  std::uint32_t below(std::uint32_t bound) { return static_cast<std::uint32_t>(random_() % bound); }

  // Strides of one matrix or volume, or any.
  ByteShape random_shape() {
    ByteShape shape{{}, 1 + below(below(4) == 0 ? 200 : 20)};
    const std::uint64_t pitch = 64, plane = 1024;
    for (std::uint32_t d = 0, count = below(4); d < count; ++d) {
      const std::uint64_t strides[] = {pitch, plane, 2 * pitch, 24, 4, 1 + below(300)};
      shape.dimensions.push_back({strides[below(6)], 1 + below(6)});
    }
    return normalized(shape);
  }

  AccessFootprint random_access(std::uint32_t blocks) {
    AccessFootprint result;
    for (std::uint32_t i = 0, count = below(3) == 0 ? 12 : 1 + below(2); i < count; ++i)
      result.shapes.push_back(random_shape());
    const std::uint32_t form = below(4), row = 1 + below(9), step = below(40), pitch = 32 + below(100);
    std::vector<AccessFootprint::Place> places;
    for (std::uint32_t b = 0; b < blocks; ++b) {
      const std::int64_t forms[] = {std::int64_t{step} * b, std::int64_t{b} / row * pitch + b % row * step,
                                    std::int64_t{b} % row * pitch + b / row * step, below(4000)};
      const auto shape = below(static_cast<std::uint32_t>(result.shapes.size()));
      places.push_back({forms[form] - 500, below(10) == 0 ? AccessFootprint::kNoShape : shape});
    }
    result.places = places;
    return result;
  }

  const std::uint64_t seed_ = std::random_device{}();
  std::mt19937_64 random_{seed_};
};

TEST_F(BlockIndexes, Answers_AreThoseOfEveryBlock) {
  std::uint64_t met = 0, asked = 0;
  for (int i = 0; i < 1500; ++i) {
    const AccessFootprint access = random_access(1 + below(90));
    BlockIndex index(access);
    for (int shapes = 0; shapes < 4; ++shapes) {
      const ByteShape shape = random_shape();
      index.ask_for(shape);
      for (int k = 0; k < 6; ++k) {
        const std::int64_t first = static_cast<std::int64_t>(below(5000)) - 1000;
        const BlockList truth = asked_one_by_one(access, {first, shape});
        ASSERT_EQ(index.find(first), truth) << "seed " << seed_ << " round " << i;
        met += size(truth);
        asked += access.places.size();
      }
    }
  }
  EXPECT_GT(met, asked / 100);
  EXPECT_LT(met, asked / 2);
}

TEST_F(BlockIndexes, AccessThatNoBlockMakes_IsMetByNone) {
  AccessFootprint access{.shapes = {{{{64, 4}}, 16}}, .places = std::vector<AccessFootprint::Place>(3)};
  BlockIndex index(access);
  index.ask_for({{{64, 4}}, 16});
  EXPECT_TRUE(index.find(0).empty());
  const AccessFootprint nothing;
  BlockIndex empty(nothing);
  empty.ask_for({{}, 1});
  EXPECT_TRUE(empty.find(0).empty());
}

}  // namespace
}  // namespace pergola::analysis
