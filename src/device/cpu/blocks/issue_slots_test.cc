// Cycles are taken once, the first that are free.
#include "src/device/cpu/blocks/issue_slots.h"

#include <gtest/gtest.h>

#include <random>
#include <set>

namespace pergola::device::cpu::blocks {
namespace {

TEST(IssueSlots, TakesTheFirstFreeCycles) {
  IssueSlots slots;
  EXPECT_EQ(slots.take(5, 1), 6u);
  EXPECT_EQ(slots.take(0, 1), 1u);
  EXPECT_EQ(slots.take(0, 5), 7u);  // 1 to 4 and 6
  EXPECT_EQ(slots.take(3, 1), 8u);
  slots.clear();
  EXPECT_EQ(slots.take(3, 2), 5u);
}

TEST(IssueSlots, AgreesWithASetOfCycles) {
  std::mt19937_64 random(3);
  for (int round = 0; round < 10; ++round) {
    IssueSlots slots;
    std::set<std::uint64_t> taken;
    for (int i = 0; i < 200; ++i) {
      const std::uint64_t from = random() % 300;
      const auto cycles = static_cast<std::uint32_t>(1 + random() % 8);
      std::uint64_t end = from;
      for (std::uint32_t left = cycles; left > 0; ++end) left -= taken.insert(end).second;
      ASSERT_EQ(slots.take(from, cycles), end);
    }
  }
}

}  // namespace
}  // namespace pergola::device::cpu::blocks
