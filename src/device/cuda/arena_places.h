// Where blocks of an arena lie, and which of its pages have memory: the arithmetic of device_arena.h, without a driver.
//
//   addresses   0        1        2        3        4        5     in pages
//   blocks      [── a ──────────][─ b ─]   free   [──── c ───────]
//   mappings    [ 2 pages       ][  1   ]         [1][  2 pages  ]
//
// Blocks follow each other without regard to pages, so that one page may be of two and more. Memory comes and goes in
// mappings, which cannot be split: a block that needs pages gets one mapping for those that are its own alone, and one
// for its last page where others may begin there. So a mapping goes when all blocks in it have gone.
//
// Not thread-safe.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "src/device/buffer.h"
#include "src/device/free_ranges.h"

namespace pergola::device::cuda {

class ArenaPlaces {
 public:
  static constexpr std::uint64_t kAlignBytes = Buffer::kPieceAlignBytes;  // as of the driver's own blocks
  struct Pages {
    std::uint64_t first = 0, count = 0;
  };
  struct Place {
    std::uint64_t offset_bytes = 0;
    std::array<Pages, 2> missing;  // which have to be mapped, each as one; of count 0: nothing
  };

  ArenaPlaces(std::uint64_t page_bytes, std::uint64_t pages);
  // A block of its own, of at least one byte: where it needs the fewest pages more, the first such place. None where it
  // fits nowhere.
  std::optional<Place> take(std::uint64_t bytes);
  // The block that begins there goes. What was mapped, as it was, and has no block any more.
  std::vector<Pages> give(std::uint64_t offset_bytes);
  std::uint64_t mapped_pages() const { return mapped_pages_; }

 private:
  struct Mapping {
    std::uint64_t count = 0, blocks = 0;  // pages; those that lie there, or partly
  };
  using Mappings = std::map<std::uint64_t, Mapping>;  // by first page
  Mappings::iterator mapping_of(std::uint64_t page);  // end(): it has none
  Pages missing_in(std::uint64_t offset, std::uint64_t bytes);

  const std::uint64_t page_bytes_;
  FreeRanges free_;
  std::map<std::uint64_t, std::uint64_t> taken_;  // bytes, by offset
  Mappings mappings_;
  std::uint64_t mapped_pages_ = 0;
};

}  // namespace pergola::device::cuda
