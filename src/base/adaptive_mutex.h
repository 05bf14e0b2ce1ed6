// A mutex that whoever finds taken looks at for some microseconds before it sleeps, and then now and then.
//
// For a lock that one thread takes for a tenth of a microsecond to three, again and again, and others now and then.
// With std::mutex these sleep at once; woken they find it taken again, for hundreds of microseconds, and every unlock
// until then is a system call that wakes one of them. Whoever keeps looking gets in between two. And as nobody is to be
// woken, an unlock is one store: the two locked instructions and calls of std::mutex are a fifth of a launch that is
// held for a graph.
//
// Who waits with a lock of this waits on a std::condition_variable_any. As fair as std::mutex, which is not at all.
// Not for what is held for milliseconds: whoever sleeps finds it free up to kSleepFor and the kernel's timer slack
// (50 us more by default) late.
#pragma once

#include <atomic>
#include <chrono>
#include <mutex>

namespace pergola {

class AdaptiveMutex {
 public:
  AdaptiveMutex() = default;
  AdaptiveMutex(const AdaptiveMutex&) = delete;
  AdaptiveMutex& operator=(const AdaptiveMutex&) = delete;

  void lock() {
    if (!try_lock()) lock_taken();
  }
  bool try_lock() { return !is_taken_.exchange(true, std::memory_order_acquire); }
  // Looks all of that time: who has it again and again, and for long together, leaves it for moments.
  bool try_lock_for(std::chrono::nanoseconds time);
  void unlock() { is_taken_.store(false, std::memory_order_release); }

 private:
  static constexpr std::chrono::microseconds kSleepFor{50};

  void lock_taken();
  // Without taking the line away from who has it.
  bool try_free() { return !is_taken_.load(std::memory_order_relaxed) && try_lock(); }

  // By itself in its line: whoever looks at it does not hold up what lies beside it.
  alignas(64) std::atomic<bool> is_taken_{false};
};

using AdaptiveLock = std::unique_lock<AdaptiveMutex>;

}  // namespace pergola
