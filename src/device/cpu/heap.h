// malloc and free inside kernels (CUDA C++ Programming Guide, dynamic global memory).
//
// Blocks live until they are freed or the device ends, across launches, as on a GPU. Each is a range of the MemoryMap,
// so that checked accesses past it or after its free are found. Compiled code is not checked, so the blocks lie in
// memory of their own, between guards, and what is known of them lies elsewhere: no kernel meets it.
//
//   [ margin, 32 bytes ][ size_bytes ][ margin, 32 to 47 bytes ]   begins and ends at multiples of 16
//
// A margin holds a pattern (buffer_margins.h). A block whose margin has changed fails the free(), or the launch that
// ends: each launch looks at the blocks that were given out since it began and at kInTurn others, which take turns.
// Memory behind the last block that ever was is without access, but for the rest of a step. Not seen: what is written
// further away into other blocks or between them, and the pattern's own bytes.
//
// The last kQuarantined blocks that were freed are not given out again, but where there is no other memory, and their
// first kPaintedBytes hold the pattern: a kernel that reads a freed block gets nonsense, and one that writes there
// fails its launch, which looks at what was freed since the last one ended and at kInTurn others, or a later one.
//
// Thread-safe: one lock, as threads of all SMs share it.
#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <map>
#include <mutex>
#include <string>
#include <string_view>

#include "src/base/result.h"
#include "src/device/free_ranges.h"
#include "src/device/cpu/guarded_bytes.h"
#include "src/device/cpu/memory_map.h"

namespace pergola::device::cpu {

class DeviceHeap {
 public:
  static constexpr std::size_t kInTurn = 8, kQuarantined = 256, kPaintedBytes = 256;
  static constexpr std::uint64_t kMostBytes = std::uint64_t{1} << 44;  // a larger limit is none: there is no heap

  // At most `limit_bytes` are out at any time, each block counted in whole 16 bytes. `memory` must outlive it.
  // Takes addresses for all of them; memory only as it is touched.
  DeviceHeap(MemoryMap& memory, std::uint64_t limit_bytes);
  ~DeviceHeap();
  DeviceHeap(const DeviceHeap&) = delete;
  DeviceHeap& operator=(const DeviceHeap&) = delete;

  // A 16-byte aligned generic address; 0 for size 0, beyond the limit, or where the host has no memory.
  std::uint64_t allocate(std::uint64_t size_bytes);
  // Freeing 0 does nothing. kDeviceFault where `address` was not given out or has been freed, and where the block's margin has
  // changed; that block is freed. The message is the rest of a sentence: "frees ...".
  Status free(std::uint64_t address);
  std::uint64_t used_bytes() const;

  // The number that the next block gets: what check() of a launch that begins now is given.
  std::uint64_t next_id() const { return next_id_.load(std::memory_order_relaxed); }
  // When a launch of `kernel` has ended: kDeviceFault where a margin of a block since `first_id`, or of another whose
  // turn it is, has changed, or a block that was freed. Tells of each change once.
  Status check(std::string_view kernel, std::uint64_t first_id);

 private:
  struct Block {
    std::uint64_t address = 0, size_bytes = 0;
  };
  struct Freed {
    std::uint64_t id = 0;
    Block block;
  };
  bool open_up_to(std::uint64_t end);
  void quarantine(std::uint64_t id, const Block& block);
  void release_oldest();
  void look_at(const Freed& freed);
  void look_at_freed();
  std::string damage(std::uint64_t id, const Block& block) const;

  MemoryMap& memory_;
  const std::uint64_t limit_bytes_;
  // Made with the heap, and not on first use: that may come from the JIT's library, which has its own copy of what counts
  // guarded memory.
  GuardedBytes bytes_;
  mutable std::mutex mutex_;                          // guards all below
  FreeRanges free_;                                   // of bytes_
  std::uint64_t opened_end_ = 0;                      // up to here bytes_ may be accessed
  std::map<std::uint64_t, Block> blocks_;             // by id
  std::map<std::uint64_t, std::uint64_t> ids_;        // by address
  std::uint64_t used_bytes_ = 0, turn_ = 0;           // turn_: the id whose turn was last
  std::deque<Freed> freed_;                           // in quarantine, oldest first
  std::size_t unseen_ = 0, freed_turn_ = 0;  // of freed_: those at its end that no check() has seen; whose turn is next
  std::string written_;                      // what was written to after it was freed, until a launch is told
  std::atomic<std::uint64_t> next_id_{1};  // written under mutex_; relaxed: a launch that begins sees what was before it
};

}  // namespace pergola::device::cpu
