// What goes, over the fake driver, while work on the device goes on that may never end.
#include <gtest/gtest.h>

#include <cstring>
#include <thread>

#include "src/device/cuda/cuda_device_fixture.h"
#include "src/device/cuda/cuda_driver_types.h"

namespace pergola::device {
namespace {

using namespace std::chrono_literals;

// A driver frees nothing until kernels that stay have left.
TEST_F(CudaDevice, WhatIsFreedBesideAResidentKernel_GoesWhenTheLastHasLeft) {
  const DevicePtr device = open();
  BufferPtr memory = std::move(device->allocate(64, MemoryKind::kDevice)).value();
  BufferPtr pinned = std::move(device->allocate_apart(64, MemoryKind::kHostVisible)).value();
  device->resident_begins();
  device->resident_begins();
  memory.reset();
  pinned.reset();
  device->resident_ends();
  EXPECT_EQ(control().calls("cuMemFree") + control().calls("cuMemFreeHost"), 0);
  device->resident_ends();
  device->free_kept();
  EXPECT_EQ(control().calls("cuMemFree"), 1);
  EXPECT_EQ(control().calls("cuMemFreeHost"), 1);
  memory = std::move(device->allocate(64, MemoryKind::kDevice)).value();
  memory.reset();
  EXPECT_EQ(control().calls("cuMemFree"), 2) << "at once, where none is";
}

// Nobody can stop a kernel: what it uses stays, and the driver is not asked for anything that would wait for it.
TEST_F(CudaDevice, AQueueThatGoes_WithAKernelWithoutEnd_IsLeftAfterItsGrace) {
  CudaDeviceOptions impatient = options();
  impatient.end_grace = 200ms;
  DevicePtr device = std::move(create_cuda_device(0, impatient)).value();
  ModulePtr module = std::move(load(*device)).value();
  BufferPtr data = std::move(device->allocate(64, MemoryKind::kDevice)).value();
  const BufferPtr flag = std::move(device->allocate(4, MemoryKind::kHostVisible)).value();
  const auto word = std::atomic_ref(*reinterpret_cast<std::uint32_t*>(flag->host_pointer()));
  word.store(0);
  std::vector<std::byte> bytes(16);
  const std::uint64_t addresses[] = {data->address(), flag->address()};
  std::memcpy(bytes.data(), addresses, sizeof addresses);
  auto first = std::move(device->create_queue()).value(), second = std::move(device->create_queue()).value();
  ASSERT_TRUE(first->copy_to_device(data, 0, std::vector<std::byte>(64)).ok());
  ASSERT_TRUE(launch(*first, module, "hold", bytes).ok());
  ASSERT_TRUE(second->wait(std::move(first->record_for_host()).value()).ok());
  auto owner = std::make_shared<int>(7);
  std::uint32_t theirs[4] = {};
  BufferPtr adopted =
      std::move(device->adopt(
                    {.address = reinterpret_cast<std::uint64_t>(theirs), .size_bytes = sizeof theirs, .owner = owner}))
          .value();
  ASSERT_TRUE(second->copy(adopted, 0, data, 0, 4).ok());

  const auto begun = std::chrono::steady_clock::now();
  testing::internal::CaptureStderr();
  first.reset();
  const auto took = std::chrono::steady_clock::now() - begun;
  second.reset();
  const std::string told = testing::internal::GetCapturedStderr();
  EXPECT_GE(took, 200ms);
  EXPECT_LT(std::chrono::steady_clock::now() - begun, 2 * took) << "they share the grace";
  EXPECT_NE(told.find("while its work goes on: kernel 'hold'. None"), std::string::npos) << told;
  EXPECT_NE(told.find("PERGOLA_END_GRACE_MS"), std::string::npos) << told;
  EXPECT_NE(told.find("with no launch among it"), std::string::npos) << told;
  data.reset(), module.reset(), adopted.reset(), device.reset();
  for (const char* frees : {"cuMemFree", "cuMemFreeHost", "cuLibraryUnload", "cuStreamDestroy", "cuStreamSynchronize",
                            "cuDevicePrimaryCtxRelease"})
    EXPECT_EQ(control().calls(frees), 0) << frees;
  EXPECT_EQ(owner.use_count(), 2);

  // Where it ends after all, whoever frees next sees to it.
  word.store(1);
  const DevicePtr later = open();
  const auto until = std::chrono::steady_clock::now() + 10s;
  while (control().calls("cuStreamDestroy") < 2 && std::chrono::steady_clock::now() < until) {
    later->free_kept();
    std::this_thread::sleep_for(1ms);
  }
  later->free_kept();
  EXPECT_EQ(control().calls("cuStreamDestroy"), 2);
  EXPECT_EQ(control().calls("cuMemFree"), 1);
  EXPECT_EQ(control().calls("cuLibraryUnload"), 1);
  EXPECT_EQ(owner.use_count(), 1);
  BufferPtr memory = std::move(later->allocate(64, MemoryKind::kDevice)).value();
  memory.reset();
  EXPECT_EQ(control().calls("cuMemFree"), 2) << "at once again";
}

// What gets on is waited for, however long that takes.
TEST_F(CudaDevice, AQueueThatGoes_WaitsForWorkThatGetsOn) {
  std::this_thread::sleep_for(150ms);  // right behind one that has been given up it would not
  CudaDeviceOptions impatient = options();
  impatient.end_grace = 300ms;
  const DevicePtr device = std::move(create_cuda_device(0, impatient)).value();
  const ModulePtr module = std::move(load(*device)).value();
  const BufferPtr data = std::move(device->allocate(64, MemoryKind::kDevice)).value();
  const GatePtr gate = std::move(device->create_gate()).value();
  auto queue = std::move(device->create_queue()).value();
  std::vector<EventPtr> ends;
  for (std::uint32_t n = 1; n <= 4; ++n) {
    ASSERT_TRUE(queue->wait_for_gate(gate, n).ok());
    ASSERT_TRUE(launch(*queue, module, "add_one", add_one(data, 16)).ok());
    ends.push_back(std::move(queue->record_for_host()).value());
  }
  std::thread opens([&] {
    for (std::uint32_t n = 1; n <= 4; ++n) {
      std::this_thread::sleep_for(150ms);
      gate->open(n);
    }
  });
  queue.reset();
  opens.join();
  EXPECT_TRUE(ends.back()->poll().has_value());
}

// A driver waits for kernels of all sessions; who goes leaves what it freed to the others.
TEST_F(CudaDevice, WhatIsFreedBesideAnothersResidentKernel_IsKeptToo) {
  const DevicePtr resident = open();
  resident->resident_begins();
  {
    const DevicePtr other = open();
    std::move(other->allocate(64, MemoryKind::kDevice)).value().reset();
  }
  EXPECT_EQ(control().calls("cuMemFree"), 0);
  resident->resident_ends();
  const BufferPtr next = std::move(resident->allocate(64, MemoryKind::kDevice)).value();
  EXPECT_EQ(control().calls("cuMemFree"), 1) << "whoever allocates frees it first";
}

// Such a call may wait in the driver for a resident kernel, with a lock that others need, on whichever of the process's
// devices it is made.
TEST_F(CudaDevice, CallsThatWaitForResidentKernels_HaveThemLeaveFirst) {
  const DevicePtr resident = open(), other = open();
  std::string seen;
  const auto calls = [&] {
    return control().calls("cuGraphInstantiateWithParams") + control().calls("cuLibraryGetModule");
  };
  resident->add_resident(&seen, [&]() -> Result<std::shared_ptr<void>> {
    const int before = calls();
    const std::shared_ptr<void> away(nullptr, [&seen, before, calls](void*) {
      seen += calls() == before + 1 ? "away until after the call\n" : "came back before\n";
    });
    return away;
  });
  const BufferPtr a = *other->allocate(64, MemoryKind::kDevice);
  const auto instantiate = [&] {
    GraphSpec spec;
    spec.nodes.push_back({FillNode{a, 0, 64, 5, 4}, {}});
    return other->instantiate(std::move(spec)).status();
  };
  EXPECT_TRUE(instantiate().ok());
  EXPECT_TRUE(load(*other).ok());
  EXPECT_EQ(seen, "away until after the call\naway until after the call\n");
  resident->remove_resident(&seen);
  EXPECT_TRUE(instantiate().ok());
  EXPECT_EQ(seen, "away until after the call\naway until after the call\n");
  resident->add_resident(&seen, [] { return PERGOLA_ERROR(kUnavailable, "It goes on."); });
  EXPECT_EQ(instantiate().message(), "It goes on.");
  EXPECT_EQ(load(*other).message(), "It goes on.");
  resident->remove_resident(&seen);
}

// What is dropped then may own other memory of the GPU, whose end frees something itself.
TEST_F(CudaDevice, AnOwnerThatIsKeptBesideWork_MayBeAnArrayOfTheSameGpu) {
  CudaDeviceOptions impatient = options();
  impatient.end_grace = 50ms;
  DevicePtr theirs = std::move(create_cuda_device(0, impatient)).value();
  const DevicePtr mine = std::move(create_cuda_device(0, impatient)).value();
  const ModulePtr module = std::move(load(*theirs)).value();
  BufferPtr array = std::move(mine->allocate(64, MemoryKind::kDevice)).value();
  BufferPtr adopted = std::move(theirs->adopt({array->address(), 64, 0, array})).value();
  queue_ = std::move(theirs->create_queue()).value();
  control().hold();
  ASSERT_TRUE(launch(*queue_, module, "add_one", add_one(adopted, 16)).ok());
  queue_.reset();  // its stream is left
  adopted.reset();
  const std::weak_ptr<Buffer> seen = array;
  array.reset();
  EXPECT_FALSE(seen.expired()) << "the work that is left may use it";
  control().go();
  for (int n = 0; n < 1000 && !seen.expired(); ++n) {
    std::this_thread::sleep_for(1ms);
    EXPECT_TRUE(mine->allocate(8, MemoryKind::kDevice).ok());
  }
  EXPECT_TRUE(seen.expired());
}

// What has been freed while others' work went on is memory again before an allocation fails.
TEST_F(CudaDevice, WhatIsKeptBesideWorkThatGoesOn_IsFreedBeforeMemoryIsSaidToBeShort) {
  CudaDeviceOptions impatient = options();
  impatient.end_grace = 50ms;
  const DevicePtr device = std::move(create_cuda_device(0, impatient)).value();
  const ModulePtr module = std::move(load(*device)).value();
  const BufferPtr data = std::move(device->allocate(64, MemoryKind::kDevice)).value();
  Queue& queue = queue_of(device);
  control().set("memory_bytes", 4 << 20);
  BufferPtr most = std::move(device->allocate(3 << 20, MemoryKind::kDevice)).value();
  control().hold();  // the stream goes on for longer than is waited for
  ASSERT_TRUE(launch(queue, module, "add_one", add_one(data, 16)).ok());
  const int freed = control().calls("cuMemFree");
  most.reset();
  EXPECT_EQ(control().calls("cuMemFree"), freed) << "the driver would wait for the stream";
  const auto more = device->allocate(2 << 20, MemoryKind::kDevice);
  EXPECT_TRUE(more.ok()) << more.message();
  EXPECT_EQ(control().calls("cuMemFree"), freed + 1);
  EXPECT_EQ(device->allocate(3 << 20, MemoryKind::kDevice).code(), Code::kResourceExhausted) << "nothing is kept now";
  control().go();
  ASSERT_TRUE(queue.synchronize().ok());
}

}  // namespace
}  // namespace pergola::device
