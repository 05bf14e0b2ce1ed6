// Litmus tests: a few threads that race over a few locations, and what the memory model says they may leave.
//
// A file of tests/litmus/cases holds a family of tests:
//
//   test: MP+release+acquire                 begins a test
//   about: one line
//   place: blocks | warps | lanes            where the threads are: blocks of a grid, warps of a block, lanes of a warp
//   space: global | shared                   where x, y, z are; global where it is not said
//   thread:                                  PTX of one thread, up to the next key; one `thread:` each
//     st.relaxed.gpu.global.u32 [x], 1;
//   forbidden: 1:r0=1 1:r1=0                 an outcome that must never be seen
//   weak: x!=2                               one that the model allows and an in-order machine would not give
//
// PTX of a thread names its locations x, y, z (64 bits each, 0 at first, on lines of their own), keeps results in r0 ..
// r3 (32 bits) and may use d0 .. d3 (64 bits), t0 .. t3 (32 bits), p0 .. p3; labels
// are its own, and every line of it is indented. In an outcome `1:r0` is a thread's result, `x` what
// a location holds in the end (low 32 bits); all conditions of a line hold together.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "src/base/result.h"

namespace pergola::litmus {

enum class Place : std::uint8_t { kBlocks, kWarps, kLanes };

inline constexpr std::uint32_t kResults = 4;    // r0 .. r3
inline constexpr std::uint32_t kLocations = 3;  // x, y, z

// What one run of a test left: results[thread * kResults + n], then the locations.
struct Outcome {
  std::vector<std::uint32_t> results;
  std::uint32_t locations[kLocations] = {};
};

struct Condition {
  int thread = -1;          // -1: a location
  std::uint32_t index = 0;  // of the result or location
  std::uint32_t value = 0;
  bool equal = true;
};

struct Verdict {
  bool forbidden = false;
  std::string text;
  std::vector<Condition> conditions;
  bool matches(const Outcome& outcome) const;
};

struct LitmusCase {
  std::string name, about;
  Place place = Place::kBlocks;
  bool shared = false;
  std::vector<std::string> threads;
  std::vector<Verdict> verdicts;
};

// kParseError with path and line.
Result<std::vector<LitmusCase>> parse_tests(const std::string& text, const std::string& path);
// Every file of the folder, in order of name.
Result<std::vector<LitmusCase>> read_tests(const std::string& folder);

}  // namespace pergola::litmus
