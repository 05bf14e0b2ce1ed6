// Small page-locked memory of the CUDA device, over the fake driver; and several copies as one, which it makes
// possible.
#include <gmock/gmock.h>

#include <algorithm>
#include <cstring>
#include <random>
#include <thread>
#include <vector>

#include "src/device/cuda/cuda_device_fixture.h"
#include "src/device/cuda/host_slabs.h"

namespace pergola::device {
namespace {

using ::testing::HasSubstr;

class HostSlabs : public CudaDevice {
 protected:
  static constexpr std::size_t kMiB = std::size_t{1} << 20;
  static BufferPtr take(const DevicePtr& device, std::size_t bytes) {
    return std::move(device->allocate(bytes, MemoryKind::kHostVisible)).value();
  }
  // What a device page-locks by itself when it is opened and used is not looked at.
  int slabs() { return control().calls("cuMemHostAlloc") - others_; }
  DevicePtr opened() {
    const DevicePtr device = open();
    others_ = control().calls("cuMemHostAlloc");
    return device;
  }

 private:
  int others_ = 0;
};

TEST_F(HostSlabs, SmallBuffersLieOneBehindTheOther_InSlabsThatGrow) {
  const DevicePtr device = opened();
  std::vector<BufferPtr> all;
  for (int n = 0; n < 20; ++n) all.push_back(take(device, 500'000));
  EXPECT_EQ(slabs(), 4) << "of 1, 2, 4 and 8 MiB: 2, 4, 8 and 6 buffers";
  EXPECT_EQ(all[1]->host_pointer() - all[0]->host_pointer(), 500'224);
  EXPECT_EQ(all[1]->piece(), all[0]->piece());
  EXPECT_NE(all[2]->piece(), all[0]->piece());
  EXPECT_EQ(all[2]->piece(), all[5]->piece());
  for (std::size_t n = 0; n < all.size(); ++n) std::memset(all[n]->host_pointer(), static_cast<int>(n), 500'000);
  for (std::size_t n = 0; n < all.size(); ++n) {
    const auto* const bytes = reinterpret_cast<const unsigned char*>(all[n]->host_pointer());
    EXPECT_TRUE(std::all_of(bytes, bytes + 500'000, [&](unsigned char b) { return b == n; })) << n;
  }
}

TEST_F(HostSlabs, WhatIsLargerThanASlab_HasOneThatIsLargeEnough_AndWhatIsLarge_IsTheDriversOwn) {
  const DevicePtr device = opened();
  const BufferPtr first = take(device, 3 * kMiB), second = take(device, kMiB);
  EXPECT_EQ(slabs(), 1);
  EXPECT_EQ(first->piece(), second->piece());
  const BufferPtr own = take(device, 4 * kMiB + 1);
  EXPECT_EQ(slabs(), 2);
  EXPECT_EQ(own->piece(), own.get());
  const BufferPtr apart = std::move(device->allocate_apart(8, MemoryKind::kHostVisible)).value();
  EXPECT_EQ(slabs(), 3);
  EXPECT_EQ(apart->piece(), apart.get());
}

TEST_F(HostSlabs, AnotherBufferTakesWhatOneLeft_AndOneEmptySlabStays) {
  DevicePtr device = opened();
  std::vector<BufferPtr> all;
  for (int n = 0; n < 6; ++n) all.push_back(take(device, 500'000));
  EXPECT_EQ(slabs(), 2);
  const std::byte* const at = all[3]->host_pointer();
  all[3].reset();
  all[3] = take(device, 400'000);
  EXPECT_EQ(all[3]->host_pointer(), at);
  all.erase(all.begin(), all.begin() + 2);
  EXPECT_EQ(control().calls("cuMemFreeHost"), 0) << "the first slab stays for the next buffer";
  all.clear();
  EXPECT_EQ(control().calls("cuMemFreeHost"), 1) << "the smaller one of two";
  for (int n = 0; n < 100; ++n) take(device, 500'000);
  EXPECT_EQ(slabs(), 2);
  device.reset();
  EXPECT_EQ(control().alive(), "");
}

TEST_F(HostSlabs, WhereTheHostHasNoMoreForASlab_ABufferIsTheDriversOwn) {
  const DevicePtr device = opened();
  control().fail("cuMemHostAlloc", cuda::CUDA_ERROR_OUT_OF_MEMORY, 0);
  const BufferPtr one = take(device, 100);
  EXPECT_EQ(one->piece(), one.get());
  EXPECT_EQ(slabs(), 2);
}

TEST_F(HostSlabs, WithoutThem_EachBufferIsTheDriversOwn) {
  CudaDeviceOptions own = options();
  own.packs_memory = false;
  const DevicePtr device = std::move(create_cuda_device(0, own)).value();
  const int before = control().calls("cuMemHostAlloc");
  const BufferPtr one = take(device, 100), other = take(device, 100);
  EXPECT_EQ(control().calls("cuMemHostAlloc"), before + 2);
  EXPECT_NE(one->piece(), other->piece());
}

// Whoever is given memory that another had finds no work that still uses it.
TEST_F(HostSlabs, MemoryIsAnothersOnlyBehindAllWork) {
  const DevicePtr device = opened();
  BufferPtr one = take(device, 100);
  const int waits = control().calls("cuCtxSynchronize");
  one.reset();
  EXPECT_EQ(control().calls("cuCtxSynchronize"), waits + 1);
}

// What is closed has nothing that the driver would wait for.
TEST_F(HostSlabs, ADeviceThatHadNone_ClosesBesideAnothersWork) {
  CudaDeviceOptions patient = options();
  patient.end_grace = std::chrono::seconds(20);
  const DevicePtr busy = std::move(create_cuda_device(0, patient)).value();
  const BufferPtr data = std::move(busy->allocate(64, MemoryKind::kDevice)).value();
  DevicePtr other = std::move(create_cuda_device(0, patient)).value();
  Queue& queue = queue_of(busy);
  control().hold();
  ASSERT_TRUE(queue.fill(data, 0, 64, 0, 1).ok());
  const auto begun = std::chrono::steady_clock::now();
  other.reset();
  EXPECT_LT(std::chrono::steady_clock::now() - begun, std::chrono::seconds(10));
  control().go();
  ASSERT_TRUE(queue.synchronize().ok());
}

TEST_F(HostSlabs, WhatIsApart_IsOfItsKind) {
  const DevicePtr device = opened();
  const auto managed = device->allocate_apart(8, MemoryKind::kManaged);
  ASSERT_TRUE(managed.ok()) << managed.message();
  EXPECT_EQ((*managed)->kind(), MemoryKind::kManaged);
  EXPECT_EQ(device->allocate_apart(std::size_t{1} << 60, MemoryKind::kHostVisible).code(), Code::kResourceExhausted);
}

TEST_F(HostSlabs, OfRandomBuffersOfSeveralThreads_NoTwoShareAByte) {
  const std::uint32_t seed = std::random_device()();
  SCOPED_TRACE(seed);
  DevicePtr device = opened();
  std::vector<std::thread> threads;
  for (std::uint32_t t = 0; t < 4; ++t)
    threads.emplace_back([&, t] {
      std::mt19937 random(seed + t);
      std::vector<BufferPtr> mine;
      const auto is_mine = [&](const BufferPtr& one) {
        const auto* const bytes = reinterpret_cast<const unsigned char*>(one->host_pointer());
        return std::all_of(bytes, bytes + one->size_bytes(), [&](unsigned char b) { return b == t + 1; });
      };
      for (int n = 0; n < 200; ++n) {
        mine.push_back(take(device, random() % (random() % 20 == 0 ? 3'000'000 : 60'000)));
        if (mine.back()->size_bytes() != 0)
          std::memset(mine.back()->host_pointer(), static_cast<int>(t + 1), mine.back()->size_bytes());
        if (random() % 3 == 0) continue;
        const std::size_t which = random() % mine.size();
        EXPECT_TRUE(is_mine(mine[which]));
        mine.erase(mine.begin() + static_cast<std::ptrdiff_t>(which));
      }
      for (const BufferPtr& one : mine) EXPECT_TRUE(is_mine(one));
    });
  for (std::thread& thread : threads) thread.join();
  device.reset();
  EXPECT_EQ(control().alive(), "");
}

// Up in rows and back in a line, with what lies between untouched.
TEST_F(HostSlabs, CopiesOfSeveralBuffers_AreOneNode) {
  control().set("virtual", 1);
  const DevicePtr device = open();
  Queue& queue = queue_of(device);
  std::vector<BufferPtr> up, on_device, down;
  for (int n = 0; n < 6; ++n) up.push_back(take(device, 1000));
  for (int n = 0; n < 3; ++n) on_device.push_back(std::move(device->allocate(1000, MemoryKind::kDevice)).value());
  for (int n = 0; n < 3; ++n) down.push_back(take(device, 1000));
  for (std::size_t n = 0; n < 6; ++n) std::memset(up[n]->host_pointer(), static_cast<int>(n + 1), 1000);
  for (const BufferPtr& one : down) std::memset(one->host_pointer(), 99, 1000);
  GraphSpec spec;
  spec.nodes.push_back(
      {CopyNode{on_device[0], 0, up[0], 0, 1000, {{on_device[1], up[2], 1000}, {on_device[2], up[4], 1000}}}, {}, {}});
  spec.nodes.push_back({CopyNode{down[0], 0, on_device[0], 0, 1000, {{down[1], on_device[1], 1000}}}, {0}, {}});
  auto graph = std::move(device->instantiate(spec)).value();
  EXPECT_EQ(control().calls("cuGraphAddMemcpyNode"), 2);
  ASSERT_TRUE(graph->launch(queue).ok());
  ASSERT_TRUE(queue.synchronize().ok());
  EXPECT_EQ(down[0]->host_pointer()[999], std::byte{1});
  EXPECT_EQ(down[1]->host_pointer()[0], std::byte{3});
  EXPECT_EQ(down[1]->host_pointer()[999], std::byte{3});
  EXPECT_EQ(down[2]->host_pointer()[0], std::byte{99});

  std::get<CopyNode>(spec.nodes[1].work).more_rows[0].source = on_device[2];  // further apart than where they go to
  std::get<CopyNode>(spec.nodes[1].work).more_rows.push_back({down[2], on_device[1], 1000});
  EXPECT_THAT(device->instantiate(spec).message(), HasSubstr("its 3 copies cannot be one"));
  spec.nodes.pop_back();
  std::get<CopyNode>(spec.nodes[0].work).more_rows[0].size_bytes = 1001;
  EXPECT_THAT(device->instantiate(spec).message(), HasSubstr("range of 1001 bytes"));
  const BufferPtr elsewhere = take(device, 5 * kMiB);
  std::get<CopyNode>(spec.nodes[0].work).more_rows = {{on_device[1], elsewhere, 1000}};
  EXPECT_THAT(device->instantiate(spec).message(), HasSubstr("its 2 copies cannot be one"));
  EXPECT_EQ(device->instantiate(spec).code(), Code::kInvalidArgument);
}

}  // namespace
}  // namespace pergola::device
