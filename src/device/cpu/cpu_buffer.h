// Host memory that a CPU device gives out as its own.
//
//   [guard][slack][ size_bytes, 256-byte aligned ][slack, < 256][guard]        guarded_bytes.h
//
// Registered in the MemoryMap while it lives, so that checked accesses outside it are faults that name it. Unchecked
// code (a JIT's) faults in the guards, and in the memory of a freed buffer while that is in quarantine. What it writes
// to the slack (64 bytes of it before the start) fails its launch when that ends (buffer_margins.h).
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>

#include "src/base/result.h"
#include "src/device/buffer.h"
#include "src/device/cpu/buffer_margins.h"
#include "src/device/cpu/guarded_bytes.h"
#include "src/device/cpu/memory_map.h"

namespace pergola::device::cpu {

inline constexpr std::size_t kBufferAlignBytes = 256;  // as pergola.h promises

// A device's memory: what is in use, and where kernels may go. Shared by the device and its buffers, so that either
// may go first; its address tells one device's handles from another's. Thread-safe.
class CpuBuffer;
class DeviceMemory {
 public:
  // `buffer_alignment_bytes` is a power of two up to 256: what buffers begin at a multiple of.
  explicit DeviceMemory(std::uint64_t total, std::size_t buffer_alignment_bytes = kBufferAlignBytes)
      : total_bytes(total), align_bytes(buffer_alignment_bytes) {}

  // The kHostVisible buffer that holds all of the range; null where there is none.
  std::shared_ptr<CpuBuffer> host_visible(const void* begin, std::size_t size_bytes) const;

  MemoryMap map;
  BufferMargins margins;
  const std::uint64_t total_bytes;
  const std::size_t align_bytes;
  std::atomic<std::uint64_t> used_bytes{0};      // relaxed: a count that orders nothing
  std::atomic<std::uint64_t> next_buffer_id{1};  // relaxed: likewise
  std::atomic<std::uint64_t> staged_bytes{0};    // relaxed: likewise; Device::staged_bytes()

 private:
  friend class CpuBuffer;
  mutable std::mutex mutex_;                                       // guards host_visible_
  std::map<std::uintptr_t, std::weak_ptr<CpuBuffer>> host_visible_;  // by address
};

class CpuBuffer final : public Buffer {
 public:
  // kResourceExhausted where the device's budget or the host has not enough.
  static Result<std::shared_ptr<CpuBuffer>> create(std::shared_ptr<DeviceMemory> memory, std::size_t size_bytes,
                                                   MemoryKind kind);
  ~CpuBuffer() override;
  CpuBuffer(const CpuBuffer&) = delete;
  CpuBuffer& operator=(const CpuBuffer&) = delete;

  DeviceAddress address() const override { return reinterpret_cast<DeviceAddress>(bytes()); }
  std::size_t size_bytes() const override { return size_bytes_; }
  MemoryKind kind() const override { return kind_; }
  // Both kinds: the host reaches all of this device's memory.
  std::byte* host_pointer() const override { return bytes(); }

  std::byte* bytes() const;
  std::uint64_t id() const { return id_; }
  const DeviceMemory* memory() const { return memory_.get(); }

 private:
  CpuBuffer(std::shared_ptr<DeviceMemory> memory, GuardedBytes storage, std::size_t size_bytes, MemoryKind kind);

  const std::shared_ptr<DeviceMemory> memory_;
  const GuardedBytes storage_;
  const std::size_t size_bytes_;
  const MemoryKind kind_;
  const std::uint64_t id_;
};

}  // namespace pergola::device::cpu
