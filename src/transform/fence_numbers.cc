#include "src/transform/fence_numbers.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cstdlib>
#include <numeric>

#include "src/ptx/printer.h"
#include "src/ptx/semantics.h"

namespace pergola::transform {
namespace {

using Wide = __int128;

constexpr Interval kSigned32{-(std::int64_t{1} << 31), (std::int64_t{1} << 31) - 1};
constexpr std::int64_t kMostSettled = std::int64_t{1} << 50;  // sums of some hundreds of these are numbers
constexpr std::int64_t kMostUnsigned32 = (std::int64_t{1} << 32) - 1;

// What a block's place and size can be; of any other register nothing is known.
Interval range_of(std::string_view name) {
  if (name.starts_with("%pergola_tid_") || name == "%pergola_linear") return {0, 1023};
  if (name.starts_with("%pergola_ntid_")) return {1, 1024};
  if (name.starts_with("%pergola_ctaid_")) return {0, kSigned32.high};
  if (name.starts_with("%pergola_nctaid_")) return {1, kSigned32.high};
  return kSigned32;
}

std::string key_of(const Affine& a) {
  std::string key = fmt::format("{}", a.constant);
  for (const Affine::Part& part : a.parts) key += fmt::format(" {}*{}", part.coefficient, part.term);
  return key;
}

// Without the constant, and with a first coefficient above 0.
Affine varying(const Affine& a) {
  Affine result = a;
  result.constant = 0;
  if (!a.parts.empty() && a.parts[0].coefficient < 0)
    for (Affine::Part& part : result.parts) part.coefficient = -part.coefficient;
  return result;
}

}  // namespace

std::int64_t divisor_of(const Affine& a) {
  std::int64_t common = std::abs(a.constant);
  for (const Affine::Part& part : a.parts) common = std::gcd(common, part.coefficient);
  return common;
}

// ---- Terms

std::string FenceNumbers::fresh(std::string_view type) {
  std::string name = fmt::format("%n{}", registers_++);
  declared_ += fmt::format(".reg .{} {};\n", type, name);
  return name;
}

std::string FenceNumbers::argument(ptx::RegisterId id) {
  for (const auto& [name, one] : arguments_)
    if (one == id) return name;
  arguments_.emplace_back(fmt::format("%given{}", arguments_.size()), id);
  return arguments_.back().first;
}

std::vector<std::pair<std::string, ptx::RegisterId>> FenceNumbers::arguments() const {
  return arguments_;
}

std::string FenceNumbers::text() const {
  return declared_ + "setp.eq.u32 %pergola_fence_known, 0, 0;\n" + text_;
}

Affine FenceNumbers::term(const std::string& text, const Interval& range, bool is_pointer) {
  const auto found = of_text_.find(text);
  if (found != of_text_.end()) return Affine::term(found->second);
  const std::string name = fresh();
  text_ += fmt::format(fmt::runtime(text), name);
  const auto id = static_cast<analysis::TermId>(terms_.size());
  terms_.push_back({name, range, is_pointer});
  of_text_.emplace(text, id);
  return Affine::term(id);
}

// A register of the text as a number; one of 64 bits is required to be small.
Affine FenceNumbers::widened(const std::string& name, ptx::Type type, const Interval& range) {
  if (ptx::size_bytes(type) == 4) return term(fmt::format("cvt.s64.s32 {{}}, {};\n", name), range);
  const Affine whole = term(fmt::format("mov.b64 {{}}, {};\n", name), {0, kMostGiven - 1}, true);
  if (required_.emplace("small " + name, true).second) {
    text_ += fmt::format("setp.lt.and.u64 %pergola_fence_known, {}, {}, %pergola_fence_known;\n", name, kMostGiven);
  }
  return whole;
}

Number FenceNumbers::given(ptx::RegisterId id, const ptx::Register& declared) {
  const std::uint32_t bytes = ptx::size_bytes(declared.type);
  if (declared.vector != 1 || (bytes != 4 && bytes != 8) || ptx::is_float(declared.type)) return std::nullopt;
  return widened(argument(id), declared.type, range_of(declared.name));
}

Number FenceNumbers::loaded(const ptx::Instruction& load) {
  const ptx::Type type = load.type();
  const std::uint32_t bytes = ptx::size_bytes(type);
  if (load.vector_width() != 1 || (bytes != 4 && bytes != 8) || ptx::is_float(type)) return std::nullopt;
  const ptx::Operand& address = load.operands.at(1);
  const std::string key = fmt::format("load {} {} {}", address.elements[0].reg, address.offset, bytes);
  auto found = of_sum_.find(key);
  if (found == of_sum_.end()) {
    const std::string to = fresh(bytes == 4 ? "b32" : "b64");
    text_ += fmt::format("ld.{}.b{} {}, [{}+{}];\n", load.space() == ptx::Space::kShared ? "shared" : "global",
                         8 * bytes, to, argument(address.elements[0].reg), address.offset);
    found = of_sum_.emplace(key, to).first;
  }
  return widened(found->second, type, kSigned32);
}

// ---- Sums

bool FenceNumbers::is_small(const Affine& a) const {
  Wide most = a.constant < 0 ? -Wide(a.constant) : Wide(a.constant);
  for (const Affine::Part& part : a.parts) {
    const Interval& range = terms_[part.term].range;
    const Wide farthest = std::max(range.high < 0 ? -Wide(range.high) : Wide(range.high),
                                   range.low < 0 ? -Wide(range.low) : Wide(range.low));
    most += farthest * (part.coefficient < 0 ? -Wide(part.coefficient) : Wide(part.coefficient));
    if (most > kMost) return false;
  }
  return most <= kMost;
}

Number FenceNumbers::sum(const Affine& a, const Affine& b, std::int64_t factor) const {
  Number result = analysis::sum(a, b, factor);
  if (result && !is_small(*result)) return std::nullopt;
  return result;
}

Interval FenceNumbers::range(const Affine& a) const {
  Interval result = Interval::point(a.constant);
  for (const Affine::Part& part : a.parts)
    result = analysis::sum(result, analysis::product(terms_[part.term].range, part.coefficient));
  if (bounds_.empty() || a.parts.empty()) return result;
  const auto found = bounds_.find(key_of(varying(a)));
  if (found == bounds_.end()) return result;
  const std::int64_t sign = a.parts[0].coefficient < 0 ? -1 : 1;
  return analysis::intersection(result,
                                analysis::sum(analysis::product(found->second, sign), Interval::point(a.constant)));
}

// A greatest number is at least each of what it is the greatest of, a least one at most.
std::int64_t FenceNumbers::lowest(const Affine& a, int depth) const {
  std::int64_t best = range(a).low;
  if (best >= 0 || depth == 0) return best;
  for (const Affine::Part& part : a.parts) {
    const Term& term = terms_[part.term];
    if (term.kind != (part.coefficient > 0 ? Term::Kind::kGreatest : Term::Kind::kLeast)) continue;
    for (const Affine* one : {&term.a, &term.b})
      if (const auto other = analysis::substituted(a, part.term, *one); other && is_small(*other))
        best = std::max(best, lowest(*other, depth - 1));
    if (best >= 0) return best;
  }
  return best;
}

bool FenceNumbers::is_at_least(const Affine& a, const Affine& b) const {
  const Number difference = sum(a, b, -1);
  return difference && lowest(*difference, 3) >= 0;
}

// Sums that begin alike share what they have in common.
std::string FenceNumbers::name(const Affine& a) {
  if (a.is_number()) return fmt::format("{}", a.constant);
  Affine made;
  std::string all;
  const auto add = [&](const std::string& text) {
    const std::string key = key_of(made);
    const auto found = of_sum_.find(key);
    if (found != of_sum_.end()) {
      all = found->second;
      return;
    }
    all = fresh();
    text_ += fmt::format(fmt::runtime(text), all);
    of_sum_.emplace(key, all);
  };
  for (const bool is_negative : {false, true}) {
    for (const Affine::Part& part : a.parts) {
      if ((part.coefficient < 0) != is_negative) continue;
      const std::string& one = terms_[part.term].name;
      made = *analysis::sum(made, Affine::term(part.term), part.coefficient);
      if (all.empty() && part.coefficient == 1)
        all = one;
      else if (all.empty())
        add(fmt::format("mul.lo.s64 {{}}, {}, {};\n", one, part.coefficient));
      else if (part.coefficient == 1 || part.coefficient == -1)
        add(fmt::format("{}.s64 {{}}, {}, {};\n", is_negative ? "sub" : "add", all, one));
      else
        add(fmt::format("mad.lo.s64 {{}}, {}, {}, {};\n", one, part.coefficient, all));
    }
  }
  if (a.constant != 0) {
    made.constant = a.constant;
    add(fmt::format("add.s64 {{}}, {}, {};\n", all, a.constant));
  }
  return all;
}

// ---- What sums cannot say

Number FenceNumbers::product(const Affine& a, const Affine& b) {
  if (a.is_number()) return scaled(b, a.constant);
  if (b.is_number()) return scaled(a, b.constant);
  Interval bounds = analysis::product(range(a), range(b));
  if (a == b) bounds.low = std::max<std::int64_t>(bounds.low, 0);
  if (!bounds.is_bounded() || bounds.low < -kMost || bounds.high > kMost) return std::nullopt;
  std::string one = name(a), other = name(b);
  if (other < one) std::swap(one, other);
  return term(fmt::format("mul.lo.s64 {{}}, {}, {};\n", one, other), bounds);
}

Number FenceNumbers::extreme(const char* which, const Affine& a, const Affine& b) {
  const bool is_min = which[1] == 'i';
  if (is_at_least(a, b)) return is_min ? b : a;
  if (is_at_least(b, a)) return is_min ? a : b;
  const Interval of_a = range(a), of_b = range(b);
  const Interval bounds = is_min ? Interval{std::min(of_a.low, of_b.low), std::min(of_a.high, of_b.high)}
                                 : Interval{std::max(of_a.low, of_b.low), std::max(of_a.high, of_b.high)};
  std::string one = name(a), other = name(b);
  if (other < one) std::swap(one, other);
  Affine found = term(fmt::format("{}.s64 {{}}, {}, {};\n", which, one, other), bounds);
  Term& made = terms_[found.parts[0].term];
  made.kind = is_min ? Term::Kind::kLeast : Term::Kind::kGreatest;
  made.a = a;
  made.b = b;
  return found;
}

Number FenceNumbers::shifted_right(const Affine& a, std::uint32_t by) {
  const std::int64_t divisor = std::int64_t{1} << by;
  if (const auto whole = analysis::divided(a, divisor)) return whole;
  const Interval bounds = analysis::floor_div(range(a), divisor);
  if (bounds.low == bounds.high) return Affine::number(bounds.low);
  return term(fmt::format("shr.s64 {{}}, {}, {};\n", name(a), by), bounds);
}

Number FenceNumbers::masked(const Affine& a, std::int64_t mask) {
  if (a.is_number()) return Affine::number(a.constant & mask);
  const Interval of_a = range(a);  // a negative mask takes bits away, which are at most those that it lacks
  const Interval bounds = mask >= 0 ? Interval{0, mask} : Interval{of_a.low - ~mask, of_a.high};
  return term(fmt::format("and.b64 {{}}, {}, {};\n", name(a), mask), bounds);
}

// A quotient of 32 bits: one of 64 is a call.
Number FenceNumbers::quotient(const Affine& a, const Affine& b, bool rest) {
  const Interval of_a = range(a), of_b = range(b);
  if (a.is_number() && b.is_number() && b.constant > 0 && a.constant >= 0)
    return Affine::number(rest ? a.constant % b.constant : a.constant / b.constant);
  if (!rest && b.is_number() && b.constant > 0 && std::has_single_bit(static_cast<std::uint64_t>(b.constant)))
    return shifted_right(a, static_cast<std::uint32_t>(std::countr_zero(static_cast<std::uint64_t>(b.constant))));
  const auto limit = [](std::int64_t value) { return std::clamp<std::int64_t>(value, 0, kMostUnsigned32); };
  const Interval bounds{0, rest ? std::max<std::int64_t>(limit(of_b.high) - 1, 0)
                                : limit(of_a.high) / std::max<std::int64_t>(of_b.low, 1)};
  const std::string key = fmt::format("{} {} {}", rest ? "rem" : "div", key_of(a), key_of(b));
  auto found = of_sum_.find(key);
  if (found == of_sum_.end()) {
    const std::string above = name(a), below = name(b), x = fresh("b32"), y = fresh("b32");
    // Where the divisor is 0 the body is not known, but the division is made all the same.
    text_ += a.is_number() ? fmt::format("mov.b32 {}, {};\n", x, limit(a.constant))
                           : fmt::format("cvt.u32.u64 {}, {};\n", x, above);
    text_ += b.is_number() ? fmt::format("mov.b32 {}, {};\n", y, limit(b.constant))
                           : fmt::format("cvt.u32.u64 {}, {};\nmax.u32 {}, {}, 1;\n", y, below, y, y);
    text_ += fmt::format("{}.u32 {}, {}, {};\n", rest ? "rem" : "div", x, x, y);
    found = of_sum_.emplace(key, x).first;
  }
  return term(fmt::format("cvt.u64.u32 {{}}, {};\n", found->second), bounds);
}

// ---- Requirements

bool FenceNumbers::require(const Affine& a) {
  if (lowest(a, 3) >= 0) return true;
  if (range(a).high < 0) return false;
  if (!required_.emplace(key_of(a), true).second) return true;
  Interval& bounds = bounds_[key_of(varying(a))];
  if (a.parts[0].coefficient > 0)
    bounds.low = std::max(bounds.low, -a.constant);
  else
    bounds.high = std::min(bounds.high, a.constant);
  // What varies against a number; of numbers that are taken away, as many are had.
  Affine varies = a;
  varies.constant = 0;
  const bool flips = std::all_of(a.parts.begin(), a.parts.end(), [](const auto& part) { return part.coefficient < 0; });
  if (flips) varies = *analysis::scaled(varies, -1);
  text_ += fmt::format("setp.{}.and.s64 %pergola_fence_known, {}, {}, %pergola_fence_known;\n", flips ? "le" : "ge",
                       name(varies), flips ? a.constant : -a.constant);
  return true;
}

bool FenceNumbers::is_settled(const Affine& a) const {
  for (const Affine::Part& part : a.parts) {
    const Interval all = analysis::product(terms_[part.term].range, part.coefficient);
    if (all.high > kMostSettled || all.low < -kMostSettled) return false;
  }
  return true;
}

Affine FenceNumbers::settled(const Affine& a) {
  if (is_settled(a)) return a;
  const Interval bounds = range(a);
  const std::string named = name(a), key = "settled " + named;
  const auto found = of_text_.find(key);
  if (found != of_text_.end()) return Affine::term(found->second);
  const auto id = static_cast<analysis::TermId>(terms_.size());
  terms_.push_back({named, bounds});
  of_text_.emplace(key, id);
  return Affine::term(id);
}

bool FenceNumbers::require_multiple(const Affine& a, std::int64_t of) {
  Affine rest;
  rest.constant = a.constant & (of - 1);
  for (const Affine::Part& part : a.parts)
    if (part.coefficient % of != 0) rest.parts.push_back(part);
  if (rest.is_number()) return rest.constant == 0;
  if (!is_small(rest)) return false;
  if (required_.emplace(fmt::format("multiple of {}: {}", of, key_of(rest)), true).second) {
    const std::string low = fresh();
    text_ += fmt::format("and.b64 {}, {}, {};\nsetp.eq.and.s64 %pergola_fence_known, {}, 0, %pergola_fence_known;\n",
                         low, name(rest), of - 1, low);
  }
  return true;
}

}  // namespace pergola::transform
