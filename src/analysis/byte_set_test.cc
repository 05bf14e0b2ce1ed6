#include "src/analysis/byte_set.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <set>

namespace pergola::analysis {
namespace {

using Bytes = std::set<std::int64_t>;

void collect(const ByteShape& shape, std::size_t dimension, std::int64_t first, Bytes& into) {
  if (dimension == shape.dimensions.size()) {
    for (std::uint64_t i = 0; i < shape.width; ++i) into.insert(first + static_cast<std::int64_t>(i));
    return;
  }
  for (std::uint64_t k = 0; k < shape.dimensions[dimension].count; ++k) {
    collect(shape, dimension + 1, first + static_cast<std::int64_t>(k * shape.dimensions[dimension].stride), into);
  }
}
Bytes bytes_of(const ByteSet& set) {
  Bytes result;
  collect(set.shape, 0, set.first, result);
  return result;
}

class ByteSets : public ::testing::Test {
 protected:
  std::uint32_t below(std::uint32_t bound) { return static_cast<std::uint32_t>(random_() % bound); }
  ByteSet random_set() {
    ByteSet set{.first = static_cast<std::int64_t>(below(60)) - 20, .shape = {{}, 1 + below(6)}};
    for (std::uint32_t i = 0, count = below(4); i < count; ++i)
      set.shape.dimensions.push_back({below(25), 1 + below(4)});
    return set;
  }
  const std::uint64_t seed_ = std::random_device{}();
  std::mt19937_64 random_{seed_};
};

TEST_F(ByteSets, Normalized_IsTheSameSetInNormalForm) {
  for (int i = 0; i < 3000; ++i) {
    ByteSet set = random_set();
    const Bytes before = bytes_of(set);
    set.shape = normalized(set.shape);
    ASSERT_EQ(bytes_of(set), before) << "seed " << seed_;
    for (std::size_t d = 0; d < set.shape.dimensions.size(); ++d) {
      ASSERT_GE(set.shape.dimensions[d].count, 2u);
      ASSERT_GT(set.shape.dimensions[d].stride, set.shape.width) << "seed " << seed_;
      if (d > 0) {
        ASSERT_LT(set.shape.dimensions[d].stride, set.shape.dimensions[d - 1].stride) << "seed " << seed_;
      }
    }
    ASSERT_EQ(set.end(), *before.rbegin() + 1);
  }
}

TEST_F(ByteSets, Normalized_JoinsWhatIsOneLoop) {
  const ByteShape rows = normalized({{{4096, 2}, {8192, 6}}, 1024});
  EXPECT_EQ(rows, (ByteShape{{{4096, 12}}, 1024}));
  EXPECT_EQ(normalized({{{4, 256}, {1024, 8}}, 4}), (ByteShape{{}, 8192}));
}

TEST_F(ByteSets, OverlapsAndContains_AreAsByTheBytes) {
  int met = 0;
  for (int i = 0; i < 20000; ++i) {
    ByteSet a = random_set(), b = random_set();
    a.shape = normalized(a.shape);
    b.shape = normalized(b.shape);
    const Bytes of_a = bytes_of(a), of_b = bytes_of(b);
    const bool truth = std::ranges::any_of(of_a, [&](std::int64_t byte) { return of_b.contains(byte); });
    ASSERT_EQ(overlaps(a, b), truth) << "seed " << seed_;
    met += truth;
    const std::int64_t byte = static_cast<std::int64_t>(below(150)) - 30;
    ASSERT_EQ(a.contains(byte), of_a.contains(byte)) << "seed " << seed_;
  }
  EXPECT_GT(met, 2000);
  EXPECT_LT(met, 18000);
}

TEST_F(ByteSets, TilesOfAMatrix_MeetOnlyInTheirRowsAndColumns) {
  const ByteShape tile{{{4096, 16}}, 64}, column{{{4096, 1024}}, 64};
  EXPECT_FALSE(overlaps({0, tile}, {64, tile}));
  EXPECT_TRUE(overlaps({0, tile}, {60, tile}));
  EXPECT_FALSE(overlaps({0, tile}, {16 * 4096, tile}));
  EXPECT_TRUE(overlaps({128 + 32 * 4096, tile}, {128, column}));
  EXPECT_FALSE(overlaps({128 + 32 * 4096, tile}, {192, column}));
}

TEST_F(ByteSets, TooManyCombinations_MayOverlap) {  // strides without a common order: too much to try
  const ByteSet a{0, {{{1009, 5000}, {1013, 5000}, {1019, 5000}}, 1}};
  const ByteSet b{1, {{{2018, 5000}, {2026, 5000}, {2038, 5000}}, 1}};
  EXPECT_TRUE(overlaps(a, b));
}

}  // namespace
}  // namespace pergola::analysis
