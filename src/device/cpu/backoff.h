// How a thread waits for something that it can only poll: hot at first, then politely, then asleep.
//
//   spins (~1 µs in all) ─▶ yields ─▶ naps, doubling from 20 µs to the longest
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <thread>

namespace pergola::device::cpu {

inline void cpu_relax() {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

// Thread-compatible: one per waiting thread.
class Backoff {
 public:
  void reset() { turns_ = 0; }
  // Waits a little more than last time; `nap(duration)` is called where it is time to sleep.
  template <typename Nap>
  void wait(Nap&& nap) {
    const std::uint32_t turn = turns_;
    turns_ = std::min(turns_ + 1, kSpins + kYields + 16);
    if (turn < kSpins) return cpu_relax();
    if (turn < kSpins + kYields) return std::this_thread::yield();
    nap(std::min(kLongestNap, kShortestNap * (1u << std::min(turn - kSpins - kYields, 10u))));
  }

  static constexpr std::chrono::microseconds kShortestNap{20}, kLongestNap{200};

 private:
  static constexpr std::uint32_t kSpins = 32, kYields = 256;
  std::uint32_t turns_ = 0;
};

}  // namespace pergola::device::cpu
