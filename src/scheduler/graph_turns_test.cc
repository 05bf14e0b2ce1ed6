// Turns that begin with uploads, in the form that takes the least: on the device with a virtual clock, by which the
// host is as fast as each test says.
#include <gmock/gmock.h>

#include <algorithm>
#include <string>
#include <thread>

#include "src/scheduler/graph_copies_fixture.h"

namespace pergola::scheduler::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using State = WayReport::State;

constexpr std::size_t kLargeCopy = 1'000'000;  // bytes: 20,000 ns on the fake device's link
constexpr int kEnough = 200;                   // turns, to be found, and to have each form tried

class GraphTurns : public GraphCopies {
 protected:
  void SetUp() override { bytes_ = {{"x", kLargeCopy}}; }
  void works(double ns) { device->state().host_ns += ns; }
  // An upload that the link has long to do with, while the host needs long for the rest.
  void slow_host_turn() {
    host("x", Mode::kWrite);
    upload("x");
    for (int i = 0; i < 5; ++i) works(3000), launch("k" + std::to_string(i), {"x", "u"}, {"u"}, 1000);
    download("u");
    host("u", Mode::kRead);
  }
  void slow_calls(double ns = 6000) { device->state().launch_ns = ns; }
  // Launches that take the device as long as the host needs for the next.
  void long_launches_turn() {
    host("x", Mode::kWrite);
    upload("x");
    for (int i = 0; i < 5; ++i) launch("k" + std::to_string(i), {"x", "u"}, {"u"}, 30'000), works(30'000);
    download("u");
    host("u", Mode::kRead);
  }
  // A thread lets them go.
  void expect_graphs_alive(long count) {
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(10);
    while (device->graphs_alive() != count && std::chrono::steady_clock::now() < deadline)
      std::this_thread::sleep_for(std::chrono::microseconds(50));
    EXPECT_EQ(device->graphs_alive(), count);
  }
  std::vector<State> states() {
    std::vector<State> all;
    for (const WayReport& form : report().forms) all.push_back(form.state);
    return all;
  }
  bool is_decided() {
    const std::vector<State> all = states();
    return !all.empty() && std::find(all.begin(), all.end(), State::kTried) == all.end();
  }
  template <typename Turn>
  int turns_until_decided(Turn turn) {
    int turns = 0;
    for (; turns < kEnough && !is_decided(); ++turns) learn_turns(turn, 1);
    return turns;
  }
  // Until it has just begun, in the form of this number.
  template <typename Turn>
  void turn_until_tried(Turn turn, std::size_t form) {
    const auto has_blocks = [&](std::size_t n) { return report().forms.at(n).best_ns != 0; };
    for (int i = 0; i < kEnough && (scheduler->graphs().regions.empty() || report().forms.empty() ||
                                    (form != 0 && !has_blocks(form - 1)));
         ++i)
      learn_turns(turn, 1);
    learn_turns(turn, 3);
    ASSERT_FALSE(report().forms.empty());
    ASSERT_EQ(report().forms.at(form).best_ns, 0);
  }
};

TEST_F(GraphTurns, UploadsGoAtOnce_WhereTheLinkHasMostToDo) {
  open_always();
  slow_calls(2500);
  turn_until_tried([&] { slow_host_turn(); }, 0);
  const long alive = device->graphs_alive();  // the other ones are of regions before
  turn_until_tried([&] { slow_host_turn(); }, 1);
  EXPECT_EQ(device->graphs_alive(), alive + 1);
  learn_turns([&] { slow_host_turn(); }, kEnough);
  EXPECT_THAT(states(), ::testing::ElementsAre(State::kKept, State::kPutBack, State::kPutBack));
  EXPECT_EQ(of_each([&] { slow_host_turn(); }), (Counts{1, 1, 0}));
  expect_graphs_alive(alive);
}

TEST_F(GraphTurns, TheWholeIsAGraph_WhereCallsTakeMost) {
  small_uploads();
  open_always();
  slow_calls();
  turn_until_tried([&] { small_uploads_turn(); }, 0);
  const long alive = device->graphs_alive();
  learn_turns([&] { small_uploads_turn(); }, kEnough);
  EXPECT_THAT(states(), ::testing::ElementsAre(State::kPutBack, State::kKept, State::kPutBack));
  EXPECT_EQ(of_each([&] { small_uploads_turn(); }), (Counts{1, 0, 0}));
  expect_graphs_alive(alive);
}

TEST_F(GraphTurns, NothingIsAGraph_WhereLaunchesTakeAsLongAsTheHostNeedsForThem) {
  open_always();
  turn_until_tried([&] { long_launches_turn(); }, 0);
  const long alive = device->graphs_alive();
  learn_turns([&] { long_launches_turn(); }, kEnough);
  EXPECT_THAT(states(), ::testing::ElementsAre(State::kPutBack, State::kPutBack, State::kKept));
  EXPECT_EQ(of_each([&] { long_launches_turn(); }), (Counts{0, 2, 5}));
  expect_graphs_alive(alive - 1);
}

TEST_F(GraphTurns, TheReport_TellsWhatEachTookAndWhichStays) {
  small_uploads();
  open_always();
  slow_calls();
  learn_turns([&] { small_uploads_turn(); }, kEnough);
  const RegionReport told = report();
  ASSERT_EQ(told.forms.size(), 3u);
  EXPECT_EQ(told.forms[1].name, "whole");
  EXPECT_EQ(told.forms[1].tries, 12u);
  const double before = device->state().host_ns;
  small_uploads_turn();
  EXPECT_DOUBLE_EQ(told.forms[1].best_ns, device->state().host_ns - before);
  EXPECT_GT(told.forms[0].best_ns, told.forms[1].best_ns);
  const std::string text = explain(scheduler->graphs());
  EXPECT_THAT(text, HasSubstr(fmt::format("  turns as whole, {:.1f} us, kept: uploads that a turn begins with are part "
                                          "of a graph, too (8.0 us more are counted for its calls)\n",
                                          told.forms[1].best_ns * 1e-3)));
  EXPECT_THAT(text,
              HasSubstr(fmt::format("  turns as leads, {:.1f} us, put back as it takes {:.2f} times as long as "
                                    "whole: uploads that a turn begins with go at once",
                                    told.forms[0].best_ns * 1e-3, told.forms[0].best_ns / told.forms[1].best_ns)));
  EXPECT_THAT(text, HasSubstr("  turns as launches, "));
  EXPECT_THAT(text, HasSubstr("of a form of turns that was put back\n"));
  const auto read = parse_graphs(print_graphs(scheduler->graphs()), "here");
  ASSERT_TRUE(read.ok()) << read.message();
  const std::vector<WayReport>& forms = read->regions.back().forms;
  ASSERT_EQ(forms.size(), told.forms.size());
  for (std::size_t i = 0; i < forms.size(); ++i) {
    EXPECT_NEAR(forms[i].best_ns, told.forms[i].best_ns, 1e-3);
    EXPECT_EQ(forms[i].name, told.forms[i].name);
    EXPECT_EQ(forms[i].state, told.forms[i].state);
    EXPECT_EQ(forms[i].tries, told.forms[i].tries);
    EXPECT_EQ(forms[i].why, told.forms[i].why);
  }
}

TEST_F(GraphTurns, WhileTheyAreTried_TheReportSaysSo) {
  open_always();
  turn_until_tried([&] { slow_host_turn(); }, 1);
  const std::string text = explain(scheduler->graphs());
  EXPECT_THAT(text, HasSubstr("  turns as leads, "));
  EXPECT_THAT(text, HasSubstr("  turns as whole, not timed, still being tried by turns: "));
}

// ── What is not tried ───────────────────────────────────────────────────────────────────────────────────────────────

TEST_F(GraphTurns, WhereNoUploadIsLargeEnough_NothingIsTried) {
  bytes_ = {};
  open_always();
  learn_turns([&] { cold_turn(); }, kEnough);
  EXPECT_THAT(report().forms, IsEmpty());
  EXPECT_EQ(of_each([&] { cold_turn(); }), (Counts{1, 0, 0}));
}

// It would be the time that the host takes for its calls, while the device falls behind.
TEST_F(GraphTurns, WhereTheHostDoesNotWait_NothingIsTried) {
  open_always();
  const auto turn = [&] {
    static_cast<void>(scheduler->try_host_access(all("x", Mode::kRead)));  // a step of the host's
    upload("x");
    launch("a", {"x"}, {"u"}), launch("b", {"u"}, {"v"}, 100'000), launch("c", {"v"}, {"u"});
  };
  learn_turns(turn, kEnough);
  EXPECT_THAT(report().forms, IsEmpty());
  EXPECT_EQ(of_each(turn), (Counts{1, 1, 0}));
}

TEST_F(GraphTurns, ATurnThatIsFlushed_DoesNotCount) {
  open_always();
  slow_calls(1500);
  const auto turn = [&](bool wants_event = false) {
    device::EventPtr event;
    host("x", Mode::kWrite);
    upload("x");
    works(10'000);
    launch("a", {"x"}, {"u"});
    launch("b", {"u"}, {"v"}, 1000, nullptr, wants_event ? &event : nullptr);
    launch("c", {"v"}, {"z"});
    download("z");
    host("z", Mode::kRead);
  };
  turn_until_tried([&] { turn(); }, 0);
  const int undisturbed = turns_until_decided([&] { turn(); });
  const double took_ns = report().forms.at(0).best_ns;
  scheduler.reset(), arrays.clear(), memory_.clear();
  open_always();
  turn_until_tried([&] { turn(); }, 0);
  device->state().launch_ns = 0;  // such turns are shorter
  learn_turns([&] { turn(true); }, 5);
  device->state().launch_ns = 1500;
  EXPECT_EQ(turns_until_decided([&] { turn(); }), undisturbed + 1 + 1) << "they settle anew";
  EXPECT_EQ(report().forms.at(0).best_ns, took_ns);
}

TEST_F(GraphTurns, WhereGraphsAreFlushedInEveryTurn_NothingIsTried) {
  open_always();
  const auto turn = [&] {
    device::EventPtr event;
    host("x", Mode::kWrite);
    upload("x");
    launch("a", {"x"}, {"u"});
    launch("b", {"u"}, {"v"}, 1000, nullptr, &event);
    launch("c", {"v"}, {"z"});
    download("z");
    host("z", Mode::kRead);
  };
  learn_turns(turn, kEnough);
  EXPECT_THAT(report().forms, IsEmpty());
}

// ── What changes meanwhile ──────────────────────────────────────────────────────────────────────────────────────────

// The host steps in at another place from then on: with other graphs all is tried anew, whichever form was being tried.
TEST_F(GraphTurns, TurnsThatAreCutOtherwise_AreTriedAnew) {
  for (const std::size_t form : {0u, 1u, 2u}) {
    scheduler.reset(), arrays.clear(), memory_.clear();
    device->state() = FakeState();
    small_uploads();
    open_always();
    slow_calls();
    turn_until_tried([&] { small_uploads_turn(); }, form);
    const auto turn = [&] { small_uploads_turn([&] { ASSERT_TRUE(scheduler->synchronize().ok()); }); };
    learn_turns(turn, kEnough);
    EXPECT_TRUE(is_decided()) << form;
    EXPECT_EQ(scheduler->graph_counters().regions, 1u) << form;
    EXPECT_EQ(report().forms.at(0).tries, 18u) << form << ", since it was cut";
    EXPECT_EQ(report().forms.at(1).state, State::kKept) << form;
    EXPECT_EQ(of_each(turn), (Counts{2, 0, 0})) << form;
  }
}

// Something that is not in a turn, once, in the middle of a block: what has been tried is not lost.
TEST_F(GraphTurns, AnotherRegionInBetween_LeavesTheTrial) {
  small_uploads();
  open_always();
  slow_calls();
  turn_until_tried([&] { small_uploads_turn(); }, 1);
  for (int i = 0; i < 40; ++i) {
    launch("other", {"o"}, {"o"}), launch("another", {"o"}, {"o"});
    ASSERT_TRUE(scheduler->synchronize().ok());
  }
  EXPECT_EQ(scheduler->graph_counters().regions, 2u);
  learn_turns([&] { small_uploads_turn(); }, kEnough);
  const GraphsReport all = scheduler->graphs();
  EXPECT_GE(all.regions.at(0).met_again, 1u);
  ASSERT_EQ(all.regions[0].forms.size(), 3u);
  EXPECT_EQ(all.regions[0].forms[0].tries, 18u);
  EXPECT_EQ(all.regions[0].forms[1].state, State::kKept);
  EXPECT_EQ(of_each([&] { small_uploads_turn(); }), (Counts{1, 0, 0}));
}

// The form that was chosen would have to be cut where the first may not: that is taken again, and all tried.
TEST_F(GraphTurns, AChosenFormThatDoesNotFitAnyMore_IsLeft) {
  small_uploads();
  open_always();
  slow_calls();
  learn_turns([&] { small_uploads_turn(); }, kEnough);
  ASSERT_EQ(of_each([&] { small_uploads_turn(); }), (Counts{1, 0, 0}));
  const auto turn = [&] { small_uploads_turn([&] { ASSERT_TRUE(scheduler->synchronize().ok()); }); };
  learn_turns(turn, 2);
  EXPECT_THAT(report().forms, IsEmpty()) << "what is told is of the turns as they are";
  learn_turns(turn, kEnough);
  EXPECT_EQ(report().forms.at(1).state, State::kKept);
  EXPECT_EQ(of_each(turn), (Counts{2, 0, 0}));
}

// As a whole the graph is held from the first upload on, which another access of the host wants to have ended.
TEST_F(GraphTurns, AFormThatTheHostStepsInto_IsPutBack_AndCutsNothing) {
  bytes_ = {{"x", kLargeCopy}};
  open_always();
  slow_calls(1500);
  const auto turn = [&] {
    host("x", Mode::kWrite);
    upload("x");
    host("x", Mode::kWrite);  // the next turn's, already
    for (int i = 0; i < 5; ++i) launch("k" + std::to_string(i), {"x", "u"}, {"u"}, 1000);
    download("u");
    host("u", Mode::kRead);
  };
  learn_turns(turn, kEnough);
  EXPECT_EQ(report().forms.at(1).state, State::kRefused);
  EXPECT_THAT(explain(scheduler->graphs()),
              HasSubstr("  turns as not whole: the host steps in where its graph would have to be cut\n"));
  EXPECT_EQ(report().forms.at(0).state, State::kKept);
  EXPECT_EQ(of_each(turn), (Counts{1, 1, 0}));
}

// A turn begins with one upload more than before, which its second half wants and its first does not.
TEST_F(GraphTurns, AChosenFormWhoseLaunchesComeToWaitForDifferentUploads_IsLeft) {
  small_uploads();
  open_always();
  slow_calls();
  const auto turn = [&](bool with_another) {
    if (with_another) host("s", Mode::kWrite), upload("s");
    host("p", Mode::kWrite);
    for (const char* name : {"p", "q", "r"}) upload(name);
    launch("a", {"p", "q"}, {"u"}), launch("b", {"u"}, {"v"}), launch("c", {"v"}, {"u"});
    launch("d", {"r", "u", "s"}, {"z"}), launch("e", {"z"}, {"w"}), launch("f", {"w"}, {"z"});
    download("z");
    host("z", Mode::kRead);
  };
  learn_turns([&] { turn(false); }, kEnough);
  ASSERT_EQ(report().forms.at(1).state, State::kKept) << explain(scheduler->graphs());
  learn_turns([&] { turn(true); }, kEnough);
  const Counts each = of_each([&] { turn(true); });
  EXPECT_GE(each.graphs, 1u) << explain(scheduler->graphs());
  EXPECT_EQ(each.kernels, 0u);
}

// ── By the policy ───────────────────────────────────────────────────────────────────────────────────────────────────

TEST_F(GraphTurns, APolicy_TakesOneFormAlone) {
  for (const auto& [policy, each] :
       {std::pair("turns=leads", Counts{1, 1, 0}), std::pair("turns=whole", Counts{1, 0, 0}),
        std::pair("turns=launches", Counts{0, 2, 5})}) {
    scheduler.reset(), arrays.clear(), memory_.clear();
    open_always(policy);
    learn_turns([&] { slow_host_turn(); }, kEnough);
    EXPECT_EQ(of_each([&] { slow_host_turn(); }), each) << policy;
    EXPECT_THAT(report().forms, IsEmpty());
  }
  EXPECT_THAT(explain(scheduler->graphs()),
              HasSubstr("no graph: turns that begin with such uploads are launched one by one"));
}

TEST_F(GraphTurns, APolicy_IsForTurnsThatBeginWithUploadsAlone) {
  open_always("turns=launches");
  learn();
  turns(kTurns);
  EXPECT_EQ(graph_launches(), 1u);
}

// Where the host comes to step into each turn while forms are tried, one turn is kept in place of several: the graphs
// of all forms of what it was go.
TEST_F(GraphTurns, WhereOneTurnIsKept_NoGraphOfSeveralIsLeft) {
  open_always();
  slow_calls(2500);
  bool steps_in = false;
  const auto six = [&] {
    host("x", Mode::kWrite);
    for (int n = 0; n < 6; ++n) {
      if (steps_in && n != 0) host("u", Mode::kRead), host("x", Mode::kWrite);
      upload("x");
      for (int i = 0; i < 3; ++i) works(3000), launch("k" + std::to_string(i), {"x", "u"}, {"u"}, 1000);
      download("u");
      if (steps_in) scheduler->settle_graphs();
    }
    host("u", Mode::kRead);
  };
  const auto are_all_tried = [&] {
    if (scheduler->graphs().regions.empty()) return false;
    const auto& forms = report().forms;
    return forms.size() > 1 && std::ranges::all_of(forms, [](const WayReport& form) { return form.best_ns != 0; });
  };
  for (int i = 0; i < 40 && !are_all_tried(); ++i) learn_turns(six, 1);
  EXPECT_TRUE(are_all_tried());
  learn_turns(six, 2);
  EXPECT_GT(device->graphs_alive(), 0);
  steps_in = true;
  learn_turns(six, 63);
  EXPECT_EQ(device->graphs_alive(), 0) << explain(scheduler->graphs());
}

}  // namespace
}  // namespace pergola::scheduler::testing
