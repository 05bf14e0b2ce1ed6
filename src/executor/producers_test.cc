#include "src/executor/producers.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>
#include <set>
#include <thread>

#include "src/executor/process_fence.h"

namespace pergola::executor {
namespace {

// Rings as plain counters: two threads that own one at once lose counts, and TSan says so.
struct Rings {
  std::vector<std::uint64_t> counts;
  std::shared_ptr<Producers> producers;
  explicit Rings(std::uint32_t rings)
      : counts(rings), producers(std::make_shared<Producers>(rings, !register_process_fence())) {}

  void use_one() {
    Producer& mine = producers->mine();
    producers->enter(mine);
    while (mine.owned.empty()) {
      producers->leave(mine);
      producers->share(mine);
      producers->enter(mine);
    }
    mine.at = (mine.at + 1) % mine.owned.size();
    ++counts[mine.owned[mine.at]];
    producers->leave_after_spawn(mine);
  }
  std::uint64_t total() const { return std::accumulate(counts.begin(), counts.end(), std::uint64_t{0}); }
};

TEST(ProducersTest, OneThread_HasAllRings) {
  Rings rings(10);
  for (int n = 0; n < 40; ++n) rings.use_one();
  EXPECT_THAT(rings.counts, testing::Each(4u));
}

class ProducersThreads : public testing::TestWithParam<std::uint32_t> {};
INSTANTIATE_TEST_SUITE_P(rings, ProducersThreads, testing::Values(1u, 2u, 3u, 64u));

TEST_P(ProducersThreads, NoRingHasTwoOwners) {
  Rings rings(GetParam());
  constexpr int kThreads = 4, kUses = 20000;
  std::atomic<bool> over{false};
  std::thread keeper([&] {
    while (!over) {
      rings.producers->balance();
      std::this_thread::sleep_for(std::chrono::microseconds(50));
    }
  });
  for (int round = 0; round < 2; ++round) {  // the first round's threads end and leave their rings
    std::vector<std::thread> threads;
    for (int t = 0; t < kThreads; ++t)
      threads.emplace_back([&] {
        for (int n = 0; n < kUses; ++n) rings.use_one();
      });
    for (std::thread& thread : threads) thread.join();
  }
  over = true;
  keeper.join();
  EXPECT_EQ(rings.total(), std::uint64_t{2} * kThreads * kUses);
}

TEST(ProducersTest, RingsOfWhoIsQuiet_GoToWhoSpawns) {
  Rings rings(8);
  rings.use_one();
  std::thread([&] {
    rings.use_one();
    for (int n = 0; n < 20; ++n) {
      rings.use_one();
      rings.producers->balance();
    }
    Producer& mine = rings.producers->mine();
    EXPECT_EQ(std::set<std::uint32_t>(mine.owned.begin(), mine.owned.end()).size(), 8u);
  }).join();
  rings.use_one();  // and come back from one that has ended
  EXPECT_EQ(rings.producers->mine().owned.size(), 8u);
}

TEST(ProducersTest, WhileRingsAreMoved_NobodyEnters_AndWhoHasLostAllIsAtNone) {
  Rings rings(1);
  rings.use_one();
  Producer& mine = rings.producers->mine();
  mine.left = 3;
  EXPECT_TRUE(rings.producers->use_rings(1, [&] {
    EXPECT_FALSE(rings.producers->try_enter(mine));
    return true;
  }));
  EXPECT_EQ(mine.left, 3u);
  std::thread([&] { rings.use_one(); }).join();  // takes the only one
  ASSERT_TRUE(rings.producers->try_enter(mine));
  EXPECT_TRUE(mine.owned.empty());
  EXPECT_EQ(mine.left, 0u);
  rings.producers->leave(mine);
}

// Whoever only enters does not keep its rings from those that spawn.
TEST(ProducersTest, OnlySpawnsAreSeenByTheKeeper) {
  Rings rings(2);
  rings.use_one();
  EXPECT_TRUE(rings.producers->balance());
  Producer& mine = rings.producers->mine();
  rings.producers->enter(mine);
  EXPECT_FALSE(rings.producers->balance()) << "it has entered, and nothing is moved";
  rings.producers->leave(mine);
  EXPECT_FALSE(rings.producers->balance());
  rings.producers->enter(mine);
  mine.note_spawn();
  rings.producers->leave(mine);
  EXPECT_TRUE(rings.producers->balance());
}

TEST(ProducersTest, AThreadMayOutliveTheRings) {
  auto rings = std::make_unique<Rings>(4);
  rings->use_one();
  rings.reset();
  Rings others(4);
  others.use_one();
  EXPECT_EQ(others.total(), 1u);
}

// Back and forth between all rings and some, while threads use them.
TEST(ProducersTest, UseRings_NoThreadUsesAnother) {
  constexpr std::uint32_t kRings = 16, kFew = 5;
  Rings rings(kRings);
  std::atomic<bool> over{false};
  std::atomic<std::uint64_t> uses{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 3; ++t)
    threads.emplace_back([&] {
      while (!over) {
        rings.use_one();
        ++uses;
      }
    });
  std::vector<std::uint64_t> before(kRings);
  for (int round = 0; round < 100; ++round) {
    EXPECT_FALSE(rings.producers->use_rings(1, [] { return false; })) << "whoever asks is asked";
    EXPECT_TRUE(rings.producers->use_rings(kFew, [&] {
      before = rings.counts;  // nobody has a ring now
      return true;
    }));
    for (const std::uint64_t seen = uses; uses < seen + 50;) std::this_thread::yield();
    EXPECT_TRUE(rings.producers->use_rings(kRings, [&] {
      EXPECT_TRUE(std::equal(before.begin() + kFew, before.end(), rings.counts.begin() + kFew));
      EXPECT_GT(rings.total(), std::accumulate(before.begin(), before.end(), std::uint64_t{0}));
      return true;
    }));
    rings.producers->balance();
  }
  over = true;
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(rings.total(), uses);
}

}  // namespace
}  // namespace pergola::executor
