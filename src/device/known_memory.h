// Which addresses are memory of this process's devices: every buffer, from when it is made until before it is freed.
// For fences around tasks (executor/fence_table.h), which must know all that a kernel may be given a pointer to.
//
// A reader keeps where it has come in the changes: generation() says without a lock whether there are more. The last
// kMostChanges are kept; who is further behind is given all ranges anew. One for the process, never destroyed, as
// buffers may outlive static objects. Thread-safe.
#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <map>
#include <mutex>
#include <vector>

#include "src/device/types.h"

namespace pergola::device {

class KnownMemory {
 public:
  struct Change {
    DeviceAddress begin = 0;
    std::uint64_t size_bytes = 0;
    bool is_gone = false;
  };
  static constexpr std::size_t kMostChanges = 4096;

  static KnownMemory& instance();

  // An address may be added by several (adopted memory); it is known until all have removed it.
  void add(DeviceAddress begin, std::uint64_t size_bytes);
  void remove(DeviceAddress begin, std::uint64_t size_bytes);

  // Changes with each of both. Acquire: who sees it sees the change.
  std::uint64_t generation() const { return generation_.load(std::memory_order_acquire); }
  // What has changed since `seen`, which becomes generation(); `all`: forget what you knew, these are all there are.
  std::vector<Change> changes_since(std::uint64_t& seen, bool& all) const;

 private:
  void note(const Change& change);

  mutable std::mutex mutex_;
  std::multimap<DeviceAddress, std::uint64_t> ranges_;  // guarded by mutex_, as the next
  std::deque<Change> changes_;                          // the last ones; that at the end made generation()
  std::atomic<std::uint64_t> generation_{0};            // written under mutex_
};

}  // namespace pergola::device
