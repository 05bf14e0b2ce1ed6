// f32 and f64 arithmetic whose bits the ISA fixes (ISA 9.7.3): add, sub, mul, fma, div, sqrt, rcp, min, max, abs, neg,
// copysign, testp. What is approximate is in exec_approx.cc, 16-bit floats are in exec_half.cc.
#include <cmath>

#include "src/device/cpu/interpreter/decoder.h"
#include "src/device/cpu/interpreter/exec.h"

namespace pergola::device::cpu::interp {
namespace {

using ptx::Mod;
using ptx::Op;
using ptx::Type;

template <typename F>
F operand(const Thread& t, const Inst& i, int n) {
  F value = source<F>(t, i, n);
  if constexpr (std::is_same_v<F, float>) {
    // add, sub and fma of .f32.f16 and .f32.bf16: all but the addend are narrower.
    if ((i.flags & (kFactorF16 | kFactorBf16)) != 0 && n < (i.src[2] == kNoCell ? 1 : 2)) {
      const auto bits = static_cast<std::uint16_t>(cell(t, i.src[n]));
      return (i.flags & kFactorF16) != 0 ? half_to_float(bits) : bf16_to_float(bits);
    }
    if ((i.flags & kFtz) != 0) value = flush(value);
  }
  return value;
}
template <typename F>
void finish(Thread& t, const Inst& i, F value) {
  if constexpr (std::is_same_v<F, float>) {
    if ((i.flags & kFtz) != 0) value = flush(value);
    value = canonical(value);
  }
  if ((i.flags & kSat) != 0) value = saturate(value);
  write(t, i.dst, value);
}
Rounding rounding_of(const Inst& i) { return static_cast<Rounding>(i.mode); }

// .ftz of a*b+c: a result that only rounding to f32's own range made the smallest normal number is flushed too.
template <typename F>
F flush_tiny(const Inst& i, F value, F a, F b, F c) {
  if constexpr (std::is_same_v<F, float>) {
    const bool doubtful = (i.flags & kFtz) != 0 && std::fabs(value) == 0x1p-126f;
    if (doubtful && rounds_below_normal(fma_to_odd(a, b, c, rounding_of(i)), kF32Format, rounding_of(i)))
      return std::copysign(0.0f, value);
  }
  return value;
}

template <typename F>
struct Arithmetic {
  static F plus(F a, F b, Rounding r) {
    if constexpr (std::is_same_v<F, float>) return add_f32(a, b, r);
    else return add_f64(a, b, r);
  }
  static F times(F a, F b, Rounding r) {
    if constexpr (std::is_same_v<F, float>) return mul_f32(a, b, r);
    else return mul_f64(a, b, r);
  }
  static F fused(F a, F b, F c, Rounding r) {
    if constexpr (std::is_same_v<F, float>) return fma_f32(a, b, c, r);
    else return fma_f64(a, b, c, r);
  }
  static F over(F a, F b, Rounding r) {
    if constexpr (std::is_same_v<F, float>) return div_f32(a, b, r);
    else return div_f64(a, b, r);
  }
  static F root(F a, Rounding r) {
    if constexpr (std::is_same_v<F, float>) return sqrt_f32(a, r);
    else return sqrt_f64(a, r);
  }

  static void add(Machine&, Thread& t, const Inst& i) {
    finish<F>(t, i, plus(operand<F>(t, i, 0), operand<F>(t, i, 1), rounding_of(i)));
  }
  static void sub(Machine&, Thread& t, const Inst& i) {
    const F b = operand<F>(t, i, 1);
    finish<F>(t, i, plus(operand<F>(t, i, 0), std::isnan(b) ? b : -b, rounding_of(i)));
  }
  static void mul(Machine&, Thread& t, const Inst& i) {
    const F a = operand<F>(t, i, 0), b = operand<F>(t, i, 1);
    finish<F>(t, i, flush_tiny(i, times(a, b, rounding_of(i)), a, b, F{0}));
  }
  static void fma(Machine&, Thread& t, const Inst& i) {
    const F a = operand<F>(t, i, 0), b = operand<F>(t, i, 1), c = operand<F>(t, i, 2);
    finish<F>(t, i, flush_tiny(i, fused(a, b, c, rounding_of(i)), a, b, c));
  }
  static void div(Machine&, Thread& t, const Inst& i) {
    finish<F>(t, i, over(operand<F>(t, i, 0), operand<F>(t, i, 1), rounding_of(i)));
  }
  static void rcp(Machine&, Thread& t, const Inst& i) {
    finish<F>(t, i, over(F{1}, operand<F>(t, i, 0), rounding_of(i)));
  }
  static void sqrt(Machine&, Thread& t, const Inst& i) {
    finish<F>(t, i, root(operand<F>(t, i, 0), rounding_of(i)));
  }
  // A NaN of f32 becomes the canonical one, of f64 a quiet one of its own sign and payload.
  static F nan_of(F a) {
    if constexpr (std::is_same_v<F, float>) return canonical(a);
    else return quiet(a);
  }
  static void abs(Machine&, Thread& t, const Inst& i) {
    const F a = operand<F>(t, i, 0);
    write(t, i.dst, std::isnan(a) ? nan_of(a) : std::fabs(a));
  }
  static void neg(Machine&, Thread& t, const Inst& i) {
    const F a = operand<F>(t, i, 0);
    write(t, i.dst, std::isnan(a) ? nan_of(a) : -a);
  }
  static void copysign(Machine&, Thread& t, const Inst& i) {  // d gets a's sign and b's magnitude
    write(t, i.dst, std::copysign(source<F>(t, i, 1), source<F>(t, i, 0)));
  }

  // mode 1: max. Three operands where src[2] is there.
  static F pick(F a, F b, const Inst& i) {
    bool negative = false;
    if ((i.flags & kXorsign) != 0) {
      negative = std::signbit(a) != std::signbit(b);
      a = std::fabs(a);
      b = std::fabs(b);
    }
    const F value = min_max(a, b, i.mode != 0, (i.flags & kNan) != 0);
    return negative && !std::isnan(value) ? -value : value;
  }
  static void extreme(Machine&, Thread& t, const Inst& i) {
    auto input = [&](int n) {
      F value = operand<F>(t, i, n);
      return (i.flags & kAbs) != 0 && (i.flags & kXorsign) == 0 ? std::fabs(value) : value;
    };
    F value = pick(input(0), input(1), i);
    if (i.src[2] != kNoCell) value = pick(value, input(2), i);
    write(t, i.dst, value);
  }

  // mode: which test.
  static void testp(Machine&, Thread& t, const Inst& i) {
    const int kind = std::fpclassify(source<F>(t, i, 0));
    bool result = false;
    switch (i.mode) {
      case 0: result = kind != FP_NAN && kind != FP_INFINITE; break;
      case 1: result = kind == FP_INFINITE; break;
      case 2: result = kind != FP_NAN; break;
      case 3: result = kind == FP_NAN; break;
      case 4: result = kind == FP_NORMAL || kind == FP_ZERO; break;  // zero counts as normal (ISA 9.7.3.1)
      default: result = kind == FP_SUBNORMAL; break;
    }
    write(t, i.dst, result);
  }

  static LaneFn of(Op op) {
    switch (op) {
      case Op::kAdd: return add;
      case Op::kSub: return sub;
      case Op::kMul: return mul;
      case Op::kFma:
      case Op::kMad: return fma;
      case Op::kDiv: return div;
      case Op::kRcp: return rcp;
      case Op::kSqrt: return sqrt;
      case Op::kAbs: return abs;
      case Op::kNeg: return neg;
      case Op::kMin:
      case Op::kMax: return extreme;
      case Op::kCopysign: return copysign;
      case Op::kTestp: return testp;
      default: return nullptr;
    }
  }
};

// Two f32 in 64 bits (add, sub, mul and fma of .f32x2).
template <LaneFn kScalar>
void packed(Machine& m, Thread& t, const Inst& i) {
  std::uint64_t inputs[3] = {0, 0, 0};
  for (int n = 0; n < 3; ++n)
    if (i.src[n] != kNoCell) inputs[n] = cell(t, i.src[n]);
  // Runs the scalar handler on a small frame of its own: cells 0..2 the operands, 3 the result.
  std::uint64_t cells[4];
  Inst scalar = i;
  for (int n = 0; n < 3; ++n) scalar.src[n] = n;
  scalar.dst = 3;
  std::uint64_t result = 0;
  std::uint64_t* const regs = t.regs;
  for (int half = 0; half < 2; ++half) {
    for (int n = 0; n < 3; ++n) cells[n] = inputs[n] >> (32 * half) & 0xffffffffu;
    t.regs = cells;
    kScalar(m, t, scalar);
    result |= cells[3] << (32 * half);
  }
  t.regs = regs;
  t.regs[i.dst] = result;
}

LaneFn packed_of(Op op) {
  switch (op) {
    case Op::kAdd: return packed<Arithmetic<float>::add>;
    case Op::kSub: return packed<Arithmetic<float>::sub>;
    case Op::kMul: return packed<Arithmetic<float>::mul>;
    case Op::kFma: return packed<Arithmetic<float>::fma>;
    default: return nullptr;
  }
}

bool takes_rounding(Op op) {
  switch (op) {
    case Op::kAdd: case Op::kSub: case Op::kMul: case Op::kFma: case Op::kMad: case Op::kDiv: case Op::kRcp:
    case Op::kSqrt: return true;
    default: return false;
  }
}

}  // namespace

Decoded decode_float(Decoder& d, const ptx::Instruction& i) {
  ModReader mods(i);
  const Type type = mods.take_type();
  if (type != Type::kF32 && type != Type::kF64 && type != Type::kF32x2) return false;
  LaneFn fn = nullptr;
  if (type == Type::kF32x2)
    fn = packed_of(i.op);
  else
    fn = type == Type::kF32 ? Arithmetic<float>::of(i.op) : Arithmetic<double>::of(i.op);
  if (fn == nullptr || i.has(Mod::kApprox) || i.has(Mod::kFull)) return false;

  std::uint16_t flags = 0;
  std::uint8_t mode = 0;
  if (takes_rounding(i.op)) mode = static_cast<std::uint8_t>(mods.take_rounding(Rounding::kNearestEven));
  if (type != Type::kF64 && mods.take(Mod::kFtz)) flags |= kFtz;
  if (takes_rounding(i.op) && mods.take(Mod::kSat)) flags |= kSat;
  const bool takes_narrow = type == Type::kF32 && (i.op == Op::kAdd || i.op == Op::kSub || i.op == Op::kFma);
  if (takes_narrow && mods.take(Mod::kF16)) flags |= kFactorF16;
  else if (takes_narrow && mods.take(Mod::kBF16)) flags |= kFactorBf16;
  if (i.op == Op::kMin || i.op == Op::kMax) {
    mode = i.op == Op::kMax;
    if (mods.take(Mod::kNaN)) flags |= kNan;
    if (mods.take(Mod::kXorsign)) flags |= kXorsign;
    if (mods.take(Mod::kAbs)) flags |= kAbs;
  }
  if (i.op == Op::kTestp) {
    constexpr Mod kTests[] = {Mod::kFinite,     Mod::kInfinite, Mod::kNumber,
                              Mod::kNotanumber, Mod::kNormal,   Mod::kSubnormal};
    for (std::uint8_t n = 0; n < 6; ++n)
      if (mods.take(kTests[n])) mode = n;
  }
  if (!mods.empty() || i.operands.size() < 2 || i.operands.size() > 4) return d.unsupported(i);
  std::int32_t sources[3] = {kNoCell, kNoCell, kNoCell};
  for (std::size_t n = 1; n < i.operands.size(); ++n) sources[n - 1] = d.read(i.operands[n], type);
  const std::int32_t dst = d.write_cell(i.operands[0]);
  Inst& inst = d.emit(fn);
  inst.dst = dst;
  for (int n = 0; n < 3; ++n) inst.src[n] = sources[n];
  inst.mode = mode;
  inst.flags = flags;
  return true;
}

}  // namespace pergola::device::cpu::interp
