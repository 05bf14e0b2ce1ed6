// Packing and unpacking of float formats, conversions, and rounding to odd; see numeric.h.
#include "src/device/cpu/numeric.h"

#include <limits>

namespace pergola::device::cpu {
namespace {

bool rounds_up(bool negative, bool odd, bool half, bool rest, Rounding rounding) {
  switch (rounding) {
    case Rounding::kNearestEven: return half && (rest || odd);
    case Rounding::kNearestAway: return half;
    case Rounding::kTowardZero: return false;
    case Rounding::kDown: return negative && (half || rest);
    case Rounding::kUp: return !negative && (half || rest);
  }
  return false;
}

// The number nearest to zero of the two around s + error, with its last bit set: s + error rounded to odd.
double make_odd(double s, double error) {
  if (error == 0.0 || !std::isfinite(s)) return s;
  std::uint64_t bits = std::bit_cast<std::uint64_t>(s);
  if (std::signbit(s) != std::signbit(error)) --bits;  // one step toward zero; s is never zero here
  return std::bit_cast<double>(bits | 1);
}

double zero_of(Rounding rounding) { return rounding == Rounding::kDown ? -0.0 : 0.0; }

}  // namespace

std::uint64_t pack_float(bool negative, std::uint64_t mantissa, int exponent, bool sticky, FloatFormat format,
                         Rounding rounding) {
  const std::uint64_t sign = std::uint64_t{negative} << (format.exponent_bits + format.mantissa_bits);
  if (mantissa == 0) {
    if (!sticky) return sign;
    mantissa = 1;
    exponent = -4096;  // far below every format: only its being there counts
  }
  const int shift = std::countl_zero(mantissa);
  mantissa <<= shift;
  const int top = exponent - shift + 63;  // the value is in [2^top, 2^(top+1))
  const int bias = (1 << (format.exponent_bits - 1)) - 1;
  const int lowest = 1 - bias;
  const bool subnormal = top < lowest;
  int drop = 63 - format.mantissa_bits;
  if (subnormal) drop += lowest - top;
  std::uint64_t kept = 0;
  bool half = false, rest = sticky;
  if (drop > 64) {
    rest = true;
  } else {
    kept = drop == 64 ? 0 : mantissa >> drop;
    half = ((mantissa >> (drop - 1)) & 1) != 0;
    rest = rest || (mantissa & ((std::uint64_t{1} << (drop - 1)) - 1)) != 0;
  }
  if (rounds_up(negative, (kept & 1) != 0, half, rest, rounding)) ++kept;
  const std::uint64_t infinity = ((std::uint64_t{1} << format.exponent_bits) - 1) << format.mantissa_bits;
  std::uint64_t magnitude = kept;
  // `kept` holds the hidden one, which adds the last 1 to the exponent field; a carry out of it does so too.
  if (!subnormal) {
    if (top > bias) {
      magnitude = infinity;
    } else {
      magnitude += static_cast<std::uint64_t>(top - lowest) << format.mantissa_bits;
    }
  }
  if (magnitude >= infinity) {
    const bool to_infinity = rounding == Rounding::kNearestEven || rounding == Rounding::kNearestAway ||
                             (rounding == Rounding::kUp && !negative) || (rounding == Rounding::kDown && negative);
    magnitude = to_infinity ? infinity : infinity - 1;
  }
  return sign | magnitude;
}

std::uint64_t round_double(double value, FloatFormat format, Rounding rounding) {
  const int width = format.exponent_bits + format.mantissa_bits;
  const std::uint64_t bits = std::bit_cast<std::uint64_t>(value);
  const bool negative = (bits >> 63) != 0;
  const int field = static_cast<int>((bits >> 52) & 0x7ff);
  const std::uint64_t fraction = bits & 0xfffffffffffffu;
  if (field == 0x7ff) {
    if (fraction != 0) return (std::uint64_t{1} << width) - 1;
    return (std::uint64_t{negative} << width) |
           (((std::uint64_t{1} << format.exponent_bits) - 1) << format.mantissa_bits);
  }
  const std::uint64_t mantissa = field == 0 ? fraction : fraction | (std::uint64_t{1} << 52);
  return pack_float(negative, mantissa, (field == 0 ? 1 : field) - 1075, false, format, rounding);
}

double widen(std::uint64_t bits, FloatFormat format) {
  const int width = format.exponent_bits + format.mantissa_bits;
  const bool negative = ((bits >> width) & 1) != 0;
  const std::uint64_t all_ones = (std::uint64_t{1} << format.exponent_bits) - 1;
  const std::uint64_t field = (bits >> format.mantissa_bits) & all_ones;
  const std::uint64_t fraction = bits & ((std::uint64_t{1} << format.mantissa_bits) - 1);
  double magnitude;
  if (field == all_ones) {
    magnitude = fraction != 0 ? std::numeric_limits<double>::quiet_NaN() : std::numeric_limits<double>::infinity();
  } else {
    const int bias = static_cast<int>(all_ones >> 1);
    const std::uint64_t mantissa = field == 0 ? fraction : fraction | (std::uint64_t{1} << format.mantissa_bits);
    const int exponent = (field == 0 ? 1 : static_cast<int>(field)) - bias - format.mantissa_bits;
    magnitude = std::ldexp(static_cast<double>(mantissa), exponent);
  }
  return negative ? -magnitude : magnitude;
}

std::uint8_t double_to_e4m3(double value) {
  if (std::isnan(value)) return 0x7f;
  const std::uint8_t sign = std::signbit(value) ? 0x80 : 0;
  const double magnitude = std::fabs(value);
  if (magnitude >= 448.0) return sign | 0x7e;
  // A format with one more exponent bit has no overflow below 448 and the same steps from 2^-6 up.
  if (magnitude < 0.015625) return sign | static_cast<std::uint8_t>(std::nearbyint(magnitude * 512.0));
  std::uint64_t wide = round_double(magnitude, FloatFormat{5, 3}, Rounding::kNearestEven);
  auto narrow = static_cast<std::uint8_t>(wide - (8u << 3));  // bias 15 -> 7
  return sign | (narrow > 0x7e ? std::uint8_t{0x7e} : narrow);
}

std::uint8_t double_to_e5m2(double value) {
  if (std::isnan(value)) return 0x7f;
  std::uint64_t bits = round_double(value, kE5m2Format, Rounding::kNearestEven);
  if ((bits & 0x7f) >= 0x7c) bits = (bits & 0x80) | 0x7b;
  return static_cast<std::uint8_t>(bits);
}

double e4m3_to_double(std::uint8_t bits) {
  if ((bits & 0x7f) == 0x7f) return std::numeric_limits<double>::quiet_NaN();
  const int field = (bits >> 3) & 15, fraction = bits & 7;
  const double magnitude = field == 0 ? std::ldexp(fraction, -9) : std::ldexp(8 + fraction, field - 10);
  return (bits & 0x80) != 0 ? -magnitude : magnitude;
}

double e5m2_to_double(std::uint8_t bits) { return widen(bits, kE5m2Format); }

double add_to_odd(double a, double b, Rounding rounding) {
  const double s = a + b;
  if (!std::isfinite(s)) return s;
  if (s == 0.0) return a == 0.0 && std::signbit(a) == std::signbit(b) ? a : zero_of(rounding);
  const double part = s - a;
  const double error = (a - (s - part)) + (b - part);
  return make_odd(s, error);
}

double fma_to_odd(double a, double b, double c, Rounding rounding) { return add_to_odd(a * b, c, rounding); }

double divide_to_odd(double a, double b) {
  const double q = a / b;
  if (!std::isfinite(q) || q == 0.0 || !std::isfinite(b)) return q;
  const double remainder = std::fma(-q, b, a);  // exact: a quotient of f32s has room
  return make_odd(q, std::signbit(b) ? -remainder : remainder);
}

double sqrt_to_odd(double a) {
  const double s = std::sqrt(a);
  if (!std::isfinite(s) || s == 0.0) return s;
  return make_odd(s, std::fma(-s, s, a));
}

namespace {
float to_f32(double value, Rounding rounding) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(round_double(value, kF32Format, rounding)));
}
}  // namespace

float add_f32(float a, float b, Rounding rounding) {
  if (rounding == Rounding::kNearestEven) return canonical(a + b);
  return to_f32(add_to_odd(a, b, rounding), rounding);
}

float mul_f32(float a, float b, Rounding rounding) {
  if (rounding == Rounding::kNearestEven) return canonical(a * b);
  return to_f32(static_cast<double>(a) * b, rounding);
}

float fma_f32(float a, float b, float c, Rounding rounding) {
  if (rounding == Rounding::kNearestEven) return canonical(std::fma(a, b, c));
  return to_f32(fma_to_odd(a, b, c, rounding), rounding);
}

bool rounds_below_normal(double exact, FloatFormat format, Rounding rounding) {
  const FloatFormat unbounded{kF64Format.exponent_bits, format.mantissa_bits};
  const int lowest = 2 - (1 << (format.exponent_bits - 1));
  return std::fabs(widen(round_double(exact, unbounded, rounding), unbounded)) < std::ldexp(1.0, lowest);
}

float div_f32(float a, float b, Rounding rounding) {
  if (rounding == Rounding::kNearestEven) return canonical(a / b);
  return to_f32(divide_to_odd(a, b), rounding);
}

float sqrt_f32(float a, Rounding rounding) {
  if (rounding == Rounding::kNearestEven) return canonical(std::sqrt(a));
  return to_f32(sqrt_to_odd(a), rounding);
}

double round_to_integral(double value, Rounding rounding) {
  switch (rounding) {
    case Rounding::kNearestEven: return std::nearbyint(value);
    case Rounding::kNearestAway: return std::round(value);
    case Rounding::kTowardZero: return std::trunc(value);
    case Rounding::kDown: return std::floor(value);
    case Rounding::kUp: return std::ceil(value);
  }
  return value;
}

std::uint64_t float_to_integer(double value, bool source_is_f64, int bits, bool is_signed, Rounding rounding) {
  const std::uint64_t top = std::uint64_t{1} << (bits - 1);
  if (std::isnan(value)) {
    if (!source_is_f64 && bits != 64) return 0;
    return is_signed ? ~(top - 1) : top;
  }
  const double r = round_to_integral(value, rounding);
  if (is_signed) {
    const double limit = std::ldexp(1.0, bits - 1);
    if (r >= limit) return top - 1;
    if (r < -limit) return ~(top - 1);
    return static_cast<std::uint64_t>(static_cast<std::int64_t>(r));
  }
  if (r >= std::ldexp(1.0, bits)) return bits == 64 ? ~std::uint64_t{0} : (std::uint64_t{1} << bits) - 1;
  return r > 0.0 ? static_cast<std::uint64_t>(r) : 0;
}

std::uint64_t integer_to_float(bool negative, std::uint64_t magnitude, FloatFormat format, Rounding rounding) {
  return pack_float(negative, magnitude, 0, false, format, rounding);
}

}  // namespace pergola::device::cpu
