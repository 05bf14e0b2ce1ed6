// cvt and cvt.pack (ISA 9.7.9.21 and 9.7.9.22).
//
// A conversion goes source bits → (integer with sign, or double) → rounded once to the destination, so every pair of
// types shares one path: the values of all formats up to f64 and of 64-bit integers are exact in between.
#include <algorithm>
#include <cmath>
#include <optional>

#include "src/device/cpu/interpreter/decoder.h"
#include "src/device/cpu/interpreter/exec.h"

namespace pergola::device::cpu::interp {
namespace {

using ptx::Mod;
using ptx::Op;
using ptx::Type;

// Inst: mode the rounding, mode2 the source type, width the destination type, imm the mask of the register,
// extra: 1 where the mode rounds to an integral value.

bool is_integer(Type type) {
  const ptx::TypeClass c = ptx::class_of(type);
  return c == ptx::TypeClass::kSigned || c == ptx::TypeClass::kUnsigned;
}

double float_value(std::uint64_t bits, Type type) {
  switch (type) {
    case Type::kF16: return widen(bits & 0xffff, kF16Format);
    case Type::kBF16: return widen(bits & 0xffff, kBf16Format);
    case Type::kF64: return std::bit_cast<double>(bits);
    default: return static_cast<double>(std::bit_cast<float>(static_cast<std::uint32_t>(bits)));
  }
}

FloatFormat format_of(Type type) {
  switch (type) {
    case Type::kF16: case Type::kF16x2: return kF16Format;
    case Type::kBF16: case Type::kBF16x2: return kBf16Format;
    case Type::kTF32: return kTf32Format;
    case Type::kF64: return kF64Format;
    default: return kF32Format;
  }
}

std::uint64_t extend(std::uint64_t bits, int width, bool is_signed) {
  if (width == 64) return bits;
  bits &= (std::uint64_t{1} << width) - 1;
  if (is_signed && (bits >> (width - 1)) != 0) bits |= ~std::uint64_t{0} << width;
  return bits;
}

// Clamps a sign- or zero-extended integer to the destination's range.
std::uint64_t clamp_integer(std::uint64_t value, bool source_signed, int width, bool is_signed) {
  const std::uint64_t top = std::uint64_t{1} << (width - 1);
  const bool negative = source_signed && static_cast<std::int64_t>(value) < 0;
  if (is_signed) {
    if (negative) return static_cast<std::int64_t>(value) < static_cast<std::int64_t>(~(top - 1)) ? ~(top - 1) : value;
    return value > top - 1 ? top - 1 : value;
  }
  if (negative) return 0;
  const std::uint64_t most = width == 64 ? ~std::uint64_t{0} : (std::uint64_t{1} << width) - 1;
  return std::min(value, most);
}

// Rounds `value` to a float type, with relu, sat and satfinite; the bits right-aligned, tf32 as an f32.
std::uint64_t narrow(double value, Type type, Rounding rounding, std::uint16_t flags) {
  const FloatFormat format = format_of(type);
  if ((flags & kSat) != 0) value = saturate(value);
  if ((flags & kRelu) != 0 && !std::isnan(value) && std::signbit(value)) value = 0;
  if (type == Type::kF64) return std::bit_cast<std::uint64_t>(value);
  std::uint64_t bits = round_double(value, format, rounding);
  const int sign_shift = format.exponent_bits + format.mantissa_bits;
  const std::uint64_t infinity = ((std::uint64_t{1} << format.exponent_bits) - 1) << format.mantissa_bits;
  const std::uint64_t magnitude = bits & ((std::uint64_t{1} << sign_shift) - 1);
  if ((flags & kSatfinite) != 0 && magnitude == infinity) bits -= 1;
  if (type == Type::kTF32) bits = std::isnan(value) ? kCanonicalNan32 : bits << 13;
  if (type == Type::kF32 && (flags & kFtz) != 0)
    bits = std::bit_cast<std::uint32_t>(flush(std::bit_cast<float>(static_cast<std::uint32_t>(bits))));
  return bits;
}

// The bits of a NaN that goes from one float type to another, as an H200 makes them.
//   wider:    bf16 -> f32 is a shift; f16, bf16 and f32 -> f64 keep sign and payload, and make it quiet
//   tf32:     .rna cuts payload bits off, .satfinite takes one more in the last place; .rn and .rz give 0x7fffe000
//   narrower: f64 -> any keeps the sign and the top of the payload; the rest gives the canonical NaN of the type
// Nothing of this where the instruction flushes, saturates or rounds to an integral value: those compute, and give what
// computing gives.
std::optional<std::uint64_t> converted_nan(std::uint64_t raw, Type from, Type to, const Inst& i) {
  const bool computes = i.extra != 0 || (i.flags & (kFtz | kSat)) != 0;
  const double value = float_value(raw, from);
  if (!std::isnan(value) || (i.flags & kSat) != 0) return std::nullopt;
  if (to == Type::kF32) {
    if (from == Type::kF64) return std::bit_cast<std::uint32_t>(static_cast<float>(value));
    if (computes) return std::nullopt;
    if (from == Type::kBF16) return raw << 16 & 0xffffffffu;
    if (from == Type::kF32) return raw & 0xffffffffu;
  } else if (to == Type::kF64) {
    if (from == Type::kF16) return (raw & 0x8000) << 48 | 0x7ff8000000000000u | (raw & 0x3ff) << 42;
    if (from == Type::kBF16) return (raw & 0x8000) << 48 | 0x7ff8000000000000u | (raw & 0x7f) << 45;
    if (from == Type::kF32 && computes) return 0x7fffffffe0000000u;
    if (from == Type::kF64) return i.extra != 0 ? raw | std::uint64_t{1} << 51 : raw;
  } else if (from == Type::kF64 && to == Type::kF16) {
    return (raw >> 48 & 0x8000) | 0x7e00 | (raw >> 42 & 0x3ff);
  } else if (from == Type::kF64 && to == Type::kBF16) {
    return (raw >> 48 & 0x8000) | 0x7fc0 | (raw >> 45 & 0x7f);
  } else if (to == Type::kTF32) {
    if (static_cast<Rounding>(i.mode) != Rounding::kNearestAway) return 0x7fffe000u;
    return (raw & 0xffffe000u) - ((i.flags & kSatfinite) != 0 ? 0x2000u : 0u);
  }
  return std::nullopt;
}

void convert(Machine&, Thread& t, const Inst& i) {
  const auto from = static_cast<Type>(i.mode2), to = static_cast<Type>(i.width);
  const auto rounding = static_cast<Rounding>(i.mode);
  const std::uint64_t raw = cell(t, i.src[0]);
  const int to_width = 8 * static_cast<int>(ptx::size_bytes(to));
  std::uint64_t result;
  if (is_integer(from)) {
    const bool from_signed = ptx::is_signed(from);
    const std::uint64_t value = extend(raw, 8 * static_cast<int>(ptx::size_bytes(from)), from_signed);
    if (is_integer(to)) {
      const bool saturating = (i.flags & kSat) != 0;
      result = extend(saturating ? clamp_integer(value, from_signed, to_width, ptx::is_signed(to)) : value, to_width,
                      ptx::is_signed(to));
    } else {
      const bool negative = from_signed && static_cast<std::int64_t>(value) < 0;
      result = integer_to_float(negative, negative ? ~value + 1 : value, format_of(to), rounding);
      if ((i.flags & kSat) != 0) result = narrow(float_value(result, to), to, rounding, kSat);
    }
  } else {
    double value = float_value(raw, from);
    // To f16 the hardware does not flush, though .ftz may be written there.
    if (from == Type::kF32 && to != Type::kF16 && (i.flags & kFtz) != 0) value = flush(static_cast<float>(value));
    if (is_integer(to)) {
      result = float_to_integer(value, from == Type::kF64, to_width, ptx::is_signed(to), rounding);
    } else {
      if (i.extra != 0) value = round_to_integral(value, rounding);
      const std::optional<std::uint64_t> nan = converted_nan(raw, from, to, i);
      result = nan ? *nan : narrow(value, to, rounding, i.flags);
    }
  }
  t.regs[i.dst] = result & i.imm;
}

// Two f32 to a pair: a goes to the upper half, b to the lower.
void convert_pair(Machine&, Thread& t, const Inst& i) {
  const auto to = static_cast<Type>(i.width);
  std::uint64_t halves[2];
  for (int n = 0; n < 2; ++n) {
    float a = source<float>(t, i, n);
    if ((i.flags & kRelu) != 0 && (to == Type::kE4M3x2 || to == Type::kE5M2x2) && !std::isnan(a) && std::signbit(a)) a = 0;
    if (to == Type::kE4M3x2)
      halves[n] = double_to_e4m3(a);
    else if (to == Type::kE5M2x2)
      halves[n] = double_to_e5m2(a);
    else
      halves[n] = narrow(a, to, static_cast<Rounding>(i.mode), i.flags);
  }
  t.regs[i.dst] = halves[0] << (i.imm) | halves[1];
}

// f16x2 ↔ a pair of 8-bit floats.
void convert_fp8(Machine&, Thread& t, const Inst& i) {
  const auto from = static_cast<Type>(i.mode2), to = static_cast<Type>(i.width);
  const std::uint64_t raw = cell(t, i.src[0]);
  std::uint64_t result = 0;
  for (int n = 0; n < 2; ++n) {
    if (from == Type::kF16x2) {
      double value = widen(raw >> (16 * n) & 0xffff, kF16Format);
      if ((i.flags & kRelu) != 0 && !std::isnan(value) && std::signbit(value)) value = 0;
      const std::uint64_t byte = to == Type::kE4M3x2 ? double_to_e4m3(value) : double_to_e5m2(value);
      result |= byte << (8 * n);
    } else {
      const auto byte = static_cast<std::uint8_t>(raw >> (8 * n));
      const double value = from == Type::kE4M3x2 ? e4m3_to_double(byte) : e5m2_to_double(byte);
      result |= narrow(value, Type::kF16, Rounding::kNearestEven, i.flags & kRelu) << (16 * n);
    }
  }
  t.regs[i.dst] = result;
}

// cvt.pack.sat: mode2 the source type, width the element type. With c: the two elements go below c's, shifted up.
void convert_pack(Machine&, Thread& t, const Inst& i) {
  const auto to = static_cast<Type>(i.width);
  const bool source_signed = ptx::is_signed(static_cast<Type>(i.mode2));
  const int width = static_cast<int>(i.imm);
  const std::uint64_t mask = (std::uint64_t{1} << width) - 1;
  auto clamp = [&](int n) {
    return clamp_integer(extend(cell(t, i.src[n]), 32, source_signed), source_signed, width, ptx::is_signed(to)) & mask;
  };
  std::uint64_t result = clamp(0) << width | clamp(1);
  if (i.src[2] != kNoCell) result |= cell(t, i.src[2]) << (2 * width);
  t.regs[i.dst] = result & 0xffffffffu;
}

std::uint64_t register_mask(Decoder& d, const ptx::Operand& o, Type type) {
  std::uint32_t bytes = ptx::size_bytes(type);
  if (o.kind == ptx::Operand::Kind::kRegister) bytes = ptx::size_bytes(d.register_type(o.reg));
  return bytes >= 8 ? ~std::uint64_t{0} : (std::uint64_t{1} << (8 * bytes)) - 1;
}

bool convertible(Type type) {
  return is_integer(type) || type == Type::kF16 || type == Type::kBF16 || type == Type::kF32 || type == Type::kF64;
}

Decoded decode_pack(Decoder& d, const ptx::Instruction& i) {
  ModReader mods(i);
  const bool saturating = mods.take(Mod::kSat);
  const Type to = mods.take_type(), from = mods.take_type(), carried = mods.take_type();
  mods.take_type();
  const bool three = i.operands.size() == 4;
  if (!saturating || !is_integer(to) || (from != Type::kS32 && from != Type::kU32) || ptx::size_bytes(to) > 2 ||
      (three && carried != Type::kB32) || i.operands.size() < 3 || i.operands.size() > 4)
    return d.unsupported(i);
  std::int32_t sources[3] = {kNoCell, kNoCell, kNoCell};
  for (std::size_t n = 1; n < i.operands.size(); ++n) sources[n - 1] = d.read(i.operands[n], Type::kB32);
  const std::int32_t dst = d.write_cell(i.operands[0]);
  Inst& inst = d.emit(convert_pack);
  inst.dst = dst;
  for (int n = 0; n < 3; ++n) inst.src[n] = sources[n];
  inst.mode2 = static_cast<std::uint8_t>(from);
  inst.width = static_cast<std::uint8_t>(to);
  inst.imm = 8 * ptx::size_bytes(to);
  return true;
}

bool rounds_to_integral(const ptx::Instruction& i) {
  return i.has(Mod::kRni) || i.has(Mod::kRzi) || i.has(Mod::kRmi) || i.has(Mod::kRpi);
}

LaneFn choose(Type to, Type from, std::size_t operands) {
  const bool fp8_to = to == Type::kE4M3x2 || to == Type::kE5M2x2;
  const bool fp8_from = from == Type::kE4M3x2 || from == Type::kE5M2x2;
  if (operands == 3)
    return from == Type::kF32 && (fp8_to || to == Type::kF16x2 || to == Type::kBF16x2) ? convert_pair : nullptr;
  if (operands != 2) return nullptr;
  if ((fp8_to && from == Type::kF16x2) || (fp8_from && to == Type::kF16x2)) return convert_fp8;
  if (to == Type::kTF32) return from == Type::kF32 ? convert : nullptr;
  return convertible(to) && convertible(from) ? convert : nullptr;
}

}  // namespace

Decoded decode_convert(Decoder& d, const ptx::Instruction& i) {
  if (i.op != Op::kCvt) return false;
  if (i.mods.size() >= 3 && ptx::spelling(i.mods[0]) == "pack") return decode_pack(d, i);
  ModReader mods(i);
  const Rounding rounding = mods.take_rounding(Rounding::kNearestEven);
  std::uint16_t flags = 0;
  if (mods.take(Mod::kFtz)) flags |= kFtz;
  if (mods.take(Mod::kSat)) flags |= kSat;
  if (mods.take(Mod::kSatfinite)) flags |= kSatfinite;
  if (mods.take(Mod::kRelu)) flags |= kRelu;
  const Type to = mods.take_type(), from = mods.take_type();
  const LaneFn fn = choose(to, from, i.operands.size());
  if (fn == nullptr || !mods.empty()) return d.unsupported(i);
  const std::int32_t a = d.read(i.operands[1], from);
  const std::int32_t b = i.operands.size() == 3 ? d.read(i.operands[2], from) : kNoCell;
  const std::int32_t dst = d.write_cell(i.operands[0]);
  Inst& inst = d.emit(fn);
  inst.dst = dst;
  inst.src[0] = a;
  inst.src[1] = b;
  inst.mode = static_cast<std::uint8_t>(rounding);
  inst.mode2 = static_cast<std::uint8_t>(from);
  inst.width = static_cast<std::uint8_t>(to);
  inst.extra = rounds_to_integral(i) ? 1 : 0;
  inst.flags = flags;
  inst.imm = register_mask(d, i.operands[0], to);
  if (fn == convert_pair) inst.imm = to == Type::kF16x2 || to == Type::kBF16x2 ? 16 : 8;
  return true;
}

}  // namespace pergola::device::cpu::interp
