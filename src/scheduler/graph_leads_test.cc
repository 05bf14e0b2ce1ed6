// Uploads that a turn begins with go when they come, and the rest of the turn is a graph behind them: on the device
// with a virtual clock.
#include <gmock/gmock.h>

#include <thread>

#include "src/scheduler/graph_copies_fixture.h"

namespace pergola::scheduler::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr std::size_t kLarge = 1'000'000;  // bytes: 20,000 ns on the fake device's link

class GraphLeads : public GraphCopies {
 protected:
  // No other form of the turns is tried.
  void open_leads() { open_always("turns=leads"); }
  Step last(Step::Kind kind) const { return device->state().of(kind).back(); }
  // Until what is held has gone before its time.
  void hold_too_long() {
    const std::uint64_t before = scheduler->graph_counters().overdue;
    scheduler->set_graph_patience(std::chrono::microseconds(20));
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(10);
    while (scheduler->graph_counters().overdue == before && std::chrono::steady_clock::now() < deadline)
      std::this_thread::sleep_for(std::chrono::microseconds(50));
    ASSERT_EQ(scheduler->graph_counters().overdue, before + 1);
    scheduler->set_graph_patience(std::chrono::hours(1));
  }
};

TEST_F(GraphLeads, TheFirstUpload_GoesWhenItComes_AndTheRestIsAGraphBehindIt) {
  bytes_ = {{"x", kLarge}, {"y", kLarge}};
  open_leads();
  learn_cold();
  EXPECT_EQ(of_each([&] { cold_turn(); }), (Counts{1, 1, 0})) << "and so it stays, however late the graph can begin";
  const Counts before = counts();
  double& now = device->state().host_ns;
  const double begin = now;
  host("x", Mode::kWrite);
  upload("x");
  EXPECT_EQ(copies(), before.copies + 1) << "while nothing else of the turn has come";
  EXPECT_EQ(last(Step::Kind::kCopy).start_ns, begin);
  for (const auto& next : std::vector<std::function<void()>>{
           [&] { launch("a", {"x"}, {"u"}, 1000); }, [&] { host("y", Mode::kWrite), upload("y"); },
           [&] { launch("b", {"y"}, {"v"}, 3000); }, [&] { launch("c", {"u", "v"}, {"z"}, 5000); }}) {
    now += 4000;  // that the host takes
    next();
  }
  EXPECT_EQ(counts(), (Counts{before.graphs, before.copies + 1, before.kernels}));
  download("z");
  host("z", Mode::kRead);
  EXPECT_EQ(counts(), (Counts{before.graphs + 1, before.copies + 1, before.kernels}));
  const Step graph = last(Step::Kind::kGraph);
  EXPECT_THAT(graph.durations_ns, ElementsAre(1000, 20000, 3000, 5000, 2000));
  EXPECT_EQ(graph.start_ns, begin + 20000) << "when x is there: the host's 16 us are no part of it";
  EXPECT_EQ(graph.end_ns, graph.start_ns + 20000 + 3000 + 5000 + 2000);
  EXPECT_GE(now, graph.end_ns);
}

TEST_F(GraphLeads, TheReport_SaysWhyTheyAreNoPartOfAGraph) {
  bytes_ = {{"x", kLarge}};
  open_leads();
  learn_cold();
  EXPECT_THAT(
      explain(scheduler->graphs()),
      HasSubstr("launch 0: no graph: uploads that a turn begins with go at once, while the rest of it is held"));
}

// Those behind them are nodes. Launches of the graph that use different ones cut it nowhere.
TEST_F(GraphLeads, SeveralUploads_GoUntilTheLinkHasEnoughToDo) {
  bytes_ = {{"p", 160'000}, {"q", 160'000}, {"r", 160'000}, {"s", 400'000}};
  open_leads();
  const auto turn = [&] {
    host("p", Mode::kWrite);
    for (const char* name : {"p", "q", "r", "s"}) upload(name);
    launch("a", {"p"}, {"u"}), launch("b", {"q"}, {"v"}), launch("c", {"r"}, {"w"}), launch("d", {"s"}, {"p2"});
    launch("e", {"u", "v", "w", "p2"}, {"z"});
    download("z");
    host("z", Mode::kRead);
  };
  learn_turns(turn);
  EXPECT_EQ(of_each(turn), (Counts{1, 3, 0}));
  EXPECT_THAT(last(Step::Kind::kGraph).durations_ns, ElementsAre(8000, 1000, 1000, 1000, 1000, 1000, 2000));
}

// Though others have been free for longer.
TEST_F(GraphLeads, TheyGoOnTheStreamOnWhichTheGraphStays) {
  bytes_ = {{"x", kLarge}, {"y", kLarge}};
  open_leads();
  for (const char* const name : {"d", "e", "f"}) launch(name, {name}, {std::string(name) + " too"}, 50'000);
  ASSERT_TRUE(scheduler->synchronize().ok());
  learn_cold();
  device->state().steps.clear();
  EXPECT_EQ(of_each([&] { cold_turn(); }, 6), (Counts{1, 1, 0}));
  const std::uint32_t queue = last(Step::Kind::kGraph).queue;
  for (const Step::Kind kind : {Step::Kind::kGraph, Step::Kind::kCopy})
    for (const Step& step : device->state().of(kind)) EXPECT_EQ(step.queue, queue);
}

// Where the graph has ways they are tried on each stream, with the uploads before them.
TEST_F(GraphLeads, TheyGoOnTheStreamOnWhichTheGraphIsFastest) {
  bytes_ = {{"x", kLarge}, {"y", kLarge}};
  open_patient("graphs=always,turns=leads", std::make_shared<Same>());
  device->state().graphs_take = {1.2, 1.0, 1.1};
  for (const char* const name : {"d", "e", "f"}) launch(name, {name}, {std::string(name) + " too"}, 50'000);
  ASSERT_TRUE(scheduler->synchronize().ok());
  learn_turns([&] { cold_turn(); }, 120);
  device->state().steps.clear();
  EXPECT_EQ(of_each([&] { cold_turn(); }, 6), (Counts{1, 1, 0}));
  for (const Step::Kind kind : {Step::Kind::kGraph, Step::Kind::kCopy})
    for (const Step& step : device->state().of(kind)) EXPECT_EQ(step.queue, 1u) << explain(scheduler->graphs());
}

// A stream for each would have to be found free, and waited for by events.
TEST_F(GraphLeads, UploadsThatTheGraphAloneWaitsFor_FollowEachOtherOnItsStream) {
  bytes_ = {{"p", 160'000}, {"q", 160'000}, {"r", 160'000}};
  open_leads();
  const auto turn = [&] {
    host("p", Mode::kWrite);
    for (const char* name : {"p", "q", "r"}) upload(name);
    launch("a", {"p"}, {"u"}), launch("b", {"q"}, {"v"}), launch("c", {"r", "u", "v"}, {"z"});
    download("z");
    host("z", Mode::kRead);
  };
  learn_turns(turn);
  const auto counted = [&] {
    return std::vector{device->state().of(Step::Kind::kWait).size(), device->state().questions};
  };
  const auto before = counted();
  EXPECT_EQ(of_each(turn), (Counts{1, 3, 0}));
  EXPECT_EQ(counted(), before) << "waits of streams, and questions whether work has ended";
  const auto copies = device->state().of(Step::Kind::kCopy);
  for (std::size_t i = copies.size() - 3; i < copies.size(); ++i)
    EXPECT_EQ(copies[i].queue, last(Step::Kind::kGraph).queue) << i;
}

// A launch that does not need the large one comes before it, as it would without graphs.
TEST_F(GraphLeads, WhatNeedNotWaitForALargeUpload_IsAGraphOfItsOwn) {
  bytes_ = {{"x", 5 * kLarge}};
  open_leads();
  const auto turn = [&] {
    host("x", Mode::kWrite);
    upload("x");
    launch("a", {"w"}, {"u"}), launch("b", {"u"}, {"v"});
    launch("c", {"v", "x"}, {"z"});
    download("z");
    host("z", Mode::kRead);
  };
  learn_turns(turn);
  EXPECT_EQ(of_each(turn), (Counts{2, 1, 0}));
  const auto graphs = device->state().of(Step::Kind::kGraph);
  EXPECT_LT(graphs[graphs.size() - 2].end_ns, last(Step::Kind::kCopy).end_ns);
  EXPECT_GE(graphs.back().start_ns, last(Step::Kind::kCopy).end_ns);
}

// The graph's own uploads come behind the large one on the link; what they are for waits for both in any case.
TEST_F(GraphLeads, UploadsBehindALargeOne_AreOfTheGraphOfWhatUsesIt) {
  bytes_ = {{"x", 5 * kLarge}, {"y", 5 * kLarge}};
  open_leads();
  const auto turn = [&] {
    host("x", Mode::kWrite);
    upload("x");
    host("y", Mode::kWrite);
    upload("y");
    launch("a", {"x"}, {"u"}), launch("b", {"y"}, {"v"}), launch("c", {"u", "v"}, {"z"});
    download("z");
    host("z", Mode::kRead);
  };
  learn_turns(turn);
  EXPECT_EQ(of_each(turn), (Counts{1, 1, 0}));
}

TEST_F(GraphLeads, WhereALaunchComesFirst_NothingGoesAtOnce) {
  bytes_ = {{"x", kLarge}};
  open_leads();
  const auto turn = [&] {
    launch("a", {"w"}, {"u"});
    host("x", Mode::kWrite);
    upload("x");
    launch("b", {"x", "u"}, {"z"});
    download("z");
    host("z", Mode::kRead);
  };
  learn_turns(turn);
  EXPECT_EQ(of_each(turn), (Counts{1, 0, 0}));
}

// Where the host does not step in a turn has no begin: its uploads come while the device works on the turn before. This
// one's region begins with the upload all the same, as 64 launches that bear it out are whole turns.
TEST_F(GraphLeads, WhereTheHostStepsInNowhere_NothingGoesAtOnce) {
  bytes_ = {{"x", kLarge}};
  open_leads();
  const auto turn = [&] {
    upload("x");
    launch("a", {"x"}, {"u"}), launch("b", {"u"}, {"v"}, 100000), launch("c", {"v"}, {"u"});
  };
  learn_turns(turn, 200);
  const Counts before = counts();
  for (int i = 0; i < 16; ++i) turn();
  EXPECT_EQ(copies(), before.copies);
  EXPECT_EQ(kernel_launches(), before.kernels);
}

// An upload that waits for other work with a graph is given up as ever: what goes ahead of the graph is no excuse.
TEST_F(GraphLeads, AGraphThatWaitsForOtherWork_StillGivesItsCopiesUp) {
  bytes_ = {{"x", kLarge}};
  open_leads();
  const auto turn = [&](bool has_other) {
    ASSERT_TRUE(run("apart", {"w"}, {"s"}, 100000).ok());
    upload("x");
    launch("a", {"x", "s"}, {"u"});
    if (has_other) upload("y");
    launch("b", {has_other ? "y" : "u"}, {"v"});
    launch("c", {"v"}, {"w"}), launch("d", {"w"}, {"u"});
  };
  learn_turns([&] { turn(false); }, 200);
  EXPECT_EQ(of_each([&] { turn(false); }, 16), (Counts{1, 1, 1})) << "nothing in it is free to go sooner";
  learn_turns([&] { turn(true); }, 200);
  EXPECT_EQ(of_each([&] { turn(true); }, 16).copies, 2u);
  EXPECT_THAT(explain(scheduler->graphs()), HasSubstr("its copies would wait for work"));
}

// A turn of as many pieces of work as are in a region, and found where it begins.
TEST_F(GraphLeads, ARegionThatBeginsWhereTheHostStepsIn_HasThem) {
  bytes_ = {{"x", kLarge}};
  open_leads();
  const auto turn = [&] {
    host("x", Mode::kWrite);
    upload("x");
    for (int i = 0; i < 30; ++i) launch("k" + std::to_string(i), {"x", "u"}, {"u"});
    download("u");
    host("u", Mode::kRead);
  };
  for (int i = 0; i < 3; ++i) turn();
  ASSERT_EQ(scheduler->graphs().regions.size(), 1u);
  learn_turns(turn, 4);
  EXPECT_EQ(of_each(turn), (Counts{1, 1, 0}));
}

TEST_F(GraphLeads, ALongTurn_IsGraphsBehindThem) {
  bytes_ = {{"x", kLarge}};
  open_leads();
  const auto turn = [&] {
    host("x", Mode::kWrite);
    upload("x");
    for (int i = 0; i < 140; ++i) launch("k" + std::to_string(i), {"x", "u"}, {"u"});
    download("u");
    host("u", Mode::kRead);
  };
  learn_turns(turn, 12);
  EXPECT_EQ(of_each(turn), (Counts{2, 1, 0}));
}

// Held too long, the first graph is made shorter, as one that comes right behind the host's step.
TEST_F(GraphLeads, TheGraphBehindThem_IsTheFirstOfItsTurn) {
  bytes_ = {{"x", kLarge}};
  open_leads();
  const auto launches = [&](int from) {
    for (int i = from; i < 80; ++i) launch("k" + std::to_string(i), {"x", "u"}, {"u"});
    download("u");
    host("u", Mode::kRead);
  };
  const auto turn = [&] { host("x", Mode::kWrite), upload("x"), launches(0); };
  learn_turns(turn, 12);
  ASSERT_EQ(of_each(turn), (Counts{1, 1, 0}));
  for (std::uint64_t late = 1; late <= 4; ++late) {
    host("x", Mode::kWrite);
    upload("x");
    launch("k0", {"x", "u"}, {"u"});
    hold_too_long();
    ASSERT_EQ(scheduler->graph_counters().overdue, late);
    launches(1);
  }
  learn_turns(turn, 2);
  EXPECT_EQ(of_each(turn), (Counts{2, 1, 0})) << "of 32 and 49";
  EXPECT_THAT(last(Step::Kind::kGraph).durations_ns, ::testing::SizeIs(49));
}

class GraphLeadsLate : public GraphLeads {
 protected:
  static constexpr int kMany = 12;
  void SetUp() override {
    for (int i = 0; i < kMany; ++i) bytes_["x" + std::to_string(i)] = kLarge;
    open_leads();
  }
  // More copies than launches; where it is late what is held goes before its time.
  void copies_turn(bool is_late) {
    for (int i = 0; i < kMany; ++i) {
      const std::string n = std::to_string(i);
      host("x" + n, Mode::kWrite);
      upload("x" + n);
      launch("k" + n, {"x" + n}, {"u" + n});
      download("u" + n);
      if (is_late && i == 0) hold_too_long();
    }
    for (int i = 0; i < kMany; ++i) host("u" + std::to_string(i), Mode::kRead);
  }
  // Late turns until its graph is cut otherwise; 400 where it is not.
  template <typename Turn>
  int late_turns_until_cut(Turn turn) {
    const auto replaced = [&] {
      return std::ranges::count(report().graphs, GraphReport::State::kReplaced, &GraphReport::state);
    };
    const auto before = replaced();
    int late = 0;
    for (; late < 400 && replaced() == before; ++late) turn();
    EXPECT_GT(replaced(), before) << explain(scheduler->graphs());
    return late;
  }
};

// Its halves would be in each other's way on the link: what is late now and then costs less.
TEST_F(GraphLeadsLate, ATurnOfMoreCopiesThanLaunches_IsCutWhereItIsLateInMostTurns) {
  learn_turns([&] { copies_turn(false); }, 12);
  const Counts whole{1, 1, 0};
  ASSERT_EQ(of_each([&] { copies_turn(false); }), whole);
  for (int i = 0; i < 120; ++i) copies_turn(i % 3 == 0);
  EXPECT_EQ(of_each([&] { copies_turn(false); }), whole) << "late in one turn of three";
  EXPECT_GE(late_turns_until_cut([&] { copies_turn(true); }), 16);
}

// Another graph of the turn, which goes in time, says nothing of it.
TEST_F(GraphLeadsLate, ATurnOfMoreCopiesThanLaunches_IsCutWhereItIsAlwaysLate_WhateverElseIsInTheTurn) {
  const auto turn = [&](bool is_late) {
    copies_turn(is_late);
    for (int i = 0; i < 5; ++i) launch("m" + std::to_string(i), {"v"}, {"v"});
    download("v");
    host("v", Mode::kRead);
  };
  learn_turns([&] { turn(false); }, 12);
  late_turns_until_cut([&] { turn(true); });
}

TEST_F(GraphLeads, AHostThatStepsInBetweenThem_LosesNoneAndMakesNoneTwice) {
  bytes_ = {{"x", kLarge / 5}, {"y", kLarge / 5}};
  open_leads();
  const auto turn = [&](bool waits) {
    host("x", Mode::kWrite);
    upload("x");
    if (waits) {
      ASSERT_TRUE(scheduler->synchronize().ok());
    }
    upload("y");
    launch("a", {"x"}, {"u"}), launch("b", {"y"}, {"v"}), launch("c", {"u", "v"}, {"z"});
    download("z");
    host("z", Mode::kRead);
  };
  learn_turns([&] { turn(false); });
  EXPECT_EQ(of_each([&] { turn(false); }), (Counts{1, 2, 0}));
  EXPECT_EQ(of_each([&] { turn(true); }), (Counts{1, 2, 0}));
  EXPECT_EQ(of_each([&] { turn(false); }), (Counts{1, 2, 0}));
}

TEST_F(GraphLeads, ATurnThatGoesOnOtherwise_IsInOrder) {
  bytes_ = {{"x", kLarge}};
  open_leads();
  learn_cold();
  const Counts before = counts();
  host("x", Mode::kWrite);
  upload("x");
  launch("c", {"u", "v"}, {"z"}, 5000);  // 'a' has been expected
  launch("a", {"x"}, {"u"}, 1000);
  EXPECT_EQ(counts(), (Counts{before.graphs, before.copies + 1, before.kernels + 2}));
  EXPECT_GE(last(Step::Kind::kLaunch).start_ns, last(Step::Kind::kCopy).end_ns);
  learn_cold();
  EXPECT_EQ(of_each([&] { cold_turn(); }), (Counts{1, 1, 0})) << "and is found again";
}

TEST_F(GraphLeads, ASessionThatEndsBehindThem_HasMadeThem) {
  bytes_ = {{"x", kLarge}};
  open_leads();
  learn_cold();
  const Counts before = counts();
  upload("x");
  launch("a", {"x"}, {"u"}, 1000);
  EXPECT_EQ(counts(), (Counts{before.graphs, before.copies + 1, before.kernels}));
  scheduler.reset();
  EXPECT_EQ(counts(), (Counts{before.graphs, before.copies + 1, before.kernels + 1}));
  EXPECT_GE(last(Step::Kind::kLaunch).start_ns, last(Step::Kind::kCopy).end_ns);
}

// ── While the device has enough to do ───────────────────────────────────────────────────────────────────────────────

// The host takes an event at the end of each turn, and writes an array as soon as that has gone to the device, which
// works on it for long.
class GraphLeadsWhileBusy : public GraphLeads {
 protected:
  void SetUp() override {
    bytes_ = {{"x", kLarge}};
    open("graphs=recurring,turns=leads");
    scheduler->set_graph_patience(std::chrono::hours(1));
  }
  void turn_of_many(double ns) {
    host("x", Mode::kWrite);
    upload("x");
    for (int i = 0; i < 140; ++i) launch("k" + std::to_string(i), {"x", "u"}, {"u"}, ns);
    ASSERT_TRUE(scheduler->record().ok());
  }
};

TEST_F(GraphLeadsWhileBusy, WithEnoughQueued_UploadsGoAtOnceAndTheRestIsGraphs) {
  learn_turns([&] { turn_of_many(10'000); }, 40);
  EXPECT_EQ(of_each([&] { turn_of_many(10'000); }), (Counts{3, 1, 0}));
  const double now = device->state().host_ns;
  const Counts before = counts();
  host("x", Mode::kWrite);
  upload("x");
  EXPECT_EQ(counts(), (Counts{before.graphs, before.copies + 1, before.kernels})) << "while nothing else has come";
  EXPECT_GT(last(Step::Kind::kCopy).start_ns, now + 50'000) << "so much was queued before it";
  for (int i = 0; i < 140; ++i) launch("k" + std::to_string(i), {"x", "u"}, {"u"}, 10'000);
  EXPECT_EQ(counts(), (Counts{before.graphs + 3, before.copies + 1, before.kernels}));
  EXPECT_GE(last(Step::Kind::kGraph).start_ns, last(Step::Kind::kCopy).end_ns);
  EXPECT_THAT(explain(scheduler->graphs()), HasSubstr("uploads that a turn begins with go at once"));
}

TEST_F(GraphLeadsWhileBusy, WithTooLittleQueued_AllGoWhenTheyCome) {
  const auto turn = [&] {
    turn_of_many(100);
    ASSERT_TRUE(scheduler->synchronize().ok());
  };
  learn_turns(turn, 40);
  EXPECT_EQ(of_each(turn), (Counts{0, 1, 140}));
}

// ── How many ────────────────────────────────────────────────────────────────────────────────────────────────────────

struct LeadCase {
  const char* name;
  std::vector<std::size_t> uploads;  // bytes; behind them come `rest` others
  std::size_t rest = 2, leads = 0;
  friend void PrintTo(const LeadCase& each, std::ostream* out) { *out << each.name; }
};

class HowManyLead : public GraphCopies, public ::testing::WithParamInterface<LeadCase> {};

TEST_P(HowManyLead, OfARegionThatBeginsWithThem) {
  open();
  const LeadCase& one = GetParam();
  const device::BufferPtr memory = *device->allocate(8, device::MemoryKind::kDevice);
  Region region;
  const auto add = [&](WorkKind kind, std::size_t bytes) {
    const Access access = all(fmt::format("x{}", region.launches.size()), Mode::kWrite);
    const CopyCall call{memory, memory, bytes};
    region.launches.emplace_back(Work{.kind = kind, .accesses = std::span(&access, 1), .copy = &call}, 0);
  };
  for (const std::size_t bytes : one.uploads) add(WorkKind::kCopyToDevice, bytes);
  for (std::size_t i = 0; i < one.rest; ++i) add(WorkKind::kCopyToHost, 5 * kLarge);
  region.cut_before.assign(region.launches.size(), false);
  region.most_launches = 32;
  region.cut();
  ASSERT_EQ(region.chunks.size(), 1u) << "the host steps in nowhere";
  EXPECT_EQ(region.would_lead(0), one.leads != 0);
  region.cut_before[0] = true;
  region.cut();
  EXPECT_EQ(region.chunks[0]->leads ? region.chunks[0]->end : 0, one.leads);
  EXPECT_EQ(region.chunks.size(), one.leads == 0 ? 1u : 2u);
  EXPECT_TRUE(region.chunks.back()->is_first);
  EXPECT_FALSE(region.would_lead(0));
  if (one.leads != 0) {
    EXPECT_FALSE(region.would_lead(one.leads));
  }
}

INSTANTIATE_TEST_SUITE_P(
    All, HowManyLead,
    ::testing::Values(LeadCase{"None", {}, 3, 0}, LeadCase{"OneLarge", {kLarge}, 2, 1},
                      LeadCase{"LargerThanEnough", {7 * kLarge, 7 * kLarge}, 2, 1},
                      LeadCase{"EnoughTogether", {200'000, 199'999, 1, kLarge}, 2, 3},
                      LeadCase{"MoreWhereTheLinkIsWhatTheTurnWaitsFor", std::vector<std::size_t>(9, 500'000), 2, 2},
                      LeadCase{"NoMoreWhereLessThanTwiceAsMuchIsLeft", {500'000, 500'000, 1'999'999}, 2, 1},
                      LeadCase{"AllOfThem", {190'000, 190'000}, 2, 2}, LeadCase{"NotWorthItsCall", {131'071}, 2, 0},
                      LeadCase{"WorthItsCall", {131'072}, 2, 1},
                      LeadCase{"SmallOnesBehind", {200'000, 1000, 1000}, 2, 1},
                      LeadCase{"SmallOnesBefore", {1000, 1000, kLarge}, 2, 3},
                      LeadCase{"TooMuchBeforeALargeOne", std::vector<std::size_t>(8, 1000), 2, 0},
                      LeadCase{"NoGraphWouldBeLeft", {kLarge}, 1, 0},
                      LeadCase{"OneIsLeftForAGraph", {190'000, 190'000}, 1, 1}),
    [](const auto& one) { return one.param.name; });

}  // namespace
}  // namespace pergola::scheduler::testing
