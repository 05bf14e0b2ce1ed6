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
