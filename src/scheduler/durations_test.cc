// Durations of kernels, kept from few launches, and the streams that are chosen by them.
#include "src/scheduler/durations.h"

#include <gtest/gtest.h>

#include <filesystem>

#include "src/scheduler/scheduler_fixture.h"

namespace pergola::scheduler::testing {
namespace {

// The host's clock is the real one here, and is taken off: long is far longer than a launch, and short far shorter.
constexpr double kLong = 1e9, kShort = 10;

class DurationsTest : public SchedulerTest {
 protected:
  void launch(const char* name, const std::vector<std::string>& in, const std::vector<std::string>& out, double ns,
              std::uint32_t blocks = 1) {
    std::vector<Access> accesses;
    for (const std::string& each : in) accesses.push_back(all(each, Mode::kRead));
    for (const std::string& each : out) accesses.push_back(all(each, Mode::kWrite));
    const KernelCall call{module_, kernel_, {{blocks, 1, 1}, {32, 1, 1}}, std::as_bytes(std::span(&ns, 1))};
    const Status status = submit(name, {.accesses = accesses, .call = &call}, ns);
    ASSERT_TRUE(status.ok()) << status.message();
  }
  // A parent, and two that read what it made.
  void fork(double child_ns) {
    launch("parent", {}, {"x"}, kLong);
    launch("left", {"x"}, {"y"}, child_ns);
    launch("right", {"x"}, {"z"}, child_ns);
  }
  // Round by round, each waited for. The streams of the last one.
  std::string after_rounds(int rounds, double child_ns) {
    for (int round = 0; round < rounds; ++round) {
      fork(child_ns);
      EXPECT_TRUE(scheduler->synchronize().ok());
    }
    fork(child_ns);
    const DagPicture picture = scheduler->picture();
    const auto end = picture.vertices.end();
    return fmt::format("{} {} {}", (end - 3)->stream, (end - 2)->stream, (end - 1)->stream);
  }

  const device::ModulePtr module_;
  const FakeKernel kernel_;
};

TEST_F(DurationsTest, ShortSiblings_ShareTheParentsStream_OnceTheyHaveBeenTimed) {
  open("graphs=off");
  EXPECT_EQ(after_rounds(0, kShort), "0 0 1") << "nothing is known";
  ASSERT_TRUE(scheduler->synchronize().ok());
  after_rounds(5, kShort);
  ASSERT_TRUE(scheduler->synchronize().ok());
  device->state().steps.clear();
  fork(kShort);
  const DagPicture picture = scheduler->picture();
  const auto& last = picture.vertices;
  EXPECT_EQ(last.back().stream, (last.end() - 2)->stream);
  EXPECT_EQ(last.back().reason, StreamReason::kSoonFree);
  EXPECT_TRUE(device->state().of(Step::Kind::kWait).empty());
}

TEST_F(DurationsTest, LongSiblings_GoElsewhere) {
  open("graphs=off");
  const std::string streams = after_rounds(6, kLong);
  EXPECT_NE(streams[2], streams[4]) << streams;
}

TEST_F(DurationsTest, TheForkCost_IsAPolicy) {
  open("graphs=off,fork-cost=0");
  const std::string streams = after_rounds(6, kShort);
  EXPECT_NE(streams[2], streams[4]) << streams;
  const std::size_t untimed = device->state().of(Step::Kind::kRecord).size();
  scheduler.reset();
  arrays.clear();
  device->state().steps.clear();
  open("graphs=off");
  after_rounds(6, kLong);
  EXPECT_GT(device->state().of(Step::Kind::kRecord).size(), untimed) << "two more for each launch that is timed";
}

TEST_F(DurationsTest, ManyShortOnes_AreOneLongOne) {
  open("graphs=off");
  after_rounds(6, kShort);
  ASSERT_TRUE(scheduler->synchronize().ok());
  // Each is expected to take nothing to speak of, but one that waits for another stream may take as long as that.
  launch("parent", {}, {"x"}, kLong);
  launch("left", {"x"}, {"y"}, kShort);
  launch("other", {}, {"w"}, kLong, 1024);
  launch("joins", {"w", "y"}, {"v"}, kShort);
  launch("right", {"x"}, {"z"}, kShort);
  const auto vertices = scheduler->picture().vertices;
  const auto end = vertices.end();
  EXPECT_NE((end - 3)->stream, (end - 4)->stream) << "nothing is known of 'other', which has no parent";
  EXPECT_NE((end - 1)->stream, (end - 2)->stream) << "it would wait for 'other'";
}

TEST_F(DurationsTest, WithoutParents_BehindWhatIsSoonDone) {
  open("graphs=off");
  for (int round = 0; round < 5; ++round) {
    launch("one", {}, {"a"}, kShort);
    launch("two", {}, {"b"}, kShort);
    launch("sum", {"a", "b"}, {"c"}, kShort);
    ASSERT_TRUE(scheduler->synchronize().ok());
  }
  device->state().steps.clear();
  launch("one", {}, {"a"}, kShort);
  launch("two", {}, {"b"}, kShort);
  launch("sum", {"a", "b"}, {"c"}, kShort);
  const auto vertices = scheduler->picture().vertices;
  EXPECT_EQ((vertices.end() - 1)->stream, (vertices.end() - 3)->stream);
  EXPECT_EQ((vertices.end() - 2)->stream, (vertices.end() - 3)->stream);
  EXPECT_TRUE(device->state().of(Step::Kind::kWait).empty());
}

TEST_F(DurationsTest, AnotherSize_IsAnotherKernel) {
  open("graphs=off");
  after_rounds(6, kShort);
  ASSERT_TRUE(scheduler->synchronize().ok());
  launch("parent", {}, {"x"}, kLong);
  launch("left", {"x"}, {"y"}, kShort, 1 << 20);
  launch("right", {"x"}, {"z"}, kShort);
  const auto vertices = scheduler->picture().vertices;
  EXPECT_NE((vertices.end() - 1)->stream, (vertices.end() - 2)->stream);
}

TEST_F(DurationsTest, FewLaunchesAreTimed) {
  open("graphs=off");
  for (int i = 0; i < 1000; ++i) {
    launch("k", {}, {"x"}, kShort);
    ASSERT_TRUE(scheduler->synchronize().ok());
  }
  const std::size_t starts_and_ends = 2 * (3 + 7);  // the first, and 8, 16, 32, ... 512
  EXPECT_EQ(scheduler->counters().computations, 1000u);
  EXPECT_LE(device->state().of(Step::Kind::kRecord).size(), 1000 + starts_and_ends) << "one each to wait for";
}

// A kernel that was short for a while, and then is long at the same size, as its numbers say.
TEST_F(DurationsTest, NumbersThatMakeItLong_AreFoundOut) {
  open("graphs=off");
  after_rounds(5, kShort);
  ASSERT_TRUE(scheduler->synchronize().ok());
  const auto siblings_share = [&] {
    fork(kLong);
    const DagPicture picture = scheduler->picture();
    const auto end = picture.vertices.end();
    const bool share = (end - 1)->stream == (end - 2)->stream;
    EXPECT_TRUE(scheduler->synchronize().ok());
    return share;
  };
  EXPECT_TRUE(siblings_share()) << "it was short so far";
  int rounds = 1;
  while (siblings_share() && rounds < 1000) ++rounds;
  EXPECT_LT(rounds, 12);
  // And one that is disturbed once stays what it was.
  after_rounds(30, kShort);
  EXPECT_TRUE(scheduler->synchronize().ok());
  const auto last_share = [&] {
    fork(kShort);
    const DagPicture picture = scheduler->picture();
    EXPECT_TRUE(scheduler->synchronize().ok());
    return (picture.vertices.end() - 1)->stream == (picture.vertices.end() - 2)->stream;
  };
  EXPECT_TRUE(last_share());
  EXPECT_TRUE(siblings_share());
  EXPECT_TRUE(last_share());
}

TEST_F(DurationsTest, WhatIsNowShortAndNowLong_IsTimedEverMoreRarely) {
  open("graphs=off");
  for (int i = 0; i < 2000; ++i) {
    launch("k", {}, {"x"}, i % 2 == 0 ? kShort : kLong);
    ASSERT_TRUE(scheduler->synchronize().ok());
  }
  const std::size_t starts_and_ends = 2 * (3 + 9 + 3 * 10);  // the first, powers of two, and three for each doubling
  EXPECT_LE(device->state().of(Step::Kind::kRecord).size(), 2000 + starts_and_ends) << "one each to wait for";
}

// A history that is used, and not recorded: the choices of the first launches, and graphs as ever.
TEST_F(DurationsTest, AHistoryThatIsUsed_IsExpectedFromTheFirstLaunchOn) {
  const std::string path = ::testing::TempDir() + "/pergola_used_history.json";
  History earlier;
  for (const char* const name : {"left", "right"})
    earlier.add(device->info().name, name, SizeClass::of(32, 2 * kBytes), kShort);
  ASSERT_TRUE(earlier.add_to(path).ok());
  open();
  ASSERT_TRUE(scheduler->use_history(path).ok());
  EXPECT_EQ(after_rounds(0, kShort), "0 0 0");
  EXPECT_EQ(scheduler->graphs().off, "");
  ASSERT_TRUE(scheduler->synchronize().ok());
  std::filesystem::remove(path);
  const Status gone = scheduler->use_history(path);
  EXPECT_EQ(gone.code(), Code::kNotFound);
  EXPECT_NE(gone.message().find("PERGOLA_HISTORY=" + path), std::string::npos) << gone.message();
  EXPECT_EQ(scheduler->use_history(::testing::TempDir()).code(), Code::kInvalidArgument) << "a folder";
}

TEST_F(DurationsTest, AnEarlierRunsHistory_Counts) {
  Durations durations("a GPU");
  History earlier;
  earlier.add("a GPU", "k", SizeClass::of(32, 0), 500);
  earlier.add("another", "k", SizeClass::of(64, 0), 500);
  durations.know(earlier);
  WorkSite site{.name = "k"};
  const double ns = 0;
  const auto expected = [&](std::uint32_t blocks) {
    const KernelCall call{module_, kernel_, {{blocks, 1, 1}, {32, 1, 1}}, std::as_bytes(std::span(&ns, 1))};
    return Durations::expected_ns(durations.of({.site = &site, .call = &call}));
  };
  EXPECT_EQ(expected(1), 500);
  EXPECT_EQ(expected(2), kUnknownDurationNs);
  EXPECT_EQ(expected(1000), kUnknownDurationNs);
}

}  // namespace
}  // namespace pergola::scheduler::testing
