// What each instruction makes of whole numbers (ISA 9.7.1, 9.7.2, 9.7.8, 9.7.9), as expressions. What is not here gives
// an unknown number with the bounds of its type.
#include <bit>
#include <cstring>

#include <fmt/format.h>

#include "src/analysis/footprint_symbols.h"

namespace pergola::analysis {
namespace {

using ptx::Instruction;
using ptx::Mod;
using ptx::Op;
using ptx::Operand;
using ptx::Type;

std::uint32_t bits_of(Type type) {
  return 8 * ptx::size_bytes(type);
}

// The unsigned type as wide, for .b types, which shr and bfe read as unsigned.
Type as_integer(Type type) {
  switch (type) {
    case Type::kB16: return Type::kU16;
    case Type::kB32: return Type::kU32;
    case Type::kB64: return Type::kU64;
    default: return type;
  }
}

std::optional<std::int64_t> number_of(const Affine& a) {
  if (!a.is_number()) return std::nullopt;
  return a.constant;
}

}  // namespace

Affine FootprintSymbols::special(const Operand& operand) {
  const auto axis = static_cast<std::uint32_t>(operand.component < 0 ? 0 : operand.component);
  if (axis > 2) return Affine::number(0);
  switch (operand.special) {
    case ptx::Special::kTid: return values_.block[axis] == 1 ? Affine::number(0) : Affine::term(thread_[axis]);
    case ptx::Special::kCtaid: return values_.grid[axis] == 1 ? Affine::number(0) : Affine::term(block_[axis]);
    case ptx::Special::kNtid: return Affine::number(values_.block[axis]);
    case ptx::Special::kNctaid: return Affine::number(values_.grid[axis]);
    case ptx::Special::kLaneid: return terms_.unknown({0, 31}, "%laneid");
    default: return terms_.unknown({}, std::string(ptx::spelling(operand.special)));
  }
}

Affine FootprintSymbols::symbol(const Operand& operand) {
  // Scopes are not followed: a name that several variables have, or a parameter too, may be any of them.
  const ptx::Variable* variable = kernel_.module->find_variable(operand.name);
  std::size_t found = variable != nullptr;
  for (const ptx::Statement& statement : kernel_.function->body) {
    const auto* local = std::get_if<ptx::Variable>(&statement.node);
    if (local != nullptr && local->name == operand.name) variable = local, ++found;
  }
  bool is_elsewhere = variable != nullptr && variable->space != ptx::Space::kGlobal;
  for (const ptx::Variable& parameter : kernel_.function->parameters)
    if (parameter.name == operand.name) is_elsewhere = true, ++found;
  std::optional<Affine> base;
  if (found > 1) {
    return terms_.unknown({}, fmt::format("the address of one of several {}", operand.name));
  } else if (is_elsewhere) {
    const auto [known, is_new] = elsewhere_of_.emplace(operand.name, TermId{});
    if (is_new) known->second = terms_.add({.kind = Term::Kind::kElsewhere});
    base = Affine::term(known->second);
  } else {
    for (const LaunchValues::ModuleVariable& known : values_.variables) {
      if (known.name == operand.name) base = Affine::term(base_of(known.allocation, known.allocation_bytes));
    }
  }
  const auto moved = base ? sum(*base, Affine::number(1), operand.offset) : std::nullopt;
  return moved ? *moved : terms_.unknown({}, fmt::format("the address of {}", operand.name));
}

// An address of shared, local or parameter memory as one of all memory, or the other way round: elsewhere again, as far
// from another such address as before.
Affine FootprintSymbols::converted_address(const Affine& address, bool is_to) {
  std::optional<TermId> from;
  std::size_t others = 0;
  for (const Affine::Part& part : address.parts) {
    const Term::Kind kind = terms_[part.term].kind;
    if (kind == Term::Kind::kElsewhere && part.coefficient == 1 && !from)
      from = part.term;
    else
      others += kind == Term::Kind::kElsewhere || kind == Term::Kind::kBase;
  }
  if (!from || others != 0) return Affine::term(terms_.add({.kind = Term::Kind::kElsewhere}));
  const auto [known, is_new] = converted_.emplace(std::pair(*from, is_to), TermId{});
  if (is_new) known->second = terms_.add({.kind = Term::Kind::kElsewhere});
  const auto rest = sum(address, Affine::term(*from), -1);
  const auto moved = rest ? sum(*rest, Affine::term(known->second)) : std::nullopt;
  return moved ? *moved : Affine::term(terms_.add({.kind = Term::Kind::kElsewhere}));
}

Affine FootprintSymbols::instruction_value(std::uint32_t statement, ptx::RegisterId reg) {
  const Instruction& instruction = *kernel_.function->body[statement].instruction();
  if (instruction.op == Op::kLd || instruction.op == Op::kLdu) return loaded(statement, instruction, reg);
  if (instruction.operands.empty() || instruction.operands[0].kind != Operand::Kind::kRegister ||
      instruction.operands[0].component >= 0) {
    return unknown_of(reg, statement, "a part of a result");
  }
  const auto result = arithmetic(statement, instruction, kernel_.ssa->written(statement, reg));
  if (result) return *result;
  Affine unknown = unknown_of(reg, statement, fmt::format("`{}`", ptx::spelling(instruction.op)));
  if (auto origin = origin_of(statement, instruction)) terms_.at(unknown.parts[0].term).reason = std::move(*origin);
  return unknown;
}

std::optional<Affine> FootprintSymbols::arithmetic(std::uint32_t statement, const Instruction& instruction,
                                                   ValueId result) {
  const auto& operands = instruction.operands;
  const auto read = [&](std::size_t i) { return operand(statement, operands[i]); };
  const Type type = instruction.type();
  if (instruction.has(Mod::kSat) || ptx::is_float(type)) return std::nullopt;
  if (type == Type::kU16x2 || type == Type::kS16x2) return std::nullopt;  // two numbers
  switch (instruction.op) {
    case Op::kMov:
      if (operands[1].kind == Operand::Kind::kVector) return std::nullopt;
      return read(1);
    case Op::kCvta: {
      Affine value = read(1);
      const ptx::Space space = instruction.space();
      if (space == ptx::Space::kGlobal) return value;
      return converted_address(value, instruction.has(Mod::kTo));
    }
    case Op::kAdd: return sum(read(1), read(2));
    case Op::kSub: return instruction.has(Mod::kCc) ? std::nullopt : sum(read(1), read(2), -1);
    case Op::kNeg: return scaled(read(1), -1);
    case Op::kNot: {
      const auto negative = scaled(read(1), -1);
      return negative ? sum(*negative, Affine::number(1), -1) : std::nullopt;
    }
    case Op::kMul:
    case Op::kMad: return multiply(statement, instruction);
    case Op::kMul24:
    case Op::kMad24: return multiply_24(statement, instruction);
    case Op::kShl: {
      const auto by = number_of(as_number(read(2), Type::kU32, statement));
      if (!by || *by < 0) return std::nullopt;
      return *by >= bits_of(type) ? Affine::number(0)
             : *by >= 62          ? std::nullopt
                                  : scaled(read(1), std::int64_t{1} << *by);
    }
    case Op::kShr:
    case Op::kBfe: return shift_right(statement, instruction);
    case Op::kDiv:
    case Op::kRem: return divide(statement, instruction);
    case Op::kAnd:
    case Op::kOr:
    case Op::kXor: return bitwise(statement, instruction);
    case Op::kCvt: return convert(statement, instruction);
    case Op::kMin:
    case Op::kMax:
    case Op::kAbs: return extreme(statement, instruction);
    case Op::kSelp: return either(read(1), read(2), result, fmt::format("one of two values at {}", place(statement)));
    case Op::kPopc:
    case Op::kClz: return terms_.unknown({0, 64}, fmt::format("a count of bits at {}", place(statement)));
    default: return std::nullopt;
  }
}

std::optional<Affine> FootprintSymbols::times(const Affine& a, const Affine& b) {
  if (a.is_number()) return scaled(b, a.constant);
  if (b.is_number()) return scaled(a, b.constant);
  const Interval bounds = product(terms_.range(a), terms_.range(b));
  if (!bounds.is_bounded()) return std::nullopt;
  return terms_.combined(Term::Kind::kProduct, a, b);
}

// .lo is arithmetic modulo 2^bits, which needs no proof; .wide and .hi read numbers.
std::optional<Affine> FootprintSymbols::multiply(std::uint32_t statement, const Instruction& instruction) {
  const auto& operands = instruction.operands;
  const Type type = instruction.type();
  const bool as_numbers = instruction.has(Mod::kWide) || instruction.has(Mod::kHi);
  if (instruction.has(Mod::kCc)) return std::nullopt;
  Affine factors[2];
  for (std::size_t i = 0; i < 2; ++i) {
    factors[i] = operand(statement, operands[i + 1]);
    if (as_numbers) factors[i] = as_number(factors[i], type, statement);
  }
  // A product of two expressions is one of numbers: residues have no bounds of their own.
  if (!as_numbers && !factors[0].is_number() && !factors[1].is_number()) {
    const Type number = ptx::is_signed(type) ? type : as_integer(type);
    for (Affine& factor : factors) factor = as_number(factor, number, statement);
  }
  auto result = times(factors[0], factors[1]);
  if (result && instruction.has(Mod::kHi)) {
    if (bits_of(type) > 32) return std::nullopt;
    result = terms_.quotient(*result, std::int64_t{1} << bits_of(type));
  }
  if (!result || instruction.op == Op::kMul) return result;
  return sum(*result, operand(statement, operands[3]));
}

// Of numbers that have no more than 24 bits it is a product.
std::optional<Affine> FootprintSymbols::multiply_24(std::uint32_t statement, const Instruction& instruction) {
  const Interval fits =
      ptx::is_signed(instruction.type()) ? Interval{-(1 << 23), (1 << 23) - 1} : Interval{0, (1 << 24) - 1};
  if (instruction.has(Mod::kHi)) return std::nullopt;
  Affine factors[2];
  for (std::size_t i = 0; i < 2; ++i) {
    factors[i] = as_number(operand(statement, instruction.operands[i + 1]), instruction.type(), statement);
    if (!terms_.range(factors[i]).is_within(fits)) return std::nullopt;
  }
  auto result = times(factors[0], factors[1]);
  if (!result || instruction.op == Op::kMul24) return result;
  return sum(*result, operand(statement, instruction.operands[3]));
}

std::optional<Affine> FootprintSymbols::shift_right(std::uint32_t statement, const Instruction& instruction) {
  const auto& operands = instruction.operands;
  const Type type = as_integer(instruction.type());
  const auto by = number_of(operand(statement, operands[2]));
  if (!by || *by < 0 || *by >= bits_of(type) || *by > 61) return std::nullopt;
  const std::int64_t divisor = std::int64_t{1} << *by;
  if (instruction.op == Op::kShr) {
    return terms_.quotient(as_number(operand(statement, operands[1]), type, statement), divisor);
  }
  const auto length = number_of(operand(statement, operands[3]));
  if (ptx::is_signed(type) || !length || *length < 0 || *length + *by > bits_of(type) || *length > 61)
    return std::nullopt;
  const Affine shifted = terms_.quotient(operand(statement, operands[1]), divisor);
  const std::int64_t modulus = std::int64_t{1} << *length;
  return sum(shifted, terms_.quotient(shifted, modulus), -modulus);
}

std::optional<Affine> FootprintSymbols::divide(std::uint32_t statement, const Instruction& instruction) {
  const Type type = as_integer(instruction.type());
  const Affine dividend = as_number(operand(statement, instruction.operands[1]), type, statement);
  const auto divisor = number_of(as_number(operand(statement, instruction.operands[2]), type, statement));
  if (!divisor || *divisor <= 0) return std::nullopt;
  // Signed division rounds towards zero: the same only where nothing is negative.
  Interval range = terms_.range(dividend);
  if (range.low < 0) range = terms_.range(dividend, conditions(kernel_.ssa->block_of(statement)));
  if (range.low < 0 && optimism_ == 0) return std::nullopt;
  Affine quotient = terms_.quotient(dividend, *divisor);
  if (instruction.op == Op::kDiv) return quotient;
  return sum(dividend, quotient, -*divisor);
}

std::optional<Affine> FootprintSymbols::bitwise(std::uint32_t statement, const Instruction& instruction) {
  Affine a = operand(statement, instruction.operands[1]), b = operand(statement, instruction.operands[2]);
  const Type type = as_integer(instruction.type());
  if (bits_of(type) < 16) return std::nullopt;
  if (a.is_number()) std::swap(a, b);
  if (a.is_number() && b.is_number()) {
    switch (instruction.op) {
      case Op::kAnd: return Affine::number(a.constant & b.constant);
      case Op::kOr: return Affine::number(a.constant | b.constant);
      default: return Affine::number(a.constant ^ b.constant);
    }
  }
  const auto modulo = [&](const Affine& x, std::int64_t modulus) {
    return sum(x, terms_.quotient(x, modulus), -modulus);
  };
  if (instruction.op == Op::kAnd && b.is_number()) {
    const std::uint64_t all = bits_of(type) == 64 ? ~std::uint64_t{0} : (std::uint64_t{1} << bits_of(type)) - 1;
    const std::uint64_t mask = static_cast<std::uint64_t>(b.constant) & all;
    if (mask == 0) return Affine::number(0);
    const int low = std::countr_zero(mask), ones = std::countr_one(mask >> low);
    if (ones < 64 && (mask >> low) >> ones != 0) {  // several runs of ones
      const auto number = static_cast<std::int64_t>(mask);
      const auto masked = terms_.with_bits(Term::Kind::kAnd, a, number);
      return masked ? masked : terms_.with_bits(Term::Kind::kAnd, as_number(a, type, statement), number);
    }
    const int top = low + ones;
    std::optional<Affine> kept = a;
    // Bits above the mask: none where it reaches the top of the register.
    if (top < static_cast<int>(bits_of(type))) {
      if (top > 61) return std::nullopt;
      kept = modulo(a, std::int64_t{1} << top);
    }
    if (!kept || low == 0) return kept;
    if (low > 61) return std::nullopt;
    return scaled(terms_.quotient(*kept, std::int64_t{1} << low), std::int64_t{1} << low);
  }
  if (b.is_number()) {
    const bool is_or = instruction.op == Op::kOr;
    if (auto made = with_number(is_or, a, b.constant, bits_of(type))) return made;
    return with_number(is_or, as_number(a, type, statement), b.constant, bits_of(type));
  }
  a = as_number(a, type, statement);
  b = as_number(b, type, statement);
  const Interval of_a = terms_.range(a, {}), of_b = terms_.range(b, {});
  if (!of_a.is_bounded() || !of_b.is_bounded() || of_a.low < 0 || of_b.low < 0) return std::nullopt;
  const std::string reason = origin_of({&a, &b}).value_or(fmt::format("bits combined at {}", place(statement)));
  if (instruction.op == Op::kAnd) return terms_.unknown({0, std::min(of_a.high, of_b.high)}, reason);
  // Disjoint bits: as an addition.
  for (const auto& [high, low, range] : {std::tuple(&a, &b, of_b), std::tuple(&b, &a, of_a)}) {
    const int width = std::bit_width(static_cast<std::uint64_t>(range.high));
    if (width < 62 && is_multiple(*high, std::int64_t{1} << width)) return sum(*high, *low);
  }
  // The lower number's bits are all that changes: an aligned group of 2^width numbers is not left.
  const Affine& higher = of_a.high < of_b.high ? b : a;
  const int width = std::bit_width(static_cast<std::uint64_t>(std::min(of_a.high, of_b.high)));
  if (width > 61) return std::nullopt;
  const std::int64_t group = std::int64_t{1} << width;
  return sum(terms_.unknown({0, group - 1}, reason), terms_.quotient(higher, group), group);
}

// `a` | number or `a` ^ number, modulo 2^bits; nullopt where a has no bounds.
std::optional<Affine> FootprintSymbols::with_number(bool is_or, const Affine& a, std::int64_t number,
                                                    std::uint32_t bits) {
  const std::uint32_t unused = 64 - bits;
  number = static_cast<std::int64_t>(static_cast<std::uint64_t>(number) << unused) >> unused;
  const auto inverted = [](const std::optional<Affine>& x) { return x ? sum(Affine::number(-1), *x, -1) : x; };
  if (number < 0 && is_or) {  // a | n = ~(~a & ~n)
    const auto not_a = inverted(a);
    return not_a ? inverted(terms_.with_bits(Term::Kind::kAnd, *not_a, ~number)) : not_a;
  }
  if (number < 0) return inverted(terms_.with_bits(Term::Kind::kXor, a, ~number));
  const Interval range = terms_.range(a, {});  // disjoint bits: as an addition
  const auto ones = static_cast<std::uint64_t>(number);
  const bool is_below = range.is_bounded() && range.low >= 0 && number != 0 &&
                        range.high < std::int64_t{1} << std::min(std::countr_zero(ones), 62);
  const int width = std::bit_width(ones);
  if (is_below || (width < 62 && is_multiple(a, std::int64_t{1} << width))) return sum(a, Affine::number(number));
  return terms_.with_bits(is_or ? Term::Kind::kOr : Term::Kind::kXor, a, number);
}

std::optional<Affine> FootprintSymbols::convert(std::uint32_t statement, const Instruction& instruction) {
  const Type to = instruction.type(0), from = instruction.type(1);
  if (ptx::is_float(to) || ptx::is_float(from)) {
    return ptx::is_float(to) ? std::nullopt : std::optional(unknown_of(to, statement, "a number made of a float"));
  }
  const Affine value = operand(statement, instruction.operands[1]);
  const Affine made = bits_of(to) <= bits_of(from) ? value : as_number(value, as_integer(from), statement);
  // Narrower than the register that holds it: extended again (ISA 9.4.1).
  const Type in = kernel_.function->registers[instruction.operands[0].reg].type;
  return bits_of(to) < bits_of(in) ? as_number(made, as_integer(to), statement) : made;
}

std::optional<Affine> FootprintSymbols::extreme(std::uint32_t statement, const Instruction& instruction) {
  const Type type = instruction.type();
  if (bits_of(type) < 16 || instruction.has(Mod::kRelu)) return std::nullopt;
  const Affine a = as_number(operand(statement, instruction.operands[1]), type, statement);
  if (instruction.op == Op::kAbs) {
    const auto negative = scaled(a, -1);
    return negative ? std::optional(terms_.combined(Term::Kind::kMax, a, *negative)) : std::nullopt;
  }
  if (instruction.operands.size() != 3) return std::nullopt;
  const Affine b = as_number(operand(statement, instruction.operands[2]), type, statement);
  const bool is_min = instruction.op == Op::kMin;
  const Interval of_a = terms_.range(a), of_b = terms_.range(b);
  if (of_a.high <= of_b.low) return is_min ? a : b;
  if (of_b.high <= of_a.low) return is_min ? b : a;
  Affine chosen = terms_.combined(is_min ? Term::Kind::kMin : Term::Kind::kMax, a, b);
  // Of 2^63 and more as_number() would make a negative number, with the lower bound of this one.
  if (type == Type::kU64 && !is_min && !terms_.range(chosen).has_high()) return std::nullopt;
  return chosen;
}

std::optional<Affine> FootprintSymbols::parameter_at(std::uint64_t offset, Type type) {
  const std::uint32_t bytes = ptx::size_bytes(type);
  if (bytes == 8) {
    for (const LaunchValues::Pointer& pointer : values_.pointers) {
      if (pointer.offset_bytes != offset) continue;
      return sum(Affine::term(base_of(pointer.allocation, pointer.allocation_bytes)), Affine::number(pointer.position));
    }
  }
  for (const LaunchValues::Pointer& pointer : values_.pointers) {  // half of a pointer is no number
    if (offset < pointer.offset_bytes + 8 && pointer.offset_bytes < offset + bytes) return std::nullopt;
  }
  if (bytes == 0 || bytes > 8 || ptx::is_float(type) || offset + bytes > values_.parameters.size()) return std::nullopt;
  std::uint64_t bits = 0;
  std::memcpy(&bits, values_.parameters.data() + offset, bytes);
  // A residue, small as a signed one: compilers load an `int` by .u32, and as_number() makes it unsigned where it
  // counts as that.
  if (bytes == 4) return Affine::number(static_cast<std::int32_t>(bits));
  if (ptx::is_signed(type)) {
    const std::uint32_t unused = 64 - 8 * bytes;
    return Affine::number(static_cast<std::int64_t>(bits << unused) >> unused);
  }
  return Affine::number(static_cast<std::int64_t>(bits));
}

Affine FootprintSymbols::loaded(std::uint32_t statement, const Instruction& instruction, ptx::RegisterId reg) {
  const Type type = instruction.type();
  const Operand& to = instruction.operands[0];
  std::size_t index = 0;
  if (to.kind == Operand::Kind::kVector) {
    while (index < to.elements.size() && to.elements[index].reg != reg) ++index;
    // A register that is there twice: PTX does not say which of them it has.
    for (std::size_t other = index + 1; other < to.elements.size(); ++other)
      if (to.elements[other].reg == reg) return unknown_of(type, statement, "loaded");
  }
  const Operand& address = instruction.operands[1];
  if (instruction.space() == ptx::Space::kParam && !address.elements.empty() &&
      address.elements[0].kind == Operand::Kind::kSymbol) {
    for (const ptx::Parameter& parameter : kernel_.signature.parameters) {
      if (parameter.name != address.elements[0].name) continue;
      const std::int64_t offset = parameter.offset_bytes + address.elements[0].offset + address.offset +
                                  static_cast<std::int64_t>(index * ptx::size_bytes(type));
      const auto value = offset < 0 ? std::nullopt : parameter_at(static_cast<std::uint64_t>(offset), type);
      if (!value) continue;
      // As with cvt.
      const bool is_wider = bits_of(kernel_.function->registers[reg].type) > bits_of(type);
      return is_wider ? as_number(*value, as_integer(type), statement) : *value;
    }
  }
  return unknown_of(type, statement, "loaded");
}

}  // namespace pergola::analysis
