#include "src/device/cpu/cpu_buffer.h"

#include "src/base/plural.h"
#include "src/device/known_memory.h"

namespace pergola::device::cpu {
namespace {

bool take(DeviceMemory& memory, std::uint64_t bytes) {
  std::uint64_t used = memory.used_bytes.load(std::memory_order_relaxed);
  do {
    if (bytes > memory.total_bytes - used) return false;
  } while (!memory.used_bytes.compare_exchange_weak(used, used + bytes, std::memory_order_relaxed));
  return true;
}

}  // namespace

Result<std::shared_ptr<CpuBuffer>> CpuBuffer::create(std::shared_ptr<DeviceMemory> memory, std::size_t size_bytes,
                                                     MemoryKind kind) {
  if (!take(*memory, size_bytes)) {
    const std::uint64_t used = memory->used_bytes.load(std::memory_order_relaxed);
    return PERGOLA_ERROR(kResourceExhausted, "The CPU device has no {} bytes free: {} of {} are left.", size_bytes,
                         memory->total_bytes - used, memory->total_bytes);
  }
  GuardedBytes storage = GuardedBytes::make(size_bytes, memory->align_bytes);
  if (storage.data() == nullptr) {
    memory->used_bytes.fetch_sub(size_bytes, std::memory_order_relaxed);
    return PERGOLA_ERROR(kResourceExhausted, "The host has no {} bytes free for a buffer of the CPU device.",
                         size_bytes);
  }
  auto made = std::shared_ptr<CpuBuffer>(new CpuBuffer(std::move(memory), std::move(storage), size_bytes, kind));
  if (kind == MemoryKind::kHostVisible) {
    const std::scoped_lock lock(made->memory_->mutex_);
    made->memory_->host_visible_.insert_or_assign(reinterpret_cast<std::uintptr_t>(made->bytes()), made);
  }
  return made;
}

std::shared_ptr<CpuBuffer> DeviceMemory::host_visible(const void* begin, std::size_t size_bytes) const {
  const auto address = reinterpret_cast<std::uintptr_t>(begin);
  const std::scoped_lock lock(mutex_);
  auto after = host_visible_.upper_bound(address);
  if (after == host_visible_.begin()) return nullptr;
  std::shared_ptr<CpuBuffer> buffer = std::prev(after)->second.lock();
  if (buffer == nullptr) return nullptr;
  const std::uintptr_t into = address - reinterpret_cast<std::uintptr_t>(buffer->bytes());
  const bool inside = into <= buffer->size_bytes() && size_bytes <= buffer->size_bytes() - into;
  return inside ? buffer : nullptr;
}

CpuBuffer::CpuBuffer(std::shared_ptr<DeviceMemory> memory, GuardedBytes storage, std::size_t size_bytes,
                     MemoryKind kind)
    : memory_(std::move(memory)),
      storage_(std::move(storage)),
      size_bytes_(size_bytes),
      kind_(kind),
      id_(memory_->next_buffer_id.fetch_add(1, std::memory_order_relaxed)) {
  const auto begin = reinterpret_cast<std::uintptr_t>(bytes());
  std::string what = fmt::format("buffer {} ({})", id_, plural(size_bytes_, "byte"));
  memory_->map.add({begin, size_bytes_, what, true});
  KnownMemory::instance().add(begin, size_bytes_);
  memory_->margins.add({begin, size_bytes_, storage_.slack_before(), storage_.slack_after(), std::move(what)});
}

CpuBuffer::~CpuBuffer() {
  if (kind_ == MemoryKind::kHostVisible) {
    const std::scoped_lock lock(memory_->mutex_);
    memory_->host_visible_.erase(reinterpret_cast<std::uintptr_t>(bytes()));
  }
  KnownMemory::instance().remove(address(), size_bytes_);
  memory_->map.remove(reinterpret_cast<std::uintptr_t>(bytes()));
  memory_->margins.remove(reinterpret_cast<std::uintptr_t>(bytes()));
  memory_->used_bytes.fetch_sub(size_bytes_, std::memory_order_relaxed);
}

std::byte* CpuBuffer::bytes() const {
  return storage_.data();
}

}  // namespace pergola::device::cpu
