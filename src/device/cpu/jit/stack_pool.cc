#include "src/device/cpu/jit/stack_pool.h"

#include <sys/mman.h>

#include "src/base/pages.h"
#include "src/device/cpu/jit/fiber_switch.h"

namespace pergola::device::cpu::jit {
namespace {

void unmap(const Stack& stack) { munmap(stack.bottom - page_bytes(), stack.size_bytes + page_bytes()); }

}  // namespace

StackPool& StackPool::of_this_thread() {
  thread_local StackPool pool;
  return pool;
}

StackPool::~StackPool() {
  for (const auto& [size, stacks] : free_) {
    for (const Stack& stack : stacks) unmap(stack);
  }
}

std::vector<Stack>& StackPool::free_of(std::size_t size_bytes) {
  if (recent_ == nullptr || recent_size_ != size_bytes) {
    recent_ = &free_[size_bytes];
    recent_size_ = size_bytes;
  }
  return *recent_;
}

Stack StackPool::take(std::size_t size_bytes) {
  const std::size_t size = round_up(size_bytes, page_bytes());
  std::vector<Stack>& stacks = free_of(size);
  if (!stacks.empty()) {
    const Stack stack = stacks.back();
    stacks.pop_back();
    return stack;
  }
  void* memory = mmap(nullptr, size + page_bytes(), PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_STACK, -1, 0);
  if (memory == MAP_FAILED) return {};
  const Stack stack{static_cast<std::byte*>(memory) + page_bytes(), size};
  if (mprotect(memory, page_bytes(), PROT_NONE) != 0) {  // out of mappings: no stack without its guard
    unmap(stack);
    return {};
  }
  return stack;
}

void StackPool::give_back(Stack stack) {
  if (!stack) return;
  forget_stack_frames(stack.bottom, stack.size_bytes);
  free_of(stack.size_bytes).push_back(stack);
}

bool in_guard(const Stack& stack, const void* address) {
  const auto* at = static_cast<const std::byte*>(address);
  return at < stack.bottom && at >= stack.bottom - page_bytes();
}

}  // namespace pergola::device::cpu::jit
