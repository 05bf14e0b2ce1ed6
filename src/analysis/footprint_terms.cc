#include "src/analysis/footprint_terms.h"

#include <algorithm>
#include <bit>
#include <cstdlib>
#include <numeric>

namespace pergola::analysis {
namespace {

Interval combined_range(Term::Kind kind, const Interval& a, const Interval& b) {
  switch (kind) {
    case Term::Kind::kMin: return {std::min(a.low, b.low), std::min(a.high, b.high)};
    case Term::Kind::kMax: return {std::max(a.low, b.low), std::max(a.high, b.high)};
    case Term::Kind::kEither: return hull(a, b);
    case Term::Kind::kProduct: return product(a, b);
    default: return {};
  }
}

std::int64_t bitwise(Term::Kind kind, std::int64_t a, std::int64_t number) {
  return kind == Term::Kind::kAnd ? a & number : kind == Term::Kind::kOr ? a | number : a ^ number;
}

// The least and the greatest of x and a number, for all x of an interval of 0 to 2^62 - 1: of each aligned group of 2^k
// of them, whose lowest k bits are any.
Interval bitwise_range(Term::Kind kind, const Interval& x, std::int64_t number) {
  if (x.is_empty()) return x;
  Interval result{Interval::kHighest, Interval::kLowest};
  for (std::int64_t at = x.low; at <= x.high;) {
    int bits = at == 0 ? 61 : std::countr_zero(static_cast<std::uint64_t>(at));
    while (at + (std::int64_t{1} << bits) - 1 > x.high) --bits;
    const std::int64_t any = (std::int64_t{1} << bits) - 1, above = bitwise(kind, at, number) & ~any;
    result.low = std::min(result.low, above + (kind == Term::Kind::kOr ? number & any : 0));
    result.high = std::max(result.high, above + (kind == Term::Kind::kAnd ? number & any : any));
    at += any + 1;
  }
  return result;
}

// What of `a` is no multiple of `modulus`, as a number of 0 or more; nullopt where it has no bounds, or far ones.
std::optional<Affine> rest_of(const FootprintTerms& terms, const Affine& a, std::int64_t modulus) {
  constexpr Interval kNear{-(std::int64_t{1} << 60), std::int64_t{1} << 60};
  Affine rest;
  rest.constant = a.constant;
  for (const Affine::Part& part : a.parts)
    if (part.coefficient % modulus != 0) rest.parts.push_back(part);
  const Interval range = terms.range(rest, {});
  if (!range.is_within(kNear)) return std::nullopt;
  return sum(rest, Affine::number(1), -floor_div(range.low, modulus) * modulus);
}

}  // namespace

TermId FootprintTerms::add(Term term) {
  terms_.push_back(std::move(term));
  return static_cast<TermId>(terms_.size() - 1);
}

Affine FootprintTerms::unknown(Interval range, std::string reason) {
  return Affine::term(add({.kind = Term::Kind::kUnknown, .range = range, .reason = std::move(reason)}));
}

Affine FootprintTerms::quotient(const Affine& a, std::int64_t divisor) {
  if (divisor == 1) return a;
  // What is divisible comes out by itself: (256 * ctaid + tid) / 16 = 16 * ctaid + tid / 16.
  Affine whole, rest;
  whole.constant = floor_div(a.constant, divisor);
  rest.constant = a.constant - whole.constant * divisor;
  for (const Affine::Part& part : a.parts) {
    if (part.coefficient % divisor == 0) {
      whole.parts.push_back({part.term, part.coefficient / divisor});
    } else {
      rest.parts.push_back(part);
    }
  }
  const Interval bounds = floor_div(range(rest), divisor);
  if (bounds.is_bounded() && bounds.low == bounds.high) {
    whole.constant += bounds.low;
    return whole;
  }
  for (TermId id = 0; id < terms_.size(); ++id) {
    const Term& term = terms_[id];
    if (term.kind != Term::Kind::kQuotient || term.divisor != divisor || !(term.a == rest)) continue;
    return sum(whole, Affine::term(id)).value_or(Affine::term(id));
  }
  const TermId id = add({.kind = Term::Kind::kQuotient,
                         .divisor = divisor,
                         .a = rest,
                         .range = bounds,
                         .is_by_block = depends_on_block(rest)});
  return *sum(whole, Affine::term(id));
}

Affine FootprintTerms::combined(Term::Kind kind, const Affine& a, const Affine& b) {
  return combined(kind, a, b, 0);
}

Affine FootprintTerms::either(const Affine& a, const Affine& b, std::uint32_t chooser) {
  return combined(Term::Kind::kEither, a, b, chooser);
}

Affine FootprintTerms::combined(Term::Kind kind, const Affine& a, const Affine& b, std::uint32_t index) {
  if (a == b && kind != Term::Kind::kProduct) return a;
  for (TermId id = 0; id < terms_.size(); ++id) {
    const Term& term = terms_[id];
    if (term.kind == kind && term.index == index && term.a == a && term.b == b) return Affine::term(id);
  }
  return Affine::term(add({.kind = kind,
                           .index = index,
                           .a = a,
                           .b = b,
                           .range = combined_range(kind, range(a), range(b)),
                           .is_by_block = depends_on_block(a) || depends_on_block(b)}));
}

// Bits below 2^k, which are all that the number has, are not changed by multiples of 2^k: these are taken out of `a`,
// for the least k that leaves less than 2^k, and come back as they were. So are k low bits that `a` has as a number:
// (256 * ctaid + tid) ^ 1 = 256 * ctaid + (tid ^ 1), (8 * tid + 3) ^ 9 = 8 * (tid ^ 1) + 2.
std::optional<Affine> FootprintTerms::with_bits(Term::Kind kind, const Affine& a, std::int64_t number) {
  constexpr int kMostBits = 61;
  const int least = std::bit_width(static_cast<std::uint64_t>(number));
  if (number < 0 || least > kMostBits) return std::nullopt;
  std::optional<Affine> rest;
  for (int bits = least; bits < kMostBits && !rest; ++bits) {
    const std::int64_t modulus = std::int64_t{1} << bits;
    auto found = rest_of(*this, a, modulus);
    if (!found) break;  // of more bits more is left
    if (range(*found, {}).high < modulus) rest = std::move(found);
  }
  if (!rest) rest = rest_of(*this, a, std::int64_t{1} << least);
  const Interval of_rest = rest ? range(*rest, {}) : Interval{};
  if (!of_rest.is_within({0, (std::int64_t{1} << kMostBits) - 1})) return std::nullopt;
  const auto whole = kind == Term::Kind::kAnd ? Affine::number(0) : sum(a, *rest, -1);

  std::uint64_t bits_above = 0;
  for (const Affine::Part& part : rest->parts) bits_above |= static_cast<std::uint64_t>(part.coefficient);
  const int low = std::min(std::countr_zero(bits_above), kMostBits);
  const std::int64_t below = (std::int64_t{1} << low) - 1, constant = rest->constant & below;
  rest->constant -= constant;
  const auto high = divided(*rest, below + 1);
  if (!whole || !high) return std::nullopt;
  const std::int64_t of_high = number >> low, of_low = bitwise(kind, constant, number & below);
  Affine made;
  if (high->is_number()) {
    made = Affine::number(bitwise(kind, high->constant, of_high));
  } else if (of_high == 0) {
    made = kind == Term::Kind::kAnd ? Affine::number(0) : *high;
  } else {
    const auto known = std::ranges::find_if(
        terms_, [&](const Term& term) { return term.kind == kind && term.divisor == of_high && term.a == *high; });
    if (known != terms_.end()) {
      made = Affine::term(static_cast<TermId>(known - terms_.begin()));
    } else {
      const Interval of_a{std::max<std::int64_t>(0, of_rest.low - constant) >> low, (of_rest.high - constant) >> low};
      made = Affine::term(add({.kind = kind,
                               .divisor = of_high,
                               .a = *high,
                               .range = bitwise_range(kind, of_a, of_high),
                               .range_of_a = of_a,
                               .is_by_block = depends_on_block(*high)}));
    }
  }
  const auto moved = scaled(made, below + 1);
  const auto all = moved ? sum(*moved, Affine::number(of_low)) : std::nullopt;
  return all ? sum(*all, *whole) : std::nullopt;
}

bool FootprintTerms::depends_on_block(const Affine& a) const {
  return std::ranges::any_of(a.parts, [&](const Affine::Part& part) { return terms_[part.term].is_by_block; });
}

const Term* FootprintTerms::find_unknown(const Affine& a) const {
  return find_if(a,
                 [](const Term& term) { return term.kind == Term::Kind::kUnknown ? Visit::kFound : Visit::kOperands; });
}

const Term* FootprintTerms::find_if(const Affine& a, FunctionRef<Visit(const Term&)> visit) const {
  std::vector<bool> seen(terms_.size());
  std::vector<TermId> open;  // the next one last
  const auto add = [&](const Affine& of) {
    for (auto part = of.parts.rbegin(); part != of.parts.rend(); ++part)
      if (!seen[part->term]) open.push_back(part->term);
  };
  add(a);
  while (!open.empty()) {
    const TermId id = open.back();
    open.pop_back();
    if (seen[id]) continue;
    seen[id] = true;
    const Term& term = terms_[id];
    switch (visit(term)) {
      case Visit::kFound: return &term;
      case Visit::kPass: break;
      case Visit::kOperands: add(term.b), add(term.a);
    }
  }
  return nullptr;
}

Interval FootprintTerms::range(const Affine& a) const {
  Interval result = Interval::point(a.constant);
  for (const Affine::Part& part : a.parts) result = sum(result, product(terms_[part.term].range, part.coefficient));
  return result;
}

Interval FootprintTerms::range(const Affine& a, std::span<const Affine> constraints) const {
  const auto negative = scaled(a, -1);
  const std::int64_t high = upper(a, constraints, 2);
  const std::int64_t low = negative ? upper(*negative, constraints, 2) : Interval::kHighest;
  return {low == Interval::kHighest ? Interval::kLowest : -low, high};
}

// Where g <= 0 holds, s * a <= s * a - r * g for r >= 0; r and s are chosen so that a term cancels. A quotient q of a
// numerator n has two such g of its own: d * q - n, and n - d * q - (d - 1).
std::int64_t FootprintTerms::upper(const Affine& a, std::span<const Affine> constraints, int depth) const {
  // Each part is tried with each constraint, and what comes of it again: of sums so long once, or not at all.
  constexpr std::size_t kLong = 12, kVeryLong = 64;
  std::int64_t best = range(a).high;
  if (a.parts.size() > kLong) depth = std::min(depth, 1);
  if (depth == 0 || a.parts.size() > kVeryLong) return best;
  const auto attempt = [&](const Affine& g, TermId id, std::int64_t in_a) {
    const std::int64_t in_g = g.coefficient(id);
    if (in_g == 0 || (in_g > 0) != (in_a > 0)) return;
    const std::int64_t common = std::gcd(in_a, in_g), s = std::abs(in_g) / common, r = std::abs(in_a) / common;
    const auto widened = scaled(a, s);
    const auto reduced = widened ? sum(*widened, g, -r) : std::nullopt;
    if (!reduced) return;
    const std::int64_t bound = upper(*reduced, constraints, depth - 1);
    if (bound != Interval::kHighest) best = std::min(best, floor_div(bound, s));
  };
  for (const Affine::Part& part : a.parts) {
    const Term& term = terms_[part.term];
    if (term.kind == Term::Kind::kQuotient) {
      if (const auto above = sum(Affine::term(part.term, term.divisor), term.a, -1)) {
        attempt(*above, part.term, part.coefficient);
        if (auto below = scaled(*above, -1)) {
          below->constant -= term.divisor - 1;
          attempt(*below, part.term, part.coefficient);
        }
      }
    }
    for (const Affine& g : constraints) attempt(g, part.term, part.coefficient);
  }
  return best;
}

void BlockRanges::enter(const std::uint32_t (&block)[3]) {
  std::copy_n(block, 3, block_);
  ++visit_;
}

const Interval& BlockRanges::of(TermId id) {
  const Term& term = terms_[id];
  if (!term.is_by_block) return term.range;
  if (known_[id] != visit_) {
    known_[id] = visit_;
    ranges_[id] = term.range;  // for a definition that comes back to itself
    ranges_[id] = intersection(compute(id), term.range);
  }
  return ranges_[id];
}

Interval BlockRanges::of(const Affine& a) {
  Interval result = Interval::point(a.constant);
  for (const Affine::Part& part : a.parts) result = sum(result, product(of(part.term), part.coefficient));
  return result;
}

Interval BlockRanges::compute(TermId id) {
  const Term& term = terms_[id];
  switch (term.kind) {
    case Term::Kind::kBlock: return Interval::point(block_[term.index]);
    case Term::Kind::kQuotient: return floor_div(of(term.a), term.divisor);
    case Term::Kind::kMin:
    case Term::Kind::kMax:
    case Term::Kind::kEither:
    case Term::Kind::kProduct: return combined_range(term.kind, of(term.a), of(term.b));
    case Term::Kind::kAnd:
    case Term::Kind::kOr:
    case Term::Kind::kXor: return bitwise_range(term.kind, intersection(of(term.a), term.range_of_a), term.divisor);
    case Term::Kind::kIteration: {
      Interval result = term.range;
      for (const IterationBound& bound : bounds_) {
        const std::int64_t step = bound.iteration == id ? bound.stay.coefficient(id) : 0;
        if (step <= 0) continue;
        const auto rest = sum(bound.stay, Affine::term(id), -step);
        const Interval others = rest ? of(*rest) : Interval{};
        if (!others.has_low() || others.low == Interval::kLowest + 1) continue;
        const std::int64_t last = floor_div(-others.low, step);
        if (last < Interval::kHighest) result.high = std::min(result.high, std::max<std::int64_t>(0, last + 1));
      }
      return result;
    }
    default: return term.range;
  }
}

}  // namespace pergola::analysis
