// Which host addresses the kernels of a CPU device may touch: its buffers, module variables, heap blocks.
//
// Readers (every access of the interpreter, slow paths of the JIT) take a shared lock only on a miss of their own
// cache; `generation()` changes whenever a range is removed, so a cached range is valid while it stands still.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <string>

#include "src/device/cpu/cpu_texture.h"
#include "src/device/cpu/patient_mutex.h"

namespace pergola::device::cpu {

class MemoryMap {
 public:
  struct Range {
    std::uintptr_t begin = 0;
    std::size_t size_bytes = 0;
    std::string what;  // "buffer 7 (4096 bytes)", "variable 'lut'"
    bool writable = true;
  };

  MemoryMap();
  // Ranges never overlap: each is an allocation of its own. An empty range is kept for messages alone.
  void add(Range range);
  // Removes the range that begins there, if any, and remembers it for messages.
  void remove(std::uintptr_t begin);
  // The range that holds [address, address + size).
  std::optional<Range> find(std::uintptr_t address, std::size_t size_bytes) const;
  // For messages: the range nearest to `address`, live or freed lately, with how far away it is; none where it is more than
  // 1 MiB away and `address` is not among the device's memory (device_range.h).
  std::string describe_nearest(std::uintptr_t address) const;
  // Acquire: a reader that sees an old generation may still use a range cached under it.
  std::uint64_t generation() const { return generation_.load(std::memory_order_acquire); }

  TextureTable textures;  // thread-safe by itself

 private:
  // device_range.h, as whoever made the map has it: the JIT's library has a copy of that code, and no range.
  const std::uintptr_t device_begin_;
  const std::size_t device_bytes_;
  mutable PatientMutex mutex_;                  // guards ranges_, freed_, freed_order_
  std::map<std::uintptr_t, Range> ranges_;      // by begin
  std::map<std::uintptr_t, Range> freed_;       // the last few removed, for messages
  std::deque<std::uintptr_t> freed_order_;      // keys of freed_, oldest first
  std::atomic<std::uint64_t> generation_{1};    // written under mutex_
};

// "4 bytes past the end of the block's shared memory (1024 bytes)", which has no place in the map; empty where
// `address` is not near it.
struct Block;
std::string beside_shared(const Block& block, std::uintptr_t address);
// Where an address lies that an access of `space` may not use for its alignment: "at byte 2 of buffer 1 (64 bytes)".
std::string misaligned_place(const Block& block, std::uint64_t address, ptx::Space space);

}  // namespace pergola::device::cpu
