// Runs single blocks of launches on the interpreter, in any order that the caller chooses, and says what each took.
//
// On a CPU device's memory and modules, beside its own virtual SMs: a block runs to its end on the calling thread. So
// it must not wait for another block: one that does is refused, and says so. Or it is started and goes on by steps,
// between those of others, and may wait for them. The order is the caller's: nothing here knows which blocks depend on
// which.
#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "src/device/cpu/blocks/block_meter.h"
#include "src/device/device.h"

namespace pergola::device::cpu {
class CpuDevice;
struct ExecutionHook;
}  // namespace pergola::device::cpu

namespace pergola::device::cpu::blocks {

// A block that has begun. Used by one thread; its launch must outlive it. Move-only.
class RunningBlock {
 public:
  RunningBlock(RunningBlock&&) noexcept;
  RunningBlock& operator=(RunningBlock&&) noexcept;
  ~RunningBlock();

  // Goes on for so many instructions of its warps, in turn, or fewer. Whether it has ended. kDeviceFault: it faulted.
  Result<bool> step(std::uint64_t instructions);

 private:
  friend class BlockLaunch;
  struct State;
  explicit RunningBlock(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

// A launch whose blocks can be run. Holds its module and a copy of its parameters; the buffers that those point at are
// the caller's to keep. Move-only.
class BlockLaunch {
 public:
  BlockLaunch(BlockLaunch&&) noexcept;
  BlockLaunch& operator=(BlockLaunch&&) noexcept;
  ~BlockLaunch();

  std::uint32_t blocks() const;
  BlockRoom room() const;

  // Runs a block and measures it, or runs it alone. Thread-safe: several threads may run different blocks, each with a
  // meter of its own, which must not outlive the module.
  // kInvalidArgument: no such block. kDeviceFault: it faulted, now or in a block before. kUnsupported: it waits for
  // another block.
  Result<BlockWork> measure(std::uint32_t block, BlockMeter& meter) const;
  Status run(std::uint32_t block) const;
  // Begins a block, of which `hook` sees what it executes; null: nobody does. Errors as above, but for kUnsupported.
  Result<RunningBlock> start(std::uint32_t block, const ExecutionHook* hook) const;

 private:
  friend class BlockRunner;
  struct State;
  explicit BlockLaunch(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

class BlockRunner {
 public:
  // kInvalidArgument: `device` is no CPU device of the interpreter tier.
  static Result<BlockRunner> on(const DevicePtr& device);

  // As Queue::launch() takes them. What it refuses is refused here; cooperative launches are too (kUnsupported).
  Result<BlockLaunch> prepare(const ModulePtr& module, const Kernel& kernel, const LaunchConfig& config,
                              std::span<const std::byte> parameters) const;

 private:
  explicit BlockRunner(std::shared_ptr<CpuDevice> device) : device_(std::move(device)) {}
  std::shared_ptr<CpuDevice> device_;
};

}  // namespace pergola::device::cpu::blocks
