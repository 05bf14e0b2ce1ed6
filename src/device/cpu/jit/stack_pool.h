// Stacks of fibers: pages of their own with a guard page below, kept for reuse.
//
//   [guard, no access][ size_bytes ............ top ]     a frame that grows past its end faults in the guard
//
// One pool a host thread (thread_local), as a fiber never leaves the thread that started it. Memory is touched only as
// deep as a stack is used. Not thread-safe.
#pragma once

#include <cstddef>
#include <map>
#include <vector>

namespace pergola::device::cpu::jit {

struct Stack {
  std::byte* bottom = nullptr;  // lowest usable byte; the guard lies below
  std::size_t size_bytes = 0;
  std::byte* top() const { return bottom + size_bytes; }
  explicit operator bool() const { return bottom != nullptr; }
};

class StackPool {
 public:
  static StackPool& of_this_thread();
  ~StackPool();

  // An empty Stack where the system has no more memory or mappings. `size_bytes` is rounded up to whole pages.
  Stack take(std::size_t size_bytes);
  void give_back(Stack stack);

 private:
  std::vector<Stack>& free_of(std::size_t size_bytes);

  std::map<std::size_t, std::vector<Stack>> free_;  // by size
  std::size_t recent_size_ = 0;                     // most takes and returns are of the size before
  std::vector<Stack>* recent_ = nullptr;            // the entry of free_ for it
};

// Whether `address` is in the guard page of `stack`.
bool in_guard(const Stack& stack, const void* address);

}  // namespace pergola::device::cpu::jit
