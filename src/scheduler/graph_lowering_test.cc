// Recurring launches as graphs, on the device with a virtual clock: when they are held back, in which order they go,
// and what each graph stands for.
#include <gmock/gmock.h>
#include <sys/wait.h>
#include <unistd.h>

#include <mutex>
#include <set>
#include <thread>

#include "src/base/fork.h"
#include "src/scheduler/graph_fixture.h"

namespace pergola::scheduler::testing {
namespace {

using GraphLowering = GraphTest;

TEST_F(GraphLowering, LaunchesThatRecur_RunAsOneGraph) {
  open_always();
  learn();
  const std::size_t before = kernel_launches();
  turns(2 * kTurns);
  EXPECT_EQ(kernel_launches(), before);
  ASSERT_EQ(graph_launches(), 2u);
  // The longest chain of a turn: b, c, d.
  for (const Step& step : device->state().of(Step::Kind::kGraph))
    EXPECT_EQ(step.end_ns - step.start_ns, kTurns * 9000.0);
  const GraphCounters counters = scheduler->graph_counters();
  EXPECT_EQ(counters.launches, 2u);
  EXPECT_EQ(counters.replaced, 2u * kTurns * 4);
  EXPECT_EQ(counters.flushed, 0u);
  ASSERT_TRUE(scheduler->synchronize().ok());
}

// Held whatever the device has queued, a turn begins with a short graph: the device has it soon, and the others are
// held while it runs.
TEST_F(GraphLowering, ALongTurn_IsGraphsOfGrowingLengths) {
  open_always();
  for (int turn = 0; turn < 12; ++turn) {
    for (int i = 0; i < 511; ++i) launch("a", {"x"}, {"x"}, 1000 + i);
    ASSERT_TRUE(scheduler->synchronize().ok());
    scheduler->settle_graphs();
  }
  const auto sum = [](int from, int to) { return 1000.0 * (to - from) + (from + to - 1) * (to - from) / 2.0; };
  std::vector<double> lengths;
  for (const Step& step : device->state().of(Step::Kind::kGraph)) lengths.push_back(step.end_ns - step.start_ns);
  ASSERT_GE(lengths.size(), 9u);
  EXPECT_THAT(std::vector(lengths.end() - 3, lengths.end()),
              ::testing::ElementsAre(sum(0, 64), sum(64, 192), sum(192, 511)));
  ASSERT_TRUE(scheduler->synchronize().ok());
}

// Graphs of a turn are as long as each other; one that is longer than a graph by a few launches only is one all the
// same.
TEST_F(GraphLowering, ATurn_IsCutIntoGraphsOfOneLength_AndLeavesNoSmallRest) {
  const auto lengths_of = [&](int launches) {
    open("graphs=measured");
    scheduler->set_graph_patience(std::chrono::hours(1));
    for (int turn = 0; turn < 12; ++turn) {
      for (int i = 0; i < launches; ++i) launch("k", {"x"}, {"x"}, 10'000 + i);
      EXPECT_TRUE(scheduler->synchronize().ok());
      scheduler->settle_graphs();
    }
    std::vector<std::size_t> lengths;
    for (const GraphReport& graph : report().graphs)
      if (graph.state != GraphReport::State::kReplaced) lengths.push_back(graph.launches);
    scheduler.reset();
    arrays.clear();
    return lengths;
  };
  EXPECT_THAT(lengths_of(64), ::testing::ElementsAre(64));
  EXPECT_THAT(lengths_of(80), ::testing::ElementsAre(80));
  EXPECT_THAT(lengths_of(81), ::testing::ElementsAre(40, 41));
  EXPECT_THAT(lengths_of(130), ::testing::ElementsAre(43, 43, 44));
}

TEST_F(GraphLowering, TwoGraphsInARow_DependOnEachOther) {
  open_always();
  learn();
  turns(2 * kTurns);
  const auto graphs = device->state().of(Step::Kind::kGraph);
  ASSERT_EQ(graphs.size(), 2u);
  EXPECT_GE(graphs[1].start_ns, graphs[0].end_ns);
  EXPECT_GE(graphs[0].start_ns, device->state().of(Step::Kind::kLaunch).back().end_ns);
}

TEST_F(GraphLowering, AnotherLaunch_FlushesWhatIsHeldInOrder) {
  open_always();
  learn();
  const std::size_t before = kernel_launches();
  launch("a", {"x"}, {"y"}, 1000);
  launch("b", {"x"}, {"z"}, 2000);
  EXPECT_EQ(kernel_launches(), before);
  launch("other", {"y", "z"}, {"v"}, 5000);
  const auto steps = device->state().of(Step::Kind::kLaunch);
  ASSERT_EQ(steps.size(), before + 3);
  EXPECT_EQ(steps[before].end_ns - steps[before].start_ns, 1000);
  EXPECT_EQ(steps[before + 1].end_ns - steps[before + 1].start_ns, 2000);
  EXPECT_GE(steps[before + 2].start_ns, steps[before].end_ns);
  EXPECT_GE(steps[before + 2].start_ns, steps[before + 1].end_ns);
  EXPECT_EQ(scheduler->graph_counters().flushed, 2u);
}

TEST_F(GraphLowering, ALibraryCall_FlushesWhatIsHeldBeforeItsFunctionIsCalled) {
  device->state().has_handles = true;
  open_always();
  learn();
  const std::size_t before = kernel_launches();
  launch("a", {"x"}, {"y"}, 1000);
  EXPECT_EQ(kernel_launches(), before);
  const Access accesses[] = {all("y", Mode::kReadWrite)};
  const Status status =
      scheduler->call({WorkKind::kLibrary, scheduler->site("gemm"), accesses}, false, [&](void* stream) {
        EXPECT_EQ(kernel_launches(), before + 1);
        static_cast<FakeQueue*>(stream)->run(50);
        return Status();
      });
  ASSERT_TRUE(status.ok()) << status.message();
  const auto steps = device->state().of(Step::Kind::kLaunch);
  EXPECT_GE(steps[before + 1].start_ns, steps[before].end_ns);
  EXPECT_EQ(scheduler->graph_counters().interrupted, 1u);
}

TEST_F(GraphLowering, AReadOfTheHost_FlushesAndCutsTheRegionThere) {
  open_always();
  learn();
  const std::size_t before = kernel_launches();
  launch("a", {"x"}, {"y"}, 1000);
  ASSERT_TRUE(read("y").ok());
  EXPECT_EQ(kernel_launches(), before + 1);
  EXPECT_EQ(scheduler->graph_counters().interrupted, 1u);
  // The same place in later turns interrupts nothing: the graphs are cut there.
  launch("b", {"x"}, {"z"}, 2000), launch("c", {"y", "z"}, {"w"}, 3000), launch("d", {"w"}, {"x"}, 4000);
  turns(kTurns - 1);
  for (int i = 0; i < 6; ++i) {
    scheduler->settle_graphs();
    launch("a", {"x"}, {"y"}, 1000);
    ASSERT_TRUE(read("y").ok());
    launch("b", {"x"}, {"z"}, 2000), launch("c", {"y", "z"}, {"w"}, 3000), launch("d", {"w"}, {"x"}, 4000);
    turns(kTurns - 1);
  }
  EXPECT_EQ(scheduler->graph_counters().interrupted, 1u);
  EXPECT_GE(graph_launches(), 5u);
}

TEST_F(GraphLowering, WhereTheHostWaits_TheRegionBegins) {
  open_always();
  const auto turn_and_wait = [&] {
    turn();
    ASSERT_TRUE(scheduler->synchronize().ok());
  };
  for (int i = 0; i < 40; ++i) {
    turn_and_wait();
    scheduler->settle_graphs();
  }
  const std::size_t kernels = kernel_launches(), graphs = graph_launches();
  for (int i = 0; i < 8; ++i) turn_and_wait();
  EXPECT_EQ(kernel_launches(), kernels);
  EXPECT_EQ(graph_launches(), graphs + 8) << "one a turn, wherever the region was found first";
}

TEST_F(GraphLowering, CopiesFromTheHost_AreEachWaitedForByTheirOwnGraph) {
  open_always();
  const auto turn_on_new_data = [&] {
    for (const char* name : {"x", "u"}) {
      const Access written = all(name, Mode::kWrite);
      ASSERT_TRUE(submit("copy", {.kind = WorkKind::kCopyToDevice, .accesses = std::span(&written, 1)}, 5000).ok());
    }
    launch("a", {"x"}, {"y"}), launch("b", {"y"}, {"z"});
    launch("c", {"u"}, {"v"}), launch("d", {"v", "z"}, {"w"});
  };
  for (int i = 0; i < 60; ++i) {
    turn_on_new_data();
    scheduler->settle_graphs();
  }
  const std::size_t kernels = kernel_launches(), graphs = graph_launches();
  for (int i = 0; i < 8; ++i) turn_on_new_data();
  EXPECT_EQ(kernel_launches(), kernels + 16) << "the copies";
  EXPECT_EQ(graph_launches(), graphs + 16) << "a and b wait for x alone, c and d for u";
}

TEST_F(GraphLowering, ARegionLeftAlone_IsTriedAgain) {
  open_always();
  const auto step = [&](int i) { launch("k" + std::to_string(i), {"x"}, {"y"}); };
  const auto turn_with_waits = [&] {
    for (int i = 0; i < 16; ++i) {
      step(i);
      ASSERT_TRUE(scheduler->synchronize().ok());
    }
  };
  for (int i = 0; i < 12; ++i) turn_with_waits();
  EXPECT_EQ(graph_launches(), 0u) << "the host steps in everywhere";
  for (int i = 0; i < 40; ++i) {
    for (int k = 0; k < 16; ++k) step(k);
    scheduler->settle_graphs();
  }
  EXPECT_GT(graph_launches(), 0u);
}

TEST_F(GraphLowering, HeldTooLong_IsLaunchedByTheThread) {
  open_always();
  learn();
  scheduler->set_graph_patience(std::chrono::microseconds(20));
  const std::size_t before = kernel_launches();
  launch("a", {"x"}, {"y"}, 1000);
  launch("b", {"x"}, {"z"}, 2000);
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(10);
  while (scheduler->graph_counters().overdue == 0 && std::chrono::steady_clock::now() < deadline)
    std::this_thread::sleep_for(std::chrono::microseconds(50));
  ASSERT_EQ(scheduler->graph_counters().overdue, 1u);
  EXPECT_EQ(scheduler->counters().computations, before + 2);
}

// The shortest of some, as the thread may be late on a busy machine. Each in a session of its own: what is late again
// and again is held back no more.
TEST_F(GraphLowering, LaunchesAreHeldBack_ForNoLongerThanThePatience) {
  using Clock = std::chrono::steady_clock;
  open("graphs=recurring");
  EXPECT_EQ(scheduler->graph_patience(), std::chrono::microseconds(20));
  auto shortest = Clock::duration::max();
  for (int i = 0; i < 20; ++i) {
    scheduler.reset();
    arrays.clear();  // which were its
    device->state().steps.clear();
    open("graphs=always");
    const std::chrono::nanoseconds patience = scheduler->graph_patience();
    ASSERT_EQ(patience, std::chrono::microseconds(100));
    scheduler->set_graph_patience(std::chrono::hours(1));
    learn();
    scheduler->set_graph_patience(patience);
    const std::uint64_t before = scheduler->counters().computations;
    const auto begin = Clock::now();
    launch("a", {"x"}, {"y"}, 1000);
    while (scheduler->graph_counters().overdue == 0 && Clock::now() < begin + std::chrono::seconds(10))
      std::this_thread::sleep_for(std::chrono::microseconds(5));
    shortest = std::min(shortest, Clock::now() - begin);
    ASSERT_EQ(scheduler->counters().computations, before + 1);
    ASSERT_EQ(scheduler->graph_counters().overdue, 1u);
  }
  EXPECT_GE(shortest, std::chrono::microseconds(50)) << "it was held";
  EXPECT_LT(shortest, std::chrono::milliseconds(10));
}

TEST_F(GraphLowering, GraphsAreMade_OnAThreadOfTheirOwn) {
  std::mutex mutex;
  std::set<std::thread::id> makers;
  device->slower_instance = [&](const device::GraphSpec&) {
    const std::lock_guard lock(mutex);
    makers.insert(std::this_thread::get_id());
    return 1;
  };
  open_patient("graphs=always", std::make_shared<Same>());
  learn();
  turns(40 * kTurns);
  scheduler->settle_graphs();
  scheduler.reset();
  device->slower_instance = nullptr;
  EXPECT_GE(device->graphs_made(), 2u) << "another way, too";
  EXPECT_FALSE(makers.empty());
  EXPECT_FALSE(makers.contains(std::this_thread::get_id()));
}

// So that there is the thread which makes other ways.
class NoOtherWay final : public GraphLowerer {
 public:
  std::size_t count() const override { return 1; }
  std::optional<GraphWay> way(std::size_t, const device::GraphSpec&, std::span<const LaunchToLower>) override {
    return std::nullopt;
  }
  std::string name(std::size_t) const override { return "none"; }
  bool keeps_plain() const override { return true; }
};

// Its threads wait in the parent; the child, which has none of them, must not wait for them.
TEST_F(GraphLowering, AForkedChild_LetsGoOfIt) {
#if defined(PERGOLA_TSAN)
  GTEST_SKIP() << "TSan ends a child that lets go of its parent's threads";
#endif
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const auto forks = [&] {
    watch_for_fork();
    open("graphs=always", std::make_shared<NoOtherWay>());
    scheduler->set_graph_patience(std::chrono::hours(1));
    learn();
    turn();  // held
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    if (::fork() == 0) {
      ::alarm(20);
      scheduler.reset();
      std::_Exit(0);
    }
    int status = 0;
    ::wait(&status);
    std::_Exit(WIFEXITED(status) ? WEXITSTATUS(status) : 100 + WTERMSIG(status));
  };
  EXPECT_EXIT(forks(), ::testing::ExitedWithCode(0), "");
}

TEST_F(GraphLowering, OnAnIdleDevice_NothingIsHeld) {
  open("graphs=recurring");
  scheduler->set_graph_patience(std::chrono::hours(1));
  for (int i = 0; i < 60; ++i) {
    turn();
    ASSERT_TRUE(read("x").ok());  // and so the device is idle
    scheduler->settle_graphs();
  }
  EXPECT_GE(scheduler->graph_counters().regions, 1u);
  EXPECT_EQ(graph_launches(), 0u);
  EXPECT_EQ(scheduler->graph_counters().flushed, 0u);
}

TEST_F(GraphLowering, OnABusyDevice_LaunchesBecomeGraphs) {
  open();
  scheduler->set_graph_patience(std::chrono::hours(1));
  for (int i = 0; i < 200; ++i) {
    turns(1);
    device->state().host_ns += 4000;  // faster than the device's 9000 ns a turn: work piles up
    scheduler->settle_graphs();
  }
  EXPECT_GT(graph_launches(), 0u);
}

// Before any two chunks have ended, what kernels were seen to take tells that there is enough to do.
TEST_F(GraphLowering, WhatKernelsWereSeenToTake_IsQueuedUntilItMustHaveEnded) {
  open();
  scheduler->set_graph_patience(std::chrono::hours(1));
  const auto long_turn = [&] {
    for (int i = 0; i < 64; ++i) launch("a", {"x"}, {"x"}, 1e6);
  };
  long_turn();
  device->state().host_ns += 20e6;  // the first ones have ended, the others are queued
  long_turn();
  long_turn();
  scheduler->settle_graphs();
  EXPECT_EQ(scheduler->graph_counters().graphs, 1u);
  long_turn();
  EXPECT_GE(graph_launches(), 1u);
}

// Nor has any of them begun, and what was launched one by one is about to end.
TEST_F(GraphLowering, GraphsAreQueuedForWhatTheirLaunchesWereSeenToTake) {
  open("graphs=recurring");
  scheduler->set_graph_patience(std::chrono::hours(1));
  scheduler->set_queue_trust(std::chrono::nanoseconds(0));  // the virtual clock is another
  const auto long_turn = [&] {
    for (int i = 0; i < 64; ++i) launch("a", {"x"}, {"x"}, 1e5 + i);
  };
  long_turn();
  device->state().host_ns += 2e6;  // the first ones have ended, the others are queued
  long_turn();
  long_turn();
  scheduler->settle_graphs();
  for (int turn = 0; turn < 3; ++turn) long_turn();
  const std::size_t launches = kernel_launches();
  ASSERT_GE(graph_launches(), 2u);
  device->state().host_ns = device->state().of(Step::Kind::kLaunch).back().end_ns - 5e4;
  std::this_thread::sleep_for(std::chrono::milliseconds(100));  // what was known to be queued may have been done
  for (int turn = 0; turn < 3; ++turn) long_turn();
  EXPECT_EQ(kernel_launches(), launches);
}

// Before any chunk has come to its end.
TEST_F(GraphLowering, OnceSomethingIsQueued_TheGraphIsMade) {
  open("graphs=recurring");
  scheduler->set_graph_patience(std::chrono::hours(1));
  const auto launches = [&](int count) {
    for (int i = 0; i < count; ++i) launch("a", {"x"}, {"x"}, 8e6);
  };
  launches(80);
  scheduler->settle_graphs();
  EXPECT_EQ(scheduler->graph_counters().graphs, 0u) << "what the kernel takes is not known yet";
  ASSERT_TRUE(read("x").ok());
  launches(scheduler::GraphLowering::kMarkEach - 1);
  scheduler->settle_graphs();
  EXPECT_EQ(scheduler->graph_counters().graphs, 0u);
  launches(1);  // as many as tell an event; 64 ms are queued
  scheduler->settle_graphs();
  EXPECT_EQ(scheduler->graph_counters().graphs, 1u);
  EXPECT_EQ(graph_launches(), 0u);
}

// One launch in eight has an event behind it that tells how far the device is: another kind than whoever wants one
// gets.
TEST_F(GraphLowering, AnEventWantedOfALaunchThatIsMarked_HasATime) {
  open();
  scheduler->set_graph_patience(std::chrono::hours(1));
  device::EventPtr start, end;
  std::size_t untimed = 0;
  launch("a", {"x"}, {"x"}, 8000, nullptr, &start);
  for (int i = 0; i < 200; ++i) {
    launch("a", {"x"}, {"x"}, 8000, nullptr, &end);
    const auto time = end->elapsed_ns(*start);
    if (!time.ok() && untimed++ == 0) ADD_FAILURE() << i << ": " << time.status().message();
  }
  EXPECT_EQ(untimed, 0u);
}

TEST(StreamQueue, WhatIsBehindTheFirstMarkThatHasNotEnded_IsLeftWhateverTheClockSays) {
  Stream stream;
  const auto add = [&](double ns) {
    stream.expect(ns, at_least(ns), false);  // busy since long ago
    ++stream.tail_position;
  };
  const auto mark = [&] {
    auto made = std::make_shared<Mark>();
    made->position = stream.tail_position;
    made->at_least_ns = stream.all_at_least_ns;
    stream.marks.push_back(made);
  };
  const auto left = [&] {
    return stream.at_least_left_ns(std::chrono::steady_clock::now(), std::chrono::hours(1 << 20));
  };
  add(10e3);
  mark();
  add(20e3);
  add(kUnknownDurationNs);
  mark();
  add(30e3);
  EXPECT_EQ(left(), 17e3 + 27e3) << "each without what events add";
  stream.marks.pop_front();  // has ended
  EXPECT_EQ(left(), 27e3);
  stream.marks.pop_front();
  EXPECT_EQ(left(), 0);
}

// One event stands for several graphs while much is queued, and none of these is taken for queued without it.
TEST_F(GraphLowering, WhileMuchIsQueued_FewGraphsHaveEvents) {
  open();
  scheduler->set_graph_patience(std::chrono::hours(1));
  for (int i = 0; i < 400; ++i) {
    turns(1);
    device->state().host_ns += 6000;  // of 9000: many graphs end, and work piles up
    scheduler->settle_graphs();
  }
  turns(64 * kTurns);
  std::this_thread::sleep_for(std::chrono::milliseconds(10));  // what was known to be queued may have been done
  const std::size_t graphs = graph_launches(), events = device->state().of(Step::Kind::kRecord).size();
  ASSERT_GT(graphs, 70u);
  turns(64 * kTurns);
  EXPECT_EQ(graph_launches(), graphs + 64);
  EXPECT_LE(device->state().of(Step::Kind::kRecord).size(), events + 64 / 4);
  // The device has done it all, which the next turns see.
  device->state().host_ns = device->state().end_ns() + 1e6;
  ASSERT_TRUE(read("x").ok());
  turns(kTurns);
  EXPECT_EQ(graph_launches(), graphs + 64);
}

TEST_F(GraphLowering, ShortKernels_AreNotTakenToBeQueued) {
  open();
  scheduler->set_graph_patience(std::chrono::hours(1));
  for (int turn = 0; turn < 4; ++turn) {
    for (int i = 0; i < 64; ++i) launch("a", {"x"}, {"x"}, 2900);  // no more than the events add
    device->state().host_ns += 20e3;
    scheduler->settle_graphs();
  }
  EXPECT_EQ(graph_launches(), 0u);
}

TEST_F(GraphLowering, AnotherArray_IsAnotherLaunch) {
  open_always();
  learn();
  const std::size_t before = kernel_launches();
  ASSERT_TRUE(scheduler->synchronize().ok());
  scheduler->retire(std::move(arrays["x"]), nullptr);
  turns(2);  // of a new x
  EXPECT_EQ(graph_launches(), 0u);
  EXPECT_EQ(kernel_launches(), before + 8);
}

TEST_F(GraphLowering, RegionsThatComeBack_AreKnownAgain) {
  open_always();
  learn();
  launch("other", {"v"}, {"u"});
  turns(17 + kTurns);
  scheduler->settle_graphs();
  EXPECT_EQ(scheduler->graph_counters().regions, 1u);
  EXPECT_EQ(scheduler->graph_counters().graphs, 1u);
  turns(2 * kTurns);
  EXPECT_GE(graph_launches(), 1u);
}

// What is held too long again and again is the long piece behind shorter ones: it is made shorter, and no other.
TEST_F(GraphLowering, AGrownPieceThatIsLate_IsMadeShorter) {
  open("graphs=always");
  scheduler->set_graph_patience(std::chrono::milliseconds(60));
  constexpr int kTurn = 400;  // 64, 128 and 208 launches
  const auto turn = [&](bool late) {
    for (int i = 0; i < kTurn; ++i) {
      launch("k" + std::to_string(i), {"x"}, {"x"});
      if (late && i == 300) std::this_thread::sleep_for(std::chrono::milliseconds(90));
    }
  };
  for (int i = 0; i < 4; ++i) turn(false);
  scheduler->settle_graphs();
  const auto sizes = [&] {
    std::vector<std::size_t> launches;
    const GraphsReport report = scheduler->graphs();
    for (const GraphReport& graph : report.regions.back().graphs)
      if (graph.state != GraphReport::State::kReplaced) launches.push_back(graph.launches);
    return launches;
  };
  ASSERT_THAT(sizes(), ::testing::ElementsAre(64, 128, 208));
  // On a busy machine the thread that looks may sleep through a late turn, which then counts as one in time.
  const auto are_short = ::testing::Each(::testing::Le(128u));
  for (int i = 0; i < 100 && !::testing::Value(sizes(), are_short); ++i) turn(true);
  EXPECT_GE(scheduler->graph_counters().overdue, 4u);
  EXPECT_THAT(sizes(), ::testing::Contains(64));
  EXPECT_THAT(sizes(), are_short);
}

// A piece that is as it was cut at first, if longer than most: it becomes two, and that at the second time, as 40 are
// too few to be two of up to 32.
TEST_F(GraphLowering, AFirstPieceThatIsLate_IsHalved) {
  open("graphs=always");
  scheduler->set_graph_patience(std::chrono::milliseconds(60));
  const auto turn = [&](bool late) {
    for (int i = 0; i < 40; ++i) {
      launch("k" + std::to_string(i), {"x"}, {"x"});
      if (late && i == 20) std::this_thread::sleep_for(std::chrono::milliseconds(90));
    }
    EXPECT_TRUE(scheduler->synchronize().ok());
  };
  for (int i = 0; i < 8; ++i) turn(false);
  scheduler->settle_graphs();
  const auto kept = [&] {
    std::vector<GraphReport> graphs;
    for (const GraphReport& graph : report().graphs)
      if (graph.state != GraphReport::State::kReplaced) graphs.push_back(graph);
    return graphs;
  };
  // As above: a late turn that nobody saw counts as one in time.
  const auto are_short = ::testing::Each(::testing::Field(&GraphReport::launches, ::testing::Le(24u)));
  for (int i = 0; i < 100 && !::testing::Value(kept(), are_short); ++i) turn(true);
  EXPECT_GE(scheduler->graph_counters().overdue, 8u);
  EXPECT_THAT(kept(), ::testing::AllOf(::testing::SizeIs(::testing::Ge(2u)), are_short));
  for (const GraphReport& graph : kept()) EXPECT_NE(graph.state, GraphReport::State::kRefused) << graph.refusal;
  // The host is as fast as it was.
  const auto is_whole = [&] { return kept().size() == 1 && kept()[0].launches == 40; };
  int turns = 0;
  for (; turns < 2 * static_cast<int>(scheduler::GraphLowering::kAgainAfter) && !is_whole(); ++turns) turn(false);
  EXPECT_TRUE(is_whole()) << explain(scheduler->graphs());
  EXPECT_GT(turns, static_cast<int>(scheduler::GraphLowering::kAgainAfter) / 2);
  scheduler->settle_graphs();
  const std::size_t before = graph_launches();
  turn(false);
  EXPECT_EQ(graph_launches(), before + 1);
}

// Where the host waits in no turn forms are never compared, and the trial of them never ends.
TEST_F(GraphLowering, PiecesThatWereHalved_AreWholeAgain_WhereTheHostDoesNotWait) {
  open("graphs=measured");
  scheduler->set_graph_patience(std::chrono::milliseconds(60));
  const auto turn = [&](bool late, bool waits) {
    for (int i = 0; i < 40; ++i) {
      launch("k" + std::to_string(i), {"x"}, {"x"}, 10'000);
      if (late && i == 20) std::this_thread::sleep_for(std::chrono::milliseconds(90));
    }
    if (waits) {
      EXPECT_TRUE(scheduler->synchronize().ok());
    } else {
      EXPECT_TRUE(scheduler->record().ok());
    }
  };
  for (int i = 0; i < 8; ++i) turn(false, true);
  scheduler->settle_graphs();
  const auto longest = [&] {
    std::size_t most = 0;
    for (const GraphReport& graph : report().graphs)
      if (graph.state != GraphReport::State::kReplaced) most = std::max<std::size_t>(most, graph.launches);
    return most;
  };
  ASSERT_EQ(longest(), 40u) << explain(scheduler->graphs());
  for (int i = 0; i < 100 && longest() == 40; ++i) turn(true, true);
  ASSERT_LE(longest(), 20u) << explain(scheduler->graphs());
  int turns = 0;
  for (; turns < 1200 && longest() != 40; ++turns) turn(false, false);
  EXPECT_EQ(longest(), 40u) << explain(scheduler->graphs());
}

TEST_F(GraphLowering, ATicketOfAHeldLaunch_GivesAnEventBehindIt) {
  open_always();
  learn();
  Ticket first = 0, second = 0;
  launch("a", {"x"}, {"y"}, 1000, &first);
  const auto held = scheduler->event_of(first);  // flushes
  ASSERT_TRUE(held.ok()) << held.message();
  ASSERT_TRUE((*held)->wait().ok());
  EXPECT_GE(device->state().host_ns, device->state().of(Step::Kind::kLaunch).back().end_ns);
  launch("b", {"x"}, {"z"}, 2000, &second), launch("c", {"y", "z"}, {"w"}, 3000), launch("d", {"w"}, {"x"}, 4000);
  turns(kTurns - 1);
  scheduler->settle_graphs();
  std::vector<Ticket> tickets(4);
  launch("a", {"x"}, {"y"}, 1000, &tickets[0]), launch("b", {"x"}, {"z"}, 2000, &tickets[1]);
  launch("c", {"y", "z"}, {"w"}, 3000, &tickets[2]), launch("d", {"w"}, {"x"}, 4000, &tickets[3]);
  turns(kTurns - 1);
  for (const Ticket ticket : tickets) {
    const auto event = scheduler->event_of(ticket);
    ASSERT_TRUE(event.ok()) << event.message();
    ASSERT_TRUE((*event)->wait().ok());
  }
  EXPECT_EQ(scheduler->event_of((Ticket{1} << 63) | 1000000).code(), Code::kInvalidArgument);
}

TEST_F(GraphLowering, AnEventWanted_IsOfJustThatLaunch) {
  open_always();
  learn();
  const std::size_t before = kernel_launches();
  device::EventPtr event;
  launch("a", {"x"}, {"y"}, 1000);
  launch("b", {"x"}, {"z"}, 2000, nullptr, &event);
  ASSERT_NE(event, nullptr);
  EXPECT_EQ(kernel_launches(), before + 2);
}

TEST_F(GraphLowering, ADeviceWithoutGraphs_KeepsLaunching) {
  device->has_graphs = false;
  open_always();
  turns(24);
  scheduler->settle_graphs();
  turns(12);
  EXPECT_EQ(kernel_launches(), 144u);
}

TEST_F(GraphLowering, Off_LearnsNothing) {
  open("graphs=off");
  turns(40);
  EXPECT_EQ(scheduler->graph_counters().regions, 0u);
  EXPECT_EQ(kernel_launches(), 160u);
}

// Periods are found whatever recurs within them.
TEST(Recurrence, FindsThePeriod) {
  for (const auto& [turn, period] : std::vector<std::pair<std::string, std::size_t>>{
           {"a", 1}, {"ab", 2}, {"aab", 3}, {"abac", 4}, {"aabaacaad", 9}, {"abcdefghijklmnopqrstuvwxyz", 26}}) {
    Recurrence recurrence;
    std::size_t found = 0, pushed = 0;
    while (found == 0 && pushed < 1000)
      found = recurrence.push(static_cast<std::uint64_t>(turn[pushed++ % turn.size()]));
    EXPECT_EQ(found, period) << turn;
    EXPECT_LE(pushed, 2 * turn.size() + Recurrence::kConfirm + turn.size());
    EXPECT_EQ(recurrence.push(0), 0u) << turn;  // and is given up when it ends
  }
}

// A short period that a turn consists of but for its last launch hides the turn: what came before that launch counts.
TEST(Recurrence, WhatCameBeforeACandidate_BearsItOut) {
  Recurrence recurrence;
  std::size_t found = 0;
  std::uint64_t pushed = 0;
  for (; found == 0 && pushed < 1000; ++pushed) {
    const std::uint64_t place = pushed % 64;
    found = recurrence.push(place == 63 ? 'c' : place % 2 == 0 ? 'a' : 'b');
  }
  EXPECT_EQ(found, 64u);
  EXPECT_EQ(pushed, 128u);
  recurrence.clear();  // and what came before that does not
  EXPECT_EQ(recurrence.push('c'), 0u);
  for (int i = 0; i < 63; ++i) ASSERT_EQ(recurrence.push(i % 2 == 0 ? 'a' : 'b'), 0u);
  EXPECT_EQ(recurrence.push('c'), 0u) << "one turn alone since then";
}

TEST(Recurrence, WithoutOne_FindsNone) {
  Recurrence recurrence;
  for (std::uint64_t i = 0; i < 100000; ++i) ASSERT_EQ(recurrence.push(i * i % 1000003), 0u);
}

}  // namespace
}  // namespace pergola::scheduler::testing
