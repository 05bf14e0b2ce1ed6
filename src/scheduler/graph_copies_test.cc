// Copies between arrays and their host sides as parts of recurring turns, on the device with a virtual clock.
#include <gmock/gmock.h>

#include <atomic>
#include <thread>

#include "src/scheduler/graph_copies_fixture.h"

namespace pergola::scheduler::testing {
namespace {

TEST_F(GraphCopies, ATurnWithItsCopies_IsOneGraph) {
  open_always();
  learn_cold();
  const std::size_t kernels = kernel_launches(), alone = copies(), graphs = graph_launches();
  for (int i = 0; i < 5; ++i) cold_turn();
  EXPECT_EQ(kernel_launches(), kernels);
  EXPECT_EQ(copies(), alone);
  EXPECT_EQ(graph_launches(), graphs + 5);
  const Step last = device->state().of(Step::Kind::kGraph).back();
  EXPECT_THAT(last.durations_ns, ::testing::ElementsAre(2000, 1000, 2000, 3000, 5000, 2000));
  EXPECT_EQ(last.end_ns - last.start_ns, 2000 + 3000 + 5000 + 2000) << "y, b, c, z; x and a beside";
  EXPECT_GE(device->state().host_ns, last.end_ns) << "the host has waited for the download in it";
  const GraphsReport report = scheduler->graphs();
  ASSERT_FALSE(report.regions.empty());
  EXPECT_THAT(report.regions.back().kernels,
              ::testing::UnorderedElementsAre(KernelCount{"upload", 2}, KernelCount{"a", 1}, KernelCount{"b", 1},
                                              KernelCount{"c", 1}, KernelCount{"download", 1}));
}

// By default launches are held only while enough is queued, and a host that waits in every turn leaves nothing queued
// but what it copies.
TEST_F(GraphCopies, ALargeUpload_IsWorkThatIsQueued) {
  bytes_ = {{"x", 64'000'000}};  // a millisecond at least
  open("");
  scheduler->set_graph_patience(std::chrono::hours(1));
  for (int i = 0; i < 200 && graph_launches() == 0; ++i) {
    cold_turn();
    scheduler->settle_graphs();
  }
  EXPECT_NE(graph_launches(), 0u) << explain(scheduler->graphs());
}

TEST_F(GraphCopies, ASmallUpload_IsNotEnough) {
  open("graphs=recurring");
  for (int i = 0; i < 60; ++i) {
    cold_turn();
    scheduler->settle_graphs();
  }
  EXPECT_EQ(scheduler->graph_counters().regions, 1u);
  EXPECT_EQ(graph_launches(), 0u) << explain(scheduler->graphs());
}

TEST_F(GraphCopies, TheHostsNextAccess_WaitsForAHeldCopyOfThatSideAlone) {
  open_always();
  learn_cold();
  const std::size_t alone = copies();
  host("x", Mode::kWrite);
  upload("x");
  EXPECT_EQ(copies(), alone) << "it is held";
  host("y", Mode::kReadWrite);
  host("x", Mode::kRead);  // the upload reads it, too
  EXPECT_EQ(copies(), alone);
  host("x", Mode::kWrite);
  EXPECT_EQ(copies(), alone + 1);
  EXPECT_GE(device->state().host_ns, device->state().of(Step::Kind::kCopy).back().end_ns);
}

TEST_F(GraphCopies, ACopyThatDoesNotCome_OrComesElsewhere_LeavesTheOrder) {
  open_always();
  learn_cold();
  const std::size_t alone = copies(), kernels = kernel_launches();
  launch("a", {"x"}, {"u"}, 1000);  // x is still there
  EXPECT_EQ(kernel_launches(), kernels + 1);
  host("y", Mode::kWrite);
  upload("y");
  launch("b", {"y"}, {"v"}, 3000);
  const auto up = device->state().of(Step::Kind::kCopy), ran = device->state().of(Step::Kind::kLaunch);
  ASSERT_EQ(up.size(), alone + 1);
  ASSERT_EQ(ran.size(), kernels + 2);
  EXPECT_GE(ran.back().start_ns, up.back().end_ns);
  for (int i = 0; i < 40; ++i) {
    cold_turn();
    scheduler->settle_graphs();
  }
  const std::size_t graphs = graph_launches();
  cold_turn();
  EXPECT_EQ(graph_launches(), graphs + 1) << "and is found again";
}

TEST_F(GraphCopies, AnArrayTakenToTheHostInTheMiddleOfATurn_FlushesWhatIsHeldInOrder) {
  open_always();
  learn_cold();
  const std::size_t before = device->state().steps.size();
  host("x", Mode::kWrite);
  upload("x");
  launch("a", {"x"}, {"u"}, 1000);
  download("u");  // which no turn has
  host("u", Mode::kRead);
  std::vector<Step> steps(device->state().steps.begin() + static_cast<std::ptrdiff_t>(before),
                          device->state().steps.end());
  std::erase_if(steps,
                [](const Step& step) { return step.kind == Step::Kind::kWait || step.kind == Step::Kind::kRecord; });
  ASSERT_EQ(steps.size(), 3u);
  EXPECT_EQ(steps[0].kind, Step::Kind::kCopy);
  EXPECT_EQ(steps[1].kind, Step::Kind::kLaunch);
  EXPECT_EQ(steps[2].kind, Step::Kind::kCopy);
  EXPECT_GE(steps[1].start_ns, steps[0].end_ns);
  EXPECT_GE(steps[2].start_ns, steps[1].end_ns);
}

// Without a wait of the host an upload may run beside what the launches behind it wait for.
TEST_F(GraphCopies, WhereTheyWouldWaitForOtherWork_CopiesStayByThemselves) {
  open_always();
  const auto turn_without_waits = [&] {
    ASSERT_TRUE(run("apart", {"w"}, {"s"}, 100000).ok());
    upload("x");
    launch("a", {"x", "s"}, {"u"}, 1000), launch("b", {"u"}, {"v"}, 1000);
    launch("c", {"v"}, {"w"}, 1000), launch("d", {"w"}, {"u"}, 1000);
  };
  for (int i = 0; i < 200; ++i) {
    turn_without_waits();
    scheduler->settle_graphs();
  }
  const std::size_t alone = copies(), kernels = kernel_launches();
  for (int i = 0; i < 16; ++i) turn_without_waits();
  EXPECT_EQ(copies(), alone + 16);
  EXPECT_EQ(kernel_launches(), kernels + 16) << "apart";
  EXPECT_THAT(explain(scheduler->graphs()), ::testing::HasSubstr("its copies would wait for work"));
}

// What comes before a turn now and then, and its graph has to wait for, is no reason to give its copies up.
TEST_F(GraphCopies, ATurnThatDelaysThemNowAndThen_StaysAGraph) {
  open_always();
  learn_cold();
  const Counts before = counts();
  constexpr std::size_t kOdd = 6;
  for (std::size_t i = 0; i < kOdd; ++i) {
    fill("u");  // which launch a writes; upload x need not wait for it
    cold_turn();
    cold_turn();
  }
  EXPECT_EQ(graph_launches(), before.graphs + 2 * kOdd);
  EXPECT_EQ(copies(), before.copies);
}

// While its copies count for nothing a turn recurs as its launches alone; afterwards it is looked for with them again.
TEST_F(GraphCopies, GivenUpOnce_TheyAreInGraphsAgain_ThoughTheLaunchesRecurMeanwhile) {
  open_always();
  learn_cold();
  const auto delayed_turn = [&] {  // twice in a row, and they are given up
    fill("u");
    cold_turn();
  };
  delayed_turn();
  delayed_turn();
  ASSERT_THAT(explain(scheduler->graphs()), ::testing::HasSubstr("its copies would wait for work"));
  learn_turns([&] { cold_turn(); }, 100);
  const std::size_t alone = copies();
  cold_turn();
  ASSERT_EQ(copies(), alone + 3) << "they rest";
  learn_turns([&] { cold_turn(); }, 4096 / 3);
  EXPECT_EQ(of_each([&] { cold_turn(); }).copies, 0u);
}

// As a piece of its own the upload would wait for the same graph of the turn before.
TEST_F(GraphCopies, WhereTheyWaitForTheTurnBeforeAnyway_CopiesAreInTheGraph) {
  open_always();
  const auto turn_without_waits = [&] {
    upload("x");
    launch("a", {"x"}, {"u"}, 1000), launch("b", {"u"}, {"v"}, 100000);
    launch("c", {"v"}, {"w"}, 1000), launch("d", {"w"}, {"u"}, 1000);
  };
  for (int i = 0; i < 200; ++i) {
    turn_without_waits();
    scheduler->settle_graphs();
  }
  const std::size_t alone = copies(), kernels = kernel_launches();
  for (int i = 0; i < 16; ++i) turn_without_waits();
  EXPECT_EQ(copies(), alone);
  EXPECT_EQ(kernel_launches(), kernels);
}

// A turn of several graphs: the last one's download comes after its launches, however long the graph waits.
TEST_F(GraphCopies, ALongTurn_IsGraphsWithCopies) {
  open_always();
  const auto long_turn = [&] {
    host("x", Mode::kWrite);
    upload("x");
    for (int i = 0; i < 140; ++i) launch("k" + std::to_string(i), {"x", "u"}, {"u"}, 1000);
    launch("last", {"u"}, {"z"});
    download("z");
    host("z", Mode::kRead);
  };
  for (int i = 0; i < 12; ++i) {
    long_turn();
    scheduler->settle_graphs();
  }
  const std::size_t alone = copies(), kernels = kernel_launches(), graphs = graph_launches();
  for (int i = 0; i < 4; ++i) long_turn();
  EXPECT_EQ(copies(), alone);
  EXPECT_EQ(kernel_launches(), kernels);
  EXPECT_EQ(graph_launches(), graphs + 8);
}

TEST_F(GraphCopies, LargeUploadsOfAGraph_FollowEachOther) {
  Region region;
  const device::BufferPtr memory = *device->allocate(8, device::MemoryKind::kDevice);
  open();
  for (const char* name : {"x", "y"})
    for (const std::size_t size : {std::size_t{1000}, std::size_t{5'000'000}}) {
      const Access accesses[] = {all(name + std::to_string(size) + " host", Mode::kRead),
                                 all(name + std::to_string(size), Mode::kWrite)};
      const CopyCall call{memory, memory, size};
      region.launches.emplace_back(Work{.kind = WorkKind::kCopyToDevice, .accesses = accesses, .copy = &call}, 0);
    }
  Chunk chunk;
  chunk.end = 4;
  const device::GraphSpec spec = region.spec_of(chunk, {}, nullptr);
  ASSERT_EQ(spec.nodes.size(), 4u);
  EXPECT_THAT(spec.nodes[1].after, ::testing::IsEmpty());
  EXPECT_THAT(spec.nodes[2].after, ::testing::IsEmpty());
  EXPECT_THAT(spec.nodes[3].after, ::testing::ElementsAre(1));
}

// A graph is kept long after its last launch; what its copies copied is not.
TEST_F(GraphCopies, AnArrayThatGoes_LeavesItsMemoryToNoGraph) {
  open_always();
  learn_cold();
  for (const char* name : {"x", "x host"}) {
    const std::weak_ptr<device::Buffer> alive = memory_[name];
    scheduler->retire(std::move(arrays[name]), std::move(memory_[name]));
    memory_.erase(name);
    arrays.erase(name);
    EXPECT_TRUE(alive.expired()) << name;
  }
  for (int i = 0; i < 30; ++i) {  // of another x
    cold_turn();
    scheduler->settle_graphs();
  }
  const std::size_t graphs = graph_launches();
  cold_turn();
  EXPECT_EQ(graph_launches(), graphs + 1);
}

// Its spec knows the memory, and keeps none. AddressSanitizer sees whoever looks there.
TEST_F(GraphCopies, MemoryThatGoesWhileItsGraphIsMade_IsNotLookedAtAfterwards) {
  open_always();
  std::atomic<bool> is_made{false}, is_gone{false};
  device->slower_instance = [&](const device::GraphSpec&) {
    is_made = true;
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(10);
    while (!is_gone && std::chrono::steady_clock::now() < deadline) std::this_thread::yield();
    return 1.0;
  };
  for (int i = 0; i < 40 && !is_made; ++i) {
    cold_turn();
    for (int look = 0; look < 1000 && !is_made; ++look) std::this_thread::sleep_for(std::chrono::microseconds(10));
  }
  ASSERT_TRUE(is_made);
  memory_.clear();
  is_gone = true;
  scheduler->settle_graphs();
  EXPECT_EQ(device->buffers_alive(), 0);
  EXPECT_EQ(scheduler->graph_counters().graphs, 1u);
}

TEST_F(GraphCopies, ASessionThatEndsWhileACopyIsHeld_MakesIt) {
  open_always();
  learn_cold();
  const std::size_t alone = copies();
  upload("x");
  EXPECT_EQ(copies(), alone);
  scheduler.reset();
  EXPECT_EQ(copies(), alone + 1);
}

TEST_F(GraphCopies, HeldTooLong_ACopyGoesByItself) {
  open_always();
  learn_cold();
  scheduler->set_graph_patience(std::chrono::microseconds(20));
  const std::size_t alone = copies();
  upload("x");
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(10);
  while (scheduler->graph_counters().overdue == 0 && std::chrono::steady_clock::now() < deadline)
    std::this_thread::sleep_for(std::chrono::microseconds(50));
  ASSERT_EQ(scheduler->graph_counters().overdue, 1u);
  EXPECT_EQ(copies(), alone + 1);
}

}  // namespace
}  // namespace pergola::scheduler::testing
