#include "src/runtime/managed_memory.h"

#include <algorithm>

#include "src/runtime/local_session.h"

namespace pergola::runtime {

ManagedMemory::ManagedMemory(LocalSession& session, device::BufferPtr buffer)
    : session_(session),
      buffer_(std::move(buffer)),
      is_restricted_(session.device().managed == device::ManagedAccess::kRestricted) {
  session_.managed().add(*this);
}

ManagedMemory::~ManagedMemory() {
  session_.managed().remove(*this);
}

Status ManagedMemory::take(device::Queue& queue) {
  const device::Queue* const user = user_.load(std::memory_order_acquire);
  if (is_restricted_ ? user == &queue : user != nullptr) return {};
  PERGOLA_TRY(queue.take_managed(buffer_));
  user_.store(&queue, std::memory_order_release);
  return {};
}

Status ManagedMemory::give_to_host() {
  if (is_on_host()) return {};
  if (is_restricted_ || buffer_->size_bytes() >= kWorthMovingBytes) PERGOLA_TRY(session_.give_to_host_now(buffer_));
  user_.store(nullptr, std::memory_order_release);
  return {};
}

Status ManagedMemory::give_to_host(device::Queue& queue) {
  PERGOLA_TRY(queue.give_managed_to_host(buffer_));
  user_.store(nullptr, std::memory_order_release);
  return {};
}

void ManagedMemories::add(ManagedMemory& memory) {
  const std::lock_guard lock(mutex_);
  memories_.push_back(&memory);
  if (memory.is_restricted()) any_restricted_.store(true, std::memory_order_release);
  any_.store(true, std::memory_order_release);
}

void ManagedMemories::remove(ManagedMemory& memory) {
  const std::lock_guard lock(mutex_);
  std::erase(memories_, &memory);
}

Status ManagedMemories::take_restricted(device::Queue& queue) {
  const std::lock_guard lock(mutex_);
  for (ManagedMemory* memory : memories_)
    if (memory->is_restricted()) PERGOLA_TRY(memory->take(queue));
  return {};
}

}  // namespace pergola::runtime
