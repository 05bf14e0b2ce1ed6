#include "src/device/cpu/guarded_bytes.h"

#include <sys/mman.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <deque>
#include <mutex>

#include "src/base/pages.h"

namespace pergola::device::cpu {
namespace {

constexpr std::size_t kPlainSlackBytes = 256;
constexpr std::size_t kMostBytes = std::size_t{1} << 46;  // more than any host has

std::atomic<std::size_t> guarded_count{0};  // relaxed: a limit, not an order

// What was freed: a place of the range, or a mapping of its own.
struct Freed {
  DeviceRange::Place place;
  std::byte* mapping;
  std::size_t mapping_bytes;
};

// Oldest first. Never destroyed: buffers may outlive static objects.
class Quarantine {
 public:
  static Quarantine& instance() {
    static auto* const one = new Quarantine;
    return *one;
  }
  void put(const Freed& freed) {
    // New pages without access in the place of the old ones: the memory goes back at once.
    constexpr int kShut = MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED | MAP_NORESERVE;
    if (freed.place) {
      DeviceRange::instance().close(freed.place);
    } else if (mmap(freed.mapping, freed.mapping_bytes, PROT_NONE, kShut, -1, 0) == MAP_FAILED) {
      munmap(freed.mapping, freed.mapping_bytes);
      return;
    }
    Freed oldest{};
    {
      const std::scoped_lock lock(mutex_);
      freed_.push_back(freed);
      if (freed_.size() > GuardedBytes::kQuarantined) {
        oldest = freed_.front();
        freed_.pop_front();
      }
    }
    if (oldest.place) DeviceRange::instance().release(oldest.place);
    if (oldest.mapping != nullptr) munmap(oldest.mapping, oldest.mapping_bytes);
  }

 private:
  std::mutex mutex_;  // guards freed_
  std::deque<Freed> freed_;
};

}  // namespace

void GuardedBytes::swap(GuardedBytes& other) noexcept {
  std::swap(place_, other.place_);
  std::swap(mapping_, other.mapping_);
  std::swap(mapping_bytes_, other.mapping_bytes_);
  std::swap(plain_, other.plain_);
  std::swap(data_, other.data_);
  std::swap(size_bytes_, other.size_bytes_);
  std::swap(slack_before_, other.slack_before_);
  std::swap(slack_after_, other.slack_after_);
}

GuardedBytes::~GuardedBytes() {
  if (!guarded()) return;
  Quarantine::instance().put({place_, mapping_, mapping_bytes_});
  guarded_count.fetch_sub(1, std::memory_order_relaxed);
}

void GuardedBytes::lay_out(std::byte* inner, std::size_t inner_bytes, std::size_t size_bytes, std::size_t align_bytes) {
  size_bytes_ = size_bytes;
  slack_after_ = round_up(size_bytes, align_bytes) - size_bytes;
  slack_before_ = inner_bytes - size_bytes - slack_after_;
  data_ = inner + slack_before_;
}

GuardedBytes GuardedBytes::make(std::size_t size_bytes, std::size_t align_bytes) {
  GuardedBytes made;
  const std::size_t page = page_bytes();
  const std::size_t inner = round_up(std::max<std::size_t>(size_bytes, 1), page);
  if (size_bytes > kMostBytes) return made;
  if (guarded_count.fetch_add(1, std::memory_order_relaxed) < kMostGuarded && align_bytes <= page) {
    made.place_ = DeviceRange::instance().place(inner);
    if (made.place_) {
      made.lay_out(made.place_.inner, inner, size_bytes, align_bytes);
      return made;
    }
    void* memory = mmap(nullptr, inner + 2 * page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    auto* begin = static_cast<std::byte*>(memory);
    if (memory != MAP_FAILED && mprotect(begin + page, inner, PROT_READ | PROT_WRITE) == 0) {
      made.mapping_ = begin;
      made.mapping_bytes_ = inner + 2 * page;
      made.lay_out(begin + page, inner, size_bytes, align_bytes);
      return made;
    }
    if (memory != MAP_FAILED) munmap(memory, inner + 2 * page);
  }
  guarded_count.fetch_sub(1, std::memory_order_relaxed);
  made.plain_ = AlignedBytes::make(size_bytes + 2 * std::max(kPlainSlackBytes, align_bytes), align_bytes);
  if (made.plain_.data() == nullptr) return made;
  made.slack_before_ = made.slack_after_ = std::max(kPlainSlackBytes, align_bytes);
  made.data_ = made.plain_.data() + made.slack_before_;
  made.size_bytes_ = size_bytes;
  return made;
}

}  // namespace pergola::device::cpu
