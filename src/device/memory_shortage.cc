#include "src/device/memory_shortage.h"

#include <utility>

namespace pergola::device {

MemoryShortage& MemoryShortage::instance() {
  static MemoryShortage& all = *new MemoryShortage;
  return all;
}

void MemoryShortage::add(std::weak_ptr<Keeper> keeper) {
  MemoryShortage& all = instance();
  const std::lock_guard lock(all.mutex_);
  std::erase_if(all.keepers_, [](const auto& each) { return each.expired(); });
  all.keepers_.push_back(std::move(keeper));
}

std::uint64_t MemoryShortage::reliefs() {
  return instance().reliefs_.load(std::memory_order_acquire);
}

bool MemoryShortage::relieve(std::uint64_t reliefs_before) {
  MemoryShortage& all = instance();
  std::vector<std::weak_ptr<Keeper>> keepers;
  {
    const std::lock_guard lock(all.mutex_);
    keepers = all.keepers_;
  }
  const std::lock_guard relieving(all.relieving_);
  bool any = false;
  for (const auto& each : keepers)
    if (const std::shared_ptr<Keeper> keeper = each.lock()) any = keeper->relieve() || any;
  if (any) all.reliefs_.fetch_add(1, std::memory_order_release);
  return all.reliefs_.load(std::memory_order_acquire) != reliefs_before;
}

}  // namespace pergola::device
