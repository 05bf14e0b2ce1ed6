// For tests: the CUDA device over the fake driver (fake/).
#pragma once

#include <dlfcn.h>
#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>
#include <string_view>
#include <vector>

#include "src/device/cuda/cuda_device.h"
#include "src/device/cuda/fake/fake_control.h"
#include "src/ptx/parser.h"

namespace pergola::device {

using cuda::FakeControl;

inline constexpr const char* kPtx = R"(.version 8.0
.target sm_90
.address_size 64
.global .u32 counter;
.visible .entry add_one(.param .u64 data, .param .u32 count) { ret; }
.visible .entry illegal_address() { ret; }
.visible .entry asserts() { ret; }
.visible .entry hold(.param .u64 data, .param .u64 flag) { ret; }
)";

inline const FakeControl& control() {
  static const FakeControl* const found = [] {
    void* library = dlopen(PERGOLA_FAKE_CUDA, RTLD_NOW | RTLD_LOCAL);
    const auto get =
        library == nullptr ? nullptr : reinterpret_cast<cuda::FakeControlFunction>(dlsym(library, "fake_cuda_control"));
    if (get == nullptr) throw std::runtime_error(dlerror());
    return get();
  }();
  return *found;
}

class CudaDevice : public ::testing::Test {
 protected:
  void SetUp() override {
    control().reset();
    folder_ = std::filesystem::temp_directory_path() /
              fmt::format("pergola-cuda-test-{}-{}", getpid(),
                          ::testing::UnitTest::GetInstance()->current_test_info()->name());
    std::filesystem::remove_all(folder_);
  }
  void TearDown() override {
    control().go();
    queue_.reset();
    EXPECT_EQ(control().strays(), 0) << "a call of the driver by a thread without context";
    std::filesystem::remove_all(folder_);
  }

  CudaDeviceOptions options() const { return {.driver_library = PERGOLA_FAKE_CUDA}; }
  DevicePtr open() const { return std::move(create_cuda_device(0, options())).value(); }
  static Result<ModulePtr> load(Device& device, std::string_view text = kPtx) {
    PERGOLA_ASSIGN(const ptx::Module module, ptx::parse(text, "fake.ptx"));
    return device.load({&module, text, "fake.ptx"});
  }
  // Host-visible memory of zeros.
  static BufferPtr zeros(const DevicePtr& device, std::size_t size_bytes) {
    const BufferPtr made = device->allocate(size_bytes, MemoryKind::kHostVisible).value();
    std::memset(made->host_pointer(), 0, size_bytes);
    return made;
  }
  static std::vector<std::byte> add_one(const BufferPtr& data, std::uint32_t count) {
    std::vector<std::byte> bytes(12);
    const std::uint64_t address = data->address();
    std::memcpy(bytes.data(), &address, 8);
    std::memcpy(bytes.data() + 8, &count, 4);
    return bytes;
  }
  static Status launch(Queue& queue, const ModulePtr& module, const char* kernel, std::span<const std::byte> bytes = {},
                       const LaunchConfig& config = {}) {
    PERGOLA_ASSIGN(const Kernel* found, module->kernel(kernel));
    return queue.launch(module, *found, config, bytes);
  }
  Queue& queue_of(const DevicePtr& device) {
    queue_ = std::move(device->create_queue()).value();
    return *queue_;
  }

  std::filesystem::path folder_;
  std::unique_ptr<Queue> queue_;
};

}  // namespace pergola::device
