#include "src/device/null/null_buffer.h"

#include <algorithm>
#include <new>

namespace pergola::device::null {
namespace {
constexpr std::align_val_t kAlignment{256};
}

bool MemoryBudget::take(std::uint64_t bytes) {
  std::uint64_t free = free_bytes_.load(std::memory_order_relaxed);
  while (free >= bytes)
    if (free_bytes_.compare_exchange_weak(free, free - bytes, std::memory_order_relaxed)) return true;
  return false;
}

std::shared_ptr<NullBuffer> NullBuffer::create(std::shared_ptr<MemoryBudget> budget, std::size_t size_bytes,
                                               MemoryKind kind) {
  if (!budget->take(size_bytes)) return nullptr;
  void* bytes = ::operator new(std::max<std::size_t>(size_bytes, 1), kAlignment, std::nothrow);
  if (bytes == nullptr) {
    budget->give(size_bytes);
    return nullptr;
  }
  return std::shared_ptr<NullBuffer>(
      new NullBuffer(std::move(budget), static_cast<std::byte*>(bytes), size_bytes, kind));
}

NullBuffer::~NullBuffer() {
  ::operator delete(bytes_, kAlignment);
  budget_->give(size_bytes_);
}

}  // namespace pergola::device::null
