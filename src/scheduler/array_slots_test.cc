#include "src/scheduler/array_slots.h"

#include <random>

#include "src/scheduler/scheduler_fixture.h"

namespace pergola::scheduler::testing {
namespace {

class ArraySlotsTest : public SchedulerTest {
 protected:
  void SetUp() override { open(); }
  struct Uses {
    std::vector<Access> accesses;
    bool rebinds = true;
  };
  Access part(const std::string& name, std::uint64_t begin, std::uint64_t end, Mode mode) {
    return {&array(name), {begin, end}, mode};
  }
  Access in(const std::string& name) { return all(name, Mode::kRead); }
  Access out(const std::string& name) { return all(name, Mode::kWrite); }
  static ArraySlots slots_of(const std::vector<Uses>& launches) {
    ArraySlots slots;
    for (const Uses& launch : launches) {
      std::vector<std::uint64_t> ids;
      for (const Access& access : launch.accesses) ids.push_back(access.resource->id());
      slots.add(launch.accesses, ids, launch.rebinds);
    }
    return slots;
  }
  // Those that rebind come with these, in order.
  static bool stands_for(ArraySlots& slots, const std::vector<Uses>& met, const std::vector<Uses>& launches) {
    slots.begin();
    for (std::size_t i = 0; i < launches.size(); ++i)
      if (met[i].rebinds && !slots.bind(i, launches[i].accesses)) return false;
    return true;
  }
  static bool stands_for(const std::vector<Uses>& met, const std::vector<Uses>& launches) {
    ArraySlots slots = slots_of(met);
    return stands_for(slots, met, launches);
  }
};

TEST_F(ArraySlotsTest, OtherArraysThatStandAlikeToEachOther_Bind) {
  const std::vector<Uses> met{{{in("x"), out("t1")}}, {{in("t1"), out("y")}}};
  EXPECT_TRUE(stands_for(met, met));
  EXPECT_TRUE(stands_for(met, {{{in("x"), out("t2")}}, {{in("t2"), out("y")}}}));
  EXPECT_TRUE(stands_for(met, {{{in("a"), out("b")}}, {{in("b"), out("c")}}}));
}

TEST_F(ArraySlotsTest, OneArrayThatIsTwo_DoesNotBind) {
  const std::vector<Uses> met{{{in("x"), out("t1")}}, {{in("t1"), out("y")}}};
  EXPECT_FALSE(stands_for(met, {{{in("x"), out("t2")}}, {{in("t3"), out("y")}}}));
}

TEST_F(ArraySlotsTest, LaunchesThatWouldConflictWhereNoneDid_DoNotBind) {
  const std::vector<Uses> met{{{in("x"), out("y")}}, {{in("x"), out("z")}}};  // side by side
  EXPECT_FALSE(stands_for(met, {{{in("x"), out("y")}}, {{in("x"), out("y")}}}));
  EXPECT_FALSE(stands_for(met, {{{in("x"), out("y")}}, {{in("x"), out("x")}}}));
}

TEST_F(ArraySlotsTest, TwoThatAreOnlyRead_MayBeOne) {
  const std::vector<Uses> met{{{in("x"), out("p")}}, {{in("y"), out("q")}}};
  EXPECT_TRUE(stands_for(met, {{{in("a"), out("p")}}, {{in("a"), out("q")}}}));
}

TEST_F(ArraySlotsTest, PartsThatOverlapAsOthersDid_Bind) {
  const std::vector<Uses> met{{{part("x", 0, 100, Mode::kWrite)}}, {{part("x", 50, 150, Mode::kWrite)}}};
  EXPECT_TRUE(stands_for(met, {{{part("x", 100, 200, Mode::kWrite)}}, {{part("x", 150, 250, Mode::kWrite)}}}));
  EXPECT_TRUE(stands_for(met, {{{part("x", 0, 100, Mode::kWrite)}}, {{part("y", 0, 100, Mode::kWrite)}}}))
      << "in order they may be, too, where they need not";
  const std::vector<Uses> apart{{{part("x", 0, 50, Mode::kWrite)}}, {{part("x", 50, 150, Mode::kWrite)}}};
  EXPECT_FALSE(stands_for(apart, {{{part("x", 0, 51, Mode::kWrite)}}, {{part("x", 50, 150, Mode::kWrite)}}}));
}

TEST_F(ArraySlotsTest, WhatDoesNotChange_IsBoundFromTheBegin) {
  const std::vector<Uses> met{{{in("x"), out("t")}}, {{in("c"), out("y")}, false}};
  EXPECT_TRUE(stands_for(met, {{{in("x"), out("t2")}}, {{in("c"), out("y")}}}));
  EXPECT_FALSE(stands_for(met, {{{in("x"), out("y")}}, {{in("c"), out("y")}}})) << "a later launch writes y";
  EXPECT_FALSE(stands_for(met, {{{in("x"), out("c")}}, {{in("c"), out("y")}}})) << "a later launch reads c";
  const std::vector<Uses> shared{{{in("c"), out("t")}}, {{in("c"), out("y")}, false}};
  EXPECT_FALSE(stands_for(shared, {{{in("d"), out("t")}}, {{in("c"), out("y")}}})) << "it was one array";
}

TEST_F(ArraySlotsTest, BytesWhereNoneWere_DoNotBind) {
  const std::vector<Uses> met{{{part("x", 0, 0, Mode::kWrite)}}, {{part("x", 0, 0, Mode::kWrite)}}};
  EXPECT_TRUE(stands_for(met, met));
  EXPECT_FALSE(stands_for(met, {{{part("x", 0, 8, Mode::kWrite)}}, {{part("x", 0, 8, Mode::kWrite)}}}));
}

TEST_F(ArraySlotsTest, AnotherTurn_BindsAnew) {
  const std::vector<Uses> met{{{out("t")}}, {{in("t"), out("y")}}};
  ArraySlots slots = slots_of(met);
  EXPECT_FALSE(stands_for(slots, met, {{{out("a")}}, {{in("b"), out("y")}}}));
  EXPECT_TRUE(stands_for(slots, met, {{{out("b")}}, {{in("b"), out("y")}}}));
}

TEST_F(ArraySlotsTest, WhatIsBound_IsToldOnceEachWithAllModes) {
  const std::vector<Uses> met{{{in("x"), out("t")}}, {{in("t"), out("y")}}, {{in("c"), out("t")}, false}};
  ArraySlots slots = slots_of({met[0], met[1]});
  ASSERT_TRUE(stands_for(slots, met, {{{in("x"), out("a")}}, {{in("a"), out("b")}}}));
  std::vector<Access> told;
  slots.collect(told);
  std::map<std::uint64_t, Mode> modes;
  for (const Access& access : told) EXPECT_TRUE(modes.emplace(access.resource->id(), access.mode).second);
  EXPECT_EQ(modes,
            (std::map<std::uint64_t, Mode>{
                {array("x").id(), Mode::kRead}, {array("a").id(), Mode::kReadWrite}, {array("b").id(), Mode::kWrite}}));
}

// Of random launches and others in their place: where these bind, any two of them that conflict are two that did, and
// what is told are the bytes that they use.
TEST_F(ArraySlotsTest, RandomLaunches_ThatBind_ConflictNowhereElse) {
  const std::uint64_t seed = std::random_device{}();
  SCOPED_TRACE(seed);
  std::mt19937_64 random(seed);
  const auto below = [&](std::uint64_t bound) { return random() % bound; };
  const auto somewhere = [&](Mode mode) {
    const std::uint64_t begin = 100 * below(3);
    return part("a" + std::to_string(below(4)), begin, begin + 100 * (1 + below(2)), mode);
  };
  const auto conflict = [](const Uses& a, const Uses& b) {
    for (const Access& x : a.accesses)
      for (const Access& y : b.accesses)
        if (x.resource == y.resource && x.range.begin < y.range.end && y.range.begin < x.range.end &&
            writes(x.mode | y.mode))
          return true;
    return false;
  };
  int bound = 0, refused = 0;
  for (int round = 0; round < 20'000; ++round) {
    std::vector<Uses> met(1 + below(4)), now;
    for (Uses& launch : met) {
      launch.rebinds = below(3) != 0;
      for (std::uint64_t i = below(3); i != 0; --i)
        launch.accesses.push_back(somewhere(static_cast<Mode>(1 + below(3))));
    }
    now = met;
    for (std::size_t i = 0; i < met.size(); ++i)
      for (Access& access : now[i].accesses)
        if (met[i].rebinds && below(2) == 0) access = somewhere(access.mode);
    ArraySlots slots = slots_of(met);
    if (!stands_for(slots, met, now)) {
      ++refused;
      continue;
    }
    ++bound;
    for (std::size_t i = 0; i < met.size(); ++i)
      for (std::size_t j = 0; j < i; ++j) ASSERT_TRUE(!conflict(now[i], now[j]) || conflict(met[i], met[j]));
    std::vector<Access> told;
    slots.collect(told);
    for (const Uses& launch : now)
      for (const Access& access : launch.accesses)
        ASSERT_TRUE(std::ranges::any_of(told, [&](const Access& one) {
          return one.resource == access.resource && one.range.begin == access.range.begin &&
                 one.range.end == access.range.end && (one.mode | access.mode) == one.mode;
        }));
  }
  EXPECT_GT(bound, 1000);
  EXPECT_GT(refused, 1000);
}

TEST_F(ArraySlotsTest, APatternRecurs_WhereOnlyArraysDiffer) {
  const FakeKernel kernel;
  const device::ModulePtr module;
  const device::LaunchConfig config{{1, 1, 1}, {32, 1, 1}};
  std::uint64_t number = 0;
  const auto pattern = [&](const std::vector<Access>& accesses) {
    const KernelCall call{module, kernel, config, {}};
    return pattern_of({.accesses = accesses, .call = &call}, ++number);
  };
  std::vector<std::vector<std::uint64_t>> turns;
  for (int turn = 0; turn < 4; ++turn) {
    const std::string t = "t" + std::to_string(turn);
    const std::uint64_t at = 100 * static_cast<std::uint64_t>(turn);
    turns.push_back({pattern({part("x", at, at + 100, Mode::kRead), out(t)}), pattern({in(t), out("y")})});
  }
  EXPECT_NE(turns[1][0], turns[0][0]);  // x is used for the first time
  EXPECT_EQ(turns[2], turns[1]);
  EXPECT_EQ(turns[3], turns[1]);
  const std::uint64_t other = pattern({part("x", 300, 400, Mode::kRead), out("t4")});
  EXPECT_NE(other, turns[1][0]) << "the same part of x once more";
  EXPECT_NE(pattern({in("t3"), out("y")}), turns[1][1]) << "not what the launch before it wrote";
}

}  // namespace
}  // namespace pergola::scheduler::testing
