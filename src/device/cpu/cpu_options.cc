#include "src/device/cpu/cpu_options.h"

#include <bit>

#include "src/base/environment.h"
#include "src/device/cpu/cpu_buffer.h"
#include "src/device/cpu/heap.h"
#include "src/device/cpu/stack_limit.h"

namespace pergola::device::cpu {
namespace {

template <typename T>
Status read_number(const char* name, std::uint64_t least, std::uint64_t most, T& out) {
  PERGOLA_ASSIGN(const auto value, number_setting(name, least, most));
  if (value) out = static_cast<T>(*value);
  return {};
}

Status read_stack_bytes(std::uint32_t& out) {
  return read_number("PERGOLA_CPU_STACK_BYTES", 1024, std::uint64_t{1} << 28, out);
}

}  // namespace

std::uint32_t open_stack_bytes() {
  std::uint32_t bytes = 256 * 1024;
  (void)read_stack_bytes(bytes);  // a wrong value has kept the device from opening
  return bytes;
}

Result<CpuOptions> CpuOptions::from_environment() {
  constexpr std::uint64_t kMostBytes = std::uint64_t{1} << 46;
  CpuOptions options;
  PERGOLA_TRY(read_number("PERGOLA_CPU_SMS", 1, 1024, options.sms));
  PERGOLA_TRY(read_number("PERGOLA_CPU_BLOCKS_PER_SM", 1, 32, options.blocks_per_sm));
  PERGOLA_TRY(read_number("PERGOLA_CPU_HEAP_BYTES", 0, DeviceHeap::kMostBytes, options.heap_bytes));
  PERGOLA_TRY(read_number("PERGOLA_CPU_MEMORY_BYTES", 1, kMostBytes, options.memory_bytes));
  PERGOLA_TRY(read_number("PERGOLA_CPU_BUFFER_ALIGN", 16, kBufferAlignBytes, options.buffer_align_bytes));
  if (!std::has_single_bit(options.buffer_align_bytes))
    return PERGOLA_ERROR(kInvalidArgument, "PERGOLA_CPU_BUFFER_ALIGN is {}; it should be a power of two, 16 to {}.",
                         options.buffer_align_bytes, kBufferAlignBytes);
  std::uint32_t stack_bytes = 0;
  PERGOLA_TRY(read_stack_bytes(stack_bytes));
  std::uint32_t watchdog_seconds = 0;
  PERGOLA_TRY(read_number("PERGOLA_CPU_WATCHDOG", 0, 1'000'000, watchdog_seconds));
  options.watchdog = std::chrono::seconds(watchdog_seconds);
  std::uint32_t limit_seconds = 0;
  PERGOLA_TRY(read_number("PERGOLA_CPU_TIME_LIMIT", 0, 1'000'000, limit_seconds));
  options.time_limit = std::chrono::seconds(limit_seconds);
  PERGOLA_ASSIGN(options.teardown_grace, end_grace_from_environment());
  PERGOLA_TRY(read_number("PERGOLA_CPU_CHECK", 0, 1, options.check));
  PERGOLA_ASSIGN(const auto occupancy, choice_setting("PERGOLA_CPU_OCCUPANCY", {"per-launch", "shared"}));
  if (occupancy) options.occupancy = *occupancy == 0 ? Occupancy::kPerLaunch : Occupancy::kShared;
  return options;
}

}  // namespace pergola::device::cpu
