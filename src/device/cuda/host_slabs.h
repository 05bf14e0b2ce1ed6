// Page-locked memory of the host in which small buffers lie one behind the other. Page-locking is what takes long, a
// microsecond and more for each page of 4 KiB (on an H200: 340 us for 500 KB, 912 for a megabyte), and a third of that
// when it goes again; and what lies in one piece of it can be copied as one (copies_together.h), which the driver
// refuses over two.
//
//   slab     1 MiB            2 MiB                        4 MiB, then twice as large each, up to kMostSlabBytes
//            [ a ][ b ][ c ]  [ d ][    ][ e ][        ]   ...
//
// A block larger than kMostBytes is the driver's own. Of slabs that nothing is in any more the largest stays for the
// next block, the others go.
//
// Thread-safe. Freeing waits for all work in the context, as cuMemFreeHost() does (device_arena.h says why).
#pragma once

#include <cstddef>
#include <map>
#include <memory>
#include <mutex>
#include <optional>

#include "src/device/buffer.h"
#include "src/device/cuda/driver.h"
#include "src/device/free_ranges.h"

namespace pergola::device::cuda {

class HostSlabs {
 public:
  static constexpr std::size_t kFirstSlabBytes = std::size_t{1} << 20, kMostSlabBytes = std::size_t{32} << 20,
                               kMostBytes = std::size_t{4} << 20, kAlignBytes = Buffer::kPieceAlignBytes;

  explicit HostSlabs(std::shared_ptr<const Driver> driver) : driver_(std::move(driver)) {}
  ~HostSlabs();  // all blocks have gone, or the device is lost
  HostSlabs(const HostSlabs&) = delete;
  HostSlabs& operator=(const HostSlabs&) = delete;

  // As cuMemHostAlloc() with `flags`, always the same, and cuMemFreeHost(), which they are for large blocks and where
  // the host has no more for a slab. Called in the context, of a driver with cuCtxSynchronize(); free() frees what that
  // gave, too.
  CUresult allocate(std::byte** memory, std::size_t bytes, unsigned flags);
  void free(std::byte* memory);
  // Lets go of all slabs that nothing is in, and from now on of each whose last block goes.
  void release();
  bool is_empty() const;  // there is no slab
  // What a block is a part of; null: it is the driver's own.
  std::byte* slab_of(const std::byte* memory) const;

 private:
  struct Slab {
    std::size_t bytes = 0;
    FreeRanges free;
    std::map<std::uint64_t, std::uint64_t> taken;  // bytes, by offset
  };
  using Slabs = std::map<std::byte*, Slab>;
  Slabs::const_iterator holding(const std::byte* memory) const;
  CUresult add_slab(std::size_t needed, unsigned flags);
  std::byte* take_spare(Slabs::iterator emptied);  // null: none goes

  const std::shared_ptr<const Driver> driver_;
  mutable std::mutex mutex_;  // guards the next, and is held while a slab is made
  Slabs slabs_;
  bool is_released_ = false;
};

}  // namespace pergola::device::cuda
