// Dependency sets (paper 003, IV-A), on arrays and on parts of them.
#include <gmock/gmock.h>

#include <atomic>
#include <chrono>
#include <optional>
#include <thread>

#include "src/scheduler/scheduler_fixture.h"
#include "tests/support/sanitized.h"

namespace pergola::scheduler::testing {
namespace {

using ::testing::IsEmpty;
using ::testing::UnorderedElementsAre;

class DependencyTest : public SchedulerTest {
 protected:
  void SetUp() override { open(); }
  Status part(const char* name, const std::string& of, std::uint64_t begin, std::uint64_t end, Mode mode) {
    const Access access{&array(of), {begin, end}, mode};
    return submit(name, {.accesses = std::span(&access, 1)}, 100);
  }
};

TEST_F(DependencyTest, Figure3A_ReaderAfterWriter_DependsOnIt) {
  ASSERT_TRUE(run("K1", {}, {"X"}).ok());
  ASSERT_TRUE(run("K2", {"X"}, {"Y"}).ok());
  EXPECT_THAT(parents(2), UnorderedElementsAre("K1 RAW"));
}

TEST_F(DependencyTest, Figure3B_WriterAfterReader_DependsOnTheReaderOnly) {
  ASSERT_TRUE(run("K1", {}, {"X"}).ok());
  ASSERT_TRUE(run("K2", {"X"}, {"Y"}).ok());
  ASSERT_TRUE(run("K3", {"X"}, {"X"}).ok());
  EXPECT_THAT(parents(3), UnorderedElementsAre("K2 WAR"));
}

TEST_F(DependencyTest, Figure3C_SecondReader_DependsOnTheWriterOnly) {
  ASSERT_TRUE(run("K1", {}, {"X"}).ok());
  ASSERT_TRUE(run("K2", {"X"}, {"Y"}).ok());
  ASSERT_TRUE(run("K3", {"X"}, {"Z"}).ok());
  EXPECT_THAT(parents(3), UnorderedElementsAre("K1 RAW"));
  ASSERT_TRUE(run("K4", {}, {"X"}).ok());
  EXPECT_THAT(parents(4), UnorderedElementsAre("K2 WAR", "K3 WAR")) << "on both, and not on K1";
  ASSERT_TRUE(run("K5", {"X"}, {}).ok());
  EXPECT_THAT(parents(5), UnorderedElementsAre("K4 RAW"));
}

TEST_F(DependencyTest, TwoWriters_AreOrdered) {
  ASSERT_TRUE(run("K1", {}, {"X"}).ok());
  ASSERT_TRUE(run("K2", {}, {"X"}).ok());
  EXPECT_THAT(parents(2), UnorderedElementsAre("K1 WAW"));
}

TEST_F(DependencyTest, ReadersOfOneArray_AreIndependent) {
  ASSERT_TRUE(run("K1", {"X"}, {"Y"}).ok());
  ASSERT_TRUE(run("K2", {"X"}, {"Z"}).ok());
  EXPECT_THAT(parents(2), IsEmpty());
}

TEST_F(DependencyTest, NoConst_OrdersReadersToo) {
  open("dependency=no-const");
  arrays.clear();
  ASSERT_TRUE(run("K1", {"X"}, {"Y"}).ok());
  ASSERT_TRUE(run("K2", {"X"}, {"Z"}).ok());
  EXPECT_THAT(parents(2), UnorderedElementsAre("K1 RAW")) << "each reader counts as a writer";
}

TEST_F(DependencyTest, PartsThatDoNotOverlap_AreIndependent) {
  ASSERT_TRUE(part("left", "X", 0, 500, Mode::kWrite).ok());
  ASSERT_TRUE(part("right", "X", 500, 1000, Mode::kWrite).ok());
  EXPECT_THAT(parents(2), IsEmpty());
  ASSERT_TRUE(part("middle", "X", 499, 501, Mode::kRead).ok());
  EXPECT_THAT(parents(3), UnorderedElementsAre("left RAW", "right RAW"));
  ASSERT_TRUE(part("first byte", "X", 0, 1, Mode::kWrite).ok());
  EXPECT_THAT(parents(4), UnorderedElementsAre("left WAW")) << "the reader of the middle does not touch it";
  ASSERT_TRUE(part("at the cut", "X", 500, 501, Mode::kWrite).ok());
  EXPECT_THAT(parents(5), UnorderedElementsAre("middle WAR"));
}

TEST_F(DependencyTest, OneKernelThatReadsAndWritesParts_DoesNotDependOnItself) {
  const Access accesses[] = {{&array("X"), {0, 600}, Mode::kRead}, {&array("X"), {400, 1000}, Mode::kWrite}};
  ASSERT_TRUE(submit("K1", {.accesses = accesses}, 100).ok());
  EXPECT_THAT(parents(1), IsEmpty());
  ASSERT_TRUE(part("K2", "X", 0, 1000, Mode::kReadWrite).ok());
  EXPECT_THAT(parents(2), UnorderedElementsAre("K1 WAR", "K1 RAW"));
}

TEST_F(DependencyTest, EmptyRangesAndEmptyArrays_DependOnNothing) {
  ASSERT_TRUE(part("K1", "X", 0, 1000, Mode::kWrite).ok());
  ASSERT_TRUE(part("K2", "X", 300, 300, Mode::kWrite).ok());
  EXPECT_THAT(parents(2), IsEmpty());
  const auto none = scheduler->create_resource(0);
  const Access access{none.get(), {0, 0}, Mode::kReadWrite};
  ASSERT_TRUE(submit("K3", {.accesses = std::span(&access, 1)}, 100).ok());
  EXPECT_THAT(parents(3), IsEmpty());
}

// Another library's memory, taken in, used and dropped, and taken in again while that goes on.
TEST_F(DependencyTest, MemoryThatComesAgain_ComesAfterWhatUsedIt) {
  constexpr std::uint64_t kAt = 0x10000;
  const auto take_in = [&](std::uint64_t at, std::uint64_t bytes) {
    return scheduler->create_foreign_resource(bytes, at);
  };
  const auto use = [&](const char* name, Resource& resource, Mode mode) {
    const Access access{&resource, {0, resource.size_bytes()}, mode};
    ASSERT_TRUE(submit(name, {.accesses = std::span(&access, 1)}, 1000).ok());
  };
  auto first = take_in(kAt, 1000), beside = take_in(kAt + 1000, 1000);
  use("K1", *first, Mode::kWrite);
  use("K2", *beside, Mode::kRead);
  scheduler->retire(std::move(first), nullptr);
  scheduler->retire(std::move(beside), nullptr);
  auto again = take_in(kAt, 1000);
  use("K3", *again, Mode::kRead);
  EXPECT_THAT(parents(3), UnorderedElementsAre("K1 RAW"));
  auto both = take_in(kAt + 900, 200), other = take_in(kAt + 2000, 1000);
  use("K4", *both, Mode::kReadWrite);
  EXPECT_THAT(parents(4), UnorderedElementsAre("K1 RAW", "K2 RAW"));
  use("K5", *other, Mode::kWrite);
  EXPECT_THAT(parents(5), IsEmpty());
  ASSERT_TRUE(scheduler->synchronize().ok());
  for (auto* resource : {&again, &both, &other}) scheduler->retire(std::move(*resource), nullptr);
  auto later = take_in(kAt, 3000);
  use("K6", *later, Mode::kWrite);
  EXPECT_THAT(parents(6), IsEmpty()) << "all has ended";
  scheduler->retire(std::move(later), nullptr);
  for (int i = 0; i < 100; ++i) {  // and nothing is kept for ever
    auto one = take_in(kAt, 1000);
    use("K", *one, Mode::kReadWrite);
    scheduler->retire(std::move(one), nullptr);
    ASSERT_TRUE(scheduler->synchronize().ok());
  }
  EXPECT_LE(scheduler->frontier_size(), 4u);
}

TEST_F(DependencyTest, UniversalAccess_IsOrderedAgainstEverything) {
  ASSERT_TRUE(run("K1", {}, {"X"}).ok());
  ASSERT_TRUE(run("K2", {}, {"Y"}).ok());
  ASSERT_TRUE(submit("reader", {.universal = Mode::kRead}, 100).ok());
  EXPECT_THAT(parents(3), UnorderedElementsAre("K1 any", "K2 any"));
  ASSERT_TRUE(run("K4", {"X"}, {}).ok());
  EXPECT_THAT(parents(4), UnorderedElementsAre("K1 RAW")) << "readers do not wait for one that only reads";
  ASSERT_TRUE(run("K5", {}, {"Z"}).ok());
  EXPECT_THAT(parents(5), UnorderedElementsAre("reader any"));
  ASSERT_TRUE(submit("writer", {.universal = Mode::kReadWrite}, 100).ok());
  ASSERT_TRUE(run("K7", {"X"}, {}).ok());
  EXPECT_THAT(parents(7), UnorderedElementsAre("writer any"));
  // The host waits for it as well, for whatever array.
  const double before = device->state().host_ns;
  ASSERT_TRUE(read("Q").ok());
  EXPECT_GT(device->state().host_ns, before);
}

TEST_F(DependencyTest, WhatTheHostHasSeenEnd_IsNoParentAnyMore) {
  ASSERT_TRUE(run("K1", {}, {"X"}).ok());
  ASSERT_TRUE(run("K2", {}, {"Y"}).ok());
  ASSERT_TRUE(read("X").ok());
  ASSERT_TRUE(run("K3", {"X"}, {}).ok());
  EXPECT_THAT(parents(3), IsEmpty());
}

// Pictures and timelines do not depend on how fast the device is: the same edges, whether a parent has ended or not.
TEST_F(DependencyTest, WhatHasEnded_IsAnEdgeAllTheSame_WhetherTheHostHasLookedOrNot) {
  const auto edges = [&](bool reads_in_between) {
    open();
    arrays.clear();
    const auto look = [&] {  // afterwards all of it is known to have ended
      if (reads_in_between) {
        EXPECT_TRUE(scheduler->synchronize().ok());
      }
    };
    std::vector<std::multiset<std::string>> of_each;
    const auto step = [&](const char* name, const std::vector<std::string>& from, const std::vector<std::string>& to) {
      EXPECT_TRUE(run(name, from, to).ok());
      look();
      const std::uint64_t id = of_each.size() + 1;
      EXPECT_THAT(parents(id, !reads_in_between), IsEmpty());
      of_each.push_back(parents(id, reads_in_between));
    };
    step("K1", {}, {"X"});
    step("K2", {"X"}, {"Y"});
    step("K3", {"X"}, {"Z"});
    step("K4", {}, {"X"});
    step("K5", {"X"}, {"X"});
    step("K6", {"Y", "Z"}, {});
    EXPECT_TRUE(part("left", "X", 0, 500, Mode::kWrite).ok());
    look();
    of_each.push_back(parents(7, reads_in_between));
    step("K8", {"X"}, {});
    const auto any = [&](const char* name, Mode mode) {
      EXPECT_TRUE(submit(name, {.universal = mode}, 100).ok());
      look();
      EXPECT_FALSE(parents(of_each.size() + 1, reads_in_between).empty());
      of_each.emplace_back();  // what was last on each stream, and there are more of these where work overlaps
    };
    any("U9", Mode::kReadWrite);
    step("K10", {"X"}, {});
    step("K11", {}, {"X"});
    any("U12", Mode::kRead);
    step("K13", {"X"}, {});
    step("K14", {}, {"Y"});
    return of_each;
  };
  const auto waited_for = edges(false), ended = edges(true);
  EXPECT_EQ(waited_for, ended);
  EXPECT_THAT(ended[3], UnorderedElementsAre("K2 WAR", "K3 WAR"));
  EXPECT_THAT(ended[4], UnorderedElementsAre("K4 RAW"));
  EXPECT_THAT(ended[5], UnorderedElementsAre("K2 RAW", "K3 RAW"));
  EXPECT_THAT(ended[7], UnorderedElementsAre("left RAW", "K5 RAW"));
  EXPECT_THAT(ended[9], UnorderedElementsAre("U9 any")) << "which came after all that wrote X";
  EXPECT_THAT(ended[10], UnorderedElementsAre("K10 WAR")) << "and so after U9";
  EXPECT_THAT(ended[12], UnorderedElementsAre("K11 RAW"));
  EXPECT_THAT(ended[13], UnorderedElementsAre("U9 any", "U12 any"));
}

TEST_F(DependencyTest, OfManyThatHaveEnded_TheLastAreEdges_AndTheRestIsCounted) {
  ASSERT_TRUE(run("W", {}, {"X"}).ok());
  for (const char* name : {"R1", "R2", "R3", "R4", "R5", "R6", "R7", "R8", "R9"}) {
    ASSERT_TRUE(run(name, {"X"}, {name}).ok());
    ASSERT_TRUE(scheduler->synchronize().ok());
  }
  ASSERT_TRUE(run("last", {}, {"X"}).ok());
  EXPECT_THAT(parents(11, true), UnorderedElementsAre("R9 WAR", "R8 WAR", "R7 WAR", "R6 WAR", "R5 WAR", "R4 WAR"));
  EXPECT_EQ(scheduler->picture().vertices.back().more_edges, 3u);
  EXPECT_THAT(scheduler->picture().dot(), ::testing::HasSubstr("\\nafter 3 more, not drawn\""));
  EXPECT_THAT(scheduler->picture().mermaid(), ::testing::HasSubstr("<br/>after 3 more, not drawn\"]"));
}

TEST_F(DependencyTest, ReadersOfAnythingThatHaveEnded_AreNoParentsBehindAYoungerWriter) {
  ASSERT_TRUE(submit("any", {.universal = Mode::kRead}, 100).ok());
  ASSERT_TRUE(scheduler->synchronize().ok());
  ASSERT_TRUE(run("first", {}, {"X"}).ok());
  EXPECT_THAT(parents(2, true), UnorderedElementsAre("any any"));
  ASSERT_TRUE(scheduler->synchronize().ok());
  ASSERT_TRUE(run("second", {"X"}, {"X"}).ok());
  EXPECT_THAT(parents(3, true), UnorderedElementsAre("first RAW"));
}

TEST_F(DependencyTest, WhatTheHostHasOverwritten_IsNoEdge) {
  ASSERT_TRUE(run("K1", {}, {"X"}).ok());
  ASSERT_TRUE(scheduler->begin_host_access(all("X", Mode::kWrite)).ok());
  ASSERT_TRUE(run("K2", {"X"}, {}).ok());
  EXPECT_THAT(parents(2, true), IsEmpty());
  ASSERT_TRUE(scheduler->await_access(all("X", Mode::kReadWrite)).ok());
  ASSERT_TRUE(run("K3", {}, {"X"}).ok());
  EXPECT_THAT(parents(3, true), UnorderedElementsAre("K2 WAR")) << "it may have been left as it was";
}

// Others' work that comes while one waits is not waited for by who only waits, and a place among the work is asked for
// by who would wait for ever.
TEST_F(DependencyTest, WhatComesWhileTheHostWaits_DoesNotHoldItUp) {
  ASSERT_TRUE(run("first", {}, {"X"}, 1000).ok());
  int waits = 0;
  device->state().while_waiting = [&] {
    ++waits;
    EXPECT_TRUE(run("other", {"X"}, {"X"}, 1000).ok());
  };
  ASSERT_TRUE(scheduler->await_access(all("X", Mode::kRead)).ok());
  EXPECT_EQ(waits, 1);
  const auto given = scheduler->begin_host_access(all("X", Mode::kRead), std::nullopt, 3);
  ASSERT_TRUE(given.ok());
  EXPECT_FALSE(*given);
  EXPECT_EQ(waits, 4);
  device->state().while_waiting = nullptr;
  EXPECT_TRUE(scheduler->begin_host_access(all("X", Mode::kRead), std::nullopt, 3).value());
}

// So many pieces that nobody is in any more become one again, where their last writers do not differ.
TEST_F(DependencyTest, WhatHasEnded_InManyPieces_IsNoEdgeOfTheWrongOne) {
  ASSERT_TRUE(run("all", {}, {"X"}).ok());
  for (std::uint64_t i = 0; i < 100; ++i) ASSERT_TRUE(part("part", "X", i * 5, i * 5 + 3, Mode::kWrite).ok());
  ASSERT_TRUE(scheduler->synchronize().ok());
  ASSERT_TRUE(part("outside", "X", 700, 710, Mode::kRead).ok());
  EXPECT_THAT(parents(102, true), UnorderedElementsAre("all RAW"));
  ASSERT_TRUE(part("inside", "X", 495, 497, Mode::kRead).ok());
  const std::multiset<std::string> inside = parents(103, true);
  EXPECT_TRUE(inside.empty() || inside == std::multiset<std::string>{"part RAW"});
}

TEST_F(DependencyTest, HostRead_WaitsForJustWhatMadeTheData) {
  ASSERT_TRUE(run("short", {}, {"X"}, 100).ok());
  ASSERT_TRUE(run("long", {}, {"Y"}, 1e6).ok());
  ASSERT_TRUE(run("after", {"X"}, {"Z"}, 1e6).ok()) << "a reader, on the same stream";
  ASSERT_TRUE(read("X").ok());
  EXPECT_DOUBLE_EQ(device->state().host_ns, 100);
  const Access write = all("X", Mode::kWrite);
  EXPECT_FALSE(scheduler->try_host_access(write)) << "the reader";
  EXPECT_TRUE(scheduler->try_host_access(all("X", Mode::kRead)));
  ASSERT_TRUE(scheduler->begin_host_access(write).ok());
  EXPECT_DOUBLE_EQ(device->state().host_ns, 100 + 1e6);
}

// A thread that reads again and again does not keep away another's launch that writes: its next access comes after it.
TEST_F(DependencyTest, HostAccesses_BeginBehindWhatWaitsForEarlierOnes) {
  const Access reading = all("X", Mode::kRead), elsewhere = all("Y", Mode::kRead);
  std::optional<Scheduler::HostAccess> first(scheduler->begin_host_access(reading).value());
  std::atomic<bool> launched{false};
  std::jthread launches([&] {
    EXPECT_TRUE(run("K", {}, {"X"}).ok());
    launched = true;
  });
  const auto in_time = std::chrono::steady_clock::now() + std::chrono::seconds(30);
  bool waits = false;
  while (!waits && std::chrono::steady_clock::now() < in_time) waits = !scheduler->try_host_access(reading);
  EXPECT_TRUE(waits);
  EXPECT_FALSE(launched);
  EXPECT_TRUE(scheduler->try_host_access(elsewhere));
  EXPECT_TRUE(scheduler->try_short_host_access(reading)) << "it is over at once";
  const auto late = scheduler->begin_host_access(reading, std::chrono::steady_clock::now());
  EXPECT_EQ(late.status().code(), Code::kTimeout);
  std::jthread reads([&] {
    EXPECT_TRUE(scheduler->begin_host_access(reading).ok());
    EXPECT_EQ(scheduler->counters().computations, 1u);
  });
  first.reset();
  launches.join(), reads.join();
  EXPECT_TRUE(scheduler->try_host_access(reading, false) || scheduler->begin_host_access(reading).ok());
}

// Not for ever beside a library call: its function may be waiting for the thread whose access that is.
TEST_F(DependencyTest, BesideALibraryCall_HostAccessesGiveWayForAWhile) {
  const Access reading = all("X", Mode::kRead);
  std::atomic<bool> inside{false}, read{false};
  const auto function = [&](void*) {
    inside = true;
    while (!read) std::this_thread::sleep_for(std::chrono::microseconds(100));
    return Status();
  };
  array("Y");
  const Access uses[] = {reading};
  std::jthread calls(
      [&] { EXPECT_TRUE(scheduler->call({WorkKind::kLibrary, scheduler->site("gemm"), uses}, true, function).ok()); });
  while (!inside) std::this_thread::yield();
  std::jthread launches([&] { EXPECT_TRUE(run("K", {}, {"X"}).ok()); });
  for (int i = 0; i < 10; ++i) EXPECT_TRUE(scheduler->begin_host_access(reading).ok());
  read = true;
}

TEST_F(DependencyTest, AMillionLaunches_KeepMemoryBounded) {
  constexpr int kLaunches = test_support::rounds(1'000'000);
  for (int i = 0; i < kLaunches; ++i) ASSERT_TRUE(run("K", {"X"}, {i % 2 == 0 ? "Y" : "Z"}, 1).ok());
  EXPECT_LE(scheduler->counters().streams, 32u);
  EXPECT_EQ(scheduler->counters().computations, std::uint64_t{kLaunches});
  EXPECT_LE(scheduler->frontier_size(), 200u);
}

TEST_F(DependencyTest, ManyScatteredParts_AreJoinedAgain) {
  for (std::uint64_t i = 0; i < 3000; ++i) {
    ASSERT_TRUE(part("K", "X", i * 7 % 999, i * 7 % 999 + 1, Mode::kWrite).ok());
    device->state().host_ns += 1e9;  // all of it has ended
    if (i % 100 != 0) continue;
    ASSERT_TRUE(scheduler->synchronize().ok());
  }
  ASSERT_TRUE(part("K", "X", 0, 1, Mode::kRead).ok());
  EXPECT_LT(array("X").segment_count(), 512u);
  ASSERT_TRUE(part("all", "X", 0, 1000, Mode::kWrite).ok());
  EXPECT_EQ(array("X").segment_count(), 1u);
}

// As long as it must wait it is one of the DAG's vertices; what it has waited for is no parent of what comes later.
TEST_F(DependencyTest, AnAccessOfTheHostThatWaits_IsAVertex) {
  open();
  ASSERT_TRUE(run("K1", {}, {"x"}).ok());
  ASSERT_TRUE(run("K2", {"x"}, {"y"}).ok());
  ASSERT_TRUE(read("y").ok());
  ASSERT_TRUE(read("y").ok());  // which need not wait
  ASSERT_TRUE(run("K3", {"y"}, {"z"}).ok());
  ASSERT_TRUE(scheduler->begin_host_access(all("z", Mode::kWrite)).ok());
  const DagPicture picture = scheduler->picture();
  std::vector<std::string> names;
  for (const DagVertex& vertex : picture.vertices) names.emplace_back(vertex.name);
  EXPECT_EQ(names, (std::vector<std::string>{"K1", "K2", "host read", "K3", "host write"}));
  const DagVertex& reading = picture.vertices.at(2);
  EXPECT_EQ(reading.kind, WorkKind::kHostAccess);
  ASSERT_EQ(reading.edge_count, 1u);
  EXPECT_EQ(reading.edges[0].parent, picture.vertices.at(1).id);
  EXPECT_EQ(reading.edges[0].hazard, Hazard::kReadAfterWrite);
  EXPECT_NE(picture.dot().find("[label=\"host read\\n#3 the host\", fillcolor=\"#ffffff\"]"), std::string::npos)
      << picture.dot();
  EXPECT_NE(picture.mermaid().find("c3[\"host read<br/>#3 the host\"]"), std::string::npos) << picture.mermaid();
}

}  // namespace
}  // namespace pergola::scheduler::testing
