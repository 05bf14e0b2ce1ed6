#include "src/analysis/affine.h"

#include <algorithm>

namespace pergola::analysis {
namespace {

using Wide = __int128;

bool fits(Wide value) {
  return value > Interval::kLowest && value < Interval::kHighest;
}
std::int64_t low_end(Wide value) {
  return fits(value) ? static_cast<std::int64_t>(value) : Interval::kLowest;
}
std::int64_t high_end(Wide value) {
  return fits(value) ? static_cast<std::int64_t>(value) : Interval::kHighest;
}

}  // namespace

Interval hull(const Interval& a, const Interval& b) {
  return {std::min(a.low, b.low), std::max(a.high, b.high)};
}
Interval intersection(const Interval& a, const Interval& b) {
  return {std::max(a.low, b.low), std::min(a.high, b.high)};
}

Interval sum(const Interval& a, const Interval& b) {
  return {a.has_low() && b.has_low() ? low_end(Wide(a.low) + b.low) : Interval::kLowest,
          a.has_high() && b.has_high() ? high_end(Wide(a.high) + b.high) : Interval::kHighest};
}

Interval product(const Interval& a, std::int64_t factor) {
  if (factor == 0) return Interval::point(0);
  const bool flips = factor < 0;
  const bool open_low = flips ? !a.has_high() : !a.has_low(), open_high = flips ? !a.has_low() : !a.has_high();
  return {open_low ? Interval::kLowest : low_end(Wide(flips ? a.high : a.low) * factor),
          open_high ? Interval::kHighest : high_end(Wide(flips ? a.low : a.high) * factor)};
}

Interval product(const Interval& a, const Interval& b) {
  if (b.is_bounded() && b.low == b.high) return product(a, b.low);
  if (a.is_bounded() && a.low == a.high) return product(b, a.low);
  if (!a.is_bounded() || !b.is_bounded()) return {};
  Interval result{Interval::kHighest, Interval::kLowest};
  for (const std::int64_t x : {a.low, a.high}) {
    for (const std::int64_t y : {b.low, b.high}) {
      result.low = std::min(result.low, low_end(Wide(x) * y));
      result.high = std::max(result.high, high_end(Wide(x) * y));
    }
  }
  return result;
}

std::int64_t floor_div(std::int64_t value, std::int64_t divisor) {
  const std::int64_t quotient = value / divisor;
  return quotient - ((value % divisor) < 0 ? 1 : 0);
}

Interval floor_div(const Interval& a, std::int64_t divisor) {
  return {a.has_low() ? floor_div(a.low, divisor) : Interval::kLowest,
          a.has_high() ? floor_div(a.high, divisor) : Interval::kHighest};
}

std::int64_t Affine::coefficient(TermId id) const {
  for (const Part& part : parts) {
    if (part.term == id) return part.coefficient;
  }
  return 0;
}

std::optional<Affine> sum(const Affine& a, const Affine& b, std::int64_t factor) {
  if (factor == 0) return a;
  Affine result;
  const Wide constant = Wide(a.constant) + Wide(b.constant) * factor;
  if (!fits(constant)) return std::nullopt;
  result.constant = static_cast<std::int64_t>(constant);
  auto x = a.parts.begin();
  auto y = b.parts.begin();
  while (x != a.parts.end() || y != b.parts.end()) {
    Wide coefficient = 0;
    TermId term = 0;
    const bool take_x = y == b.parts.end() || (x != a.parts.end() && x->term <= y->term);
    const bool take_y = x == a.parts.end() || (y != b.parts.end() && y->term <= x->term);
    if (take_x) {
      term = x->term;
      coefficient += x->coefficient;
      ++x;
    }
    if (take_y) {
      term = y->term;
      coefficient += Wide(y->coefficient) * factor;
      ++y;
    }
    if (!fits(coefficient)) return std::nullopt;
    if (coefficient != 0) result.parts.push_back({term, static_cast<std::int64_t>(coefficient)});
  }
  return result;
}

std::optional<Affine> scaled(const Affine& a, std::int64_t factor) {
  return sum(Affine{}, a, factor);
}

std::optional<Affine> substituted(const Affine& a, TermId id, const Affine& by) {
  const std::int64_t coefficient = a.coefficient(id);
  if (coefficient == 0) return a;
  const auto without = sum(a, Affine::term(id), -coefficient);
  return without ? sum(*without, by, coefficient) : std::nullopt;
}

bool is_multiple(const Affine& a, std::int64_t of) {
  return a.constant % of == 0 &&
         std::ranges::all_of(a.parts, [of](const Affine::Part& part) { return part.coefficient % of == 0; });
}

std::optional<Affine> divided(const Affine& a, std::int64_t divisor) {
  if (divisor == 0 || !is_multiple(a, divisor)) return std::nullopt;
  Affine result = a;
  result.constant /= divisor;
  for (Affine::Part& part : result.parts) part.coefficient /= divisor;
  return result;
}

}  // namespace pergola::analysis
