// Events, failures, memory, and programs drawn at random against the sequential order.
#include "src/scheduler/scheduler.h"

#include <gmock/gmock.h>

#include <random>

#include "src/scheduler/scheduler_fixture.h"

namespace pergola::scheduler::testing {
namespace {

using ::testing::HasSubstr;

class Failures : public SchedulerTest {
 protected:
  void SetUp() override { open(); }
  void fail_next() { device->state().fail_next = {PERGOLA_ERROR(kDeviceFault, "Kernel 'bad' trapped.")}; }
};

TEST_F(SchedulerTest, WorkThatTheHostWillWaitFor_HasItsEventRightBehindIt) {
  open();
  const Access read_x = all("x", Mode::kRead), write_x = all("x", Mode::kWrite);
  const std::vector<Access> down{read_x, all("host", Mode::kWrite)};
  ASSERT_TRUE(submit("make", {.accesses = std::span(&write_x, 1)}, 1000).ok());
  ASSERT_TRUE(submit("read", {.accesses = std::span(&read_x, 1)}, 1000).ok());
  const std::size_t before = device->state().of(Step::Kind::kRecord).size();
  ASSERT_TRUE(submit("download", {.accesses = down, .host_waits = true}, 1000).ok());
  const std::size_t with_it = device->state().of(Step::Kind::kRecord).size();
  EXPECT_GT(with_it, before);
  // And it is that event that is waited for.
  ASSERT_TRUE(read("host").ok());
  EXPECT_EQ(device->state().of(Step::Kind::kRecord).size(), with_it);
}

TEST_F(SchedulerTest, OfSeveralThatTheHostWillWaitFor_TheFirstHasItsEventAtOnce_TheOthersWhenItWaits) {
  open();
  const auto records = [&] { return device->state().of(Step::Kind::kRecord).size(); };
  const auto download = [&](const std::string& name) {
    const std::vector<Access> down{all(name, Mode::kRead), all(name + " host", Mode::kWrite)};
    ASSERT_TRUE(submit("download", {.accesses = down, .host_waits = true}, 1000).ok());
  };
  for (int round = 0; round < 2; ++round) {
    for (const char* name : {"x", "y", "z"}) ASSERT_TRUE(run("make", {}, {name}).ok());
    ASSERT_TRUE(scheduler->synchronize().ok());  // so that nothing else wants events
    const std::size_t before = records();
    for (const char* name : {"x", "y", "z"}) download(name);
    EXPECT_EQ(records(), before + 1);
    ASSERT_TRUE(read("x host").ok());
    const std::size_t told = records();
    EXPECT_EQ(told, before + 3) << "each is on a stream of its own";
    ASSERT_TRUE(read("z host").ok());
    ASSERT_TRUE(read("y host").ok());
    EXPECT_EQ(records(), told);
  }
}

// What the host never waits for has no event in the end, and is known to have ended like all else.
TEST_F(SchedulerTest, WhatNobodyWaitedForByItself_HasEndedWithTheSession) {
  open();
  for (int i = 0; i < 200; ++i) {
    const std::vector<Access> down{all("x", Mode::kRead), all("x host", Mode::kWrite)};
    ASSERT_TRUE(submit("download", {.accesses = down, .host_waits = true}, 1000).ok());
  }
  ASSERT_TRUE(scheduler->synchronize().ok());
  EXPECT_EQ(device->state().host_ns, device->state().end_ns());
  ASSERT_TRUE(read("x host").ok());
}

TEST_F(Failures, ReaderOfWhatFailed_IsTold_AndSynchronizeClears) {
  fail_next();
  ASSERT_TRUE(run("bad", {}, {"x"}).ok()) << "it fails when it runs, not when it is queued";
  ASSERT_TRUE(run("child", {"x"}, {"y"}).ok());
  const Status status = read("y");
  EXPECT_EQ(status.code(), Code::kDeviceFault) << status.message();
  EXPECT_EQ(read("y").code(), Code::kDeviceFault) << "till it is cleared";
  EXPECT_EQ(scheduler->synchronize().code(), Code::kDeviceFault);
  EXPECT_TRUE(scheduler->synchronize().ok());
  EXPECT_TRUE(read("y").ok());
}

// What fails without depending on the first failure is told with it, each once; then all are cleared.
TEST_F(Failures, OfSeveral_SynchronizeTellsAll) {
  const auto fail = [&](int n) {
    device->state().fail_next.push_back(PERGOLA_ERROR(kDeviceFault, "Kernel 'bad {}' trapped.", n));
    ASSERT_TRUE(run("bad", {}, {"x" + std::to_string(n)}).ok());
  };
  fail(0), fail(1);
  ASSERT_TRUE(run("child", {"x0"}, {"y"}).ok());  // skipped: no failure of its own
  EXPECT_EQ(scheduler->synchronize().message(), "Kernel 'bad 0' trapped. Failed besides: Kernel 'bad 1' trapped.");
  EXPECT_TRUE(scheduler->synchronize().ok());
  for (int n = 0; n < 7; ++n) fail(n);
  EXPECT_EQ(read("x3").code(), Code::kDeviceFault);
  const std::string all = scheduler->synchronize().message();
  EXPECT_EQ(all.rfind("Kernel 'bad 3' trapped. Failed besides: Kernel 'bad ", 0), 0u) << all;
  EXPECT_THAT(all, ::testing::EndsWith(" trapped. And 2 more."));
  EXPECT_TRUE(scheduler->synchronize().ok());
}

TEST_F(Failures, ChildOnAnotherStream_TellsTheCause) {
  ASSERT_TRUE(run("good", {}, {"a"}).ok());
  fail_next();
  ASSERT_TRUE(run("bad", {}, {"b"}).ok());
  ASSERT_TRUE(run("child", {"a", "b"}, {"c"}).ok());
  const Status status = read("c");
  EXPECT_EQ(status.code(), Code::kDeviceFault) << status.message();
  EXPECT_THAT(status.message(), HasSubstr("'bad'"));
}

TEST_F(Failures, EnqueueThatFails_IsTheCallsOwn_AndOrderStands) {
  ASSERT_TRUE(run("writer", {}, {"x"}, 500).ok());
  const Access access = all("x", Mode::kWrite);
  const Status status =
      scheduler->submit({.site = scheduler->site("refused"), .accesses = std::span(&access, 1)},
                        [](device::Queue&) { return Status(PERGOLA_ERROR(kInvalidArgument, "No.")); });
  EXPECT_EQ(status.code(), Code::kInvalidArgument);
  ASSERT_TRUE(read("x").ok());
  EXPECT_DOUBLE_EQ(device->state().host_ns, 500) << "what the refused one was to follow";
}

// Its stream does not come after its parents, so what comes next must not come after that stream alone.
TEST_F(Failures, WorkWhoseStreamCannotWait_LeavesItsPlaceToItsParents) {
  ASSERT_TRUE(run("quick", {}, {"x"}, 100).ok());
  ASSERT_TRUE(run("slow", {}, {"y"}, 500).ok());
  device->state().refuse_waits = {PERGOLA_ERROR(kInternal, "No.")};
  EXPECT_EQ(run("both", {"x", "y"}, {"x", "y"}).code(), Code::kInternal);
  ASSERT_TRUE(run("both", {"x", "y"}, {"x", "y"}).ok());
  EXPECT_DOUBLE_EQ(device->state().of(Step::Kind::kLaunch).back().start_ns, 500);
  device->state().refuse_waits = {PERGOLA_ERROR(kInternal, "No.")};
  EXPECT_TRUE(run("again", {}, {"z"}, 900).ok());
  EXPECT_EQ(run("all", {"x", "z"}, {"y"}).code(), Code::kInternal);
  ASSERT_TRUE(read("y").ok());
  EXPECT_DOUBLE_EQ(device->state().host_ns, 900) << "the host comes after the parents, too";
}

TEST_F(Failures, WorkWithoutAStream_LeavesItsPlaceToItsParents) {
  ASSERT_TRUE(run("reader", {"x"}, {}, 300).ok());
  ASSERT_TRUE(run("other", {"x"}, {}, 500).ok());
  for (int i = 0; i < 3; ++i) {
    device->state().refuse_queues = {PERGOLA_ERROR(kInternal, "No.")};
    EXPECT_EQ(run("refused", {"x"}, {"y"}).code(), Code::kInternal);
    device->state().refuse_queues = {};
  }
  ASSERT_TRUE(run("writer", {}, {"x", "y"}).ok());
  EXPECT_DOUBLE_EQ(device->state().of(Step::Kind::kLaunch).back().start_ns, 500);
  scheduler->retire(std::move(arrays["x"]), nullptr);
}

TEST_F(Failures, FailureOnAnIdleStreamThatIsReused_IsNotForgotten) {
  fail_next();
  ASSERT_TRUE(run("bad", {}, {"x"}).ok());
  device->state().host_ns = 1e6;
  ASSERT_TRUE(run("other", {}, {"y"}).ok());
  EXPECT_EQ(read("x").code(), Code::kDeviceFault);
}

// Whatever stream it gets, and although the host has seen the failure meanwhile.
TEST_F(Failures, WhatDependsOnAFailureThatWasTold_IsSkipped_UntilSynchronize) {
  ASSERT_TRUE(run("good", {}, {"x"}).ok());
  ASSERT_TRUE(run("another stream's", {}, {"y"}).ok());
  ASSERT_TRUE(scheduler->synchronize().ok());
  const auto outcome = [&](const char* name, Mode mode) {
    const Access access = all("x", mode);
    device::EventPtr event;
    const Status status = submit(name, {.accesses = std::span(&access, 1)}, 100, &event);
    return status.ok() ? event->wait(std::nullopt) : status;
  };
  fail_next();
  EXPECT_EQ(outcome("bad", Mode::kReadWrite).code(), Code::kDeviceFault);
  for (const Mode mode : {Mode::kRead, Mode::kRead, Mode::kReadWrite}) {
    EXPECT_EQ(read("x").code(), Code::kDeviceFault);
    EXPECT_FALSE(outcome("child", mode).ok()) << streams();
  }
  EXPECT_FALSE(scheduler->release_kept_by_queues()) << "which would let them go on";
  EXPECT_FALSE(outcome("child", Mode::kRead).ok());
  EXPECT_EQ(streams(), "good:0 another stream's:1 bad:0 child:0 child:1 child:0 child:0");
  device::EventPtr free;
  EXPECT_TRUE(submit("independent", {}, 100, &free).ok());
  EXPECT_TRUE(free->wait(std::nullopt).ok()) << "on a stream that has not failed: " << streams();
  EXPECT_EQ(scheduler->synchronize().code(), Code::kDeviceFault);
  EXPECT_TRUE(outcome("child", Mode::kReadWrite).ok());
  EXPECT_TRUE(read("x").ok());
  EXPECT_TRUE(scheduler->release_kept_by_queues());
}

class Memory : public SchedulerTest {
 protected:
  void SetUp() override { open(); }
};

TEST_F(Memory, FreedInUse_StaysUntilItsLastUserHasEnded) {
  auto buffer = *device->allocate(64, device::MemoryKind::kDevice);
  ASSERT_TRUE(run("user", {"x"}, {"y"}, 1000).ok());
  scheduler->retire(std::move(arrays["x"]), std::move(buffer));
  EXPECT_EQ(device->buffers_alive(), 1);
  device->state().host_ns = 999;
  scheduler->create_resource(1);
  EXPECT_EQ(device->buffers_alive(), 1);
  device->state().host_ns = 1000;
  scheduler->create_resource(1);
  EXPECT_EQ(device->buffers_alive(), 0);
}

TEST_F(Memory, FreedUnused_GoesAtOnce) {
  auto buffer = *device->allocate(64, device::MemoryKind::kDevice);
  array("x");
  scheduler->retire(std::move(arrays["x"]), std::move(buffer));
  EXPECT_EQ(device->buffers_alive(), 0);
}

TEST_F(Memory, FreedBesideAUniversalAccess_WaitsForIt) {
  auto buffer = *device->allocate(64, device::MemoryKind::kDevice);
  array("x");
  ASSERT_TRUE(submit("anything", {.universal = Mode::kRead}, 1000).ok());
  scheduler->retire(std::move(arrays["x"]), std::move(buffer));
  EXPECT_EQ(device->buffers_alive(), 1);
  ASSERT_TRUE(scheduler->synchronize().ok());
  EXPECT_EQ(device->buffers_alive(), 0);
}

class Events : public SchedulerTest {};

TEST_F(Events, OfALaunch_EndsWithIt) {
  open();
  device::EventPtr event;
  const Access access = all("x", Mode::kWrite);
  ASSERT_TRUE(submit("k", {.accesses = std::span(&access, 1)}, 300, &event).ok());
  ASSERT_TRUE(run("later", {}, {"x"}, 1000).ok());
  ASSERT_TRUE(event->wait().ok());
  EXPECT_DOUBLE_EQ(device->state().host_ns, 300);
}

TEST_F(Events, Record_CoversAllStreams) {
  open();
  ASSERT_TRUE(run("a", {}, {"x"}, 300).ok());
  ASSERT_TRUE(run("b", {}, {"y"}, 500).ok());
  ASSERT_TRUE(run("c", {}, {"z"}, 400).ok());
  const auto event = scheduler->record();
  ASSERT_TRUE(event.ok()) << event.message();
  ASSERT_TRUE((*event)->wait().ok());
  EXPECT_DOUBLE_EQ(device->state().host_ns, 500);
}

TEST_F(Events, KernelWhoseEventsNobodyUses_GetsNone) {
  predict = true;
  open();
  for (int i = 0; i < 100; ++i)
    ASSERT_TRUE(run(i % 2 == 0 ? "ping" : "pong", {i % 2 == 0 ? "x" : "y"}, {i % 2 == 0 ? "y" : "x"}).ok());
  EXPECT_LE(scheduler->counters().events, 12u);
  EXPECT_EQ(scheduler->counters().streams, 1u);
  // Once one is wanted after all, it is late, and from then on it is there.
  ASSERT_TRUE(run("ping", {"x"}, {"y"}).ok());
  ASSERT_TRUE(run("pong", {"y"}, {"x"}).ok());
  ASSERT_TRUE(run("other", {"y"}, {"z"}).ok());
  EXPECT_EQ(scheduler->counters().late_events, 1u);
  ASSERT_TRUE(run("ping", {"x"}, {"y"}).ok());
  ASSERT_TRUE(run("pong", {"y"}, {"x"}).ok());
  ASSERT_TRUE(run("other", {"y"}, {"z"}).ok());
  EXPECT_EQ(scheduler->counters().late_events, 1u);
}

// Each launch of a random program, at its virtual time: whatever conflicts in the order of submission must not overlap.
struct Ran {
  std::vector<std::tuple<int, Range, Mode>> accesses;
  double start_ns = 0, end_ns = 0;
};

bool conflict(const Ran& a, const Ran& b) {
  for (const auto& [array_a, range_a, mode_a] : a.accesses)
    for (const auto& [array_b, range_b, mode_b] : b.accesses)
      if (array_a == array_b && range_a.begin < range_b.end && range_b.begin < range_a.end &&
          (writes(mode_a) || writes(mode_b)))
        return true;
  return false;
}

class RandomPrograms : public SchedulerTest, public ::testing::WithParamInterface<const char*> {};

TEST_P(RandomPrograms, NothingThatConflictsOverlaps) {
  const std::uint64_t seed = std::random_device{}();
  SCOPED_TRACE(fmt::format("seed {}", seed));
  std::mt19937_64 random(seed);
  const auto below = [&](std::uint64_t bound) { return random() % bound; };
  for (int program = 0; program < 300; ++program) {
    arrays.clear();
    device->state() = FakeState();
    predict = program % 2 == 0;
    open(GetParam());
    std::vector<Ran> ran;
    for (int i = 0; i < 30; ++i) {
      std::vector<Access> accesses;
      Ran one;
      for (std::uint64_t n = 1 + below(3); n > 0; --n) {
        const int which = static_cast<int>(below(3));
        std::uint64_t begin = below(kBytes), end = below(kBytes + 1);
        if (begin > end) std::swap(begin, end);
        const auto mode = static_cast<Mode>(1 + below(3));
        accesses.push_back({&array(fmt::format("a{}", which)), {begin, end}, mode});
        if (begin < end) one.accesses.emplace_back(which, Range{begin, end}, mode);
      }
      static const char* const names[] = {"k0", "k1", "k2"};
      ASSERT_TRUE(submit(names[below(3)], {.accesses = accesses}, static_cast<double>(1 + below(200))).ok());
      const Step step = device->state().of(Step::Kind::kLaunch).back();
      one.start_ns = step.start_ns;
      one.end_ns = step.end_ns;
      for (const Ran& before : ran)
        if (conflict(before, one)) {
          ASSERT_LE(before.end_ns, one.start_ns) << "program " << program << " launch " << i;
        }
      ran.push_back(one);
      if (below(8) == 0) {
        const int which = static_cast<int>(below(3));
        const std::uint64_t begin = below(kBytes);
        const auto mode = static_cast<Mode>(1 + below(3));
        const Access host{&array(fmt::format("a{}", which)), {begin, begin + 1 + below(kBytes - begin)}, mode};
        ASSERT_TRUE(scheduler->begin_host_access(host).ok());
        const Ran access{{{which, host.range, mode}}, 0, 0};
        for (const Ran& before : ran)
          if (conflict(before, access)) {
            ASSERT_LE(before.end_ns, device->state().host_ns);
          }
      }
      if (below(20) == 0) device->state().host_ns += static_cast<double>(below(500));
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Policies, RandomPrograms,
                         ::testing::Values("", "retrieve-new-stream=always-new",
                                           "retrieve-parent-stream=same-as-parent", "dependency=no-const",
                                           "max-streams=2", "execution=sync", "max-streams=1,dependency=no-const"));

}  // namespace
}  // namespace pergola::scheduler::testing
