// What launches touch of arrays that a program uses in parts: ranges of bytes, worked out from the kernel's text and
// the launch's values (analysis/footprints.h), where else a kernel that is given a pointer into an array counts with
// all of it.
//
//   scale(x[:n/2])    reads and writes bytes [0, 2n) of x     ─┐ neither waits for the other,
//   scale(x[n/2:])    reads and writes bytes [2n, 4n) of x    ─┘ though each is given a pointer into x
//
// What a kernel reaches beyond the part that it is given, as a stencil does with its neighbours', is in its ranges. A
// kernel whose accesses cannot be told so, or not all of them, counts with whole arrays.
#pragma once

#include <atomic>
#include <boost/unordered/unordered_flat_map.hpp>
#include <chrono>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "src/analysis/footprints.h"
#include "src/runtime/block_kernel.h"
#include "src/scheduler/work.h"

namespace pergola::runtime {

// An array argument. `array` numbers arrays: equal numbers are one array.
struct GivenArray {
  std::uint32_t parameter_offset_bytes = 0;
  std::uint32_t array = 0;
  std::uint64_t position_bytes = 0, size_bytes = 0;  // of the pointer in the array, and of the array
};

struct ArrayPart {
  std::uint32_t array = 0;
  scheduler::Range range;  // within the array; not empty
  scheduler::Mode mode = scheduler::Mode::kNone;
  bool operator==(const ArrayPart& other) const {
    return array == other.array && range.begin == other.range.begin && range.end == other.range.end &&
           mode == other.mode;
  }
};
using ArrayParts = std::vector<ArrayPart>;

// Of one footprint: by array, ascending and apart. Where there are more than kMostParts stretches that are read, or
// that are written, these count as one. Null where an access may be of anything.
inline constexpr std::size_t kMostParts = 8;
std::shared_ptr<const ArrayParts> parts_of(const analysis::LaunchFootprint& footprint,
                                           std::span<const GivenArray> given);

// Of one kernel's launches, the last kMostKept kept. Thread-safe.
class PartAccesses {
 public:
  // Null where nobody can tell, which is kept, too. The first time the kernel's text is analysed: milliseconds; a
  // launch with other values takes tens of microseconds, one that is known a look into a table.
  std::shared_ptr<const ArrayParts> of(BlockKernel& kernel, const device::LaunchConfig& config,
                                       std::span<const std::byte> parameters, std::span<const GivenArray> given);

 private:
  static constexpr std::size_t kMostKept = 1024;  // then all are worked out anew
  // A kernel whose launches took so long so many times is not looked at any more: new ones count with whole arrays.
  static constexpr std::chrono::microseconds kCostly{500};
  static constexpr int kMostCostly = 8;
  std::atomic<int> costly_{0};
  std::mutex mutex_;  // guards what follows
  boost::unordered_flat_map<std::string, std::shared_ptr<const ArrayParts>> known_;
};

}  // namespace pergola::runtime
