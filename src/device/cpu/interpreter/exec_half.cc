// Arithmetic of f16, bf16 and their pairs (ISA 9.7.4): add, sub, mul, fma, min, max, abs, neg.
//
// Each is computed in double, exactly or rounded to odd, and rounded once to the format. NaN results are 0x7fff.
#include <cmath>

#include "src/device/cpu/interpreter/decoder.h"
#include "src/device/cpu/interpreter/exec.h"

namespace pergola::device::cpu::interp {
namespace {

using ptx::Mod;
using ptx::Op;
using ptx::Type;

// Inst::mode: the operation. Inst::mode2: bit 0 bf16, bit 1 a pair.
enum HalfOperation : std::uint8_t { kAddOp, kSubOp, kMulOp, kFmaOp, kMinOp, kMaxOp, kAbsOp, kNegOp };

std::uint16_t flush_bits(std::uint16_t bits, FloatFormat format) {
  const auto exponent = static_cast<std::uint16_t>(((1u << format.exponent_bits) - 1) << format.mantissa_bits);
  return (bits & exponent) == 0 ? static_cast<std::uint16_t>(bits & 0x8000) : bits;
}

bool is_nan(std::uint16_t bits, FloatFormat format) {
  const auto exponent = static_cast<std::uint16_t>(((1u << format.exponent_bits) - 1) << format.mantissa_bits);
  return (bits & 0x7fff) > exponent;
}

std::uint16_t extreme(const Inst& i, std::uint16_t a, std::uint16_t b, FloatFormat format) {
  std::uint16_t sign = 0;
  if ((i.flags & kXorsign) != 0) {
    sign = static_cast<std::uint16_t>((a ^ b) & 0x8000);
    a &= 0x7fff;
    b &= 0x7fff;
  }
  const double x = widen(a, format), y = widen(b, format);
  const double value = min_max(x, y, i.mode == kMaxOp, (i.flags & kNan) != 0);
  if (std::isnan(value)) return kCanonicalNan16;
  return static_cast<std::uint16_t>(round_double(value, format, Rounding::kNearestEven)) ^ sign;
}

std::uint16_t compute(const Inst& i, std::uint16_t a, std::uint16_t b, std::uint16_t c, FloatFormat format) {
  if ((i.flags & kFtz) != 0) {
    a = flush_bits(a, format);
    b = flush_bits(b, format);
    c = flush_bits(c, format);
  }
  constexpr Rounding kNearest = Rounding::kNearestEven;
  const double x = widen(a, format), y = widen(b, format), z = widen(c, format);
  double value = 0;
  switch (i.mode) {
    case kAddOp: value = add_to_odd(x, y, kNearest); break;
    case kSubOp: value = add_to_odd(x, -y, kNearest); break;
    case kMulOp: value = x * y; break;
    case kFmaOp: value = fma_to_odd(x, y, z, kNearest); break;
    case kAbsOp: return is_nan(a, format) ? kCanonicalNan16 : static_cast<std::uint16_t>(a & 0x7fff);
    case kNegOp: return is_nan(a, format) ? kCanonicalNan16 : static_cast<std::uint16_t>(a ^ 0x8000);
    default: return extreme(i, a, b, format);
  }
  auto result = static_cast<std::uint16_t>(round_double(value, format, kNearest));
  if ((i.flags & kFtz) != 0) {
    const bool product = i.mode == kMulOp || i.mode == kFmaOp;
    if (product && rounds_below_normal(value, format, kNearest)) result = static_cast<std::uint16_t>(result & 0x8000);
    result = flush_bits(result, format);
  }
  if ((i.flags & kSat) != 0)
    result = static_cast<std::uint16_t>(round_double(saturate(widen(result, format)), format, kNearest));
  if ((i.flags & kRelu) != 0 && !is_nan(result, format) && (result & 0x8000) != 0) result = 0;
  return result;
}

void run_half(Machine&, Thread& t, const Inst& i) {
  const FloatFormat format = (i.mode2 & 1) != 0 ? kBf16Format : kF16Format;
  std::uint64_t in[3] = {0, 0, 0};
  for (int n = 0; n < 3; ++n)
    if (i.src[n] != kNoCell) in[n] = cell(t, i.src[n]);
  std::uint32_t result = 0;
  for (int half = 0; half < ((i.mode2 & 2) != 0 ? 2 : 1); ++half) {
    const int by = 16 * half;
    result |= std::uint32_t{compute(i, static_cast<std::uint16_t>(in[0] >> by), static_cast<std::uint16_t>(in[1] >> by),
                                    static_cast<std::uint16_t>(in[2] >> by), format)}
              << by;
  }
  t.regs[i.dst] = result;
}

std::optional<HalfOperation> operation_of(Op op) {
  switch (op) {
    case Op::kAdd: return kAddOp;
    case Op::kSub: return kSubOp;
    case Op::kMul: return kMulOp;
    case Op::kFma: return kFmaOp;
    case Op::kMin: return kMinOp;
    case Op::kMax: return kMaxOp;
    case Op::kAbs: return kAbsOp;
    case Op::kNeg: return kNegOp;
    default: return std::nullopt;
  }
}

}  // namespace

Decoded decode_half(Decoder& d, const ptx::Instruction& i) {
  ModReader mods(i);
  const Type type = mods.take_type();
  const bool bf16 = type == Type::kBF16 || type == Type::kBF16x2;
  const bool pair = type == Type::kF16x2 || type == Type::kBF16x2;
  if (!bf16 && !pair && type != Type::kF16) return false;
  const auto operation = operation_of(i.op);
  if (!operation) return false;
  std::uint16_t flags = 0;
  if (*operation <= kFmaOp) {
    bool found = false;
    if (mods.take_rounding(Rounding::kNearestEven, &found) != Rounding::kNearestEven) return d.unsupported(i);
    if (mods.take(Mod::kSat)) flags |= kSat;
    if (*operation == kFmaOp && mods.take(Mod::kRelu)) flags |= kRelu;
  }
  if (mods.take(Mod::kFtz)) flags |= kFtz;
  if (*operation == kMinOp || *operation == kMaxOp) {
    if (mods.take(Mod::kNaN)) flags |= kNan;
    if (mods.take(Mod::kXorsign)) flags |= kXorsign;
    mods.take(Mod::kAbs);  // always with .xorsign
  }
  if (!mods.empty() || i.operands.size() < 2 || i.operands.size() > 4) return d.unsupported(i);
  std::int32_t sources[3] = {kNoCell, kNoCell, kNoCell};
  for (std::size_t n = 1; n < i.operands.size(); ++n) sources[n - 1] = d.read(i.operands[n], type);
  const std::int32_t dst = d.write_cell(i.operands[0]);
  Inst& inst = d.emit(run_half);
  inst.dst = dst;
  for (int n = 0; n < 3; ++n) inst.src[n] = sources[n];
  inst.mode = *operation;
  inst.mode2 = static_cast<std::uint8_t>((bf16 ? 1 : 0) | (pair ? 2 : 0));
  inst.flags = flags;
  return true;
}

}  // namespace pergola::device::cpu::interp
