#include "tools/pergola/half.h"

#include <bit>
#include <cmath>

namespace pergola::tool {

std::uint16_t float_to_half(float value) {
  const std::uint32_t bits = std::bit_cast<std::uint32_t>(value);
  const auto sign = static_cast<std::uint16_t>(bits >> 16 & 0x8000);
  const float magnitude = std::fabs(value);
  if (std::isnan(value)) return sign | 0x7e00;
  if (magnitude >= 65520.f) return sign | 0x7c00;  // halfway between the largest half and the next
  if (magnitude == 0.f) return sign;
  // In units of the half's last place; nearbyint() rounds ties to even in the default mode.
  int exponent = 0;
  std::frexp(magnitude, &exponent);
  const int scale = exponent < -13 ? -24 : exponent - 11;
  auto units = static_cast<std::uint32_t>(std::nearbyint(std::ldexp(magnitude, -scale)));
  if (scale == -24) return static_cast<std::uint16_t>(sign | units);  // subnormal, or just normal
  // units is 1024 to 2048; 2048 carries into the exponent by itself
  return static_cast<std::uint16_t>(sign | ((static_cast<std::uint32_t>(scale + 24) << 10) + units));
}

float half_to_float(std::uint16_t bits) {
  const int exponent = bits >> 10 & 0x1f;
  const auto mantissa = static_cast<float>(bits & 0x3ff);
  float magnitude;
  if (exponent == 0x1f) magnitude = (bits & 0x3ff) != 0 ? std::nanf("") : HUGE_VALF;
  else if (exponent == 0) magnitude = std::ldexp(mantissa, -24);
  else magnitude = std::ldexp(mantissa + 1024.f, exponent - 25);
  return std::copysign(magnitude, (bits & 0x8000) != 0 ? -1.f : 1.f);
}

std::uint16_t float_to_bfloat16(float value) {
  const std::uint32_t bits = std::bit_cast<std::uint32_t>(value);
  if (std::isnan(value)) return static_cast<std::uint16_t>(bits >> 16 | 0x40);
  return static_cast<std::uint16_t>((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

float bfloat16_to_float(std::uint16_t bits) { return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16); }

}  // namespace pergola::tool
