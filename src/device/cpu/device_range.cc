#include "src/device/cpu/device_range.h"

#include <sys/mman.h>
#include <sys/resource.h>

#include <algorithm>

#include "src/base/log.h"
#include "src/base/pages.h"

namespace pergola::device::cpu {
namespace {

#if defined(PERGOLA_ASAN) || defined(__SANITIZE_THREAD__)
constexpr std::size_t kRangeBytes = std::size_t{1} << 36;  // sanitizers keep shadow memory of it
#else
constexpr std::size_t kRangeBytes = std::size_t{1} << 40;
#endif
constexpr std::size_t kLeastRangeBytes = std::size_t{1} << 30;
constexpr std::size_t kHugeFromBytes = std::size_t{4} << 20;
constexpr int kClosed = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;

// Of what the process may map, a quarter at most.
std::size_t wanted_bytes() {
  rlimit limit{};
  if (getrlimit(RLIMIT_AS, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return kRangeBytes;
  return std::min<std::size_t>(kRangeBytes, limit.rlim_cur / 4 / page_bytes() * page_bytes());
}

}  // namespace

DeviceRange& DeviceRange::instance() {
  static auto* const one = new DeviceRange;
  return *one;
}

DeviceRange::DeviceRange() {
  for (std::size_t bytes = wanted_bytes(); bytes >= kLeastRangeBytes; bytes /= 2) {
    void* const memory = mmap(nullptr, bytes, PROT_NONE, kClosed, -1, 0);
    if (memory == MAP_FAILED) continue;
    begin_ = reinterpret_cast<std::uintptr_t>(memory);
    bytes_ = bytes;
    free_ = FreeRanges(begin_, bytes);
    return;
  }
  PERGOLA_INFO(
      "The host gives the CPU device no range of {} bytes of addresses: buffers lie among the process's own memory.",
      kLeastRangeBytes);
}

DeviceRange::Place DeviceRange::place(std::size_t inner_bytes) {
  if (inner_bytes > bytes_) return {};
  const std::size_t gap = std::clamp(inner_bytes, kLeastGapBytes, kMostGapBytes);
  const std::size_t bytes = inner_bytes + 2 * gap;
  std::uintptr_t begin = 0;
  {
    const std::scoped_lock lock(mutex_);
    const auto found = free_.take(bytes);
    if (!found) return {};
    begin = *found;
  }
  Place made{reinterpret_cast<std::byte*>(begin), bytes, reinterpret_cast<std::byte*>(begin + gap), inner_bytes};
  // New pages, and not the reserved ones with access: so the host counts them, and refuses what it does not have.
  if (mmap(made.inner, inner_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) ==
      MAP_FAILED) {
    release(made);
    return {};
  }
  // A hint: arrays of a kernel are gone through from end to end, and small pages would cost as much as the memory.
  if (inner_bytes >= kHugeFromBytes) (void)madvise(made.inner, inner_bytes, MADV_HUGEPAGE);
  return made;
}

void DeviceRange::close(const Place& place) {
  // The memory goes back at once. Where the host is out of mappings, its pages are at least shut.
  if (mmap(place.inner, place.inner_bytes, PROT_NONE, kClosed | MAP_FIXED, -1, 0) != MAP_FAILED) return;
  if (madvise(place.inner, place.inner_bytes, MADV_DONTNEED) != 0 ||
      mprotect(place.inner, place.inner_bytes, PROT_NONE) != 0)
    PERGOLA_WARN("The host does not take {} bytes of freed memory back.", place.inner_bytes);
}

void DeviceRange::release(const Place& place) {
  const std::scoped_lock lock(mutex_);
  free_.give(reinterpret_cast<std::uintptr_t>(place.begin), place.bytes);
}

}  // namespace pergola::device::cpu
