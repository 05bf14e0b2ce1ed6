// Overlap and critical paths of timelines made by hand: exact figures.
#include "src/scheduler/metrics.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace pergola::scheduler {
namespace {

using ::testing::ElementsAre;

Slice kernel(std::uint64_t id, double start, double end, std::vector<std::uint64_t> parents = {}) {
  Slice slice;
  slice.id = id;
  slice.name = "k" + std::to_string(id);
  slice.start_ns = start;
  slice.end_ns = end;
  for (const std::uint64_t parent : parents) slice.parents.push_back({parent, 1, Hazard::kReadAfterWrite});
  return slice;
}
Slice copy(std::uint64_t id, double start, double end) {
  Slice slice = kernel(id, start, end);
  slice.kind = WorkKind::kCopyToDevice;
  return slice;
}
HostSlice host(HostKind kind, std::uint64_t last_id, double start, double end,
               std::vector<std::uint64_t> parents = {}) {
  HostSlice slice;
  slice.kind = kind;
  slice.last_id = last_id;
  slice.start_ns = start;
  slice.end_ns = end;
  for (const std::uint64_t parent : parents) slice.parents.push_back({parent, 1, Hazard::kReadAfterWrite});
  return slice;
}
Timeline timeline(std::vector<Slice> slices, std::vector<HostSlice> hosts = {}) {
  Timeline made;
  made.slices = std::move(slices);
  made.host = std::move(hosts);
  return made;
}
const auto as_measured = [](const Slice& slice) { return std::optional<double>(slice.duration_ns()); };

TEST(Overlap, NothingAtAll_IsZero) {
  const Overlap found = overlap({});
  EXPECT_EQ(found.tot, 0);
  EXPECT_EQ(found.span_ns, 0);
}

TEST(Overlap, OneAfterTheOther_IsZero_TouchingToo) {
  const Overlap found = overlap(timeline({copy(1, 0, 100), kernel(2, 100, 300), kernel(3, 300, 400)}));
  EXPECT_DOUBLE_EQ(found.ct, 0);
  EXPECT_DOUBLE_EQ(found.tc, 0);
  EXPECT_DOUBLE_EQ(found.cc, 0);
  EXPECT_DOUBLE_EQ(found.tot, 0);
  EXPECT_DOUBLE_EQ(found.span_ns, 400);
  EXPECT_DOUBLE_EQ(found.computation_ns, 300);
  EXPECT_DOUBLE_EQ(found.transfer_ns, 100);
}

TEST(Overlap, CopyUnderAKernel) {
  //  copy    0───100
  //  kernel      50───────250
  const Overlap found = overlap(timeline({copy(1, 0, 100), kernel(2, 50, 250)}));
  EXPECT_DOUBLE_EQ(found.ct, 50.0 / 200);
  EXPECT_DOUBLE_EQ(found.tc, 50.0 / 100);
  EXPECT_DOUBLE_EQ(found.cc, 0);
  EXPECT_DOUBLE_EQ(found.tot, 100.0 / 300);
}

TEST(Overlap, WhatOverlapsSeveral_CountsOnce) {
  //  copy    0───────────100
  //  kernel    20───60
  //  kernel       40───80
  const Overlap found = overlap(timeline({copy(1, 0, 100), kernel(2, 20, 60), kernel(3, 40, 80)}));
  EXPECT_DOUBLE_EQ(found.ct, 1);
  EXPECT_DOUBLE_EQ(found.tc, 60.0 / 100);
  EXPECT_DOUBLE_EQ(found.cc, 40.0 / 80);
  EXPECT_DOUBLE_EQ(found.tot, 140.0 / 180);
}

TEST(Overlap, EqualAndEmptySlices) {
  const Overlap found = overlap(timeline({kernel(1, 10, 20), kernel(2, 10, 20), kernel(3, 15, 15), kernel(4, 30, 30)}));
  EXPECT_DOUBLE_EQ(found.cc, 1);
  EXPECT_DOUBLE_EQ(found.computation_ns, 20);
}

TEST(Overlap, HostAccesses_AreTransfers_WaitsAreNot) {
  const Overlap found =
      overlap(timeline({kernel(1, 0, 100)}, {host(HostKind::kWait, 1, 0, 100), host(HostKind::kRead, 1, 75, 125)}));
  EXPECT_DOUBLE_EQ(found.ct, 0.25);
  EXPECT_DOUBLE_EQ(found.tc, 0.5);
  EXPECT_DOUBLE_EQ(found.transfer_ns, 50);
}

TEST(CriticalPath, LongestPath_NotTheSum) {
  //  1 (100) ─▶ 3 (50) ─▶ 4 (10)
  //  2 (120) ─────────────▶ 4
  const Timeline made =
      timeline({kernel(1, 0, 100), kernel(2, 0, 120), kernel(3, 100, 150, {1}), kernel(4, 150, 160, {2, 3})});
  const CriticalPath path = critical_path(made, as_measured);
  EXPECT_DOUBLE_EQ(path.length_ns, 160);
  EXPECT_THAT(path.ids, ElementsAre(1, 3, 4));
  EXPECT_TRUE(path.unknown.empty());
}

TEST(CriticalPath, SerialTimesCount_NotThoseMeasuredHere) {
  const Timeline made = timeline({kernel(1, 0, 200), kernel(2, 0, 200), kernel(3, 200, 300, {1, 2})});
  const auto half = [](const Slice& slice) { return std::optional(slice.duration_ns() / 2); };
  EXPECT_DOUBLE_EQ(critical_path(made, half).length_ns, 150);
}

TEST(CriticalPath, UnknownTimes_AreTold_AndCountAsMeasured) {
  const Timeline made = timeline({kernel(1, 0, 200), kernel(2, 200, 300, {1})});
  const auto first_only = [](const Slice& slice) { return slice.id == 1 ? std::optional(50.0) : std::nullopt; };
  const CriticalPath path = critical_path(made, first_only);
  EXPECT_DOUBLE_EQ(path.length_ns, 150);
  EXPECT_THAT(path.unknown, ElementsAre("k2"));
}

TEST(CriticalPath, WhatFollowsAWaitOfTheHost_ComesAfterIt) {
  // 2 depends on nothing, but its thread had waited for 1 and read its result for 30.
  const Timeline waited = timeline({kernel(1, 0, 100), kernel(2, 140, 200)},
                                   {host(HostKind::kWait, 1, 0, 105, {1}), host(HostKind::kRead, 1, 105, 135)});
  EXPECT_DOUBLE_EQ(critical_path(waited, as_measured).length_ns, 190);
  EXPECT_THAT(critical_path(waited, as_measured).ids, ElementsAre(1, 2));
  Timeline elsewhere = waited;
  elsewhere.slices[1].thread = 1;  // submitted by a thread that waited for nothing
  EXPECT_DOUBLE_EQ(critical_path(elsewhere, as_measured).length_ns, 130);
}

TEST(CriticalPath, Synchronize_ComesAfterEverything) {
  const Timeline made =
      timeline({kernel(1, 0, 10), kernel(2, 0, 70), kernel(3, 80, 90)}, {host(HostKind::kSynchronize, 2, 0, 75)});
  EXPECT_DOUBLE_EQ(critical_path(made, as_measured).length_ns, 80);
}

TEST(CriticalPath, ParentsThatWereDropped_CountAsNothing) {
  EXPECT_DOUBLE_EQ(critical_path(timeline({kernel(7, 0, 10, {3})}), as_measured).length_ns, 10);
}

// What took longer by itself than here was disturbed there: the bound is one of this run, too.
TEST(CriticalPath, NothingCountsForMoreThanItTook) {
  const auto twice = [](const Slice& slice) { return std::optional(2 * slice.duration_ns()); };
  const auto half = [](const Slice& slice) { return std::optional(slice.duration_ns() / 2); };
  const auto made = timeline({kernel(1, 0, 10), kernel(2, 10, 30, {1})});
  EXPECT_DOUBLE_EQ(critical_path(made, twice).length_ns, 30);
  EXPECT_DOUBLE_EQ(critical_path(made, half).length_ns, 15);
}

TEST(SerialRun, GivesTheLeastOfTheSameWork) {
  Slice once = kernel(1, 0, 100), again = kernel(2, 100, 400), other = kernel(3, 400, 410);
  once.name = again.name = other.name = "k";
  once.detail.grid = again.detail.grid = {2, 1, 1};
  other.detail.grid = {3, 1, 1};
  const auto run = SerialRun::from(timeline({once, again, other}));
  ASSERT_TRUE(run.ok()) << run.message();
  EXPECT_EQ((*run)(once), 100.0);
  EXPECT_EQ((*run)(again), 100.0);
  EXPECT_EQ((*run)(other), 10.0);
  EXPECT_EQ((*run)(kernel(4, 0, 1)), std::nullopt);
}

TEST(SerialRun, RefusesWhatOverlaps) {
  const auto run = SerialRun::from(timeline({kernel(1, 0, 100), kernel(2, 50, 150)}));
  ASSERT_FALSE(run.ok());
  EXPECT_THAT(run.message(), ::testing::HasSubstr("execution=sync"));
}

}  // namespace
}  // namespace pergola::scheduler
