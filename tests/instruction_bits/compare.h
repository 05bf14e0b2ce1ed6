// Two devices' results of one instruction, held against each other.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "tests/instruction_bits/batch.h"

namespace pergola::instruction_bits {

// The distance of two floats of a kind in units of the last place: 0 where both are NaN or equal (+0 and -0 too),
// `kNoDistance` where one of them alone is NaN. Of a pair, the larger distance.
inline constexpr std::uint64_t kNoDistance = ~std::uint64_t{0};
std::uint64_t ulp_distance(Kind kind, std::uint64_t a, std::uint64_t b);
// Both are NaN (both halves of a pair agree or are NaN): they differ in sign or payload only.
bool same_but_for_nan_bits(Kind kind, std::uint64_t a, std::uint64_t b);

inline constexpr std::size_t kMaxExamples = 8;

struct Comparison {
  Instruction instruction;
  std::string refused_by;   // a device's name where one of them has no results
  std::string refusal;
  int needs_sm = 0;         // not run: the device is an earlier GPU
  std::size_t cases = 0, agree = 0;
  std::size_t nan_bits = 0;  // differ in a NaN's sign or payload alone
  std::size_t differ = 0;    // differ otherwise
  std::uint64_t max_ulp = 0;  // of floats; kNoDistance where a NaN meets a number
  double max_absolute = 0;    // of f32 and f64 where both are finite and, of sin, cos and lg2, where the ISA gives a bound
  std::string first;         // the first that differs, else the first of nan_bits
  std::vector<std::string> examples;  // up to kMaxExamples, evenly of all that differ

  // Approximate instructions have no bits to agree on.
  bool bits_wrong() const { return !instruction.approximate && differ > 0; }
};

Comparison compare(const Instruction& instruction, std::span<const Case> cases, const Results& reference,
                   std::string_view reference_name, const Results& found, std::string_view found_name);

}  // namespace pergola::instruction_bits
