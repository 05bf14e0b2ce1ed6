#include "src/runtime/spare_memory.h"

#include <algorithm>
#include <iterator>

namespace pergola::runtime {

std::uint64_t SpareMemory::most_bytes(device::MemoryKind kind) const {
  return kind == device::MemoryKind::kDevice ? most_bytes_ : std::min(most_bytes_, kMostOnHostBytes);
}

// What a program is done with makes room in the table: sizes of which there is nothing are as good as new.
bool SpareMemory::has_room_for_sizes() {
  if (sizes_.size() < kMostSizes) return true;
  boost::unordered::erase_if(
      sizes_, [](const auto& each) { return each.second.behind_work == 0 && each.second.spare.empty(); });
  return sizes_.size() < kMostSizes;
}

device::BufferPtr SpareMemory::take(std::uint64_t size_bytes, device::MemoryKind kind) {
  const std::lock_guard lock(mutex_);
  const auto found = sizes_.find({size_bytes, kind});
  if (found == sizes_.end() || !found->second.has_gone) return nullptr;
  OfSize& size = found->second;
  size.recurs = true;
  any_recurs_.store(true, std::memory_order_relaxed);
  size.last_taken = Clock::now();
  if (size.spare.empty()) return nullptr;
  device::BufferPtr buffer = std::move(size.spare.back());
  size.spare.pop_back();
  spare_bytes_[static_cast<std::size_t>(kind)] -= size_bytes;
  return buffer;
}

std::shared_ptr<const void> SpareMemory::after_work(device::BufferPtr buffer) {
  if (buffer == nullptr || buffer->size_bytes() == 0 || most_bytes(buffer->kind()) < buffer->size_bytes())
    return buffer;
  const void* const what = buffer.get();
  {
    const std::lock_guard lock(mutex_);
    if (!sizes_.contains(key_of(*buffer)) && !has_room_for_sizes()) return buffer;
    OfSize& size = sizes_[key_of(*buffer)];
    size.has_gone = true;
    ++size.behind_work;
    behind_work_bytes_[static_cast<std::size_t>(buffer->kind())] += buffer->size_bytes();
  }
  return std::shared_ptr<const void>(what, [self = shared_from_this(), buffer = std::move(buffer)](
                                               const void*) mutable { self->work_has_ended(std::move(buffer)); });
}

void SpareMemory::work_has_ended(device::BufferPtr buffer) {
  const Key key = key_of(*buffer);
  const auto kind = static_cast<std::size_t>(key.second);
  std::vector<device::BufferPtr> old;  // goes after the lock, as `buffer` does
  const std::lock_guard lock(mutex_);
  waits_in_vain_ = false;
  OfSize& size = sizes_[key];
  --size.behind_work;
  behind_work_bytes_[kind] -= key.first;
  if (!size.recurs) return;
  if (spare_bytes_[kind] + key.first > most_bytes(key.second)) take_out(Clock::now() - old_, old);
  if (spare_bytes_[kind] + key.first > most_bytes(key.second)) return;
  spare_bytes_[kind] += key.first;
  size.spare.push_back(std::move(buffer));
}

bool SpareMemory::is_far_ahead(std::uint64_t size_bytes, device::MemoryKind kind, bool costs) const {
  const std::uint32_t times = costs ? 4 : 1;
  const std::lock_guard lock(mutex_);
  const auto found = sizes_.find({size_bytes, kind});
  if (waits_in_vain_ || found == sizes_.end() || !found->second.recurs || found->second.behind_work == 0) return false;
  return found->second.behind_work >= times * kMostBehindWork ||
         behind_work_bytes_[static_cast<std::size_t>(kind)] + size_bytes > times * most_bytes(kind);
}

void SpareMemory::note_vain_wait() {
  const std::lock_guard lock(mutex_);
  waits_in_vain_ = true;
}

bool SpareMemory::give_back(Clock::time_point unused_since) {
  std::vector<device::BufferPtr> given;  // goes after the lock
  const std::lock_guard lock(mutex_);
  take_out(unused_since, given);
  return !given.empty();
}

void SpareMemory::take_out(Clock::time_point unused_since, std::vector<device::BufferPtr>& out) {
  bool any = false;
  for (auto& [key, size] : sizes_) {
    if (size.last_taken > unused_since) {
      any = any || size.recurs;
      continue;
    }
    spare_bytes_[static_cast<std::size_t>(key.second)] -= key.first * size.spare.size();
    std::move(size.spare.begin(), size.spare.end(), std::back_inserter(out));
    size.spare.clear();
    size.recurs = false;
  }
  any_recurs_.store(any, std::memory_order_relaxed);
}

std::uint64_t SpareMemory::spare_bytes() const {
  const std::lock_guard lock(mutex_);
  return spare_bytes_[0] + spare_bytes_[1] + spare_bytes_[2];
}

std::size_t SpareMemory::known_sizes() const {
  const std::lock_guard lock(mutex_);
  return sizes_.size();
}

}  // namespace pergola::runtime
