// Who keeps memory of a device that it could do without, as sessions do of arrays that have gone, and gives it back
// before an allocation fails: any of this process's, of whichever session, as several may be on one device.
//
// One list for the process, never destroyed. Thread-safe. relieve() is called with no lock of the device's, as what is
// given back is freed there.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

namespace pergola::device {

class MemoryShortage {
 public:
  class Keeper {
   public:
    virtual ~Keeper() = default;
    // All of it; whether there was any.
    virtual bool relieve() = 0;
  };
  // Until it goes.
  static void add(std::weak_ptr<Keeper> keeper);
  // How often some has been given back: to be asked before an allocation is tried.
  static std::uint64_t reliefs();
  // Has all give back what they keep; whether there was any, or has been since there were so many reliefs, in whichever
  // thread: the allocation is worth another try.
  static bool relieve(std::uint64_t reliefs_before);

 private:
  static MemoryShortage& instance();
  std::mutex mutex_;  // guards the next, and is not held while a keeper is called
  std::vector<std::weak_ptr<Keeper>> keepers_;
  std::mutex relieving_;  // held while keepers are called, who allocate nothing
  // Goes up once keepers have let go of some (release), under relieving_; whoever sees it (acquire) comes after that.
  std::atomic<std::uint64_t> reliefs_{0};
};

}  // namespace pergola::device
