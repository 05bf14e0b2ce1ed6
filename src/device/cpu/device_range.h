// One range of addresses, reserved without access, in which all memory of CPU devices lies that kernels may touch: so
// that an access far outside every buffer faults instead of reaching what the process keeps elsewhere.
//
//   [ gap, no access ][ inner: whole pages, read and written ][ gap, no access ][ gap ][ inner ][ gap ] ...
//
// A gap is as large as what it surrounds, but at least kLeastGapBytes and at most kMostGapBytes. The range is made on
// first use, 1 TiB of it; less where the process's limit of address space (RLIMIT_AS) forbids that, and none where it
// forbids even 1 GiB: place() then gives nothing and callers map memory of their own. Nothing is committed before it is
// touched.
//
// One for the process, never destroyed, as buffers may outlive static objects. Thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <mutex>

#include "src/device/free_ranges.h"

namespace pergola::device::cpu {

class DeviceRange {
 public:
  static constexpr std::size_t kLeastGapBytes = std::size_t{1} << 20, kMostGapBytes = std::size_t{1} << 30;

  // A piece of the range, with its gaps.
  struct Place {
    std::byte* begin = nullptr;
    std::size_t bytes = 0;
    std::byte* inner = nullptr;
    std::size_t inner_bytes = 0;
    explicit operator bool() const { return begin != nullptr; }
  };

  static DeviceRange& instance();

  // `inner_bytes` is whole pages, which are zero. Empty where the range or the host has not enough.
  Place place(std::size_t inner_bytes);
  // Takes the memory away; the addresses stay without access and unused until release().
  void close(const Place& place);
  void release(const Place& place);

  std::uintptr_t begin() const { return begin_; }
  std::size_t size_bytes() const { return bytes_; }

 private:
  DeviceRange();

  std::uintptr_t begin_ = 0;
  std::size_t bytes_ = 0;
  std::mutex mutex_;  // guards free_
  FreeRanges free_;
};

}  // namespace pergola::device::cpu
