// Order within a queue and between queues, events, and handles that are dropped early.
#include <chrono>
#include <thread>

#include "tests/conformance/harness.h"

namespace pergola::conformance {
namespace {

using namespace std::chrono_literals;

CONFORMANCE_SUITE(Queues);
CONFORMANCE_SUITE(Events);
CONFORMANCE_SUITE(Foreign);
CONFORMANCE_SUITE(Concurrency);
CONFORMANCE_SUITE(Lifetime);
CONFORMANCE_SUITE(Running);

constexpr std::uint64_t kLong = 200'000'000;  // nanoseconds that wait_ns takes where a test needs work in flight

TEST_P(Queues, Work_IsDoneInOrder) {
  const BufferPtr a = zeros<std::uint32_t>(1000), b = zeros<std::uint32_t>(1000);
  for (std::uint32_t i = 0; i < 50; ++i) {
    need(queue().fill(a, 0, 4000, i, 4));
    need(queue().copy(b, 0, a, 0, 4000));
    need(queue().fill(a, 0, 4000, ~i, 4));
  }
  EXPECT_EQ(download<std::uint32_t>(b), std::vector<std::uint32_t>(1000, 49));
}

TEST_P(Queues, SynchronizeOfAnEmptyQueue_IsSuccess) {
  EXPECT_TRUE(queue().synchronize().ok());
  EXPECT_TRUE(queue().synchronize().ok());
}

TEST_P(Queues, Many_AreIndependent) {
  std::vector<std::unique_ptr<device::Queue>> queues;
  std::vector<BufferPtr> buffers;
  for (std::uint32_t i = 0; i < 16; ++i) {
    queues.push_back(new_queue());
    buffers.push_back(allocate(4096));
    need(queues.back()->fill(buffers.back(), 0, 4096, i, 4));
  }
  for (auto& each : queues) need(each->synchronize());
  for (std::uint32_t i = 0; i < 16; ++i)
    EXPECT_EQ(download<std::uint32_t>(buffers[i]), std::vector<std::uint32_t>(1024, i));
}

TEST_P(Events, AfterSynchronize_PollTellsSuccess) {
  const BufferPtr buffer = zeros<int>(16);
  const EventPtr event = need(queue().record());
  need(queue().synchronize());
  const std::optional<Status> outcome = event->poll();
  ASSERT_TRUE(outcome.has_value());
  EXPECT_TRUE(outcome->ok()) << outcome->message();
  EXPECT_TRUE(event->wait().ok());
  EXPECT_TRUE(event->wait(0ns).ok());
}

TEST_P(Events, WaitAcrossQueues_OrdersWork) {
  const auto first = new_queue(), second = new_queue();
  const BufferPtr buffer = zeros<std::uint32_t>(1 << 18), copy = allocate(1 << 20);
  need(queue().synchronize());
  for (std::uint32_t i = 1; i <= 20; ++i) {
    need(first->fill(buffer, 0, 1 << 20, i, 4));
    need(second->wait(need(first->record())));
    need(second->copy(copy, 0, buffer, 0, 1 << 20));
    need(first->wait(need(second->record())));
    need(first->fill(buffer, 0, 1 << 20, 0, 4));
  }
  need(first->synchronize());
  need(second->synchronize());
  EXPECT_EQ(download<std::uint32_t>(copy), std::vector<std::uint32_t>(1 << 18, 20));
}

TEST_P(Events, Elapsed_IsNotNegative) {
  const BufferPtr buffer = allocate(4 << 20);
  const EventPtr start = need(queue().record());
  for (int i = 0; i < 4; ++i) need(queue().fill(buffer, 0, 4 << 20, 1, 4));
  const EventPtr end = need(queue().record());
  need(end->wait());
  EXPECT_GE(need(end->elapsed_ns(*start)), 0.0);
  EXPECT_LT(need(end->elapsed_ns(*start)), 1e10);
  EXPECT_EQ(need(end->elapsed_ns(*end)), 0.0);
}

TEST_P(Events, OutliveTheirQueue) {
  auto short_lived = new_queue();
  const BufferPtr buffer = allocate(64);
  need(short_lived->fill(buffer, 0, 64, 0, 1));
  const EventPtr event = need(short_lived->record());
  short_lived.reset();
  EXPECT_TRUE(event->wait().ok());
}

TEST_P(Running, EventOfWorkInFlight_IsPendingThenComplete) {
  const ModulePtr module = load("launch");
  const BufferPtr done = zeros<int>(1);
  need(queue().synchronize());
  const EventPtr start = need(queue().record());
  run(module, "wait_ns", {}, Arguments(kLong, done));
  const EventPtr end = need(queue().record());
  EXPECT_FALSE(end->poll().has_value());
  EXPECT_CODE(kTimeout, "", end->wait(5ms));
  EXPECT_TRUE(end->wait(20s).ok());
  EXPECT_GE(need(end->elapsed_ns(*start)), kLong * 0.9);
  EXPECT_EQ(download<int>(done), std::vector<int>{1});
}

TEST_P(Running, ElapsedOfAPendingEvent_IsFailedPrecondition) {
  const ModulePtr module = load("launch");
  const BufferPtr done = zeros<int>(1);
  const EventPtr start = need(queue().record());
  run(module, "wait_ns", {}, Arguments(kLong, done));
  const EventPtr end = need(queue().record());
  EXPECT_CODE(kFailedPrecondition, "", end->elapsed_ns(*start));
  need(queue().synchronize());
}

TEST_P(Running, CallsReturn_WhileAKernelRuns) {
  const ModulePtr module = load("launch");
  const BufferPtr done = zeros<int>(1), pinned = allocate(1 << 16, MemoryKind::kHostVisible), other = allocate(1 << 16);
  need(queue().synchronize());
  const auto before = std::chrono::steady_clock::now();
  run(module, "wait_ns", {}, Arguments(std::uint64_t{1'000'000'000}, done));
  need(queue().copy_to_device(other, 0, {pinned->host_pointer(), 1 << 16}));
  need(queue().copy_to_host({pinned->host_pointer(), 1 << 16}, other, 0));
  need(queue().copy_to_device(other, 0, std::vector<std::byte>(100)));
  const EventPtr event = need(queue().record());
  EXPECT_LT(std::chrono::steady_clock::now() - before, 900ms);
  EXPECT_FALSE(event->poll().has_value());
  need(event->wait());
}

TEST_P(Running, TwoQueues_RunBesideEachOther) {
  const ModulePtr module = load("launch");
  const auto first = new_queue(), second = new_queue();
  const BufferPtr slow = zeros<int>(1), data = zeros<int>(64);
  need(queue().synchronize());
  need(launch_on(*first, module, "wait_ns", {}, Arguments(std::uint64_t{2'000'000'000}, slow)));
  const EventPtr long_work = need(first->record());
  need(launch_on(*second, module, "add_one", {.block = {64, 1, 1}}, Arguments(data, 64)));
  EXPECT_TRUE(need(second->record())->wait(1500ms).ok());
  EXPECT_FALSE(long_work->poll().has_value());
  need(first->synchronize());
}

TEST_P(Running, EverythingDropped_WhileWorkIsInFlight) {
  const BufferPtr result = allocate(64 * 4, MemoryKind::kHostVisible);
  std::memset(result->host_pointer(), 0, 64 * 4);
  {
    const BufferPtr done = allocate(4);
    const ModulePtr module = load("launch");
    const auto short_lived = new_queue();
    need(launch_on(*short_lived, module, "wait_ns", {}, Arguments(std::uint64_t{50'000'000}, done)));
    need(launch_on(*short_lived, module, "add_one", {.block = {64, 1, 1}}, Arguments(result, 64)));
    // The queue goes first, and its end waits for its work.
  }
  int first = 0;
  std::memcpy(&first, result->host_pointer(), 4);
  EXPECT_EQ(first, 1);
}

TEST_P(Running, ModuleDropped_BeforeItsWorkHasEnded) {
  const BufferPtr data = zeros<int>(64), done = zeros<int>(1);
  {
    const ModulePtr module = load("launch");
    run(module, "wait_ns", {}, Arguments(std::uint64_t{50'000'000}, done));
    run(module, "add_one", {.block = {64, 1, 1}}, Arguments(data, 64));
  }
  EXPECT_EQ(download<int>(data), std::vector<int>(64, 1));
}

TEST_P(Running, ThreadsShareAQueue_EveryLaunchRuns) {
  const ModulePtr module = load("launch");
  const BufferPtr data = zeros<int>(256);
  need(queue().synchronize());
  std::vector<std::thread> threads;
  std::vector<Status> statuses(4);
  for (std::size_t t = 0; t < 4; ++t)
    threads.emplace_back([&, t] {
      for (int i = 0; i < 50 && statuses[t].ok(); ++i)
        statuses[t] = launch_on(queue(), module, "add_one", {.block = {256, 1, 1}}, Arguments(data, 256));
    });
  for (std::thread& thread : threads) thread.join();
  for (const Status& status : statuses) EXPECT_TRUE(status.ok()) << status.message();
  EXPECT_EQ(download<int>(data), std::vector<int>(256, 200));
}

TEST_P(Concurrency, ThreadsWithQueuesOfTheirOwn) {
  std::vector<std::thread> threads;
  std::vector<std::string> wrong(6);
  for (std::uint32_t t = 0; t < wrong.size(); ++t)
    threads.emplace_back([&, t] {
      try {
        const auto own = new_queue();
        std::vector<std::uint32_t> host(5000), back(5000);
        for (std::uint32_t round = 0; round < 30; ++round) {
          const BufferPtr a = allocate(20000), b = allocate(20000);
          std::fill(host.begin(), host.end(), t * 1000 + round);
          need(own->copy_to_device(a, 0, std::as_bytes(std::span(host))));
          need(own->copy(b, 0, a, 0, 20000));
          need(own->copy_to_host(std::as_writable_bytes(std::span(back)), b, 0));
          need(own->synchronize());
          if (back != host) throw Failure("round " + std::to_string(round) + " read back other bytes");
        }
      } catch (const std::exception& failure) {
        wrong[t] = failure.what();
      }
    });
  for (std::thread& thread : threads) thread.join();
  for (const std::string& each : wrong) EXPECT_EQ(each, "");
}

TEST_P(Concurrency, EventWaitedForByManyThreads) {
  const BufferPtr buffer = allocate(1 << 20);
  for (int i = 0; i < 10; ++i) need(queue().fill(buffer, 0, 1 << 20, 3, 4));
  const EventPtr event = need(queue().record());
  std::vector<std::thread> threads;
  std::vector<Status> outcomes(8);
  for (Status& outcome : outcomes) threads.emplace_back([&event, &outcome] { outcome = event->wait(10s); });
  for (std::thread& thread : threads) thread.join();
  for (const Status& outcome : outcomes) EXPECT_TRUE(outcome.ok()) << outcome.message();
}

TEST_P(Lifetime, BuffersDropped_WhileTheirCopiesAreQueued) {
  for (int i = 0; i < 30; ++i) {
    const BufferPtr last = allocate(1 << 16, MemoryKind::kHostVisible);
    {
      const BufferPtr a = allocate(1 << 16), b = allocate(1 << 16);
      need(queue().fill(a, 0, 1 << 16, static_cast<std::uint32_t>(i), 1));
      need(queue().copy(b, 0, a, 0, 1 << 16));
      need(queue().copy(last, 0, b, 0, 1 << 16));
    }
    need(queue().synchronize());
    EXPECT_EQ(last->host_pointer()[65535], static_cast<std::byte>(i));
  }
}

TEST_P(Foreign, NullHandles_AreInvalidArguments) {
  EXPECT_CODE(kInvalidArgument, "null", queue().wait(nullptr));
  EXPECT_CODE(kInvalidArgument, "null", queue().fill(nullptr, 0, 0, 0, 1));
  EXPECT_CODE(kInvalidArgument, "null", queue().copy_to_device(nullptr, 0, {}));
  EXPECT_CODE(kInvalidArgument, "null", queue().copy_to_host({}, nullptr, 0));
}

TEST_P(Foreign, OtherDevicesHandles_AreInvalidArguments) {
  for (const DeviceCase* other : device_cases()) {
    if (other == GetParam()) continue;
    const BufferPtr buffer = need(other->device->allocate(64, MemoryKind::kDevice));
    const auto their_queue = need(other->device->create_queue());
    const EventPtr event = need(their_queue->record());
    SCOPED_TRACE(other->name);
    EXPECT_CODE(kInvalidArgument, "another device", queue().fill(buffer, 0, 64, 0, 1));
    EXPECT_CODE(kInvalidArgument, "another device", queue().wait(event));
    EXPECT_CODE(kInvalidArgument, "", device().instantiate({{{device::FillNode{buffer, 0, 64, 0, 1}, {}}}}));
  }
}

}  // namespace
}  // namespace pergola::conformance
