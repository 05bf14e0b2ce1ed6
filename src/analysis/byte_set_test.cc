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

TEST_F(ByteSets, Normalized_FindsTheFinerLoopBehindOthers) {  // 40 goes on with 20, though 30 lies between
  EXPECT_EQ(normalized({{{20, 3}, {30, 2}, {40, 2}}, 4}), (ByteShape{{{30, 2}, {20, 5}}, 4}));
}

TEST_F(ByteSets, MeetingDistances_AreThoseAtWhichTheBytesMeet) {
  for (int i = 0; i < 300; ++i) {
    const ByteShape a = normalized(random_set().shape), b = normalized(random_set().shape);
    const ByteSet distances = meeting_distances(a, b);
    const Bytes of_a = bytes_of({0, a});
    for (std::int64_t distance = -200; distance < 200; ++distance) {
      const bool truth =
          std::ranges::any_of(bytes_of({distance, b}), [&](std::int64_t byte) { return of_a.contains(byte); });
      ASSERT_EQ(distances.contains(distance), truth) << "seed " << seed_ << " distance " << distance;
    }
  }
  // Rows and a column of one matrix: no gap is left, so that asking takes one step.
  EXPECT_TRUE(meeting_distances({{}, 16 * 4096}, {{{4096, 1024}}, 4}).shape.dimensions.empty());
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

// Strides without a common order: too much to try. may_contain() gives up, contains() goes on to the end.
TEST_F(ByteSets, TooManyCombinations_MayBe) {
  const ByteSet set{0, {{{1019, 60}, {1013, 60}, {1009, 60}, {1007, 60}}, 1}};
  const std::int64_t odd = 27 * 1007 + 155;  // 27 strides are 27 * 1007 and an even number more
  EXPECT_FALSE(set.contains(odd));
  EXPECT_TRUE(set.may_contain(odd));
  EXPECT_TRUE(overlaps(set, {odd, {{}, 1}}));
  EXPECT_TRUE(set.contains(odd + 1));
  // A common divisor of the strides tells at once.
  const ByteSet multiples{0, {{{10190, 60}, {10130, 60}, {10090, 60}, {10070, 60}}, 1}};
  EXPECT_FALSE(multiples.may_contain(10 * odd + 5));
}

}  // namespace
}  // namespace pergola::analysis
