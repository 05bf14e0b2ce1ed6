// Which of the ways of a graph stays, on the device with a virtual clock: ways differ in how long their launches take.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cmath>
#include <cstring>
#include <functional>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "src/scheduler/graph_ways_fixture.h"

namespace pergola::scheduler::testing {
namespace {

class GraphWaysTest : public GraphWaysFixture {
 protected:
  // How long graphs took at the end of many turns of 32 launches of 1000 ns each.
  double settled_ns(std::vector<double> factors, bool keeps_plain = true) {
    lowerer = std::make_shared<Scaled>(std::move(factors), keeps_plain);
    arrays.clear();
    device->state().steps.clear();
    open("graphs=always", lowerer);
    scheduler->set_graph_patience(std::chrono::hours(1));
    for (int turn = 0; turn < 60; ++turn) {
      for (int i = 0; i < 32; ++i) launch("x");
      EXPECT_TRUE(scheduler->synchronize().ok());
      scheduler->settle_graphs();
    }
    const auto graphs = device->state().of(Step::Kind::kGraph);
    EXPECT_GT(graphs.size(), 20u);
    return graphs.empty() ? 0 : graphs.back().end_ns - graphs.back().start_ns;
  }
  std::shared_ptr<Scaled> lowerer;
};

TEST_F(GraphWaysTest, TheFastestStays) {
  EXPECT_EQ(settled_ns({0.9, 0.5, 0.7}), 16000);
  EXPECT_EQ(lowerer->asked % 3, 0) << "each way of each graph once";
  EXPECT_GT(lowerer->asked, 0);
}
TEST_F(GraphWaysTest, ThePlainOneStays_UnlessAnotherIsFasterByMoreThanOnePercent) {
  EXPECT_EQ(settled_ns({0.99, 1.5}), 32000);
  EXPECT_EQ(settled_ns({0.985, 1.5}), 0.985 * 32000);
}
TEST_F(GraphWaysTest, WaysThatThisGraphHasNot_AreLeftOut) {
  EXPECT_EQ(settled_ns({0, 0.5, 0}), 16000);
  EXPECT_EQ(settled_ns({0, 0}), 32000);
  EXPECT_EQ(settled_ns({}), 32000);
}
TEST_F(GraphWaysTest, AForcedWay_IsTakenThoughItIsSlower) {
  EXPECT_EQ(settled_ns({2.0}, false), 64000);
  EXPECT_EQ(settled_ns({0}, false), 32000) << "there is no other";
}

// Of a graph with branches: instances differ by the queues that these were given.
class GraphDraws : public GraphWaysFixture {
 protected:
  // Turns of 32 launches on two arrays until so many ways have been tried, and nothing is made any more.
  void settle(std::size_t count) {
    const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(60);
    const auto are_tried = [&] {
      const std::vector<WayReport> all = ways();
      return all.size() >= count && std::ranges::none_of(all, [](const WayReport& way) {
               return way.state == WayReport::State::kTried || way.state == WayReport::State::kOnly;
             });
    };
    do {
      for (int i = 0; i < 32; ++i) launch(branches && i % 2 == 0 ? "x" : "y", launch_ns);
      EXPECT_TRUE(scheduler->synchronize().ok());
    } while (!are_tried() && std::chrono::steady_clock::now() < until);
    scheduler->settle_graphs();
  }
  void open_with(std::vector<double> factors, bool keeps_plain = true) {
    open("graphs=always", std::make_shared<Scaled>(std::move(factors), keeps_plain));
    scheduler->set_graph_patience(std::chrono::hours(1));
  }
  // Of the graph that was cut last.
  std::vector<WayReport> ways() {
    const GraphsReport report = scheduler->graphs();
    if (report.regions.empty() || report.regions.back().graphs.empty()) return {};
    return report.regions.back().graphs.back().ways;
  }
  std::vector<std::string> names() {
    std::vector<std::string> all;
    for (const WayReport& way : ways()) all.push_back(way.name);
    return all;
  }
  std::string kept() {
    for (const WayReport& way : ways())
      if (way.state == WayReport::State::kKept) return way.name;
    return "none";
  }
  static constexpr std::size_t kAll = 2 + GraphWays::kDraws;
  static std::vector<std::string> with_instances(std::vector<std::string> all, const std::string& of) {
    for (std::size_t n = 2; n < 2 + GraphWays::kDraws; ++n) all.push_back(fmt::format("{} #{}", of, n));
    return all;
  }
  bool branches = true;
  double launch_ns = 1000;  // of each
};

TEST_F(GraphDraws, OfTheFastest_MoreAreMade_AndTheFastestInstanceStays) {
  std::atomic<int> of_way = 0;  // launches of which take 800 ns
  device->slower_instance = [&](const device::GraphSpec& spec) {
    const auto& bytes = std::get<device::KernelNode>(spec.nodes.front().work).parameters;
    double ns = 0;
    std::memcpy(&ns, bytes.data(), sizeof ns);
    return spec.nodes.size() == 32 && ns == 800 && ++of_way > 2 ? 0.9 : 1.0;
  };
  open_with({0.8});
  settle(kAll);
  EXPECT_THAT(names(), ::testing::ElementsAreArray(with_instances({"plain", "way 0"}, "way 0")))
      << explain(scheduler->graphs());
  EXPECT_GT(of_way, 2);
  EXPECT_THAT(kept(), ::testing::StartsWith("way 0 #")) << explain(scheduler->graphs());
  const auto last = device->state().of(Step::Kind::kGraph).back();
  EXPECT_DOUBLE_EQ(last.end_ns - last.start_ns, 0.9 * 16 * 800);
}

TEST_F(GraphDraws, OfThePlainWay_WhereItIsTheFastest) {
  open_with({1.2});
  settle(kAll);
  EXPECT_THAT(names(), ::testing::ElementsAreArray(with_instances({"plain", "way 0"}, "plain")))
      << explain(scheduler->graphs());
  EXPECT_THAT(kept(), ::testing::StartsWith("plain")) << "another, where the host launched it in half the time";
}

// An instance that is slow may be the draw's, and the way not slower than another.
TEST_F(GraphDraws, OfOnesThatAreNearlyAsFast_EachHasSome) {
  open_with({0.9, 0.88, 1.2, 0.98});
  const auto of = [&](const std::string& name) {
    return std::ranges::count_if(names(), [&](const std::string& one) { return one.starts_with(name + " #"); });
  };
  settle(5 + GraphWays::kDraws);
  EXPECT_EQ(of("way 1"), GraphWays::kDraws / 2) << explain(scheduler->graphs());
  EXPECT_EQ(of("way 0"), GraphWays::kDraws / 2);
  EXPECT_EQ(of("plain") + of("way 3"), 0) << "these are 10 % slower and more";
  EXPECT_EQ(of("way 2"), 0);
}

// Each is tried for as long as so many of its turns take.
TEST_F(GraphDraws, OfALongGraph_ThereAreFewer) {
  launch_ns = 64'000;
  open_with({0.8});
  settle(2 + GraphWays::kDrawsOfLong);
  EXPECT_EQ(names().size(), 2 + GraphWays::kDrawsOfLong) << explain(scheduler->graphs());
  for (int turn = 0; turn < 100; ++turn) settle(0);
  EXPECT_EQ(names().size(), 2 + GraphWays::kDrawsOfLong) << explain(scheduler->graphs());
}

TEST_F(GraphDraws, AChain_HasOneInstance) {
  branches = false;
  open_with({0.8});
  settle(2);
  EXPECT_THAT(names(), ::testing::ElementsAre("plain", "way 0")) << explain(scheduler->graphs());
}

// Where the fastest has no branches others may still have come to bad ones.
TEST_F(GraphDraws, OfAChain_ItIsTheFastestBesideIt_ThatIsDrawn) {
  class Chain final : public GraphLowerer {
   public:
    explicit Chain(double factor) : factor_(factor) {}
    std::size_t count() const override { return 1; }
    std::optional<GraphWay> way(std::size_t, const device::GraphSpec& plain, std::span<const LaunchToLower>) override {
      device::GraphSpec spec = scaled(plain, factor_);
      for (std::size_t i = 1; i < spec.nodes.size(); ++i) spec.nodes[i].after = {static_cast<device::NodeId>(i - 1)};
      return GraphWay{"chain", "", std::move(spec)};
    }
    std::string name(std::size_t) const override { return "chain"; }
    bool keeps_plain() const override { return true; }

   private:
    const double factor_;
  };
  const auto names_with = [&](double factor, std::size_t count) {
    arrays.clear();
    open("graphs=always", std::make_shared<Chain>(factor));
    scheduler->set_graph_patience(std::chrono::hours(1));
    settle(count);
    return names();
  };
  EXPECT_THAT(names_with(0.45, kAll), ::testing::ElementsAreArray(with_instances({"plain", "chain"}, "plain")));
  EXPECT_THAT(names_with(0.3, 2), ::testing::ElementsAre("plain", "chain")) << "it could not become the fastest";
}

TEST_F(GraphDraws, AForcedWay_HasOneInstance) {
  open_with({0.8}, false);
  for (int turn = 0; turn < 60; ++turn) {
    for (int i = 0; i < 32; ++i) launch(i % 2 == 0 ? "x" : "y");
    EXPECT_TRUE(scheduler->synchronize().ok());
    scheduler->settle_graphs();
  }
  EXPECT_THAT(names(), ::testing::ElementsAre("way 0")) << explain(scheduler->graphs());
}

// Two ways, and of the n-th fastest of them and the plain one a finer one, which takes so much of its time.
class Finer final : public GraphLowerer {
 public:
  explicit Finer(double factor) : factor_(factor) {}
  std::size_t count() const override { return kWays.size(); }
  std::optional<GraphWay> way(std::size_t n, const device::GraphSpec& plain, std::span<const LaunchToLower>) override {
    return GraphWay{fmt::format("way {}", n), "", scaled(plain, kWays[n])};
  }
  std::string name(std::size_t n) const override { return fmt::format("way {}", n); }
  std::size_t finer_count() const override { return 2; }
  std::optional<GraphWay> finer_way(std::size_t n, const device::GraphSpec& plain, std::span<const LaunchToLower>,
                                    std::span<const std::string> fastest) override {
    const std::lock_guard lock(mutex);
    told.assign(fastest.begin(), fastest.end());
    const double of = told[n] == "plain" ? 1 : kWays[told[n] == "way 1"];
    return GraphWay{"finer " + told[n], "", scaled(plain, of * factor_)};
  }
  bool keeps_plain() const override { return true; }
  std::mutex mutex;
  std::vector<std::string> told;

 private:
  static constexpr std::array kWays{1.5, 0.75};
  const double factor_;
};

// The others are tried meanwhile, as nobody asks for all of them to be made at once.
TEST_F(GraphWaysTest, FinerWays_AreMadeOfTheFastest_OnceTheOthersHaveBeenTried) {
  const auto settled_name = [&](double factor) {
    const auto finer = std::make_shared<Finer>(factor);
    arrays.clear();
    open("graphs=always", finer);
    scheduler->set_graph_patience(std::chrono::hours(1));
    const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(60);
    const auto kept = [&]() -> std::string {
      const GraphsReport report = scheduler->graphs();
      if (report.regions.empty() || report.regions.back().graphs.empty()) return {};
      const auto& ways = report.regions.back().graphs.back().ways;  // those before it were cut otherwise
      const auto is_kept = [](const WayReport& way) { return way.state == WayReport::State::kKept; };
      const auto found = std::ranges::find_if(ways, is_kept);
      return ways.size() < 5 || found == ways.end() ? std::string() : found->name;
    };
    while (kept().empty() && std::chrono::steady_clock::now() < until) {
      for (int i = 0; i < 32; ++i) launch("x");
      EXPECT_TRUE(scheduler->synchronize().ok());
    }
    const std::lock_guard lock(finer->mutex);
    EXPECT_THAT(finer->told, ::testing::ElementsAre("way 1", "plain", "way 0")) << explain(scheduler->graphs());
    return kept();
  };
  EXPECT_EQ(settled_name(0.5), "finer way 1");
  EXPECT_EQ(settled_name(1.5), "way 1");
}

// Takes the device and the host so long.
class TimedGraph final : public device::ExecutableGraph {
 public:
  TimedGraph(double device_ns, std::chrono::microseconds host) : device_ns_(device_ns), host_(host) {}
  Status update_parameters(device::NodeId, std::span<const std::byte>) override { return {}; }
  Status launch(device::Queue& queue) override {
    const auto until = std::chrono::steady_clock::now() + host_;
    while (std::chrono::steady_clock::now() < until) {
    }
    static_cast<FakeQueue&>(queue).run(device_ns_);
    return {};
  }

 private:
  const double device_ns_;
  const std::chrono::microseconds host_;
};

GraphWays::Way timed_way(const char* name, double device_ns, std::chrono::microseconds host) {
  return {name, "", std::make_shared<TimedGraph>(device_ns, host)};
}

// The name of what is chosen within so many launches, each waited for; "" where nothing is.
std::string chosen_of(GraphWays& ways, FakeDevice& device, int launches) {
  auto queue = std::move(device.create_queue()).value();
  for (int i = 0; i < launches && ways.chosen() == nullptr; ++i) {
    EXPECT_TRUE(ways.launch(*queue).ok());
    device.state().host_ns = device.state().end_ns();
  }
  return ways.chosen() == nullptr ? "" : ways.chosen()->name;
}

TEST_F(GraphWaysTest, OneThatTakesTheDeviceAsLong_StaysWhereItCostsTheHostLess) {
  using std::chrono::microseconds;
  const auto chosen = [&](double device_ns, microseconds host) {
    GraphWays ways({timed_way("plain", 10e3, microseconds(300))});
    ways.add(timed_way("other", device_ns, host));
    return chosen_of(ways, *device, 40);
  };
  EXPECT_EQ(chosen(10e3, microseconds(50)), "other");
  EXPECT_EQ(chosen(9.9e3, microseconds(300)), "plain") << "faster, but not by enough";
  EXPECT_EQ(chosen(9e3, microseconds(500)), "other") << "faster by enough";
}

// The device takes many copies side by side in whatever order: a row is worth a little.
TEST_F(GraphWaysTest, OneWhoseCopiesHaveNoOrder_StaysOnlyWhereItIsMuchFaster) {
  const auto chosen = [&](double loose_ns, double row_ns, bool loose_first) {
    GraphWays::Way loose = timed_way("loose", loose_ns, {}), row = timed_way("row", row_ns, {});
    loose.is_loose = true;
    GraphWays ways({loose_first ? loose : row});
    ways.add(loose_first ? row : loose);
    return chosen_of(ways, *device, 40);
  };
  EXPECT_EQ(chosen(50e3, 51e3, true), "row") << "slower by 2 %";
  EXPECT_EQ(chosen(50e3, 51e3, false), "row");
  EXPECT_EQ(chosen(50e3, 52e3, true), "loose") << "slower by 4 %: less than 5, and not by kGain";
  EXPECT_EQ(chosen(50e3, 52e3, false), "row");
  EXPECT_EQ(chosen(50e3, 56e3, false), "loose") << "12 %";
}

// An eighth of what the host saves.
TEST_F(GraphWaysTest, OneThatIsSlowerByLessThanItSavesTheHost_Stays) {
  using std::chrono::microseconds;
  const auto chosen = [&](double second_ns, double third_ns, microseconds second_host) {
    GraphWays ways({timed_way("plain", 200e3, microseconds(300))});
    ways.add(timed_way("second", second_ns, second_host));
    ways.add(timed_way("third", third_ns, microseconds(300)));
    return chosen_of(ways, *device, 100);
  };
  EXPECT_EQ(chosen(220e3, 200e3, microseconds(40)), "second") << "by 20 us, and saves 260";
  EXPECT_EQ(chosen(240e3, 200e3, microseconds(40)), "plain") << "by 40 us, and saves 260";
  EXPECT_EQ(chosen(200e3, 190e3, microseconds(40)), "second") << "10 us faster than it is too little for 260";
  EXPECT_EQ(chosen(200e3, 150e3, microseconds(40)), "third") << "50 us faster than it is enough";
  EXPECT_EQ(chosen(190e3, 200e3, microseconds(700)), "plain") << "10 us faster, and costs 400 more";
  EXPECT_EQ(chosen(140e3, 200e3, microseconds(700)), "second") << "60 us faster, and costs 400 more";
}

// All of a graph's launches as one, which takes so many nanoseconds more.
class AsOne final : public GraphLowerer {
 public:
  explicit AsOne(double more_ns) : more_ns_(more_ns) {}
  std::size_t count() const override { return 1; }
  std::optional<GraphWay> way(std::size_t, const device::GraphSpec& plain, std::span<const LaunchToLower>) override {
    device::GraphSpec spec;
    spec.nodes.push_back(plain.nodes.front());
    auto& parameters = std::get<device::KernelNode>(spec.nodes.front().work).parameters;
    double ns = 0;
    std::memcpy(&ns, parameters.data(), sizeof ns);
    ns = ns * static_cast<double>(plain.nodes.size()) + more_ns_;
    std::memcpy(parameters.data(), &ns, sizeof ns);
    return GraphWay{name(0), "", spec};
  }
  std::string name(std::size_t) const override { return "as one"; }
  bool keeps_plain() const override { return true; }

 private:
  const double more_ns_;
};

class GraphWaysAndWaits : public GraphWaysFixture {
 protected:
  // The way that is kept of 32 launches of 1000 ns each, for each of which the host takes so long, and of one that
  // takes `more_ns` more. The host waits for each turn after `host_ns` of its own, or only has so much to do.
  std::string kept(double node_ns, double more_ns, bool waits, const std::function<double()>& host_ns = {},
                   bool asks = false) {
    scheduler.reset();
    arrays.clear();
    device->state().steps.clear();
    open("graphs=always", std::make_shared<AsOne>(more_ns));
    scheduler->set_graph_patience(std::chrono::hours(1));
    device->state().launch_node_ns = node_ns;
    for (int turn = 0; turn < 120; ++turn) {
      for (int i = 0; i < 32; ++i) launch("x");
      if (!waits) device->state().host_ns = device->state().end_ns();
      if (asks) {
        EXPECT_TRUE(scheduler->record().ok());
      }
      if (host_ns) device->state().host_ns += host_ns();
      if (asks) static_cast<void>(scheduler->try_host_access(all("x", Mode::kRead)));
      if (waits) {
        EXPECT_TRUE(scheduler->synchronize().ok());
      }
      scheduler->settle_graphs();
    }
    const GraphsReport report = scheduler->graphs();
    for (const RegionReport& region : report.regions)
      for (const GraphReport& graph : region.graphs)
        for (const WayReport& way : graph.ways)
          if (way.state == WayReport::State::kKept) return way.name;
    return explain(scheduler->graphs());
  }
};

// The device has begun with the first while the host launches the others.
TEST_F(GraphWaysAndWaits, WhatTheHostSaves_CountsByWhatItWaitsLess) {
  EXPECT_EQ(kept(500, 600, true), "plain") << "16 us of the host's beside 32 of the device's";
  EXPECT_EQ(kept(1500, 600, true), "as one") << "48 us of the host's";
  EXPECT_EQ(kept(500, 0, true), "as one") << "as long";
}
TEST_F(GraphWaysAndWaits, WhereTheHostDoesNotWait_AnEighthOfThatCounts) {
  EXPECT_EQ(kept(500, 600, false), "as one") << "15.5 us are saved";
  EXPECT_EQ(kept(500, 2500, false), "plain");
}
// It is no wait for the graph then, and what else the host does tells nothing.
TEST_F(GraphWaysAndWaits, AWaitForWhatHasEndedLongAgo_TellsNothing) {
  double ns = 0;
  const auto other_work = [&] { return ns = std::fmod(ns + 77e3, 200e3) + 50e3; };
  for (const bool asks : {false, true}) {
    EXPECT_EQ(kept(500, 600, true, other_work, asks), "as one") << asks;
    EXPECT_EQ(kept(500, 2500, true, other_work, asks), "plain") << asks;
  }
}

// The device begins with it at once, while the host still launches.
class PromptGraph final : public device::ExecutableGraph {
 public:
  PromptGraph(FakeState& state, double device_ns, double host_ns)
      : state_(state), device_ns_(device_ns), host_ns_(host_ns) {}
  Status update_parameters(device::NodeId, std::span<const std::byte>) override { return {}; }
  Status launch(device::Queue& queue) override {
    static_cast<FakeQueue&>(queue).run(device_ns_);
    state_.host_ns += host_ns_;
    return {};
  }

 private:
  FakeState& state_;
  const double device_ns_, host_ns_;
};

class WaysAndWaits : public SchedulerTest {
 protected:
  GraphWays ways_of(double plain_ns, double plain_host_ns, double other_ns, double other_host_ns) {
    FakeState& state = device->state();
    GraphWays ways({{"plain", "", std::make_shared<PromptGraph>(state, plain_ns, plain_host_ns)}},
                   HostClock([&state] { return state.host_ns; }));
    ways.add({"other", "", std::make_shared<PromptGraph>(state, other_ns, other_host_ns)});
    return ways;
  }
  // Which one is kept, where the host does that with each launch.
  std::string kept(GraphWays ways, const std::function<void(GraphWays&)>& waits) {
    auto queue = std::move(device->create_queue()).value();
    for (int i = 0; i < 100 && ways.chosen() == nullptr; ++i) {
      EXPECT_TRUE(ways.launch(*queue).ok());
      waits(ways);
      end();
    }
    return ways.chosen() == nullptr ? "" : ways.chosen()->name;
  }
  void end() { device->state().host_ns = device->state().end_ns(); }
};

// 16 us of the host's are saved, and the device takes 1 us longer.
TEST_F(WaysAndWaits, OnlyAWaitForTheGraphCounts) {
  const auto kept_by = [&](const std::function<void(GraphWays&)>& waits) {
    return kept(ways_of(32e3, 16e3, 33e3, 0), waits);
  };
  EXPECT_EQ(kept_by([](GraphWays&) {}), "other") << "none";
  EXPECT_EQ(kept_by([&](GraphWays& ways) {
              if (!ways.asks_for_wait()) return;  // it is not timed yet
              EXPECT_TRUE(ways.host_waits());
              end();
              ways.host_waited();
              EXPECT_FALSE(ways.asks_for_wait());
            }),
            "plain");
  EXPECT_EQ(kept_by([&](GraphWays& ways) {
              end();
              EXPECT_FALSE(ways.host_waits()) << "it has ended";
              EXPECT_FALSE(ways.asks_for_wait());
            }),
            "other");
  EXPECT_EQ(kept_by([](GraphWays& ways) {
              ways.host_waits();
              ways.host_waited();
            }),
            "other")
      << "it goes on";
}

// The device is no faster by it, as the host's calls are seen to go by meanwhile: while one turn follows the other.
TEST_F(WaysAndWaits, ALaunchThatTakesTheHostMostOfTheDevicesTime_CountsMore) {
  const auto waits = [&](GraphWays& ways) {
    if (!ways.asks_for_wait()) return;
    EXPECT_TRUE(ways.host_waits());
    end();
    ways.host_waited();
  };
  EXPECT_EQ(kept(ways_of(18e3, 12e3, 18.4e3, 3e3), waits), "other") << "1.5 us are counted for 12 of the host's";
  EXPECT_EQ(kept(ways_of(18e3, 12e3, 19.6e3, 3e3), waits), "plain");
  EXPECT_EQ(kept(ways_of(18e3, 8e3, 18.4e3, 3e3), waits), "plain") << "which is less than half";
  EXPECT_EQ(kept(ways_of(18.4e3, 3e3, 17.9e3, 12e3), waits), "plain") << "the other way round";
}

TEST_F(WaysAndWaits, WhatIsNotTimed_AsksForNone) {
  GraphWays ways = ways_of(32e3, 16e3, 33e3, 0);
  auto queue = std::move(device->create_queue()).value();
  while (ways.chosen() == nullptr) {
    ASSERT_TRUE(ways.launch(*queue).ok());
    end();
  }
  ASSERT_TRUE(ways.launch(*queue).ok());
  EXPECT_FALSE(ways.asks_for_wait());
}

// What the host was seen to wait more for the one that costs it less is something else.
TEST_F(WaysAndWaits, WhatTheHostWaitsMore_CountsNoMoreThanWhatTheLaunchCosts) {
  int turn = 0;
  const auto waits = [&](GraphWays& ways) {
    if (!ways.asks_for_wait()) return;
    EXPECT_TRUE(ways.host_waits());
    end();
    device->state().host_ns += ways.launched().name == "other" ? 9e3 : ++turn;
    ways.host_waited();
  };
  EXPECT_EQ(kept(ways_of(60e3, 3e3, 55e3, 1e3), waits), "other") << "5 us by events, 2 of the host's";
  EXPECT_EQ(kept(ways_of(60e3, 3e3, 58.5e3, 1e3), waits), "plain");
}

// The device had something else to do before, for as long as it happened to take.
TEST_F(WaysAndWaits, WaitsThatAreMuchLongerThanTheGraph_DoNotCount) {
  const auto waits = [&](GraphWays& ways) {
    if (!ways.asks_for_wait()) return;
    EXPECT_TRUE(ways.host_waits());
    end();
    device->state().host_ns += ways.launched().name == "other" ? 11e3 : 0;
    ways.host_waited();
  };
  EXPECT_EQ(kept(ways_of(32e3, 16e3, 33e3, 0), waits), "other") << "by an eighth of the host's 16 us";
}

// A graph of chains side by side may take one of two times, as the device begins with one or the other.
TEST_F(GraphWaysTest, OneThatTakesOneOfTwoTimes_CountsAsItsMean) {
  class OneOfTwo final : public device::ExecutableGraph {
   public:
    OneOfTwo(double usual_ns, double seldom_ns) : usual_ns_(usual_ns), seldom_ns_(seldom_ns) {}
    Status update_parameters(device::NodeId, std::span<const std::byte>) override { return {}; }
    Status launch(device::Queue& queue) override {
      static_cast<FakeQueue&>(queue).run(++launches_ % 3 == 0 ? seldom_ns_ : usual_ns_);
      return {};
    }

   private:
    const double usual_ns_, seldom_ns_;
    int launches_ = 0;
  };
  const auto chosen = [&](double usual_ns, double seldom_ns) {
    GraphWays ways({{"plain", "", std::make_shared<OneOfTwo>(10e3, 10e3)}});
    ways.add({"other", "", std::make_shared<OneOfTwo>(usual_ns, seldom_ns)});
    std::string name = chosen_of(ways, *device, 60);
    EXPECT_NE(ways.chosen(), nullptr);
    const double mean_ns = (2 * usual_ns + seldom_ns) / 3;
    EXPECT_NEAR(ways.all()[1].best_ns, mean_ns, 1000) << "without the longest";
    return name;
  };
  EXPECT_EQ(chosen(11e3, 9e3), "plain") << "seldom faster";
  EXPECT_EQ(chosen(11e3, 3e3), "other") << "so much faster then that it is in all";
  EXPECT_EQ(chosen(8e3, 10e3), "other") << "seldom slower";
  EXPECT_EQ(chosen(9e3, 16e3), "plain") << "so much slower then that it is in all";
}

// While ways were tried another program had the device, or its clock was still rising: later all are tried again.
TEST_F(GraphWaysTest, WhatWasFoundInADisturbedMoment_IsPutRight) {
  // Takes the device as long as the test says by then.
  class AsSaid final : public device::ExecutableGraph {
   public:
    AsSaid(const double& ns, int& launches) : ns_(ns), launches_(launches) {}
    Status update_parameters(device::NodeId, std::span<const std::byte>) override { return {}; }
    Status launch(device::Queue& queue) override {
      ++launches_;
      static_cast<FakeQueue&>(queue).run(ns_);
      return {};
    }

   private:
    const double& ns_;
    int& launches_;
  };
  auto queue = std::move(device->create_queue()).value();
  double plain_ns = 100e3, other_ns = 130e3, third_ns = 140e3;
  int plain = 0, other = 0, third = 0;
  GraphWays ways({{"plain", "", std::make_shared<AsSaid>(plain_ns, plain)}});
  ways.add({"other", "", std::make_shared<AsSaid>(other_ns, other)});
  ways.add({"third", "", std::make_shared<AsSaid>(third_ns, third)});
  const auto launch = [&](int times) {
    for (int i = 0; i < times; ++i) {
      ASSERT_TRUE(ways.launch(*queue).ok());
      device->state().host_ns = device->state().end_ns();
    }
  };
  const auto name = [&] { return ways.chosen() == nullptr ? std::string() : ways.chosen()->name; };
  launch(100);
  EXPECT_EQ(name(), "plain");
  other_ns = 80e3;
  launch(900);
  EXPECT_EQ(name(), "plain") << "it is not tried all the time";
  // Among launches of what stays until then: two of eight at most are of another way.
  launch(1024 - 100 - 900);
  while (ways.chosen() != nullptr) launch(1);
  int eights = 0;
  for (; ways.chosen() == nullptr && eights < 100; ++eights) {
    const int before = plain;
    launch(8);
    EXPECT_TRUE(plain - before >= 6 || ways.chosen() != nullptr) << eights;
  }
  EXPECT_THAT(eights, ::testing::AllOf(::testing::Ge(10), ::testing::Le(35)));
  EXPECT_EQ(name(), "other");
  const int plain_by_then = plain;
  plain_ns = 79.5e3;  // not by enough, than what stays now
  launch(3900);
  EXPECT_EQ(plain, plain_by_then) << "then after four times as many";
  launch(500);
  EXPECT_EQ(name(), "other");
  EXPECT_EQ(plain, plain_by_then + 36) << "half of them are not timed, and it is the fastest by then";
  // One that comes later is tried among launches of what stays, not of what stood before that.
  const int plain_before = plain;
  ways.add({"late", "", std::make_shared<AsSaid>(third_ns, third)});
  launch(30);
  EXPECT_EQ(plain, plain_before);
  EXPECT_EQ(name(), "other");
  third -= 4;
  EXPECT_LE(third, 3 + 2 * 4) << "what is hopeless has two tries each time";
}

// Six tries of each may be just the lucky ones of one that takes one of two times: what is the fastest then has more.
TEST_F(GraphWaysTest, WhatIsTheFastestByLuck_IsFoundOut) {
  class LuckyAtFirst final : public device::ExecutableGraph {
   public:
    Status update_parameters(device::NodeId, std::span<const std::byte>) override { return {}; }
    Status launch(device::Queue& queue) override {
      static_cast<FakeQueue&>(queue).run(++launches_ <= 6 || launches_ % 2 == 0 ? 80e3 : 120e3);
      return {};
    }

   private:
    int launches_ = 0;
  };
  class Always final : public device::ExecutableGraph {
   public:
    explicit Always(double ns) : ns_(ns) {}
    Status update_parameters(device::NodeId, std::span<const std::byte>) override { return {}; }
    Status launch(device::Queue& queue) override {
      static_cast<FakeQueue&>(queue).run(ns_);
      return {};
    }

   private:
    const double ns_;
  };
  std::vector<std::unique_ptr<device::Queue>> queues;
  for (int n = 0; n < 2; ++n) queues.push_back(std::move(device->create_queue()).value());
  GraphWays ways({{"plain", "", std::make_shared<Always>(100e3)}});
  ways.add({"lucky", "", std::make_shared<LuckyAtFirst>()});
  ways.add({"better", "", std::make_shared<Always>(90e3)});
  for (std::size_t n = 0; n < 400 && ways.chosen() == nullptr; ++n) {
    const device::Queue* const wanted = ways.choose();
    ASSERT_TRUE(ways.launch(*queues[wanted == queues[1].get() || (wanted == nullptr && n % 2 == 1) ? 1 : 0]).ok());
    device->state().host_ns = device->state().end_ns();
  }
  ASSERT_NE(ways.chosen(), nullptr);
  EXPECT_EQ(ways.chosen()->name, "better");
  EXPECT_GE(ways.all()[1].tries(), 18u);
}

// One try that finds the device's clock high, or the data where it is not otherwise, is no way that is faster.
TEST_F(GraphWaysTest, OneShortTry_IsNotBelieved) {
  // Takes the device so long, but at one launch.
  class LuckyOnce final : public device::ExecutableGraph {
   public:
    LuckyOnce(double ns, double lucky_ns, int at) : ns_(ns), lucky_ns_(lucky_ns), at_(at) {}
    Status update_parameters(device::NodeId, std::span<const std::byte>) override { return {}; }
    Status launch(device::Queue& queue) override {
      static_cast<FakeQueue&>(queue).run(at_-- == 0 ? lucky_ns_ : ns_);
      return {};
    }

   private:
    const double ns_, lucky_ns_;
    int at_;
  };
  auto queue = std::move(device->create_queue()).value();
  const auto chosen = [&](double plain_ns, double other_ns, int lucky_at) {
    GraphWays ways({{"plain", "", std::make_shared<LuckyOnce>(plain_ns, plain_ns, -1)}});
    ways.add({"other", "", std::make_shared<LuckyOnce>(other_ns, 0.7 * other_ns, lucky_at)});
    for (int i = 0; i < 40 && ways.chosen() == nullptr; ++i) {
      EXPECT_TRUE(ways.launch(*queue).ok());
      device->state().host_ns = device->state().end_ns();
    }
    return ways.chosen() == nullptr ? "" : ways.chosen()->name;
  };
  for (const int at : {0, 1, 5, 11}) {
    EXPECT_EQ(chosen(100e3, 103e3, at), "plain") << "at try " << at;
    EXPECT_EQ(chosen(100e3, 90e3, at), "other") << "at try " << at;
  }
  EXPECT_EQ(chosen(100e3, 103e3, -1), "plain");
}

// Many regions, none of which is launched often enough for its other ways to be made.
TEST_F(GraphWaysTest, ForgottenRegions_LetGoOfTheirGraphs) {
  lowerer = std::make_shared<Scaled>(std::vector<double>{0.5}, true);
  open("graphs=always", lowerer);
  scheduler->set_graph_patience(std::chrono::hours(1));
  for (int region = 0; region < 24; ++region)
    for (int i = 0; i < 32 * 8; ++i) {
      launch("x" + std::to_string(region));
      const auto soon = std::chrono::steady_clock::now() + std::chrono::seconds(5);
      while (i == 192 && scheduler->graph_counters().graphs <= static_cast<std::uint64_t>(region) &&
             std::chrono::steady_clock::now() < soon)
        std::this_thread::sleep_for(std::chrono::microseconds(100));  // until its graph is made
    }
  ASSERT_TRUE(scheduler->synchronize().ok());
  EXPECT_GE(scheduler->graph_counters().graphs, 24u);
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  while (device->graphs_alive() > 9 && std::chrono::steady_clock::now() < deadline)
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  EXPECT_LE(device->graphs_alive(), 9) << "of the eight regions that are known";
  EXPECT_EQ(lowerer->asked, 0);
}

}  // namespace
}  // namespace pergola::scheduler::testing
