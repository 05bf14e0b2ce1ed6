// On which stream a graph goes, of those that are free for it (graph_ways.h), on the device with a virtual clock:
// graphs that take longer on some.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <functional>

#include "src/scheduler/graph_ways_fixture.h"

namespace pergola::scheduler::testing {
namespace {

using ::testing::Each;
using ::testing::HasSubstr;

// Takes so long, by the number of the queue and of its launch, from 1.
class TakesBy final : public device::ExecutableGraph {
 public:
  using Ns = std::function<double(std::size_t queue, int launch)>;
  TakesBy(const std::vector<std::unique_ptr<device::Queue>>& queues, Ns ns) : queues_(queues), ns_(std::move(ns)) {}
  Status update_parameters(device::NodeId, std::span<const std::byte>) override { return {}; }
  Status launch(device::Queue& queue) override {
    std::size_t number = 0;
    while (queues_[number].get() != &queue) ++number;
    static_cast<FakeQueue&>(queue).run(ns_(number, ++launches_));
    return {};
  }

 private:
  const std::vector<std::unique_ptr<device::Queue>>& queues_;
  const Ns ns_;
  int launches_ = 0;
};

class GraphLanes : public SchedulerTest {
 protected:
  void SetUp() override {
    for (int n = 0; n < 4; ++n) queues.push_back(std::move(device->create_queue()).value());
  }
  GraphWays::Way way(const char* name, TakesBy::Ns ns) {
    return {name, "", std::make_shared<TakesBy>(queues, std::move(ns))};
  }
  // The queue that a scheduler would take of the first `count`.
  std::size_t pick(GraphWays& ways, std::size_t count = 3) {
    const device::Queue* const wanted = ways.choose();
    for (std::size_t n = 0; n < queues.size(); ++n)
      if (queues[n].get() == wanted) return n;
    return taken_++ % count;
  }
  void launch_on(GraphWays& ways, std::size_t queue, bool was_free = true) {
    ASSERT_TRUE(ways.launch(*queues[queue], was_free).ok());
    const double now = device->state().end_ns();
    device->state().host_ns = now;
    device->state().steps.clear();
  }
  void launch(GraphWays& ways, int times) {
    for (int n = 0; n < times; ++n) launch_on(ways, pick(ways));
  }
  void launch_until_chosen(GraphWays& ways, int most = 1000) {
    for (int n = 0; n < most && ways.chosen() == nullptr; ++n) launch_on(ways, pick(ways));
    ASSERT_NE(ways.chosen(), nullptr);
  }
  std::string chosen(GraphWays& ways) {
    return ways.chosen() == nullptr ? "none" : fmt::format("{} on {}", ways.chosen()->name, pick(ways));
  }

  std::vector<std::unique_ptr<device::Queue>> queues;

 private:
  std::size_t taken_ = 0;
};

TEST_F(GraphLanes, TheFastestWay_StaysOnItsFastestStream) {
  GraphWays ways({way("plain", [](std::size_t queue, int) { return std::array{80e3, 100e3, 90e3, 1e3}[queue]; })});
  ways.add(way("other", [](std::size_t queue, int) { return std::array{95e3, 70e3, 95e3, 1e3}[queue]; }));
  launch_until_chosen(ways);
  EXPECT_EQ(chosen(ways), "other on 1");
  launch(ways, 3);
  EXPECT_EQ(ways.elsewhere(), 0u);
  launch_on(ways, 2, false);
  launch_on(ways, 0);
  EXPECT_EQ(ways.elsewhere(), 2u);
  std::vector<WayReport> told;
  ASSERT_TRUE(ways.report({}, told));
  EXPECT_THAT(told.at(0).why, HasSubstr("(by stream: 80.0, 90.0, 100.0 us)"));
  EXPECT_THAT(told.at(1).why, HasSubstr("(by stream: 70.0, 95.0, 95.0 us)"));
}

// What goes behind its parent says nothing of which streams there are.
TEST_F(GraphLanes, LaunchesThatHadNoChoice_AreNoLanes) {
  const auto takes = [](double ns) {
    return [ns](std::size_t queue, int) { return ns * std::array{1.2, 1.1, 1.0, 1.0}[queue]; };
  };
  GraphWays ways({way("plain", takes(100e3))});
  launch_on(ways, 0);
  ways.add(way("other", takes(90e3)));
  for (int n = 0; n < 200 && ways.chosen() == nullptr; ++n) {
    const std::size_t queue = pick(ways);
    launch_on(ways, queue);
    launch_on(ways, queue, false);
  }
  EXPECT_EQ(chosen(ways), "other on 2");
}

TEST_F(GraphLanes, TriesThatGoElsewhere_AreMadeUpFor) {
  const auto takes = [](double ns) {
    return [ns](std::size_t queue, int) { return ns * std::array{1.2, 1.1, 1.0, 0.1}[queue]; };
  };
  GraphWays ways({way("plain", takes(100e3))});
  ways.add(way("other", takes(90e3)));
  for (int n = 0; n < 200 && ways.chosen() == nullptr; ++n) launch_on(ways, n % 5 == 4 ? 3 : pick(ways));
  EXPECT_EQ(chosen(ways), "other on 2");
}

// Then what counts is the median of all, wherever they go: one that was lucky is not believed.
TEST_F(GraphLanes, WhereNoLaunchHasAChoice_ThereAreNoLanes) {
  for (const int lucky_at : {0, 3, 9, 17, 20, 25, 28}) {
    GraphWays ways({way("plain", [](std::size_t queue, int) { return queue == 0 ? 100e3 : 104e3; })});
    ways.add(way("other", [&](std::size_t queue, int launch) {
      return launch == lucky_at ? 60e3 : queue == 0 ? 110e3 : 114e3;
    }));
    for (std::size_t n = 0; n < 200 && ways.chosen() == nullptr; ++n) {
      (void)ways.choose();
      launch_on(ways, n / 3 % 2, false);
    }
    ASSERT_NE(ways.chosen(), nullptr);
    EXPECT_EQ(ways.chosen()->name, "plain") << lucky_at;
    EXPECT_EQ(ways.choose(), nullptr);
  }
}

// The first try pays for an upload, and the second may come to a stream on which it is slow.
TEST_F(GraphLanes, AWayIsNotGivenUp_ForOneOfItsStreams) {
  for (const std::size_t slow : {0u, 1u, 2u}) {
    GraphWays ways({way("plain", [](std::size_t, int) { return 100e3; })});
    ways.add(way("other", [&](std::size_t queue, int launch) {
      return launch == 1 ? 300e3 : queue == slow ? 140e3 : 70e3;
    }));
    launch_until_chosen(ways);
    EXPECT_EQ(ways.chosen()->name, "other") << slow;
  }
}

// Whatever the rhythm in which the host waits, in trials again too.
TEST_F(GraphLanes, LaunchesThatHaveAChoiceEachFewTimes_StayOnTheBest) {
  for (const int each : {1, 2, 3, 4, 5, 7, 8, 12, 16}) {
    GraphWays ways(
        {way("plain", [](std::size_t queue, int) { return 100e3 * std::array{1.2, 1.1, 1.0, 1.0}[queue]; })});
    launch_on(ways, 0);
    ways.add(way("other", [](std::size_t queue, int) { return 90e3 * std::array{1.2, 1.1, 1.0, 1.0}[queue]; }));
    std::size_t queue = 0;
    int on_best = 0;
    constexpr int kLaunches = 30'000, kFirst = 2'000;
    for (int n = 0; n < kLaunches; ++n) {
      const bool is_free = n % each == 0;
      if (is_free) queue = pick(ways);
      launch_on(ways, queue, is_free);
      on_best += n >= kFirst && queue == 2 ? 1 : 0;
    }
    EXPECT_GE(on_best, 0.95 * (kLaunches - kFirst)) << each;
  }
}

// The others are as good as they were.
TEST_F(GraphLanes, AStreamThatAlwaysHasSomethingElseToDo_IsNoneAnyMore) {
  for (const std::size_t busy : {0u, 1u, 2u}) {
    GraphWays ways(
        {way("plain", [](std::size_t queue, int) { return 100e3 * std::array{1.0, 1.2, 1.0, 1.3}[queue]; })});
    ways.add(way("other", [](std::size_t queue, int) { return 90e3 * std::array{1.0, 1.2, 1.0, 1.3}[queue]; }));
    launch_until_chosen(ways);
    int slow = 0;
    constexpr int kLaunches = 60'000;
    for (int n = 0; n < kLaunches; ++n) {
      std::size_t queue = pick(ways);
      while (queue == busy) queue = n++ % 3;
      slow += queue == 1 ? 1 : 0;
      launch_on(ways, queue);
    }
    EXPECT_LE(slow, 0.2 * kLaunches) << busy << chosen(ways);
  }
}

TEST_F(GraphLanes, WhileLaunchesGoElsewhere_NoSlowerWayIsLaunched) {
  int launches = 0;
  GraphWays ways({way("plain", [](std::size_t, int) { return 100e3; })});
  launch_on(ways, 0);
  ways.add(way("slow", [&](std::size_t, int launch) {
    launches = launch;
    return 1000e3;
  }));
  for (int n = 0; n < 500 && ways.chosen() == nullptr; ++n) launch_on(ways, n % 10 == 0 ? pick(ways) : 0, n % 10 == 0);
  EXPECT_EQ(ways.chosen()->name, "plain");
  EXPECT_LE(launches, 4);
}

TEST_F(GraphLanes, AStreamThatWasDisturbed_IsTriedAgain) {
  bool is_disturbed = true;
  const auto takes = [&](double ns) {
    return [&, ns](std::size_t queue, int) { return ns * std::array{is_disturbed ? 1.5 : 1.0, 1.2, 1.25, 1.0}[queue]; };
  };
  GraphWays ways({way("plain", takes(100e3))});
  ways.add(way("other", takes(90e3)));
  launch_until_chosen(ways);
  EXPECT_EQ(chosen(ways), "other on 1");
  is_disturbed = false;
  launch(ways, 20'000);
  EXPECT_EQ(chosen(ways), "other on 0");
}

TEST_F(GraphLanes, AWayThatIsFastOnAnotherStream_IsFoundLater) {
  bool is_disturbed = true;
  GraphWays ways({way("plain", [](std::size_t queue, int) { return queue == 1 ? 100e3 : 90e3; })});
  ways.add(way("other", [&](std::size_t queue, int) { return (is_disturbed ? 2 : 1) * (queue == 0 ? 95e3 : 70e3); }));
  launch_until_chosen(ways);
  EXPECT_EQ(chosen(ways), "plain on 0");
  is_disturbed = false;
  launch(ways, 40'000);
  EXPECT_THAT(chosen(ways), HasSubstr("other on "));
}

// ── By the scheduler ────────────────────────────────────────────────────────────────────────────────────────────────

class GraphLanesOfSessions : public GraphWaysFixture {
 protected:
  static std::shared_ptr<GraphLowerer> one_other(double factor) {
    return std::make_shared<Scaled>(std::vector<double>{factor}, true);
  }
  // The streams of the last graphs of a session with three, on which graphs take so much of their time: many turns of
  // 32 launches, and the host waits each so many turns.
  std::vector<std::uint32_t> streams_at_the_end(const std::array<double, 3>& factors, int waits_each = 1,
                                                std::shared_ptr<GraphLowerer> lowerer = one_other(0.9)) {
    arrays.clear();
    device->state().steps.clear();
    open("graphs=always", std::move(lowerer));
    const std::uint32_t first = device->state().queues - 1;  // a session begins with one
    device->state().graphs_take.assign(first, 1.0);
    device->state().graphs_take.insert(device->state().graphs_take.end(), factors.begin(), factors.end());
    for (const char* const name : {"a", "b", "c"}) launch(name);  // so many streams
    EXPECT_TRUE(scheduler->synchronize().ok());
    scheduler->set_graph_patience(std::chrono::hours(1));
    for (int turn = 0; turn < 80 * waits_each; ++turn) {
      for (int n = 0; n < 32; ++n) launch("x");
      if (turn % waits_each == waits_each - 1) {
        EXPECT_TRUE(scheduler->synchronize().ok());
      }
      scheduler->settle_graphs();
    }
    std::vector<std::uint32_t> streams;
    const auto graphs = device->state().of(Step::Kind::kGraph);
    EXPECT_GT(graphs.size(), 40u);
    for (std::size_t i = graphs.size() - std::min<std::size_t>(graphs.size(), 9); i < graphs.size(); ++i)
      streams.push_back(graphs[i].queue - first);
    return streams;
  }
};

TEST_F(GraphLanesOfSessions, AGraphStaysOnTheStreamOnWhichItIsFastest) {
  EXPECT_THAT(streams_at_the_end({1.1, 1.0, 1.2}), Each(1));
  EXPECT_THAT(streams_at_the_end({1.1, 1.2, 1.0}), Each(2));
  EXPECT_THAT(explain(scheduler->graphs()), HasSubstr("(by stream: 28.8, 31.7, 34.6 us)"));
  EXPECT_EQ(scheduler->picture().vertices.back().reason, StreamReason::kGraph);
}

TEST_F(GraphLanesOfSessions, SoItIsWhereTheHostWaitsEachFewTurns) {
  for (const int each : {2, 3, 4, 7}) {
    EXPECT_THAT(streams_at_the_end({1.2, 1.1, 1.0}, each), Each(2)) << each;
    EXPECT_THAT(streams_at_the_end({1.0, 1.2, 1.1}, each), Each(0)) << each;
    EXPECT_THAT(streams_at_the_end({1.0, 1.2, 1.0}, each, one_other(1.05)), ::testing::Not(::testing::Contains(1)))
        << each;
    EXPECT_THAT(explain(scheduler->graphs()), HasSubstr("way 0, 33.6 us, put back")) << each;
  }
}

TEST_F(GraphLanesOfSessions, AGraphOfOneWay_StaysWhereItWentFirst) {
  const auto streams = streams_at_the_end({1.1, 1.0, 1.2}, 1, nullptr);
  EXPECT_THAT(streams, Each(streams.front()));
}

}  // namespace
}  // namespace pergola::scheduler::testing
