// The CUDA device over the fake driver (fake/): all of it but the GPU.
#include "src/device/cuda/cuda_device.h"

#include <dlfcn.h>
#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <thread>

#include "src/device/cuda/cuda_device_fixture.h"
#include "src/device/cuda/cuda_driver_types.h"

namespace pergola::device {
namespace {

using namespace std::chrono_literals;

TEST_F(CudaDevice, WithoutADriver_IsUnavailableAndSaysWhy) {
  const auto device = create_cuda_device(0, {.driver_library = "libno_such_driver.so.1"});
  EXPECT_EQ(device.code(), Code::kUnavailable);
  EXPECT_EQ(device.message().rfind("No NVIDIA driver: libno_such_driver.so.1", 0), 0u) << device.message();
  const CudaStatus status = cuda_status("libno_such_driver.so.1");
  EXPECT_FALSE(status.available);
  EXPECT_EQ(status.reason, device.message());
}

TEST_F(CudaDevice, LibraryThatIsNoDriver_IsUnavailable) {
  const auto device = create_cuda_device(0, {.driver_library = "libm.so.6"});
  EXPECT_EQ(device.code(), Code::kUnavailable);
  EXPECT_NE(device.message().find("no CUDA driver"), std::string::npos) << device.message();
}

TEST_F(CudaDevice, OldDriverAndNoGpu_AreNamed) {
  // Under other names, since a driver that opened well is kept.
  std::filesystem::create_directories(folder_);
  for (const char* name : {"old.so", "empty.so"}) std::filesystem::create_symlink(PERGOLA_FAKE_CUDA, folder_ / name);
  control().set("version", 11040);
  const auto old = create_cuda_device(0, {.driver_library = folder_ / "old.so"});
  EXPECT_EQ(old.code(), Code::kUnavailable);
  EXPECT_NE(old.message().find("CUDA 11.4, and 12.0 is needed"), std::string::npos) << old.message();
  control().set("version", 13000);
  control().set("devices", 0);
  const auto empty = create_cuda_device(0, {.driver_library = folder_ / "empty.so"});
  EXPECT_EQ(empty.code(), Code::kUnavailable);
  EXPECT_NE(empty.message().find("finds no GPU"), std::string::npos) << empty.message();
}

TEST_F(CudaDevice, OrdinalBeyondTheLast_IsUnavailable) {
  for (int ordinal : {-1, 1, 100}) {
    const auto device = create_cuda_device(ordinal, options());
    EXPECT_EQ(device.code(), Code::kUnavailable);
    EXPECT_NE(device.message().find("shows 1"), std::string::npos) << device.message();
  }
}

TEST_F(CudaDevice, Status_ListsTheGpus) {
  const CudaStatus status = cuda_status(PERGOLA_FAKE_CUDA);
  EXPECT_TRUE(status.available) << status.reason;
  ASSERT_EQ(status.gpus.size(), 1u);
  EXPECT_EQ(status.gpus[0].name, "Fake GPU");
  EXPECT_EQ(status.driver_version.rfind("CUDA 13.0", 0), 0u);
}

TEST_F(CudaDevice, AdoptedMemory_IsUsedInPlaceAndItsOwnerHeldUntilTheWorkEnds) {
  const DevicePtr device = open();
  Queue& queue = queue_of(device);
  std::vector<std::uint32_t> memory(64, 7);  // the fake GPU's memory is the host's
  auto owner = std::make_shared<int>(0);
  const std::weak_ptr<int> held = owner;
  const auto address = reinterpret_cast<DeviceAddress>(memory.data());
  EXPECT_EQ(device->adopt({address, 256, 0, nullptr}).code(), Code::kInvalidArgument);
  EXPECT_EQ(device->adopt({0, 256, 0, owner}).code(), Code::kInvalidArgument);
  BufferPtr buffer = std::move(device->adopt({address, 256, 1, std::move(owner)})).value();
  EXPECT_EQ(buffer->address(), address);
  EXPECT_EQ(buffer->kind(), MemoryKind::kDevice);
  ASSERT_TRUE(queue.fill(buffer, 0, 256, 9, 4).ok());
  buffer.reset();
  ASSERT_TRUE(queue.synchronize().ok());
  EXPECT_TRUE(held.expired());
  EXPECT_EQ(memory, std::vector<std::uint32_t>(64, 9)) << "and it was not freed";
}

// Another library's use of the driver.
template <typename F>
F driver_function(const char* name) {
  void* const library = dlopen(PERGOLA_FAKE_CUDA, RTLD_NOW | RTLD_NOLOAD);
  return reinterpret_cast<F>(dlsym(library, name));
}

TEST_F(CudaDevice, ForeignStreams_AreWaitedForAndMadeToWait) {
  const DevicePtr device = open();
  Queue& queue = queue_of(device);
  const auto set =
      driver_function<cuda::CUresult (*)(cuda::CUdeviceptr, unsigned, std::size_t, cuda::CUstream)>("cuMemsetD32Async");
  const auto synchronize = driver_function<cuda::CUresult (*)(cuda::CUstream)>("cuStreamSynchronize");
  cuda::CUstream stream = nullptr;
  ASSERT_EQ(driver_function<cuda::CUresult (*)(cuda::CUstream*, unsigned)>("cuStreamCreate")(&stream, 0), 0);
  const auto number = reinterpret_cast<std::uint64_t>(stream);
  constexpr std::size_t kWords = 8 << 20;  // long enough to be overtaken
  const BufferPtr a = *device->allocate(4 * kWords, MemoryKind::kDevice);
  const BufferPtr b = *device->allocate(4 * kWords, MemoryKind::kDevice);
  const auto last = [&](const BufferPtr& buffer) {
    std::uint32_t word = 0;
    std::memcpy(&word, reinterpret_cast<const void*>(buffer->address() + 4 * (kWords - 1)), 4);
    return word;
  };

  ASSERT_EQ(set(a->address(), 7, kWords, stream), 0);
  const auto made = device->record_foreign(number);
  ASSERT_TRUE(made.ok()) << made.message();
  ASSERT_TRUE(queue.wait(*made).ok());
  ASSERT_TRUE(queue.copy(b, 0, a, 0, 4 * kWords).ok());
  const EventPtr copied = *queue.record();
  ASSERT_TRUE(device->make_foreign_wait(number, copied).ok());
  ASSERT_EQ(set(a->address(), 9, kWords, stream), 0);
  ASSERT_EQ(synchronize(stream), 0);
  EXPECT_EQ(last(b), 7u) << "copied after the first fill and before the second";
  EXPECT_EQ(last(a), 9u);
  EXPECT_TRUE(copied->poll().has_value());

  for (const std::uint64_t default_stream : {0, 1, 2}) {
    EXPECT_TRUE(device->record_foreign(default_stream).ok());
    EXPECT_TRUE(device->make_foreign_wait(default_stream, copied).ok());
  }
  control().fail("cuEventRecord", 400, 0);
  const auto refused = device->record_foreign(number);
  EXPECT_EQ(refused.code(), Code::kInvalidArgument);
  EXPECT_NE(refused.message().find(fmt::format("another library's stream {:#x}", number)), std::string::npos)
      << refused.message();
  EXPECT_EQ(device->make_foreign_wait(number, nullptr).code(), Code::kInvalidArgument);
  const Result<void*> handle = queue.native_handle();
  ASSERT_TRUE(handle.ok());
  EXPECT_NE(*handle, nullptr);
  EXPECT_NE(*handle, stream);
  EXPECT_EQ(driver_function<cuda::CUresult (*)(cuda::CUstream)>("cuStreamDestroy_v2")(stream), 0);
}

TEST_F(CudaDevice, ShareOfSharedMemory_IsSaidOfAModulesKernels) {
  const DevicePtr device = open();
  const auto module = ptx::parse(kPtx, "fake.ptx");
  (void)control().log();
  ASSERT_TRUE(device->load({.module = &*module, .text = kPtx, .name = "fake.ptx"}).ok());
  EXPECT_EQ(control().log().find("for shared memory"), std::string::npos) << "the driver chooses";
  ASSERT_TRUE(device->load({.module = &*module, .text = kPtx, .name = "fake.ptx", .shared_memory_percent = 50}).ok());
  EXPECT_NE(control().log().find("add_one leaves 50 of 100 for shared memory"), std::string::npos);
}

TEST_F(CudaDevice, PageableCopies_GoThroughTheRingInOrder) {
  const DevicePtr device = open();
  Queue& queue = queue_of(device);
  constexpr std::size_t kSize = 9 << 20;
  const BufferPtr buffer = *device->allocate(kSize, MemoryKind::kDevice);
  std::vector<std::byte> host(1 << 20), want(kSize), got(kSize);
  std::size_t at = 0;
  for (unsigned i = 0; at < kSize; ++i) {
    const std::size_t size = std::min({kSize - at, host.size(), std::size_t{1} + 7919 * (i * i % 150)});
    std::fill_n(host.begin(), size, static_cast<std::byte>(i));
    std::fill_n(want.begin() + std::ptrdiff_t(at), size, static_cast<std::byte>(i));
    ASSERT_TRUE(queue.copy_to_device(buffer, at, std::span(host).first(size)).ok());
    std::fill_n(host.begin(), size, std::byte{0xff});
    at += size;
  }
  ASSERT_TRUE(queue.copy_to_host(got, buffer, 0).ok());
  EXPECT_TRUE(got == want);
}

TEST_F(CudaDevice, SmallPageableCopies_DoNotWaitForTheStream) {
  const DevicePtr device = open();
  Queue& queue = queue_of(device);
  const BufferPtr buffer = *device->allocate(1 << 16, MemoryKind::kDevice);
  control().hold();
  const std::vector<std::byte> host(1000, std::byte{7});
  for (std::size_t i = 0; i < 64; ++i) ASSERT_TRUE(queue.copy_to_device(buffer, i * 1000, host).ok());
  const EventPtr event = *queue.record();
  EXPECT_FALSE(event->poll().has_value());
  EXPECT_EQ(event->wait(5ms).code(), Code::kTimeout);
  control().go();
  EXPECT_TRUE(event->wait(10s).ok());
}

TEST_F(CudaDevice, HostVisibleSource_IsReadWhenTheCopyRuns) {
  const DevicePtr device = open();
  Queue& queue = queue_of(device);
  const BufferPtr pinned = *device->allocate(64, MemoryKind::kHostVisible),
                  buffer = *device->allocate(64, MemoryKind::kDevice);
  control().hold();
  pinned->host_pointer()[5] = std::byte{1};
  ASSERT_TRUE(queue.copy_to_device(buffer, 0, {pinned->host_pointer(), 64}).ok());
  pinned->host_pointer()[5] = std::byte{2};
  control().go();
  std::vector<std::byte> got(64);
  ASSERT_TRUE(queue.copy_to_host(got, buffer, 0).ok());
  EXPECT_EQ(got[5], std::byte{2});
}

TEST_F(CudaDevice, WorkInFlight_KeepsBuffersAndModulesAlive) {
  DevicePtr device = open();
  auto queue = std::move(device->create_queue()).value();
  const BufferPtr last = zeros(device, 16);
  control().hold();
  {
    const BufferPtr between = *device->allocate(16, MemoryKind::kDevice),
                    pinned = *device->allocate(16, MemoryKind::kHostVisible);
    const ModulePtr module = *load(*device);
    ASSERT_TRUE(queue->copy(between, 0, last, 0, 16).ok());
    ASSERT_TRUE(queue->copy_to_host({pinned->host_pointer(), 16}, between, 0).ok());
    ASSERT_TRUE(queue->copy_to_device(between, 0, {pinned->host_pointer(), 16}).ok());
    ASSERT_TRUE(launch(*queue, module, "add_one", add_one(last, 4)).ok());
  }
  device.reset();
  EXPECT_EQ(control().calls("cuMemFree"), 0);
  EXPECT_EQ(control().calls("cuLibraryUnload"), 0);
  control().go();
  ASSERT_TRUE(queue->synchronize().ok());
  EXPECT_EQ(control().calls("cuMemFree"), 1) << "synchronize() lets go of what the work used";
  EXPECT_EQ(control().calls("cuLibraryUnload"), 1);
  EXPECT_EQ(last->host_pointer()[12], std::byte{1});
}

// A launch that a queue has made is known again; one that is not quite the same is looked at.
TEST_F(CudaDevice, WhatALaunchWasFoundToBe_IsNotBelievedOfAnother) {
  const DevicePtr device = open();
  Queue& queue = queue_of(device);
  const BufferPtr data = zeros(device, 64);
  ModulePtr module = *load(*device);
  const ModulePtr other = *load(*device);
  const Kernel* const kernel = *module->kernel("add_one");
  const auto parameters = add_one(data, 16);
  const LaunchConfig right{{1, 1, 1}, {32, 1, 1}};
  for (int round = 0; round < 3; ++round) {
    EXPECT_TRUE(queue.launch(module, *kernel, right, parameters).ok());
    LaunchConfig large = right;
    large.block = {2048, 1, 1};
    EXPECT_EQ(queue.launch(module, *kernel, large, parameters).code(), Code::kInvalidArgument);
    LaunchConfig none = right;
    none.grid.z = 0;
    EXPECT_EQ(queue.launch(module, *kernel, none, parameters).code(), Code::kInvalidArgument);
    EXPECT_EQ(queue.launch(module, *kernel, right, std::span(parameters).first(8)).code(), Code::kInvalidArgument);
    EXPECT_EQ(queue.launch(other, *kernel, right, parameters).code(), Code::kInvalidArgument);
    EXPECT_EQ(queue.launch(nullptr, *kernel, right, parameters).code(), Code::kInvalidArgument);
    EXPECT_TRUE(launch(queue, other, "add_one", parameters, right).ok());
  }
  ASSERT_TRUE(queue.synchronize().ok());
  EXPECT_EQ(data->host_pointer()[0], std::byte{6});
  // A module that comes where one has been is another.
  for (int round = 0; round < 20; ++round) {
    module = *load(*device);
    EXPECT_TRUE(launch(queue, module, "add_one", parameters, right).ok());
    EXPECT_EQ(launch(queue, module, "add_one", std::span(parameters).first(8), right).code(), Code::kInvalidArgument);
    ASSERT_TRUE(queue.synchronize().ok());
  }
  EXPECT_EQ(data->host_pointer()[0], std::byte{26});
}

TEST_F(CudaDevice, StickyError_LosesTheDeviceForGood) {
  for (const char* kernel : {"illegal_address", "asserts"}) {
    control().reset();
    const DevicePtr device = open();
    const auto queue = std::move(device->create_queue()).value(), other = std::move(device->create_queue()).value();
    const BufferPtr buffer = *device->allocate(64, MemoryKind::kDevice);
    const ModulePtr module = *load(*device);
    control().hold();
    ASSERT_TRUE(launch(*queue, module, kernel).ok());
    const EventPtr of_fault = *queue->record();
    ASSERT_TRUE(other->wait(of_fault).ok());
    ASSERT_TRUE(other->fill(buffer, 0, 64, 1, 1).ok());
    const EventPtr pending = *other->record();
    EXPECT_TRUE(device->health().ok());
    control().go();
    const Status lost = of_fault->wait();
    EXPECT_EQ(lost.code(), Code::kDeviceLost);
    EXPECT_NE(lost.message().find("start a new process"), std::string::npos) << lost.message();
    EXPECT_EQ(pending->wait(10s).code(), Code::kDeviceLost);
    EXPECT_EQ(device->health().message(), lost.message());
    EXPECT_EQ(device->allocate(16, MemoryKind::kDevice).code(), Code::kDeviceLost);
    EXPECT_EQ(device->create_queue().code(), Code::kDeviceLost);
    EXPECT_EQ(load(*device).code(), Code::kDeviceLost);
    EXPECT_EQ(queue->fill(buffer, 0, 64, 1, 1).code(), Code::kDeviceLost);
    EXPECT_EQ(queue->record().code(), Code::kDeviceLost);
    EXPECT_EQ(queue->synchronize().code(), Code::kDeviceLost);
    EXPECT_EQ(queue->synchronize().code(), Code::kDeviceLost) << "a lost device is never cleared";
    EXPECT_EQ(module->global("counter").code(), Code::kDeviceLost);
  }
}

TEST_F(CudaDevice, WhereNoWordCanBeWritten_EventsForTheHostAreOrdinaryOnes) {
  const DevicePtr device = open();
  Queue& queue = queue_of(device);
  control().fail("cuStreamWriteValue32", cuda::CUDA_ERROR_NOT_SUPPORTED, 0);
  for (int i = 0; i < 3; ++i) {
    const auto event = queue.record_for_host();
    ASSERT_TRUE(event.ok()) << event.message();
    EXPECT_TRUE((*event)->wait().ok());
  }
  EXPECT_EQ(control().calls("cuStreamWriteValue32"), 1) << "it is not tried again";
}

// A stream waits for the word that a gate's owner writes, which makes no call of the driver.
TEST_F(CudaDevice, WorkBehindAGate_StartsOnceItIsOpenedSoFar) {
  const DevicePtr device = open();
  Queue& queue = queue_of(device);
  const ModulePtr module = std::move(load(*device)).value();
  const BufferPtr data = std::move(device->allocate(64, MemoryKind::kDevice)).value();
  ASSERT_TRUE(queue.fill(data, 0, 64, 7, 4).ok());
  ASSERT_TRUE(queue.synchronize().ok());
  for (std::uint32_t round = 0; round < 2;
       ++round) {  // its word is another's afterwards, and has come as far as it has
    const GatePtr gate = std::move(device->create_gate()).value();
    (void)control().log();
    ASSERT_TRUE(queue.wait_for_gate(gate, 2).ok());
    ASSERT_TRUE(launch(queue, module, "add_one", add_one(data, 16)).ok());
    const EventPtr end = std::move(queue.record_for_host()).value();
    EXPECT_EQ(control().log(), "0 waits for a value\nadd_one on 0\n");
    gate->open(1);
    EXPECT_EQ(end->wait(20ms).code(), Code::kTimeout);
    const int calls = control().calls("cuCtxSetCurrent");
    gate->open(2);
    gate->open(1);
    EXPECT_EQ(control().calls("cuCtxSetCurrent"), calls);
    EXPECT_TRUE(end->wait().ok());
    ASSERT_TRUE(queue.wait_for_gate(gate, 2).ok()) << "which it has come to";
    ASSERT_TRUE(queue.synchronize().ok());
    EXPECT_EQ(control().log(), "");
  }
  std::uint32_t words[16];
  ASSERT_TRUE(queue.copy_to_host(std::as_writable_bytes(std::span(words)), data, 0).ok());
  EXPECT_EQ(words[15], 9u);
  const DevicePtr other = open();
  EXPECT_EQ(queue.wait_for_gate(std::move(other->create_gate()).value(), 1).code(), Code::kInvalidArgument);
  EXPECT_EQ(queue.wait_for_gate(nullptr, 1).code(), Code::kInvalidArgument);
}

TEST_F(CudaDevice, WhereStreamsCannotWaitForValues_ThereAreNoGates) {
  const DevicePtr device = open();
  control().fail("cuStreamWaitValue32", cuda::CUDA_ERROR_NOT_SUPPORTED, 0);
  const auto gate = device->create_gate();
  EXPECT_EQ(gate.code(), Code::kUnsupported);
  EXPECT_NE(gate.message().find("Streams of cuda:0 cannot wait for a value"), std::string::npos) << gate.message();
  EXPECT_TRUE(device->create_gate().ok()) << "it is asked until it has been so";
}

// What waits for a gate that nobody opens ends with the device.
TEST_F(CudaDevice, ALostDevice_WaitsForNoGate) {
  const DevicePtr device = open();
  const ModulePtr module = std::move(load(*device)).value();
  auto waiting = std::move(device->create_queue()).value();
  const GatePtr gate = std::move(device->create_gate()).value();
  ASSERT_TRUE(waiting->wait_for_gate(gate, 1).ok());
  const EventPtr end = std::move(waiting->record()).value();
  Queue& queue = queue_of(device);
  ASSERT_TRUE(launch(queue, module, "illegal_address").ok());
  EXPECT_EQ(queue.synchronize().code(), Code::kDeviceLost);
  EXPECT_EQ(end->wait().code(), Code::kDeviceLost);
  EXPECT_EQ(waiting->wait_for_gate(gate, 1).code(), Code::kDeviceLost);
  gate->open(1);
}

// The host finds a word that the stream has written, and asks the driver for nothing.
TEST_F(CudaDevice, AnEventForTheHost_EndsWithoutACallOfTheDriver) {
  const DevicePtr device = open();
  Queue& queue = queue_of(device);
  const BufferPtr data = std::move(device->allocate(64, MemoryKind::kDevice)).value();
  control().hold();
  ASSERT_TRUE(queue.fill(data, 0, 64, 7, 4).ok());
  const EventPtr first = std::move(queue.record_for_host()).value(),
                 second = std::move(queue.record_for_host()).value();
  EXPECT_FALSE(first->poll().has_value());
  EXPECT_FALSE(second->poll().has_value());
  control().go();
  ASSERT_TRUE(queue.synchronize().ok());
  const int asked = control().calls("cuEventQuery"), waited = control().calls("cuEventSynchronize");
  EXPECT_TRUE(second->wait().ok());
  EXPECT_TRUE(first->wait().ok());
  EXPECT_TRUE(first->poll()->ok());
  EXPECT_EQ(control().calls("cuEventSynchronize"), waited);
  EXPECT_EQ(control().calls("cuEventQuery"), asked);
  // It is an event to other queues as well.
  auto other = std::move(device->create_queue()).value();
  ASSERT_TRUE(other->wait(second).ok());
  ASSERT_TRUE(other->synchronize().ok());
}

// What kernels print is shown by the driver, in its own waits.
TEST_F(CudaDevice, WhatKernelsPrint_IsShownBeforeAWaitForThemEnds) {
  const DevicePtr device = open();
  const std::string text = R"(.version 7.0
.target sm_70
.address_size 64
.extern .func (.param .b32 printed) vprintf (.param .b64 format, .param .b64 arguments);
.visible .entry nothing() { ret; }
)";
  const auto parsed = ptx::parse(text, "prints.ptx");
  ASSERT_TRUE(parsed.ok());
  ASSERT_TRUE(device->load({.module = &*parsed, .text = text, .name = "prints.ptx"}).ok());
  auto queue = std::move(device->create_queue()).value();
  for (const bool waits : {true, false}) {
    const EventPtr event = std::move(queue->record_for_host()).value();
    const int before = control().calls("cuEventSynchronize");
    if (waits) {
      EXPECT_TRUE(event->wait().ok());
    }
    while (!event->poll()) std::this_thread::yield();
    EXPECT_GT(control().calls("cuEventSynchronize"), before);
  }
  const int before = control().calls("cuStreamSynchronize");
  queue.reset();
  EXPECT_EQ(control().calls("cuStreamSynchronize"), before + 1);
}

TEST_F(CudaDevice, AnEventForTheHost_OutlivesItsQueueWhoseWordAnotherHas) {
  const DevicePtr device = open();
  EventPtr early, late;
  {
    auto queue = std::move(device->create_queue()).value();
    early = std::move(queue->record_for_host()).value();
    for (int i = 0; i < 100; ++i) ASSERT_TRUE(queue->record_for_host().ok());
    late = std::move(queue->record_for_host()).value();
  }
  auto next = std::move(device->create_queue()).value();
  control().hold();
  const EventPtr others = std::move(next->record_for_host()).value();
  EXPECT_TRUE(late->wait().ok());
  EXPECT_TRUE(early->wait().ok());
  EXPECT_FALSE(others->poll().has_value()) << "its number is beyond those of the queue before";
  control().go();
  EXPECT_TRUE(others->wait().ok());
}

TEST_F(CudaDevice, AnEventForTheHost_TellsThatTheDeviceIsLost) {
  const DevicePtr device = open();
  const ModulePtr module = std::move(load(*device)).value();
  Queue& queue = queue_of(device);
  ASSERT_TRUE(launch(queue, module, "illegal_address").ok());
  const auto event = queue.record_for_host();
  if (event.ok()) {
    EXPECT_EQ((*event)->wait().code(), Code::kDeviceLost);
    EXPECT_EQ((*event)->poll()->code(), Code::kDeviceLost);
  } else {  // seen by then
    EXPECT_EQ(event.code(), Code::kDeviceLost);
  }
}

TEST_F(CudaDevice, DriverErrors_GetCodesAndSayWhatWasDone) {
  const DevicePtr device = open();
  Queue& queue = queue_of(device);
  const ModulePtr module = *load(*device);
  control().fail("cuMemAlloc", cuda::CUDA_ERROR_OUT_OF_MEMORY, 0);
  const auto buffer = device->allocate(123, MemoryKind::kDevice);
  EXPECT_EQ(buffer.code(), Code::kResourceExhausted);
  EXPECT_NE(buffer.message().find("allocating 123 bytes"), std::string::npos) << buffer.message();
  control().fail_times("cuLaunchKernelEx", cuda::CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES, 2);  // asked again once
  const Status refused = launch(queue, module, "asserts");
  EXPECT_EQ(refused.code(), Code::kResourceExhausted);
  EXPECT_NE(refused.message().find("'asserts' with a grid of (1, 1, 1)"), std::string::npos) << refused.message();
  EXPECT_TRUE(queue.synchronize().ok());
  EXPECT_TRUE(device->health().ok());
}

TEST_F(CudaDevice, ItIsToldOf_BetweenCompilingAndLoading) {
  const DevicePtr device = open();
  const ptx::Module module = ptx::parse(kPtx, "fake.ptx").value();
  int told = 0;
  const auto when_compiled = [&]() -> Status {
    ++told;
    EXPECT_EQ(control().calls("cuLibraryLoadData"), 1);
    EXPECT_EQ(control().calls("cuLibraryGetModule"), 0) << "that waits for resident kernels";
    return {};
  };
  const FunctionRef<Status()> before_loading = when_compiled;
  ASSERT_TRUE(device->load({&module, kPtx, "fake.ptx", &before_loading}).ok());
  EXPECT_EQ(told, 1);
  const auto refuse = []() -> Status { return PERGOLA_ERROR(kDeviceLost, "not now"); };
  const FunctionRef<Status()> refusing = refuse;
  const auto refused = device->load({&module, kPtx, "fake.ptx", &refusing});
  EXPECT_EQ(refused.code(), Code::kDeviceLost);
  EXPECT_EQ(control().calls("cuLibraryGetModule"), 1);
  EXPECT_EQ(control().calls("cuLibraryUnload"), 2) << "neither is kept";
}

TEST_F(CudaDevice, CompilerLog_IsInTheMessage) {
  const DevicePtr device = open();
  control().fail("cuLibraryLoadData", cuda::CUDA_ERROR_INVALID_PTX, 0);
  const auto module = load(*device);
  EXPECT_EQ(module.code(), Code::kCompileError);
  EXPECT_NE(module.message().find("fake.ptx"), std::string::npos) << module.message();
  EXPECT_NE(module.message().find("the fake log"), std::string::npos) << module.message();
  control().fail("cuLibraryLoadData", cuda::CUDA_ERROR_UNSUPPORTED_PTX_VERSION, 0);
  EXPECT_EQ(load(*device).code(), Code::kUnsupported);
}

TEST_F(CudaDevice, Graph_KeepsTheBuffersThatItsKernelsReachByAddress) {
  const DevicePtr device = open();
  Queue& queue = queue_of(device);
  const ModulePtr module = *load(*device, R"(.version 8.0
.target sm_90
.address_size 64
.visible .entry add_one(.param .u64 block) { ret; }
)");
  const BufferPtr data = *device->allocate(16, MemoryKind::kDevice);
  BufferPtr block = *device->allocate(16, MemoryKind::kDevice);
  const std::weak_ptr<Buffer> watched = block;
  GraphSpec spec;
  const std::uint64_t address = block->address();
  const auto bytes = std::as_bytes(std::span(&address, 1));
  spec.nodes.push_back(
      {KernelNode{module, *module->kernel("add_one"), {{1, 1, 1}, {32, 1, 1}}, {bytes.begin(), bytes.end()}}, {}});
  spec.buffers = {block};
  auto graph = std::move(device->instantiate(std::move(spec))).value();
  ASSERT_TRUE(queue.fill(data, 0, 16, 7, 4).ok());
  control().hold();
  ASSERT_TRUE(queue.copy_to_device(block, 0, add_one(data, 4)).ok());
  ASSERT_TRUE(graph->launch(queue).ok());
  graph.reset();
  block.reset();
  EXPECT_FALSE(watched.expired());
  control().go();
  std::vector<std::uint32_t> words(4);
  ASSERT_TRUE(queue.copy_to_host(std::as_writable_bytes(std::span(words)), data, 0).ok());
  ASSERT_TRUE(queue.synchronize().ok());
  EXPECT_EQ(words, std::vector<std::uint32_t>(4, 8));
}

TEST_F(CudaDevice, GraphNodesThatStartEarly_HaveProgrammaticEdges) {
  const DevicePtr device = open();
  Queue& queue = queue_of(device);
  const ModulePtr module = *load(*device);
  const BufferPtr a = zeros(device, 64);
  const auto chain = [&](bool copy_first) {
    GraphSpec spec;
    if (copy_first) spec.nodes.push_back({CopyNode{a, 0, a, 0, 0}, {}, {}});
    for (NodeId i = copy_first ? 1 : 0; i < 3; ++i) {
      spec.nodes.push_back({KernelNode{module, *module->kernel("add_one"), {}, add_one(a, 16)}, {}, {}});
      if (i != 0) spec.nodes.back().early_after = i - 1;
    }
    return spec;
  };
  (void)control().log();
  auto graph = std::move(device->instantiate(chain(false))).value();
  EXPECT_EQ(control().log(), "node 1 early after 0\nnode 2 early after 1\n");
  ASSERT_TRUE(graph->launch(queue).ok());
  ASSERT_TRUE(queue.synchronize().ok());
  EXPECT_EQ(a->host_pointer()[60], std::byte{3});
  const auto refused = device->instantiate(chain(true));
  EXPECT_EQ(refused.message(), "Graph node 1 starts early after node 0; only a kernel may, after an earlier kernel.");
  control().fail("cuGraphAddDependencies_v2", cuda::CUDA_ERROR_OUT_OF_MEMORY, 1);
  EXPECT_EQ(device->instantiate(chain(false)).code(), Code::kResourceExhausted);
}

TEST_F(CudaDevice, GraphNodesWithPriorities_HaveTheDriversInTheirPlace) {
  const DevicePtr device = open();
  const ModulePtr module = *load(*device);
  const BufferPtr a = *device->allocate(64, MemoryKind::kHostVisible);
  const auto graph_with = [&](const std::vector<std::uint8_t>& priorities) {
    GraphSpec spec;
    for (const std::uint8_t priority : priorities) {
      spec.nodes.push_back({KernelNode{module, *module->kernel("add_one"), {}, add_one(a, 16)}, {}, {}});
      spec.nodes.back().priority = priority;
    }
    return device->instantiate(std::move(spec));
  };
  (void)control().log();
  ASSERT_TRUE(graph_with({kMostPriority, 2, 0}).ok());
  EXPECT_EQ(control().log(), "priority -3\npriority -1\ngraph with flags 8\n");
  ASSERT_TRUE(graph_with({0, 0}).ok());
  EXPECT_EQ(control().log(), "");
  control().fail("cuCtxGetStreamPriorityRange", cuda::CUDA_ERROR_INVALID_CONTEXT, 0);
  const auto refused = graph_with({1});
  EXPECT_NE(refused.message().find("asking for the priorities of launches"), std::string::npos) << refused.message();
}

// By whoever makes it, so that nobody's first launch does. Where that cannot be, the first launch does.
TEST_F(CudaDevice, Graph_IsBroughtToTheDeviceWhenItIsMade) {
  const DevicePtr device = open();
  Queue& queue = queue_of(device);
  const BufferPtr a = *device->allocate(64, MemoryKind::kDevice);
  const auto instantiate = [&] {
    GraphSpec spec;
    spec.nodes.push_back({FillNode{a, 0, 64, 5, 4}, {}});
    return device->instantiate(std::move(spec));
  };
  const int before = control().calls("cuGraphUpload");
  ASSERT_TRUE(instantiate().ok());
  EXPECT_EQ(control().calls("cuGraphUpload"), before) << "it is there already";
  const auto without_params = [] { control().fail("cuGraphInstantiateWithParams", cuda::CUDA_ERROR_NOT_SUPPORTED, 0); };
  without_params();
  ASSERT_TRUE(instantiate().ok());
  EXPECT_EQ(control().calls("cuGraphUpload"), before + 1);
  without_params();
  control().fail("cuGraphUpload", cuda::CUDA_ERROR_OUT_OF_MEMORY, 0);
  const auto without = instantiate();
  ASSERT_TRUE(without.ok()) << without.message();
  EXPECT_TRUE((*without)->launch(queue).ok());
  ASSERT_TRUE(queue.synchronize().ok());
  without_params();
  control().fail("cuGraphUpload", cuda::CUDA_ERROR_LAUNCH_FAILED, 0);
  const auto lost = instantiate();
  ASSERT_FALSE(lost.ok());
  EXPECT_NE(lost.message().find("bringing a graph of 1 node to the device"), std::string::npos) << lost.message();
}

TEST_F(CudaDevice, Graph_RunsOftenAndTakesNewParameters) {
  const DevicePtr device = open();
  Queue& queue = queue_of(device);
  const ModulePtr module = *load(*device);
  const BufferPtr a = *device->allocate(64, MemoryKind::kDevice), b = *device->allocate(64, MemoryKind::kHostVisible),
                  c = *device->allocate(64, MemoryKind::kHostVisible);
  std::memset(c->host_pointer(), 0, 64);
  GraphSpec spec;
  spec.nodes.push_back({FillNode{a, 0, 64, 5, 4}, {}});
  spec.nodes.push_back({KernelNode{module, *module->kernel("add_one"), {.cooperative = true}, add_one(a, 16)}, {0}});
  spec.nodes.push_back({CopyNode{b, 0, a, 0, 64}, {1}});
  spec.nodes.push_back({CopyNode{b, 0, a, 0, 0}, {2}});
  auto graph = std::move(device->instantiate(std::move(spec))).value();
  for (int i = 0; i < 5; ++i) ASSERT_TRUE(graph->launch(queue).ok());
  ASSERT_TRUE(queue.synchronize().ok());
  EXPECT_EQ(b->host_pointer()[60], std::byte{6});
  ASSERT_TRUE(graph->update_parameters(1, add_one(c, 16)).ok());
  ASSERT_TRUE(graph->launch(queue).ok());
  graph.reset();
  ASSERT_TRUE(queue.synchronize().ok());
  EXPECT_EQ(b->host_pointer()[60], std::byte{5});
  EXPECT_EQ(c->host_pointer()[60], std::byte{1});
}

// What is on its way to the device stays as it was given, also where a later copy cannot wait for room.
TEST_F(CudaDevice, AWaitForStagingThatFails_OverwritesNothing) {
  constexpr std::size_t kAll = std::size_t{2} << 20;  // what may be on its way
  const DevicePtr device = open();
  Queue& queue = queue_of(device);
  const BufferPtr first = *device->allocate(kAll, MemoryKind::kDevice),
                  second = *device->allocate(64, MemoryKind::kDevice);
  control().hold();
  ASSERT_TRUE(queue.copy_to_device(first, 0, std::vector<std::byte>(kAll, std::byte{1})).ok());
  control().fail("cuEventSynchronize", cuda::CUDA_ERROR_INVALID_VALUE, 0);
  const std::vector<std::byte> later(64, std::byte{2});
  const Status refused = queue.copy_to_device(second, 0, later);
  EXPECT_NE(refused.message().find("waiting for a staging chunk"), std::string::npos) << refused.message();
  std::thread goes([] {
    std::this_thread::sleep_for(20ms);
    control().go();
  });
  EXPECT_TRUE(queue.copy_to_device(second, 0, later).ok());
  goes.join();
  std::vector<std::byte> back(kAll);
  ASSERT_TRUE(queue.copy_to_host(back, first, 0).ok());
  EXPECT_EQ(back, std::vector<std::byte>(kAll, std::byte{1}));
}

TEST_F(CudaDevice, Threads_ShareADeviceAndAQueue) {
  const DevicePtr device = open();
  Queue& shared = queue_of(device);
  const ModulePtr module = *load(*device);
  const BufferPtr counter = zeros(device, 4);
  std::vector<std::thread> threads;
  std::vector<std::string> wrong(4);
  for (std::string& why : wrong)
    threads.emplace_back([&] {
      const auto own = std::move(device->create_queue()).value();
      for (std::uint32_t i = 0; i < 50; ++i) {
        const BufferPtr buffer = *device->allocate(256, MemoryKind::kDevice);
        std::vector<std::uint32_t> back(64);
        if (!own->fill(buffer, 0, 256, i, 4).ok() || !launch(*own, module, "add_one", add_one(buffer, 64)).ok() ||
            !own->copy_to_host(std::as_writable_bytes(std::span(back)), buffer, 0).ok() ||
            back != std::vector<std::uint32_t>(64, i + 1))
          why = fmt::format("round {} went wrong", i);
        if (!launch(shared, module, "add_one", add_one(counter, 1)).ok() || !(*shared.record())->wait().ok())
          why = "the shared queue refused";
      }
    });
  for (std::thread& thread : threads) thread.join();
  for (const std::string& why : wrong) EXPECT_EQ(why, "");
  ASSERT_TRUE(shared.synchronize().ok());
  std::uint32_t count = 0;
  std::memcpy(&count, counter->host_pointer(), 4);
  EXPECT_EQ(count, 200u);
}

// A little of everything; the first error on the way.
Status everything(const CudaDeviceOptions& options) {
  PERGOLA_ASSIGN(const DevicePtr device, create_cuda_device(0, options));
  PERGOLA_ASSIGN(const ptx::Module parsed, ptx::parse(kPtx, "fake.ptx"));
  PERGOLA_ASSIGN(const ModulePtr module, device->load({&parsed, kPtx, "fake.ptx"}));
  PERGOLA_ASSIGN(const Kernel* kernel, module->kernel("asserts"));
  PERGOLA_ASSIGN(const Module::Global global, module->global("counter"));
  PERGOLA_ASSIGN(const BufferPtr buffer, device->allocate(2 << 20, MemoryKind::kDevice));
  PERGOLA_ASSIGN(const BufferPtr pinned, device->allocate(64, MemoryKind::kHostVisible));
  PERGOLA_ASSIGN(const auto queue, device->create_queue());
  PERGOLA_TRY(queue->copy_to_device(buffer, 0, std::vector<std::byte>(2 << 20)));
  for (std::uint32_t pattern_bytes : {1u, 2u, 4u}) PERGOLA_TRY(queue->fill(buffer, 0, 64, 1, pattern_bytes));
  PERGOLA_TRY(queue->copy(pinned, 0, buffer, 0, 64));
  PERGOLA_ASSIGN(const EventPtr start, queue->record());
  PERGOLA_TRY(queue->wait(start));
  GraphSpec spec;
  spec.nodes.push_back({FillNode{buffer, 0, 64, 5, 4}, {}});
  spec.nodes.push_back({CopyNode{pinned, 0, buffer, 0, 64}, {0}});
  spec.nodes.push_back({FillNode{buffer, 0, 0, 5, 4}, {1}});
  PERGOLA_ASSIGN(const auto graph, device->instantiate(std::move(spec)));
  PERGOLA_TRY(graph->launch(*queue));
  PERGOLA_ASSIGN(const std::uint32_t blocks, kernel->max_resident_blocks_per_sm(128, 0));
  std::vector<std::byte> host(64);
  PERGOLA_TRY(queue->copy_to_host(host, buffer, 0));
  PERGOLA_ASSIGN(const EventPtr end, queue->record());
  PERGOLA_TRY(end->wait());
  PERGOLA_ASSIGN(const double elapsed, end->elapsed_ns(*start));
  PERGOLA_TRY(queue->synchronize());
  return elapsed >= 0 && blocks > 0 && global.size_bytes == 4 ? Status()
                                                              : Status(PERGOLA_ERROR(kInternal, "Odd values."));
}

TEST_F(CudaDevice, OptionsFromEnvironment) {
  ::setenv("PERGOLA_CUDA_OPTIMIZATION", "0", 1);
  const auto given = CudaDeviceOptions::from_environment();
  ::setenv("PERGOLA_CUDA_OPTIMIZATION", "5", 1);
  const auto level = CudaDeviceOptions::from_environment();
  ::unsetenv("PERGOLA_CUDA_OPTIMIZATION");
  ::setenv("PERGOLA_CUDA_ROUNDING", "driver", 1);
  const auto rounding = CudaDeviceOptions::from_environment();
  ::setenv("PERGOLA_CUDA_ROUNDING", "none", 1);
  const auto no_rounding = CudaDeviceOptions::from_environment();
  ::unsetenv("PERGOLA_CUDA_ROUNDING");
  ASSERT_TRUE(rounding.ok()) << rounding.message();
  EXPECT_FALSE(rounding->exact_rounding);
  EXPECT_EQ(no_rounding.message(), "PERGOLA_CUDA_ROUNDING is 'none'; it can be 'exact' or 'driver'.");
  ASSERT_TRUE(given.ok()) << given.message();
  EXPECT_EQ(given->optimization_level, 0u);
  EXPECT_EQ(level.message(), "PERGOLA_CUDA_OPTIMIZATION is '5'; it can be a number from 0 to 4.");
}

TEST_F(CudaDevice, EveryDriverCall_MayFail) {
  ASSERT_TRUE(everything(options()).ok()) << everything(options()).message();
  for (const char* function : {"cuDeviceGetCount",
                               "cuDeviceGet",
                               "cuDevicePrimaryCtxRetain",
                               "cuCtxSetCurrent",
                               "cuMemAlloc",
                               "cuMemHostAlloc",
                               "cuMemHostGetDevicePointer",
                               "cuMemcpyHtoDAsync",
                               "cuMemcpyDtoHAsync",
                               "cuMemcpyAsync",
                               "cuMemsetD8Async",
                               "cuMemsetD16Async",
                               "cuMemsetD32Async",
                               "cuStreamCreate",
                               "cuEventCreate",
                               "cuEventSynchronize",
                               "cuEventElapsedTime",
                               "cuLibraryLoadData",
                               "cuLibraryGetModule",
                               "cuModuleGetFunction",
                               "cuModuleGetGlobal",
                               "cuFuncLoad",
                               "cuFuncGetAttribute",
                               "cuFuncSetAttribute",
                               "cuOccupancyMaxActiveBlocksPerMultiprocessor",
                               "cuGraphCreate",
                               "cuGraphAddMemcpyNode",
                               "cuGraphAddMemsetNode",
                               "cuGraphAddEmptyNode",
                               "cuGraphInstantiateWithFlags",
                               "cuGraphLaunch"})
    for (const int result : {int{cuda::CUDA_ERROR_UNKNOWN}, int{cuda::CUDA_ERROR_LAUNCH_FAILED}})
      for (int skip = 0; skip < 3; ++skip) {
        control().reset();
        if (function == std::string_view("cuGraphInstantiateWithFlags"))  // which comes in its place
          control().fail_times("cuGraphInstantiateWithParams", cuda::CUDA_ERROR_NOT_SUPPORTED, 1000);
        control().fail(function, result, skip);
        const Status status = everything(options());
        const bool reached = control().calls(function) > skip;
        EXPECT_EQ(status.ok(), !reached) << function << " " << result << " after " << skip << ": " << status.message();
      }
  for (const char* function : {"cuStreamWaitEvent", "cuEventRecord"}) {  // asked again, each time
    control().reset();
    control().fail_times(function, cuda::CUDA_ERROR_UNKNOWN, 1000);
    EXPECT_FALSE(everything(options()).ok()) << function;
  }
}

}  // namespace
}  // namespace pergola::device
