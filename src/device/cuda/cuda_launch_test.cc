// Launches, records and waits, and the context of their thread, over the fake driver: these need none, all else does.
#include <thread>

#include "src/device/cuda/cuda_device_fixture.h"

namespace pergola::device {
namespace {

class CudaLaunch : public CudaDevice {};

// As a thread without context, or with that of another device, which may be lost.
constexpr cuda::CUresult kAsks[] = {cuda::CUDA_ERROR_INVALID_CONTEXT, cuda::CUDA_ERROR_CONTEXT_IS_DESTROYED,
                                    cuda::CUDA_ERROR_ILLEGAL_ADDRESS};

TEST_F(CudaLaunch, NeedsNoContextOfItsThread_AndGetsItWhereADriverAsks) {
  const DevicePtr device = open();
  Queue& queue = queue_of(device);
  const ModulePtr module = *load(*device);
  const BufferPtr four = zeros(device, 16);
  const auto go = [&] { return launch(queue, module, "add_one", add_one(four, 4)); };
  ASSERT_TRUE(go().ok());
  std::thread([&] {  // which has none
    const int set = control().calls("cuCtxSetCurrent");
    EXPECT_TRUE(go().ok());
    EXPECT_EQ(control().calls("cuCtxSetCurrent"), set);
    for (const cuda::CUresult asks : kAsks) {
      const int launched = control().calls("cuLaunchKernelEx");
      control().fail("cuLaunchKernelEx", asks, 0);
      EXPECT_TRUE(go().ok());
      EXPECT_EQ(control().calls("cuLaunchKernelEx"), launched + 2);
    }
    EXPECT_EQ(control().calls("cuCtxSetCurrent"), set + 3);
  })
      .join();
  EXPECT_TRUE(queue.synchronize().ok());
  EXPECT_EQ(reinterpret_cast<const std::uint32_t*>(four->host_pointer())[3], 5u);
  EXPECT_TRUE(device->health().ok());
  control().fail_times("cuLaunchKernelEx", cuda::CUDA_ERROR_ILLEGAL_ADDRESS, 2);  // its own context's
  EXPECT_EQ(go().code(), Code::kDeviceLost);
  EXPECT_EQ(go().code(), Code::kDeviceLost);
}

TEST_F(CudaLaunch, ARecordAndAWaitNeedNone_AndGetItWhereADriverAsks) {
  const DevicePtr device = open();
  Queue& queue = queue_of(device);
  const auto other = *device->create_queue();
  for (int i = 0; i < 2; ++i) ASSERT_TRUE((*queue.record_untimed())->wait().ok());  // so that there are events
  std::thread([&] {
    const int set = control().calls("cuCtxSetCurrent");
    const auto go = [&] {
      const Result<EventPtr> event = queue.record_untimed();
      return event.ok() ? other->wait(*event) : event.status();
    };
    EXPECT_TRUE(go().ok());
    EXPECT_EQ(control().calls("cuCtxSetCurrent"), set);
    for (const char* const function : {"cuEventRecord", "cuStreamWaitEvent"})
      for (const cuda::CUresult asks : kAsks) {
        const int called = control().calls(function);
        control().fail(function, asks, 0);
        EXPECT_TRUE(go().ok()) << function;
        EXPECT_EQ(control().calls(function), called + 2);
      }
    EXPECT_EQ(control().calls("cuCtxSetCurrent"), set + 6);
  }).join();
  EXPECT_TRUE(other->synchronize().ok());
  EXPECT_TRUE(device->health().ok());
  control().fail_times("cuStreamWaitEvent", cuda::CUDA_ERROR_ILLEGAL_ADDRESS, 2);
  EXPECT_EQ(other->wait(*queue.record_untimed()).code(), Code::kDeviceLost);
  EXPECT_EQ(queue.record_untimed().code(), Code::kDeviceLost);
}

// A launch that adds one, between an event of another queue and one behind it.
class CudaLaunchBetween : public CudaLaunch {
 protected:
  void SetUp() override {
    CudaLaunch::SetUp();
    device = open();
    queue = &queue_of(device);
    other = *device->create_queue();
    module = *load(*device);
    kernel = *module->kernel("add_one");
    four = zeros(device, 16);
    bytes = add_one(four, 4);
    elsewhere = *other->record_untimed();
  }
  std::uint32_t value() const { return reinterpret_cast<const std::uint32_t*>(four->host_pointer())[3]; }

  DevicePtr device;
  Queue* queue = nullptr;
  std::unique_ptr<Queue> other;
  ModulePtr module;
  const Kernel* kernel = nullptr;
  BufferPtr four;
  std::vector<std::byte> bytes;
  EventPtr elsewhere, behind;
  const EventPtr* const after[1] = {&elsewhere};
  const void* known = nullptr;
};

// The event behind it is recorded again where nobody else has it, and is of the kind; else there is a new one.
TEST_F(CudaLaunchBetween, HasWaited_AndHasAnEventBehindIt) {
  const auto go = [&](std::span<const EventPtr* const> events) {
    Queue::Between between{.after = events, .behind = &behind, .known = &known};
    const Status status = queue->launch_between(between, module, *kernel, {}, bytes);
    EXPECT_TRUE(status.ok()) << status.message();
    EXPECT_TRUE(between.has_waited);
  };
  go({});
  ASSERT_NE(behind, nullptr);
  EXPECT_NE(known, nullptr);
  EXPECT_TRUE(behind->wait().ok());
  EXPECT_EQ(value(), 1u);
  const Event* const same = behind.get();
  const int waits = control().calls("cuStreamWaitEvent");
  go(after);
  EXPECT_EQ(behind.get(), same);
  EXPECT_EQ(control().calls("cuStreamWaitEvent"), waits + 1);
  EXPECT_TRUE(behind->wait().ok()) << "for this launch, not for the one before";
  EXPECT_EQ(value(), 2u);
  const EventPtr shared = behind;
  go({});
  EXPECT_NE(behind, shared);
  for (const bool for_host : {true, false}) {
    ASSERT_TRUE(queue->record().ok());  // takes what has been kept: the next event is nobody else's
    behind = *(for_host ? queue->record_for_host() : queue->record());
    ASSERT_EQ(behind.use_count(), 1);
    const std::weak_ptr<Event> watched = behind;
    const int records = control().calls("cuEventRecord");
    go({});
    EXPECT_TRUE(watched.expired()) << "it is of another kind";
    EXPECT_EQ(control().calls("cuEventRecord"), records + 1);
  }
  EXPECT_TRUE(queue->synchronize().ok());
  EXPECT_EQ(value(), 5u);
}

TEST_F(CudaLaunchBetween, WhereSomethingIsRefused_SaysWhatHasBeenQueued) {
  Queue::Between between{.after = after, .behind = &behind, .known = &known};
  const auto go = [&](const LaunchConfig& config = {}) {
    between.has_waited = false;
    return queue->launch_between(between, module, *kernel, config, bytes);
  };
  EXPECT_EQ(go({.block = {2000, 1, 1}}).code(), Code::kInvalidArgument);
  EXPECT_FALSE(between.has_waited);
  EXPECT_EQ(known, nullptr);
  control().fail_times("cuStreamWaitEvent", cuda::CUDA_ERROR_OUT_OF_MEMORY, 2);  // asked again once
  EXPECT_FALSE(go().ok());
  EXPECT_FALSE(between.has_waited);
  control().fail_times("cuLaunchKernelEx", cuda::CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES, 2);
  EXPECT_FALSE(go().ok());
  EXPECT_TRUE(between.has_waited);
  ASSERT_TRUE(go().ok());
  ASSERT_NE(behind, nullptr);
  control().fail_times("cuEventRecord", cuda::CUDA_ERROR_OUT_OF_MEMORY, 2);
  EXPECT_TRUE(go().ok()) << "the launch has been queued";
  EXPECT_EQ(behind, nullptr);
  EXPECT_TRUE(queue->synchronize().ok());
  EXPECT_EQ(value(), 2u);
}

// What ended launches used goes while there are more, though none of them makes a context its thread's.
TEST_F(CudaLaunch, FromAThreadThatOnlyLaunches_LetsGoOfWhatHasEnded) {
  const DevicePtr device = open();
  Queue& queue = queue_of(device);
  const BufferPtr four = zeros(device, 16);
  std::weak_ptr<const Module> first;
  std::thread([&] {
    std::vector<ModulePtr> modules{*load(*device), *load(*device)};
    for (const ModulePtr& module : modules) ASSERT_TRUE(launch(queue, module, "add_one", add_one(four, 4)).ok());
    first = modules.front();
    modules.front() = *load(*device);
    const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(20);
    for (int i = 0; !first.expired() && std::chrono::steady_clock::now() < until; ++i)
      ASSERT_TRUE(launch(queue, modules[static_cast<std::size_t>(i % 2)], "add_one", add_one(four, 4)).ok());
  }).join();
  EXPECT_TRUE(first.expired());
}

}  // namespace
}  // namespace pergola::device
