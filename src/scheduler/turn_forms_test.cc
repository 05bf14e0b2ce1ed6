// Which form of a turn stays, by what its turns took: without a device.
#include "src/scheduler/turn_forms.h"

#include <gmock/gmock.h>

#include <cmath>
#include <functional>
#include <map>
#include <random>

namespace pergola::scheduler {
namespace {

using Turn = TurnForms::Turn;
using ::testing::HasSubstr;
using State = WayReport::State;

constexpr int kMany = 10'000, kSteady = TurnForms::kSteady, kSettle = TurnForms::kSettle;

// What a turn of this form takes, in us; 0: it is disturbed.
using Takes = std::function<double(TurnForm form)>;

// How many turns there were until it was decided; kMany where it was not.
int turns_until_decided(TurnForms& forms, const Takes& takes) {
  int turns = 0;
  for (; turns < kMany && !forms.is_decided(); ++turns) {
    const double us = takes(forms.current());
    forms.ended(us == 0 ? Turn::kDisturbed : Turn::kCounts, us * 1e3);
  }
  return turns;
}

Takes always(double leads, double whole, double launches) {
  return [=](TurnForm form) { return form == TurnForm::kLeads ? leads : form == TurnForm::kWhole ? whole : launches; };
}

TurnForm chosen(const Takes& takes) {
  TurnForms forms;
  EXPECT_LT(turns_until_decided(forms, takes), kMany);
  return forms.current();
}

constexpr int kBlock = kSettle + static_cast<int>(TurnForms::kCounted);
constexpr int kRounds = static_cast<int>(TurnForms::kRounds);
constexpr int kAll = kSteady + kBlock * (kRounds * static_cast<int>(kTurnForms) + 1);

TEST(TurnForms, TheShortestStays) {
  EXPECT_EQ(chosen(always(100, 110, 120)), TurnForm::kLeads);
  EXPECT_EQ(chosen(always(100, 90, 120)), TurnForm::kWhole);
  EXPECT_EQ(chosen(always(100, 110, 90)), TurnForm::kLaunches);
  EXPECT_EQ(chosen(always(100, 80, 90)), TurnForm::kWhole);
  EXPECT_EQ(chosen(always(100, 90, 80)), TurnForm::kLaunches);
}

TEST(TurnForms, TheFirstStays_UnlessAnotherIsALittleShorter) {
  EXPECT_EQ(chosen(always(100, 99.4, 99.5)), TurnForm::kLeads);
  EXPECT_EQ(chosen(always(100, 99.2, 99.4)), TurnForm::kWhole);
  EXPECT_EQ(chosen(always(100, 98.1, 97.9)), TurnForm::kLaunches);
  EXPECT_EQ(chosen(always(20, 19.8, 20)), TurnForm::kLeads);
  EXPECT_EQ(chosen(always(20, 19.6, 20)), TurnForm::kWhole);
}

// After something else the host's calls take longer: each of a turn that is launched, a graph's launch, and one that
// nothing hides by more. Of turns without uploads none of it is added.
TEST(TurnForms, WhatCallsTakeMoreAfterSomethingElse_Counts) {
  const auto chosen_of = [](std::size_t pieces, const Takes& takes, bool has_uploads = true) {
    TurnForms forms(has_uploads, true, pieces);
    EXPECT_LT(turns_until_decided(forms, takes), kMany);
    return forms.current();
  };
  EXPECT_EQ(chosen_of(6, always(118.5, 119, 118.5)), TurnForm::kLaunches);
  EXPECT_EQ(chosen_of(6, always(118.5, 116.5, 122.5)), TurnForm::kLeads);
  EXPECT_EQ(chosen_of(6, always(118.5, 112, 122.5)), TurnForm::kWhole);
  EXPECT_EQ(chosen_of(30, always(175, 180, 171)), TurnForm::kLeads);
  EXPECT_EQ(chosen_of(30, always(175, 180, 160)), TurnForm::kLaunches);
  EXPECT_EQ(chosen_of(30, always(175, 0, 171), false), TurnForm::kLaunches);
  TurnForms again = TurnForms::again(true, TurnForm::kLaunches, false, 30);
  EXPECT_LT(turns_until_decided(again, always(175, 180, 171)), kMany);
  EXPECT_EQ(again.current(), TurnForm::kLeads);
}

// What differs by more is known sooner.
TEST(TurnForms, OnlyASmallDifference_TakesAllRounds) {
  const auto turns_with = [](double whole) {
    TurnForms forms;
    return turns_until_decided(forms, always(100, whole, 110));
  };
  EXPECT_EQ(turns_with(97.9), kAll);
  EXPECT_EQ(turns_with(100), kAll);
  const int more = static_cast<int>(TurnForms::kMostRounds - TurnForms::kRounds);
  EXPECT_EQ(turns_with(98.1), kAll + more * 2 * kBlock);
  EXPECT_EQ(turns_with(99), kAll + more * 2 * kBlock);
}

// A link that is fast or slow by turns: the shortest turns of both forms are alike.
TEST(TurnForms, TheUsualTurnCounts_NotTheLuckiest) {
  int times = 0;
  for (unsigned seed = 0; seed < 50; ++seed) {
    std::mt19937 random(seed);
    times += chosen([&](TurnForm form) {
               const unsigned slow_of_ten = form == TurnForm::kLaunches ? 2 : 8;
               return (random() % 10 < slow_of_ten ? 124.0 : 118.0) + 0.001 * static_cast<double>(random() % 1000);
             }) == TurnForm::kLaunches;
  }
  EXPECT_GE(times, 45);
}

TEST(TurnForms, EachHasTheSameTurns_AndThenNoMore) {
  TurnForms forms;
  std::map<TurnForm, int> turns;
  EXPECT_EQ(turns_until_decided(forms,
                                [&](TurnForm form) {
                                  ++turns[form];
                                  return 100.0;
                                }),
            kAll);
  EXPECT_EQ(turns[TurnForm::kLeads], kSteady + (kRounds + 1) * kBlock) << "also at the end";
  EXPECT_EQ(turns[TurnForm::kWhole], kRounds * kBlock);
  EXPECT_EQ(turns[TurnForm::kLaunches], kRounds * kBlock);
  forms.ended(Turn::kCounts, 1);
  EXPECT_EQ(forms.current(), TurnForm::kLeads);
}

// As if the device still had what the form before has left it.
TEST(TurnForms, TheFirstTurnsOfABlock_DoNotCount) {
  TurnForm before = TurnForm::kLeads;
  int since = 0;
  EXPECT_EQ(chosen([&](TurnForm form) {
              since = form == std::exchange(before, form) ? since + 1 : 1;
              if (since <= kSettle) return form == TurnForm::kLeads ? 1.0 : 500.0;
              return form == TurnForm::kWhole ? 90.0 : 100.0;
            }),
            TurnForm::kWhole);
}

TEST(TurnForms, WhatTakesMuchLonger_IsGivenUpSoon) {
  TurnForms forms;
  int whole = 0;
  turns_until_decided(forms, [&](TurnForm form) {
    whole += form == TurnForm::kWhole;
    return form == TurnForm::kWhole ? 126.0 : 100.0;
  });
  EXPECT_EQ(whole, kSettle + static_cast<int>(TurnForms::kCountedAtLeast));
  EXPECT_EQ(forms.current(), TurnForm::kLeads);
  EXPECT_EQ(forms.report()[1].state, State::kPutBack);
  EXPECT_EQ(forms.report()[1].best_ns, 126e3);
}

// Another program slows a block of the first form down, or makes the clock of the host jump.
TEST(TurnForms, WhatSlowsOneBlockDown_IsNotTakenForTheForms) {
  int turn = 0;
  EXPECT_EQ(chosen([&](TurnForm) { return ++turn < kSteady + kBlock ? 150.0 : 100.0; }), TurnForm::kLeads);
}

// Such a block of the first form stands between two rounds of the others.
TEST(TurnForms, WhatSlowsAnyBlockOfTheFirstFormDown_IsNotTakenForTheOthers) {
  for (const double by : {1.05, 1.2, 1.5, 2.0}) {
    for (const double whole : {100.0, 104.0, 114.0}) {
      for (int slow = 0; slow <= static_cast<int>(TurnForms::kMostRounds); ++slow) {
        int turn = 0, block = 0;  // of the first form
        TurnForm before = TurnForm::kLeads;
        EXPECT_EQ(chosen([&](TurnForm form) {
                    if (++turn <= kSteady) return 100.0;
                    if (std::exchange(before, form) != form && form == TurnForm::kLeads) ++block;
                    if (form == TurnForm::kLeads) return block == slow ? 100 * by : 100;
                    return form == TurnForm::kWhole ? whole : 115;
                  }),
                  TurnForm::kLeads)
            << "block " << slow << " by " << by << ", whole " << whole;
      }
    }
  }
}

// In its first round it would be given up; it was the faster one.
TEST(TurnForms, WhatTakesMuchLongerInALaterRound_HasMoreOfThem) {
  int whole = 0;
  EXPECT_EQ(chosen([&](TurnForm form) {
              if (form == TurnForm::kWhole) ++whole;
              const bool is_slow = whole > kBlock && whole <= kBlock + kSettle + 2;
              return form == TurnForm::kWhole ? (is_slow ? 200.0 : 90.0) : 100.0;
            }),
            TurnForm::kWhole);
}

// Some block of any of its rounds, but not most of them.
TEST(TurnForms, WhatSlowsABlockOfTheFasterFormDown_CostsMoreRounds_AndNotTheForm) {
  for (int slow = 0; slow < 2 * static_cast<int>(kTurnForms); ++slow) {
    TurnForms forms;
    int turn = 0;
    const int turns = turns_until_decided(forms, [&](TurnForm form) {
      const int block = (turn++ - kSteady) / kBlock;
      return (form == TurnForm::kLeads ? 100 : form == TurnForm::kWhole ? 94 : 130) * (block == slow ? 1.2 : 1.0);
    });
    EXPECT_EQ(forms.current(), TurnForm::kWhole) << slow;
    EXPECT_LE(turns, kSteady + kBlock * (3 * static_cast<int>(TurnForms::kMostRounds) + 1)) << slow;
  }
}

// Blocks differ from each other by as much as the forms do.
TEST(TurnForms, AFormThatIsShorterByMoreThanBlocksDiffer_StaysNearlyAlways_AndOneThatIsNot_Seldom) {
  const auto stays = [](double whole_us) {
    int times = 0;
    for (unsigned seed = 0; seed < 200; ++seed) {
      std::mt19937 random(seed);
      std::normal_distribution<double> of_block(1, 0.015);
      TurnForm before = TurnForm::kLaunches;
      double block = 1;
      times += chosen([&](TurnForm form) {
                 if (form != std::exchange(before, form)) block = of_block(random);
                 return block * (form == TurnForm::kLeads ? 170 : form == TurnForm::kWhole ? whole_us : 220);
               }) == TurnForm::kWhole;
    }
    return times;
  };
  EXPECT_GE(stays(170 * 0.94), 190) << "6 %";
  EXPECT_LE(stays(170 * 1.00), 20) << "the same";
  EXPECT_EQ(stays(170 * 1.03), 0) << "longer";
}

TEST(TurnForms, OneShortTurn_IsNotBelieved) {
  int whole = 0;
  EXPECT_EQ(chosen([&](TurnForm form) { return form == TurnForm::kWhole && ++whole % kBlock == 4 ? 10.0 : 100.0; }),
            TurnForm::kLeads);
}

// Which is the same in all forms.
TEST(TurnForms, WorkOfTheHostThatVaries_LeavesTheFirst) {
  for (unsigned seed = 0; seed < 50; ++seed) {
    std::mt19937 random(seed);
    int odd = 0;
    EXPECT_EQ(
        chosen([&](TurnForm) { return 100.0 + 300 * (++odd % 2) + 0.001 * static_cast<double>(random() % 1000); }),
        TurnForm::kLeads)
        << seed;
    std::uniform_real_distribution<double> more(0, 1);
    EXPECT_EQ(chosen([&](TurnForm form) { return (form == TurnForm::kWhole ? 80 : 100) + 10 * more(random); }),
              TurnForm::kWhole)
        << seed;
  }
}

TEST(TurnForms, ATurnThatIsDisturbed_DoesNotCount_NorTheNextOnes) {
  int turn = 0;
  TurnForms forms;
  const int disturbed = kSteady + kSettle + 1;
  const int turns = turns_until_decided(forms, [&](TurnForm form) {
    if (++turn == disturbed) return 0.0;
    return turn > disturbed && turn <= disturbed + 2 ? 1.0 : form == TurnForm::kLeads ? 100.0 : 90.0;
  });
  EXPECT_EQ(turns, kAll + 1 + kSettle);
  EXPECT_EQ(forms.current(), TurnForm::kWhole) << "the two right behind it are not the first form's time";
}

TEST(TurnForms, WhileGraphsAreMade_NothingIsGivenUp) {
  TurnForms forms;
  for (int i = 0; i < kSteady; ++i) forms.ended(Turn::kCounts, 100e3);
  while (forms.current() == TurnForm::kLeads) forms.ended(Turn::kCounts, 100e3);
  for (int i = 0; i < 1000; ++i) forms.ended(Turn::kMaking, 200e3);
  EXPECT_EQ(forms.current(), TurnForm::kWhole);
  turns_until_decided(forms, always(100, 90, 100));
  EXPECT_EQ(forms.current(), TurnForm::kWhole);
}

TEST(TurnForms, AFormWhoseTurnsAreNeverAsItSays_IsLeftOut) {
  TurnForms forms;
  turns_until_decided(forms, always(100, 0, 90));
  EXPECT_EQ(forms.current(), TurnForm::kLaunches);
  const auto report = forms.report();
  ASSERT_EQ(report.size(), kTurnForms);
  EXPECT_EQ(report[1].state, State::kRefused);
  EXPECT_THAT(report[1].why, HasSubstr("too few were undisturbed"));
  EXPECT_EQ(report[2].state, State::kKept);
  TurnForms none;
  turns_until_decided(none, always(100, 0, 0));
  EXPECT_EQ(none.current(), TurnForm::kLeads);
}

TEST(TurnForms, WhereTheFirstIsNeverSteady_NothingIsTried) {
  TurnForms forms;
  int turn = 0;
  EXPECT_EQ(turns_until_decided(forms, [&](TurnForm) { return ++turn % kSteady == 0 ? 0.0 : 100.0; }), kMany);
  EXPECT_EQ(forms.current(), TurnForm::kLeads);
  EXPECT_FALSE(forms.is_under_way());
  EXPECT_THAT(forms.report(), ::testing::IsEmpty());
}

TEST(TurnForms, WhereTheFirstIsSteadyNoLonger_AllBeginsAgain_AFewTimes) {
  TurnForms forms;
  int turn = 0;
  const int turns = turns_until_decided(forms, [&](TurnForm) { return turn++ % 20 < kSteady ? 100.0 : 0.0; });
  EXPECT_LT(turns, static_cast<int>(20 * (TurnForms::kMostGivenUp + 1)));
  EXPECT_EQ(forms.current(), TurnForm::kLeads);
  TurnForms later;
  turn = 0;
  turns_until_decided(later, [&](TurnForm form) {
    return turn++ < 30 && turn > kSteady ? 0.0 : form == TurnForm::kWhole ? 90.0 : 100.0;
  });
  EXPECT_EQ(later.current(), TurnForm::kWhole);
}

TEST(TurnForms, AFormThatIsDropped_SaysWhy) {
  TurnForms forms;
  for (int i = 0; i < kSteady; ++i) forms.ended(Turn::kCounts, 100e3);
  EXPECT_TRUE(forms.has_changed());
  EXPECT_FALSE(forms.has_changed());
  forms.drop(TurnForm::kLeads, "the first is not");
  forms.drop(TurnForm::kWhole, "it is not its turn");
  while (forms.current() == TurnForm::kLeads) forms.ended(Turn::kCounts, 100e3);
  forms.drop(TurnForm::kWhole, "no");
  EXPECT_EQ(forms.current(), TurnForm::kLaunches);
  EXPECT_TRUE(forms.has_changed());
  EXPECT_EQ(forms.report()[0].state, State::kTried);
  EXPECT_EQ(forms.report()[1].state, State::kRefused);
  EXPECT_EQ(forms.report()[1].why, "no");
  turns_until_decided(forms, always(100, 1, 101));
  EXPECT_EQ(forms.current(), TurnForm::kLeads);
  EXPECT_EQ(forms.report()[0].state, State::kKept);
  EXPECT_EQ(forms.report()[0].tries, (TurnForms::kRounds + 1) * TurnForms::kCounted);
}

// A clock that rises, caches that warm up: turns get shorter by themselves.
TEST(TurnForms, WhatGetsFasterByItself_IsNotTakenForAForm) {
  const auto chosen = [](const std::function<double(int)>& turn_us) {
    TurnForms forms;
    int turn = 0;
    turns_until_decided(forms, [&](TurnForm) { return turn_us(turn++); });
    return forms.current();
  };
  for (const double rate : {0.001, 0.002, 0.005})
    EXPECT_EQ(chosen([&](int turn) { return 100 * std::pow(1 - rate, turn); }), TurnForm::kLeads) << rate;
  for (const double turns : {20.0, 40.0, 80.0})
    EXPECT_EQ(chosen([&](int turn) { return 100 * (1 + 0.5 * std::exp(-turn / turns)); }), TurnForm::kLeads) << turns;
}

// There are two forms then, and graphs are preferred only if they were compared with launches.
TEST(TurnForms, OfTurnsWithoutUploads_GraphsAreComparedWithLaunches) {
  for (const double launches_us : {80.0, 120.0}) {
    TurnForms forms(false);
    EXPECT_FALSE(forms.prefers_graphs());
    for (int turn = 0; turn < 200 && !forms.is_decided(); ++turn) {
      EXPECT_NE(forms.current(), TurnForm::kWhole);
      EXPECT_FALSE(forms.prefers_graphs());
      forms.ended(TurnForms::Turn::kCounts, forms.current() == TurnForm::kLaunches ? launches_us * 1000 : 100'000);
    }
    ASSERT_TRUE(forms.is_decided());
    EXPECT_EQ(forms.prefers_graphs(), launches_us > 100);
    const std::vector<WayReport> told = forms.report();
    ASSERT_EQ(told.size(), 2u);
    EXPECT_EQ(told[0].name, "graphs");
    EXPECT_EQ(told[1].name, "launches");
  }
}

TEST(TurnForms, WhereLaunchesCouldNotBeTried_GraphsAreNotPreferred) {
  TurnForms forms(false);
  for (int turn = 0; turn < 1000 && !forms.is_decided(); ++turn)
    forms.ended(forms.current() == TurnForm::kLaunches ? TurnForms::Turn::kDisturbed : TurnForms::Turn::kCounts, 1e5);
  EXPECT_TRUE(forms.is_decided());
  EXPECT_EQ(forms.current(), TurnForm::kLeads);
  EXPECT_FALSE(forms.prefers_graphs());
}

// They were faster in the round that they had.
TEST(TurnForms, WhereLaunchesWereNotTriedToTheEnd_GraphsAreNotPreferred) {
  TurnForms forms(false);
  int blocks = 0;  // of launches
  TurnForm before = TurnForm::kLeads;
  for (int turn = 0; turn < 1000 && !forms.is_decided(); ++turn) {
    const TurnForm form = forms.current();
    if (std::exchange(before, form) != form && form == TurnForm::kLaunches) ++blocks;
    const bool is_disturbed = form == TurnForm::kLaunches && blocks == 2;
    forms.ended(is_disturbed ? TurnForms::Turn::kDisturbed : TurnForms::Turn::kCounts,
                form == TurnForm::kLaunches ? 80e3 : 100e3);
  }
  ASSERT_TRUE(forms.is_decided());
  EXPECT_EQ(forms.report()[1].best_ns, 80e3);
  EXPECT_FALSE(forms.prefers_graphs());
}

TEST(TurnForms, TurnsBeforeATrial_AreCounted) {
  TurnForms forms(false);
  for (const auto how : {TurnForms::Turn::kDisturbed, TurnForms::Turn::kMaking, TurnForms::Turn::kCounts})
    for (int turn = 0; turn < 3; ++turn) forms.ended(how, 1e5);
  EXPECT_EQ(forms.unsteady_turns(), 6u) << "not while something is made";
}

// ── Again ───────────────────────────────────────────────────────────────────────────────────────────────────────────

TEST(TurnFormsAgain, WhatWasChosen_HasToBeBeaten) {
  const auto chosen_of = [](TurnForm before, const Takes& takes) {
    TurnForms forms = TurnForms::again(true, before, false);
    EXPECT_EQ(forms.current(), before);
    EXPECT_LT(turns_until_decided(forms, takes), kMany);
    EXPECT_TRUE(forms.was_compared());
    return forms.current();
  };
  EXPECT_EQ(chosen_of(TurnForm::kWhole, always(99.5, 100, 101)), TurnForm::kWhole);
  EXPECT_EQ(chosen_of(TurnForm::kWhole, always(97, 100, 101)), TurnForm::kLeads);
  EXPECT_EQ(chosen_of(TurnForm::kWhole, always(97, 100, 95)), TurnForm::kLaunches);
  EXPECT_EQ(chosen_of(TurnForm::kLaunches, always(99.5, 99.5, 100)), TurnForm::kLaunches);
  EXPECT_EQ(chosen_of(TurnForm::kLaunches, always(110, 90, 100)), TurnForm::kWhole);
  EXPECT_EQ(chosen_of(TurnForm::kLeads, always(100, 97, 101)), TurnForm::kWhole);
}

TEST(TurnFormsAgain, IsToldInTheSameOrder) {
  TurnForms forms = TurnForms::again(true, TurnForm::kLaunches, false);
  turns_until_decided(forms, always(110, 120, 100));
  const std::vector<WayReport> told = forms.report();
  ASSERT_EQ(told.size(), kTurnForms);
  EXPECT_EQ(told[0].name, "leads");
  EXPECT_EQ(told[0].best_ns, 110e3);
  EXPECT_EQ(told[1].best_ns, 120e3);
  EXPECT_EQ(told[2].name, "launches");
  EXPECT_EQ(told[2].state, State::kKept);
}

// The program does something else by now: it is not held for a trial that cannot be.
TEST(TurnFormsAgain, WhereItCannotBeCompared_WhatWasChosenStays_AndSoon) {
  for (const TurnForm before : {TurnForm::kLeads, TurnForm::kLaunches}) {
    TurnForms never = TurnForms::again(false, before, before == TurnForm::kLeads);
    EXPECT_LE(turns_until_decided(never, always(0, 0, 0)), static_cast<int>(TurnForms::kMostDisturbed + 1));
    EXPECT_EQ(never.current(), before);
    EXPECT_EQ(never.prefers_graphs(), before == TurnForm::kLeads);
    EXPECT_THAT(never.report(), ::testing::IsEmpty());
    TurnForms begun = TurnForms::again(false, before, before == TurnForm::kLeads);
    int turn = 0;
    turns_until_decided(begun, [&](TurnForm) { return turn++ < kSteady ? 100.0 : 0.0; });
    EXPECT_LE(turn, static_cast<int>(TurnForms::kMostDisturbed + 1) + kSteady);
    EXPECT_EQ(begun.current(), before);
    EXPECT_EQ(begun.prefers_graphs(), before == TurnForm::kLeads);
  }
}

TEST(TurnFormsAgain, GraphsArePreferred_AsTheyWereOrAreFound) {
  const auto prefers = [](TurnForm before, const Takes& takes) {
    TurnForms forms = TurnForms::again(false, before, before == TurnForm::kLeads);
    turns_until_decided(forms, takes);
    return forms.prefers_graphs();
  };
  EXPECT_TRUE(prefers(TurnForm::kLeads, always(100, 0, 110)));
  EXPECT_TRUE(prefers(TurnForm::kLeads, always(100, 0, 0))) << "as launches cannot be tried";
  EXPECT_FALSE(prefers(TurnForm::kLeads, always(100, 0, 90)));
  EXPECT_TRUE(prefers(TurnForm::kLaunches, always(90, 0, 100)));
  EXPECT_FALSE(prefers(TurnForm::kLaunches, always(0, 0, 100)));
}

// A program that looks at some of its turns, while forms are tried again, has what was chosen in most of them.
TEST(TurnFormsAgain, InNoStretchOfTurns_AreThereMostlyOthers) {
  constexpr int kStretch = 50;
  for (const double other : {101.0, 99.0, 98.5, 130.0}) {
    TurnForms forms = TurnForms::again(true, TurnForm::kLeads, false);
    std::vector<bool> is_other;
    turns_until_decided(forms, [&](TurnForm form) {
      is_other.push_back(form != TurnForm::kLeads);
      return form == TurnForm::kLeads ? 100 : other;
    });
    ASSERT_GE(std::ssize(is_other), kStretch);
    EXPECT_GT(std::count(is_other.begin(), is_other.end(), true), 0);
    for (auto from = is_other.begin(); is_other.end() - from >= kStretch; ++from)
      ASSERT_LE(std::count(from, from + kStretch, true), 2 * kBlock) << "from turn " << from - is_other.begin();
  }
}

// Disturbed in one turn of nine, it is decided all the same.
TEST(TurnFormsAgain, ADisturbedTurn_DoesNotBeginTheLongWaitAnew) {
  TurnForms forms = TurnForms::again(true, TurnForm::kLeads, false);
  int turn = 0;
  const int turns = turns_until_decided(forms, [&](TurnForm form) {
    return turn++ % 9 == 8 ? 0.0 : form == TurnForm::kWhole ? 90.0 : 100.0;
  });
  EXPECT_EQ(forms.current(), TurnForm::kWhole);
  EXPECT_LE(turns, 3 * (static_cast<int>(TurnForms::kSettleAgain) + 4 * kBlock));
}

// The long wait before a block of what was chosen is no reason to give it up.
TEST(TurnFormsAgain, WhereOneTurnOfFiveIsDisturbed_WhatIsShorterIsFoundMostly) {
  constexpr int kTrials = 400;
  int found = 0;
  for (unsigned seed = 0; seed < kTrials; ++seed) {
    std::mt19937 random(seed);
    TurnForms forms = TurnForms::again(true, TurnForm::kLeads, false);
    turns_until_decided(forms, [&](TurnForm form) {
      return random() % 5 == 0 ? 0.0 : form == TurnForm::kWhole ? 80.0 : 100.0;
    });
    found += forms.current() == TurnForm::kWhole ? 1 : 0;
  }
  EXPECT_GT(found, kTrials * 8 / 10);
}

// Of a program that never waits for its turns; then it does.
TEST(TurnForms, WhereNoTurnHasCountedForLong_MostPass_UntilOneCounts) {
  TurnForms forms;
  const auto turn = [&](Turn how) {  // as GraphLowering has it; whether it was looked at
    if (forms.passes()) return false;
    if (!forms.has_passed()) forms.ended(how, 100e3);
    return true;
  };
  const auto looked_at = [&](std::uint32_t turns, Turn how) {
    std::uint32_t count = 0;
    for (std::uint32_t i = 0; i < turns; ++i) count += turn(how) ? 1 : 0;
    return count;
  };
  EXPECT_EQ(looked_at(TurnForms::kUnsteady, Turn::kDisturbed), TurnForms::kUnsteady);
  EXPECT_EQ(looked_at(100 * (TurnForms::kPassed + 2), Turn::kDisturbed), 200u);
  EXPECT_FALSE(forms.is_decided());
  EXPECT_LT(looked_at(TurnForms::kPassed + 3, Turn::kCounts), TurnForms::kPassed);
  EXPECT_EQ(looked_at(kSteady, Turn::kCounts), static_cast<std::uint32_t>(kSteady)) << "from the first that counts on";
  EXPECT_TRUE(forms.is_under_way());
}

TEST(TurnForms, WithoutATrial_TheFirstIsChosen) {
  TurnForms forms(true, false);
  EXPECT_TRUE(forms.is_decided());
  EXPECT_EQ(forms.current(), TurnForm::kLeads);
  EXPECT_THAT(forms.report(), ::testing::IsEmpty());
}

}  // namespace
}  // namespace pergola::scheduler
