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

bool MemoryShortage::relieve() {
  MemoryShortage& all = instance();
  std::vector<std::weak_ptr<Keeper>> keepers;
  {
    const std::lock_guard lock(all.mutex_);
    keepers = all.keepers_;
  }
  // Who comes while another thread has some given back has some to hope for when that is done.
  std::unique_lock relieving(all.relieving_, std::try_to_lock);
  bool any = !relieving.owns_lock();
  if (any) relieving.lock();
  for (const auto& each : keepers)
    if (const std::shared_ptr<Keeper> keeper = each.lock()) any = keeper->relieve() || any;
  return any;
}

}  // namespace pergola::device
