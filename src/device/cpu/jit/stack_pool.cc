#include "src/device/cpu/jit/stack_pool.h"

#include <sys/mman.h>

#include <algorithm>
#include <atomic>
#include <fstream>

#include "src/base/pages.h"
#include "src/device/cpu/jit/fiber_switch.h"

namespace pergola::device::cpu::jit {
namespace {

constexpr std::size_t kStacksOfASlab = 64;

// Of all threads, guards that are mapped; and how many there are before bounded stacks do without.
std::atomic<std::size_t> guards{0};
std::size_t enough_guards() {
  static const std::size_t enough = [] {
    constexpr std::size_t kUsual = 65530;  // Linux's
    std::size_t mappings = kUsual;
    std::ifstream("/proc/sys/vm/max_map_count") >> mappings;
    return std::max<std::size_t>(mappings, 1024) / 8;  // two mappings each
  }();
  return enough;
}

void unmap(const Stack& stack) {
  munmap(stack.bottom - page_bytes(), stack.size_bytes + page_bytes());
  guards.fetch_sub(1, std::memory_order_relaxed);
}

std::byte* map(std::size_t bytes) {
  void* memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_STACK, -1, 0);
  return memory == MAP_FAILED ? nullptr : static_cast<std::byte*>(memory);
}

}  // namespace

StackPool& StackPool::of_this_thread() {
  thread_local StackPool pool;
  return pool;
}

StackPool::~StackPool() {
  for (const auto& [size, stacks] : free_)
    for (const Stack& stack : stacks.guarded) unmap(stack);
  for (const std::span<std::byte> slab : slabs_) munmap(slab.data(), slab.size());
}

StackPool::Free& StackPool::free_of(std::size_t size_bytes) {
  if (recent_ == nullptr || recent_size_ != size_bytes) {
    recent_ = &free_[size_bytes];
    recent_size_ = size_bytes;
  }
  return *recent_;
}

Stack StackPool::guarded(std::size_t size_bytes) {
  std::byte* const memory = map(size_bytes + page_bytes());
  if (memory == nullptr) return {};
  const Stack stack{memory + page_bytes(), size_bytes, true};
  guards.fetch_add(1, std::memory_order_relaxed);
  if (mprotect(memory, page_bytes(), PROT_NONE) != 0) {  // out of mappings
    unmap(stack);
    return {};
  }
  return stack;
}

bool StackPool::add_bare(std::size_t size_bytes, std::vector<Stack>& to) {
  std::byte* const memory = map(kStacksOfASlab * size_bytes);
  if (memory == nullptr) return false;
  slabs_.emplace_back(memory, kStacksOfASlab * size_bytes);
  for (std::size_t n = 0; n < kStacksOfASlab; ++n) to.push_back({memory + n * size_bytes, size_bytes, false});
  return true;
}

Stack StackPool::take(std::size_t size_bytes, bool is_bounded) {
  const std::size_t size = round_up(size_bytes, page_bytes());
  Free& free = free_of(size);
  std::vector<Stack>* from = &free.guarded;
  if (from->empty()) {
    if (!is_bounded || guards.load(std::memory_order_relaxed) < enough_guards())
      if (const Stack stack = guarded(size); stack || !is_bounded) return stack;
    from = &free.bare;
    if (from->empty() && !add_bare(size, *from)) return {};
  }
  const Stack stack = from->back();
  from->pop_back();
  return stack;
}

void StackPool::give_back(Stack stack) {
  if (!stack) return;
  forget_stack_frames(stack.bottom, stack.size_bytes);
  Free& free = free_of(stack.size_bytes);
  (stack.has_guard ? free.guarded : free.bare).push_back(stack);
}

bool in_guard(const Stack& stack, const void* address) {
  const auto* at = static_cast<const std::byte*>(address);
  return stack.has_guard && at < stack.bottom && at >= stack.bottom - page_bytes();
}

}  // namespace pergola::device::cpu::jit
