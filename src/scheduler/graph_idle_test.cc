// graphs=measured, the default: turns that the host waits for become graphs on a device that has nothing queued, where
// they take less than launched one by one. On the device with a virtual clock, by which the host is as fast as each
// test says.
#include <gmock/gmock.h>

#include <algorithm>
#include <functional>

#include <chrono>
#include <thread>

#include "src/scheduler/graph_copies_fixture.h"
#include "src/scheduler/graph_ways_fixture.h"

namespace pergola::scheduler::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using State = WayReport::State;

constexpr int kEnough = 200;  // turns, to be found, and to have both forms tried

class GraphIdle : public GraphCopies {
 protected:
  void open_default(const std::string& policy = "", double launch_ns = 6000) {
    open_patient(policy);
    device->state().launch_ns = launch_ns;
  }
  using Behind = std::function<void(int launch)>;
  void launches(double ns = 1000, const Behind& behind = {}) {
    for (int i = 0; i < 5; ++i) {
      launch("k" + std::to_string(i), {"x", "u"}, {"u"}, ns);
      if (behind) behind(i);
    }
  }
  // Of whose results the host wants to know before it goes on.
  void waiting_turn(double ns = 1000, const Behind& behind = {}) {
    launches(ns, behind);
    ASSERT_TRUE(read("u").ok());
  }
  // Each launch takes the device as long as the host needs for the next; it steps in behind that one.
  void long_launches_turn(int steps_behind = -1) {
    waiting_turn(30'000, [&](int i) {
      device->state().host_ns += 30'000;
      if (i == steps_behind) step();
    });
  }
  void step() { ASSERT_TRUE(scheduler->synchronize().ok()); }
  std::vector<std::pair<std::string, State>> forms() {
    std::vector<std::pair<std::string, State>> all;
    for (const WayReport& form : report().forms) all.emplace_back(form.name, form.state);
    return all;
  }
};

TEST_F(GraphIdle, WhereCallsTakeMost_TurnsBecomeGraphs) {
  open_default();
  learn_turns([&] { waiting_turn(); }, kEnough);
  EXPECT_THAT(forms(), ElementsAre(std::pair("graphs", State::kKept), std::pair("launches", State::kPutBack)));
  EXPECT_EQ(of_each([&] { waiting_turn(); }), (Counts{1, 0, 0}));
  const std::string text = explain(scheduler->graphs());
  EXPECT_THAT(text, HasSubstr("kept: launches are held back whatever the device has queued, and are graphs\n"));
  EXPECT_THAT(text, HasSubstr("  turns as launches, "));
}

// A graph would only begin later.
TEST_F(GraphIdle, WhereTheDeviceKeepsUp_TurnsAreLaunches) {
  open_default();
  const auto turn = [&] { long_launches_turn(); };
  learn_turns(turn, kEnough);
  EXPECT_THAT(forms(), ElementsAre(std::pair("graphs", State::kPutBack), std::pair("launches", State::kKept)));
  EXPECT_EQ(of_each(turn), (Counts{0, 0, 5}));
  EXPECT_THAT(explain(scheduler->graphs()),
              HasSubstr("kept: launches are held back only while the device has enough to do\n"));
  // As with `recurring`: behind a wait nothing is queued, later there is.
  for (int i = 0; i < 20; ++i) launches(30'000);
  scheduler->settle_graphs();
  EXPECT_EQ(of_each([&] { launches(30'000); }), (Counts{1, 0, 0})) << explain(scheduler->graphs());
}

// Wherever in the trial it comes, also while turns are launched one by one, to which it makes no difference.
TEST_F(GraphIdle, OneStepOfTheHostInATurn_DecidesNothing) {
  for (int at = 20; at < 70; at += 3) {
    scheduler.reset(), arrays.clear(), memory_.clear();
    device->state() = FakeState();
    open_default();
    for (int i = 0; i < kEnough; ++i) learn_turns([&] { long_launches_turn(i == at ? 1 : -1); }, 1);
    EXPECT_EQ(of_each([&] { long_launches_turn(); }), (Counts{0, 0, 5})) << at;
  }
}

// Graphs were chosen, and then each turn is flushed in its middle.
TEST_F(GraphIdle, WhatIsFlushedInEachTurn_IsHeldNoLonger) {
  open_default();
  learn_turns([&] { waiting_turn(); }, kEnough);
  ASSERT_EQ(of_each([&] { waiting_turn(); }), (Counts{1, 0, 0}));
  const auto turn = [&] {
    for (int i = 0; i < 5; ++i) {
      device::EventPtr event;
      launch("k" + std::to_string(i), {"x", "u"}, {"u"}, 1000, nullptr, i == 2 ? &event : nullptr);
    }
    ASSERT_TRUE(read("u").ok());
  };
  learn_turns(turn, 5 * kEnough);
  const std::uint64_t flushed = scheduler->graph_counters().flushed;
  EXPECT_EQ(of_each(turn), (Counts{0, 0, 5}));
  EXPECT_EQ(scheduler->graph_counters().flushed, flushed);
}

// The same just while the ways of its graph are tried again, so that no turn is as its form says.
TEST_F(GraphIdle, WhatIsFlushedWhileWaysAreTried_IsHeldNoLonger) {
  open_patient("", std::make_shared<Same>());
  device->state().launch_ns = 6000;
  const auto turn = [&](bool wants_event) {
    for (int i = 0; i < 5; ++i) {
      device::EventPtr event;
      launch("k" + std::to_string(i), {"x", "u"}, {"u"}, 1000, nullptr, wants_event && i == 3 ? &event : nullptr);
      if (i == 1) step();
    }
    ASSERT_TRUE(read("u").ok());
  };
  learn_turns([&] { turn(false); }, kEnough);
  ASSERT_EQ(of_each([&] { turn(false); }), (Counts{2, 0, 0}));
  const auto is_tried = [](const GraphReport& graph) {
    return graph.state == GraphReport::State::kReady && graph.ways.size() == 2 && graph.ways[1].state == State::kTried;
  };
  int turns = 0;
  while (turns < 3000 && std::ranges::none_of(report().graphs, is_tried)) learn_turns([&] { turn(false); }, 1), ++turns;
  ASSERT_GT(turns, 500) << "they were tried before that";
  ASSERT_LT(turns, 3000);
  learn_turns([&] { turn(true); }, 5 * kEnough);
  const std::uint64_t flushed = scheduler->graph_counters().flushed;
  learn_turns([&] { turn(true); }, 20);
  EXPECT_EQ(scheduler->graph_counters().flushed, flushed);
}

// A form by name is no trial, and so nothing has shown that graphs are faster there.
TEST_F(GraphIdle, WithAFormByName_NothingIsHeldOnAnIdleDevice) {
  open_default("turns=leads");
  learn_turns([&] { waiting_turn(); }, kEnough);
  EXPECT_EQ(graph_launches(), 0u);
}

// Of turns that nobody waits for few are looked at in the end.
TEST_F(GraphIdle, AProgramThatBeginsToWaitAfterLong_HasItsFormsTried) {
  open_default();
  device->state().launch_ns = 6000;
  const auto turn = [&](bool waits) {
    for (int i = 0; i < 5; ++i) launch("k" + std::to_string(i), {"x", "u"}, {"u"}, 1000);
    if (waits) {
      ASSERT_TRUE(read("u").ok());
    }
  };
  learn_turns([&] { turn(false); }, 1000);
  EXPECT_THAT(forms(), ::testing::IsEmpty());
  learn_turns([&] { turn(true); }, kEnough + 40);
  EXPECT_THAT(forms(), ElementsAre(std::pair("graphs", State::kKept), std::pair("launches", State::kPutBack)));
  EXPECT_EQ(of_each([&] { turn(true); }), (Counts{1, 0, 0}));
}

// Forms are no question then: of turns that the host does not wait for it is looked whether it is behind (host_pace.h).
TEST_F(GraphIdle, WhereTheHostWaitsNoMore_NothingIsHeldAfterAWhile) {
  open_default();
  learn_turns([&] { waiting_turn(); }, 20);
  ASSERT_EQ(scheduler->graph_counters().regions, 1u);
  ASSERT_THAT(report().forms, IsEmpty()) << "before anything is compared";
  const auto turn = [&] {
    launches();
    device->state().host_ns += 1e6;                                        // it does something else, too,
    static_cast<void>(scheduler->try_host_access(all("u", Mode::kRead)));  // and asks, and does not wait
  };
  learn_turns(turn, 6);
  EXPECT_EQ(of_each(turn), (Counts{1, 0, 0})) << "it is still looked whether the host waits";
  learn_turns(turn, kEnough);
  EXPECT_EQ(of_each(turn), (Counts{0, 0, 5}));
  EXPECT_THAT(report().forms, IsEmpty());
}

TEST_F(GraphIdle, WithRecurring_NothingIsHeldOnAnIdleDevice) {
  open_default("graphs=recurring");
  learn_turns([&] { waiting_turn(); }, kEnough);
  EXPECT_EQ(scheduler->graph_counters().regions, 1u);
  EXPECT_EQ(graph_launches(), 0u);
  EXPECT_THAT(report().forms, IsEmpty());
}

// With uploads at their begin all three forms are tried, and the fastest stays.
TEST_F(GraphIdle, TurnsThatBeginWithUploads_HaveTheirForms) {
  small_uploads();
  open_default();
  const auto turn = [&] { small_uploads_turn(); };
  learn_turns(turn, kEnough);
  EXPECT_THAT(forms(), ElementsAre(std::pair("leads", State::kPutBack), std::pair("whole", State::kKept),
                                   std::pair("launches", State::kPutBack)));
  EXPECT_EQ(of_each(turn), (Counts{1, 0, 0}));
}

// Two graphs then, and both were measured as they are.
TEST_F(GraphIdle, WhatWasChosen_IsTriedAnewWhereTheTurnIsCutOtherwise) {
  open_default();
  learn_turns([&] { waiting_turn(); }, kEnough);
  const auto turn = [&] {
    waiting_turn(1000, [&](int i) {
      if (i == 1) step();
    });
  };
  learn_turns(turn, kEnough);
  EXPECT_EQ(of_each(turn), (Counts{2, 0, 0}));
  EXPECT_THAT(forms(), ElementsAre(std::pair("graphs", State::kKept), std::pair("launches", State::kPutBack)));
}

// While forms were tried the program was as slow as the device; then it no longer is, or the other way round.
TEST_F(GraphIdle, WhatWasChosen_IsTriedAgainLater) {
  open_default();
  const auto slow = [&] {
    device->state().launch_ns = 1000;
    long_launches_turn();
  };
  const auto quick = [&] {
    device->state().launch_ns = 60'000;
    waiting_turn(30'000);
  };
  learn_turns(slow, kEnough);
  ASSERT_THAT(forms(), ElementsAre(std::pair("graphs", State::kPutBack), std::pair("launches", State::kKept)));
  learn_turns(quick, 200);
  EXPECT_EQ(of_each(quick), (Counts{0, 0, 5})) << "not all the time";
  learn_turns(quick, 400);
  EXPECT_THAT(forms(), ElementsAre(std::pair("graphs", State::kKept), std::pair("launches", State::kPutBack)));
  EXPECT_EQ(of_each(quick), (Counts{1, 0, 0}));
  learn_turns(slow, 1000);
  EXPECT_EQ(of_each(slow), (Counts{1, 0, 0})) << "then after four times as many";
  learn_turns(slow, 1400);
  EXPECT_THAT(forms(), ElementsAre(std::pair("graphs", State::kPutBack), std::pair("launches", State::kKept)));
  EXPECT_EQ(of_each(slow), (Counts{0, 0, 5}));
}

// Where the program does not wait by then, nothing can be compared: what was chosen stays.
TEST_F(GraphIdle, WhatWasChosen_StaysWhereItCannotBeTriedAgain) {
  open_default();
  learn_turns([&] { waiting_turn(); }, kEnough);
  ASSERT_EQ(of_each([&] { waiting_turn(); }), (Counts{1, 0, 0}));
  const auto turn = [&] {
    launches();
    static_cast<void>(scheduler->try_host_access(all("u", Mode::kRead)));  // asks, and does not wait
  };
  learn_turns(turn, 800);
  EXPECT_EQ(of_each(turn), (Counts{1, 0, 0}));
  EXPECT_THAT(forms(), ElementsAre(std::pair("graphs", State::kKept), std::pair("launches", State::kPutBack)));
}

// Another form is cut there when it is tried again, and what was chosen stays as it is.
TEST_F(GraphIdle, OneStepOfTheHostWhileFormsAreTriedAgain_HarmsNothing) {
  for (int at = 540; at < 640; at += 3) {
    scheduler.reset(), arrays.clear(), memory_.clear();
    device->state() = FakeState();
    small_uploads();
    open_default();
    int i = 0;
    const auto step_once = [&] {
      if (i == at) step();
    };
    for (; i < 900; ++i) learn_turns([&] { small_uploads_turn(step_once); }, 1);
    EXPECT_THAT(forms(), ElementsAre(std::pair("leads", State::kPutBack), std::pair("whole", State::kKept),
                                     std::pair("launches", State::kPutBack)))
        << at;
    EXPECT_EQ(of_each([&] { small_uploads_turn(); }), (Counts{1, 0, 0})) << at;
  }
}

// By such events a program keeps count of what is under way; Python's launches do.
TEST_F(GraphIdle, EventsAtAnotherPlaceInEachTurn_CutNothing) {
  open_default();
  const auto turn_with_event = [&](int behind) {
    waiting_turn(1000, [&](int i) {
      if (i != behind) return;
      ASSERT_TRUE(scheduler->record().ok());
    });
  };
  for (int turn = 0; turn < 3 * kEnough; ++turn) {
    const bool any = turn % 9 == 0;
    learn_turns([&] { turn_with_event(any ? turn / 9 % 4 : -1); }, 1);
  }
  learn_turns([&] { waiting_turn(); }, kEnough / 4);  // a trial that was under way ends
  EXPECT_EQ(of_each([&] { waiting_turn(); }), (Counts{1, 0, 0})) << explain(scheduler->graphs());
  EXPECT_THAT(forms(), ElementsAre(std::pair("graphs", State::kKept), std::pair("launches", State::kPutBack)));
  // At the same one in each it is a step of the turn.
  learn_turns([&] { turn_with_event(2); }, kEnough);
  EXPECT_EQ(of_each([&] { turn_with_event(2); }), (Counts{2, 0, 0}));
}

// Ways and forms of turns are both tried again, after so many launches and so many turns: a trial of one may begin
// within one of the other. Turns in which ways are tried do not count for forms, and ways are tried on.
TEST_F(GraphIdle, TrialsOfWays_EndWithinTrialsOfForms) {
  using namespace std::chrono_literals;
  open_patient("", std::make_shared<Scaled>(std::vector<double>{1.05, 1.1, 0.9}, true));
  device->state().launch_ns = 6000;
  constexpr int kPauseAt = 1532;  // so that they do
  int tried = 0, longest = 0;
  for (int n = 0; n < 6000; ++n) {
    for (int i = 0; i < 5; ++i) launch("k" + std::to_string(i), {"x", "u"}, {"u"}, 1000);
    ASSERT_TRUE(read("u").ok());
    if (n == kPauseAt) std::this_thread::sleep_for(1200ms);  // when ways are made
    if (n % 4 == 0) std::this_thread::sleep_for(n < kPauseAt ? 20us : 200us);
    std::vector<Step>& steps = device->state().steps;
    if (steps.size() > 1000) steps.erase(steps.begin(), steps.end() - 50);
    const GraphsReport report = scheduler->graphs();
    if (report.regions.empty()) continue;
    bool is_tried = false;
    for (const GraphReport& graph : report.regions.back().graphs)
      if (graph.state == GraphReport::State::kReady)
        is_tried = is_tried || std::ranges::count(graph.ways, WayReport::State::kTried, &WayReport::state) != 0;
    tried = is_tried ? tried + 1 : 0;
    longest = std::max(longest, tried);
  }
  EXPECT_LT(longest, 1500) << explain(scheduler->graphs());
}

}  // namespace
}  // namespace pergola::scheduler::testing
