// The approximate functions (ISA 9.7.3): .approx and .full divisions, roots, sin, cos, lg2, ex2, tanh.
//
// The hardware's bits are nobody's contract. Quotients and roots are computed in double and rounded once, the others as
// approximations.h has them, so they are at least as good as the error bounds that the ISA gives; special values and .ftz
// are the ISA's. 16-bit types are computed in f32 and rounded.
#include <cmath>

#include "src/device/cpu/approximations.h"
#include "src/device/cpu/interpreter/decoder.h"
#include "src/device/cpu/interpreter/exec.h"

namespace pergola::device::cpu::interp {
namespace {

using ptx::Mod;
using ptx::Op;
using ptx::Type;

using Functions = Approximations<FloatOps>;

double reciprocal(double x) { return 1.0 / x; }
double reciprocal_root(double x) { return 1.0 / std::sqrt(x); }
template <double (*kFunction)(double)>
float rounded(float x) {
  return static_cast<float>(kFunction(x));
}
float square_root(float x) { return std::sqrt(x); }
float sine(float x) { return Functions().sin(x); }
float cosine(float x) { return Functions().cos(x); }
float log_two(float x) { return Functions().lg2(x); }
float exp_two(float x) { return Functions().ex2(x); }
float hyperbolic_tangent(float x) { return Functions().tanh(x); }

template <float (*kFunction)(float)>
void f32(Machine&, Thread& t, const Inst& i) {
  float a = source<float>(t, i, 0);
  if ((i.flags & kFtz) != 0) a = flush(a);
  float result = kFunction(a);
  if ((i.flags & kFtz) != 0) result = flush(result);
  write(t, i.dst, canonical(result));
}

// f64 approximations with .ftz work on the upper 32 bits alone: the lower ones of operand and result are zero.
template <double (*kFunction)(double)>
void f64(Machine&, Thread& t, const Inst& i) {
  if ((i.flags & kFtz) == 0) return write(t, i.dst, kFunction(source<double>(t, i, 0)));  // rsqrt.approx.f64: all of it
  const std::uint64_t kHigh = 0xffffffff00000000u;
  double a = std::bit_cast<double>(cell(t, i.src[0]) & kHigh);
  if (std::fpclassify(a) == FP_SUBNORMAL) a = std::copysign(0.0, a);
  double result = kFunction(a);
  if (std::fpclassify(result) == FP_SUBNORMAL) result = std::copysign(0.0, result);
  std::uint64_t bits = std::bit_cast<std::uint64_t>(result) & kHigh;
  if (std::isnan(result)) bits = 0x7fffffff00000000u;
  t.regs[i.dst] = bits;
}

template <float (*kFunction)(float)>
std::uint16_t half_bits(std::uint16_t bits, FloatFormat format, bool ftz) {
  auto a = static_cast<float>(widen(bits, format));
  const int sign = 1 << 15, exponent = ((1 << format.exponent_bits) - 1) << format.mantissa_bits;
  if (ftz && (bits & exponent) == 0) a = std::copysign(0.0f, a);
  auto result = static_cast<std::uint16_t>(round_double(kFunction(a), format, Rounding::kNearestEven));
  if (ftz && (result & exponent) == 0) result = static_cast<std::uint16_t>(result & sign);
  return result;
}
template <float (*kFunction)(float)>
void half(Machine&, Thread& t, const Inst& i) {  // mode 1: bf16; mode2 1: two of them
  const FloatFormat format = i.mode != 0 ? kBf16Format : kF16Format;
  const bool ftz = (i.flags & kFtz) != 0;
  const std::uint64_t a = cell(t, i.src[0]);
  std::uint32_t result = half_bits<kFunction>(static_cast<std::uint16_t>(a), format, ftz);
  if (i.mode2 != 0) result |= std::uint32_t{half_bits<kFunction>(static_cast<std::uint16_t>(a >> 16), format, ftz)} << 16;
  t.regs[i.dst] = result;
}

template <float (*kFunction)(float)>
LaneFn narrow(Type type) {
  switch (type) {
    case Type::kF32: return f32<kFunction>;
    case Type::kF16: case Type::kF16x2: case Type::kBF16: case Type::kBF16x2: return half<kFunction>;
    default: return nullptr;
  }
}

// div.approx: zero for 2^126 < |b| < 2^128, as its definition by a × (1/b) with a flushed 1/b has it; .full scales.
void divide(Machine&, Thread& t, const Inst& i) {
  float a = source<float>(t, i, 0), b = source<float>(t, i, 1);
  if ((i.flags & kFtz) != 0) {
    a = flush(a);
    b = flush(b);
  }
  float result = static_cast<float>(static_cast<double>(a) / b);
  if ((i.flags & kApprox) != 0 && std::fabs(b) > 0x1p126f && std::isfinite(b)) {
    result = std::isinf(a) ? std::bit_cast<float>(kCanonicalNan32)
                           : std::copysign(0.0f, std::signbit(a) != std::signbit(b) ? -1.0f : 1.0f);
    if (std::isnan(a)) result = a;
  }
  if ((i.flags & kFtz) != 0) result = flush(result);
  write(t, i.dst, canonical(result));
}

LaneFn function_of(Op op, Type type) {
  switch (op) {
    case Op::kRcp: return type == Type::kF64 ? f64<reciprocal> : narrow<rounded<reciprocal>>(type);
    case Op::kRsqrt: return type == Type::kF64 ? f64<reciprocal_root> : narrow<rounded<reciprocal_root>>(type);
    case Op::kSqrt: return narrow<square_root>(type);
    case Op::kSin: return narrow<sine>(type);
    case Op::kCos: return narrow<cosine>(type);
    case Op::kLg2: return narrow<log_two>(type);
    case Op::kEx2: return narrow<exp_two>(type);
    case Op::kTanh: return narrow<hyperbolic_tangent>(type);
    case Op::kDiv: return type == Type::kF32 ? divide : nullptr;
    default: return nullptr;
  }
}

}  // namespace

Decoded decode_approx(Decoder& d, const ptx::Instruction& i) {
  ModReader mods(i);
  const Type type = mods.take_type();
  const LaneFn fn = function_of(i.op, type);
  if (fn == nullptr) return false;
  const bool approx = mods.take(Mod::kApprox), full = mods.take(Mod::kFull);
  if (approx == full) return d.unsupported(i);
  std::uint16_t flags = approx ? kApprox : 0;
  if (mods.take(Mod::kFtz)) flags |= kFtz;
  const std::size_t operands = i.op == Op::kDiv ? 3 : 2;
  if (!mods.empty() || i.operands.size() != operands) return d.unsupported(i);
  const std::int32_t a = d.read(i.operands[1], type);
  const std::int32_t b = operands == 3 ? d.read(i.operands[2], type) : kNoCell;
  const std::int32_t dst = d.write_cell(i.operands[0]);
  Inst& inst = d.emit(fn);
  inst.dst = dst;
  inst.src[0] = a;
  inst.src[1] = b;
  inst.flags = flags;
  inst.mode = type == Type::kBF16 || type == Type::kBF16x2;
  inst.mode2 = type == Type::kF16x2 || type == Type::kBF16x2;
  return true;
}

}  // namespace pergola::device::cpu::interp
