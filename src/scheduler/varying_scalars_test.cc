// Recurring launches whose scalars change, on the device with a virtual clock: graphs that read them from a block,
// which is filled before each launch of the graph and never while one runs.
#include <gmock/gmock.h>

#include <random>
#include <thread>

#include "src/scheduler/graph_fixture.h"

namespace pergola::scheduler::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class VaryingScalars : public BlockFormTest {
 protected:
  // What a kernel is given: how long it runs, which is a scalar, and something that is not one.
  struct Parameters {
    double ns = 0;
    std::uint64_t pointer = 0;
  };
  void launch(const std::string& name, std::vector<std::string> in, std::vector<std::string> out, double ns,
              std::uint64_t pointer = 0, const CallText* text = nullptr) {
    std::vector<Access> accesses;
    for (const std::string& each : in) accesses.push_back(all(each, Mode::kRead));
    for (const std::string& each : out) accesses.push_back(all(each, Mode::kWrite));
    const Parameters parameters{ns, pointer};
    launch_with(name, accesses, std::as_bytes(std::span(&parameters, 1)), text);
  }
  // So many launches bear a period out before they are kept: the region begins with the first of a turn.
  void lead_in() { turn(0, kLaunches - 7); }
  // 64 launches, one after the other on x; the tenth and the fiftieth are given the step.
  static constexpr int kLaunches = 64;
  void turn(double step, int first = 0) {
    for (int i = first; i < kLaunches; ++i)
      launch("k" + std::to_string(i), {"x"}, {"x"}, i == 10 || i == 50 ? step : 100 + i);
  }
  void learn() {
    lead_in();
    for (int i = 1; i <= 4; ++i) {
      turn(1000 * i);
      scheduler->settle_graphs();
    }
    ASSERT_EQ(scheduler->graph_counters().regions, 1u);
    ASSERT_EQ(scheduler->graph_counters().varying, 2u);
    ASSERT_EQ(scheduler->graph_counters().graphs, 2u);
  }
  std::vector<Step> graphs() const { return device->state().of(Step::Kind::kGraph); }
  std::size_t copies() const { return device->state().of(Step::Kind::kCopyUp).size(); }

  std::atomic<std::uint64_t> dropped_{0};
};

TEST_F(VaryingScalars, ALoopWithAStepNumber_RunsAsGraphs) {
  open_always();
  learn();
  const std::size_t launches_before = kernel_launches(), graphs_before = graphs().size(), copies_before = copies();
  for (int step = 5; step <= 100; ++step) turn(1000 * step);
  EXPECT_EQ(kernel_launches(), launches_before);
  const std::vector<Step> steps = graphs();
  ASSERT_EQ(steps.size(), graphs_before + 2 * 96);
  EXPECT_EQ(copies(), copies_before + 2 * 96);  // one a graph
  for (int step = 5; step <= 100; ++step) {
    const std::size_t first = graphs_before + 2 * static_cast<std::size_t>(step - 5);
    EXPECT_EQ(steps[first].durations_ns.at(10), 1000 * step);
    EXPECT_EQ(steps[first].durations_ns.at(11), 111);
    EXPECT_EQ(steps[first + 1].durations_ns.at(50 - 32), 1000 * step);
  }
  EXPECT_EQ(scheduler->graph_counters().graphs, 2u);  // instantiated once each
  EXPECT_EQ(scheduler->graph_counters().flushed, 0u);
}

TEST_F(VaryingScalars, OnlyWhatChanges_IsInABlock) {
  open_always();
  learn();
  for (const auto& [name, form] : forms_)
    EXPECT_EQ(static_cast<const FakeBlockForm&>(*form).made, name == "k10" || name == "k50" ? 1 : 0) << name;
}

TEST_F(VaryingScalars, NothingChanges_NothingIsCopied) {
  open_always();
  for (int i = 0; i < 10; ++i) {
    turn(1000);
    scheduler->settle_graphs();
  }
  EXPECT_GE(graphs().size(), 2u);
  EXPECT_EQ(copies(), 0u);
  EXPECT_EQ(scheduler->graph_counters().varying, 0u);
}

TEST_F(VaryingScalars, AScalarThatWasConstant_FlushesOnceAndGoesIntoABlock) {
  open_always();
  lead_in();
  for (int i = 0; i < 5; ++i) {
    turn(1000);
    scheduler->settle_graphs();
  }
  const std::size_t before = kernel_launches();
  ASSERT_EQ(scheduler->graph_counters().flushed, 0u);
  turn(2000);
  // What was held of each graph before the one that changed; of the second nothing is while the first is made anew.
  const std::uint64_t flushed = scheduler->graph_counters().flushed;
  EXPECT_TRUE(flushed == 10u + 18u || flushed == 10u) << flushed;
  const auto launches = device->state().of(Step::Kind::kLaunch);
  ASSERT_EQ(launches.size(), before + kLaunches);
  EXPECT_EQ(launches[before + 9].end_ns - launches[before + 9].start_ns, 109);
  EXPECT_EQ(launches[before + 10].end_ns - launches[before + 10].start_ns, 2000);
  turn(3000);  // its first launch has the graphs made
  scheduler->settle_graphs();
  const std::size_t graphs_before = graphs().size();
  for (int step = 4; step < 10; ++step) turn(1000 * step);
  ASSERT_EQ(graphs().size(), graphs_before + 12);
  EXPECT_EQ(graphs().back().durations_ns.at(50 - 32), 9000);
  EXPECT_EQ(scheduler->graph_counters().flushed, flushed);
  EXPECT_EQ(scheduler->graph_counters().regions, 1u);
}

// Turns that end in a wait become one turn (GraphLowering::keep_one_turn), whose launches take what they are given now,
// also those of which another turn's was found to change, and also where they are known by their text.
TEST_F(VaryingScalars, AScalarThatChangedInALaterTurn_ChangesInTheOneTurnThatIsKept) {
  open_always();
  const auto write = [&](int i, double ns) {
    const std::string name = "k" + std::to_string(i), config = "1x32";
    const CallText text{&kernels_[name], std::as_bytes(std::span(config)), std::as_bytes(std::span(&ns, 1)), &dropped_,
                        dropped_.load()};
    if (!scheduler->submit_again(text, nullptr)) launch(name, {"x"}, {"x"}, ns, 0, &text);
  };
  const auto turn_of = [&](double ns) {
    for (int i = 0; i < 4; ++i) write(i, i == 1 ? ns : 100 + i);
  };
  const auto settled_turn = [&](double ns) {
    turn_of(ns);
    ASSERT_TRUE(scheduler->synchronize().ok());
    scheduler->settle_graphs();
  };
  const auto total_ns = [&] {
    double sum = 0;
    for (const Step& step : device->state().of(Step::Kind::kLaunch)) sum += step.end_ns - step.start_ns;
    for (const Step& step : graphs())
      for (const double ns : step.durations_ns) sum += ns;
    return sum;
  };
  for (int i = 0; i < 40; ++i) turn_of(5);
  scheduler->settle_graphs();
  for (int i = 0; i < 17; ++i) turn_of(i == 10 ? 7 : 5);  // once, somewhere in the middle of the region
  for (int i = 0; i < 6; ++i) settled_turn(5);
  for (const double ns : {7., 5., 5., 9., 5., 7., 5.}) {
    const double before = total_ns();
    settled_turn(ns);
    EXPECT_EQ(total_ns() - before, 100 + ns + 102 + 103) << "given " << ns;
  }
}

// A graph has a short turn several times over, of which just one may have another scalar, for a while or in the end, or
// each now and then.
TEST_F(VaryingScalars, AScalarThatChangesInSomeOfTheTurnsOfAGraph_IsTakenWhereverItCame) {
  constexpr int kTurn = 4, kTurns = GraphLowering::kFewestRepeated / kTurn;
  const std::function<bool(int)> is_other[] = {[](int i) { return i % (kTurns - 1) == 3; },
                                               [](int i) { return i % kTurns == 3; },
                                               [](int i) { return i % kTurns == 3 && i < 4 * kTurns; }};
  for (std::size_t which = 0; which < std::size(is_other); ++which) {
    close();
    open_always();
    std::vector<double> given;
    const auto turn_of = [&](double ns) {
      for (int i = 0; i < kTurn; ++i) {
        const std::string name = "k" + std::to_string(i), config = "1x32";
        const double value = i == 1 ? ns : 100 + i;
        const CallText text{&kernels_[name], std::as_bytes(std::span(config)), std::as_bytes(std::span(&value, 1)),
                            &dropped_, dropped_.load()};
        if (!scheduler->submit_again(text, nullptr)) launch(name, {"x"}, {"x"}, value, 0, &text);
        given.push_back(value);
      }
    };
    for (int i = 0; i < 6 * kTurns; ++i) {
      turn_of(1000);
      if (i % kTurns == 0) scheduler->settle_graphs();
    }
    EXPECT_GT(scheduler->graph_counters().by_text, 0u);
    for (int i = 0; i < 20 * kTurns; ++i) {
      turn_of(is_other[which](i) ? 5000 + i : 1000);
      if (i % kTurns == 0) scheduler->settle_graphs();
    }
    EXPECT_GT(scheduler->graph_counters().varying, 0u);
    EXPECT_GT(scheduler->graph_counters().replaced, given.size() / 4);
    ASSERT_TRUE(scheduler->synchronize().ok());
    EXPECT_EQ(durations(), given) << which;
  }
}

TEST_F(VaryingScalars, AnotherPointer_IsAnotherRegion) {
  open_always();
  learn();
  const std::size_t before = kernel_launches(), graphs_before = graphs().size();
  launch("k0", {"x"}, {"x"}, 100, 4096);
  for (int i = 1; i < kLaunches; ++i) launch("k" + std::to_string(i), {"x"}, {"x"}, 100 + i, 4096);
  EXPECT_EQ(kernel_launches(), before + kLaunches);
  EXPECT_EQ(graphs().size(), graphs_before);
  EXPECT_EQ(scheduler->graph_counters().varying, 2u);
}

TEST_F(VaryingScalars, WhatIsHeldAndInterrupted_IsLaunchedWithTheLatest) {
  open_always();
  learn();
  for (int i = 0; i < 20; ++i) launch("k" + std::to_string(i), {"x"}, {"x"}, i == 10 ? 7777 : 100 + i);
  const std::size_t before = kernel_launches();
  ASSERT_TRUE(read("x").ok());
  const auto launches = device->state().of(Step::Kind::kLaunch);
  ASSERT_EQ(launches.size(), before + 20);
  EXPECT_EQ(launches[before + 10].end_ns - launches[before + 10].start_ns, 7777);
  EXPECT_EQ(launches[before + 11].end_ns - launches[before + 11].start_ns, 111);
}

// Between the graphs of the others.
TEST_F(VaryingScalars, AKernelThatTakesNoBlock_IsLaunchedAndSaysWhy) {
  refused_ = {"k10"};
  open_always();
  for (int step = 1; step < 20; ++step) {
    turn(1000 * step);
    scheduler->settle_graphs();
  }
  const std::size_t before = kernel_launches();
  turn(20'000);
  const std::vector<Step> launches = device->state().of(Step::Kind::kLaunch);
  ASSERT_EQ(launches.size(), before + 1) << explain(scheduler->graphs());
  EXPECT_EQ(launches.back().end_ns - launches.back().start_ns, 20'000);
  const GraphCounters counters = scheduler->graph_counters();
  EXPECT_EQ(counters.refused, 1u);
  EXPECT_THAT(counters.refusal, HasSubstr("a.ptx:7: this kernel takes no block."));
  // With the same scalars again, too, no other is launched by itself.
  for (int i = 0; i < 6; ++i) {
    turn(5000);
    scheduler->settle_graphs();
  }
  EXPECT_LE(kernel_launches(), before + 1 + 6);
}

// An index in an inner loop recurs as it is, in a longer turn.
TEST_F(VaryingScalars, AnInnerLoopsIndex_NeedsNoBlock) {
  open_always();
  for (int i = 0; i < 12; ++i) {
    for (int k = 0; k < 100; ++k) launch("k", {"x"}, {"x"}, 10 * k);
    scheduler->settle_graphs();
  }
  EXPECT_GE(graphs().size(), 8u);
  EXPECT_EQ(scheduler->graph_counters().varying, 0u);
  EXPECT_EQ(copies(), 0u);
}

// A turn of the host in which shorter runs recur: found by where the host steps in, though none of its launches is as
// long ago as the one before it.
TEST_F(VaryingScalars, RunsWithinATurn_DoNotHideIt) {
  open_always();
  for (int i = 0; i < 12; ++i) {
    for (int k = 0; k < 30; ++k) launch("k", {"x"}, {"x"}, 10 * (k % 3));
    for (int k = 0; k < 30; ++k) launch("k", {"y"}, {"y"}, 10 * (k % 3));
    ASSERT_TRUE(scheduler->synchronize().ok());
    scheduler->settle_graphs();
  }
  EXPECT_GE(graphs().size(), 8u);
  EXPECT_EQ(scheduler->graph_counters().varying, 0u);
}

TEST_F(VaryingScalars, AShortTurn_IsGivenTimeAndThenRunsAsGraphs) {
  open_always();
  for (int step = 0; step < 240; ++step) {
    launch("a", {"x"}, {"y"}, step);
    launch("b", {"y"}, {"x"}, 50);
    if (step % 20 == 0) scheduler->settle_graphs();
  }
  ASSERT_GE(graphs().size(), 2u);
  const std::vector<double> last = graphs().back().durations_ns;
  ASSERT_EQ(last.size(), 32u);
  for (std::size_t i = 2; i < last.size(); i += 2) EXPECT_EQ(last[i], last[i - 2] + 1);
}

// A long inner loop's index: its short turn is followed first, with a block, and given up for the turn in which the
// index recurs.
TEST_F(VaryingScalars, ALongInnerLoopsIndex_NeedsABlockOnlyUntilItRecurs) {
  open_always();
  const auto program = [&](int turns, bool ends_otherwise) {
    for (int turn = 0; turn < turns; ++turn) {
      for (int k = 0; k < 500; ++k) launch("k", {"x"}, {"x"}, 10 * k);
      if (ends_otherwise) launch("end", {"x"}, {"y"}, 5);
      scheduler->settle_graphs();
    }
  };
  for (const bool ends_otherwise : {false, true}) {
    scheduler.reset();
    arrays.clear();
    open_always();
    program(4, ends_otherwise);
    EXPECT_GE(scheduler->graph_counters().varying, 1u);
    const std::size_t copies_before = copies(), graphs_before = graphs().size(), launches_before = kernel_launches();
    program(4, ends_otherwise);
    EXPECT_EQ(copies(), copies_before) << ends_otherwise;
    EXPECT_GE(graphs().size(), graphs_before + 4) << ends_otherwise;
    EXPECT_LE(kernel_launches(), launches_before + 20) << ends_otherwise;
  }
}

// Of each block: the copy after the graph that read it before, the graph after the copy.
void expect_no_block_is_overwritten_early(const FakeState& state) {
  std::map<device::DeviceAddress, double> read_until, written_until;
  for (const Step& step : state.steps) {
    if (step.address == 0) continue;
    if (step.kind == Step::Kind::kCopyUp) {
      EXPECT_GE(step.start_ns, read_until[step.address]);
      written_until[step.address] = step.end_ns;
    } else {
      EXPECT_GE(step.start_ns, written_until[step.address]);
      read_until[step.address] = std::max(read_until[step.address], step.end_ns);
    }
  }
}

TEST_F(VaryingScalars, OnAnotherStream_TheCopyWaitsForTheGraph) {
  open_always();
  learn();
  for (int step = 5; step < 20; ++step) {
    turn(1000 * step);
    ASSERT_TRUE(run("reads", {"x"}, {"p"}).ok());         // goes on where the graph was,
    ASSERT_TRUE(run("reads too", {"x"}, {"q"}).ok());     // on another stream,
    ASSERT_TRUE(run("follows", {"p"}, {"r"}, 5e6).ok());  // and so the next graph finds the first one taken
  }
  std::set<std::uint32_t> streams;
  for (const Step& step : graphs()) streams.insert(step.queue);
  EXPECT_GE(streams.size(), 2u);
  expect_no_block_is_overwritten_early(device->state());
}

// Launches that use no array: nothing but the block orders their graphs.
TEST_F(VaryingScalars, WithoutArrays_GraphsAreInOrderByTheirBlock) {
  open_always();
  for (int step = 0; step < 10; ++step) {
    for (int i = 0; i < kLaunches; ++i) launch("k" + std::to_string(i), {}, {}, i == 10 ? 1e5 + step : 1);
    scheduler->settle_graphs();
  }
  std::set<std::uint32_t> streams;
  for (const Step& step : graphs()) streams.insert(step.queue);
  EXPECT_GE(graphs().size(), 10u);
  expect_no_block_is_overwritten_early(device->state());
  EXPECT_THAT(scheduler->picture().dot(), HasSubstr("parameters RAW"));
}

TEST_F(VaryingScalars, BlocksOfForgottenGraphs_AreLetGo) {
  open_always();
  learn();
  const long before = device->buffers_alive();
  EXPECT_EQ(before, 2);
  for (int other = 0; other < 9; ++other)  // more regions than are remembered
    for (int i = 0; i < 200; ++i) launch("k" + std::to_string(i % 2), {"x"}, {"a" + std::to_string(other)}, 1);
  scheduler->settle_graphs();
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(10);
  while (device->buffers_alive() != 0 && std::chrono::steady_clock::now() < deadline)
    std::this_thread::sleep_for(std::chrono::milliseconds(1));  // they go on the thread that makes graphs
  EXPECT_EQ(device->buffers_alive(), 0);
}

// Programs of loops with steps, reads and other launches in between: each launch runs once, with its own scalar, in
// order.
TEST_F(VaryingScalars, RandomPrograms_RunEachLaunchOnceWithItsScalars) {
  const std::uint64_t seed = std::random_device{}();
  SCOPED_TRACE(seed);
  std::mt19937_64 random(seed);
  for (int program = 0; program < 20; ++program) {
    device->state().steps.clear();
    scheduler.reset();
    arrays.clear();
    forms_.clear();
    open_always();
    std::vector<double> expected;
    const int length = std::uniform_int_distribution(3, 80)(random);
    std::vector<int> changes(static_cast<std::size_t>(length));  // every so many turns; 0: never
    for (int& change : changes)
      change = std::uniform_int_distribution(0, 9)(random) < 7 ? 0 : 1 + static_cast<int>(random() % 4);
    for (int turn = 0; turn < 900 / length + 5; ++turn) {
      for (int i = 0; i < length; ++i) {
        const int change = changes[static_cast<std::size_t>(i)];
        expected.push_back(1 + i + (change == 0 ? 0 : 1000 * (turn / change)));
        launch("k" + std::to_string(i % 7), {"x"}, {"x"}, expected.back());
        if (random() % 400 == 0) {
          ASSERT_TRUE(read("x").ok());
        }
        if (random() % 900 == 0) launch("other", {"x"}, {"x"}, expected.emplace_back(3));
        if (random() % 100 == 0) scheduler->settle_graphs();
      }
    }
    ASSERT_TRUE(scheduler->synchronize().ok());
    const std::vector<double> found = durations();
    ASSERT_EQ(found.size(), expected.size());
    for (std::size_t i = 0; i < found.size(); ++i) ASSERT_NEAR(found[i], expected[i], 1e-3) << i;
    expect_no_block_is_overwritten_early(device->state());
  }
}

// With graphs=measured each makes another graph of the turn, of which nobody has measured that it is faster.
TEST_F(VaryingScalars, ALaunchThatBeginsToVary_HasTurnsOnAnIdleDeviceTriedAnew) {
  open_patient("");
  device->state().launch_ns = 6000;
  double first = 1000, second = 1000;
  const auto turns_of = [&](int count) {
    for (int turn = 0; turn < count; ++turn) {
      for (int i = 0; i < 8; ++i)
        launch("k" + std::to_string(i), {"x"}, {"x"}, i == 1 ? first : i == 5 ? second : 1000 + i);
      ASSERT_TRUE(read("x").ok());
      scheduler->settle_graphs();
    }
  };
  const auto forms = [&] { return scheduler->graphs().regions.back().forms; };
  turns_of(200);
  ASSERT_FALSE(forms().empty());
  for (double* const scalar : {&first, &second}) {
    *scalar += 1;
    turns_of(1);
    EXPECT_THAT(forms(), IsEmpty());
    turns_of(200);
    EXPECT_FALSE(forms().empty()) << explain(scheduler->graphs());
  }
  EXPECT_EQ(scheduler->graph_counters().varying, 2u);
}

}  // namespace
}  // namespace pergola::scheduler::testing
