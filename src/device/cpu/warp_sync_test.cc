#include "src/device/cpu/warp_sync.h"

#include <gtest/gtest.h>

namespace pergola::device::cpu {
namespace {

constexpr std::uint32_t kFull = 0xffffffffu;

TEST(NamedBarrier, WithoutCount_WaitsForEveryLiveThread) {
  NamedBarrier barrier;
  barrier.reset(2);
  const std::uint32_t live[] = {0b11, 0b1};
  barrier.arrive(0, 0, 0, true);
  barrier.arrive(1, 0, 0, false);
  EXPECT_FALSE(barrier.complete(live));
  barrier.arrive(0, 1, 0, true);
  EXPECT_TRUE(barrier.complete(live));
  EXPECT_EQ(barrier.popc(), 2u);
  EXPECT_FALSE(barrier.all());
  EXPECT_TRUE(barrier.any());
}

TEST(NamedBarrier, ArrivedThenExitedLanes_CountOnce) {
  NamedBarrier barrier;
  barrier.reset(2);
  for (std::uint32_t lane = 0; lane < 32; ++lane) barrier.arrive(0, lane, 64, false);
  const std::uint32_t live[] = {0, kFull};  // the first warp has returned since
  EXPECT_FALSE(barrier.complete(live));
  for (std::uint32_t lane = 0; lane < 32; ++lane) barrier.arrive(1, lane, 64, false);
  EXPECT_TRUE(barrier.complete(live));
}

TEST(NamedBarrier, PartialWarp_CountsAsAWholeOne) {
  NamedBarrier barrier;
  barrier.reset(1);
  const std::uint32_t live[] = {0b111};
  for (std::uint32_t lane = 0; lane < 3; ++lane) barrier.arrive(0, lane, 32, false);
  EXPECT_TRUE(barrier.complete(live));
}

TEST(Shuffle, SegmentsOfEight_StayWithinThem) {
  const std::uint32_t c = 0x1800 | 31;  // segment mask 24, clamp 31
  EXPECT_EQ(shuffle_source(ShuffleMode::kDown, 6, 1, c).lane, 7u);
  EXPECT_FALSE(shuffle_source(ShuffleMode::kDown, 7, 1, c).in_range);
  EXPECT_EQ(shuffle_source(ShuffleMode::kDown, 7, 1, c).lane, 7u);
  EXPECT_EQ(shuffle_source(ShuffleMode::kIdx, 13, 2, c).lane, 10u);
  EXPECT_FALSE(shuffle_source(ShuffleMode::kUp, 8, 1, 0x1800).in_range);
}

TEST(FindNthSet, CountsFromTheBaseInEitherDirection) {
  EXPECT_EQ(find_nth_set(0b10110, 0, 1), 1u);
  EXPECT_EQ(find_nth_set(0b10110, 0, 3), 4u);
  EXPECT_EQ(find_nth_set(0b10110, 4, -2), 2u);
  EXPECT_EQ(find_nth_set(0b10110, 2, 0), 2u);
  EXPECT_EQ(find_nth_set(0b10110, 0, 0), kFull);
}

}  // namespace
}  // namespace pergola::device::cpu
