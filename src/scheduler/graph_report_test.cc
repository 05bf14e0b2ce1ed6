// What is told of launches that recur: in recordings and by graphs(), with the ways that were tried.
#include "src/scheduler/graph_report.h"

#include <gmock/gmock.h>
#include <unistd.h>

#include <filesystem>
#include <thread>

#include "src/base/file.h"
#include "src/scheduler/explain.h"
#include "src/scheduler/graph_fixture.h"
#include "src/scheduler/metrics.h"
#include "src/scheduler/trace_file.h"

namespace pergola::scheduler::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// A graph whose launches run all at once, which is faster; one that there is not; one that is nothing; a slower one.
class FakeLowerer final : public GraphLowerer {
 public:
  std::size_t count() const override { return 4; }
  std::optional<GraphWay> way(std::size_t n, const device::GraphSpec& plain, std::span<const LaunchToLower>) override {
    device::GraphSpec spec = plain;
    if (n == 0) {
      for (device::GraphNode& node : spec.nodes) node.after.clear();
      return GraphWay{"fast", "all at once", std::move(spec)};
    }
    if (n == 1) return GraphWay{"none", "", {}, "'a', line 3: indirect"};
    if (n == 2) return std::nullopt;
    for (std::size_t i = 1; i < spec.nodes.size(); ++i) spec.nodes[i].after = {static_cast<device::NodeId>(i - 1)};
    return GraphWay{"slow", "one by one", std::move(spec)};
  }
  std::string name(std::size_t n) const override { return std::array{"fast", "none", "nothing", "slow"}[n]; }
  bool keeps_plain() const override { return true; }
};

class GraphReports : public GraphTest {
 protected:
  GraphReports() { std::filesystem::create_directories(folder_); }
  ~GraphReports() override {
    scheduler.reset();
    std::filesystem::remove_all(folder_);
  }
  RecorderOptions options() {
    return {1000, [state = &device->state()] { return state->host_ns; }};
  }
  Timeline traced() const {
    const auto text = read_file(file_);
    EXPECT_TRUE(text.ok()) << text.message();
    const auto timeline = parse_trace(*text, file_);
    EXPECT_TRUE(timeline.ok()) << timeline.message();
    return timeline.ok() ? *timeline : Timeline();
  }

  const std::filesystem::path folder_ =
      std::filesystem::temp_directory_path() / fmt::format("pergola-graph-report-{}", ::getpid());
  const std::string file_ = folder_ / "trace.json", history_ = folder_ / "history.json";
};

TEST_F(GraphReports, WithATrace_GraphsAreUsedAsWithoutOne) {
  open_always();
  ASSERT_TRUE(scheduler->start_trace(file_, options()).ok());
  learn();
  turns(2 * kTurns);
  EXPECT_EQ(graph_launches(), 2u);
  ASSERT_TRUE(scheduler->end_trace().ok());
  const Timeline timeline = traced();
  std::vector<const Slice*> graphs;
  double kernels_ns = 0;
  for (const Slice& slice : timeline.slices)
    if (slice.kind == WorkKind::kGraph)
      graphs.push_back(&slice);
    else
      kernels_ns += slice.duration_ns();
  ASSERT_EQ(graphs.size(), 2u);
  EXPECT_EQ(timeline.slices.size(), kernel_launches() + 2);
  const Slice& graph = *graphs[1];
  EXPECT_EQ(graph.name, "graph of 32 launches (plain)");
  EXPECT_EQ(graph.detail.graph.region, 1u);
  EXPECT_EQ(graph.detail.graph.way, "plain");
  EXPECT_THAT(graph.detail.graph.kernels,
              ElementsAre(KernelCount{"a", 8}, KernelCount{"b", 8}, KernelCount{"c", 8}, KernelCount{"d", 8}));
  EXPECT_DOUBLE_EQ(graph.duration_ns(), kTurns * 9000.0);
  EXPECT_EQ(graph.bytes, 4 * kBytes);
  ASSERT_FALSE(graph.parents.empty());
  EXPECT_EQ(graph.parents[0].parent, graphs[0]->id);
  EXPECT_DOUBLE_EQ(overlap(timeline).computation_ns, kernels_ns + 2 * kTurns * 9000.0) << "time of kernels";
  const std::string text = explain(timeline);
  EXPECT_THAT(text, HasSubstr(" graph of 32 launches (plain) (region 1: a 8, b 8, c 8, d 8, 72.0 us)"));
  EXPECT_THAT(text, HasSubstr("region 1: 4 launches recur (a 1, b 1, c 1, d 1), found after #67; graphs stood for 64"));
  EXPECT_THAT(text, HasSubstr("launched 2 times\n    plain, the only way: an edge wherever two launches conflict\n"));
}

TEST_F(GraphReports, LaunchesHeldAndFlushed_KeepTheirShapesAndArguments) {
  open_always();
  learn();
  ASSERT_TRUE(scheduler->start_trace(file_, options()).ok());
  launch("a", {"x"}, {"y"}, 1000), launch("b", {"x"}, {"z"}, 2000);
  ASSERT_TRUE(scheduler->synchronize().ok());
  launch("c", {"y", "z"}, {"w"}, 3000);
  ASSERT_TRUE(scheduler->end_trace().ok());
  const Timeline timeline = traced();
  ASSERT_EQ(timeline.slices.size(), 3u) << "what is held when the trace ends is in it";
  for (const Slice& slice : timeline.slices) {
    EXPECT_EQ(slice.detail.arguments, "of " + slice.name);
    EXPECT_EQ(slice.detail.block.x, 32u);
    EXPECT_EQ(slice.thread, 0u);
  }
}

// The thread that looks after held launches is none of the program's.
TEST_F(GraphReports, LaunchesHeldTooLong_AreOfTheThreadThatSubmittedThem) {
  open_always();
  learn();
  ASSERT_TRUE(scheduler->start_trace(file_, options()).ok());
  scheduler->set_graph_patience(std::chrono::microseconds(20));
  launch("a", {"x"}, {"y"}, 1000);
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(10);
  while (scheduler->graph_counters().overdue == 0 && std::chrono::steady_clock::now() < deadline)
    std::this_thread::sleep_for(std::chrono::microseconds(50));
  ASSERT_TRUE(scheduler->end_trace().ok());
  const Timeline timeline = traced();
  ASSERT_EQ(timeline.slices.size(), 1u);
  EXPECT_EQ(timeline.slices[0].thread, 0u);
  EXPECT_EQ(timeline.slices[0].detail.arguments, "of a");
  ASSERT_EQ(timeline.graphs.regions.size(), 1u);
  EXPECT_EQ(timeline.graphs.regions[0].overdue, 1u);
  EXPECT_EQ(timeline.graphs.regions[0].flushed, 1u);
}

TEST_F(GraphReports, WithAHistory_EachLaunchIsByItself) {
  open_always();
  ASSERT_TRUE(scheduler->start_history(history_, options()).ok());
  turns(60);
  EXPECT_EQ(graph_launches(), 0u);
  EXPECT_THAT(explain(scheduler->graphs()), HasSubstr("a history is recorded"));
  ASSERT_TRUE(scheduler->end_history().ok());
  turns(60);
  scheduler->settle_graphs();
  turns(60);
  EXPECT_GT(graph_launches(), 0u);
}

TEST_F(GraphReports, TheFastestWayIsKept_AndTheOthersTellWhyNot) {
  open("graphs=always", std::make_shared<FakeLowerer>());
  scheduler->set_graph_patience(std::chrono::hours(1));
  ASSERT_TRUE(scheduler->start_trace(file_, options()).ok());
  learn();
  turns(kTurns);
  const GraphsReport trying = scheduler->graphs();
  ASSERT_EQ(trying.regions.at(0).graphs.size(), 1u);
  EXPECT_EQ(trying.regions[0].graphs[0].ways.at(0).state, WayReport::State::kTried);
  for (int i = 0; i < 60; ++i) {
    turns(kTurns);
    ASSERT_TRUE(scheduler->synchronize().ok());
  }
  ASSERT_TRUE(scheduler->end_trace().ok());
  const Timeline timeline = traced();
  const GraphReport& graph = timeline.graphs.regions.at(0).graphs.at(0);
  EXPECT_EQ(graph.state, GraphReport::State::kReady);
  EXPECT_GT(graph.made_after, timeline.graphs.regions[0].found_after);
  EXPECT_EQ(graph.launched, 61u);
  ASSERT_EQ(graph.ways.size(), 4u);
  EXPECT_EQ(graph.ways[0].state, WayReport::State::kPutBack);
  EXPECT_DOUBLE_EQ(graph.ways[0].best_ns, kTurns * 9000.0);
  EXPECT_EQ(graph.ways[1].state, WayReport::State::kKept);
  EXPECT_DOUBLE_EQ(graph.ways[1].best_ns, 4000.0);
  EXPECT_EQ(graph.ways[2].state, WayReport::State::kPutBack);
  EXPECT_EQ(graph.ways[3].state, WayReport::State::kRefused);
  EXPECT_EQ(graph.ways[3].why, "'a', line 3: indirect");
  EXPECT_EQ(timeline.slices.back().name, "graph of 32 launches (fast)");
  std::map<std::string, int> tried;
  for (const Slice& slice : timeline.slices)
    if (slice.kind == WorkKind::kGraph) ++tried[slice.detail.graph.way];
  EXPECT_GE(tried["plain"], 12);
  EXPECT_GE(tried["slow"], 12);
  EXPECT_GE(tried["fast"], 12);
  EXPECT_EQ(tried["plain"] + tried["slow"] + tried["fast"], 61);
}

TEST_F(GraphReports, WhatIsRefused_SaysWhy) {
  device->has_graphs = false;
  open_always();
  turns(24);
  scheduler->settle_graphs();
  const GraphsReport report = scheduler->graphs();
  ASSERT_EQ(report.regions.size(), 1u);
  ASSERT_EQ(report.regions[0].graphs.size(), 1u);
  EXPECT_EQ(report.regions[0].graphs[0].state, GraphReport::State::kRefused);
  EXPECT_THAT(explain(report), HasSubstr("launches 0 to 31: no graph: The fake device has no graphs."));
}

TEST_F(GraphReports, TooLittleQueued_IsCounted) {
  open("graphs=recurring");
  scheduler->set_graph_patience(std::chrono::hours(1));
  for (int i = 0; i < 60; ++i) {
    turn();
    ASSERT_TRUE(read("x").ok());
  }
  const GraphsReport report = scheduler->graphs();
  ASSERT_GE(report.regions.size(), 1u);
  EXPECT_GT(report.regions[0].too_little, 0u);
  EXPECT_LT(report.regions[0].most_queued_ns, 50'000);
  EXPECT_THAT(explain(report), HasSubstr("the device had too little to do"));
}

TEST_F(GraphReports, AnotherLaunch_IsNamed) {
  open_always();
  learn();
  launch("a", {"x"}, {"y"}, 1000);
  launch("other", {"v"}, {"u"});
  EXPECT_EQ(scheduler->graphs().regions.at(0).mismatched, 1u);
  EXPECT_EQ(scheduler->graphs().regions[0].mismatch, "'other' instead of 'b', launch 1");
  EXPECT_EQ(scheduler->graphs().regions[0].flushed, 1u);
  turns(17 + kTurns);
  EXPECT_EQ(scheduler->graphs().regions.at(0).met_again, 1u);
  launch("a", {"x"}, {"q"}, 1000);
  EXPECT_EQ(scheduler->graphs().regions[0].mismatch, "'a', launch 0, with other arrays");
}

TEST_F(GraphReports, Off_SaysSo) {
  open("graphs=off");
  turns(10);
  EXPECT_EQ(explain(scheduler->graphs()), "no launches become graphs: the policy is graphs=off\n");
  open("execution=sync");
  EXPECT_THAT(scheduler->graphs().off, HasSubstr("execution=sync"));
}

TEST_F(GraphReports, NothingRecurs_SaysSo) {
  open();
  for (int i = 0; i < 5; ++i) launch("k" + std::to_string(i), {"x"}, {"y"});
  ASSERT_TRUE(run("apart", {"x"}, {"y"}).ok());
  EXPECT_EQ(explain(scheduler->graphs()),
            "no launches became graphs: of 5 launches none recurred for long enough\n1 launch could not be part of a "
            "graph: cooperative, in clusters, or with early start\n");
}

}  // namespace
}  // namespace pergola::scheduler::testing
