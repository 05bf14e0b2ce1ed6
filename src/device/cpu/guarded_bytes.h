// Memory between guard pages, so that compiled code that runs out of it faults instead of writing elsewhere.
//
//   [guard][ slack ][ size_bytes, ending at its alignment before the page's end ][guard]
//
// A guard is a gap of 1 MiB to 1 GiB (device_range.h), or a page where the range of device memory has no room. Freed memory
// goes into quarantine: its addresses stay mapped without access, its pages go back to the system, and a use after free
// faults too, until kQuarantined later frees have passed. Mappings are a limited resource of the host (vm.max_map_count):
// beyond kMostGuarded at a time, memory is plain and data() is not guarded (guarded() says so).
//
// Move-only, owns its bytes, zero at first where it is guarded. Thread-safe between objects.
#pragma once

#include <cstddef>
#include <utility>

#include "src/device/cpu/aligned_bytes.h"
#include "src/device/cpu/device_range.h"

namespace pergola::device::cpu {

class GuardedBytes {
 public:
  static constexpr std::size_t kMostGuarded = 4096, kQuarantined = 256;

  GuardedBytes() = default;
  GuardedBytes(GuardedBytes&& other) noexcept { swap(other); }
  GuardedBytes& operator=(GuardedBytes&& other) noexcept {
    swap(other);
    return *this;
  }
  ~GuardedBytes();

  // `align_bytes` is a power of two; above a page, memory is not guarded. data() is null where memory is short.
  static GuardedBytes make(std::size_t size_bytes, std::size_t align_bytes);

  std::byte* data() const { return data_; }
  std::size_t size_bytes() const { return size_bytes_; }
  bool guarded() const { return static_cast<bool>(place_) || mapping_ != nullptr; }
  // Bytes of ours before data() and behind its end, before the guard pages (or, unguarded, the edges).
  std::size_t slack_before() const { return slack_before_; }
  std::size_t slack_after() const { return slack_after_; }

 private:
  void swap(GuardedBytes& other) noexcept;

  void lay_out(std::byte* inner, std::size_t inner_bytes, std::size_t size_bytes, std::size_t align_bytes);

  DeviceRange::Place place_;      // where it is guarded
  std::byte* mapping_ = nullptr;  // where the range had no room: with its guard pages
  std::size_t mapping_bytes_ = 0;
  AlignedBytes plain_;            // where it is not guarded
  std::byte* data_ = nullptr;
  std::size_t size_bytes_ = 0, slack_before_ = 0, slack_after_ = 0;
};

}  // namespace pergola::device::cpu
