// What is free and what is given out, held against a map of every unit.
#include "src/device/free_ranges.h"

#include <gtest/gtest.h>

#include <random>
#include <utility>
#include <vector>

namespace pergola::device {
namespace {

TEST(FreeRanges, SmallestThatFits_AndNeighboursGrowTogether) {
  FreeRanges free(100, 50);
  EXPECT_EQ(free.take(10), 100u);
  EXPECT_EQ(free.take(20), 110u);
  EXPECT_EQ(free.take(21), std::nullopt);
  free.give(100, 10);
  EXPECT_EQ(free.take(8), 100u);  // not of the 20 at the end
  free.give(100, 8);
  free.give(110, 20);
  EXPECT_EQ(free.take(50), 100u);
  EXPECT_EQ(free.take(1), std::nullopt);
}

TEST(FreeRanges, RandomUse_NeverGivesAUnitTwice) {
  constexpr unsigned kSeed = 7;
  SCOPED_TRACE(kSeed);
  std::mt19937 random(kSeed);
  FreeRanges free(0, 1000);
  std::vector<bool> used(1000, false);
  std::vector<std::pair<std::uint64_t, std::uint64_t>> out;
  for (int step = 0; step < 20000; ++step) {
    if (random() % 2 == 0) {
      const std::uint64_t bytes = 1 + random() % 60;
      const auto begin = free.take(bytes);
      if (!begin) continue;
      for (std::uint64_t n = *begin; n < *begin + bytes; ++n) {
        ASSERT_FALSE(used.at(n));
        used[n] = true;
      }
      out.emplace_back(*begin, bytes);
    } else if (!out.empty()) {
      std::swap(out[random() % out.size()], out.back());
      const auto [begin, bytes] = out.back();
      out.pop_back();
      for (std::uint64_t n = begin; n < begin + bytes; ++n) used[n] = false;
      free.give(begin, bytes);
    }
  }
  for (const auto& [begin, bytes] : out) free.give(begin, bytes);
  EXPECT_EQ(free.take(1000), 0u);
}

}  // namespace
}  // namespace pergola::device
