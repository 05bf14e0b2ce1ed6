// An array's managed memory (memory=managed): one memory for both sides, and which of them it was last moved to.
//
//                       take(): work on the device uses it
//   on the host ──────────────────────────────────────────────▶ on the device ──┐ take(), restricted:
//               ◀──────────────────────────────────────────────               ◀─┘ work on another queue
//                    give_to_host(): the host has access
//
// Where access is concurrent, a move is a prefetch, and where nobody prefetched, faults move what is touched: which
// side it is on is a hint. Where it is restricted (GPUs before Pascal, WSL), the memory is visible to the host or
// to one queue (paper 003, IV-C), and a move changes that. Everybody's accesses to it then count as writes of all of it
// (LocalArray::access), so that at any time one queue or the host uses it.
//
// Launches that become graphs are known to the scheduler by the array's resource, which has this memory
// (scheduler::MovingMemory): before a graph starts, or a launch that was held goes by itself after all, it takes what
// the host has had since. So a launch that is known by its text needs no look at where its arrays are. Where access is
// restricted a graph would have to have each array attached to its stream; launches stay launches there.
//
// Threads: thread-safe. take() is called under the scheduler's lock, for work that waits for what it depends on;
// give_to_host() while a HostAccess to the memory lives, which keeps conflicting work away.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <vector>

#include "src/device/device.h"
#include "src/scheduler/resource.h"

namespace pergola::runtime {

class LocalSession;

class ManagedMemory final : public scheduler::MovingMemory {
 public:
  ManagedMemory(LocalSession& session, device::BufferPtr buffer);
  ~ManagedMemory() override;
  ManagedMemory(const ManagedMemory&) = delete;
  ManagedMemory& operator=(const ManagedMemory&) = delete;

  bool is_restricted() const { return is_restricted_; }
  bool is_on_host() const { return user_.load(std::memory_order_acquire) == nullptr; }
  // For work that comes next on `queue`.
  Status take(device::Queue& queue) override;
  // Returns when the host may use it; concurrent: when a large memory has moved, others move as they are touched.
  Status give_to_host();
  // The same as work of `queue`.
  Status give_to_host(device::Queue& queue);

 private:
  static constexpr std::size_t kWorthMovingBytes = std::size_t{64} << 10;

  LocalSession& session_;
  const device::BufferPtr buffer_;
  const bool is_restricted_;
  // The queue that took it last; null: the host. Acquire and release: whoever finds it moved comes after the move.
  std::atomic<const device::Queue*> user_{nullptr};
};

// Those of a session's arrays, for work that may use any array. Thread-safe.
class ManagedMemories {
 public:
  bool any() const { return any_.load(std::memory_order_acquire); }
  bool any_restricted() const { return any_restricted_.load(std::memory_order_acquire); }
  void add(ManagedMemory& memory);
  void remove(ManagedMemory& memory);
  // Where access is restricted, all of them; elsewhere such work finds them anyway.
  Status take_restricted(device::Queue& queue);

 private:
  std::atomic<bool> any_{false}, any_restricted_{false};  // stay true: spare the lock where there are none
  std::mutex mutex_;
  std::vector<ManagedMemory*> memories_;  // guarded by mutex_
};

}  // namespace pergola::runtime
