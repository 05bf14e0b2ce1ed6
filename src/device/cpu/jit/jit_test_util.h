// A launch without a runner: parses PTX, places its variables, and steps the blocks of a grid round robin.
#pragma once

#include <gtest/gtest.h>

#include <cstring>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "src/device/cpu/cpu_buffer.h"
#include "src/device/cpu/global_placement.h"
#include "src/device/cpu/jit/engine.h"
#include "src/device/cpu/memory_map.h"
#include "src/ptx/parser.h"

namespace pergola::device::cpu::jit::testing {

inline Engine& engine() {
  static const std::unique_ptr<Engine> one = [] {
    auto made = create_engine();
    if (!made.ok()) ADD_FAILURE() << made.message();
    return std::move(made).value();
  }();
  return *one;
}

class Program {
 public:
  explicit Program(const std::string& body, Engine& tier = engine()) {
    const std::string text = ".version 8.8\n.target sm_100\n.address_size 64\n" + body;
    status_ = load(text, tier);
  }
  const Status& status() const { return status_; }
  MemoryMap& memory() { return device_memory_.map; }

  template <typename T>
  T* global(const std::string& name) {
    const GlobalPlacement* placement = globals_->find(name);
    return placement == nullptr ? nullptr : reinterpret_cast<T*>(placement->address);
  }

  // Arguments are laid out as a kernel's parameters: naturally aligned, in order.
  template <typename... Arguments>
  Status run(const std::string& entry, Dim3 grid, Dim3 block, std::uint32_t dynamic_shared_bytes, Arguments... arguments) {
    PERGOLA_TRY(status_);
    PERGOLA_ASSIGN(const std::shared_ptr<const KernelCode> kernel, code_->kernel(entry));
    PERGOLA_ASSIGN(const SharedLayout layout, shared_layout(*module_, *module_->find_function(entry)));
    alignas(16) std::byte parameters[256] = {};
    std::size_t offset = 0;
    [[maybe_unused]] const auto put = [&](const auto& value) {
      offset = (offset + sizeof value - 1) / sizeof value * sizeof value;
      std::memcpy(parameters + offset, &value, sizeof value);
      offset += sizeof value;
    };
    (put(arguments), ...);
    FaultSlot fault;
    Launch launch;
    launch.kernel_name = entry;
    launch.config.grid = grid;
    launch.config.block = block;
    launch.config.dynamic_shared_bytes = dynamic_shared_bytes;
    launch.parameters = std::span<const std::byte>(parameters, offset);
    launch.static_shared_bytes = layout.static_bytes;
    launch.sm_count = 1;
    launch.memory = &memory();
    launch.fault = &fault;
    const std::uint32_t shared_bytes = layout.dynamic_offset + dynamic_shared_bytes;

    struct Resident {
      std::vector<std::byte> shared;
      Block block;
      std::unique_ptr<BlockExecution> execution;
      bool finished = false;
    };
    std::vector<std::unique_ptr<Resident>> residents;
    for (std::uint64_t n = 0; n < grid.count(); ++n) {
      auto resident = std::make_unique<Resident>();
      resident->shared.resize(shared_bytes + 128);
      auto* base = reinterpret_cast<std::byte*>((reinterpret_cast<std::uintptr_t>(resident->shared.data()) + 127) & ~std::uintptr_t{127});
      const auto linear = static_cast<std::uint32_t>(n);
      resident->block = {&launch, {linear % grid.x, linear / grid.x % grid.y, linear / grid.x / grid.y}, 0, base, shared_bytes};
      resident->execution = kernel->start(resident->block);
      residents.push_back(std::move(resident));
    }
    std::uint64_t turns = 0;
    for (bool again = true; again;) {
      again = false;
      if (stop_after_turns != 0 && ++turns > stop_after_turns) fault.raise(PERGOLA_ERROR(kTimeout, "The test stops it."));
      for (auto& resident : residents) {
        if (resident->finished) continue;
        resident->finished = resident->execution->step(1 << 12) == Progress::kFinished;
        again |= !resident->finished;
      }
    }
    return fault.status();
  }

  std::uint64_t stop_after_turns = 0;  // 0: never

 private:
  Status load(const std::string& text, Engine& tier) {
    PERGOLA_ASSIGN(ptx::Module parsed, ptx::parse(text, "test.ptx"));
    module_ = std::make_shared<const ptx::Module>(std::move(parsed));
    PERGOLA_ASSIGN(GlobalStorage storage, GlobalStorage::place(*module_, device_memory_));
    globals_.emplace(std::move(storage));
    PERGOLA_ASSIGN(code_, tier.compile(module_, globals_->placements()));
    return globals_->initialize(*module_, [&](std::string_view function) { return code_->function_address(function); });
  }

  DeviceMemory device_memory_{std::uint64_t{1} << 30};
  std::shared_ptr<const ptx::Module> module_;
  std::optional<GlobalStorage> globals_;
  std::unique_ptr<ModuleCode> code_;
  Status status_;
};

}  // namespace pergola::device::cpu::jit::testing
