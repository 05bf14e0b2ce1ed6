#include "src/device/cpu/memory_map.h"

#include <fmt/format.h>

#include <algorithm>

#include "src/base/plural.h"
#include "src/device/cpu/block.h"
#include "src/device/cpu/device_range.h"

namespace pergola::device::cpu {
namespace {

constexpr std::size_t kFreedRemembered = 512;

// How far `address` is from [begin, begin + size): 0 inside.
std::uint64_t distance(const MemoryMap::Range& range, std::uintptr_t address) {
  if (address < range.begin) return range.begin - address;
  const std::uintptr_t into = address - range.begin;
  return into < range.size_bytes ? 0 : into - range.size_bytes + 1;
}

std::string describe(const MemoryMap::Range& range, std::uintptr_t address, bool freed) {
  const std::string what = freed ? range.what + ", which has been freed" : range.what;
  if (address < range.begin) return fmt::format("{} before {}", plural(range.begin - address, "byte"), what);
  const std::uintptr_t into = address - range.begin;
  if (into < range.size_bytes) return fmt::format("at byte {} of {}", into, what);
  return fmt::format("{} past the end of {}", plural(into - range.size_bytes, "byte"), what);
}

// The range of `ranges` nearest to `address`; null where there is none.
const MemoryMap::Range* nearest(const std::map<std::uintptr_t, MemoryMap::Range>& ranges, std::uintptr_t address) {
  const MemoryMap::Range* best = nullptr;
  auto after = ranges.upper_bound(address);
  if (after != ranges.end()) best = &after->second;
  if (after != ranges.begin()) {
    const MemoryMap::Range& before = std::prev(after)->second;
    if (best == nullptr || distance(before, address) <= distance(*best, address)) best = &before;
  }
  return best;
}

}  // namespace

MemoryMap::MemoryMap()
    : device_begin_(DeviceRange::instance().begin()), device_bytes_(DeviceRange::instance().size_bytes()) {}

void MemoryMap::add(Range range) {
  const auto lock = mutex_.write();
  // An address that is in use again no longer tells of the range that was there before.
  const auto overlaps = [&](const Range& old) {
    return old.begin < range.begin + range.size_bytes && range.begin < old.begin + old.size_bytes;
  };
  std::erase_if(freed_, [&](const auto& entry) { return entry.first == range.begin || overlaps(entry.second); });
  std::erase_if(freed_order_, [&](std::uintptr_t begin) { return !freed_.contains(begin); });
  const std::uintptr_t begin = range.begin;
  ranges_.insert_or_assign(begin, std::move(range));
}

void MemoryMap::remove(std::uintptr_t begin) {
  const auto lock = mutex_.write();
  auto node = ranges_.extract(begin);
  if (node.empty()) return;
  freed_.insert_or_assign(begin, std::move(node.mapped()));
  freed_order_.push_back(begin);
  if (freed_order_.size() > kFreedRemembered) {
    freed_.erase(freed_order_.front());
    freed_order_.pop_front();
  }
  // release: whoever sees the new generation looks the address up again.
  generation_.fetch_add(1, std::memory_order_release);
}

std::optional<MemoryMap::Range> MemoryMap::find(std::uintptr_t address, std::size_t size_bytes) const {
  const auto lock = mutex_.read();
  auto after = ranges_.upper_bound(address);
  if (after == ranges_.begin()) return std::nullopt;
  const Range& range = std::prev(after)->second;
  const std::uintptr_t into = address - range.begin;
  if (into > range.size_bytes || size_bytes > range.size_bytes - into) return std::nullopt;
  return range;
}

std::string MemoryMap::describe_nearest(std::uintptr_t address) const {
  constexpr std::uint64_t kNear = std::uint64_t{1} << 20;
  const auto lock = mutex_.read();
  const Range* live = nearest(ranges_, address);
  const Range* freed = nearest(freed_, address);
  const bool choose_freed = freed != nullptr && (live == nullptr || distance(*freed, address) < distance(*live, address));
  const Range* best = choose_freed ? freed : live;
  if (best == nullptr) return "no buffer exists on the device";
  // Among the device's memory it may be an index that went far; elsewhere it is no address of a buffer at all.
  if (distance(*best, address) > kNear && address - device_begin_ >= device_bytes_) return "no buffer is within 1 MiB of it";
  return describe(*best, address, choose_freed);
}

std::string beside_shared(const Block& block, std::uintptr_t address) {
  constexpr std::uintptr_t kNear = 64 * 1024;
  const auto begin = reinterpret_cast<std::uintptr_t>(block.shared_base);
  const std::uintptr_t end = begin + block.shared_bytes;
  if (block.shared_bytes == 0) return {};
  if (address >= end && address - end < kNear)
    return fmt::format("{} past the end of the block's shared memory ({})", plural(address - end, "byte"),
                       plural(block.shared_bytes, "byte"));
  if (address < begin && begin - address < kNear)
    return fmt::format("{} before the block's shared memory ({})", plural(begin - address, "byte"),
                       plural(block.shared_bytes, "byte"));
  return {};
}

std::string misaligned_place(const Block& block, std::uint64_t address, ptx::Space space) {
  if (space == ptx::Space::kLocal) return "in the thread's local memory";
  const std::uint64_t offset = space == ptx::Space::kShared
                                   ? address & 0xffffffffu
                                   : address - reinterpret_cast<std::uintptr_t>(block.shared_base);
  if (offset < block.shared_bytes)
    return fmt::format("at offset {} of the block's shared memory ({})", offset, plural(block.shared_bytes, "byte"));
  if (space == ptx::Space::kShared) return "outside the block's shared memory";
  return block.launch->memory == nullptr ? "and no buffer is known" : block.launch->memory->describe_nearest(address);
}

}  // namespace pergola::device::cpu
