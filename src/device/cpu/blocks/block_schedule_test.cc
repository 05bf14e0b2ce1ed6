// Timelines worked out by hand, and what holds of every timeline.
#include "src/device/cpu/blocks/block_schedule.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <map>
#include <set>

#include "src/device/cpu/blocks/block_orders.h"
#include "src/device/cpu/blocks/chain_fixture.h"

namespace pergola::device::cpu::blocks {
namespace {

using test::full;
using test::independent;
using test::launch;
using test::one_to_one;
using test::relation;
using testing::ElementsAre;
using testing::HasSubstr;

using Spans = std::vector<std::pair<double, double>>;

Timeline schedule(const LaunchChain& chain, const ScheduleOptions& options) {
  auto made = schedule_blocks(chain, options);
  EXPECT_TRUE(made.ok()) << made.message();
  return made.ok() ? std::move(made).value() : Timeline{};
}

// Start and end of each block of a launch.
Spans spans(const Timeline& timeline, std::size_t launch) {
  Spans result;
  for (const BlockTimes& block : timeline.launches[launch].blocks) result.emplace_back(block.start_ns, block.end_ns);
  return result;
}
std::vector<double> ready(const Timeline& timeline, std::size_t launch) {
  std::vector<double> result;
  for (const BlockTimes& block : timeline.launches[launch].blocks) result.push_back(block.ready_ns);
  return result;
}

// One SM of two blocks, launches of 100 ns. The second launch's block 0 needs block 0 of the first, its block 1
// block 2.
const ScheduleOptions kSmall{.sms = 1, .blocks_per_sm = 2, .launch_ns = 100};
LaunchChain two_launches() {
  return {launch({10, 50, 20}), launch({30, 5}, {relation(3, {{0}, {2}})})};
}
ScheduleOptions mode(const char* name, const ScheduleOptions& hardware = kSmall) {
  for (const ScheduleMode& each : figure_nine(hardware)) {
    if (std::string(each.name) == name) return each.options;
  }
  ADD_FAILURE() << "no mode " << name;
  return {};
}

//  launch 0 |----100----|0:10|2:20 |                 launch 1 |----100----|0:30
//                       |1:50      |                                      |1:5
TEST(Schedule, Baseline_LaunchesAfterTheEnd) {
  const Timeline made = schedule(two_launches(), mode("baseline"));
  EXPECT_THAT(spans(made, 0), ElementsAre(std::pair(100., 110.), std::pair(100., 150.), std::pair(110., 130.)));
  EXPECT_THAT(spans(made, 1), ElementsAre(std::pair(250., 280.), std::pair(250., 255.)));
  EXPECT_EQ(made.launches[1].resident_ns, 150);
  EXPECT_THAT(ready(made, 1), ElementsAre(110, 130));
  EXPECT_EQ(made.end_ns, 280);
  EXPECT_EQ(made.busy_ns, 80);
  EXPECT_EQ(made.block_ns, 115);
  EXPECT_EQ(made.requests, 0u);
}

TEST(Schedule, Ideal_HasNoLaunches) {
  const Timeline made = schedule(two_launches(), mode("ideal"));
  EXPECT_THAT(spans(made, 1), ElementsAre(std::pair(50., 80.), std::pair(50., 55.)));
}

TEST(Schedule, Prelaunch_HidesTheLaunchAndNoMore) {
  LaunchChain chain = two_launches();
  chain[0].blocks[1].alone_ns = 150;
  const Timeline made = schedule(chain, mode("prelaunch"));
  EXPECT_EQ(made.launches[1].launched_ns, 100);
  EXPECT_THAT(spans(made, 1), ElementsAre(std::pair(250., 280.), std::pair(250., 255.)));
}

//  |0:10|2:20 |  1.1:5 |
//  |1:50                |     a place is free at 130; both of launch 1 are ready then
TEST(Schedule, Producer_StartsWhatIsReadyBehindTheLastOfTheProducer) {
  const Timeline made = schedule(two_launches(), mode("producer"));
  EXPECT_THAT(spans(made, 0), ElementsAre(std::pair(100., 110.), std::pair(100., 150.), std::pair(110., 130.)));
  EXPECT_THAT(spans(made, 1), ElementsAre(std::pair(130., 160.), std::pair(150., 155.)));
}

//  |0:10|1.0:30      |2:20     |1.1:5
//  |1:50                  |          a consumer's block goes before block 2 of the producer
TEST(Schedule, Consumer_RunsAheadOfTheProducer) {
  const Timeline made = schedule(two_launches(), mode("consumer-2"));
  EXPECT_THAT(spans(made, 0), ElementsAre(std::pair(100., 110.), std::pair(100., 150.), std::pair(140., 160.)));
  EXPECT_THAT(spans(made, 1), ElementsAre(std::pair(110., 140.), std::pair(160., 165.)));
}

// Four launches, one block each of 10 ns, none of which depends on another: all that a window of w has run together.
TEST(Schedule, Windows_BoundTheLaunchesThatRun) {
  const LaunchChain chain{launch({10}), launch({10}, {independent(1, 1)}),
                          launch({10}, {independent(1, 1), independent(1, 1)}),
                          launch({10}, {independent(1, 1), independent(1, 1), independent(1, 1)})};
  ScheduleOptions hardware{.sms = 4, .blocks_per_sm = 1, .launch_ns = 100};
  EXPECT_EQ(schedule(chain, mode("baseline", hardware)).end_ns, 440);
  EXPECT_EQ(schedule(chain, mode("consumer-2", hardware)).end_ns, 220);
  EXPECT_EQ(schedule(chain, mode("consumer-3", hardware)).end_ns, 220);
  EXPECT_EQ(schedule(chain, mode("consumer-4", hardware)).end_ns, 110);
  // One launch after the other: 100 ns apart at least.
  hardware.launches_at_once = 1;
  EXPECT_EQ(schedule(chain, mode("consumer-4", hardware)).end_ns, 410);
  EXPECT_EQ(schedule(chain, mode("consumer-2", hardware)).end_ns, 410);
  EXPECT_EQ(schedule(chain, mode("baseline", hardware)).end_ns, 440);
}

// The second launch ends first; the third, launched when the first completes, is not resident before.
TEST(Schedule, LaunchesCompleteInOrder) {
  const LaunchChain chain{launch({100}), launch({10}, {independent(1, 1)}), launch({10}, {independent(1, 1)})};
  const Timeline made = schedule(chain, mode("consumer-2", {.sms = 4, .blocks_per_sm = 1, .launch_ns = 20}));
  EXPECT_EQ(made.launches[1].blocks[0].end_ns, 30);
  EXPECT_EQ(made.launches[1].complete_ns, 120);
  EXPECT_EQ(made.launches[2].resident_ns, 120);
  EXPECT_THAT(spans(made, 2), ElementsAre(std::pair(140., 150.)));
}

// The third launch overwrites what the first still reads: a dependence past a launch that has ended.
TEST(Schedule, DependenceOnALaunchFurtherBack_Waits) {
  const LaunchChain chain{launch({100, 10}), launch({10}, {independent(2, 1)}),
                          launch({10}, {independent(1, 1), relation(2, {{0}})})};
  const ScheduleOptions hardware{.sms = 4, .blocks_per_sm = 1, .launch_ns = 0};
  EXPECT_THAT(spans(schedule(chain, mode("consumer-3", hardware)), 2), ElementsAre(std::pair(100., 110.)));
}

TEST(Schedule, FullRelation_WaitsForTheWholeLaunch) {
  const LaunchChain chain{launch({10, 40}), launch({5, 5}, {full(2, 2)})};
  const Timeline made = schedule(chain, mode("consumer-2", {.sms = 4, .blocks_per_sm = 1, .launch_ns = 0}));
  EXPECT_THAT(spans(made, 1), ElementsAre(std::pair(40., 45.), std::pair(40., 45.)));
  EXPECT_EQ(made.requests, 0u);
}

// Shares of 0.75 each: two together run at two thirds. 30 ns of the first is 10 alone, 30 beside the other for 20,
// done.
TEST(Schedule, BlocksThatAskForMoreThanTheSm_SlowDown) {
  LaunchChain chain{launch({30, 20})};
  chain[0].blocks[0].sm_share = chain[0].blocks[1].sm_share = 0.75;
  const Timeline made = schedule(chain, {.sms = 1, .blocks_per_sm = 2, .launch_ns = 0});
  EXPECT_DOUBLE_EQ(made.launches[0].blocks[1].end_ns, 30);
  EXPECT_DOUBLE_EQ(made.launches[0].blocks[0].end_ns, 40);
  const Timeline apart = schedule(chain, {.sms = 2, .blocks_per_sm = 1, .launch_ns = 0});
  EXPECT_EQ(apart.end_ns, 30);
}

// Four SMs whose blocks end together, at a time that no double has: the four that wait go one to each.
TEST(Schedule, SmsThatAreFreeTogether_ShareWhatIsReady) {
  LaunchChain chain{launch(std::vector<double>(8, 1000.0 / 3)),
                    launch(std::vector<double>(4, 1000.0 / 7), {full(8, 4)})};
  for (BlockCost& cost : chain[0].blocks) cost.sm_share = 0.7;
  const Timeline made = schedule(chain, mode("consumer-2", {.sms = 4, .blocks_per_sm = 8, .launch_ns = 1}));
  std::set<std::uint32_t> sms;
  for (const BlockTimes& block : made.launches[1].blocks) sms.insert(block.sm);
  EXPECT_EQ(sms.size(), 4u);
}

// Lists: a block with five children reads two entries; five counters come in as it starts, none when it ends.
TEST(Schedule, CountsWhatListsAndCountersRead) {
  const LaunchChain chain{launch({10}), launch({1, 1, 1, 1, 1}, {relation(1, {{0}, {0}, {0}, {0}, {0}})})};
  EXPECT_EQ(schedule(chain, mode("producer", {.sms = 1, .blocks_per_sm = 8, .launch_ns = 0})).requests, 7u);
}

// An SM of 2048 threads runs two blocks of 1024, and a block of 512 and one of 1024, but not two of these beside it.
TEST(Schedule, BlocksNeedRoomForTheirThreads) {
  LaunchChain chain{launch({10}), launch({7, 7, 7}, {independent(1, 3)})};
  chain[0].room.threads = 512, chain[1].room.threads = 1024;
  const ScheduleOptions hardware{.sms = 1, .blocks_per_sm = 32, .launch_ns = 0};
  const Timeline made = schedule(chain, mode("producer", hardware));
  EXPECT_THAT(spans(made, 1), ElementsAre(std::pair(0., 7.), std::pair(7., 14.), std::pair(10., 17.)));
}

TEST(Schedule, BlocksNeedRoomForTheirSharedMemory) {
  LaunchChain chain{launch({10, 10, 10})};
  chain[0].room.shared_bytes = 48 * 1024;
  const Timeline made = schedule(chain, {.sms = 1, .blocks_per_sm = 32, .launch_ns = 0});
  EXPECT_THAT(spans(made, 0), ElementsAre(std::pair(0., 10.), std::pair(0., 10.), std::pair(10., 20.)));
}

// The second launch is ready as the first is: its blocks go first where consumers do, and fill what is left where the
// oldest do. Producers first keep a place empty while a block of theirs is not ready.
TEST(Schedule, OldestFirst_FillsWhatIsLeft) {
  const LaunchChain chain{launch({10, 30}), launch({10, 10}, {relation(2, {{0}, {1}})}),
                          launch({10, 10}, {independent(2, 2), independent(2, 2)})};
  ScheduleOptions options{.sms = 1, .blocks_per_sm = 2, .launch_ns = 0, .window = 3};
  options.policy = BlockPolicy::kOldestFirst;
  const Timeline oldest = schedule(chain, options);
  EXPECT_THAT(spans(oldest, 0), ElementsAre(std::pair(0., 10.), std::pair(0., 30.)));
  EXPECT_THAT(spans(oldest, 1), ElementsAre(std::pair(10., 20.), std::pair(30., 40.)));
  EXPECT_THAT(spans(oldest, 2), ElementsAre(std::pair(20., 30.), std::pair(30., 40.)));
  options.policy = BlockPolicy::kProducerFirst;
  EXPECT_THAT(spans(schedule(chain, options), 2), ElementsAre(std::pair(30., 40.), std::pair(40., 50.)));
  options.policy = BlockPolicy::kConsumerFirst;
  EXPECT_THAT(spans(schedule(chain, options), 2), ElementsAre(std::pair(0., 10.), std::pair(0., 10.)));
}

TEST(Schedule, RefusesWhatIsNoChain) {
  const auto refusal = [](const LaunchChain& chain, const ScheduleOptions& options) {
    return std::string(schedule_blocks(chain, options).message());
  };
  EXPECT_THAT(refusal({launch({})}, {}), HasSubstr("Launch 0 has no blocks"));
  EXPECT_THAT(refusal({launch({1, 0})}, {}), HasSubstr("takes 0 ns"));
  EXPECT_THAT(refusal({launch({1}), launch({1})}, {.window = 2}), HasSubstr("a window of 2 needs 1"));
  EXPECT_THAT(refusal({launch({1}), launch({1}, {full(2, 1)})}, {.window = 2}), HasSubstr("other numbers of blocks"));
  EXPECT_THAT(refusal({launch({1})}, {.sms = 0}), HasSubstr("needs an SM"));
  LaunchChain wide{launch({1})};
  wide[0].room.threads = 1024;
  EXPECT_THAT(refusal(wide, {.threads_per_sm = 512}), HasSubstr("has 1024 threads"));
}

// What must hold of every timeline.
class Held {
 public:
  Held(const LaunchChain& chain, const ScheduleOptions& options, const Timeline& timeline)
      : chain_(chain), options_(options), timeline_(timeline) {}

  void check() const {
    ASSERT_EQ(timeline_.launches.size(), chain_.size());
    std::map<double, int> change;
    std::vector<std::map<double, int>> of_sm(options_.sms), threads_of_sm(options_.sms);
    for (std::uint32_t i = 0; i < chain_.size(); ++i) {
      const LaunchTimes& times = timeline_.launches[i];
      ASSERT_EQ(times.blocks.size(), chain_[i].size());
      if (i >= options_.window) {
        EXPECT_GE(times.resident_ns, timeline_.launches[i - options_.window].complete_ns);
      }
      EXPECT_GE(times.launched_ns, times.resident_ns + options_.launch_ns);
      for (std::uint32_t b = 0; b < times.blocks.size(); ++b) {
        const BlockTimes& block = times.blocks[b];
        EXPECT_GE(block.start_ns, times.launched_ns);
        EXPECT_GE(block.start_ns, block.ready_ns);
        EXPECT_GE(block.end_ns, block.start_ns + chain_[i].blocks[b].alone_ns - 1e-3);
        if (options_.policy == BlockPolicy::kInOrder && i > 0) {
          EXPECT_GE(block.start_ns, timeline_.launches[i - 1].complete_ns);
        }
        parents_end_before({i, b}, block.start_ns);
        ASSERT_LT(block.sm, options_.sms);
        ++of_sm[block.sm][block.start_ns], --of_sm[block.sm][block.end_ns];
        const int threads = static_cast<int>(chain_[i].room.threads);
        threads_of_sm[block.sm][block.start_ns] += threads, threads_of_sm[block.sm][block.end_ns] -= threads;
      }
    }
    never_above(of_sm, options_.blocks_per_sm);
    never_above(threads_of_sm, options_.threads_per_sm);
  }

 private:
  static void never_above(const std::vector<std::map<double, int>>& changes_of_sm, std::uint32_t most) {
    for (const auto& changes : changes_of_sm) {
      int now = 0;
      for (const auto& [at, by] : changes) EXPECT_LE(now += by, static_cast<int>(most)) << at;
      EXPECT_EQ(now, 0);
    }
  }

  void parents_end_before(BlockName child, double start) const {
    for (std::uint32_t p = child.launch < 3 ? 0 : child.launch - 3; p < child.launch; ++p) {
      for (std::uint32_t b = 0; b < chain_[p].size(); ++b) {
        if (!test::depends(chain_, child, {p, b})) continue;
        EXPECT_LE(timeline_.launches[p].blocks[b].end_ns, start);
      }
    }
  }

  const LaunchChain& chain_;
  const ScheduleOptions& options_;
  const Timeline& timeline_;
};

std::uint64_t number(const char* name, std::uint64_t otherwise) {
  const char* text = std::getenv(name);
  return text == nullptr ? otherwise : std::strtoull(text, nullptr, 10);
}

// PERGOLA_SEED starts elsewhere, PERGOLA_ROUNDS runs longer.
TEST(Schedule, HoldsForRandomChains) {
  const std::uint64_t first = number("PERGOLA_SEED", 1), rounds = number("PERGOLA_ROUNDS", 400);
  for (std::uint64_t seed = first; seed < first + rounds; ++seed) {
    SCOPED_TRACE(fmt::format("PERGOLA_SEED={} PERGOLA_ROUNDS=1", seed));
    LaunchChain chain = test::random_chain(seed, seed % 2 == 0);
    for (std::size_t i = 0; i < chain.size(); ++i) chain[i].room.threads = 32u << (seed / 3 + i) % 6;
    ScheduleOptions hardware{.sms = 1 + static_cast<std::uint32_t>(seed % 3),
                             .blocks_per_sm = 1 + static_cast<std::uint32_t>(seed % 5),
                             .launch_ns = static_cast<double>(seed % 4) * 20,
                             .launches_at_once = static_cast<std::uint32_t>(seed % 3)};
    std::vector<ScheduleMode> modes = figure_nine(hardware);
    modes.push_back({"oldest-4", modes.back().options});
    modes.back().options.policy = BlockPolicy::kOldestFirst;
    for (const ScheduleMode& each : modes) {
      SCOPED_TRACE(each.name);
      const Timeline timeline = schedule(chain, each.options);
      Held(chain, each.options, timeline).check();
      if (HasFailure()) return;
    }
  }
}

// Blocks of one length in rounds of as many as there is room for, behind each launch.
TEST(Schedule, BaselineIsTheClosedForm) {
  std::mt19937_64 random(7);
  for (int round = 0; round < 100; ++round) {
    const ScheduleOptions options{.sms = 1 + static_cast<std::uint32_t>(random() % 4),
                                  .blocks_per_sm = 1 + static_cast<std::uint32_t>(random() % 4),
                                  .launch_ns = static_cast<double>(random() % 100)};
    LaunchChain chain;
    double expected = 0;
    for (std::uint64_t i = 0, launches = 1 + random() % 6; i < launches; ++i) {
      const std::uint64_t blocks = 1 + random() % 40, room = options.sms * options.blocks_per_sm;
      const double ns = static_cast<double>(1 + random() % 60);
      chain.push_back(launch(std::vector<double>(blocks, ns)));
      const std::uint64_t rounds = (blocks + room - 1) / room;
      expected += options.launch_ns + ns * static_cast<double>(rounds);
    }
    EXPECT_EQ(schedule(chain, options).end_ns, expected);
  }
}

TEST(Orders, HaveEveryBlockOnce_BehindItsParents) {
  for (std::uint64_t seed = 1; seed <= 200; ++seed) {
    SCOPED_TRACE(seed);
    const LaunchChain chain = test::random_chain(seed, false);
    for (const auto choice : {BlockChoice::kLatestLaunch, BlockChoice::kReversedBlocks, BlockChoice::kRandom}) {
      const std::uint32_t window = 1 + static_cast<std::uint32_t>(seed % 4);
      const std::vector<BlockName> order = block_order(chain, window, choice, seed);
      std::map<std::pair<std::uint32_t, std::uint32_t>, std::size_t> place;
      for (std::size_t i = 0; i < order.size(); ++i) place[{order[i].launch, order[i].block}] = i;
      std::size_t blocks = 0;
      for (const ChainLaunch& each : chain) blocks += each.size();
      ASSERT_EQ(order.size(), blocks);
      ASSERT_EQ(place.size(), blocks);
      for (std::size_t i = 0; i < order.size(); ++i) {
        for (std::size_t j = i + 1; j < order.size(); ++j) {
          ASSERT_FALSE(test::depends(chain, order[i], order[j])) << "launch " << order[i].launch;
          ASSERT_LT(order[i].launch, order[j].launch + window) << "outside the window";
        }
      }
    }
  }
}

// Two launches of two blocks with nothing between them: the second's go first, from the highest down.
TEST(Orders, LatestLaunchFirst_IsWhatItSays) {
  const LaunchChain chain{launch({1, 1}), launch({1, 1}, {independent(2, 2)}),
                          launch({1, 1}, {one_to_one(2), independent(2, 2)})};
  EXPECT_THAT(block_order(chain, 2, BlockChoice::kLatestLaunch),
              ElementsAre(BlockName{1, 1}, BlockName{1, 0}, BlockName{0, 1}, BlockName{0, 0}, BlockName{2, 1},
                          BlockName{2, 0}));
  EXPECT_THAT(block_order(chain, 3, BlockChoice::kReversedBlocks),
              ElementsAre(BlockName{0, 1}, BlockName{0, 0}, BlockName{1, 1}, BlockName{1, 0}, BlockName{2, 1},
                          BlockName{2, 0}));
}

}  // namespace
}  // namespace pergola::device::cpu::blocks
