// malloc and free inside kernels (CUDA C++ Programming Guide, dynamic global memory).
//
// Blocks live until they are freed or the device ends, across launches, as on a GPU. Each is a range of the
// MemoryMap, so an access past it or after its free is found. Thread-safe: one lock, as threads of all SMs share it.
#pragma once

#include <cstdint>
#include <map>
#include <mutex>

#include "src/base/result.h"
#include "src/device/cpu/aligned_bytes.h"
#include "src/device/cpu/memory_map.h"

namespace pergola::device::cpu {

class DeviceHeap {
 public:
  // At most `limit_bytes` are out at any time, each block counted in whole 16 bytes. `memory` must outlive it.
  DeviceHeap(MemoryMap& memory, std::uint64_t limit_bytes) : memory_(memory), limit_bytes_(limit_bytes) {}
  ~DeviceHeap();
  DeviceHeap(const DeviceHeap&) = delete;
  DeviceHeap& operator=(const DeviceHeap&) = delete;

  // A 16-byte aligned generic address; 0 for size 0, beyond the limit, or where the host has no memory.
  std::uint64_t allocate(std::uint64_t size_bytes);
  // Freeing 0 does nothing. kDeviceFault where `address` was not given out or has been freed.
  Status free(std::uint64_t address);
  std::uint64_t used_bytes() const;

 private:
  MemoryMap& memory_;
  const std::uint64_t limit_bytes_;
  mutable std::mutex mutex_;                            // guards all below
  std::map<std::uint64_t, AlignedBytes> blocks_;
  std::uint64_t used_bytes_ = 0;
  std::uint64_t next_id_ = 1;
};

}  // namespace pergola::device::cpu
