// A lock for many readers and rare writers, whom the readers let in: a launch, or a kernel that looks addresses up all
// the time, would else keep an allocation out for seconds, as the system's lock prefers readers. Thread-safe.
#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>
#include <shared_mutex>
#include <thread>

namespace pergola::device::cpu {

class PatientMutex {
 public:
  // Taken once no writer waits.
  std::shared_lock<std::shared_mutex> read() const {
    while (writers_waiting_.load(std::memory_order_relaxed) != 0) std::this_thread::yield();
    return std::shared_lock(mutex_);
  }
  std::unique_lock<std::shared_mutex> write() {
    writers_waiting_.fetch_add(1, std::memory_order_relaxed);
    std::unique_lock lock(mutex_);
    writers_waiting_.fetch_sub(1, std::memory_order_relaxed);
    return lock;
  }

 private:
  mutable std::shared_mutex mutex_;
  std::atomic<std::uint32_t> writers_waiting_{0};  // relaxed: advice to readers, orders nothing
};

}  // namespace pergola::device::cpu
