#include "src/base/adaptive_mutex.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <thread>
#include <vector>

namespace pergola {
namespace {

TEST(AdaptiveMutex, OneThreadAtATime_HasIt) {
  constexpr int kThreads = 4, kTimes = 20'000;
  AdaptiveMutex mutex;
  int count = 0;  // guarded by the mutex
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t)
    threads.emplace_back([&] {
      for (int i = 0; i < kTimes; ++i) {
        const std::lock_guard lock(mutex);
        ++count;
      }
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(count, kThreads * kTimes);
}

TEST(AdaptiveMutex, HeldForLongerThanAnybodyLooks_IsWaitedForAsleep) {
  AdaptiveMutex mutex;
  std::atomic<bool> comes{false};
  bool has_ended = false;  // guarded by the mutex
  std::unique_lock lock(mutex);
  std::thread other([&] {
    comes = true;
    const std::lock_guard its(mutex);
    EXPECT_TRUE(has_ended);
  });
  while (!comes) std::this_thread::yield();
  std::this_thread::sleep_for(std::chrono::milliseconds(5));
  has_ended = true;
  lock.unlock();
  other.join();
}

TEST(AdaptiveMutex, Taken_IsNotTriedSuccessfully) {
  AdaptiveMutex mutex;
  const std::lock_guard lock(mutex);
  std::thread([&] { EXPECT_FALSE(mutex.try_lock()); }).join();
}

TEST(AdaptiveMutex, ConditionVariable_GivesItUpMeanwhile) {
  AdaptiveMutex mutex;
  std::condition_variable_any changed;
  int turn = 0;  // guarded by the mutex
  std::thread other([&] {
    AdaptiveLock lock(mutex);
    for (int i = 0; i < 100; ++i) {
      changed.wait(lock, [&] { return turn % 2 == 1; });
      ++turn;
      changed.notify_all();
    }
  });
  AdaptiveLock lock(mutex);
  for (int i = 0; i < 100; ++i) {
    changed.wait(lock, [&] { return turn % 2 == 0; });
    ++turn;
    changed.notify_all();
  }
  lock.unlock();
  other.join();
  EXPECT_EQ(turn, 200);
}

}  // namespace
}  // namespace pergola
