#include "src/device/known_memory.h"

namespace pergola::device {

KnownMemory& KnownMemory::instance() {
  static KnownMemory& known = *new KnownMemory;
  return known;
}

void KnownMemory::note(const Change& change) {
  changes_.push_back(change);
  if (changes_.size() > kMostChanges) changes_.pop_front();
  generation_.fetch_add(1, std::memory_order_release);
}

void KnownMemory::add(DeviceAddress begin, std::uint64_t size_bytes) {
  if (size_bytes == 0) return;
  const std::lock_guard lock(mutex_);
  ranges_.emplace(begin, size_bytes);
  note({begin, size_bytes, false});
}

void KnownMemory::remove(DeviceAddress begin, std::uint64_t size_bytes) {
  const std::lock_guard lock(mutex_);
  const auto [first, last] = ranges_.equal_range(begin);
  for (auto at = first; at != last; ++at) {
    if (at->second != size_bytes) continue;
    ranges_.erase(at);
    note({begin, size_bytes, true});
    return;
  }
}

std::vector<KnownMemory::Change> KnownMemory::changes_since(std::uint64_t& seen, bool& all) const {
  const std::lock_guard lock(mutex_);
  const std::uint64_t now = generation_.load(std::memory_order_relaxed);
  const std::uint64_t missing = now - seen;
  all = missing > changes_.size();
  seen = now;
  std::vector<Change> result;
  if (all)
    for (const auto& [begin, size_bytes] : ranges_) result.push_back({begin, size_bytes, false});
  else
    result.assign(changes_.end() - static_cast<std::ptrdiff_t>(missing), changes_.end());
  return result;
}

}  // namespace pergola::device
