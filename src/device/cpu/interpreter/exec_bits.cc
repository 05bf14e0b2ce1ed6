// Logic, shifts and bit fields (ISA 9.7.1 and 9.7.8).
//
// Shift amounts above the width are clamped, as the ISA says: the host never sees an oversized shift.
#include <algorithm>
#include <bit>
#include <type_traits>

#include "src/device/cpu/interpreter/decoder.h"
#include "src/device/cpu/interpreter/exec.h"
#include "src/device/cpu/interpreter/pick.h"

namespace pergola::device::cpu::interp {
namespace {

using ptx::Mod;
using ptx::Op;
using ptx::Type;

// Logic works on whole cells: both operands are zero-extended, or predicates.
void and_bits(Machine&, Thread& t, const Inst& i) { t.regs[i.dst] = cell(t, i.src[0]) & cell(t, i.src[1]) & i.imm; }
void or_bits(Machine&, Thread& t, const Inst& i) { t.regs[i.dst] = (cell(t, i.src[0]) | cell(t, i.src[1])) & i.imm; }
void xor_bits(Machine&, Thread& t, const Inst& i) { t.regs[i.dst] = (cell(t, i.src[0]) ^ cell(t, i.src[1])) & i.imm; }
void not_bits(Machine&, Thread& t, const Inst& i) { t.regs[i.dst] = ~cell(t, i.src[0]) & i.imm; }
void cnot_bits(Machine&, Thread& t, const Inst& i) { t.regs[i.dst] = (cell(t, i.src[0]) & i.imm) == 0 ? 1 : 0; }

template <typename T>
struct Shl {
  static void run(Machine&, Thread& t, const Inst& i) {
    const std::uint32_t by = source<std::uint32_t>(t, i, 1);
    const std::uint64_t a = static_cast<std::make_unsigned_t<T>>(source<T>(t, i, 0));
    write<std::make_unsigned_t<T>>(t, i.dst,
                                   by >= 8 * sizeof(T) ? 0 : static_cast<std::make_unsigned_t<T>>(a << by));
  }
};
template <typename T>
struct Shr {
  static void run(Machine&, Thread& t, const Inst& i) {
    const std::uint32_t by = source<std::uint32_t>(t, i, 1);
    const T a = source<T>(t, i, 0);
    T result;
    if (by >= 8 * sizeof(T))
      result = a < 0 ? static_cast<T>(-1) : T{0};
    else
      result = static_cast<T>(a >> by);
    write<T>(t, i.dst, result);
  }
};

void lop3(Machine&, Thread& t, const Inst& i) {
  const auto a = source<std::uint32_t>(t, i, 0), b = source<std::uint32_t>(t, i, 1), c = source<std::uint32_t>(t, i, 2);
  std::uint32_t result = 0;
  for (unsigned row = 0; row < 8; ++row)
    if ((i.imm >> row & 1) != 0)
      result |= ((row & 4) != 0 ? a : ~a) & ((row & 2) != 0 ? b : ~b) & ((row & 1) != 0 ? c : ~c);
  write(t, i.dst, result);
  if (i.mode == 0) return;  // lop3.BoolOp d|p, a, b, c, lut, q: mode 1 or, 2 and
  const bool q = cell(t, i.src[3]) != 0, nonzero = result != 0;
  t.regs[i.dst2] = (i.mode == 1 ? (nonzero || q) : (nonzero && q)) ? 1 : 0;
}

// shf: mode 0 left, 1 right; mode2 0 clamp, 1 wrap. a is the low word, b the high one.
void shf(Machine&, Thread& t, const Inst& i) {
  const auto a = source<std::uint32_t>(t, i, 0), b = source<std::uint32_t>(t, i, 1);
  std::uint32_t n = source<std::uint32_t>(t, i, 2);
  n = i.mode2 != 0 ? n & 31 : (n > 32 ? 32 : n);
  const std::uint64_t both = std::uint64_t{b} << 32 | a;
  write(t, i.dst, static_cast<std::uint32_t>(i.mode == 0 ? (n == 0 ? b : both >> (32 - n)) : both >> n));
}

// prmt modes: 0 default, 1 f4e, 2 b4e, 3 rc8, 4 ecl, 5 ecr, 6 rc16.
std::uint32_t permute_selector(std::uint8_t mode, std::uint32_t c) {
  static constexpr std::uint16_t kSelectors[6][4] = {
      {0x3210, 0x4321, 0x5432, 0x6543},  // f4e
      {0x5670, 0x6701, 0x7012, 0x0123},  // b4e
      {0x0000, 0x1111, 0x2222, 0x3333},  // rc8
      {0x3210, 0x3211, 0x3222, 0x3333},  // ecl
      {0x0000, 0x1110, 0x2210, 0x3210},  // ecr
      {0x1010, 0x3232, 0x1010, 0x3232},  // rc16
  };
  return mode == 0 ? c : kSelectors[mode - 1][c & 3];
}
void prmt(Machine&, Thread& t, const Inst& i) {
  const std::uint64_t bytes = std::uint64_t{source<std::uint32_t>(t, i, 1)} << 32 | source<std::uint32_t>(t, i, 0);
  const std::uint32_t selector = permute_selector(i.mode, source<std::uint32_t>(t, i, 2));
  std::uint32_t result = 0;
  for (int n = 0; n < 4; ++n) {
    const std::uint32_t nibble = selector >> (4 * n) & 15;
    auto byte = static_cast<std::uint32_t>(bytes >> (8 * (nibble & 7)) & 0xff);
    if ((nibble & 8) != 0) byte = (byte & 0x80) != 0 ? 0xff : 0;
    result |= byte << (8 * n);
  }
  write(t, i.dst, result);
}

// A field's position or length: 8 bits (ISA 9.7.1.19, 9.7.1.20). Of 64-bit fields the hardware takes all 32 bits, seen on an
// H200; everything from 64 on is alike, so 255 stands for the larger ones.
template <typename T>
std::uint32_t field_number(std::uint32_t value) {
  return sizeof(T) == 8 ? std::min(value, 255u) : value & 0xff;
}

template <typename T>
struct Bfe {
  static void run(Machine&, Thread& t, const Inst& i) {
    using U = std::make_unsigned_t<T>;
    constexpr std::uint32_t kTop = 8 * sizeof(T) - 1;
    const U a = source<U>(t, i, 0);
    const auto position = field_number<T>(source<std::uint32_t>(t, i, 1));
    const auto length = field_number<T>(source<std::uint32_t>(t, i, 2));
    bool sign = false;
    if (std::is_signed_v<T> && length != 0) sign = (a >> std::min(position + length - 1, kTop) & 1) != 0;
    U result = sign ? static_cast<U>(~U{0}) : U{0};
    for (std::uint32_t n = 0; n < length && n <= kTop; ++n) {
      if (position + n > kTop) break;
      const U one = static_cast<U>(U{1} << n);
      result = static_cast<U>((a >> (position + n) & 1) != 0 ? result | one : result & ~one);
    }
    write<U>(t, i.dst, result);
  }
};
template <typename T>
struct Bfi {
  static void run(Machine&, Thread& t, const Inst& i) {
    using U = std::make_unsigned_t<T>;
    const U a = source<U>(t, i, 0);
    U result = source<U>(t, i, 1);
    const auto position = field_number<T>(source<std::uint32_t>(t, i, 2));
    const auto length = field_number<T>(source<std::uint32_t>(t, i, 3));
    for (std::uint32_t n = 0; n < length && position + n < 8 * sizeof(T); ++n) {
      const U one = static_cast<U>(U{1} << (position + n));
      result = static_cast<U>((a >> n & 1) != 0 ? result | one : result & ~one);
    }
    write<U>(t, i.dst, result);
  }
};
template <typename T>
struct Bfind {  // mode 1: shift amount
  static void run(Machine&, Thread& t, const Inst& i) {
    using U = std::make_unsigned_t<T>;
    T a = source<T>(t, i, 0);
    U bits = static_cast<U>(a);
    if (std::is_signed_v<T> && a < 0) bits = static_cast<U>(~bits);
    std::uint32_t result = 0xffffffffu;
    if (bits != 0) {
      result = static_cast<std::uint32_t>(std::bit_width(bits) - 1);
      if (i.mode != 0) result = 8 * sizeof(T) - 1 - result;
    }
    write(t, i.dst, result);
  }
};
template <typename T>
struct Brev {
  static void run(Machine&, Thread& t, const Inst& i) {
    using U = std::make_unsigned_t<T>;
    U a = source<U>(t, i, 0), result = 0;
    for (unsigned n = 0; n < 8 * sizeof(T); ++n) result = static_cast<U>(result << 1 | (a >> n & 1));
    write<U>(t, i.dst, result);
  }
};
template <typename T>
struct Clz {
  static void run(Machine&, Thread& t, const Inst& i) {
    write(t, i.dst, static_cast<std::uint32_t>(std::countl_zero(source<std::make_unsigned_t<T>>(t, i, 0))));
  }
};
template <typename T>
struct Popc {
  static void run(Machine&, Thread& t, const Inst& i) {
    write(t, i.dst, static_cast<std::uint32_t>(std::popcount(source<std::make_unsigned_t<T>>(t, i, 0))));
  }
};
void fns(Machine&, Thread& t, const Inst& i) {
  write(t, i.dst, find_nth_set(source<std::uint32_t>(t, i, 0), source<std::uint32_t>(t, i, 1),
                               source<std::int32_t>(t, i, 2)));
}
void bmsk(Machine&, Thread& t, const Inst& i) {  // mode 1: wrap
  std::uint32_t a = source<std::uint32_t>(t, i, 0), b = source<std::uint32_t>(t, i, 1);
  if (i.mode != 0) {
    a &= 31;
    b &= 31;
  }
  const std::uint64_t ones = b >= 32 ? 0xffffffffu : (std::uint64_t{1} << b) - 1;
  write(t, i.dst, a >= 32 ? 0u : static_cast<std::uint32_t>(ones << a));
}
void szext(Machine&, Thread& t, const Inst& i) {  // mode 1: wrap; mode2 1: signed
  const auto a = source<std::uint32_t>(t, i, 0);
  std::uint32_t n = source<std::uint32_t>(t, i, 1);
  if (i.mode != 0) n &= 31;
  std::uint32_t result = a;
  if (n == 0)
    result = 0;
  else if (n < 32) {
    result = a & ((1u << n) - 1);
    if (i.mode2 != 0 && (a >> (n - 1) & 1) != 0) result |= ~((1u << n) - 1);
  }
  write(t, i.dst, result);
}

struct BitsChoice {
  LaneFn fn = nullptr;
  std::uint8_t mode = 0, mode2 = 0;
  std::uint64_t imm = 0;
};

BitsChoice choose_logic(Op op, Type type) {
  BitsChoice c;
  const std::uint32_t bytes = ptx::size_bytes(type);
  if (ptx::class_of(type) == ptx::TypeClass::kPredicate)
    c.imm = 1;
  else if (bytes == 2 || bytes == 4 || bytes == 8)
    c.imm = ~std::uint64_t{0} >> (64 - 8 * bytes);
  else
    return c;
  switch (op) {
    case Op::kAnd: c.fn = and_bits; break;
    case Op::kOr: c.fn = or_bits; break;
    case Op::kXor: c.fn = xor_bits; break;
    case Op::kNot: c.fn = not_bits; break;
    case Op::kCnot: c.fn = cnot_bits; break;
    default: break;
  }
  return c;
}

BitsChoice choose_wrap(ModReader& mods, LaneFn fn) {
  BitsChoice c;
  const bool wrap = mods.take(Mod::kWrap), clamp = mods.take(Mod::kClamp);
  if (wrap == clamp) return c;
  c.fn = fn;
  c.mode = wrap;
  return c;
}

BitsChoice choose(const ptx::Instruction& i, ModReader& mods, Type type) {
  BitsChoice c;
  switch (i.op) {
    case Op::kAnd: case Op::kOr: case Op::kXor: case Op::kNot: case Op::kCnot: return choose_logic(i.op, type);
    case Op::kShl: c.fn = pick_integer<Shl>(type); break;
    case Op::kShr: c.fn = pick_integer<Shr>(type); break;
    case Op::kBfe: c.fn = ptx::size_bytes(type) >= 4 ? pick_integer<Bfe>(type) : nullptr; break;
    case Op::kBfi: c.fn = ptx::size_bytes(type) >= 4 ? pick_integer<Bfi>(type) : nullptr; break;
    case Op::kBfind:
      c.fn = ptx::size_bytes(type) >= 4 ? pick_integer<Bfind>(type) : nullptr;
      c.mode = mods.take(Mod::kShiftamt);
      break;
    case Op::kBrev: c.fn = pick_integer<Brev>(type); break;
    case Op::kClz: c.fn = pick_integer<Clz>(type); break;
    case Op::kPopc: c.fn = pick_integer<Popc>(type); break;
    case Op::kFns: c.fn = fns; break;
    case Op::kBmsk: return choose_wrap(mods, bmsk);
    case Op::kSzext:
      c = choose_wrap(mods, szext);
      c.mode2 = type == Type::kS32;
      return c;
    case Op::kShf: {
      const bool left = mods.take(Mod::kL), right = mods.take(Mod::kR);
      const bool wrap = mods.take(Mod::kWrap), clamp = mods.take(Mod::kClamp);
      if (left != right && wrap != clamp) c = {shf, right, wrap, 0};
      break;
    }
    case Op::kPrmt: {
      c.fn = prmt;
      constexpr Mod kModes[] = {Mod::kF4e, Mod::kB4e, Mod::kRc8, Mod::kEcl, Mod::kEcr, Mod::kRc16};
      for (std::uint8_t n = 0; n < 6; ++n)
        if (mods.take(kModes[n])) c.mode = static_cast<std::uint8_t>(n + 1);
      break;
    }
    default: break;
  }
  return c;
}

Decoded decode_lop3(Decoder& d, const ptx::Instruction& i) {
  ModReader mods(i);
  mods.take_type();
  std::uint8_t mode = 0;
  if (mods.take(Mod::kOr)) mode = 1;
  if (mods.take(Mod::kAnd)) mode = 2;
  const std::size_t wanted = mode != 0 ? 6 : 5;
  if (!mods.empty() || i.operands.size() != wanted || i.operands[4].kind != ptx::Operand::Kind::kInteger)
    return d.unsupported(i);
  const ptx::Operand& destination = i.operands[0];
  const bool pair = destination.kind == ptx::Operand::Kind::kPair;
  if (pair != (mode != 0)) return d.unsupported(i);
  std::int32_t sources[4] = {kNoCell, kNoCell, kNoCell, kNoCell};
  for (int n = 0; n < 3; ++n) sources[n] = d.read(i.operands[n + 1], Type::kB32);
  if (mode != 0) sources[3] = d.read_predicate(i.operands[5]);
  const std::int32_t dst = d.write_cell(pair ? destination.elements[0] : destination);
  const std::int32_t dst2 = pair ? d.write_cell(destination.elements[1]) : kNoCell;
  Inst& inst = d.emit(lop3);
  inst.dst = dst;
  inst.dst2 = dst2;
  for (int n = 0; n < 4; ++n) inst.src[n] = sources[n];
  inst.mode = mode;
  inst.imm = i.operands[4].bits & 0xff;
  return true;
}

}  // namespace

Decoded decode_bits(Decoder& d, const ptx::Instruction& i) {
  switch (i.op) {
    case Op::kLop3: return decode_lop3(d, i);
    case Op::kAnd: case Op::kOr: case Op::kXor: case Op::kNot: case Op::kCnot: case Op::kShl: case Op::kShr:
    case Op::kBfe: case Op::kBfi: case Op::kBfind: case Op::kBrev: case Op::kClz: case Op::kPopc: case Op::kFns:
    case Op::kBmsk: case Op::kSzext: case Op::kShf: case Op::kPrmt: break;
    default: return false;
  }
  ModReader mods(i);
  const Type type = mods.take_type();
  const BitsChoice c = choose(i, mods, type);
  if (c.fn == nullptr || !mods.empty() || i.operands.size() < 2 || i.operands.size() > 5) return d.unsupported(i);
  std::int32_t sources[4] = {kNoCell, kNoCell, kNoCell, kNoCell};
  for (std::size_t n = 1; n < i.operands.size(); ++n) sources[n - 1] = d.read(i.operands[n], type);
  const std::int32_t dst = d.write_cell(i.operands[0]);
  Inst& inst = d.emit(c.fn);
  inst.dst = dst;
  for (int n = 0; n < 4; ++n) inst.src[n] = sources[n];
  inst.mode = c.mode;
  inst.mode2 = c.mode2;
  inst.imm = c.imm;
  return true;
}

}  // namespace pergola::device::cpu::interp
