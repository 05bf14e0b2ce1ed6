#include "tests/instruction_bits/compare.h"

#include <algorithm>
#include <bit>
#include <cmath>

namespace pergola::instruction_bits {
namespace {

struct Layout {
  int exponent_bits = 0, mantissa_bits = 0, elements = 1;
  int bits() const { return 1 + exponent_bits + mantissa_bits; }
};

Layout layout_of(Kind kind) {
  switch (kind) {
    case Kind::kF16: return {5, 10, 1};
    case Kind::kF16x2: return {5, 10, 2};
    case Kind::kBf16: return {8, 7, 1};
    case Kind::kBf16x2: return {8, 7, 2};
    case Kind::kF32: return {8, 23, 1};
    case Kind::kF32x2: return {8, 23, 2};
    case Kind::kF64: return {11, 52, 1};
    default: return {0, 0, 0};
  }
}

std::uint64_t element(const Layout& layout, std::uint64_t bits, int n) {
  if (layout.bits() == 64) return bits;
  return bits >> (n * layout.bits()) & ((std::uint64_t{1} << layout.bits()) - 1);
}

bool is_nan(const Layout& layout, std::uint64_t bits) {
  const std::uint64_t magnitude = bits & ((std::uint64_t{1} << (layout.bits() - 1)) - 1);
  return magnitude > ((std::uint64_t{1} << layout.exponent_bits) - 1) << layout.mantissa_bits;
}

// Floats in order as integers in order.
std::int64_t ordered(const Layout& layout, std::uint64_t bits) {
  const auto magnitude = static_cast<std::int64_t>(bits & ((std::uint64_t{1} << (layout.bits() - 1)) - 1));
  return (bits >> (layout.bits() - 1)) != 0 ? -magnitude : magnitude;
}

std::string describe(const Case& values, std::size_t sources, std::uint64_t reference, std::string_view reference_name,
                     std::uint64_t found, std::string_view found_name) {
  std::string text = "(";
  for (std::size_t n = 0; n < sources; ++n) text += fmt::format("{}{:#x}", n == 0 ? "" : ", ", values[n]);
  return text + fmt::format("): {} {:#x}, {} {:#x}", reference_name, reference, found_name, found);
}

double number(Kind kind, std::uint64_t bits) {
  return kind == Kind::kF64 ? std::bit_cast<double>(bits) : std::bit_cast<float>(static_cast<std::uint32_t>(bits));
}

// sin and cos have an absolute bound in a few periods, lg2 near 1 (ISA 9.7.3.18 to 9.7.3.20).
bool has_absolute_bound(const Instruction& instruction, const Case& values) {
  const auto a = static_cast<double>(std::bit_cast<float>(static_cast<std::uint32_t>(values[0])));
  if (instruction.spelling.starts_with("sin") || instruction.spelling.starts_with("cos")) return std::fabs(a) <= 6.283185307179586;
  return !instruction.spelling.starts_with("lg2") || (a > 0.5 && a < 2);
}

}  // namespace

std::uint64_t ulp_distance(Kind kind, std::uint64_t a, std::uint64_t b) {
  const Layout layout = layout_of(kind);
  std::uint64_t largest = 0;
  for (int n = 0; n < layout.elements; ++n) {
    const std::uint64_t x = element(layout, a, n), y = element(layout, b, n);
    if (is_nan(layout, x) != is_nan(layout, y)) return kNoDistance;
    if (is_nan(layout, x)) continue;
    const std::int64_t p = ordered(layout, x), q = ordered(layout, y);
    largest = std::max(largest, p > q ? static_cast<std::uint64_t>(p) - static_cast<std::uint64_t>(q)
                                      : static_cast<std::uint64_t>(q) - static_cast<std::uint64_t>(p));
  }
  return largest;
}

bool same_but_for_nan_bits(Kind kind, std::uint64_t a, std::uint64_t b) {
  const Layout layout = layout_of(kind);
  if (layout.elements == 0) return false;
  for (int n = 0; n < layout.elements; ++n) {
    const std::uint64_t x = element(layout, a, n), y = element(layout, b, n);
    if (x != y && !(is_nan(layout, x) && is_nan(layout, y))) return false;
  }
  return true;
}

Comparison compare(const Instruction& instruction, std::span<const Case> cases, const Results& reference,
                   std::string_view reference_name, const Results& found, std::string_view found_name) {
  Comparison comparison;
  comparison.instruction = instruction;
  for (const auto& [results, name] : {std::pair{&reference, reference_name}, {&found, found_name}}) {
    if (results->status.ok()) continue;
    comparison.refused_by = name;
    comparison.refusal = results->status.message();
    return comparison;
  }
  const auto kind = static_cast<Kind>(instruction.kinds[0]);
  const std::size_t sources = instruction.kinds.size() - 1;
  comparison.cases = cases.size();
  std::string first_nan;
  for (std::size_t n = 0; n < cases.size(); ++n) {
    const std::uint64_t a = reference.values[n], b = found.values[n];
    if (a == b) {
      ++comparison.agree;
      continue;
    }
    const bool nan = same_but_for_nan_bits(kind, a, b);
    ++(nan ? comparison.nan_bits : comparison.differ);
    comparison.max_ulp = std::max(comparison.max_ulp, ulp_distance(kind, a, b));
    std::string& first = nan ? first_nan : comparison.first;
    const std::string text = first.empty() || comparison.examples.size() < kMaxExamples || n % 61 == 0
                                 ? describe(cases[n], sources, a, reference_name, b, found_name)
                                 : "";
    if (first.empty()) first = text;
    // The first few, then now and then one in place of the last: what is shown is not only the first special value.
    if (comparison.examples.size() < kMaxExamples) comparison.examples.push_back(text);
    else if (n % 61 == 0) comparison.examples[kMaxExamples / 2 + n / 61 % (kMaxExamples / 2)] = text;
    if ((kind == Kind::kF32 || kind == Kind::kF64) && has_absolute_bound(instruction, cases[n])) {
      const double distance = std::fabs(number(kind, a) - number(kind, b));
      if (std::isfinite(distance)) comparison.max_absolute = std::max(comparison.max_absolute, distance);
    }
  }
  if (comparison.first.empty()) comparison.first = first_nan;
  return comparison;
}

}  // namespace pergola::instruction_bits
