#include "src/device/cpu/resident_block.h"

#include <algorithm>

namespace pergola::device::cpu {
namespace {

constexpr std::size_t kSharedAlignBytes = 128;
constexpr std::size_t kPooledResidents = 64;

Dim3 block_index(const Dim3& grid, std::uint64_t linear) {
  const std::uint64_t plane = std::uint64_t{grid.x} * grid.y;
  return {static_cast<std::uint32_t>(linear % grid.x), static_cast<std::uint32_t>(linear / grid.x % grid.y),
          static_cast<std::uint32_t>(linear / plane)};
}

}  // namespace

void ResidentBlock::begin(const Launch& launch, const KernelCode& code, const BlockRun& run, std::uint32_t sm,
                          std::uint32_t shared_bytes) {
  block.launch = &launch;
  block.following = 0;
  waiting = false;
  if (launch.fault->raised()) return;
  const std::size_t room = (std::size_t{shared_bytes} + kSharedAlignBytes - 1) / kSharedAlignBytes * kSharedAlignBytes;
  if (shared.size_bytes() < room) shared = GuardedBytes::make(room, kSharedAlignBytes);
  if (shared.size_bytes() < room) {
    launch.fault->raise(
        PERGOLA_ERROR(kResourceExhausted, "The host has no {} bytes for a block's shared memory.", shared_bytes));
    return;
  }
  block = {&launch,      block_index(launch.config.grid, run.first),
           sm,           shared.data() + shared.size_bytes() - room,
           shared_bytes, run.count - 1};
  end = run.first + run.count;
  execution = code.start(block);
  if (execution == nullptr)
    launch.fault->raise(PERGOLA_ERROR(kUnsupported,
                                      "The process ends, and nothing is compiled any more; this kernel's code was not "
                                      "there yet, and it takes the address of a function, which the interpreter has "
                                      "elsewhere."));
}

bool ResidentBlock::step(std::uint64_t budget, ProgressFlag* progress) {
  const FaultSlot& fault = *block.launch->fault;
  if (execution == nullptr || fault.raised()) return true;
  const Progress said = execution->step(budget);
  waiting = said == Progress::kWaiting;
  if (!waiting && progress != nullptr && !progress->load(std::memory_order_relaxed))
    progress->store(true, std::memory_order_relaxed);
  return said == Progress::kFinished || fault.raised();
}

std::unique_ptr<ResidentBlock> ResidentPool::take() {
  if (free_.empty()) return std::make_unique<ResidentBlock>();
  std::unique_ptr<ResidentBlock> out = std::move(free_.back());
  free_.pop_back();
  return out;
}

void ResidentPool::put(std::unique_ptr<ResidentBlock> resident) {
  if (free_.size() < kPooledResidents) free_.push_back(std::move(resident));
}

void raise_stuck(const Launch& launch, std::uint32_t resident, std::uint64_t unstarted, std::chrono::milliseconds limit,
                 std::span<const Stand> stands) {
  std::string rest;
  if (unstarted != 0)
    rest = fmt::format(", and {} of its blocks {} for room to start", unstarted, unstarted == 1 ? "waits" : "wait");
  launch.fault->raise(PERGOLA_ERROR(kDeviceFault,
                                    "Kernel '{}' is ended by the watchdog (PERGOLA_CPU_WATCHDOG): for {} s its {} "
                                    "resident blocks have only waited{}:{}",
                                    launch.kernel_name, static_cast<double>(limit.count()) / 1000, resident, rest,
                                    describe_stands(stands)));
}

void raise_out_of_time(const Launch& launch, std::chrono::milliseconds limit, std::uint64_t unstarted,
                       std::span<const Stand> stands) {
  std::string rest;
  if (unstarted != 0) rest = fmt::format(", with {} of its blocks not begun", unstarted);
  launch.fault->raise(
      PERGOLA_ERROR(kDeviceFault, "Kernel '{}' is ended after {} s, its time limit (PERGOLA_CPU_TIME_LIMIT){}:{}",
                    launch.kernel_name, static_cast<double>(limit.count()) / 1000, rest, describe_stands(stands)));
}

}  // namespace pergola::device::cpu
