// Trace files: what is written is read back, and what is no trace is refused by name and place.
#include "src/scheduler/trace_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "src/scheduler/explain.h"
#include "src/scheduler/metrics.h"
#include "tests/support/sanitized.h"

namespace pergola::scheduler {
namespace {

using ::testing::HasSubstr;

Timeline sample() {
  Timeline timeline;
  timeline.device = "a \"GPU\"";
  timeline.policy = "max-streams=4";
  timeline.dropped = 3;
  timeline.without_time = 1;
  Slice copy;
  copy.id = 4;
  copy.name = "write";
  copy.kind = WorkKind::kCopyToDevice;
  copy.start_ns = 10.5, copy.end_ns = 1'000'000.25;
  copy.bytes = 4096;
  Slice kernel;
  kernel.id = 5;
  kernel.name = "k\xff\"\\";  // names are any bytes
  kernel.stream = 1;
  kernel.thread = 2;
  kernel.start_ns = 1'000'001, kernel.end_ns = 1'000'002;
  kernel.detail = {{8, 2, 1}, {32, 4, 1}, 512, "array 3, i32 7"};
  kernel.bytes = 8192;
  kernel.reason = StreamReason::kFreeByThen;
  kernel.parents = {{4, 3, Hazard::kReadAfterWrite, Order::kEvent, 6},
                    {4, 9, Hazard::kWriteAfterRead, Order::kImplied}};
  kernel.more_parents = 2;
  timeline.slices = {copy, kernel};
  HostSlice wait;
  wait.thread = 2;
  wait.start_ns = 5, wait.end_ns = 1'000'003;
  wait.array = 3;
  wait.bytes = 100;
  wait.last_id = 5;
  wait.parents = {{5, 3, Hazard::kReadAfterWrite, Order::kEvent}};
  HostSlice tasks;
  tasks.kind = HostKind::kTasks;
  tasks.thread = 2;
  tasks.start_ns = 1'000'004, tasks.end_ns = 1'000'005;
  tasks.last_id = 5;
  tasks.tasks = 70'000;
  timeline.host = {wait, tasks};
  Slice graph;
  graph.id = 6;
  graph.name = "graph of 5 launches (early)";
  graph.kind = WorkKind::kGraph;
  graph.start_ns = 1'000'002, graph.end_ns = 1'000'102;
  graph.stream = 1;
  graph.detail.graph = {2, "early", {{"a", 3}, {"b", 2}}};
  timeline.slices.push_back(graph);
  timeline.tasks_are_resident = true;
  timeline.dropped_tasks = 2;
  timeline.tasks = {{(TaskSlice::Id{3} << 48) | 5, "scale", 2, 100, 400},
                    {0, "k\xff", 2, 300, 500},  // beside the first
                    {(TaskSlice::Id{8} << 48) | 1, "scale", 7, 350, 350},
                    {(TaskSlice::Id{3} << 48) | 6, "scale", 2, 400, 450}};
  timeline.graphs.launches = 100;
  timeline.graphs.apart = 1;
  timeline.graphs.forgotten = 2;
  RegionReport region;
  region.number = 2, region.period = 5, region.kernels = {{"a", 3}, {"b", 2}}, region.found_after = 4;
  region.met_again = 1, region.varying = {"b"}, region.replaced = 5, region.flushed = 2, region.interrupted = 1;
  region.overdue = 1, region.mismatched = 1, region.mismatch = "'c' instead of 'b', launch 3";
  region.too_little = 7, region.most_queued_ns = 12'500, region.forgotten_graphs = 1;
  region.paced = 3, region.holds_pace = true, region.paced_launches_ns = 345'000, region.paced_graphs_ns = 101'500;
  using Way = WayReport::State;
  region.graphs = {{0,
                    5,
                    {2, 3},
                    GraphReport::State::kReady,
                    "",
                    5,
                    9,
                    2,
                    412'500,
                    {{"plain", "edges", 9'000, 5, Way::kPutBack},
                     {"early", "starts early", 6'000, 5, Way::kKept},
                     {"by-block", "line 7: indirect", 0, 0, Way::kRefused}}},
                   {5, 1, {}, GraphReport::State::kRefused, "too few launches in a row", 0, 0, 0, 0, {}}};
  timeline.graphs.regions = {region};
  return timeline;
}

TEST(TraceFile, WhatIsWritten_IsReadBack) {
  const auto read = parse_trace(print_trace(sample()), "t.json");
  ASSERT_TRUE(read.ok()) << read.message();
  const Timeline expected = sample();
  EXPECT_EQ(read->device, expected.device);
  EXPECT_EQ(read->policy, expected.policy);
  EXPECT_EQ(read->dropped, 3u);
  EXPECT_EQ(read->without_time, 1u);
  EXPECT_EQ(read->graphs, expected.graphs);
  ASSERT_EQ(read->slices.size(), 3u);
  EXPECT_EQ(read->slices[2].detail.graph.region, 2u);
  EXPECT_EQ(read->slices[2].detail.graph.way, "early");
  EXPECT_EQ(read->slices[2].detail.graph.kernels, expected.slices[2].detail.graph.kernels);
  EXPECT_EQ(read->slices[0].kind, WorkKind::kCopyToDevice);
  EXPECT_NEAR(read->slices[0].start_ns, 10.5, 1e-3);
  EXPECT_NEAR(read->slices[0].end_ns, 1'000'000.25, 1e-3);
  const Slice& kernel = read->slices[1];
  EXPECT_EQ(kernel.name, "k\xef\xbf\xbd\"\\") << "what is no UTF-8 is replaced";
  EXPECT_EQ(kernel.stream, 1u);
  EXPECT_EQ(kernel.thread, 2u);
  EXPECT_EQ(kernel.detail.grid, (device::Dim3{8, 2, 1}));
  EXPECT_EQ(kernel.detail.block, (device::Dim3{32, 4, 1}));
  EXPECT_EQ(kernel.detail.shared_bytes, 512u);
  EXPECT_EQ(kernel.detail.arguments, "array 3, i32 7");
  EXPECT_EQ(kernel.bytes, 8192u);
  EXPECT_EQ(kernel.reason, StreamReason::kFreeByThen);
  ASSERT_EQ(kernel.parents.size(), 2u);
  EXPECT_EQ(kernel.parents[0].argument, 6u);
  EXPECT_EQ(kernel.parents[1].argument, 0u);
  EXPECT_EQ(kernel.parents[1].resource, 9u);
  EXPECT_EQ(kernel.parents[1].hazard, Hazard::kWriteAfterRead);
  EXPECT_EQ(kernel.parents[1].order, Order::kImplied);
  EXPECT_EQ(kernel.more_parents, 2u);
  ASSERT_EQ(read->host.size(), 2u);
  EXPECT_EQ(read->host[0].kind, HostKind::kWait);
  EXPECT_EQ(read->host[0].array, 3u);
  EXPECT_EQ(read->host[0].last_id, 5u);
  EXPECT_EQ(read->host[0].parents.at(0).parent, 5u);
  EXPECT_EQ(read->host[1].kind, HostKind::kTasks);
  EXPECT_EQ(read->host[1].tasks, 70'000u);
  EXPECT_TRUE(read->tasks_are_resident);
  EXPECT_EQ(read->dropped_tasks, 2u);
  ASSERT_EQ(read->tasks.size(), 4u);
  EXPECT_EQ(read->tasks[0].id, (TaskSlice::Id{3} << 48) | 5);
  EXPECT_EQ(read->tasks[0].name, "scale");
  EXPECT_EQ(read->tasks[0].place, 2u);
  EXPECT_NEAR(read->tasks[0].start_ns, 100, 1e-3);
  EXPECT_NEAR(read->tasks[0].end_ns, 400, 1e-3);
  EXPECT_EQ(read->tasks[1].id, 0u);
  EXPECT_EQ(read->tasks[2].place, 7u);
}

TEST(TraceFile, TasksBesideEachOther_AreOnTracksOfTheirOwn) {
  const auto json = nlohmann::json::parse(print_trace(sample()));
  std::map<int, std::string> tracks;
  std::map<std::string, std::vector<double>> begins;
  for (const auto& event : json["traceEvents"]) {
    if (event["pid"] != 2) continue;
    if (event["name"] == "process_name") {
      EXPECT_EQ(event["args"]["name"], "Narrow tasks on a \"GPU\"");
    }
    if (event["name"] == "thread_name") tracks[event["tid"]] = event["args"]["name"];
  }
  for (const auto& event : json["traceEvents"])
    if (event["pid"] == 2 && event["ph"] == "X")
      begins[tracks[event["tid"]]].push_back(std::round(event["ts"].get<double>() * 1e3));
  EXPECT_EQ(begins,
            (std::map<std::string, std::vector<double>>{
                {"resident block 2", {100, 400}}, {"resident block 2 (2)", {300}}, {"resident block 7", {350}}}));
}

TEST(TraceFile, TaskWithoutAnId_IsRefused) {
  for (const char* const id : {"5", "0x", "0x0", "0x5 ", "0xg", "0x11111111111111111"}) {
    auto json = nlohmann::json::parse(print_trace(sample()));
    for (auto& event : json["traceEvents"])
      if (event.contains("cat") && event["cat"] == "task") event["args"]["task"] = id;
    const auto read = parse_trace(json.dump(), "t.json");
    EXPECT_EQ(read.code(), Code::kParseError) << id;
    EXPECT_THAT(read.message(), HasSubstr(fmt::format("has a 'task' that is no id: '{}'", id)));
  }
}

TEST(TraceFile, Explain_CountsTasksByKernel) {
  const std::string text = explain(sample());
  EXPECT_THAT(text, HasSubstr("2 older narrow tasks were dropped: there was no room for them\n"
                              "narrow tasks: 4 on 2 resident blocks in 0.4 us; while any ran, 1.4 ran at once\n"));
  EXPECT_THAT(text, HasSubstr("    3 of scale: 0.1 us in the middle, 99 of 100 within 0.1, from 0.0 to 0.3\n"));
}

TEST(TraceFile, TracksSlicesAndArrows_AsViewersWantThem) {
  const auto json = nlohmann::json::parse(print_trace(sample()));
  std::map<std::string, int> phases;
  std::set<std::string> tracks;
  for (const auto& event : json["traceEvents"]) {
    if (event["pid"] == 2) continue;  // tasks
    ++phases[event["ph"].get<std::string>()];
    if (event["name"] == "thread_name") tracks.insert(event["args"]["name"].get<std::string>());
    EXPECT_EQ(event["pid"], 1);
  }
  EXPECT_EQ(phases["X"], 5);
  EXPECT_EQ(phases["s"], 2) << "one arrow from 4 to 5, though two arrays are between them, and one to the host";
  EXPECT_EQ(phases["f"], 2);
  EXPECT_THAT(tracks, ::testing::UnorderedElementsAre("copies to the device", "stream 1", "host thread 2"));
}

TEST(TraceFile, ArrowsBeginInTheirParent) {
  int begins = 0;
  const auto json = nlohmann::json::parse(print_trace(sample()));
  for (const auto& event : json["traceEvents"])
    if (event["ph"] == "s" && event["tid"] == (1 << 24)) {
      ++begins;
      EXPECT_LT(event["ts"], 1000.00025);
      EXPECT_GT(event["ts"], 999.999);
    }
  EXPECT_EQ(begins, 1);
}

TEST(TraceFile, CopiesHaveATrackAWay_AndMoreWhereTheyOverlap) {
  Timeline timeline;
  const auto copy = [&](WorkKind kind, std::uint32_t stream, double start_ns, double end_ns) {
    Slice& slice = timeline.slices.emplace_back();
    slice.id = timeline.slices.size();
    slice.kind = kind;
    slice.stream = stream;
    slice.start_ns = start_ns, slice.end_ns = end_ns;
  };
  copy(WorkKind::kCopyToDevice, 0, 2000, 4000);
  copy(WorkKind::kCopyToDevice, 1, 1000, 3000);  // waits for the engine that has the first one, or the other way round
  copy(WorkKind::kCopyToHost, 0, 1500, 2500);
  copy(WorkKind::kCopyToDevice, 2, 3000, 5000);
  copy(WorkKind::kCopy, 2, 5000, 6000);  // within the device
  const auto json = nlohmann::json::parse(print_trace(timeline));
  std::map<int, std::string> names;
  for (const auto& event : json["traceEvents"])
    if (event["name"] == "thread_name") names[event["tid"]] = event["args"]["name"];
  std::vector<std::string> tracks;
  for (const auto& event : json["traceEvents"])
    if (event["ph"] == "X") tracks.push_back(names.at(event["tid"]));
  EXPECT_THAT(tracks, ::testing::ElementsAre("copies to the device (2)", "copies to the device", "copies to the host",
                                             "copies to the device", "stream 2"));
}

TEST(TraceFile, EventsOfOthers_ArePassedOver) {
  auto json = nlohmann::json::parse(print_trace(sample()));
  json["traceEvents"].push_back({{"ph", "X"}, {"cat", "something else"}, {"ts", "?"}});
  json["traceEvents"].push_back({{"ph", "C"}});
  const auto read = parse_trace(json.dump(), "t.json");
  ASSERT_TRUE(read.ok()) << read.message();
  EXPECT_EQ(read->slices.size(), 3u);
}

TEST(TraceFile, WithoutGraphs_AsOlderOnesAre_IsRead) {
  auto json = nlohmann::json::parse(print_trace(sample()));
  json["otherData"].erase("graphs");
  const auto read = parse_trace(json.dump(), "t.json");
  ASSERT_TRUE(read.ok()) << read.message();
  EXPECT_EQ(read->graphs, GraphsReport());
}

TEST(TraceFile, GraphsOfOlderOnes_WereMadeInNoKnownTime) {
  auto json = nlohmann::json::parse(print_trace(sample()));
  json["otherData"]["graphs"]["regions"][0]["graphs"][0].erase("making_us");
  json["otherData"]["graphs"]["regions"][0]["graphs"][0].erase("ahead");
  const auto read = parse_trace(json.dump(), "t.json");
  ASSERT_TRUE(read.ok()) << read.message();
  EXPECT_EQ(read->graphs.regions.at(0).graphs.at(0).making_ns, 0);
  EXPECT_EQ(read->graphs.regions.at(0).graphs.at(0).launched, 9u);
}

TEST(TraceFile, Graphs_AreExplained) {
  const std::string text = explain(sample());
  for (const char* line :
       {"#6 graph of 5 launches (early) (region 2: a 3, b 2, 0.1 us)\n",
        "region 2: 5 launches recur (a 3, b 2), found after #4; graphs stood for 5 of them\n",
        "  left and met again 1 time\n", "  scalars change from turn to turn, and are in memory, of b\n",
        "launches were not held back 7 times: the device had too little to do (12.5 us queued at most",
        "  2 launches held back and then launched one by one, 1 time because something else came and 1 time as",
        "than was expected 1 time, the last time: 'c' instead of 'b', launch 3\n",
        "  launches 0 to 4 but 2, 3, which go when they come: a graph since #5, made in 412.5 us, launched 9 times (2 "
        "times since its way was "
        "chosen, not on the stream on which that is the fastest)\n",
        "    plain, 9.0 us, put back as it takes 1.50 times as long as early: edges\n",
        "    early, 6.0 us, kept: starts early\n", "    not by-block: line 7: indirect\n",
        "  launch 5: no graph: too few launches in a row\n"})
    EXPECT_THAT(text, HasSubstr(line));
}

// One thing is changed in a good file.
TEST(TraceFile, WhatIsWrong_IsNamed) {
  using Json = nlohmann::json;
  const Json good = Json::parse(print_trace(sample()));
  std::size_t kernel = 0, wait = 0, graph = 0;
  for (std::size_t i = 0; i < good["traceEvents"].size(); ++i) {
    if (good["traceEvents"][i].value("cat", "") == "kernel") kernel = i;
    if (good["traceEvents"][i].value("cat", "") == "host wait") wait = i;
    if (good["traceEvents"][i].value("cat", "") == "graph") graph = i;
  }
  const auto at = [](std::size_t index, const char* path) {
    return Json::json_pointer("/traceEvents/" + std::to_string(index) + path);
  };
  struct Case {
    Json::json_pointer where;
    Json value;
    const char* message;
  };
  const Case cases[] = {
      {Json::json_pointer("/otherData"), 1, "no trace of Pergola"},
      {Json::json_pointer("/otherData/pergola_trace"), 2, "version 2"},
      {Json::json_pointer("/otherData/dropped"), -1, "'dropped'"},
      {Json::json_pointer("/traceEvents"), 5, "no list"},
      {at(kernel, ""), 7, "no object"},
      {at(kernel, "/ph"), 7, "'ph'"},
      {at(kernel, "/ts"), "soon", "'ts'"},
      {at(kernel, "/ts"), 1e300, "'ts'"},
      {at(kernel, "/dur"), -1, "negative"},
      {at(kernel, "/args"), nullptr, "no object"},
      {at(kernel, "/args/id"), 0, "'id' 0"},
      {at(kernel, "/args/id"), 4, "before its child"},
      {at(kernel, "/args/stream"), 1u << 30, "'stream'"},
      {at(kernel, "/args/reason"), "whim", "'whim'"},
      {at(kernel, "/args/grid"), Json::array({1, 2}), "'grid'"},
      {at(kernel, "/args/grid"), Json::array({1, 2, 1ull << 40}), "'grid'"},
      {at(kernel, "/args/parents"), "none", "'parents'"},
      {at(kernel, "/args/parents/0/argument"), 4096, "'argument'"},
      {at(graph, "/args/kernels"), Json::array(), "'kernels'"},
      {at(graph, "/args/kernels/1/count"), -1, "'count'"},
      {at(graph, "/args/way"), 4, "'way'"},
      {Json::json_pointer("/otherData/graphs/regions"), 5, "'regions'"},
      {Json::json_pointer("/otherData/graphs/regions/0/varying"), Json::array({3}), "'varying'"},
      {Json::json_pointer("/otherData/graphs/regions/0/graphs/0/state"), "lost", "'lost'"},
      {Json::json_pointer("/otherData/graphs/regions/0/graphs/0/ahead"), 3, "'ahead'"},
      {Json::json_pointer("/otherData/graphs/regions/0/graphs/0/ahead"), Json::array({-1}), "'ahead'"},
      {Json::json_pointer("/otherData/graphs/regions/0/graphs/0/ways/1/best_us"), "x", "way 1"},
      {at(kernel, "/args/parents/0/id"), 5, "before its child"},
      {at(kernel, "/args/parents/0/hazard"), "BAR", "'BAR'"},
      {at(wait, "/args/array"), 1.5, "'array'"},
      {at(wait, "/args/parents/0/id"), 6, "before its child"},
  };
  for (const Case& each : cases) {
    Json bad = good;
    bad[each.where] = each.value;
    const auto read = parse_trace(bad.dump(), "t.json");
    ASSERT_FALSE(read.ok()) << each.where.to_string();
    EXPECT_EQ(read.code(), Code::kParseError);
    EXPECT_THAT(read.message(), HasSubstr(each.message)) << each.where.to_string();
    EXPECT_THAT(read.message(), HasSubstr("'t.json'"));
  }
  for (const char* text : {"", "{", "[]", "3", "null", "\"x\"", "{\"traceEvents\":[]}"})
    EXPECT_FALSE(parse_trace(text, "t.json").ok()) << text;
  const std::string whole = print_trace(sample());
  EXPECT_THAT(parse_trace(whole.substr(0, whole.size() / 2), "t.json").message(),
              HasSubstr("'t.json' is no JSON: it ends too early."));
  EXPECT_THAT(parse_trace("{\n\"a\": 1e999}", "t.json").message(),
              HasSubstr("'t.json' has a number beyond those of double precision"));
}

TEST(TraceFile, TwoOfOneId_AreRefused) {
  Timeline timeline = sample();
  timeline.slices.push_back(timeline.slices[0]);
  const auto read = parse_trace(print_trace(timeline), "t.json");
  ASSERT_FALSE(read.ok());
  EXPECT_THAT(read.message(), HasSubstr("two computations"));
}

// Bytes of a good file, each in turn, become something else: no crash, and what is accepted can be used.
TEST(TraceFile, DamagedBytes_NeverCrash) {
  const std::string good = print_trace(sample());
  std::size_t accepted = 0;
  for (std::size_t i = 0; i < good.size(); i += test_support::kSanitized ? 5 : 1)
    for (const char byte : {'\0', '9', '"'}) {
      std::string bad = good;
      bad[i] = byte;
      const auto read = parse_trace(bad, "t.json");
      if (!read.ok()) continue;
      ++accepted;
      EXPECT_GE(overlap(*read).span_ns, 0);
      EXPECT_FALSE(explain(*read).empty());
      EXPECT_TRUE(parse_trace(print_trace(*read), "again.json").ok());
    }
  EXPECT_GT(accepted, 0u);
}

}  // namespace
}  // namespace pergola::scheduler
