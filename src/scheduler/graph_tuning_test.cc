// What a session makes of what an earlier one found of the ways of its graphs, on the device with a virtual clock.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "src/base/file.h"
#include "src/scheduler/graph_key.h"
#include "src/scheduler/graph_ways_fixture.h"
#include "src/scheduler/tuning.h"

namespace pergola::scheduler::testing {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::UnorderedElementsAre;

class GraphTuning : public GraphWaysFixture {
 protected:
  GraphTuning() { std::filesystem::create_directories(folder_); }
  ~GraphTuning() override {
    scheduler.reset();
    std::filesystem::remove_all(folder_);
  }
  // A session whose ways take so much of the plain one's time, until `ends`; then what the file has of its graph.
  TunedGraph session(std::vector<double> factors, const std::function<bool()>& ends, bool settles = false) {
    scheduler.reset();
    arrays.clear();
    lowerer = std::make_shared<Scaled>(std::move(factors), true);
    open("graphs=always", lowerer);
    scheduler->set_graph_patience(std::chrono::hours(1));
    const Status status = scheduler->start_tuning(file_.string());
    EXPECT_TRUE(status.ok()) << status.message();
    const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(60);
    bool has_ended = false;
    while (!has_ended && std::chrono::steady_clock::now() < until) {
      for (int i = 0; i < 32; ++i) launch("x");
      EXPECT_TRUE(scheduler->synchronize().ok());
      if (settles) scheduler->settle_graphs();
      has_ended = ends();
    }
    EXPECT_TRUE(has_ended) << explain(scheduler->graphs());
    last_ways = ways();
    asked = lowerer->asked;
    const Status end = scheduler->end_tuning();
    EXPECT_TRUE(end.ok()) << end.message();
    return only_graph();
  }
  TunedGraph tried_all(std::vector<double> factors) {
    int turns = 0;
    return session(std::move(factors), [&] { return ++turns > 150; }, true);
  }
  std::function<bool()> keeps(std::string way) {
    return [this, way = std::move(way)] { return kept() == way; };
  }
  // In which others would be made, if they did not wait for many more launches than come.
  std::function<bool()> has_had_time() {
    return [this, since = std::chrono::steady_clock::time_point()]() mutable {
      const GraphsReport report = scheduler->graphs();
      const bool runs = !report.regions.empty() && !report.regions.back().graphs.empty() &&
                        report.regions.back().graphs.back().launched >= 2 * scheduler::GraphLowering::kWorthLaunches;
      if (runs) std::this_thread::sleep_for(std::chrono::milliseconds(1));
      const auto now = std::chrono::steady_clock::now();
      if (!runs || since.time_since_epoch().count() == 0) since = now;
      return runs && now - since > 3 * scheduler::GraphLowering::kWorthAfter;
    };
  }
  TunedGraph only_graph() {
    const auto all = Tuning::load(file_);
    EXPECT_TRUE(all.ok()) << all.message();
    if (!all.ok() || all->devices().size() != 1) return {};
    const Tuning::Graphs& graphs = all->devices().begin()->second;
    EXPECT_EQ(graphs.size(), 1u) << "each session met the same graph";
    key = graphs.begin()->first;
    return graphs.begin()->second;
  }
  // Of the graph that was cut last.
  std::vector<WayReport> ways() {
    const GraphsReport report = scheduler->graphs();
    if (report.regions.empty() || report.regions.back().graphs.empty()) return {};
    return report.regions.back().graphs.back().ways;
  }
  static constexpr std::uint64_t kUntilAgain = 1024;
  std::uint64_t launched() {
    const GraphsReport report = scheduler->graphs();
    return report.regions.back().graphs.back().launched;
  }
  std::string kept() {
    for (const WayReport& way : ways())
      if (way.state == WayReport::State::kKept) return way.name;
    return "none";
  }
  // The file's graph as if another session had found it so.
  void rewrite(TunedGraph graph) {
    std::filesystem::remove(file_);
    Tuning tuning;
    tuning.add(device->info().name, key, std::move(graph));
    ASSERT_TRUE(tuning.add_to(file_).ok());
  }
  std::vector<std::string> names() const {
    std::vector<std::string> all;
    for (const WayReport& way : last_ways) all.push_back(way.name);
    return all;
  }

  const std::filesystem::path folder_ =
      std::filesystem::temp_directory_path() / fmt::format("pergola-graph-tuning-{}", ::getpid());
  const std::filesystem::path file_ = folder_ / "tuning.json";
  std::shared_ptr<Scaled> lowerer;
  std::vector<WayReport> last_ways;
  std::string key;
  int asked = 0;
};

TEST_F(GraphTuning, WhatASessionFound_IsInTheFile) {
  const TunedGraph graph = tried_all({1.1, 0.5, 0.9});
  EXPECT_EQ(graph.kept, "way 1");
  EXPECT_TRUE(graph.is_finished);
  EXPECT_THAT(graph.graph, HasSubstr("32 launches"));
  std::vector<std::string> tried;
  for (const auto& [way, ns] : graph.ways_ns) tried.push_back(way);
  EXPECT_THAT(tried, ElementsAre("plain", "way 0", "way 1", "way 2"));
  EXPECT_EQ(graph.ways_ns.at("way 1"), 16000);
}

TEST_F(GraphTuning, TheNextSession_MakesWhatWasKept_AndNoOther) {
  (void)tried_all({1.1, 0.5, 0.9});
  const TunedGraph graph = session({1.1, 0.5, 0.9}, [&] { return kept() == "way 1" && ways().size() == 3; });
  EXPECT_EQ(asked, 1);
  ASSERT_THAT(names(), ElementsAre("plain", "way 1", "all others")) << explain(scheduler->graphs());
  EXPECT_THAT(last_ways[1].why, HasSubstr("an earlier session kept it at 16.0 us"));
  EXPECT_THAT(last_ways[2].why, HasSubstr("tried them and kept 'way 1'"));
  EXPECT_EQ(graph.kept, "way 1");
  EXPECT_TRUE(graph.is_finished);
  EXPECT_EQ(graph.ways_ns.size(), 4u) << "those that were not tried again stay known";
  EXPECT_EQ(graph.last_session, 2u);
}

TEST_F(GraphTuning, WherePlainWasKept_NoneIsMade) {
  const TunedGraph first = tried_all({1.1, 1.5});
  EXPECT_EQ(first.kept, "plain");
  const TunedGraph second = session({1.1, 1.5}, has_had_time());
  EXPECT_EQ(asked, 0);
  EXPECT_THAT(names(), ElementsAre("plain", "all others"));
  EXPECT_EQ(second.kept, "plain");
}

TEST_F(GraphTuning, WhereThereIsNoOther_ThatIsKnown) {
  const TunedGraph first = tried_all({0, 0});
  EXPECT_EQ(first.kept, "plain");
  EXPECT_TRUE(first.is_finished);
  (void)session({0, 0}, has_had_time());
  EXPECT_EQ(asked, 0);
}

TEST_F(GraphTuning, WhatDoesNotHold_IsFoundAnew) {
  (void)tried_all({1.1, 0.5, 0.9});
  const TunedGraph graph = session({0.8, 1.5, 0.9}, [&] {
    return kept() == "way 0" && lowerer->asked == 3;  // one of them twice would be more
  });
  EXPECT_THAT(names(), Not(Contains("all others")));
  EXPECT_EQ(tried_all({0.8, 1.5, 0.9}).kept, "way 0");
  EXPECT_EQ(graph.ways_ns.at("way 1"), 48000);
}

TEST_F(GraphTuning, ASessionThatHadNoTimeForAll_LeavesTheOthersToTheNext) {
  (void)tried_all({1.1, 0.5, 0.9});
  rewrite({"g", "way 1", false, 0, {{"plain", 32000}, {"way 1", 16000}}});
  const TunedGraph graph = session({1.1, 0.5, 0.4}, keeps("way 2"));
  EXPECT_EQ(asked, 3);
  EXPECT_THAT(names(), UnorderedElementsAre("plain", "way 1", "way 0", "way 2"));
  EXPECT_EQ(graph.kept, "way 2");
  rewrite({"g", "way 1", false, 0, {{"plain", 32000}, {"way 0", 35000}, {"way 1", 16000}}});
  (void)session({1.1, 0.5, 0.4}, keeps("way 2"));
  EXPECT_EQ(asked, 2) << "that 'way 0' is slower is known";
}

TEST_F(GraphTuning, WhatNobodyKnowsAnyMore_IsPassedOver) {
  (void)tried_all({0.5});
  rewrite({"g", "gone", true, 0, {{"plain", 32000}, {"gone", 16000}}});
  EXPECT_EQ(session({0.5}, keeps("way 0")).ways_ns.at("way 0"), 16000);
}

TEST_F(GraphTuning, AfterManyLaunches_AllOthersAreTriedOnceMore) {
  (void)tried_all({1.1, 0.5, 0.9});
  const TunedGraph graph = session({1.1, 0.5, 0.3}, keeps("way 2"));
  EXPECT_EQ(asked, 3);
  EXPECT_THAT(names(), Not(Contains("all others")));
  EXPECT_GT(device->state().of(Step::Kind::kGraph).size(), scheduler::GraphLowering::kTunedFor);
  EXPECT_THAT(graph.ways_ns, Contains(::testing::Pair("way 2", 0.3 * 32000)));
}

// They have no times then until they have been tried again.
TEST_F(GraphTuning, ASessionThatEndsWhileAllAreTriedAgain_KeepsWhatItKnew) {
  (void)tried_all({1.1, 0.5, 0.9});
  std::filesystem::remove(file_);
  bool had_all = false, tries_again = false;
  const TunedGraph graph = session({1.1, 0.5, 0.9}, [&] {
    const std::vector<WayReport> all = ways();
    const auto are_tried = std::ranges::count(all, WayReport::State::kTried, &WayReport::state);
    had_all = had_all || (all.size() == 4 && are_tried == 0 && kept() == "way 1" && lowerer->asked == 3);
    tries_again = had_all && are_tried != 0 && launched() > kUntilAgain;
    return tries_again;
  });
  EXPECT_TRUE(tries_again);
  EXPECT_EQ(graph.kept, "way 1");
  EXPECT_TRUE(graph.is_finished);
  EXPECT_EQ(graph.ways_ns.size(), 4u);
}

TEST_F(GraphTuning, AForcedWay_FindsNothing) {
  open("graphs=always", std::make_shared<Scaled>(std::vector<double>{0.5}, false));
  ASSERT_TRUE(scheduler->start_tuning(file_.string()).ok());
  for (int turn = 0; turn < 60; ++turn) {
    for (int i = 0; i < 32; ++i) launch("x");
    EXPECT_TRUE(scheduler->synchronize().ok());
    scheduler->settle_graphs();
  }
  EXPECT_THAT(device->state().of(Step::Kind::kGraph), Not(IsEmpty()));
  ASSERT_TRUE(scheduler->end_tuning().ok());
  EXPECT_THAT(Tuning::load(file_)->devices(), IsEmpty());
}

TEST_F(GraphTuning, TheEndOfTheSession_Writes) {
  open("graphs=always", std::make_shared<Scaled>(std::vector<double>{0.5}, true));
  scheduler->set_graph_patience(std::chrono::hours(1));
  ASSERT_TRUE(scheduler->start_tuning(file_.string()).ok());
  for (int turn = 0; turn < 60; ++turn) {
    for (int i = 0; i < 32; ++i) launch("x");
    EXPECT_TRUE(scheduler->synchronize().ok());
    scheduler->settle_graphs();
  }
  scheduler.reset();
  EXPECT_EQ(only_graph().kept, "way 0");
}

TEST_F(GraphTuning, WithoutGraphs_NothingIsFound_AndNothingIsWrong) {
  open("graphs=off");
  ASSERT_TRUE(scheduler->end_tuning().ok());
  ASSERT_TRUE(scheduler->start_tuning(file_.string()).ok());
  launch("x");
  ASSERT_TRUE(scheduler->end_tuning().ok());
  ASSERT_TRUE(write_file_atomically(file_, "no tuning").ok());
  const Status refused = scheduler->start_tuning(file_.string());
  EXPECT_EQ(refused.code(), Code::kParseError);
  EXPECT_THAT(refused.message(), HasSubstr(file_.string()));
  EXPECT_TRUE(scheduler->end_tuning().ok()) << "none is on";
  EXPECT_EQ(*read_file(file_), "no tuning");
}

// ── By what a graph is known again ──

class GraphKey : public SchedulerTest {
 protected:
  GraphKey() { open(); }
  // Two launches, the second of which reads what the first one wrote.
  struct Given {
    std::string name = "k";
    std::uint32_t grid = 4;
    std::uint64_t bytes = 100;
    bool same_array = true;
    double scalar = 1, second_scalar = 1;
  };
  Launch launch_of(const Given& given, double scalar, Resource& reads, Resource& writes) {
    const FakeKernel& kernel = kernels_.try_emplace(given.name, given.name).first->second;
    const device::LaunchConfig config{{given.grid, 1, 1}, {32, 1, 1}};
    const KernelCall call{module_, kernel, config, std::as_bytes(std::span(&scalar, 1))};
    const std::vector<Access> accesses{{&reads, {0, given.bytes}, Mode::kRead},
                                       {&writes, {0, given.bytes}, Mode::kWrite}};
    Launch launch({.accesses = accesses, .call = &call}, 0);
    launch.scalars = {{0, sizeof scalar}};
    return launch;
  }
  std::string key_of(const Given& given, bool varies = false, bool has_edge = true) {
    std::vector<std::unique_ptr<Resource>> resources;
    for (int i = 0; i < 4; ++i) resources.push_back(scheduler->create_resource(1000));
    Resource& second_reads = *resources[given.same_array ? 1 : 3];
    const std::vector<Launch> launches{launch_of(given, given.scalar, *resources[0], *resources[1]),
                                       launch_of(given, given.second_scalar, second_reads, *resources[2])};
    device::GraphSpec spec;
    spec.nodes.resize(2);
    if (has_edge) spec.nodes[1].after = {0};
    const bool which[] = {false, varies};
    const Launch* const both[] = {&launches[0], &launches[1]};
    return graph_key(spec, both, which);
  }
  device::ModulePtr module_;
  std::map<std::string, FakeKernel> kernels_;
};

TEST_F(GraphKey, IsThatOfTheSameGraph_WhateverItsArraysAreCalled) {
  EXPECT_EQ(key_of({}), key_of({}));
  EXPECT_EQ(key_of({}).size(), 32u);
}

TEST_F(GraphKey, DiffersWhereTheGraphTakesAnotherTime) {
  const std::string key = key_of({});
  EXPECT_NE(key_of({.name = "other"}), key);
  EXPECT_NE(key_of({.grid = 5}), key);
  EXPECT_NE(key_of({.bytes = 200}), key);
  EXPECT_NE(key_of({.same_array = false}), key);
  EXPECT_NE(key_of({.scalar = 2}), key);
  EXPECT_NE(key_of({.second_scalar = 2}), key);
  EXPECT_NE(key_of({}, false, false), key);
  EXPECT_NE(key_of({}, true), key);
}

TEST_F(GraphKey, ScalarsThatChange_AreNoPartOfIt) {
  EXPECT_EQ(key_of({.second_scalar = 2}, true), key_of({}, true));
  EXPECT_NE(key_of({.scalar = 2}, true), key_of({}, true)) << "of the first launch it does not change";
}

}  // namespace
}  // namespace pergola::scheduler::testing
