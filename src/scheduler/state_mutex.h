// The scheduler's lock: whoever takes it finds all that has happened written down.
//
//   lock()         what was left to be written down is written first. All but one place use it, by std::lock_guard and
//                  the like, and so do condition variables
//   lock_as_is()   it may be left: Scheduler::submit_again(), which leaves it (turn_repetition.h)
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <mutex>
#include <utility>

#include "src/base/adaptive_mutex.h"

namespace pergola::scheduler {

class StateMutex {
 public:
  // Before it is first taken. `write_down` is called with the lock.
  void set_write_down(std::function<void()> write_down) { write_down_ = std::move(write_down); }

  void lock() {
    mutex_.lock();
    visit();
  }
  bool try_lock() {
    if (!mutex_.try_lock()) return false;
    visit();
    return true;
  }
  bool try_lock_for(std::chrono::nanoseconds time) {
    if (!mutex_.try_lock_for(time)) return false;
    visit();
    return true;
  }
  void lock_as_is() { mutex_.lock(); }
  void unlock() { mutex_.unlock(); }

  // The rest with the lock.
  // Something is left, until written_down().
  void leave() { is_left_ = true; }
  void written_down() { is_left_ = false; }
  // How often it was taken by others than lock_as_is(): what these may have changed.
  std::uint64_t visits() const { return visits_; }

 private:
  void visit() {
    ++visits_;
    if (is_left_) [[unlikely]]
      write_down_();
  }

  AdaptiveMutex mutex_;
  bool is_left_ = false;
  std::uint64_t visits_ = 0;
  std::function<void()> write_down_;
};

using StateLock = std::unique_lock<StateMutex>;

}  // namespace pergola::scheduler
