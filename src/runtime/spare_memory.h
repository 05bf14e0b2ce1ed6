// Memory of arrays that have gone, for the next of the same size: programs that make an array in each turn, as
// `t = zeros(n)` in a loop does, have the device's again and again. Of a GPU memory is costly to give back: the driver
// waits for all work in the context, so that nothing is queued any more when the next turn comes.
//
//   array ──goes──▶ behind its work ──ended──▶ spare ──an array of that size and kind──▶ array
//                                       │        │
//                                       ▼        ▼  too much, too old, or memory is short
//                            given back, where no array of that size was made after one had gone
//
// So what is made once and goes is given back, and a program has no more than it had. What others may have been told
// the address of never comes here, nor a host side of an array: the driver's waiting is all that covers their work.
//
// Thread-safe, by a lock of its own under which nothing else is called. Buffers are dropped without it.
#pragma once

#include <atomic>
#include <boost/unordered/unordered_flat_map.hpp>
#include <chrono>
#include <cstdint>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "src/device/buffer.h"
#include "src/device/memory_shortage.h"

namespace pergola::runtime {

class SpareMemory final : public device::MemoryShortage::Keeper, public std::enable_shared_from_this<SpareMemory> {
 public:
  using Clock = std::chrono::steady_clock;
  // So many blocks of one size behind work are enough: the device has their work to do while the host waits for some.
  static constexpr std::uint32_t kMostBehindWork = 64;
  static constexpr Clock::duration kPatience = std::chrono::seconds(1), kOld = std::chrono::seconds(1);
  // Page-locked memory is the host's that nobody else can have.
  static constexpr std::uint64_t kMostOnHostBytes = std::uint64_t{1} << 28;

  // No more than so much is spare at any time, of each kind; 0: nothing is.
  explicit SpareMemory(std::uint64_t most_bytes) : most_bytes_(most_bytes) {}
  SpareMemory(const SpareMemory&) = delete;
  SpareMemory& operator=(const SpareMemory&) = delete;

  // Null: none of that size is spare.
  device::BufferPtr take(std::uint64_t size_bytes, device::MemoryKind kind);
  // Of an array that goes, for Scheduler::retire(): dropped once the work that uses it has ended.
  std::shared_ptr<const void> after_work(device::BufferPtr buffer);
  // Whether so much of such memory is behind work that it is better to wait for some of it than to have more: four
  // times as much, where that disturbs who is ahead (`costs`).
  bool is_far_ahead(std::uint64_t size_bytes, device::MemoryKind kind, bool costs = false) const;
  // Somebody has waited for that and nothing has ended: it is far ahead for nobody until something does, as what it
  // waits for may be the host's to do.
  void note_vain_wait();
  // Gives back what nobody has asked for since then; all: max(). Whether there was any.
  bool give_back(Clock::time_point unused_since);
  bool give_back_old() { return any_recurs_.load(std::memory_order_relaxed) && give_back(Clock::now() - old_); }
  bool relieve() override { return give_back(Clock::time_point::max()); }
  // How long is waited for some that is behind work, with what the host may have to let go on, and what is old. For
  // tests, in which work may take long: before others use it.
  Clock::duration patience() const { return patience_; }
  void set_times(Clock::duration patience, Clock::duration old) { patience_ = patience, old_ = old; }
  std::uint64_t spare_bytes() const;
  std::size_t known_sizes() const;

 private:
  using Key = std::pair<std::uint64_t, device::MemoryKind>;
  struct OfSize {
    std::uint32_t behind_work = 0;
    bool has_gone = false;  // an array of this size
    bool recurs = false;    // one has been made since
    Clock::time_point last_taken{};
    std::vector<device::BufferPtr> spare;
  };
  static Key key_of(const device::Buffer& buffer) { return {buffer.size_bytes(), buffer.kind()}; }
  std::uint64_t most_bytes(device::MemoryKind kind) const;
  void work_has_ended(device::BufferPtr buffer);
  void take_out(Clock::time_point unused_since, std::vector<device::BufferPtr>& out);
  bool has_room_for_sizes();

  // Then those are forgotten of which there is nothing, and where that is of no help no more are kept.
  static constexpr std::size_t kMostSizes = 1024;
  const std::uint64_t most_bytes_;
  Clock::duration patience_ = kPatience, old_ = kOld;
  mutable std::mutex mutex_;  // guards what follows
  bool waits_in_vain_ = false;
  // Whether any size recurs: only of such is anything spare. Written under the lock; give_back_old() reads it without,
  // and a false that is not true any more leaves what is old to the next wait.
  std::atomic<bool> any_recurs_{false};
  boost::unordered_flat_map<Key, OfSize> sizes_;
  std::uint64_t spare_bytes_[3] = {}, behind_work_bytes_[3] = {};  // by MemoryKind
};

}  // namespace pergola::runtime
