// The CUDA device's memory where the driver has virtual memory management, over the fake driver.
#include <gmock/gmock.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <future>
#include <thread>
#include <vector>

#include "src/device/cuda/cuda_device_fixture.h"

namespace pergola::device {
namespace {

using ::testing::HasSubstr;

class DeviceArena : public CudaDevice {
 protected:
  void SetUp() override {
    CudaDevice::SetUp();
    control().set("virtual", 1);
  }
  static constexpr std::size_t kMiB = std::size_t{1} << 20;
};

TEST_F(DeviceArena, ArraysLieOneBehindTheOther) {
  DevicePtr device = open();
  std::vector<BufferPtr> arrays;
  for (int n = 0; n < 20; ++n) arrays.push_back(std::move(device->allocate(5'000'000, MemoryKind::kDevice)).value());
  EXPECT_EQ(control().calls("cuMemAlloc"), 0);
  EXPECT_EQ(arrays[1]->address(), arrays[0]->address() + 5'000'192) << "512 bytes are whole";
  EXPECT_EQ(arrays[19]->address() - arrays[0]->address(), 19u * 5'000'192);
  // They can be used, and are apart.
  queue_ = std::move(device->create_queue()).value();
  std::vector<std::byte> bytes(5'000'000);
  for (std::size_t n = 0; n < arrays.size(); ++n)
    ASSERT_TRUE(queue_->fill(arrays[n], 0, bytes.size(), static_cast<std::uint32_t>(n + 1), 1).ok());
  for (std::size_t n = 0; n < arrays.size(); ++n) {
    ASSERT_TRUE(queue_->copy_to_host(bytes, arrays[n], 0).ok());
    ASSERT_TRUE(queue_->synchronize().ok());
    EXPECT_TRUE(std::ranges::all_of(bytes, [&](std::byte b) { return b == static_cast<std::byte>(n + 1); })) << n;
  }
  queue_.reset();
  arrays.erase(arrays.begin() + 3, arrays.begin() + 17);
  arrays.clear();
  EXPECT_THAT(control().alive(), HasSubstr("1 reservations"));
  EXPECT_THAT(control().alive(), ::testing::Not(HasSubstr("mappings")));
  device.reset();
  EXPECT_EQ(control().alive(), "");
}

TEST_F(DeviceArena, MoreFitsThanWithPagesOfTheirOwn) {
  control().set("memory_bytes", 96 * kMiB);
  const DevicePtr device = open();
  std::vector<BufferPtr> arrays;
  for (int n = 0; n < 20; ++n) {
    auto one = device->allocate(5'000'000, MemoryKind::kDevice);
    ASSERT_TRUE(one.ok()) << n << ": " << one.message();
    arrays.push_back(std::move(*one));
  }
  const auto more = device->allocate(5'000'000, MemoryKind::kDevice);
  EXPECT_EQ(more.code(), Code::kResourceExhausted);
  EXPECT_THAT(more.message(), HasSubstr("allocating 5000000 bytes"));
  arrays.erase(arrays.begin() + 7);
  EXPECT_TRUE(device->allocate(5'000'000, MemoryKind::kDevice).ok()) << "where one has gone";
}

TEST_F(DeviceArena, WhatFailsHalfWay_LeavesNothing) {
  for (const char* const function : {"cuMemCreate", "cuMemMap", "cuMemSetAccess"})
    for (int skip = 0; skip < 3; ++skip) {
      control().reset();
      control().set("virtual", 1);
      DevicePtr device = open();
      BufferPtr first = std::move(device->allocate(100, MemoryKind::kDevice)).value();
      control().fail(function, cuda::CUDA_ERROR_OUT_OF_MEMORY, skip);
      const auto refused = device->allocate(7 * kMiB, MemoryKind::kDevice);  // two mappings
      EXPECT_EQ(refused.ok(), skip == 2) << function << " " << skip;
      if (!refused.ok()) {
        EXPECT_EQ(refused.code(), Code::kResourceExhausted);
      }
      control().fail(function, 0, 1000);
      BufferPtr again = std::move(device->allocate(7 * kMiB, MemoryKind::kDevice)).value();
      std::memset(reinterpret_cast<void*>(again->address()), 1, again->size_bytes());
      EXPECT_THAT(control().alive(), ::testing::Not(HasSubstr("handles")));
    }
}

TEST_F(DeviceArena, WithoutIt_EachArrayIsTheDriversOwn) {
  CudaDeviceOptions own = options();
  own.packs_memory = false;
  const DevicePtr plain = std::move(create_cuda_device(0, own)).value();
  EXPECT_TRUE(plain->allocate(100, MemoryKind::kDevice).ok());
  EXPECT_EQ(control().calls("cuMemAlloc"), 1);
  control().set("virtual", 0);
  const DevicePtr old = open();
  EXPECT_TRUE(old->allocate(100, MemoryKind::kDevice).ok());
  EXPECT_EQ(control().calls("cuMemAlloc"), 2);
  EXPECT_EQ(control().calls("cuMemAddressReserve"), 0);
}

TEST_F(DeviceArena, WhereAddressesCannotBeReserved_EachArrayIsTheDriversOwn) {
  control().fail("cuMemAddressReserve", cuda::CUDA_ERROR_OUT_OF_MEMORY, 0);
  const DevicePtr device = open();
  EXPECT_TRUE(device->allocate(100, MemoryKind::kDevice).ok());
  EXPECT_EQ(control().calls("cuMemAlloc"), 1);
}

TEST_F(DeviceArena, IsChosenByTheEnvironment) {
  setenv("PERGOLA_CUDA_MEMORY", "driver", 1);
  EXPECT_FALSE(CudaDeviceOptions::from_environment()->packs_memory);
  setenv("PERGOLA_CUDA_MEMORY", "loose", 1);
  EXPECT_EQ(CudaDeviceOptions::from_environment().message(),
            "PERGOLA_CUDA_MEMORY is 'loose'; it can be 'packed' or 'driver'.");
  unsetenv("PERGOLA_CUDA_MEMORY");
  EXPECT_TRUE(CudaDeviceOptions::from_environment()->packs_memory);
}

// Another library's work, or work that outlasts what is waited for it, may still use memory whose last handle goes.
TEST_F(DeviceArena, MemoryIsAnothersOnlyBehindAllWork) {
  CudaDeviceOptions impatient = options();
  impatient.end_grace = std::chrono::milliseconds(50);
  const DevicePtr device = std::move(create_cuda_device(0, impatient)).value();
  const ModulePtr module = std::move(load(*device)).value();
  queue_ = std::move(device->create_queue()).value();
  control().set("memory_bytes", 4 * kMiB);
  BufferPtr used = std::move(device->allocate(3 * kMiB, MemoryKind::kDevice)).value();
  const std::uint64_t address = used->address();
  control().hold();
  ASSERT_TRUE(launch(*queue_, module, "add_one", add_one(used, 16)).ok());
  // As no caller may: the queue keeps what its work uses, but for what it was not told of.
  const int unmapped = control().calls("cuMemUnmap");
  used.reset();
  auto other = std::async(std::launch::async, [&] { return device->allocate(3 * kMiB, MemoryKind::kDevice); });
  EXPECT_EQ(other.wait_for(std::chrono::milliseconds(200)), std::future_status::timeout);
  EXPECT_EQ(control().calls("cuMemUnmap"), unmapped);
  control().go();
  const auto next = other.get();
  ASSERT_TRUE(next.ok()) << next.message();
  EXPECT_EQ((*next)->address(), address);
  ASSERT_TRUE(queue_->synchronize().ok());
}

TEST_F(DeviceArena, WhatIsApart_IsTheDriversOwn) {
  const DevicePtr device = open();
  EXPECT_TRUE(device->allocate_apart(100, MemoryKind::kDevice).ok());
  EXPECT_EQ(control().calls("cuMemAlloc"), 1);
  EXPECT_EQ(control().calls("cuMemFree"), 1);
}

TEST_F(DeviceArena, WhereThereIsNoMemoryForAddresses_EachArrayIsTheDriversOwn) {
  for (const char* const function : {"cuMemCreate", "cuMemMap", "cuMemSetAccess"}) {
    control().reset();
    control().set("virtual", 1);
    control().fail(function, cuda::CUDA_ERROR_OPERATING_SYSTEM, 0);  // as it may be given to network adapters
    DevicePtr device = open();
    EXPECT_TRUE(device->allocate(100, MemoryKind::kDevice).ok());
    EXPECT_EQ(control().calls("cuMemAlloc"), 0) << function << ": as it may not";
    device.reset();
    EXPECT_EQ(control().alive(), "");
  }
  control().reset();
  control().set("virtual", 1);
  control().set("memory_bytes", 1 * kMiB);  // no page
  DevicePtr device = open();
  EXPECT_TRUE(device->allocate(100, MemoryKind::kDevice).ok());
  EXPECT_EQ(control().calls("cuMemAlloc"), 1);
  EXPECT_EQ(control().calls("cuMemAddressFree"), 1);
  device.reset();
  EXPECT_EQ(control().alive(), "");
}

// Each thread's arrays keep what it wrote.
TEST_F(DeviceArena, ThreadsHaveArraysOfTheirOwn) {
  const DevicePtr device = open();
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&, t] {
      std::vector<BufferPtr> mine;
      for (int n = 0; n < 60; ++n) {
        mine.push_back(
            std::move(device->allocate(1 + static_cast<std::size_t>(n * 7919 % 300000), MemoryKind::kDevice)).value());
        std::memset(reinterpret_cast<void*>(mine.back()->address()), t + 1, mine.back()->size_bytes());
        if (n % 3 == 2) mine.erase(mine.begin());
      }
      for (const BufferPtr& one : mine) {
        const auto* const bytes = reinterpret_cast<const unsigned char*>(one->address());
        EXPECT_TRUE(std::all_of(bytes, bytes + one->size_bytes(), [&](unsigned char b) { return b == t + 1; }));
      }
    });
  for (std::thread& thread : threads) thread.join();
}

TEST_F(DeviceArena, OfALostDevice_MemoryGoesWithoutAWord) {
  DevicePtr device = open();
  BufferPtr buffer = std::move(device->allocate(3 * kMiB, MemoryKind::kDevice)).value();
  queue_ = std::move(device->create_queue()).value();
  control().lose("cuMemsetD8Async", cuda::CUDA_ERROR_ILLEGAL_ADDRESS, 0);
  EXPECT_EQ(queue_->fill(buffer, 0, 100, 1, 1).code(), Code::kDeviceLost);
  EXPECT_EQ(device->allocate(100, MemoryKind::kDevice).code(), Code::kDeviceLost);
  queue_.reset();
  const int unmapped = control().calls("cuMemUnmap");
  buffer.reset();
  EXPECT_GE(control().calls("cuMemUnmap"), unmapped + 1) << "what a lost device says to that is nobody's business";
  device.reset();
}

}  // namespace
}  // namespace pergola::device
