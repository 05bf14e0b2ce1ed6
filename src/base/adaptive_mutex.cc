#include "src/base/adaptive_mutex.h"

#include <chrono>
#include <thread>

#if defined(__x86_64__) || defined(__i386__)
#include <immintrin.h>
#endif

namespace pergola {
namespace {

// Longer than a driver takes for a graph of thirty launches side by side, 25 us.
constexpr std::chrono::microseconds kLookFor{50};
constexpr int kLooksAClock = 8;  // reading the clock takes as long as a look

void rest() {
#if defined(__x86_64__) || defined(__i386__)
  _mm_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

}  // namespace

void AdaptiveMutex::lock_taken() {
  const auto until = std::chrono::steady_clock::now() + kLookFor;
  do {
    for (int look = 0; look < kLooksAClock; ++look) {
      rest();
      if (try_free()) return;
    }
  } while (std::chrono::steady_clock::now() < until);
  while (!try_free()) std::this_thread::sleep_for(kSleepFor);
}

bool AdaptiveMutex::try_lock_for(std::chrono::nanoseconds time) {
  const auto until = std::chrono::steady_clock::now() + time;
  while (true) {
    for (int look = 0; look < kLooksAClock; ++look) {
      if (try_free()) return true;
      rest();
    }
    if (std::chrono::steady_clock::now() >= until) return false;
    std::this_thread::yield();  // whoever has it may want this very core
  }
}

}  // namespace pergola
