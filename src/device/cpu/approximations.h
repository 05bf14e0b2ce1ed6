// ex2, lg2, sin, cos and tanh of f32, as PTX's .approx asks for them: one definition for every tier.
//
// The hardware's bits are nobody's contract; that the tiers agree is ours. So each function is written once, over a
// type `Ops` of operations: floats in the interpreter (FloatOps below), LLVM code in the JIT (jit/emit_approx.cc),
// which vectors run a lane each. Every operation is one of IEEE 754 in round to nearest, or one on bits; nothing is
// contracted.
//
// Coefficients are minimax fits (Remez) rounded to float; with the rounding of each step the results are within
//
//   ex2    1 ulp                   ISA: 2 ulp
//   lg2    2 ulp                   ISA: 2^-22, absolute in (0.5, 2) and relative elsewhere
//   sin    2^-23 up to |x| = 2^50  ISA: 2^-20.5 in [-2π, 2π]; "best effort" beyond 100π
//   cos    the same
//   tanh   2 ulp                   ISA: relative 2^-11
//
// which numeric_test.cc holds against the C library's doubles. From 2^50 on sin is 0 and cos 1: a float's neighbours
// are there many turns apart. .ftz is for whoever calls. NaNs come out as they came in.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>
#include <initializer_list>

namespace pergola::device::cpu {

// What Ops has: types Float, Double, Word (32 bits) and Truth; and the operations that FloatOps has.
struct FloatOps {
  using Float = float;
  using Double = double;
  using Word = std::uint32_t;
  using Truth = bool;
  static float constant(float v) { return v; }
  static double real(double v) { return v; }
  static std::uint32_t word(std::uint32_t v) { return v; }
  static float fma(float a, float b, float c) { return std::fma(a, b, c); }
  static double fma(double a, double b, double c) { return std::fma(a, b, c); }
  static float add(float a, float b) { return a + b; }
  static float sub(float a, float b) { return a - b; }
  static double sub(double a, double b) { return a - b; }
  static float mul(float a, float b) { return a * b; }
  static float div(float a, float b) { return a / b; }
  static double widen(float v) { return v; }
  static float narrow(double v) { return static_cast<float>(v); }
  static bool less(float a, float b) { return a < b; }
  static bool equal(float a, float b) { return a == b; }
  static bool is_nan(float v) { return v != v; }
  static float select(bool which, float a, float b) { return which ? a : b; }
  static std::uint32_t bits(float v) { return std::bit_cast<std::uint32_t>(v); }
  static std::uint32_t low_bits(double v) { return static_cast<std::uint32_t>(std::bit_cast<std::uint64_t>(v)); }
  static float from_bits(std::uint32_t v) { return std::bit_cast<float>(v); }
  static std::uint32_t iadd(std::uint32_t a, std::uint32_t b) { return a + b; }
  static std::uint32_t isub(std::uint32_t a, std::uint32_t b) { return a - b; }
  static std::uint32_t iand(std::uint32_t a, std::uint32_t b) { return a & b; }
  static std::uint32_t ixor(std::uint32_t a, std::uint32_t b) { return a ^ b; }
  static std::uint32_t left(std::uint32_t a, unsigned by) { return a << by; }
  static std::uint32_t right(std::uint32_t a, unsigned by) {  // of a signed number
    return static_cast<std::uint32_t>(static_cast<std::int32_t>(a) >> by);
  }
  static bool is_zero(std::uint32_t a) { return a == 0; }
  static float from_signed(std::uint32_t a) { return static_cast<float>(static_cast<std::int32_t>(a)); }
};

template <typename Ops>
class Approximations {
 public:
  using Float = typename Ops::Float;
  using Double = typename Ops::Double;
  using Word = typename Ops::Word;

  explicit Approximations(Ops ops = {}) : o(ops) {}

  // 2^x = 2^n 2^f with n whole and |f| <= 1/2; 2^n in two factors, as it may lie outside of the normal numbers.
  Float ex2(Float x) {
    Float c = o.select(o.less(x, f(-152)), f(-152), x);
    c = o.select(o.less(f(129), c), f(129), c);
    Float shifted = o.add(c, f(kRounder));  // n stands in its low bits
    Float part = o.sub(c, o.sub(shifted, f(kRounder)));
    Float p = polynomial(
        part, {0x1.4bbf32p-13f, 0x1.5fc044p-10f, 0x1.3b21c8p-7f, 0x1.c6ada6p-5f, 0x1.ebfbe6p-3f, 0x1.62e432p-1f, 1});
    Word n = o.isub(o.bits(shifted), o.bits(f(kRounder)));
    Word half = o.right(n, 1);
    Float v = o.mul(o.mul(p, power(half)), power(o.isub(n, half)));
    return o.select(o.is_nan(x), x, v);
  }

  // x = 2^n m with m in [√½, √2): n + log2(m).
  Float lg2(Float x) {
    auto small = o.less(x, f(0x1p-126f));
    Word b = o.bits(o.select(small, o.mul(x, f(0x1p24f)), x));
    Word n = o.right(o.isub(b, o.word(0x3f3504f3)), 23);
    Float m = o.sub(o.from_bits(o.isub(b, o.left(n, 23))), f(1));
    Float p = polynomial(m, {-0x1.c2592ep-4f, 0x1.7d48dep-3f, -0x1.874bf8p-3f, 0x1.a305bcp-3f, -0x1.eabc88p-3f,
                             0x1.277e36p-2f, -0x1.715a76p-2f, 0x1.ec7096p-2f, -0x1.715470p-1f, 0x1.715476p+0f});
    Float v = o.fma(m, p, o.add(o.from_signed(n), o.select(small, f(-24), f(0))));
    v = o.select(o.equal(x, f(0)), f(-kInfinity), o.select(o.less(x, f(0)), f(kNan), v));
    return o.select(o.less(x, f(kInfinity)), v, x);  // infinity and NaN
  }

  Float sin(Float x) { return sine(x, 0, sign_of(x)); }
  Float cos(Float x) { return sine(x, 1, o.word(0)); }

  // 1 - 2 / (e^2|x| + 1), near zero an odd polynomial.
  Float tanh(Float x) {
    Float a = magnitude(x);
    Float bounded = o.select(o.less(a, f(12)), a, f(12));
    Float e = ex2(o.mul(bounded, f(0x1.715476p+1f)));
    Float far = o.sub(f(1), o.div(f(2), o.add(e, f(1))));
    Float s = o.mul(a, a);
    Float q = polynomial(s, {-0x1.82770ap-8f, 0x1.54c156p-6f, -0x1.b89a8ep-5f, 0x1.1109bep-3f, -0x1.55553ep-2f});
    Float near = o.fma(o.mul(a, s), q, a);
    Word v = o.bits(o.select(o.less(a, f(0.59375f)), near, far));
    return o.select(o.is_nan(x), x, o.from_bits(o.ixor(v, sign_of(x))));
  }

 private:
  static constexpr float kRounder = 0x1.8p23f, kInfinity = __builtin_inff(), kNan = __builtin_nanf("");

  Float f(float v) { return o.constant(v); }
  Float magnitude(Float x) { return o.from_bits(o.iand(o.bits(x), o.word(0x7fffffff))); }
  Word sign_of(Float x) { return o.iand(o.bits(x), o.word(0x80000000)); }
  // By Horner's rule, the highest power's coefficient first.
  Float polynomial(Float x, std::initializer_list<float> coefficients) {
    Float v{};
    bool first = true;
    for (const float c : coefficients) {
      v = first ? f(c) : o.fma(v, x, f(c));
      first = false;
    }
    return v;
  }
  Float power(Word n) { return o.from_bits(o.left(o.iadd(n, o.word(127)), 23)); }  // 2^n of a small n

  // sin(|x| + quarters π/2) = ±sin or ±cos of r = |x| - q π/2, |r| <= π/4, taken off in double; times a sign.
  Float sine(Float x, std::uint32_t quarters, Word sign) {
    Float a = magnitude(x);
    Double d = o.widen(o.select(o.less(a, f(0x1p50f)), a, f(0)));
    Double shifted = o.fma(d, o.real(0x1.45f306dc9c883p-1), o.real(0x1.8p52));  // q stands in its low bits
    Double q = o.sub(o.real(0x1.8p52), shifted);                                // negative
    Float r = o.narrow(o.fma(q, o.real(0x1.1a62633145c07p-54), o.fma(q, o.real(0x1.921fb54442d18p+0), d)));
    Word turn = o.iadd(o.low_bits(shifted), o.word(quarters));
    Float s = o.mul(r, r);
    Float odd = o.fma(o.mul(r, s), polynomial(s, {-0x1.9955b6p-13f, 0x1.11077cp-7f, -0x1.555546p-3f}), r);
    Float even = o.fma(s, polynomial(s, {0x1.99e0eep-16f, -0x1.6c0c1ap-10f, 0x1.55554ap-5f, -0.5f}), f(1));
    Word v = o.bits(o.select(o.is_zero(o.iand(turn, o.word(1))), odd, even));
    Word turned = o.ixor(o.left(o.iand(turn, o.word(2)), 30), sign);
    return o.select(o.less(a, f(kInfinity)), o.from_bits(o.ixor(v, turned)), o.select(o.is_nan(x), x, f(kNan)));
  }

  Ops o;
};

}  // namespace pergola::device::cpu
