#include "src/executor/task_faults.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <cstring>

#include "src/abi/task_inbox.h"
#include "src/base/plural.h"

namespace pergola::executor {

using transform::FenceSite;

Status TaskFaults::attach(device::Device& device, std::uint32_t rings) {
  const std::size_t bytes = std::size_t{rings} * abi::kRingRecords * sizeof(abi::TaskFault);
  PERGOLA_ASSIGN(memory_, device.allocate_apart(bytes, device::MemoryKind::kHostVisible));
  std::memset(memory_->host_pointer(), 0, bytes);
  return {};
}

void TaskFaults::set_body(std::uint32_t number, std::string kernel, std::vector<FenceSite> fences) {
  const std::lock_guard lock(mutex_);
  if (bodies_.size() <= number) bodies_.resize(number + 1);
  bodies_[number] = {std::move(kernel), std::move(fences)};
}

void TaskFaults::take(std::uint32_t number, HostRing& ring, const FenceTable& table,
                      FunctionRef<void(std::uint64_t position, const std::string& message)> tell) {
  const std::lock_guard lock(mutex_);
  const std::uint32_t told = ring.faults_told();
  if (ring.faults_seen() == told) return;
  auto* faults = reinterpret_cast<abi::TaskFault*>(memory_->host_pointer()) + std::size_t{number} * abi::kRingRecords;
  const std::uint64_t head = ring.head();
  for (std::uint32_t record = 0; record < abi::kRingRecords; ++record) {
    const std::atomic_ref is_told(faults[record].is_told);
    // Acquire: pairs with the device's fence before it.
    if (is_told.load(std::memory_order_acquire) == 0) continue;
    const abi::TaskFault fault = faults[record];
    is_told.store(0, std::memory_order_release);
    // The last position of this record: it has not been given out again.
    const std::uint64_t position = head - 1 - (head - 1 - record) % abi::kRingRecords;
    const std::string said = message(fault, table);
    tell(position, fault.is_spawned != 0 ? "A task that it has spawned fails: " + said : said);
  }
  ring.note_faults(told);
}

static std::string no_handle_message(const std::string& kernel, const std::string& where, std::uint64_t handle) {
  const std::string who = fmt::format("Kernel '{}': {} spawns a task of {:#x}, which is", kernel, where, handle);
  if (handle >> abi::kHandleMagicShift != abi::kHandleMagic)
    return who + " no handle of a kind of this pool; TaskKind::on_device() gives them.";
  return fmt::format("{} no handle of this pool, or with parameters of another size than the kind's, {}.", who,
                     plural(handle >> abi::kHandleBytesShift & 0xffff, "byte"));
}

std::string TaskFaults::message(const abi::TaskFault& fault, const FenceTable& table) const {
  const std::uint32_t site_number = (fault.fault >> abi::kFaultSiteShift) - 1;
  const bool names_no_handle = site_number + 1 == abi::kFaultNoHandle;
  if (fault.body >= bodies_.size() || (!names_no_handle && site_number >= bodies_[fault.body].fences.size()))
    return "What its fences have told of it cannot be read, as if it had been overwritten.";
  const Body& body = bodies_[fault.body];
  const std::uint32_t lane = fault.fault & ((1u << abi::kFaultSiteShift) - 1), thread = fault.warp * 32 + lane;
  const std::uint32_t x = std::max(fault.block_x, 1u), y = std::max(fault.block_y, 1u);
  const std::string where = fmt::format("thread ({},{},{}) of block ({},{},{})", thread % x, thread / x % y,
                                        thread / x / y, fault.index_x, fault.index_y, fault.index_z);
  if (names_no_handle) return no_handle_message(body.kernel, where, fault.address);
  const FenceSite& site = body.fences[site_number];
  const std::string who = fmt::format("Kernel '{}' at {} ({}): {}", body.kernel, site.place, site.instruction, where);
  if (site.kind == FenceSite::Kind::kTrap) return who + " traps.";
  if (site.kind == FenceSite::Kind::kAssert)
    return fmt::format("{} fails {}{}.", who, site.text.empty() ? "an assertion" : "the assertion ", site.text);
  const char* verb = site.kind == FenceSite::Kind::kRead    ? "reads"
                     : site.kind == FenceSite::Kind::kWrite ? "writes"
                                                            : "reads and writes";
  const bool is_memory = table.is_memory(fault.address);
  if (is_memory && fault.address % site.bytes != 0)
    return fmt::format("{} {} {} at {:#x}, which is no multiple of {}{}.", who, verb, plural(site.bytes, "byte"),
                       fault.address, site.bytes, table.describe(fault.address));
  return fmt::format(
      "{} {} {} at {:#x}, where the pool's fences know no memory{}. Other tasks go on. (Memory of another "
      "library "
      "that a task finds by itself is not known: wrap it in an array, or switch the fences off, "
      "PERGOLA_TASK_FENCES=off.)",
      who, verb, plural(site.bytes, "byte"), fault.address, table.describe(fault.address));
}

}  // namespace pergola::executor
