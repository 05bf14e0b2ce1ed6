#include "src/device/cpu/blocks/block_runner.h"

#include <algorithm>
#include <cstring>

#include "src/device/cpu/blocks/block_meter.h"
#include "src/device/cpu/cpu_device.h"
#include "src/device/cpu/cpu_module.h"
#include "src/device/cpu/guarded_bytes.h"
#include "src/device/validate.h"

namespace pergola::device::cpu::blocks {
namespace {

constexpr std::size_t kParameterAlignBytes = 128, kSharedAlignBytes = 128;
constexpr std::uint64_t kStepBudget = std::uint64_t{1} << 20;
constexpr int kTurnsToWait = 64;  // that a block may only look at memory for, before it is taken to wait for another

Dim3 index_of(const Dim3& grid, std::uint32_t block) {
  return {block % grid.x, block / grid.x % grid.y, block / grid.x / grid.y};
}

// Sets the thread's hook for as long as it lives.
class Hooked {
 public:
  explicit Hooked(const ExecutionHook* hook) : before_(execution_hook()) { set_execution_hook(hook); }
  ~Hooked() { set_execution_hook(before_); }
  Hooked(const Hooked&) = delete;
  Hooked& operator=(const Hooked&) = delete;

 private:
  const ExecutionHook* before_;
};

}  // namespace

struct BlockLaunch::State {
  std::shared_ptr<CpuDevice> device;
  ModulePtr module;  // keeps kernel
  const CpuKernel* kernel = nullptr;
  AlignedBytes parameters;
  std::uint32_t shared_bytes = 0;
  mutable FaultSlot fault;
  std::unique_ptr<PrintBuffer> print;
  Launch launch;

  // The block of this number, its shared memory at the end of `shared`, which is made larger where it must be.
  Result<Block> block(std::uint32_t number, GuardedBytes& shared) const {
    if (number >= launch.config.grid.count()) {
      return PERGOLA_ERROR(kInvalidArgument, "Kernel '{}' has no block {}: its grid has {}.", launch.kernel_name,
                           number, launch.config.grid.count());
    }
    PERGOLA_TRY(fault.status());
    const std::size_t room =
        (std::size_t{shared_bytes} + kSharedAlignBytes - 1) / kSharedAlignBytes * kSharedAlignBytes;
    if (shared.size_bytes() < room) shared = GuardedBytes::make(room, kSharedAlignBytes);
    if (shared.size_bytes() < room) {
      return PERGOLA_ERROR(kResourceExhausted, "The host has no {} bytes for a block's shared memory.", shared_bytes);
    }
    return Block{
        &launch, index_of(launch.config.grid, number), 0, shared.data() + shared.size_bytes() - room, shared_bytes, 0};
  }

  Status run(std::uint32_t number, const ExecutionHook* hook) const {
    thread_local GuardedBytes shared;
    PERGOLA_ASSIGN(Block block, this->block(number, shared));
    const Hooked hooked(hook);
    const std::unique_ptr<BlockExecution> execution = kernel->code().start(block);
    for (int waited = 0; waited < kTurnsToWait;) {
      const Progress said = execution->step(kStepBudget);
      if (said == Progress::kFinished) return fault.status();
      waited = said == Progress::kWaiting ? waited + 1 : 0;
    }
    return PERGOLA_ERROR(kUnsupported,
                         "Block {} of kernel '{}' waits for another block or the host. Blocks that run one by one must "
                         "not: run the kernel as a launch.",
                         number, launch.kernel_name);
  }
};

struct RunningBlock::State {
  const FaultSlot* fault = nullptr;  // the launch's
  GuardedBytes shared;
  Block block;
  std::unique_ptr<BlockExecution> execution;
};

RunningBlock::RunningBlock(std::unique_ptr<State> state) : state_(std::move(state)) {}
RunningBlock::RunningBlock(RunningBlock&&) noexcept = default;
RunningBlock& RunningBlock::operator=(RunningBlock&&) noexcept = default;
RunningBlock::~RunningBlock() = default;

Result<bool> RunningBlock::step(std::uint64_t instructions) {
  const bool ended = state_->execution->step(instructions) == Progress::kFinished;
  PERGOLA_TRY(state_->fault->status());
  return ended;
}

BlockLaunch::BlockLaunch(std::unique_ptr<State> state) : state_(std::move(state)) {}
BlockLaunch::BlockLaunch(BlockLaunch&&) noexcept = default;
BlockLaunch& BlockLaunch::operator=(BlockLaunch&&) noexcept = default;
BlockLaunch::~BlockLaunch() = default;

std::uint32_t BlockLaunch::blocks() const {
  return static_cast<std::uint32_t>(state_->launch.config.grid.count());
}

BlockRoom BlockLaunch::room() const {
  constexpr std::uint32_t kWarp = 32;
  const auto threads = static_cast<std::uint32_t>(state_->launch.config.block.count());
  return {(threads + kWarp - 1) / kWarp * kWarp, state_->shared_bytes};
}

Status BlockLaunch::run(std::uint32_t block) const {
  return state_->run(block, nullptr);
}

Result<RunningBlock> BlockLaunch::start(std::uint32_t block, const ExecutionHook* hook) const {
  auto made = std::make_unique<RunningBlock::State>();
  made->fault = &state_->fault;
  PERGOLA_ASSIGN(made->block, state_->block(block, made->shared));
  const Hooked hooked(hook);
  made->execution = state_->kernel->code().start(made->block);
  return RunningBlock(std::move(made));
}

Result<BlockWork> BlockLaunch::measure(std::uint32_t block, BlockMeter& meter) const {
  meter.begin(static_cast<std::uint32_t>(state_->launch.config.block.count()));
  PERGOLA_TRY(state_->run(block, &meter.hook()));
  return meter.end();
}

Result<BlockRunner> BlockRunner::on(const DevicePtr& device) {
  auto own = std::dynamic_pointer_cast<CpuDevice>(device);
  if (own == nullptr || own->engine().name() != "interpreter") {
    return PERGOLA_ERROR(kInvalidArgument,
                         "Blocks are run one by one on a CPU device of the interpreter tier; this is {}.",
                         device == nullptr ? "none" : device->info().name);
  }
  return BlockRunner(std::move(own));
}

Result<BlockLaunch> BlockRunner::prepare(const ModulePtr& module, const Kernel& kernel, const LaunchConfig& config,
                                         std::span<const std::byte> parameters) const {
  const auto* own_module = dynamic_cast<const CpuModule*>(module.get());
  const CpuKernel* own = own_module == nullptr ? nullptr : own_module->own(kernel);
  if (own == nullptr || own_module->device() != device_.get()) {
    return PERGOLA_ERROR(kInvalidArgument, "The kernel is not one of a module that this device has loaded.");
  }
  PERGOLA_TRY(validate_launch(device_->info(), *own, config, parameters.size()));
  if (config.cooperative || config.grid.count() > UINT32_MAX) {
    return PERGOLA_ERROR(
        kUnsupported,
        "Kernel '{}' cannot run block by block: a cooperative launch needs all at once, and a grid has "
        "at most 2^32 - 1 of them.",
        own->signature().name);
  }
  const std::uint64_t shared = own->shared_bytes(config.dynamic_shared_bytes);
  if (shared > device_->info().max_shared_bytes_per_block) {
    return PERGOLA_ERROR(kResourceExhausted, "Kernel '{}' needs {} bytes of shared memory; a block has at most {}.",
                         own->signature().name, shared, device_->info().max_shared_bytes_per_block);
  }
  auto state = std::make_unique<BlockLaunch::State>();
  state->device = device_;
  state->module = module;
  state->kernel = own;
  state->shared_bytes = static_cast<std::uint32_t>(shared);
  state->parameters = AlignedBytes::make(std::max<std::size_t>(parameters.size(), 1), kParameterAlignBytes);
  if (state->parameters.data() == nullptr) {
    return PERGOLA_ERROR(kResourceExhausted, "The host has no {} bytes for parameters.", parameters.size());
  }
  if (!parameters.empty()) std::memcpy(state->parameters.data(), parameters.data(), parameters.size());
  state->print = std::make_unique<PrintBuffer>(device_->output());
  Launch& launch = state->launch;
  launch.kernel_name = own->signature().name;
  launch.config = config;
  launch.parameters = {state->parameters.data(), parameters.size()};
  launch.static_shared_bytes = own->resources().static_shared_bytes;
  launch.grid_id = device_->next_grid_id();
  launch.sm_count = device_->info().sm_count;
  launch.memory = &device_->memory()->map;
  launch.print = state->print.get();
  launch.heap = &device_->heap();
  launch.fault = &state->fault;
  launch.reads_grid_workspace = own->reads_grid_workspace();
  return BlockLaunch(std::move(state));
}

}  // namespace pergola::device::cpu::blocks
