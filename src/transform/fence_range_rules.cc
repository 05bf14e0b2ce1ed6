// What each instruction makes of ranges (ISA 9.7.1, 9.7.8, 9.7.9). What is not here has none.
#include <algorithm>
#include <bit>
#include <cstdlib>
#include <numeric>

#include "src/ptx/semantics.h"
#include "src/transform/fence_ranges.h"
#include "src/transform/task_barriers.h"

namespace pergola::transform {
namespace {

using ptx::Instruction;
using ptx::Mod;
using ptx::Op;
using ptx::Operand;
using ptx::Type;

bool is_unsigned(Type type) {
  return !ptx::is_signed(type);
}

}  // namespace

// ---- Ranges of numbers

FenceRanges::Range FenceRanges::point(const Number& number) {
  if (!number) return std::nullopt;
  return FenceRange{*number, *number, *number, 0};
}

FenceRanges::Range FenceRanges::between(std::int64_t low, std::int64_t high) {
  return FenceRange{Affine::number(low), Affine::number(high), {}, 1};
}

FenceRanges::Range FenceRanges::sum(const Range& a, const Range& b, std::int64_t factor) const {
  if (!a || !b) return std::nullopt;
  const Number low = numbers_.sum(a->low, factor < 0 ? b->high : b->low, factor);
  const Number high = numbers_.sum(a->high, factor < 0 ? b->low : b->high, factor);
  const Number anchor = numbers_.sum(a->anchor, b->anchor, factor);
  if (!low || !high || !anchor) return std::nullopt;
  return FenceRange{*low, *high, *anchor, std::gcd(a->stride, b->stride * std::abs(factor))};
}

FenceRanges::Range FenceRanges::hull(const Range& a, const Range& b) {
  if (!a || !b) return std::nullopt;
  const Number low = numbers_.least(a->low, b->low), high = numbers_.greatest(a->high, b->high);
  const Number apart = numbers_.sum(a->anchor, b->anchor, -1);
  if (!low || !high || !apart) return std::nullopt;
  return FenceRange{*low, *high, a->anchor, std::gcd(std::gcd(a->stride, b->stride), divisor_of(*apart))};
}

FenceRanges::Range FenceRanges::times(const Range& a, const Range& b) {
  if (!a || !b) return std::nullopt;
  if (b->is_point() ? false : a->is_point() || (a->is_one() && !b->is_one())) return times(b, a);
  const Affine &by_low = b->is_one() ? b->anchor : b->low, &by_high = b->is_one() ? b->anchor : b->high;
  const bool is_large = !numbers_.product(a->low, by_low) || !numbers_.product(a->high, by_high);
  if (is_large) {
    const Range x = as_number(a, Type::kS32), y = as_number(b, Type::kS32);
    const bool is_other = x && y && !(x->high == a->high && y->high == b->high && x->low == a->low && y->low == b->low);
    if (is_other) return times(x, y);
  }
  const Number low = numbers_.product(a->low, by_low), high = numbers_.product(a->high, by_high);
  if (!low || !high) return std::nullopt;
  const Interval of_a = numbers_.range(a->low);
  const bool rises = numbers_.range(b->low).low >= 0, falls = numbers_.range(b->high).high <= 0;
  if (!b->is_one()) return of_a.low >= 0 && rises ? Range(FenceRange{*low, *high, {}, 1}) : std::nullopt;
  const Number first = rises ? low : falls ? high : numbers_.least(*low, *high);
  const Number last = rises ? high : falls ? low : numbers_.greatest(*low, *high);
  Number anchor = numbers_.product(a->anchor, b->anchor);
  if (!first || !last || (!anchor && a->is_one())) return std::nullopt;
  if (!anchor) return FenceRange{*first, *last, {}, 1};
  const __int128 stride = static_cast<__int128>(a->stride) * std::max<std::int64_t>(divisor_of(b->anchor), 1);
  return FenceRange{*first, *last, *anchor, stride > FenceNumbers::kMost ? 1 : static_cast<std::int64_t>(stride)};
}

// As an instruction of that type reads the register.
FenceRanges::Range FenceRanges::as_number(const Range& range, Type type) {
  if (!range) return std::nullopt;
  const std::uint32_t bytes = ptx::size_bytes(type);
  if (bytes != 4 && bytes != 8) return std::nullopt;
  if (is_unsigned(type) && !numbers_.require(range->low)) return std::nullopt;
  if (bytes == 8) return range;  // no number is as large as the type
  const std::int64_t half = std::int64_t{1} << 31;
  const std::int64_t least = is_unsigned(type) ? 0 : -half, most = is_unsigned(type) ? 2 * half - 1 : half - 1;
  const auto require_within = [&](const Affine& end, bool from_below, bool from_above) {
    const Number below = numbers_.sum(Affine::number(most), end, -1);
    const Number above = numbers_.sum(end, Affine::number(least), -1);
    return below && above && (!from_above || numbers_.require(*below)) && (!from_below || numbers_.require(*above));
  };
  const bool is_settled =
      numbers_.is_settled(range->low) && numbers_.is_settled(range->high) && numbers_.is_settled(range->anchor);
  if (!require_within(range->low, true, !is_settled) || !require_within(range->high, !is_settled, true))
    return std::nullopt;
  if (is_settled) return range;
  const Affine low = numbers_.settled(range->low);
  if (range->is_point()) return point(low);
  return FenceRange{low, numbers_.settled(range->high), {}, 1};
}

// ---- Instructions

FenceRanges::Range FenceRanges::written(const analysis::SsaValue& value, std::uint32_t where) {
  const std::uint32_t s = value.statement;
  const Instruction& in = instruction(s);
  const auto read = [&](std::size_t n) { return operand_at(s, in.operands[n], where); };
  if (in.op == Op::kLd) return load(s);
  if (in.operands.empty() || in.operands[0].kind != Operand::Kind::kRegister || in.operands[0].component >= 0 ||
      in.has(Mod::kSat) || in.has(Mod::kCc))
    return std::nullopt;
  if (in.op == Op::kCvt) return converted(s, where);
  const std::uint32_t bytes = ptx::size_bytes(in.type());
  if (in.op == Op::kCvta) return in.space() == ptx::Space::kGlobal ? read(1) : std::nullopt;
  if (ptx::is_float(in.type()) || (bytes != 4 && bytes != 8)) return std::nullopt;
  switch (in.op) {
    case Op::kMov: return in.operands.size() == 2 ? read(1) : std::nullopt;
    case Op::kAdd: return sum(read(1), read(2));
    case Op::kSub: return subtracted(s, where);
    case Op::kNeg: return sum(point(Affine::number(0)), read(1), -1);
    case Op::kNot: return sum(point(Affine::number(-1)), read(1), -1);
    case Op::kMul:
    case Op::kMad: return multiplied(s, where);
    case Op::kShl: {
      const Operand& by = in.operands[2];
      if (by.kind != Operand::Kind::kInteger || by.bits >= 8 * bytes || by.bits > 60) return std::nullopt;
      return times(read(1), point(Affine::number(std::int64_t{1} << by.bits)));
    }
    case Op::kShr:
    case Op::kBfe:
    case Op::kAnd:
    case Op::kOr: return bits(s, where);
    case Op::kDiv:
    case Op::kRem: return divided(s, where);
    case Op::kSelp: return hull(read(1), read(2));
    case Op::kMin:
    case Op::kMax: {
      if (in.operands.size() != 3) return std::nullopt;
      const Range a = as_number(read(1), in.type()), b = as_number(read(2), in.type());
      Range both = hull(a, b);
      if (!both) return std::nullopt;
      const Number end = in.op == Op::kMin ? numbers_.least(a->high, b->high) : numbers_.greatest(a->low, b->low);
      if (!end) return std::nullopt;
      (in.op == Op::kMin ? both->high : both->low) = *end;
      return both;
    }
    default: return std::nullopt;
  }
}

FenceRanges::Range FenceRanges::multiplied(std::uint32_t s, std::uint32_t where) {
  const Instruction& in = instruction(s);
  const Type type = in.type();
  if (in.has(Mod::kHi)) return std::nullopt;
  const bool is_wide = in.has(Mod::kWide);
  if (is_wide && ptx::size_bytes(type) != 4) return std::nullopt;
  Range a = operand_at(s, in.operands[1], where), b = operand_at(s, in.operands[2], where);
  if (is_wide) {
    a = as_number(a, type);
    b = as_number(b, type);
  }
  const Range product = times(a, b);
  return in.op == Op::kMul ? product : sum(product, operand_at(s, in.operands[3], where));
}

// x - x / n * n, as compilers write a remainder whose quotient they have.
FenceRanges::Range FenceRanges::remainder_by_hand(std::uint32_t s, std::uint32_t where) {
  const Instruction& in = instruction(s);
  const ValueId whole = value_of(s, in.operands[1]), multiple = value_of(s, in.operands[2]);
  const Instruction* mul = definition(s, in.operands[2]);
  if (whole == analysis::kNoValue || mul == nullptr || mul->op != Op::kMul || mul->has(Mod::kWide) ||
      mul->has(Mod::kHi))
    return std::nullopt;
  const std::uint32_t at = ssa_.value(multiple).statement;
  for (const std::size_t n : {1, 2}) {
    const Instruction* div = definition(at, mul->operands[n]);
    if (div == nullptr || div->op != Op::kDiv || div->type() == Type::kNone || ptx::is_float(div->type())) continue;
    const std::uint32_t divides = ssa_.value(value_of(at, mul->operands[n])).statement;
    if (value_of(divides, div->operands[1]) != whole) continue;
    const Operand &by = div->operands[2], &other = mul->operands[3 - n];
    const bool is_same = by.kind == Operand::Kind::kRegister ? value_of(divides, by) != analysis::kNoValue &&
                                                                   value_of(divides, by) == value_of(at, other)
                                                             : by.kind == Operand::Kind::kInteger && by == other;
    if (is_same) return quotient(divides, where, true);
  }
  return std::nullopt;
}

FenceRanges::Range FenceRanges::subtracted(std::uint32_t s, std::uint32_t where) {
  const Instruction& in = instruction(s);
  if (Range rest = remainder_by_hand(s, where)) return rest;
  return sum(operand_at(s, in.operands[1], where), operand_at(s, in.operands[2], where), -1);
}

FenceRanges::Range FenceRanges::divided(std::uint32_t s, std::uint32_t where) {
  return quotient(s, where, instruction(s).op == Op::kRem);
}

// Of the division that is statement `s`: the quotient, or what is left over. Neither number may be negative.
FenceRanges::Range FenceRanges::quotient(std::uint32_t s, std::uint32_t where, bool rest) {
  const Instruction& in = instruction(s);
  if (ptx::size_bytes(in.type()) != 4) return std::nullopt;
  const Range a = as_number(operand_at(s, in.operands[1], where), in.type());
  const Range b = as_number(operand_at(s, in.operands[2], where), in.type());
  if (!a || !b || !numbers_.require(a->low)) return std::nullopt;
  const Number above = numbers_.sum(b->low, Affine::number(1), -1);
  if (!above || !numbers_.require(*above)) return std::nullopt;
  if (a->is_point() && b->is_point()) return point(numbers_.quotient(a->low, b->low, rest));
  FenceRange result{{}, {}, {}, 1};
  const Number top = numbers_.greatest(a->high, {});
  Number high = top && !rest ? numbers_.quotient(*top, b->low) : numbers_.sum(b->high, Affine::number(1), -1);
  if (high && rest) high = numbers_.least(*high, a->high);
  if (!high) return std::nullopt;
  result.high = *high;
  return result;
}

FenceRanges::Range FenceRanges::bits(std::uint32_t s, std::uint32_t where) {
  const Instruction& in = instruction(s);
  const auto read = [&](std::size_t n) { return operand_at(s, in.operands[n], where); };
  const std::uint32_t width = 8 * ptx::size_bytes(in.type());
  const auto constant = [&](std::size_t n) -> std::optional<std::int64_t> {
    if (in.operands[n].kind != Operand::Kind::kInteger) return std::nullopt;
    return width == 32 ? static_cast<std::int32_t>(in.operands[n].bits)
                       : static_cast<std::int64_t>(in.operands[n].bits);
  };
  if (in.op == Op::kShr) {
    const auto by = constant(2);
    const Range a = as_number(read(1), in.type());
    if (!by || !a || *by < 0 || *by >= width) return std::nullopt;
    const Number low = numbers_.shifted_right(a->low, static_cast<std::uint32_t>(*by));
    const Number high = numbers_.shifted_right(a->high, static_cast<std::uint32_t>(*by));
    if (!low || !high) return std::nullopt;
    return a->is_point() ? point(low) : FenceRange{*low, *high, {}, 1};
  }
  if (in.op == Op::kBfe) {
    const auto from = constant(2), length = constant(3);
    if (ptx::is_signed(in.type()) || !from || !length || *length <= 0 || *length > 31) return std::nullopt;
    return between(0, (std::int64_t{1} << *length) - 1);
  }
  const std::size_t at = constant(2) ? 2 : 1;
  const auto mask = constant(at);
  if (!mask || std::abs(*mask / 2) > FenceNumbers::kMost / 2) return std::nullopt;
  const Range other = read(3 - at);
  return in.op == Op::kAnd ? masked(other, *mask) : set_bits(other, *mask);
}

FenceRanges::Range FenceRanges::masked(const Range& a, std::int64_t mask) {
  if (mask == 0) return point(Affine::number(0));
  const std::int64_t step = mask & -mask;
  if (mask < 0) {
    if (!a) return std::nullopt;
    if (a->is_point()) return point(numbers_.masked(a->low, mask));
    const Number low = numbers_.sum(a->low, Affine::number(~mask), -1);
    return low ? Range(FenceRange{*low, a->high, {}, step}) : std::nullopt;
  }
  FenceRange result{{}, Affine::number(mask), {}, step};
  if (!a) return result;
  const Interval low = numbers_.range(a->low), high = numbers_.range(a->high);
  if (low.low >= 0 && high.high <= mask && (mask & (mask + 1)) == 0) return a;
  if (a->is_point()) return point(numbers_.masked(a->low, mask));
  if (low.low >= 0 && high.high < mask) result.high = a->high;
  return result;
}

// Where none of the bits is set it is an addition; else it adds them at most.
FenceRanges::Range FenceRanges::set_bits(const Range& a, std::int64_t mask) {
  if (!a || mask < 0) return std::nullopt;
  const std::int64_t above = static_cast<std::int64_t>(std::bit_ceil(static_cast<std::uint64_t>(mask) + 1));
  if (divisor_of(a->anchor) % above == 0 && a->stride % above == 0) return sum(a, point(Affine::number(mask)));
  if (numbers_.range(a->low).low < 0) return std::nullopt;
  const Number high = numbers_.sum(a->high, Affine::number(mask));
  return high ? Range(FenceRange{a->low, *high, {}, 1}) : std::nullopt;
}

FenceRanges::Range FenceRanges::converted(std::uint32_t s, std::uint32_t where) {
  const Instruction& in = instruction(s);
  const Type to = in.type(0), from = in.type(1);
  if (ptx::is_float(to) || ptx::is_float(from)) return std::nullopt;
  const std::uint32_t wide = ptx::size_bytes(to), narrow = ptx::size_bytes(from);
  if (narrow < 4 && narrow > 0 && wide > narrow) {
    const std::int64_t all = std::int64_t{1} << (8 * narrow);
    if (is_unsigned(from)) return between(0, all - 1);
    return ptx::is_signed(to) ? between(-all / 2, all / 2 - 1) : std::nullopt;
  }
  if ((wide != 4 && wide != 8) || (narrow != 4 && narrow != 8)) return std::nullopt;
  const Range value = operand_at(s, in.operands[1], where);
  return wide > narrow ? as_number(value, from) : value;
}

// The task's parameters are the same from the begin of the body on; of what else is loaded only the type is known.
FenceRanges::Range FenceRanges::load(std::uint32_t s) {
  const Instruction& in = instruction(s);
  const Operand& address = in.operands.at(1);
  if (address.kind == Operand::Kind::kAddress && address.elements.size() == 1 &&
      address.elements[0].kind == Operand::Kind::kRegister && is_given_[address.elements[0].reg] &&
      in.operands[0].kind == Operand::Kind::kRegister) {
    if (function_.registers[address.elements[0].reg].name == kParametersName) return point(numbers_.loaded(in));
  }
  const std::uint32_t bytes = ptx::size_bytes(in.type());
  if (ptx::is_float(in.type()) || (bytes != 1 && bytes != 2)) return std::nullopt;
  const std::int64_t all = std::int64_t{1} << (8 * bytes);
  return ptx::is_signed(in.type()) ? between(-all / 2, all / 2 - 1) : between(0, all - 1);
}

}  // namespace pergola::transform
