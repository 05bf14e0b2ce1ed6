// Bounds worked out by hand, and that no schedule of random chains is below them.
#include "src/device/cpu/blocks/schedule_bounds.h"

#include <gtest/gtest.h>

#include "src/device/cpu/blocks/chain_fixture.h"

namespace pergola::device::cpu::blocks {
namespace {

using test::full;
using test::launch;
using test::one_to_one;
using test::relation;

// Two SMs of two blocks, launches of 100 ns.
const ScheduleOptions kTwoSms{.sms = 2, .blocks_per_sm = 2, .launch_ns = 100, .window = 2};

TEST(ScheduleBounds, Chain_IsTheLongestByTheRelations) {
  const LaunchChain lists{launch({10, 50, 20}), launch({30, 5}, {relation(3, {{0}, {2}})})};
  EXPECT_EQ(bounds_of(lists, kTwoSms).chain_ns, 100 + 50);
  const LaunchChain all{launch({10, 50, 20}), launch({30, 5}, {full(3, 2)})};
  EXPECT_EQ(bounds_of(all, kTwoSms).chain_ns, 100 + 80);
  const LaunchChain two_back{launch({10}), launch({1}, {test::independent(1, 1)}),
                             launch({7}, {test::independent(1, 1), one_to_one(1)})};
  EXPECT_EQ(bounds_of(two_back, kTwoSms).chain_ns, 100 + 17);
}

TEST(ScheduleBounds, Launching_IsByTheWindow) {
  const LaunchChain chain{launch({1}), launch({1}, {full(1, 1)}), launch({1}, {full(1, 1)})};
  ScheduleOptions options = kTwoSms;
  EXPECT_EQ(bounds_of(chain, options).launching_ns, 200);
  options.launches_at_once = 1;
  EXPECT_EQ(bounds_of(chain, options).launching_ns, 300);
  options.window = 1, options.launches_at_once = 0;
  EXPECT_EQ(bounds_of(chain, options).launching_ns, 300);
}

// A block of 1536 of 2048 threads keeps three quarters of an SM; of few threads, the half that a place is.
TEST(ScheduleBounds, WorkAndRoom_AreSharedByTheSms) {
  LaunchChain chain{launch({40, 40})};
  for (BlockCost& cost : chain[0].blocks) cost.sm_share = 0.25;
  EXPECT_EQ(bounds_of(chain, kTwoSms).work_ns, 100 + 10);
  EXPECT_EQ(bounds_of(chain, kTwoSms).room_ns, 100 + 20);
  chain[0].room.threads = 1536;
  EXPECT_EQ(bounds_of(chain, kTwoSms).room_ns, 100 + 30);
  chain[0].room.shared_bytes = kTwoSms.shared_bytes_per_sm;
  EXPECT_EQ(bounds_of(chain, kTwoSms).room_ns, 100 + 40);
  EXPECT_EQ(bounds_of(chain, kTwoSms).least_ns(), 140);
}

TEST(ScheduleBounds, NoScheduleIsBelow) {
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    LaunchChain chain = test::random_chain(seed, seed % 2 == 0);
    for (ChainLaunch& each : chain) each.room.threads = 32 << (seed / 2 + each.size()) % 6;
    ScheduleOptions hardware{.sms = 2, .blocks_per_sm = 3, .launch_ns = 20};
    hardware.launches_at_once = seed % 3 == 0 ? 1 : 0;
    for (const ScheduleMode& mode : figure_nine(hardware)) {
      const auto made = schedule_blocks(chain, mode.options);
      ASSERT_TRUE(made.ok()) << made.message();
      // Ends fall on 1/1024 ns.
      EXPECT_GE(made->end_ns, bounds_of(chain, mode.options).least_ns() - 0.1) << mode.name << ", seed " << seed;
    }
  }
}

}  // namespace
}  // namespace pergola::device::cpu::blocks
