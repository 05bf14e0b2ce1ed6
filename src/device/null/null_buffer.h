// Host memory that stands for device memory, and the budget it is taken from.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>

#include "src/device/buffer.h"

namespace pergola::device::null {

// Bytes in use on one device. Shared by the device and its buffers, so that either may go first.
class MemoryBudget {
 public:
  explicit MemoryBudget(std::uint64_t total_bytes) : free_bytes_(total_bytes) {}
  bool take(std::uint64_t bytes);
  void give(std::uint64_t bytes) { free_bytes_.fetch_add(bytes, std::memory_order_relaxed); }
  std::uint64_t free_bytes() const { return free_bytes_.load(std::memory_order_relaxed); }

 private:
  std::atomic<std::uint64_t> free_bytes_;  // relaxed: a count, which orders no other memory
};

class NullBuffer final : public Buffer {
 public:
  // Null where the budget or the host has not enough.
  static std::shared_ptr<NullBuffer> create(std::shared_ptr<MemoryBudget> budget, std::size_t size_bytes,
                                            MemoryKind kind);
  ~NullBuffer() override;
  NullBuffer(const NullBuffer&) = delete;
  NullBuffer& operator=(const NullBuffer&) = delete;

  DeviceAddress address() const override { return reinterpret_cast<DeviceAddress>(bytes_); }
  std::size_t size_bytes() const override { return size_bytes_; }
  MemoryKind kind() const override { return kind_; }
  std::byte* host_pointer() const override { return kind_ == MemoryKind::kHostVisible ? bytes_ : nullptr; }

  std::byte* bytes() const { return bytes_; }
  const MemoryBudget* budget() const { return budget_.get(); }  // which device this is of

 private:
  NullBuffer(std::shared_ptr<MemoryBudget> budget, std::byte* bytes, std::size_t size_bytes, MemoryKind kind)
      : budget_(std::move(budget)), bytes_(bytes), size_bytes_(size_bytes), kind_(kind) {}

  std::shared_ptr<MemoryBudget> budget_;
  std::byte* bytes_;
  std::size_t size_bytes_;
  MemoryKind kind_;
};

}  // namespace pergola::device::null
