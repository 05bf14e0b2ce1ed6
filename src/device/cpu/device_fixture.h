// For tests: a CPU device on a scripted engine, with a module of kernels that take one 8-byte parameter each.
#pragma once

#include <gtest/gtest.h>

#include <cstring>
#include <string>
#include <utility>

#include "src/device/cpu/cpu_device.h"
#include "src/device/cpu/fake_engine.h"
#include "src/ptx/parser.h"

namespace pergola::device::cpu::testing {

// The kernel's only parameter, as `T`.
template <typename T>
T parameter(const Block& block) {
  T value{};
  std::memcpy(&value, block.launch->parameters.data(), sizeof value);
  return value;
}

class CpuDeviceTest : public ::testing::Test {
 protected:
  // Scripts are set before open().
  void script(const std::string& kernel, Script script) { engine->scripts.emplace(kernel, std::move(script)); }

  void open(CpuOptions options = {}) {
    if (options.sms == 0) options.sms = 2;
    Result<DevicePtr> made = create_cpu_device(options, engine);
    ASSERT_TRUE(made.ok()) << made.message();
    device = *made;
    std::string text = ".version 8.3\n.target sm_90\n.address_size 64\n.visible .global .u32 counter = 5;\n";
    for (const auto& [name, unused] : engine->scripts) {
      text += ".visible .entry " + name + "(.param .u64 p) { ret; }\n";
    }
    text += ".visible .entry unscripted() { ret; }\n.visible .entry bounded() .maxntid 64, 1, 1 { ret; }\n";
    Result<ptx::Module> parsed = ptx::parse(text, "test.ptx");
    ASSERT_TRUE(parsed.ok()) << parsed.message();
    Result<ModulePtr> loaded = device->load({&*parsed, text, "test.ptx"});
    ASSERT_TRUE(loaded.ok()) << loaded.message();
    module = *loaded;
    queue = new_queue();
  }

  std::unique_ptr<Queue> new_queue() const {
    Result<std::unique_ptr<Queue>> made = device->create_queue();
    EXPECT_TRUE(made.ok()) << made.message();
    return std::move(made).value();
  }
  BufferPtr allocate(std::size_t bytes, MemoryKind kind = MemoryKind::kDevice) const {
    Result<BufferPtr> made = device->allocate(bytes, kind);
    EXPECT_TRUE(made.ok()) << made.message();
    return std::move(made).value();
  }
  const Kernel& kernel(const std::string& name) const {
    Result<const Kernel*> found = module->kernel(name);
    EXPECT_TRUE(found.ok()) << found.message();
    return **found;
  }
  template <typename T = std::uint64_t>
  Status launch(Queue& on, const std::string& name, std::uint32_t blocks = 1, T argument = {}) const {
    std::uint64_t raw = 0;
    std::memcpy(&raw, &argument, sizeof argument);
    return on.launch(module, kernel(name), {.grid = {blocks, 1, 1}, .block = {32, 1, 1}},
                     std::as_bytes(std::span(&raw, 1)));
  }
  static EventPtr record(Queue& on) {
    Result<EventPtr> event = on.record();
    EXPECT_TRUE(event.ok()) << event.message();
    return *event;
  }

  std::shared_ptr<FakeEngine> engine = std::make_shared<FakeEngine>();
  DevicePtr device;
  ModulePtr module;
  std::unique_ptr<Queue> queue;  // destroyed before the module and the device
};

}  // namespace pergola::device::cpu::testing
