// Launches behind their like (repetition.h): written down as any other would be, and only where nothing is different.
#include "src/scheduler/repetition_fixture.h"

namespace pergola::scheduler::testing {
namespace {

TEST_F(Repetitions, AChain_IsWrittenDownAsWithoutThem) {
  const std::vector<Use> uses{{"x"}, {"y", Mode::kWrite}};
  std::vector<std::string> plain;
  Counters counted;
  for (const char* const policy : {"graphs=off", "graphs=recurring"}) {
    start_again(policy);
    write_times(500, "a", uses);
    if (plain.empty()) {
      plain = story();
      counted = scheduler->counters();
      EXPECT_EQ(counted.repeated, 0u);
      continue;
    }
    EXPECT_EQ(difference(story(), plain), "");
    const Counters with = scheduler->counters();
    EXPECT_GE(with.repeated, 250u);
    EXPECT_EQ(with.computations, counted.computations);
    EXPECT_EQ(with.dependencies, counted.dependencies);
    EXPECT_EQ(with.streams, counted.streams);
    EXPECT_EQ(with.waits, counted.waits);
    EXPECT_LE(scheduler->frontier_size(), 2u);
    EXPECT_EQ(kernel_launches(), 500u);
    ASSERT_TRUE(scheduler->synchronize().ok());
  }
}

// Its own end is what an event of it tells, and what the host waits for.
TEST_F(Repetitions, EachHasItsTicket_AndItsEnd) {
  open("graphs=recurring");
  const std::vector<Use> uses{{"x"}};
  learn("a", uses);
  device->state().host_ns += 1e6;
  ASSERT_TRUE(scheduler->synchronize().ok());
  until_repeated("a", uses);
  const std::uint64_t before = repeated();
  const Ticket first = ticket;
  ASSERT_TRUE(write("a", uses).ok());
  EXPECT_EQ(ticket, first + (1u << 10)) << "the next place on the same stream";
  EXPECT_EQ(repeated(), before + 1);
  const double end = device->state().of(Step::Kind::kLaunch).back().end_ns;
  ASSERT_TRUE(read("x").ok());
  EXPECT_EQ(device->state().host_ns, end);
  EXPECT_TRUE(scheduler->event_of(first).ok());
}

// Once it has ended there is nothing to come behind; and what is between two is before the second.
TEST_F(Repetitions, WhereSomethingCameBetween_TheNextIsPlacedAnew) {
  open("graphs=recurring");
  const std::vector<Use> uses{{"x"}};
  learn("a", uses);
  const auto is_anew = [&] {
    const std::uint64_t before = repeated();
    EXPECT_TRUE(write("a", uses).ok());
    const bool anew = repeated() == before;
    write_times(8, "a", uses);
    EXPECT_GT(repeated(), before) << "and those after it are repeated";
    return anew;
  };
  EXPECT_FALSE(is_anew());
  ASSERT_TRUE(read("x").ok());
  EXPECT_TRUE(is_anew()) << "the host has waited";
  ASSERT_TRUE(scheduler->event_of(ticket).ok());
  EXPECT_TRUE(is_anew()) << "there is an event behind the last";
  ASSERT_TRUE(run("b", {"x"}, {"z"}).ok());
  EXPECT_TRUE(is_anew()) << "another launch reads what it writes";
  ASSERT_TRUE(run("b", {}, {"z"}).ok());
  EXPECT_TRUE(is_anew()) << "another launch came";
  ASSERT_TRUE(scheduler->synchronize().ok());
}

TEST_F(Repetitions, OneThatTheDeviceRefuses_SaysSo_AndHasItsPlaceAllTheSame) {
  open("graphs=recurring");
  learn("a", {{"x"}});
  until_repeated("a", {{"x"}});
  const Counters before = scheduler->counters();
  device->state().refuse_launches = {PERGOLA_ERROR(kInvalidArgument, "refused")};
  EXPECT_EQ(write("a", {{"x"}}).code(), Code::kInvalidArgument);
  EXPECT_EQ(scheduler->counters().repeated, before.repeated + 1);
  EXPECT_EQ(scheduler->counters().computations, before.computations + 1);
  write_times(3, "a", {{"x"}});
  EXPECT_TRUE(scheduler->synchronize().ok());
}

TEST_F(Repetitions, OneThatFails_IsTold_AndThoseBehindItAreSkipped) {
  open("graphs=recurring");
  learn("a", {{"x"}});
  until_repeated("a", {{"x"}});
  device->state().fail_next = {PERGOLA_ERROR(kInternal, "it has failed")};
  write_times(3, "a", {{"x"}});
  const Status told = read("x");
  EXPECT_FALSE(told.ok());
  EXPECT_EQ(scheduler->synchronize().message(), "it has failed");
  write_times(20, "a", {{"x"}});
  EXPECT_TRUE(scheduler->synchronize().ok());
}

// A reader of one stream stands for those before it: no more of them are left than without repetitions.
TEST_F(Repetitions, ReadersDoNotGather) {
  open("graphs=recurring");
  const std::vector<Use> uses{{"x"}, {"c", Mode::kRead}};
  learn("a", uses);
  write_times(200, "a", uses);
  ASSERT_TRUE(run("b", {}, {"c"}).ok());
  const DagVertex last = scheduler->picture().vertices.back();
  ASSERT_EQ(last.more_edges, 0u);
  std::uint64_t latest = 0;
  for (std::uint32_t i = 0; i < last.edge_count; ++i) latest = std::max(latest, last.edges[i].parent);
  EXPECT_EQ(latest, last.id - 1);
  EXPECT_LE(scheduler->frontier_size(), 10u);
  ASSERT_TRUE(scheduler->synchronize().ok());
}

// Loops of one kernel or two, of which something in between, or another place in memory, breaks some.
TEST_F(RandomRepetitions, LoopsOfOneKernelOrTwo_AreWrittenDownAsWithoutThem) {
  compare_random({"", "", ",dependency=no-const", ",retrieve-parent-stream=same-as-parent", ",fork-cost=0"}, {0},
                 [](std::mt19937_64& random) {
                   return random_loops(random, {.loops = 3, .launches = 220, .arrays = 3, .kernels = 2, .others = 5},
                                       [&] { return 1 + (random() % 4 == 0 ? 1 : 0); });
                 });
}

}  // namespace
}  // namespace pergola::scheduler::testing
