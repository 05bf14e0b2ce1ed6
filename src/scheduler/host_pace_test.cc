// Turns that the host does not wait for and is behind with: by itself, and with the device with a virtual clock, by
// which a launch takes the host as long as each test says.
#include "src/scheduler/host_pace.h"

#include <gmock/gmock.h>

#include "src/scheduler/graph_copies_fixture.h"

namespace pergola::scheduler::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;
using PaceState = HostPace::State;
using Turn = HostPace::Turn;

struct HostPaceAlone : ::testing::Test {
  void turns(std::uint32_t count, Turn how, double ns = 100) {
    for (std::uint32_t i = 0; i < count; ++i) pace.ended(how, ns);
  }
  HostPace pace;
};

TEST_F(HostPaceAlone, WhatIsFasterAsGraphsStaysSo) {
  turns(HostPace::kWatch - 1, Turn::kLaunches);
  EXPECT_FALSE(pace.holds());
  turns(1, Turn::kLaunches);
  EXPECT_EQ(pace.state(), PaceState::kTrying);
  turns(100, Turn::kMaking);
  turns(HostPace::kSettle, Turn::kGraphs, 1000);
  turns(HostPace::kCounted, Turn::kGraphs, 89);
  EXPECT_EQ(pace.state(), PaceState::kHolding);
  EXPECT_EQ(pace.launches_ns(), 100);
  EXPECT_EQ(pace.graphs_ns(), 89);
  turns(1000, Turn::kGraphs, 500);
  EXPECT_TRUE(pace.holds());
  EXPECT_EQ(pace.tries(), 1u);
}

TEST_F(HostPaceAlone, WhatIsNotIsTriedLessAndLessOften) {
  std::uint32_t watched = HostPace::kWatch;
  for (std::uint64_t tries = 1; tries < 8; ++tries) {
    turns(watched - 1, Turn::kLaunches);
    EXPECT_FALSE(pace.holds());
    turns(1, Turn::kLaunches);
    EXPECT_TRUE(pace.holds());
    EXPECT_EQ(pace.tries(), tries);
    turns(HostPace::kSettle + HostPace::kCounted, Turn::kGraphs, 91);
    EXPECT_FALSE(pace.holds());
    watched = std::min(4 * watched, HostPace::kMostWatched);
  }
}

TEST_F(HostPaceAlone, TurnsUntilItIsTriedAgain_Pass_ButForTheLast) {
  EXPECT_FALSE(pace.passes());
  turns(HostPace::kWatch, Turn::kLaunches);
  EXPECT_FALSE(pace.passes()) << "it is tried";
  turns(HostPace::kMostOthers + 1, Turn::kOther);
  std::uint32_t passed = 0;
  while (pace.passes()) ++passed;
  EXPECT_EQ(passed, 3 * HostPace::kWatch);
  turns(HostPace::kWatch - 1, Turn::kLaunches);
  EXPECT_FALSE(pace.holds());
  turns(1, Turn::kLaunches);
  EXPECT_TRUE(pace.holds());
}

TEST_F(HostPaceAlone, WhereNothingCouldBeHeldForLong_MostTurnsPass_UntilSomethingCould) {
  const auto looked_at = [&](std::uint32_t count, Turn how) {
    std::uint32_t looked = 0;
    for (std::uint32_t i = 0; i < count; ++i) {
      if (pace.passes()) continue;
      ++looked;
      pace.ended(how, 100);
    }
    return looked;
  };
  EXPECT_EQ(looked_at(HostPace::kOthersWatched, Turn::kOther), HostPace::kOthersWatched);
  EXPECT_EQ(looked_at(100 * (HostPace::kPassed + 2), Turn::kOther), 200u);
  looked_at(HostPace::kPassed + 2, Turn::kLaunches);
  EXPECT_EQ(looked_at(HostPace::kWatch - 2, Turn::kLaunches), HostPace::kWatch - 2);
  EXPECT_TRUE(pace.holds());
}

TEST_F(HostPaceAlone, WhatIsNoGraphIsGivenUp) {
  turns(HostPace::kWatch, Turn::kLaunches);
  turns(HostPace::kMostOthers, Turn::kOther);
  turns(1, Turn::kGraphs);
  turns(HostPace::kMostOthers, Turn::kLaunches);
  EXPECT_TRUE(pace.holds());
  turns(1, Turn::kOther);
  EXPECT_FALSE(pace.holds());
  turns(4 * HostPace::kWatch, Turn::kLaunches);
  turns(HostPace::kMostMaking, Turn::kMaking);
  EXPECT_TRUE(pace.holds());
  turns(1, Turn::kMaking);
  EXPECT_FALSE(pace.holds());
  turns(16 * HostPace::kWatch, Turn::kLaunches);
  turns(HostPace::kSettle + HostPace::kCounted, Turn::kGraphs, 50);
  EXPECT_EQ(pace.state(), PaceState::kHolding);
  turns(HostPace::kMostOthers + 1, Turn::kOther);
  EXPECT_FALSE(pace.holds()) << "later, too";
}

TEST_F(HostPaceAlone, OtherTurnsSayNothingWhileItWatches) {
  turns(HostPace::kWatch - 1, Turn::kLaunches);
  turns(1000, Turn::kOther), turns(1000, Turn::kGraphs), turns(5000, Turn::kMaking);
  EXPECT_FALSE(pace.holds());
  turns(1, Turn::kLaunches);
  EXPECT_TRUE(pace.holds());
}

// ── With the scheduler ──────────────────────────────────────────────────────────────────────────────────────────────

class HostPaceOfRegions : public GraphCopies {
 protected:
  // Nobody waits for anything of it.
  void turn(double host_ns_between = 0) {
    for (int i = 0; i < 40; ++i) {
      launch("k" + std::to_string(i), {"x", "u"}, {"u"}, 1000);
      device->state().host_ns += host_ns_between;
    }
  }
  void open_with(const std::string& policy) {
    open_patient(policy);
    scheduler->set_queue_trust(std::chrono::nanoseconds(0));  // the virtual clock is another
    device->state().launch_ns = 6000;
  }
  // Until the device has done it, of turns one after the other.
  double turn_ns(Step::Kind kind, int turns = 20) {
    const double begin = device->state().of(kind).back().end_ns;
    for (int i = 0; i < turns; ++i) turn();
    return (device->state().of(kind).back().end_ns - begin) / turns;
  }
};

TEST_F(HostPaceOfRegions, WhereTheHostIsBehind_TurnsBecomeGraphs) {
  open_with("");
  learn_turns([&] { turn(); }, 10);
  EXPECT_GT(turn_ns(Step::Kind::kLaunch), 239'000) << "6 us a launch";
  learn_turns([&] { turn(); }, 200);
  EXPECT_EQ(of_each([&] { turn(); }), (Counts{1, 0, 0})) << explain(scheduler->graphs());
  EXPECT_LT(turn_ns(Step::Kind::kGraph), 41'000) << "1 us a launch, on the device";
  EXPECT_THAT(explain(scheduler->graphs()),
              HasSubstr("  launches were held back on an idle device 1 time, as the host was behind it: turns took "
                        "240.0 us as launches and 6.0 us as graphs; they are now\n"));
}

TEST_F(HostPaceOfRegions, WhereGraphsDoNotHelp_LaunchesAreNotHeld) {
  open_with("");
  const auto slow = [&] { turn(100'000); };  // with what else it does
  learn_turns(slow, 300);
  EXPECT_EQ(of_each(slow), (Counts{0, 0, 40})) << explain(scheduler->graphs());
  EXPECT_THAT(explain(scheduler->graphs()),
              HasSubstr("on an idle device 1 time, as the host was behind it: turns took"));
  EXPECT_THAT(explain(scheduler->graphs()), Not(HasSubstr("they are now")));
}

// The host waits for its turns, and then no more: what was to be compared for the first is forgotten.
TEST_F(HostPaceOfRegions, WhereTheHostWaitsNoMore_ItIsLookedAt) {
  open_with("");
  for (int i = 0; i < 20; ++i) {
    learn_turns([&] { turn(); }, 1);
    ASSERT_TRUE(read("u").ok());
  }
  learn_turns([&] { turn(); }, 400);
  EXPECT_EQ(of_each([&] { turn(); }), (Counts{1, 0, 0})) << explain(scheduler->graphs());
}

TEST_F(HostPaceOfRegions, ByTheRuleAloneNothingIsHeld) {
  open_with("graphs=recurring");
  learn_turns([&] { turn(); }, 300);
  EXPECT_EQ(of_each([&] { turn(); }), (Counts{0, 0, 40}));
}

TEST_F(HostPaceOfRegions, TurnsThatTheHostWaitsForAreNotCounted) {
  open_with("");
  int turns = 0;
  const auto waits_now_and_then = [&] {
    turn();
    if (++turns % 10 == 0) {
      ASSERT_TRUE(read("u").ok());
    }
  };
  learn_turns(waits_now_and_then, 400);
  EXPECT_EQ(of_each([&] { turn(); }).graphs, 1u) << explain(scheduler->graphs());
}

}  // namespace
}  // namespace pergola::scheduler::testing
