// Library calls as pieces of work, on the device with a virtual clock: streams, waits, and what other threads may do
// meanwhile.
#include <gmock/gmock.h>
#include <unistd.h>

#include <filesystem>
#include <future>
#include <thread>

#include "src/base/file.h"
#include "src/scheduler/scheduler_fixture.h"
#include "src/scheduler/trace_file.h"

namespace pergola::scheduler::testing {
namespace {

using ::testing::HasSubstr;
using namespace std::chrono_literals;

class Call : public SchedulerTest {
 protected:
  Call() { device->state().has_handles = true; }
  Status call(const char* name, std::vector<Access> accesses, Scheduler::Function function, bool synchronous = false) {
    return scheduler->call({WorkKind::kLibrary, scheduler->site(name), accesses}, synchronous, function);
  }
  // A library's work of so long.
  static auto work(double ns) {
    return [ns](void* stream) {
      static_cast<FakeQueue*>(stream)->run(ns);
      return Status();
    };
  }
};

TEST_F(Call, FollowsItsParentOnItsStream_AndItsChildFollowsIt) {
  open();
  ASSERT_TRUE(run("before", {}, {"a"}, 100).ok());
  ASSERT_TRUE(call("gemm", {all("a", Mode::kRead), all("b", Mode::kWrite)}, work(50)).ok());
  ASSERT_TRUE(run("after", {"b"}, {"c"}, 10).ok());
  EXPECT_EQ(streams(), "before:0 gemm:0 after:0");
  EXPECT_EQ(waits(), "");
  EXPECT_EQ(device->state().end_ns(), 160);
  EXPECT_THAT(parents(2), ::testing::ElementsAre("before RAW"));
  EXPECT_THAT(parents(3), ::testing::ElementsAre("gemm RAW"));
}

TEST_F(Call, WaitsForParentsOnOtherStreams_BeforeItsFunctionIsCalled) {
  open();
  ASSERT_TRUE(run("left", {}, {"a"}, 100).ok());
  ASSERT_TRUE(run("right", {}, {"b"}, 300).ok());
  ASSERT_TRUE(call("gemm", {all("a", Mode::kRead), all("b", Mode::kReadWrite)}, work(50)).ok());
  EXPECT_EQ(waits(), "0<1");
  EXPECT_EQ(device->state().of(Step::Kind::kLaunch).back().start_ns, 300);
  ASSERT_TRUE(read("b").ok());
  EXPECT_EQ(device->state().host_ns, 350) << "a read waits for the library's work";
}

TEST_F(Call, WithoutAnythingInCommon_Overlaps) {
  open();
  ASSERT_TRUE(run("left", {}, {"a"}, 100).ok());
  ASSERT_TRUE(call("gemm", {all("b", Mode::kReadWrite)}, work(100)).ok());
  EXPECT_EQ(streams(), "left:0 gemm:1");
  EXPECT_EQ(device->state().end_ns(), 100);
}

TEST_F(Call, Synchronous_RunsWhenAllThatItNeedsHasEnded) {
  open();
  ASSERT_TRUE(run("before", {}, {"a"}, 100).ok());
  ASSERT_TRUE(run("reader", {"b"}, {"c"}, 200).ok());
  ASSERT_TRUE(run("other", {}, {"d"}, 1000).ok());
  double called_at = 0;
  const auto function = [&](void* stream) {
    EXPECT_EQ(stream, nullptr);
    called_at = device->state().host_ns;
    return Status();
  };
  ASSERT_TRUE(call("solve", {all("a", Mode::kRead), all("b", Mode::kWrite)}, function, true).ok());
  EXPECT_EQ(called_at, 200) << "the writer of a and the reader of b, not what has nothing to do with it";
  const std::size_t events = device->state().of(Step::Kind::kRecord).size();
  ASSERT_TRUE(read("b").ok());
  EXPECT_EQ(device->state().of(Step::Kind::kRecord).size(), events) << "it has ended, nothing is to be waited for";
  EXPECT_THAT(streams(), HasSubstr("solve:"));
}

TEST_F(Call, OnADeviceWithoutStreams_IsSynchronous) {
  device->state().has_handles = false;
  open();
  ASSERT_TRUE(run("before", {}, {"a"}, 100).ok());
  void* given = this;
  ASSERT_TRUE(call("gemm", {all("a", Mode::kReadWrite)}, [&](void* stream) {
                given = stream;
                return Status();
              }).ok());
  EXPECT_EQ(given, nullptr);
  EXPECT_EQ(device->state().host_ns, 100);
}

TEST_F(Call, AFailureBeforeASynchronousOne_IsToldAndItIsNotCalled) {
  open();
  device->state().fail_next.push_back(PERGOLA_ERROR(kDeviceFault, "kernel 'before' trapped"));
  ASSERT_TRUE(run("before", {}, {"a"}).ok());
  bool called = false;
  const auto function = [&](void*) {
    called = true;
    return Status();
  };
  EXPECT_EQ(call("solve", {all("a", Mode::kRead)}, function, true).code(), Code::kDeviceFault);
  EXPECT_FALSE(called);
  EXPECT_EQ(scheduler->synchronize().code(), Code::kDeviceFault);
  EXPECT_TRUE(call("solve", {all("a", Mode::kRead)}, function, true).ok());
  EXPECT_TRUE(called);
}

TEST_F(Call, ThatFails_HoldsNothingAndWhatItQueuedKeepsItsPlace) {
  open();
  const Status status = call("gemm", {all("a", Mode::kWrite)}, [&](void* stream) -> Status {
    static_cast<FakeQueue*>(stream)->run(70);
    return PERGOLA_ERROR(kCallFailed, "the library says 13");
  });
  EXPECT_EQ(status.code(), Code::kCallFailed);
  ASSERT_TRUE(run("after", {"a"}, {}).ok());
  EXPECT_EQ(device->state().of(Step::Kind::kLaunch).back().start_ns, 70);
  ASSERT_TRUE(read("a").ok());
  ASSERT_TRUE(scheduler->synchronize().ok());
  for (auto& [name, resource] : arrays) scheduler->retire(std::move(resource), nullptr);
  arrays.clear();
  EXPECT_LE(scheduler->frontier_size(), 1u);
}

TEST_F(Call, InsideItsFunction_TheSessionIsRefused) {
  for (const bool synchronous : {false, true}) {
    open();
    const auto function = [&](void*) {
      for (const Status& status :
           {run("inner", {"x"}, {"y"}), read("x"), call("inner", {}, work(1)), scheduler->synchronize(),
            scheduler->record().status(), scheduler->event_of(1).status()}) {
        EXPECT_EQ(status.code(), Code::kFailedPrecondition);
        EXPECT_THAT(status.message(), HasSubstr("inside the function of a library call"));
      }
      EXPECT_FALSE(scheduler->try_host_access(all("x", Mode::kWrite)));
      // Memory may come and go, as it does where a language collects its garbage; other schedulers may be used.
      scheduler->retire(scheduler->create_resource(8), nullptr);
      const auto other_device = std::make_shared<FakeDevice>();
      auto other = std::move(Scheduler::create(other_device, {})).value();
      EXPECT_TRUE(other->synchronize().ok());
      return Status();
    };
    array("x"), array("y");
    EXPECT_TRUE(call("outer", {all("x", Mode::kWrite)}, function, synchronous).ok());
    EXPECT_TRUE(run("after", {"x"}, {"y"}).ok());
    EXPECT_TRUE(scheduler->synchronize().ok());
    scheduler.reset();
    arrays.clear();
  }
}

TEST_F(Call, OtherThreads_GoOnUnlessTheyConflict) {
  open();
  ASSERT_TRUE(run("first", {}, {"a"}, 10).ok());
  array("b");
  std::future<Status> conflicting;
  const auto function = [&](void* stream) {
    // Another stream: the one of "first" is the call's.
    std::thread([&] { EXPECT_TRUE(run("free", {}, {"b"}, 20).ok()); }).join();
    std::thread([&] { EXPECT_TRUE(read("b").ok()); }).join();
    std::thread([&] { EXPECT_TRUE(scheduler->synchronize().ok()); }).join();
    conflicting = std::async(std::launch::async, [&] { return run("blocked", {"a"}, {}, 30); });
    EXPECT_EQ(conflicting.wait_for(50ms), std::future_status::timeout);
    static_cast<FakeQueue*>(stream)->run(1000);
    return Status();
  };
  ASSERT_TRUE(call("gemm", {all("a", Mode::kReadWrite)}, function).ok());
  EXPECT_TRUE(conflicting.get().ok());
  EXPECT_EQ(streams(), "first:0 free:1 gemm:0 blocked:0");
  const auto launches = device->state().of(Step::Kind::kLaunch);
  EXPECT_GE(launches.back().start_ns, 1000) << "behind all that the library has queued";
}

TEST_F(Call, UnderNoConst_AReaderThatCameMeanwhile_IsComeAfter) {
  for (const bool synchronous : {false, true}) {
    open("dependency=no-const");
    arrays.clear();
    const Access reads_x[] = {all("x", Mode::kRead)};
    const auto function = [&](void*) {
      std::thread([&] { EXPECT_TRUE(run("other reader", {"x"}, {}, 10'000).ok()); }).join();
      return Status();
    };
    ASSERT_TRUE(scheduler->call({WorkKind::kLibrary, scheduler->site("gemm"), reads_x}, synchronous, function).ok());
    ASSERT_TRUE(run("writer", {}, {"x"}, 10).ok());
    const auto launches = device->state().of(Step::Kind::kLaunch);
    EXPECT_GE(launches.back().start_ns, launches[launches.size() - 2].end_ns);
  }
}

TEST_F(Call, AtTheBoundOfStreams_OthersStillGetOne) {
  open("max-streams=1");
  ASSERT_TRUE(call("gemm", {all("a", Mode::kWrite)}, [&](void*) {
                std::thread([&] { EXPECT_TRUE(run("other", {}, {"b"}).ok()); }).join();
                return Status();
              }).ok());
  EXPECT_EQ(streams(), "other:1 gemm:0");
  for (const char* name : {"c", "d", "e"}) ASSERT_TRUE(run("k", {}, {name}).ok());
  EXPECT_EQ(scheduler->counters().streams, 2u);
}

TEST_F(Call, UnderExecutionSync_HasEndedWhenItReturns) {
  open("execution=sync");
  ASSERT_TRUE(call("gemm", {all("a", Mode::kWrite)}, work(500)).ok());
  EXPECT_EQ(device->state().host_ns, 500);
}

TEST_F(Call, IsRecordedByNameAndKind) {
  const std::filesystem::path folder =
      std::filesystem::temp_directory_path() / fmt::format("pergola-call-{}", ::getpid());
  std::filesystem::create_directories(folder);
  const std::string file = folder / "trace.json";
  open();
  ASSERT_TRUE(scheduler->start_trace(file, {100, [state = &device->state()] { return state->host_ns; }}).ok());
  ASSERT_TRUE(run("before", {}, {"a"}, 100).ok());
  ASSERT_TRUE(call("gemm", {all("a", Mode::kRead), all("b", Mode::kWrite)}, work(50)).ok());
  ASSERT_TRUE(scheduler->end_trace().ok());
  const auto text = read_file(file);
  ASSERT_TRUE(text.ok()) << text.message();
  const auto timeline = parse_trace(*text, file);
  ASSERT_TRUE(timeline.ok()) << timeline.message();
  ASSERT_EQ(timeline->slices.size(), 2u);
  const Slice& slice = timeline->slices[1];
  EXPECT_EQ(slice.name, "gemm");
  EXPECT_EQ(slice.kind, WorkKind::kLibrary);
  EXPECT_EQ(slice.start_ns, 100);
  EXPECT_EQ(slice.end_ns, 150);
  EXPECT_EQ(slice.bytes, 2 * kBytes);
  EXPECT_EQ(slice.parents.at(0).parent, 1u);
  std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace pergola::scheduler::testing
