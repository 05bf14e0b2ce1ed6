// A mutex that whoever finds taken looks at for some microseconds before it sleeps.
//
// For a lock that one thread takes for a microsecond or three, again and again, and others now and then. With std::mutex
// these sleep at once; woken they find it taken again, for hundreds of microseconds, and every unlock until then is a
// system call that wakes one of them. Whoever keeps looking gets in between two.
//
// Who waits with a lock of this waits on a std::condition_variable_any. As fair as std::mutex, which is not at all.
#pragma once

#include <mutex>

namespace pergola {

class AdaptiveMutex {
 public:
  void lock() {
    if (!mutex_.try_lock()) lock_taken();
  }
  bool try_lock() { return mutex_.try_lock(); }
  void unlock() { mutex_.unlock(); }

 private:
  void lock_taken();

  std::mutex mutex_;
};

using AdaptiveLock = std::unique_lock<AdaptiveMutex>;

}  // namespace pergola
