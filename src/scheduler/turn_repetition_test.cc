// Turns of launches that come again, one by one (turn_repetition.h): written down as without repetitions, whoever looks
// in between.
#include "src/scheduler/repetition_fixture.h"

namespace pergola::scheduler::testing {
namespace {

class TurnRepetitions : public Repetitions {
 protected:
  // Two chains that meet: on two streams where forks cost nothing.
  void turns(int count) {
    for (int i = 0; i < count; ++i) {
      ASSERT_TRUE(write("a", {{"x"}}).ok());
      ASSERT_TRUE(write("b", {{"y"}}).ok());
      ASSERT_TRUE(write("c", {{"x"}, {"y", Mode::kRead}}).ok());
    }
  }
  // Until they are repeated. To ask how many were is to look, and they are learnt anew.
  void learn_turns() {
    open("graphs=recurring,fork-cost=0");
    scheduler->set_queue_trust(std::chrono::nanoseconds(0));
    turns(200);
  }
  // Of those 600 and what came since, at least so many have been.
  void check_repeated() { ASSERT_GT(repeated(), 300u); }
  Step last() { return device->state().of(Step::Kind::kLaunch).back(); }
};

class ManyTurns : public TurnRepetitions, public ::testing::WithParamInterface<int> {};

// Of the most, some are not kept in the log, and never come there.
TEST_P(ManyTurns, AreWrittenDownAsWithoutThem) {
  const auto launches = 3 * static_cast<std::uint64_t>(GetParam());
  std::vector<std::string> plain, placed;
  Counters counted;
  for (const char* const policy : {"graphs=off", "graphs=recurring"}) {
    for (const char* const forks : {"", ",fork-cost=0"}) {
      start_again(std::string(policy) + forks);
      turns(GetParam());
      if (policy == std::string("graphs=recurring") && *forks != 0) {
        EXPECT_GT(device->state().recorded_again, launches / 6);
      }
      const Counters with = scheduler->counters();
      if (std::string(policy) == "graphs=off") {
        EXPECT_EQ(with.repeated, 0u);
        plain = story();
        placed = places();
        counted = with;
      } else {
        EXPECT_GT(with.repeated, launches - 200);
      }
    }
  }
  EXPECT_EQ(difference(story(), plain), "");
  EXPECT_EQ(difference(places(), placed), "");
  const Counters with = scheduler->counters();
  EXPECT_EQ(with.computations, counted.computations);
  EXPECT_EQ(with.dependencies, counted.dependencies);
  EXPECT_EQ(with.streams, counted.streams);
  EXPECT_EQ(with.waits, counted.waits);
  EXPECT_EQ(with.late_events, counted.late_events);
  EXPECT_EQ(scheduler->counters().streams, 2u);
  EXPECT_EQ(kernel_launches(), launches);
  EXPECT_LE(scheduler->frontier_size(), 6u);
  ASSERT_TRUE(scheduler->synchronize().ok());
}
INSTANTIATE_TEST_SUITE_P(All, ManyTurns, ::testing::Values(300, 424, 425, 700, 1301));

// Wherever in a turn they look: just what made the data is waited for.
TEST_F(TurnRepetitions, TheHostWaitsForTheLastThatWroteWhatItReads) {
  for (int launches = 0; launches < 3; ++launches) {
    close();
    learn_turns();
    ASSERT_TRUE(write("a", {{"x"}}).ok());
    double x = last().end_ns, y = 0;
    if (launches >= 1) {
      ASSERT_TRUE(write("b", {{"y"}}).ok());
      y = last().end_ns;
    }
    if (launches == 2) {
      ASSERT_TRUE(write("c", {{"x"}, {"y", Mode::kRead}}).ok());
      x = last().end_ns;
    }
    if (launches >= 1) {
      ASSERT_TRUE(read("y").ok());
      EXPECT_GE(device->state().host_ns, y);
    }
    ASSERT_TRUE(read("x").ok());
    EXPECT_EQ(device->state().host_ns, x);
    check_repeated();
    turns(300);
    ASSERT_TRUE(scheduler->synchronize().ok());
  }
}

TEST_F(TurnRepetitions, WorkThatComesBetween_ComesBehindThem_AndTheyBehindIt) {
  learn_turns();
  ASSERT_TRUE(write("a", {{"x"}}).ok());
  const double a = last().end_ns;
  ASSERT_TRUE(write("b", {{"y"}}).ok());
  const double b = last().end_ns;
  ASSERT_TRUE(run("other", {"x", "y"}, {"x"}).ok());
  const Step other = last();
  EXPECT_GE(other.start_ns, std::max(a, b));
  ASSERT_TRUE(write("c", {{"x"}, {"y", Mode::kRead}}).ok());
  EXPECT_GE(last().start_ns, other.end_ns);
  check_repeated();
  const DagPicture picture = scheduler->picture();
  const DagVertex& c = picture.vertices.back();
  const DagVertex& between = picture.vertices[picture.vertices.size() - 2];
  ASSERT_GE(c.edge_count, 1u);
  EXPECT_EQ(c.edges[0].parent, between.id);
  EXPECT_EQ(between.edge_count, 2u) << "it comes after both";
  ASSERT_TRUE(scheduler->synchronize().ok());
}

// A write of the host that waits for nothing is nobody's parent, and what came before it is not any more.
TEST_F(TurnRepetitions, WhatTheHostHasOverwritten_IsForgotten) {
  std::vector<std::string> plain;
  for (const char* const policy : {"graphs=off,fork-cost=0", "graphs=recurring,fork-cost=0"}) {
    start_again(policy);
    turns(200);
    device->state().host_ns += 1e6;
    ASSERT_TRUE(scheduler->begin_host_access({&array("y"), {0, 1000}, Mode::kWrite, 0}).ok());
    turns(20);
    if (plain.empty()) plain = story();
  }
  EXPECT_EQ(difference(story(), plain), "");
  check_repeated();
  ASSERT_TRUE(scheduler->synchronize().ok());
}

TEST_F(TurnRepetitions, AnArrayThatGoes_StaysUntilTheLastThatUsesItHasEnded) {
  learn_turns();
  ASSERT_TRUE(write("a", {{"x"}}).ok());
  const double end = last().end_ns;
  auto memory = std::make_shared<int>(0);
  const std::weak_ptr<int> watched = memory;
  scheduler->retire(std::move(arrays.at("x")), std::move(memory));
  arrays.erase("x");
  EXPECT_FALSE(watched.expired());
  check_repeated();
  device->state().host_ns = end - 0.5;
  EXPECT_FALSE(scheduler->await_retired(true, std::chrono::steady_clock::time_point()));
  EXPECT_FALSE(watched.expired());
  ASSERT_TRUE(scheduler->synchronize().ok());
  EXPECT_TRUE(watched.expired());
}

TEST_F(TurnRepetitions, ARefusedLaunch_SaysSo_AndATurnThatFails_IsTold) {
  learn_turns();
  device->state().refuse_launches = {PERGOLA_ERROR(kInvalidArgument, "refused")};
  EXPECT_EQ(write("a", {{"x"}}).code(), Code::kInvalidArgument);
  ASSERT_TRUE(write("b", {{"y"}}).ok());
  ASSERT_TRUE(write("c", {{"x"}, {"y", Mode::kRead}}).ok());
  turns(20);
  check_repeated();
  turns(200);
  device->state().fail_next = {PERGOLA_ERROR(kInternal, "it has failed")};
  turns(3);
  EXPECT_FALSE(read("x").ok());
  EXPECT_EQ(scheduler->synchronize().message(), "it has failed");
  turns(200);
  EXPECT_TRUE(scheduler->synchronize().ok());
}

// As on the CPU: the first event behind what failed tells it, and nobody else.
TEST_F(TurnRepetitions, AFailureLongAgo_IsToldAsItself) {
  for (const char* const policy : {"graphs=off,fork-cost=0", "graphs=recurring,fork-cost=0", "graphs=recurring"})
    for (const int later : {0, 1, 2, 10, 300})
      for (const int which : {0, 1, 2}) {
        SCOPED_TRACE(fmt::format("{}, {} turns later, launch {}", policy, later, which));
        start_again(policy);
        device->state().tells_once = true;
        turns(200);
        const auto fails = [&](int i) {
          if (i == which) device->state().fail_next = {PERGOLA_ERROR(kDeviceFault, "it has failed")};
        };
        fails(0);
        ASSERT_TRUE(write("a", {{"x"}}).ok());
        fails(1);
        ASSERT_TRUE(write("b", {{"y"}}).ok());
        fails(2);
        ASSERT_TRUE(write("c", {{"x"}, {"y", Mode::kRead}}).ok());
        turns(later);
        const Status told = scheduler->synchronize();
        EXPECT_EQ(told.code(), Code::kDeviceFault) << told.message();
        EXPECT_TRUE(scheduler->synchronize().ok());
      }
}

// A launch whose waits the driver refuses is placed like any other, once; one that is itself refused is told. What
// comes after either comes after what they would have come after.
TEST_F(TurnRepetitions, ARefusedWaitOrLaunch_LosesNoOrder) {
  for (const int refusals : {1, 2, 3})
    for (const bool is_wait : {true, false})
      for (const int which : {0, 1, 2}) {
        SCOPED_TRACE(fmt::format("{} {}, launch {}", refusals, is_wait ? "waits" : "launches", which));
        start_again("graphs=recurring,fork-cost=0");
        turns(200);
        double x = 0, y = 0;  // when what wrote them last ends
        std::size_t refused = 0;
        const auto next = [&](int i) {
          const std::size_t before = kernel_launches();
          const Status status = i == 0   ? write("a", {{"x"}})
                                : i == 1 ? write("b", {{"y"}})
                                         : write("c", {{"x"}, {"y", Mode::kRead}});
          refused += status.ok() ? 0 : 1;
          ASSERT_EQ(kernel_launches(), before + (status.ok() ? 1 : 0));
          if (!status.ok()) return;
          EXPECT_GE(last().start_ns, i == 0 ? x : i == 1 ? y : std::max(x, y));
          (i == 1 ? y : x) = last().end_ns;
          if (i == 2) y = std::max(y, last().end_ns);
        };
        for (int i = 0; i < 3; ++i) next(i);
        for (int turn = 0; turn < 3; ++turn)
          for (int i = 0; i < 3; ++i) {
            auto& to_refuse = is_wait ? device->state().refuse_waits : device->state().refuse_launches;
            if (turn == 0 && i == which)
              to_refuse.assign(static_cast<std::size_t>(refusals), PERGOLA_ERROR(kInvalidArgument, "refused"));
            next(i);
          }
        EXPECT_EQ(refused != 0, !is_wait || refusals > 1);
        device->state().refuse_waits.clear();
        (void)scheduler->synchronize();
        turns(200);
        EXPECT_TRUE(scheduler->synchronize().ok());
      }
}

// The message names what may have failed, of launches that nobody has written down by then.
TEST_F(TurnRepetitions, ALostDevice_NamesWhatWasUnderWay) {
  std::string plain;
  for (const char* const policy : {"graphs=off,fork-cost=0", "graphs=recurring,fork-cost=0"}) {
    start_again(policy);
    turns(200);
    device->state().host_ns += 1e6;  // they have ended
    ASSERT_TRUE(read("y").ok());
    turns(200);
    ASSERT_TRUE(write("a", {{"x"}}).ok());
    device->state().fail_next = {PERGOLA_ERROR(kDeviceLost, "The device is lost.")};
    ASSERT_TRUE(write("b", {{"y"}}).ok());
    turns(40);
    const Status told = read("y");
    EXPECT_EQ(told.code(), Code::kDeviceLost);
    if (plain.empty()) plain = told.message();
    EXPECT_EQ(told.message(), plain);
    EXPECT_NE(plain.find("'b'"), std::string::npos) << plain;
  }
  // It is learnt while they are repeated.
  start_again("graphs=recurring,fork-cost=0");
  turns(200);
  device->state().host_ns += 1e6;
  ASSERT_TRUE(read("y").ok());
  turns(30);
  device->state().fail_next = {PERGOLA_ERROR(kDeviceLost, "The device is lost.")};
  turns(10);
  device->state().host_ns += 1e9;
  Status told;
  for (int i = 0; i < 1000 && told.ok(); ++i) {
    told = write("a", {{"x"}});
    if (told.ok()) told = write("b", {{"y"}});
    if (told.ok()) told = write("c", {{"x"}, {"y", Mode::kRead}});
  }
  if (told.ok()) told = read("y");
  EXPECT_EQ(told.code(), Code::kDeviceLost);
  EXPECT_NE(told.message().find("'a' or 'c'"), std::string::npos) << told.message();
}

// Many tiles of one array: who wrote those that have ended is forgotten now and then, here as a turn's last launch
// comes. Turns learnt so, on a device that is faster than the host, are none for a host that is faster.
TEST_F(TurnRepetitions, WhoHasEndedAndIsForgotten_IsComeAfterWhereTheNextHasNotEnded) {
  static constexpr double kNs = 20000;
  static constexpr std::uint64_t kTiles = 63, kRead = 30;
  for (const char* const policy : {"graphs=off", "graphs=recurring"}) {
    start_again(policy);
    const auto next = [&](const std::string& name, const std::vector<Use>& uses, double pace, double ns) {
      device->state().host_ns += pace;
      ASSERT_TRUE(write(name, uses, ns).ok());
    };
    const auto turn = [&](double pace) {
      double written = 0;
      for (std::uint64_t i = 0; i < kTiles; ++i) {
        next(fmt::format("w{}", i), {{"x", Mode::kWrite, {10 * i, 10 * i + 10}}}, pace, i == kRead ? 40 * kNs : kNs);
        if (i == kRead) written = last().end_ns;
      }
      for (int i = 0; i < 8; ++i) next(fmt::format("o{}", i), {{fmt::format("y{}", i), Mode::kWrite}}, pace, kNs);
      next("r", {{"x", Mode::kRead, {10 * kRead, 10 * kRead + 10}}, {"z", Mode::kWrite}}, pace, kNs);
      EXPECT_GE(last().start_ns, written) << policy;
    };
    next("p", {{"p1"}}, 0, kNs);
    next("q", {{"p2"}}, 0, kNs);
    for (int i = 0; i < 12; ++i) turn(60 * kNs);
    for (int i = 0; i < 2; ++i) turn(0);
    EXPECT_TRUE(scheduler->synchronize().ok());
  }
}

// Neither is in the way: what may be anything, and has ended; nor an upload that nobody of the turn uses.
TEST_F(TurnRepetitions, WhatHasEndedOrIsOfOthers_IsNoReasonToPlaceThemAnew) {
  for (const bool is_upload : {false, true}) {
    start_again("graphs=recurring,fork-cost=0");
    ASSERT_TRUE(write("a", {{"x"}}).ok());
    const Access access = all("unused", Mode::kWrite);
    ASSERT_TRUE(submit("other",
                       {.kind = is_upload ? WorkKind::kCopyToDevice : WorkKind::kKernel,
                        .accesses = std::span(&access, 1),
                        .universal = is_upload ? Mode::kNone : Mode::kReadWrite},
                       5)
                    .ok());
    device->state().host_ns += 1000;
    for (int i = 0; i < 300; ++i) {
      device->state().host_ns += 3;
      turns(1);
    }
    EXPECT_GT(repeated(), 400u) << (is_upload ? "an upload" : "what may be anything");
    ASSERT_TRUE(scheduler->synchronize().ok());
  }
}

// What is known of kernels' times may be another by then.
TEST_F(TurnRepetitions, ATurnIsPlacedAnew_NowAndThen) {
  open("graphs=recurring,fork-cost=0");
  scheduler->set_queue_trust(std::chrono::nanoseconds(0));
  turns(200);
  const std::uint64_t before = repeated();
  turns(static_cast<int>(TurnRepetition::kMostRepeated));  // three times as many launches
  constexpr std::uint64_t kTurn = 3, kAnew = 3;
  const std::uint64_t placed = kTurn * TurnRepetition::kMostRepeated - (repeated() - before);
  EXPECT_GE(placed, kAnew * kTurn) << "now and then";
  EXPECT_LT(placed, kAnew * kTurn + 3 * kTurn) << "and behind the look";
  ASSERT_TRUE(scheduler->synchronize().ok());
}

// Of kernels, sizes and places in memory; of which now and then one is left out, or something comes in between.
TEST_F(RandomRepetitions, Turns_AreWrittenDownAsWithoutThem) {
  compare_random({"", ",dependency=no-const", ",retrieve-parent-stream=same-as-parent", ",fork-cost=0", ",fork-cost=0",
                  ",fork-cost=0,dependency=no-const"},
                 {0, 0, 0.2, 0.7, 2}, [](std::mt19937_64& random) {
                   const std::uint64_t rare = 40 + random() % 400;
                   return random_loops(random,
                                       {.loops = 2,
                                        .launches = 500,
                                        .arrays = 4,
                                        .kernels = 4,
                                        .others = 7,
                                        .one_other_in = rare,
                                        .one_left_out_in = rare},
                                       [&] { return 2 + random() % 6; });
                 });
}

}  // namespace
}  // namespace pergola::scheduler::testing
