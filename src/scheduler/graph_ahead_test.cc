// Uploads in the middle of a piece that go when they come, as those that lead it do: on the device with a virtual
// clock.
#include <gmock/gmock.h>

#include <array>

#include "src/scheduler/graph_copies_fixture.h"

namespace pergola::scheduler::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

class GraphAhead : public GraphCopies {
 protected:
  static constexpr std::array kInputs{"p", "q", "r", "s", "s1", "s2", "s3", "s4", "s5", "s6"};
  // 0.3 MB each, 6 us on the device's link: three of them are enough for it until a graph may begin.
  void open_ahead(const char* policy = "turns=leads") {
    for (const char* const name : kInputs) bytes_[name] = 300'000;
    open_always(policy);
  }
  void problem(const std::string& name) {
    host(name, Mode::kWrite);
    upload(name);
    launch("k" + name, {name}, {name + " out"});
    download(name + " out");
  }
  void problem_by_problem() {
    for (const char* const name : kInputs) problem(name);
    for (const char* const name : kInputs) host(std::string(name) + " out", Mode::kRead);
  }
  Step last(Step::Kind kind) const { return device->state().of(kind).back(); }
};

TEST_F(GraphAhead, UploadsThatComeAfterNothingOfTheirPiece_GoWhenTheyCome_UntilTheLinkHasEnoughToDo) {
  open_ahead();
  learn_turns([&] { problem_by_problem(); });
  EXPECT_EQ(of_each([&] { problem_by_problem(); }), (Counts{1, 3, 0}));
  EXPECT_THAT(last(Step::Kind::kGraph).durations_ns,
              ElementsAre(1000, 2000, 1000, 2000, 1000, 2000, 6000, 1000, 2000, 6000, 1000, 2000, 6000, 1000, 2000,
                          6000, 1000, 2000, 6000, 1000, 2000, 6000, 1000, 2000, 6000, 1000, 2000));
  const auto copies = device->state().of(Step::Kind::kCopy);
  for (std::size_t i = copies.size() - 3; i < copies.size(); ++i) {
    EXPECT_EQ(copies[i].queue, last(Step::Kind::kGraph).queue) << i;
    EXPECT_LE(copies[i].end_ns, last(Step::Kind::kGraph).start_ns) << i;
  }
  EXPECT_THAT(explain(scheduler->graphs()),
              HasSubstr("launches 1 to 29 but 3, 6, which go when they come: a graph since"));
}

TEST_F(GraphAhead, TheFirstOfThem_IsQueuedBeforeTheRestOfTheTurnHasCome) {
  open_ahead();
  learn_turns([&] { problem_by_problem(); });
  const Counts before = counts();
  problem("p");
  EXPECT_EQ(copies(), before.copies + 1);
  host("q", Mode::kWrite);
  upload("q");
  EXPECT_EQ(copies(), before.copies + 2);
  EXPECT_EQ(counts(), (Counts{before.graphs, before.copies + 2, before.kernels})) << "what came before it is held";
}

// Nothing is launched twice, nothing is lost, and all is in order.
TEST_F(GraphAhead, ATurnThatIsInterrupted_GoesOnLaunchByLaunch) {
  open_ahead();
  learn_turns([&] { problem_by_problem(); });
  const Counts before = counts();
  problem("p");
  problem("q");
  ASSERT_TRUE(scheduler->synchronize().ok());
  EXPECT_EQ(counts(), (Counts{before.graphs, before.copies + 4, before.kernels + 2}));
  const auto launches = device->state().of(Step::Kind::kLaunch);
  EXPECT_GE(launches.back().start_ns, device->state().of(Step::Kind::kCopy).at(before.copies + 1).end_ns)
      << "the second problem's launch comes behind its upload, which went ahead";
  for (const char* const name : std::span(kInputs).subspan(2)) problem(name);
  ASSERT_TRUE(scheduler->synchronize().ok());
  EXPECT_EQ(counts(), (Counts{before.graphs, before.copies + 20, before.kernels + 10}));
}

// What goes ahead has a ticket of its own: it counts for nothing among those of what is held.
TEST_F(GraphAhead, TicketsOfWhatIsHeld_StandForItsLaunches) {
  open_ahead();
  learn_turns([&] { problem_by_problem(); });
  for (const bool is_whole : {true, false, true}) {
    std::map<std::string, Ticket> tickets;
    for (const std::string name : kInputs) {
      host(name, Mode::kWrite);
      upload(name);
      launch("k" + name, {name}, {name + " out"}, 1000, &tickets[name]);
      download(name + " out");
      if (!is_whole && name == "q") {
        ASSERT_TRUE(scheduler->synchronize().ok());
      }
    }
    for (const auto& [name, ticket] : tickets) {
      const Result<device::EventPtr> event = scheduler->event_of(ticket);
      ASSERT_TRUE(event.ok()) << name << ": " << event.message();
      ASSERT_TRUE((*event)->wait().ok());
      const Step::Kind kind = is_whole ? Step::Kind::kGraph : Step::Kind::kLaunch;
      if (name == kInputs.back()) {
        EXPECT_GE(device->state().host_ns, last(kind).end_ns);
      }
    }
    for (const char* const name : kInputs) host(std::string(name) + " out", Mode::kRead);
  }
}

TEST_F(GraphAhead, WhatAnotherLaunchOfThePieceUses_StaysBehindIt) {
  open_ahead();
  const auto turn = [&] {
    host("p", Mode::kWrite);
    upload("p");
    launch("a", {"p", "q"}, {"u"});  // it uses what came in the turn before
    for (const char* const name : std::span(kInputs).subspan(1)) problem(name);
    for (const char* const name : std::span(kInputs).subspan(1)) host(std::string(name) + " out", Mode::kRead);
  };
  learn_turns(turn);
  EXPECT_EQ(of_each(turn), (Counts{1, 3, 0}));
  EXPECT_EQ(last(Step::Kind::kGraph).durations_ns.at(1), 6000) << "q's upload is in the graph, behind 'a'";
  EXPECT_THAT(explain(scheduler->graphs()), HasSubstr("launches 1 to 28 but 5, 8, which go when they come"));
}

// Their calls would take the host longer than the link needs.
TEST_F(GraphAhead, SmallOnes_StayInTheGraph) {
  open_ahead();
  for (const char* const name : std::span(kInputs).subspan(1)) bytes_[name] = 100'000;
  learn_turns([&] { problem_by_problem(); });
  EXPECT_EQ(of_each([&] { problem_by_problem(); }), (Counts{1, 1, 0}));
}

// The launches of the graph would begin later for it.
TEST_F(GraphAhead, WhereTheLinkIsNotWhatTheTurnWaitsFor_TheyStayInTheGraph) {
  open_ahead();
  const auto turn = [&] {
    for (const char* const name : {"p", "q", "r", "s"}) problem(name);
    for (const char* const name : {"p", "q", "r", "s"}) host(std::string(name) + " out", Mode::kRead);
  };
  learn_turns(turn);
  EXPECT_EQ(of_each(turn), (Counts{1, 1, 0}));
}

TEST_F(GraphAhead, WhereTheTurnIsOneGraph_NoneGoes) {
  open_ahead("turns=whole");
  learn_turns([&] { problem_by_problem(); });
  EXPECT_EQ(of_each([&] { problem_by_problem(); }), (Counts{1, 0, 0}));
}

// ── The graph behind them ──

// Nobody asks what it comes after before it is launched; it is told all the same.
TEST_F(GraphAhead, ItsDependencies_AreInThePicture) {
  open_ahead();
  learn_turns([&] { problem_by_problem(); });
  problem_by_problem();
  std::size_t graphs = 0;
  const DagPicture picture = scheduler->picture();
  for (const DagVertex& vertex : picture.vertices) {
    if (vertex.kind != WorkKind::kGraph) continue;
    ++graphs;
    std::size_t behind_uploads = 0;
    for (std::uint32_t i = 0; i < vertex.edge_count; ++i)
      behind_uploads +=
          vertex.edges[i].order == Order::kSameStream && vertex.edges[i].hazard == Hazard::kReadAfterWrite;
    EXPECT_EQ(behind_uploads, 3u) << "graph #" << vertex.id;
  }
  EXPECT_GT(graphs, 0u);
}

// Where something else is under way that the graph uses, it waits for that.
TEST_F(GraphAhead, BesideOtherWork_ItWaitsForIt) {
  open_ahead();
  learn_turns([&] { problem_by_problem(); });
  const std::string output = std::string(kInputs.back()) + " out";
  const Access access = all(output, Mode::kReadWrite);  // of no launch: what recurs goes on
  ASSERT_TRUE(submit("long", {.kind = WorkKind::kFill, .accesses = std::span(&access, 1)}, 1e6).ok());
  const double end = device->state().end_ns();
  const Counts before = counts();
  problem_by_problem();
  EXPECT_EQ(counts().graphs, before.graphs + 1);
  EXPECT_GE(last(Step::Kind::kGraph).start_ns, end);
}

}  // namespace
}  // namespace pergola::scheduler::testing
