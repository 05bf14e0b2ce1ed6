// Queues and events of the CPU device: order, failure and skipping, waiting across queues, teardown.
#include "src/device/cpu/cpu_queue.h"

#include <atomic>
#include <chrono>
#include <random>
#include <thread>
#include <vector>

#include "src/device/cpu/cpu_event.h"
#include "src/device/cpu/device_fixture.h"

namespace pergola::device::cpu {
namespace {

using std::chrono::milliseconds;
using testing::parameter;

class CpuQueueTest : public testing::CpuDeviceTest {
 protected:
  CpuQueueTest() {
    script("spin", [this](const Block&, std::uint64_t) { return release ? Progress::kFinished : Progress::kWaiting; });
    script("fail", [](const Block& block, std::uint64_t) {
      block.launch->fault->raise(PERGOLA_ERROR(kDeviceFault, "Block {} trapped.", block.index.x));
      return Progress::kFinished;
    });
    script("add", [this](const Block&, std::uint64_t) {
      ++added;
      return Progress::kFinished;
    });
    script("print", [](const Block& block, std::uint64_t) {
      block.launch->print->append(fmt::format("block {}\n", block.index.x));
      return Progress::kFinished;
    });
  }
  std::atomic<bool> release{false};
  std::atomic<int> added{0};
};

TEST_F(CpuQueueTest, Copies_RoundTrip_BehindWorkToo) {
  open();
  std::vector<std::byte> in(1000), out(1000);
  for (std::size_t i = 0; i < in.size(); ++i) in[i] = static_cast<std::byte>(i);
  for (const bool behind : {false, true}) {
    release = false;
    if (behind) {
      ASSERT_TRUE(launch(*queue, "spin").ok());
    }
    const BufferPtr one = allocate(1000), two = allocate(1012);
    std::vector<std::byte> source = in;
    ASSERT_TRUE(queue->copy_to_device(one, 0, source).ok());
    std::fill(source.begin(), source.end(), std::byte{0xff});  // it was copied before the call returned
    ASSERT_TRUE(queue->copy(two, 12, one, 0, 1000).ok());
    ASSERT_TRUE(queue->fill(two, 12, 4, 0x01020304, 4).ok());
    ASSERT_TRUE(queue->copy_to_host(out, two, 12).ok());
    release = true;
    ASSERT_TRUE(queue->synchronize().ok());
    EXPECT_EQ(out[0], std::byte{4});
    EXPECT_EQ(out[3], std::byte{1});
    EXPECT_TRUE(std::equal(in.begin() + 4, in.end(), out.begin() + 4));
  }
}

TEST_F(CpuQueueTest, HostVisibleSource_IsReadWhenTheCopyRuns) {
  open();
  const BufferPtr host = allocate(64, MemoryKind::kHostVisible), target = allocate(64);
  std::memset(host->host_pointer(), 1, 64);
  ASSERT_TRUE(launch(*queue, "spin").ok());
  ASSERT_TRUE(queue->copy_to_device(target, 0, {host->host_pointer() + 8, 8}).ok());
  std::memset(host->host_pointer(), 2, 64);
  release = true;
  ASSERT_TRUE(queue->synchronize().ok());
  EXPECT_EQ(target->host_pointer()[0], std::byte{2});
}

TEST_F(CpuQueueTest, WrongRanges_AreRefused) {
  open();
  const BufferPtr buffer = allocate(16);
  std::vector<std::byte> host(17);
  EXPECT_EQ(queue->copy_to_device(buffer, 0, host).code(), Code::kInvalidArgument);
  EXPECT_EQ(queue->copy_to_host(host, buffer, 0).code(), Code::kInvalidArgument);
  EXPECT_EQ(queue->copy(buffer, 8, buffer, 0, 16).code(), Code::kInvalidArgument);
  EXPECT_EQ(queue->fill(buffer, 1, 4, 0, 4).code(), Code::kInvalidArgument);
  EXPECT_TRUE(queue->fill(buffer, 16, 0, 0, 4).ok());
}

TEST_F(CpuQueueTest, Event_IsPendingUntilTheWorkBeforeItHasEnded) {
  open();
  ASSERT_TRUE(launch(*queue, "spin").ok());
  const EventPtr event = record(*queue);
  EXPECT_FALSE(event->poll());
  EXPECT_EQ(event->wait(milliseconds(1)).code(), Code::kTimeout);
  EXPECT_EQ(event->elapsed_ns(*event).code(), Code::kFailedPrecondition);
  release = true;
  EXPECT_TRUE(event->wait().ok());
  EXPECT_TRUE(event->poll()->ok());
}

TEST_F(CpuQueueTest, Elapsed_CoversTheWorkBetween) {
  open();
  const EventPtr start = record(*queue);
  ASSERT_TRUE(launch(*queue, "spin").ok());
  const EventPtr end = record(*queue);
  std::this_thread::sleep_for(milliseconds(5));
  release = true;
  ASSERT_TRUE(end->wait().ok());
  const auto elapsed = end->elapsed_ns(*start);
  ASSERT_TRUE(elapsed.ok()) << elapsed.message();
  EXPECT_GE(*elapsed, 4e6);
}

TEST_F(CpuQueueTest, Failure_GoesToItsEvent_LaterWorkIsSkipped_SynchronizeClears) {
  open();
  const EventPtr before = record(*queue);
  ASSERT_TRUE(launch(*queue, "fail", 3).ok());
  const EventPtr failed = record(*queue);
  ASSERT_TRUE(launch(*queue, "add").ok());
  const EventPtr skipped = record(*queue);
  EXPECT_TRUE(before->wait().ok());
  EXPECT_EQ(failed->wait().code(), Code::kDeviceFault);
  EXPECT_EQ(skipped->wait().code(), Code::kSkipped);
  EXPECT_NE(skipped->wait().message().find("trapped"), std::string::npos) << skipped->wait().message();
  EXPECT_EQ(failed->elapsed_ns(*before).code(), Code::kDeviceFault);
  EXPECT_EQ(added, 0);
  EXPECT_EQ(queue->synchronize().code(), Code::kDeviceFault);
  EXPECT_TRUE(queue->synchronize().ok());
  ASSERT_TRUE(launch(*queue, "add").ok());
  EXPECT_TRUE(record(*queue)->wait().ok());
  EXPECT_EQ(added, 1);
}

TEST_F(CpuQueueTest, CopiesBehindAFailure_AreSkippedToo) {
  open();
  const BufferPtr buffer = allocate(4);
  ASSERT_TRUE(queue->fill(buffer, 0, 4, 7, 1).ok());
  ASSERT_TRUE(launch(*queue, "fail").ok());
  ASSERT_EQ(record(*queue)->wait().code(), Code::kDeviceFault);
  ASSERT_TRUE(queue->fill(buffer, 0, 4, 9, 1).ok());  // the queue is idle: this one comes at once
  EXPECT_EQ(record(*queue)->wait().code(), Code::kSkipped);
  EXPECT_EQ(buffer->host_pointer()[0], std::byte{7});
  EXPECT_EQ(queue->synchronize().code(), Code::kDeviceFault);
}

TEST_F(CpuQueueTest, Wait_OrdersQueues) {
  open();
  const auto other = new_queue();
  ASSERT_TRUE(launch(*queue, "spin").ok());
  ASSERT_TRUE(other->wait(record(*queue)).ok());
  ASSERT_TRUE(launch(*other, "add").ok());
  const EventPtr after = record(*other);
  EXPECT_EQ(after->wait(milliseconds(20)).code(), Code::kTimeout);
  EXPECT_EQ(added, 0);
  release = true;
  EXPECT_TRUE(after->wait().ok());
  EXPECT_EQ(added, 1);
}

TEST_F(CpuQueueTest, WaitForAFailedEvent_SkipsWithTheCause) {
  open();
  const auto other = new_queue();
  ASSERT_TRUE(launch(*queue, "fail").ok());
  ASSERT_TRUE(other->wait(record(*queue)).ok());
  ASSERT_TRUE(launch(*other, "add").ok());
  const Status outcome = record(*other)->wait();
  EXPECT_EQ(outcome.code(), Code::kSkipped);
  EXPECT_NE(outcome.message().find("trapped"), std::string::npos);
  EXPECT_EQ(added, 0);
  EXPECT_EQ(other->synchronize().code(), Code::kSkipped);
  EXPECT_EQ(queue->synchronize().code(), Code::kDeviceFault);
}

TEST_F(CpuQueueTest, FaultsOfOneQueue_LeaveOthersAlone) {
  open();
  const auto other = new_queue();
  ASSERT_TRUE(launch(*queue, "fail").ok());
  ASSERT_TRUE(launch(*other, "add").ok());
  EXPECT_TRUE(other->synchronize().ok());
  EXPECT_EQ(queue->synchronize().code(), Code::kDeviceFault);
}

TEST_F(CpuQueueTest, Print_ComesOutWhenTheLaunchEnds) {
  std::string out;
  open({.print_sink = [&](std::string_view text) { out += text; }});
  ASSERT_TRUE(launch(*queue, "print").ok());
  ASSERT_TRUE(queue->synchronize().ok());
  EXPECT_EQ(out, "block 0\n");
}

TEST_F(CpuQueueTest, DestroyedWithWorkInFlight_RunsIt) {
  open();
  {
    const auto other = new_queue();
    for (int i = 0; i < 50; ++i) ASSERT_TRUE(launch(*other, "add", 3).ok());
  }
  EXPECT_EQ(added, 150);
}

TEST_F(CpuQueueTest, DestroyedWithAKernelThatOnlyWaits_StopsItAfterTheGrace) {
  open({.teardown_grace = milliseconds(50)});
  EventPtr stopped, behind;
  {
    const auto other = new_queue();
    ASSERT_TRUE(launch(*other, "spin", 5).ok());
    stopped = record(*other);
    ASSERT_TRUE(launch(*other, "add").ok());
    behind = record(*other);
    ASSERT_TRUE(queue->wait(behind).ok());
  }
  EXPECT_EQ(stopped->wait().code(), Code::kDeviceLost);
  EXPECT_EQ(behind->wait().code(), Code::kSkipped);
  EXPECT_EQ(added, 0);
  EXPECT_EQ(queue->synchronize().code(), Code::kSkipped);
  EXPECT_TRUE(launch(*queue, "add").ok());
  EXPECT_TRUE(queue->synchronize().ok());
}

TEST_F(CpuQueueTest, WorkBehindAGate_StartsOnceItIsOpenedSoFar) {
  open();
  const GatePtr gate = std::move(device->create_gate()).value();
  ASSERT_TRUE(queue->wait_for_gate(gate, 2).ok());
  ASSERT_TRUE(launch(*queue, "add").ok());
  const EventPtr end = record(*queue);
  gate->open(1);
  EXPECT_EQ(end->wait(milliseconds(20)).code(), Code::kTimeout);
  EXPECT_EQ(added, 0);
  gate->open(2);
  gate->open(1);
  EXPECT_TRUE(end->wait().ok());
  EXPECT_EQ(added, 1);
  ASSERT_TRUE(queue->wait_for_gate(gate, 2).ok());
  EXPECT_TRUE(queue->synchronize().ok());
  EXPECT_EQ(queue->wait_for_gate(nullptr, 1).code(), Code::kInvalidArgument);
}

TEST_F(CpuQueueTest, DestroyedBehindAClosedGate_EndsAfterTheGrace) {
  open({.teardown_grace = milliseconds(50)});
  const GatePtr gate = std::move(device->create_gate()).value();
  EventPtr behind;
  {
    const auto other = new_queue();
    ASSERT_TRUE(other->wait_for_gate(gate, 1).ok());
    ASSERT_TRUE(launch(*other, "add").ok());
    behind = record(*other);
  }
  EXPECT_EQ(behind->wait().code(), Code::kDeviceLost);
  EXPECT_EQ(added, 0);
}

TEST_F(CpuQueueTest, CancelledQueue_TakesNoMoreWork) {
  open();
  auto& own = dynamic_cast<CpuDevice&>(*device);
  ASSERT_TRUE(launch(*queue, "spin", 3).ok());
  own.cancel_all(PERGOLA_ERROR(kDeviceLost, "Enough."));
  EXPECT_EQ(queue->synchronize().code(), Code::kDeviceLost);
  EXPECT_EQ(launch(*queue, "add").code(), Code::kDeviceLost);
  EXPECT_EQ(queue->synchronize().code(), Code::kDeviceLost);
  const auto fresh = new_queue();
  EXPECT_TRUE(launch(*fresh, "add").ok());
  EXPECT_TRUE(fresh->synchronize().ok());
}

// A full device that spins, and another queue that works all the same.
TEST_F(CpuQueueTest, SpinningKernel_LeavesRoomForOtherQueues) {
  open({.sms = 2, .blocks_per_sm = 4});
  const auto other = new_queue();
  ASSERT_TRUE(launch(*queue, "spin", 8).ok());
  for (int i = 0; i < 100; ++i) ASSERT_TRUE(launch(*other, "add", 10).ok());
  ASSERT_TRUE(other->synchronize().ok());
  EXPECT_EQ(added, 1000);
  release = true;
  EXPECT_TRUE(queue->synchronize().ok());
}

TEST_F(CpuQueueTest, OneQueue_TakesCallsOfManyThreads) {
  open();
  const BufferPtr buffer = allocate(64);
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < 200; ++i) {
        switch ((i + t) % 4) {
          case 0: EXPECT_TRUE(launch(*queue, "add", 1 + static_cast<std::uint32_t>(i) % 2).ok()); break;
          case 1: EXPECT_TRUE(queue->fill(buffer, 0, 64, 1, 1).ok()); break;
          case 2: EXPECT_TRUE(record(*queue)->wait().ok()); break;
          default: EXPECT_TRUE(queue->synchronize().ok()); break;
        }
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_TRUE(queue->synchronize().ok());
  EXPECT_GE(added, 200);
}

// Random work in several queues with events between them: everything ends, and ends in order.
TEST_F(CpuQueueTest, RandomQueuesAndEvents_KeepOrder) {
  script("stamp", [](const Block& block, std::uint64_t turn) {
    if (turn == 0 && block.index.x % 2 == 1) return Progress::kWaiting;
    std::atomic_ref<std::uint64_t>(*parameter<std::uint64_t*>(block)).fetch_add(1);
    return Progress::kFinished;
  });
  open();
  constexpr unsigned kSeed = 20260;
  SCOPED_TRACE(fmt::format("seed {}", kSeed));
  std::mt19937 random(kSeed);
  std::vector<std::unique_ptr<Queue>> queues;
  for (int i = 0; i < 4; ++i) queues.push_back(new_queue());
  // One chain through all queues: step i writes i + 1 where step i - 1 left i.
  const BufferPtr buffer = allocate(8);
  ASSERT_TRUE(queues[0]->fill(buffer, 0, 8, 0, 4).ok());
  EventPtr last = record(*queues[0]);
  std::uint64_t expected = 0;
  for (int i = 0; i < 400; ++i) {
    Queue& on = *queues[random() % queues.size()];
    ASSERT_TRUE(on.wait(last).ok());
    const std::uint32_t blocks = 1 + random() % 4;
    ASSERT_TRUE(launch(on, "stamp", blocks, buffer->address()).ok());
    expected += blocks;
    if (random() % 8 == 0) {
      std::uint64_t now = 0;
      ASSERT_TRUE(on.copy_to_host(std::as_writable_bytes(std::span(&now, 1)), buffer, 0).ok());
      last = record(on);
      ASSERT_TRUE(last->wait().ok());
      ASSERT_EQ(now, expected);
    }
    last = record(on);
  }
  EXPECT_TRUE(last->wait().ok());
  EXPECT_EQ(*reinterpret_cast<const std::uint64_t*>(buffer->address()), expected);
}

}  // namespace
}  // namespace pergola::device::cpu
