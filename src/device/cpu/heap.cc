#include "src/device/cpu/heap.h"

#include <sys/mman.h>

#include <algorithm>
#include <span>
#include <utility>

#include "src/base/log.h"
#include "src/base/pages.h"
#include "src/base/plural.h"
#include "src/device/cpu/margin_pattern.h"

namespace pergola::device::cpu {
namespace {

constexpr std::uint64_t kAlignBytes = 16, kMarginBytes = 32;
constexpr std::uint64_t kLeastBytes = std::uint64_t{1} << 20;
constexpr std::uint64_t kStepBytes = std::uint64_t{1} << 18;

std::uint64_t counted(std::uint64_t size_bytes) {
  return round_up(size_bytes, kAlignBytes);
}
std::string describe(std::uint64_t id, std::uint64_t size_bytes) {
  return fmt::format("heap block {} ({})", id, plural(size_bytes, "byte"));
}
std::uint64_t with_margins(std::uint64_t size_bytes) {
  return counted(size_bytes) + 2 * kMarginBytes;
}

std::span<std::byte> before(std::uint64_t address) {
  return {reinterpret_cast<std::byte*>(address - kMarginBytes), kMarginBytes};
}
std::span<std::byte> painted(std::uint64_t address, std::uint64_t size_bytes) {
  return {reinterpret_cast<std::byte*>(address), std::min<std::uint64_t>(size_bytes, DeviceHeap::kPaintedBytes)};
}
std::span<std::byte> after(std::uint64_t address, std::uint64_t size_bytes) {
  return {reinterpret_cast<std::byte*>(address + size_bytes), counted(size_bytes) - size_bytes + kMarginBytes};
}

}  // namespace

// Of what a block takes, its margins are at most four of five bytes.
DeviceHeap::DeviceHeap(MemoryMap& memory, std::uint64_t limit_bytes) : memory_(memory), limit_bytes_(limit_bytes) {
  if (limit_bytes_ == 0) return;
  std::uint64_t bytes = limit_bytes_ > kMostBytes ? 0 : std::max(kLeastBytes, 5 * limit_bytes_);
  for (; bytes_.data() == nullptr && bytes >= std::max(kLeastBytes, limit_bytes_); bytes /= 2) {
    bytes_ = GuardedBytes::make(round_up(bytes, page_bytes()), page_bytes());
  }
  if (bytes_.data() == nullptr) {
    PERGOLA_WARN(
        "This host has no room for a heap of {} bytes (PERGOLA_CPU_HEAP_BYTES), so kernels have none: their malloc() "
        "returns null. Ask for less.",
        limit_bytes_);
    return;
  }
  const auto begin = reinterpret_cast<std::uintptr_t>(bytes_.data());
  free_ = FreeRanges(begin, bytes_.size_bytes());
  const bool closed = bytes_.guarded() && mprotect(bytes_.data(), bytes_.size_bytes(), PROT_NONE) == 0;
  opened_end_ = closed ? begin : begin + bytes_.size_bytes();
}

// False where the host refuses. Needs mutex_.
bool DeviceHeap::open_up_to(std::uint64_t end) {
  if (end <= opened_end_) return true;
  const std::uint64_t last = reinterpret_cast<std::uintptr_t>(bytes_.data()) + bytes_.size_bytes();
  const std::uint64_t more = std::min(round_up(end - opened_end_, kStepBytes), last - opened_end_);
  if (mprotect(reinterpret_cast<void*>(opened_end_), more, PROT_READ | PROT_WRITE) != 0) return false;
  opened_end_ += more;
  return true;
}

DeviceHeap::~DeviceHeap() {
  for (const auto& [id, block] : blocks_) memory_.remove(block.address);
}

std::uint64_t DeviceHeap::allocate(std::uint64_t size_bytes) {
  if (size_bytes == 0 || size_bytes > limit_bytes_) return 0;
  const std::scoped_lock lock(mutex_);
  if (counted(size_bytes) > limit_bytes_ - used_bytes_) return 0;
  auto begin = free_.take(with_margins(size_bytes));
  while (!begin && !freed_.empty()) {
    release_oldest();
    begin = free_.take(with_margins(size_bytes));
  }
  if (!begin) return 0;
  if (!open_up_to(*begin + with_margins(size_bytes))) {
    free_.give(*begin, with_margins(size_bytes));
    return 0;
  }
  const std::uint64_t address = *begin + kMarginBytes, id = next_id_.fetch_add(1, std::memory_order_relaxed);
  paint_margin(before(address));
  paint_margin(after(address, size_bytes));
  memory_.add({address, size_bytes, describe(id, size_bytes), true});
  used_bytes_ += counted(size_bytes);
  blocks_.emplace(id, Block{address, size_bytes});
  ids_.emplace(address, id);
  return address;
}

// "heap block 3 (64 bytes), 0 to 3 bytes past its end"; empty where its margins are whole.
std::string DeviceHeap::damage(std::uint64_t id, const Block& block) const {
  const auto front = before(block.address), back = after(block.address, block.size_bytes);
  if (is_whole_margin(front) && is_whole_margin(back)) return {};
  return describe_margin_damage(describe(id, block.size_bytes), front, back);
}

Status DeviceHeap::free(std::uint64_t address) {
  if (address == 0) return {};
  const std::scoped_lock lock(mutex_);
  const auto found = ids_.find(address);
  if (found == ids_.end()) {
    return PERGOLA_ERROR(kDeviceFault, "frees address {:#x}, which malloc() did not give out or which is freed: {}",
                         address, memory_.describe_nearest(address));
  }
  const auto at = blocks_.find(found->second);
  const Block block = at->second;
  const std::string found_damage = damage(at->first, block);
  memory_.remove(address);
  used_bytes_ -= counted(block.size_bytes);
  quarantine(at->first, block);
  blocks_.erase(at);
  ids_.erase(found);
  if (found_damage.empty()) return {};
  return PERGOLA_ERROR(kDeviceFault,
                       "frees a block outside which a kernel wrote: {}; PERGOLA_CPU_CHECK=1 or `pergola run --check` "
                       "names thread and line",
                       found_damage);
}

// Needs mutex_, as the next three.
void DeviceHeap::quarantine(std::uint64_t id, const Block& block) {
  paint_margin(painted(block.address, block.size_bytes));
  freed_.push_back({id, block});
  ++unseen_;
  if (freed_.size() > kQuarantined) release_oldest();
}

void DeviceHeap::release_oldest() {
  const Freed oldest = freed_.front();
  look_at(oldest);
  freed_.pop_front();
  unseen_ = std::min(unseen_, freed_.size());
  free_.give(oldest.block.address - kMarginBytes, with_margins(oldest.block.size_bytes));
}

void DeviceHeap::look_at(const Freed& freed) {
  const auto bytes = painted(freed.block.address, freed.block.size_bytes);
  if (is_whole_margin(bytes)) return;
  if (written_.empty()) {
    written_ = fmt::format("wrote to {} after it was freed, {}", describe(freed.id, freed.block.size_bytes),
                           describe_change(bytes));
  }
  paint_margin(bytes);
}

void DeviceHeap::look_at_freed() {
  const std::size_t seen = freed_.size() - unseen_;
  for (std::size_t n = seen; n < freed_.size(); ++n) look_at(freed_[n]);
  for (std::size_t n = 0; n < std::min(kInTurn, seen); ++n) look_at(freed_[freed_turn_++ % seen]);
  unseen_ = 0;
}

std::uint64_t DeviceHeap::used_bytes() const {
  const std::scoped_lock lock(mutex_);
  return used_bytes_;
}

Status DeviceHeap::check(std::string_view kernel, std::uint64_t first_id) {
  if (next_id() == 1) return {};  // no kernel has ever asked for a block
  const std::scoped_lock lock(mutex_);
  Status first;
  const auto look = [&](std::uint64_t id, const Block& block) {
    const std::string found = damage(id, block);
    if (found.empty()) return;
    paint_margin(before(block.address));
    paint_margin(after(block.address, block.size_bytes));
    if (!first.ok()) return;
    first =
        PERGOLA_ERROR(kDeviceFault,
                      "Kernel '{}'{} wrote outside {}; this shows only now that it has ended. PERGOLA_CPU_CHECK=1 or "
                      "`pergola run --check` names thread and line.",
                      kernel, id < first_id ? ", or one before it or beside it," : "", found);
  };
  const auto fresh = blocks_.lower_bound(first_id);
  for (auto it = fresh; it != blocks_.end(); ++it) look(it->first, it->second);
  auto next = blocks_.upper_bound(turn_);
  for (std::size_t n = 0; n < kInTurn && fresh != blocks_.begin(); ++n, ++next) {
    if (next == blocks_.end() || next->first >= first_id) next = blocks_.begin();
    look(next->first, next->second);
    turn_ = next->first;
    if (next->first == std::prev(fresh)->first) turn_ = 0;
  }
  look_at_freed();
  if (written_.empty() || !first.ok()) return first;
  return PERGOLA_ERROR(kDeviceFault,
                       "Kernel '{}', or one before it or beside it, {}; this shows only now that it has ended. "
                       "PERGOLA_CPU_CHECK=1 or `pergola run --check` names thread and line.",
                       kernel, std::exchange(written_, {}));
}

}  // namespace pergola::device::cpu
