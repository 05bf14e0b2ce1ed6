// Whole-number expressions that are sums: constant + coefficient * term + ... Terms are numbered by whoever makes them.
//
// Numbers are 64 bits wide; what does not fit is no expression (nullopt) or no bound. Intervals may be open at either
// end.
#pragma once

#include <boost/container/small_vector.hpp>
#include <cstdint>
#include <limits>
#include <optional>

namespace pergola::analysis {

using TermId = std::uint32_t;

struct Interval {
  static constexpr std::int64_t kLowest = std::numeric_limits<std::int64_t>::min();
  static constexpr std::int64_t kHighest = std::numeric_limits<std::int64_t>::max();
  std::int64_t low = kLowest, high = kHighest;  // kLowest, kHighest: open

  static Interval point(std::int64_t value) { return {value, value}; }
  bool has_low() const { return low != kLowest; }
  bool has_high() const { return high != kHighest; }
  bool is_bounded() const { return has_low() && has_high(); }
  bool is_empty() const { return low > high; }
  bool is_within(const Interval& other) const { return low >= other.low && high <= other.high; }
  bool operator==(const Interval&) const = default;
};

Interval hull(const Interval& a, const Interval& b);
Interval intersection(const Interval& a, const Interval& b);
Interval sum(const Interval& a, const Interval& b);
Interval product(const Interval& a, std::int64_t factor);
Interval product(const Interval& a, const Interval& b);
// Rounded down; `divisor` is positive.
std::int64_t floor_div(std::int64_t value, std::int64_t divisor);
Interval floor_div(const Interval& a, std::int64_t divisor);

struct Affine {
  struct Part {
    TermId term = 0;
    std::int64_t coefficient = 0;
    bool operator==(const Part&) const = default;
  };
  std::int64_t constant = 0;
  boost::container::small_vector<Part, 6> parts;  // ascending by term, no coefficient is 0

  static Affine number(std::int64_t value) { return {value, {}}; }
  static Affine term(TermId id, std::int64_t coefficient = 1) { return {0, {{id, coefficient}}}; }
  bool is_number() const { return parts.empty(); }
  std::int64_t coefficient(TermId id) const;
  bool operator==(const Affine&) const = default;
};

// nullopt: a number does not fit.
std::optional<Affine> sum(const Affine& a, const Affine& b, std::int64_t factor = 1);  // a + factor * b
std::optional<Affine> scaled(const Affine& a, std::int64_t factor);
// `a` with `id` replaced.
std::optional<Affine> substituted(const Affine& a, TermId id, const Affine& by);
// a / divisor where every number in it is divisible.
std::optional<Affine> divided(const Affine& a, std::int64_t divisor);
bool is_multiple(const Affine& a, std::int64_t of);

}  // namespace pergola::analysis
