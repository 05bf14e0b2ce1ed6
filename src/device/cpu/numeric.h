// Arithmetic of the GPU's number formats on the host, bit for bit where PTX fixes the bits.
//
// Everything narrower than f64 is computed exactly, or in double with "round to odd", and rounded once:
//
//   exact value ──▶ 53 bits, last bit 1 where inexact (round to odd) ──▶ pack_float(): f32, f16, bf16, e5m2, ... in any mode
//
// A value rounded to odd with at least two bits more than the target keeps every rounding decision intact, so no
// operation here depends on, or touches, the host's rounding mode; only f64 with a directed mode does (fenv, inside).
// NaN results of f32 are 0x7fffffff, of f16 and bf16 0x7fff (ISA 9.7.3, 9.7.4). All functions are pure and thread-safe.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>
#include <type_traits>

namespace pergola::device::cpu {

enum class Rounding : std::uint8_t {
  kNearestEven,  // .rn .rni
  kTowardZero,   // .rz .rzi
  kDown,         // .rm .rmi
  kUp,           // .rp .rpi
  kNearestAway,  // .rna
};

// An IEEE-like format: sign, exponent, mantissa from the top bit down.
struct FloatFormat {
  int exponent_bits;
  int mantissa_bits;
};
inline constexpr FloatFormat kF16Format{5, 10};
inline constexpr FloatFormat kBf16Format{8, 7};
inline constexpr FloatFormat kTf32Format{8, 10};
inline constexpr FloatFormat kF32Format{8, 23};
inline constexpr FloatFormat kF64Format{11, 52};
inline constexpr FloatFormat kE5m2Format{5, 2};

inline constexpr std::uint32_t kCanonicalNan32 = 0x7fffffffu;
inline constexpr std::uint16_t kCanonicalNan16 = 0x7fffu;

// Rounds (-1)^negative × (mantissa + sticky·ε) × 2^exponent, 0 < ε < 1, to `format`; right-aligned bits.
// Overflow gives infinity or the largest finite number, as the mode asks.
std::uint64_t pack_float(bool negative, std::uint64_t mantissa, int exponent, bool sticky, FloatFormat format,
                         Rounding rounding);

// Rounds a double (as it is, or rounded to odd) to `format`. NaN gives the all-ones positive pattern.
std::uint64_t round_double(double value, FloatFormat format, Rounding rounding);

// The exact value of a number of `format`; NaN gives a NaN.
double widen(std::uint64_t bits, FloatFormat format);

inline float half_to_float(std::uint16_t bits) { return static_cast<float>(widen(bits, kF16Format)); }
inline float bf16_to_float(std::uint16_t bits) { return std::bit_cast<float>(std::uint32_t{bits} << 16); }
inline std::uint16_t float_to_half(float value, Rounding rounding = Rounding::kNearestEven) {
  return static_cast<std::uint16_t>(round_double(value, kF16Format, rounding));
}
inline std::uint16_t float_to_bf16(float value, Rounding rounding = Rounding::kNearestEven) {
  return static_cast<std::uint16_t>(round_double(value, kBf16Format, rounding));
}

// FP8 (ISA 5.2.3). e4m3 has no infinity and one NaN a sign (0x7f); both saturate to the largest finite (satfinite).
std::uint8_t double_to_e4m3(double value);
std::uint8_t double_to_e5m2(double value);
double e4m3_to_double(std::uint8_t bits);
double e5m2_to_double(std::uint8_t bits);

// a+b and a×b+c, rounded to odd at 53 bits. Exact operands no wider than f32 (a×b must fit 53 bits). The sign of an
// exact zero is the one `rounding` asks for.
double add_to_odd(double a, double b, Rounding rounding);
double fma_to_odd(double a, double b, double c, Rounding rounding);
// a/b and √a rounded to odd; operands no wider than f32.
double divide_to_odd(double a, double b);
double sqrt_to_odd(double a);

// f32 operations in any mode; NaN results are canonical, no flushing.
float add_f32(float a, float b, Rounding rounding);
float mul_f32(float a, float b, Rounding rounding);
float fma_f32(float a, float b, float c, Rounding rounding);
float div_f32(float a, float b, Rounding rounding);
float sqrt_f32(float a, Rounding rounding);

// Whether `exact` (as it is, or rounded to odd), rounded to the format's precision with no bound on its exponent, lies below
// the smallest normal number: what .ftz of mul and fma flushes on the hardware, also where rounding to the format itself
// would give that number (seen on an H200).
bool rounds_below_normal(double exact, FloatFormat format, Rounding rounding);

// f64 operations in any mode. Of several NaN operands the result carries b's payload before c's before a's, as on an H200.
double add_f64(double a, double b, Rounding rounding);
double mul_f64(double a, double b, Rounding rounding);
double fma_f64(double a, double b, double c, Rounding rounding);
double div_f64(double a, double b, Rounding rounding);
double sqrt_f64(double a, Rounding rounding);

inline bool is_subnormal(float value) {
  std::uint32_t magnitude = std::bit_cast<std::uint32_t>(value) & 0x7fffffffu;
  return magnitude != 0 && magnitude < 0x00800000u;
}
// .ftz: a subnormal becomes the zero of its sign.
inline float flush(float value) { return is_subnormal(value) ? std::copysign(0.0f, value) : value; }
// A signalling NaN made quiet; sign and payload stay.
inline double quiet(double value) {
  return std::isnan(value) ? std::bit_cast<double>(std::bit_cast<std::uint64_t>(value) | std::uint64_t{1} << 51) : value;
}
inline float canonical(float value) { return std::isnan(value) ? std::bit_cast<float>(kCanonicalNan32) : value; }
// .sat: clamps to [0, 1]; NaN gives +0.
template <typename F>
F saturate(F value) {
  if (!(value > F{0})) return F{0};
  return value > F{1} ? F{1} : value;
}

// f32 → integral f32 value in f64, by mode (.rni and its like).
double round_to_integral(double value, Rounding rounding);

// Float → integer as cvt does it (ISA 9.7.9.21): rounds, clamps to the range; NaN gives 0, or the sign bit alone where
// the source is f64 or the destination has 64 bits. `bits` is 8, 16, 32 or 64; the result is sign- or zero-extended.
std::uint64_t float_to_integer(double value, bool source_is_f64, int bits, bool is_signed, Rounding rounding);

// Integer → float, rounded once. `value` is the magnitude.
std::uint64_t integer_to_float(bool negative, std::uint64_t magnitude, FloatFormat format, Rounding rounding);

// min and max of ISA 9.7.3: -0 < +0; a NaN loses to a number unless propagate_nan. Both NaN: canonical NaN for f32, b's for f64.
template <typename F>
F min_max(F a, F b, bool want_max, bool propagate_nan) {
  F nan;
  if constexpr (std::is_same_v<F, float>)
    nan = std::bit_cast<float>(kCanonicalNan32);
  else
    nan = quiet(std::isnan(b) ? b : a);
  bool a_nan = std::isnan(a), b_nan = std::isnan(b);
  if (a_nan || b_nan) {
    if (propagate_nan || (a_nan && b_nan)) return nan;
    return a_nan ? b : a;
  }
  if (a == b) return std::signbit(a) == want_max ? b : a;  // zeros of two signs
  return (a < b) == want_max ? b : a;
}

}  // namespace pergola::device::cpu
