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
#include <boost/container/small_vector.hpp>
#include <boost/unordered/unordered_flat_map.hpp>
#include <chrono>
#include <cstdint>
#include <functional>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
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
  bool operator==(const ArrayPart&) const = default;
};
using ArrayParts = boost::container::small_vector<ArrayPart, 4>;

// Of an array whose first pointer points at byte 0.
struct MovedPart {
  std::uint32_t array = 0;
  std::int64_t begin = 0, end = 0;
  bool is_all = false;  // of the array, wherever the pointer points
  scheduler::Mode mode = scheduler::Mode::kNone;
};

// Of one footprint: by array, ascending and apart. Where there are more than kMostParts stretches that are read, or
// that are written, these count as one. None where an access may be of anything.
inline constexpr std::size_t kMostParts = 8;
std::optional<ArrayParts> parts_of(const analysis::LaunchFootprint& footprint, std::span<const GivenArray> given);

// Of one kernel's launches, the last kMostKept kept, by all that they are given but for where their arrays lie and
// which part of them is meant. What a launch touches moves with the pointer into the array that it is given, as long as
// it stays inside: so it is worked out once, for pointers into the middle of arrays without an end, and moved.
//
//   worked out   triple(p, n)         [p, p + 4n)
//   given        triple(x[i:], n)     [4i, 4i + 4n) of x, which is inside
//
// Where that does not stay inside, or some of it does not, it is worked out for the place itself, as what lies outside
// is not accessed. Thread-safe.
class PartAccesses {
 public:
  // A kernel whose launches took so long so many times is not looked at any more: new ones count with whole arrays.
  static constexpr std::chrono::microseconds kCostly{500};  // of the thread's time, not while others ran
  static constexpr int kMostCostly = 8;
  explicit PartAccesses(std::chrono::microseconds costly = kCostly) : costly_after_(costly) {}

  // None where nobody can tell, which is kept, too. The first time the kernel's text is analysed: milliseconds; a
  // launch with other values takes tens of microseconds, one that is known a look into a table.
  std::optional<ArrayParts> of(BlockKernel& kernel, const device::LaunchConfig& config,
                               std::span<const std::byte> parameters, std::span<const GivenArray> given);

 private:
  // An array as it is given: where the first pointer into it points, and its size.
  struct Place {
    std::uint32_t array = 0;
    std::uint64_t position_bytes = 0, size_bytes = 0;
    bool operator==(const Place&) const = default;
  };
  using Places = boost::container::small_vector<Place, 4>;
  struct Known {
    bool is_told = false;                                 // else nobody can tell
    std::vector<MovedPart> moved;                         // by array and byte
    std::vector<std::pair<Place, ArrayParts>> at_places;  // where what is moved would not be inside
  };
  static Places places_of(std::span<const GivenArray> given);
  static bool add_parts_of(const Known& known, const Place& place, ArrayParts& parts);
  static std::optional<ArrayParts> answer(const Known& known, const Places& places);

  static constexpr std::size_t kMostKept = 1024;  // then all are worked out anew
  static constexpr std::size_t kMostAtPlaces = 64;
  const std::chrono::microseconds costly_after_;
  std::atomic<int> costly_{0};
  std::mutex mutex_;  // guards what follows
  struct HashOfKey {
    using is_transparent = void;
    std::size_t operator()(std::string_view key) const;
  };
  boost::unordered_flat_map<std::string, Known, HashOfKey, std::equal_to<>> known_;
};

}  // namespace pergola::runtime
