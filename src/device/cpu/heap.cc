#include "src/device/cpu/heap.h"

namespace pergola::device::cpu {
namespace {

constexpr std::uint64_t kAlignBytes = 16;

}  // namespace

DeviceHeap::~DeviceHeap() {
  for (const auto& [address, bytes] : blocks_) memory_.remove(address);
}

std::uint64_t DeviceHeap::allocate(std::uint64_t size_bytes) {
  if (size_bytes == 0 || size_bytes > limit_bytes_) return 0;
  const std::uint64_t rounded = (size_bytes + kAlignBytes - 1) / kAlignBytes * kAlignBytes;
  const std::scoped_lock lock(mutex_);
  if (rounded > limit_bytes_ - used_bytes_) return 0;
  AlignedBytes bytes = AlignedBytes::make(rounded, kAlignBytes);
  if (bytes.data() == nullptr) return 0;
  const auto address = reinterpret_cast<std::uintptr_t>(bytes.data());
  memory_.add({address, size_bytes, fmt::format("heap block {} ({} bytes)", next_id_++, size_bytes), true});
  used_bytes_ += rounded;
  blocks_.emplace(address, std::move(bytes));
  return address;
}

Status DeviceHeap::free(std::uint64_t address) {
  if (address == 0) return {};
  const std::scoped_lock lock(mutex_);
  const auto found = blocks_.find(address);
  if (found == blocks_.end()) {
    return PERGOLA_ERROR(kDeviceFault, "free() of address {:#x}, which malloc() did not give out or which is freed: {}.",
                         address, memory_.describe_nearest(address));
  }
  memory_.remove(address);
  used_bytes_ -= found->second.size_bytes();
  blocks_.erase(found);
  return {};
}

std::uint64_t DeviceHeap::used_bytes() const {
  const std::scoped_lock lock(mutex_);
  return used_bytes_;
}

}  // namespace pergola::device::cpu
