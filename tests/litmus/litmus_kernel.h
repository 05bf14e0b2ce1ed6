// The kernel that runs a litmus test over and over.
//
//   group g: the T threads of one instance of the test, each a block, a warp's first lane, or a lane (LitmusCase::place)
//   for n in 0 .. rounds:
//     meet the other threads of the group (an atomic counter, spun on)
//     stagger: a delay of its own length
//     the test's PTX on locations that no other round uses
//     store r0 .. r3
//   meet; the group's first thread copies what each round's locations hold to the results
//
// Parameters: u64 locations (zero), u64 results, u64 counters (zero, one u32 a group at kCounterStride), u64 delays
// (kDelays of u32), u32 rounds. Shared locations lie in shared memory instead and are zeroed by the group's first
// thread. So every instance of a launch has threads that truly run at once wherever the device runs them at once.
#pragma once

#include <cstdint>
#include <string>

#include "tests/litmus/litmus_case.h"

namespace pergola::litmus {

inline constexpr std::uint32_t kDelays = 1024;
inline constexpr std::uint32_t kCounterStride = 128;
inline constexpr std::uint32_t kLocationStride = 128;     // bytes: a cache line each
inline constexpr std::uint32_t kSharedStride = 16;
inline constexpr std::uint32_t kMostSharedRounds = 512;   // of a launch with shared locations

// Bytes of one round's results: kResults words a thread, then the locations.
inline std::uint32_t result_bytes(const LitmusCase& test) {
  return 4 * (static_cast<std::uint32_t>(test.threads.size()) * kResults + kLocations);
}

std::string litmus_kernel(const LitmusCase& test);

}  // namespace pergola::litmus
