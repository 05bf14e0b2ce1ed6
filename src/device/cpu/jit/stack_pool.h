// Stacks of fibers: pages of their own with a guard page below, kept for reuse.
//
//   [guard, no access][ size_bytes ............ top ]     a frame that grows past its end faults in the guard
//
// A guard costs the process two mappings, of which it has some ten thousands (vm.max_map_count). When a quarter of them is taken,
// stacks whose frames are all known, so that they cannot grow past their end, come many to a mapping and without guards.
//
// One pool a host thread (thread_local), as a fiber never leaves the thread that started it. Memory is touched only as
// deep as a stack is used. Not thread-safe.
#pragma once

#include <cstddef>
#include <map>
#include <span>
#include <vector>

namespace pergola::device::cpu::jit {

struct Stack {
  std::byte* bottom = nullptr;  // lowest usable byte; the guard lies below
  std::size_t size_bytes = 0;
  bool has_guard = false;
  std::byte* top() const { return bottom + size_bytes; }
  explicit operator bool() const { return bottom != nullptr; }
};

class StackPool {
 public:
  static StackPool& of_this_thread();
  ~StackPool();

  // An empty Stack where the system has no more memory or mappings. `size_bytes` is rounded up to whole pages.
  // `is_bounded`: all that its code will ever have on it fits.
  Stack take(std::size_t size_bytes, bool is_bounded);
  void give_back(Stack stack);

 private:
  struct Free {
    std::vector<Stack> guarded, bare;
  };
  Free& free_of(std::size_t size_bytes);
  static Stack guarded(std::size_t size_bytes);
  bool add_bare(std::size_t size_bytes, std::vector<Stack>& to);

  std::map<std::size_t, Free> free_;      // by size
  std::size_t recent_size_ = 0;           // most takes and returns are of the size before
  Free* recent_ = nullptr;                // the entry of free_ for it
  std::vector<std::span<std::byte>> slabs_;  // of stacks without guards
};

// Whether `address` is in the guard page of `stack`.
bool in_guard(const Stack& stack, const void* address);

}  // namespace pergola::device::cpu::jit
