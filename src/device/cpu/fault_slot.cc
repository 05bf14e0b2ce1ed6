// FaultSlot, what tiers say alike, and the defaults of their interface (block.h).
#include "src/device/cpu/block.h"

namespace pergola::device::cpu {

void FaultSlot::raise(Error error) {
  // relaxed: only one raiser may write error_; what it publishes goes out with raised_.
  if (claimed_.exchange(true, std::memory_order_relaxed)) return;
  error_ = std::move(error);
  raised_.store(true, std::memory_order_release);
}

Status FaultSlot::status() const { return raised() ? Status(error_) : Status(); }

std::string trap_reason(const Launch& launch) {
  if (!launch.reads_grid_workspace || launch.config.cooperative) return "traps";
  return "traps; the kernel has a grid-wide barrier (cooperative_groups::this_grid().sync() traps where it cannot work), "
         "and its launch is not cooperative: launch it with PERGOLA_LAUNCH_COOPERATIVE, or `pergola run --cooperative`";
}

Result<std::uint64_t> ModuleCode::function_address(std::string_view function) const {
  return PERGOLA_ERROR(kUnsupported, "This tier of the CPU device gives no address to function '{}'.", function);
}

}  // namespace pergola::device::cpu
