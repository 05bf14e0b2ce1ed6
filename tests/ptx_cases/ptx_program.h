// For tests: PTX text loaded on a device, and its kernels launched with a limit of time.
#pragma once

#include <gtest/gtest.h>

#include <chrono>
#include <cstring>
#include <string>
#include <vector>

#include "src/device/cpu/cpu_device.h"
#include "src/device/device.h"
#include "src/ptx/parser.h"

namespace pergola::ptx_cases {

class PtxProgram {
 public:
  // `body` is the module behind its header; `name` is what messages call it.
  PtxProgram(device::DevicePtr device, const std::string& body, const std::string& name = "test.ptx")
      : device_(std::move(device)) {
    const std::string text = ".version 7.8\n.target sm_70\n.address_size 64\n" + body;
    const auto parsed = ptx::parse(text, name);
    if (!parsed.ok()) {
      ADD_FAILURE() << parsed.message();
      return;
    }
    const auto loaded = device_->load({&*parsed, text, name});
    if (!loaded.ok()) {
      ADD_FAILURE() << loaded.message();
      return;
    }
    module_ = *loaded;
    queue_ = new_queue();
  }

  std::unique_ptr<device::Queue> new_queue() const { return std::move(device_->create_queue()).value(); }
  device::Queue& queue() const { return *queue_; }
  device::Device& device() const { return *device_; }

  // Zeros that both sides can touch.
  device::BufferPtr zeros(std::size_t bytes) const {
    auto buffer = device_->allocate(bytes, device::MemoryKind::kHostVisible).value();
    std::memset(buffer->host_pointer(), 0, bytes);
    return buffer;
  }

  // Every argument is a value of its parameter's size.
  template <typename... Arguments>
  Status enqueue(device::Queue& on, const std::string& kernel, const device::LaunchConfig& config, Arguments... arguments) {
    if (module_ == nullptr) return PERGOLA_ERROR(kFailedPrecondition, "The test's module is not loaded.");
    PERGOLA_ASSIGN(const device::Kernel* found, module_->kernel(kernel));
    std::vector<std::byte> parameters;
    [[maybe_unused]] const auto put = [&](const auto& value) {
      while (parameters.size() % sizeof value != 0) parameters.push_back({});
      const auto* bytes = reinterpret_cast<const std::byte*>(&value);
      parameters.insert(parameters.end(), bytes, bytes + sizeof value);
    };
    (put(arguments), ...);
    return on.launch(module_, *found, config, parameters);
  }

  // Launches and waits; kTimeout where it takes longer than `limit`: what runs on a CPU device is then stopped.
  template <typename... Arguments>
  Status run(const std::string& kernel, const device::LaunchConfig& config, Arguments... arguments) {
    PERGOLA_TRY(enqueue(*queue_, kernel, config, arguments...));
    PERGOLA_ASSIGN(const device::EventPtr event, queue_->record());
    const Status status = event->wait(limit);
    if (status.code() == Code::kTimeout) {
      if (auto* cpu = dynamic_cast<device::cpu::CpuDevice*>(device_.get())) cpu->cancel_all(status.error());
    } else {
      (void)queue_->synchronize();  // takes the failure: the queue works again
    }
    return status;
  }

  std::chrono::seconds limit{60};

 private:
  device::DevicePtr device_;
  device::ModulePtr module_;
  std::unique_ptr<device::Queue> queue_;
};

}  // namespace pergola::ptx_cases
