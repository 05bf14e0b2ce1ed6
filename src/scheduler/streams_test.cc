// Streams, events and waits (paper 003, IV-C), asserted exactly for the six DAGs of its Figure 6.
#include <gmock/gmock.h>

#include "src/scheduler/scheduler_fixture.h"

namespace pergola::scheduler::testing {
namespace {

// The six programs, as a user writes them: one kernel after the other.
class Figure6 : public SchedulerTest {
 public:
  // In the first round every event that may be of use is recorded; in the eighth only those that are: `events` says
  // behind which kernel each is, and which one waits for it ("reduce<square2").
  void expect(void (Figure6::*program)(), const char* on_streams, const char* its_waits, const char* events) {
    predict = true;
    open();
    (this->*program)();
    EXPECT_EQ(streams(), on_streams);
    EXPECT_EQ(waits(), its_waits);
    EXPECT_EQ(behind(), events);
    const std::uint64_t so_many = scheduler->counters().streams;
    for (int round = 2; round <= 8; ++round) {
      ASSERT_TRUE(scheduler->synchronize().ok());
      device->state().steps.clear();
      (this->*program)();
      EXPECT_EQ(behind(), events) << "in round " << round;
    }
    EXPECT_EQ(device->state().of(Step::Kind::kRecord).size(), device->state().of(Step::Kind::kWait).size())
        << "none but those that are waited for";
    EXPECT_EQ(scheduler->counters().streams, so_many);
    EXPECT_EQ(scheduler->counters().late_events, 0u);
  }
  // Of the steps so far, whose launches are the latest of the log.
  std::string behind() const {
    std::vector<std::string> names;
    for (const DagVertex& vertex : scheduler->picture().vertices)
      if (vertex.is_on_stream()) names.emplace_back(vertex.name);
    auto name = names.end() - static_cast<std::ptrdiff_t>(kernel_launches());
    std::map<std::uint32_t, std::string> last, of_event;              // by queue; by event
    std::map<std::uint32_t, std::vector<std::string>> is_waited_for;  // by queue, until its next launch
    std::string text;
    for (const Step& step : device->state().steps) {
      if (step.kind == Step::Kind::kRecord) of_event[step.event] = last[step.queue];
      if (step.kind == Step::Kind::kWait) is_waited_for[step.queue].push_back(of_event.at(step.event));
      if (step.kind != Step::Kind::kLaunch) continue;
      last[step.queue] = *name;
      for (const std::string& other : is_waited_for[step.queue])
        text += fmt::format("{}{}<{}", text.empty() ? "" : " ", *name, other);
      is_waited_for[step.queue].clear();
      ++name;
    }
    return text;
  }

  void vec() {
    go("square1", {"x"}, {"x1"});
    go("square2", {"y"}, {"y1"});
    go("reduce", {"x1", "y1"}, {"z"});
  }
  void black_scholes() {
    static const std::string names[] = {"p0", "p1", "p2", "p3", "p4", "p5", "p6", "p7", "p8", "p9"};
    for (const std::string& name : names) go("bs", {name}, {name + "_out"});
  }
  void images() {
    go("blur_small", {"image", "kernel_small"}, {"b_small"});
    go("blur_large", {"image", "kernel_large"}, {"b_large"});
    go("blur_unsharpen", {"image", "kernel_unsharpen"}, {"b_unsharpen"});
    go("sobel_small", {"b_small"}, {"mask_small"});
    go("sobel_large", {"b_large"}, {"mask_large"});
    go("maximum", {"mask_large"}, {"max"});
    go("minimum", {"mask_large"}, {"min"});
    go("extend", {"mask_large", "max", "min"}, {"mask_large"});
    go("unsharpen", {"image", "b_unsharpen"}, {"sharp"});
    go("combine1", {"sharp", "b_large", "mask_large"}, {"i2"});
    go("combine2", {"i2", "b_small", "mask_small"}, {"i3"});
  }
  void ml() {
    go("rr1", {"x"}, {"z"});
    go("rr2", {"z", "ridge"}, {"r2"});
    go("rr3", {"r2", "ridge_intercept"}, {"r2"});
    go("nb1", {"x", "bayes"}, {"r1"});
    go("nb2", {"r1"}, {"amax"});
    go("nb3", {"r1", "amax"}, {"l"});
    go("nb4", {"r1", "l"}, {"r1"});
    go("softmax_nb", {"r1"}, {"r1"});
    go("softmax_rr", {"r2"}, {"r2"});
    go("argmax", {"r1", "r2"}, {"r"});
  }
  void hits() {
    for (int i = 0; i < 2; ++i) {
      go("spmv_authority", {"transposed", "hub"}, {"authority_new"});
      go("spmv_hub", {"matrix", "authority"}, {"hub_new"});
      go("sum_authority", {"authority_new"}, {"authority_norm"});
      go("sum_hub", {"hub_new"}, {"hub_norm"});
      go("divide_authority", {"authority_new", "authority_norm"}, {"authority"});
      go("divide_hub", {"hub_new", "hub_norm"}, {"hub"});
    }
  }
  void deep_learning() {
    for (const std::string side : {"x", "y"}) {
      go("conv1", {side, side + "_kernel1"}, {side + "1"});
      go("pool", {side + "1"}, {side + "2"});
      go("conv2", {side + "2", side + "_kernel2"}, {side + "3"});
    }
    go("concat", {"x3", "y3"}, {"z"});
    go("dense", {"z", "weights"}, {"result"});
  }

  void go(const char* name, std::vector<std::string> in, std::vector<std::string> out) {
    const Status status = run(name, std::move(in), std::move(out));
    ASSERT_TRUE(status.ok()) << status.message();
  }
};

TEST_F(SchedulerTest, LargeCopiesFromTheHost_GoOneAfterTheOther) {
  open();
  std::map<std::string, std::unique_ptr<Resource>> large;
  const auto copy = [&](const char* name, std::uint64_t bytes) {
    auto& resource = large[name] = scheduler->create_resource(bytes);
    const Access written{resource.get(), {0, bytes}, Mode::kWrite};
    ASSERT_TRUE(submit(name, {.kind = WorkKind::kCopyToDevice, .accesses = std::span(&written, 1)}, 1000).ok());
  };
  const auto use = [&](const char* name, const char* of) {
    const Access read{large[of].get(), {0, large[of]->size_bytes()}, Mode::kRead};
    ASSERT_TRUE(submit(name, {.accesses = std::span(&read, 1)}, 5000).ok());
  };
  copy("a", 4'000'000), copy("b", 4'000'000), copy("small", 1000);
  use("ka", "a"), use("kb", "b");
  EXPECT_EQ(streams(), "a:0 b:0 small:1 ka:2 kb:0") << "a's user waits for a alone";
  EXPECT_EQ(waits(), "2<0");
  EXPECT_EQ(scheduler->counters().late_events, 0u);
  large.clear();
}

TEST_F(Figure6, Vec) {
  expect(&Figure6::vec, "square1:0 square2:1 reduce:0", "0<1", "reduce<square2");
}

TEST_F(Figure6, BlackScholes) {
  expect(&Figure6::black_scholes, "bs:0 bs:1 bs:2 bs:3 bs:4 bs:5 bs:6 bs:7 bs:8 bs:9", "", "");
}

TEST_F(Figure6, Images) {
  // maximum follows sobel_large, minimum goes elsewhere; combine1 follows unsharpen and waits for extend, which waited
  // for minimum; combine2 needs only a wait for sobel_small.
  expect(&Figure6::images,
         "blur_small:0 blur_large:1 blur_unsharpen:2 sobel_small:0 sobel_large:1 maximum:1 minimum:3 extend:1 "
         "unsharpen:2 combine1:2 combine2:2",
         "3<1 1<3 2<1 2<0", "minimum<sobel_large extend<minimum combine1<extend combine2<sobel_small");
}

TEST_F(Figure6, MachineLearning) {
  expect(&Figure6::ml, "rr1:0 rr2:0 rr3:0 nb1:1 nb2:1 nb3:1 nb4:1 softmax_nb:1 softmax_rr:0 argmax:1", "1<0",
         "argmax<softmax_rr");
}

TEST_F(Figure6, Hits) {
  // Each half reads what the other wrote an iteration ago (RAW), and overwrites what the other reads (WAR).
  expect(&Figure6::hits,
         "spmv_authority:0 spmv_hub:1 sum_authority:0 sum_hub:1 divide_authority:0 divide_hub:1 "
         "spmv_authority:1 spmv_hub:0 sum_authority:1 sum_hub:0 divide_authority:1 divide_hub:0",
         "0<1 1<0 1<0 0<1 1<0 0<1",
         "divide_authority<spmv_hub divide_hub<spmv_authority spmv_authority<divide_authority spmv_hub<divide_hub "
         "divide_authority<spmv_hub divide_hub<spmv_authority");
}

TEST_F(Figure6, DeepLearning) {
  expect(&Figure6::deep_learning, "conv1:0 pool:0 conv2:0 conv1:1 pool:1 conv2:1 concat:0 dense:0", "0<1",
         "concat<conv2");
}

class StreamPolicies : public SchedulerTest {};

TEST_F(StreamPolicies, SameAsParent_PutsAllChildrenOnItsStream) {
  open("retrieve-parent-stream=same-as-parent");
  ASSERT_TRUE(run("parent", {}, {"x"}).ok());
  ASSERT_TRUE(run("child1", {"x"}, {"y"}).ok());
  ASSERT_TRUE(run("child2", {"x"}, {"z"}).ok());
  EXPECT_EQ(streams(), "parent:0 child1:0 child2:0");
  EXPECT_EQ(waits(), "");
}

TEST_F(StreamPolicies, Disjoint_PutsLaterChildrenElsewhere) {
  open();
  ASSERT_TRUE(run("parent", {}, {"x"}).ok());
  ASSERT_TRUE(run("child1", {"x"}, {"y"}, 1e6).ok());
  ASSERT_TRUE(run("child2", {"x"}, {"z"}).ok());
  EXPECT_EQ(streams(), "parent:0 child1:0 child2:1");
  EXPECT_EQ(waits(), "1<0");
  EXPECT_DOUBLE_EQ(device->state().steps.back().start_ns, 100) << "behind the parent, not behind its sibling";
}

TEST_F(StreamPolicies, Reuse_TakesTheStreamFreeTheLongest) {
  open();
  ASSERT_TRUE(run("a", {}, {"x"}, 100).ok());
  ASSERT_TRUE(run("b", {}, {"y"}, 50).ok());
  ASSERT_TRUE(run("c", {}, {"z"}, 1e6).ok());
  device->state().host_ns = 200;
  ASSERT_TRUE(run("d", {}, {"u"}, 1e6).ok());
  ASSERT_TRUE(run("e", {}, {"v"}, 1e6).ok());
  ASSERT_TRUE(run("f", {}, {"w"}, 1e6).ok());
  EXPECT_EQ(streams(), "a:0 b:1 c:2 d:0 e:1 f:3");
}

TEST_F(StreamPolicies, Reuse_TakesAStreamThatIsFreeByTheTimeTheParentsEnd) {
  open();
  for (int round = 0; round < 20; ++round) {
    ASSERT_TRUE(run("left", {"x"}, {"x"}).ok());
    ASSERT_TRUE(run("right", {"y"}, {"y"}).ok());  // the join before has read y, and left has followed it
    ASSERT_TRUE(run("join", {"x", "y"}, {"x"}).ok());
  }
  EXPECT_EQ(scheduler->counters().streams, 2u) << "nothing has ended, and yet right's stream is free each time";
}

TEST_F(StreamPolicies, AlwaysNew_ReusesNone) {
  open("retrieve-new-stream=always-new");
  ASSERT_TRUE(run("a", {}, {"x"}).ok());
  device->state().host_ns = 1e9;
  ASSERT_TRUE(run("b", {}, {"y"}).ok());
  ASSERT_TRUE(run("c", {}, {"z"}).ok());
  EXPECT_EQ(streams(), "a:1 b:2 c:3") << "the first stream is there from the beginning";
}

TEST_F(StreamPolicies, AtTheBound_TheLeastRecentlyUsedIsTaken) {
  open("max-streams=2");
  for (const char* name : {"a", "b", "c", "d"}) ASSERT_TRUE(run(name, {}, {name}).ok());
  EXPECT_EQ(streams(), "a:0 b:1 c:0 d:1");
}

TEST_F(StreamPolicies, DeviceWithoutFurtherQueues_SharesThoseItHas) {
  device->most_queues = 2;
  open();
  for (const char* name : {"a", "b", "c"}) ASSERT_TRUE(run(name, {}, {name}).ok());
  EXPECT_EQ(streams(), "a:0 b:1 c:0");
}

TEST_F(StreamPolicies, Sync_WaitsForEachLaunch) {
  open("execution=sync");
  ASSERT_TRUE(run("a", {}, {"x"}, 100).ok());
  EXPECT_DOUBLE_EQ(device->state().host_ns, 100);
  ASSERT_TRUE(run("b", {}, {"y"}, 100).ok());
  EXPECT_DOUBLE_EQ(device->state().host_ns, 200);
}

TEST_F(StreamPolicies, ImpliedWaits_AreLeftOut) {
  open();
  ASSERT_TRUE(run("a", {}, {"x"}).ok());
  ASSERT_TRUE(run("b", {}, {"y"}).ok());
  ASSERT_TRUE(run("c", {"x", "y"}, {"z"}).ok());  // stream 0 waits for stream 1
  ASSERT_TRUE(run("d", {"y"}, {"u"}).ok());       // stream 1 again: b's first child of its own
  ASSERT_TRUE(run("e", {"z", "y"}, {"v"}).ok());  // on stream 0, which has waited for b
  EXPECT_EQ(streams(), "a:0 b:1 c:0 d:1 e:0");
  EXPECT_EQ(waits(), "0<1");
}

// Two chains that meet again and again: many events, and each question whether one has ended is a call of the driver.
class ManyEvents : public SchedulerTest {
 protected:
  void SetUp() override { open(); }
  void fork_and_join(int rounds) {
    for (int i = 0; i < rounds; ++i) {
      ASSERT_TRUE(run("left", {"x"}, {"x"}).ok());
      ASSERT_TRUE(run("right", {"y"}, {"y"}).ok());
      ASSERT_TRUE(run("join", {"x", "y"}, {"x", "y"}).ok());
    }
  }
  std::size_t questions() const { return device->state().questions; }
  std::uint64_t events() const { return scheduler->counters().events; }
};

TEST_F(ManyEvents, OfADeviceThatKeepsUp_FewAreAsked) {
  device->state().launch_ns = 70;  // the three of a round take a little longer than the two that follow each other run
  fork_and_join(1000);
  EXPECT_GE(events(), 900u);
  EXPECT_LE(questions(), events() / 4);
  EXPECT_LE(scheduler->frontier_size(), 200u);
}

TEST_F(ManyEvents, OfADeviceThatIsBehind_FewAreAsked) {
  fork_and_join(1000);
  EXPECT_GE(events(), 1000u);
  EXPECT_LE(questions(), events() / 4);
}

TEST_F(ManyEvents, AfterABacklog_NoMoreAreHeldThanBefore) {
  fork_and_join(2000);
  ASSERT_TRUE(scheduler->synchronize().ok());
  const std::size_t before = questions();
  device->state().launch_ns = 70;
  fork_and_join(300);
  EXPECT_GT(questions(), before) << "they are asked after 64 again";
}

TEST_F(ManyEvents, OfALostDevice_TheKernelIsNamed) {
  device->state().launch_ns = 70;
  fork_and_join(20);
  device->state().fail_next = {PERGOLA_ERROR(kDeviceLost, "The device is lost.")};
  ASSERT_TRUE(run("culprit", {"x"}, {"x"}).ok());
  ASSERT_TRUE(run("other", {"x", "y"}, {"y"}).ok());
  const Status told = scheduler->begin_host_access(all("x", Mode::kRead)).status();
  EXPECT_EQ(told.code(), Code::kDeviceLost);
  EXPECT_NE(told.message().find("'culprit'"), std::string::npos) << told.message();
}

TEST_F(ManyEvents, OfALostDevice_AllArraysAreNamed) {
  std::vector<std::unique_ptr<Resource>> known;
  for (std::uint64_t n = 0; n < 3; ++n) {
    known.push_back(scheduler->create_resource(1024 + n));
    known.back()->set_address(0x10000 + 0x1000 * n);
    scheduler->know_array(*known.back());
  }
  const std::uint64_t first = known[0]->id(), last = known[2]->id();
  scheduler->retire(std::move(known[1]), nullptr);
  device->state().fail_next = {PERGOLA_ERROR(kDeviceLost, "The device is lost.")};
  ASSERT_TRUE(run("culprit", {"x"}, {"x"}).ok());
  const Status told = scheduler->synchronize();
  const std::string expected = fmt::format(
      "The contents of 2 arrays are lost: array {} (1024 bytes at 0x10000), array {} (1026 bytes at 0x12000).", first,
      last);
  EXPECT_NE(told.message().find(expected), std::string::npos) << told.message();
  EXPECT_EQ(scheduler->lost_arrays(), expected);
  known.clear();
  EXPECT_NE(scheduler->lost_arrays(), "") << "they have not been retired";
}

// Those behind it are skipped: asked by halves, one of them could come first.
TEST_F(ManyEvents, WithAFailureAmongThem_ItIsToldAndNotThatOthersWereSkipped) {
  device->state().launch_ns = 1000;
  fork_and_join(10);
  device->state().fail_next = {PERGOLA_ERROR(kDeviceFault, "Kernel 'bad' trapped.")};
  ASSERT_TRUE(run("bad", {"x"}, {"x"}).ok());
  fork_and_join(100);
  const Status told = scheduler->synchronize();
  EXPECT_EQ(told.code(), Code::kDeviceFault) << told.message();
  EXPECT_EQ(told.message(), "Kernel 'bad' trapped.");
}

}  // namespace
}  // namespace pergola::scheduler::testing
