// The number formats, held against exact arithmetic that is done another way: rationals in 128-bit integers, and
// neighbours found by stepping through the bits. The tables of tests/ptx check whole instructions.
#include "src/device/cpu/numeric.h"

#include <gtest/gtest.h>

#include <limits>
#include <random>

#include "src/device/cpu/approximations.h"
#include "tests/support/sanitized.h"

namespace pergola::device::cpu {
namespace {

constexpr Rounding kModes[] = {Rounding::kNearestEven, Rounding::kTowardZero, Rounding::kDown, Rounding::kUp};

TEST(Numeric, EveryHalf_SurvivesTheWayToDoubleAndBack) {
  for (std::uint32_t bits = 0; bits < 0x10000; ++bits) {
    const double value = widen(bits, kF16Format);
    if (std::isnan(value)) continue;
    for (Rounding mode : kModes) EXPECT_EQ(round_double(value, kF16Format, mode), bits) << bits;
  }
}

TEST(Numeric, EveryBf16_SurvivesTheWayToDoubleAndBack) {
  for (std::uint32_t bits = 0; bits < 0x10000; ++bits) {
    const double value = widen(bits, kBf16Format);
    if (std::isnan(value)) continue;
    EXPECT_EQ(static_cast<float>(value), bf16_to_float(static_cast<std::uint16_t>(bits)));
    EXPECT_EQ(round_double(value, kBf16Format, Rounding::kNearestEven), bits) << bits;
  }
}

TEST(Numeric, BetweenTwoHalves_EachModeTakesItsNeighbour) {
  for (std::uint32_t bits = 0; bits < 0x7bff; ++bits) {
    const double low = widen(bits, kF16Format), high = widen(bits + 1, kF16Format);
    const double middle = (low + high) / 2, below = low + (high - low) / 4;
    const std::uint32_t even = (bits & 1) == 0 ? bits : bits + 1;
    EXPECT_EQ(round_double(middle, kF16Format, Rounding::kNearestEven), even);
    EXPECT_EQ(round_double(middle, kF16Format, Rounding::kNearestAway), bits + 1);
    EXPECT_EQ(round_double(below, kF16Format, Rounding::kNearestEven), bits);
    EXPECT_EQ(round_double(below, kF16Format, Rounding::kTowardZero), bits);
    EXPECT_EQ(round_double(below, kF16Format, Rounding::kUp), bits + 1);
    EXPECT_EQ(round_double(-below, kF16Format, Rounding::kDown), 0x8000 | (bits + 1));
    EXPECT_EQ(round_double(-below, kF16Format, Rounding::kUp), 0x8000 | bits);
  }
}

TEST(Numeric, Overflow_GivesInfinityOrTheLargestAsTheModeAsks) {
  EXPECT_EQ(round_double(65520.0, kF16Format, Rounding::kNearestEven), 0x7c00u);
  EXPECT_EQ(round_double(65519.0, kF16Format, Rounding::kNearestEven), 0x7bffu);
  EXPECT_EQ(round_double(1e9, kF16Format, Rounding::kTowardZero), 0x7bffu);
  EXPECT_EQ(round_double(1e9, kF16Format, Rounding::kDown), 0x7bffu);
  EXPECT_EQ(round_double(-1e9, kF16Format, Rounding::kDown), 0xfc00u);
  EXPECT_EQ(round_double(-1e9, kF16Format, Rounding::kUp), 0xfbffu);
}

// a ⊕ b by 128-bit integers: operands of like exponents, scaled to integers.
TEST(Numeric, SumsOfFloats_AreTheExactSumRoundedOnce) {
  std::mt19937_64 random(42);
  for (int n = 0; n < 20000; ++n) {
    const auto exponent = static_cast<int>(random() % 40);
    const auto ma = static_cast<std::int64_t>(random() & 0xffffff) - 0x800000;
    const auto mb = static_cast<std::int64_t>(random() & 0xffffff) - 0x800000;
    const auto a = static_cast<float>(std::ldexp(static_cast<double>(ma), exponent));
    const auto b = static_cast<float>(mb);
    const __int128 sum = static_cast<__int128>(ma) * (static_cast<__int128>(1) << exponent) + mb;
    const bool negative = sum < 0;
    const __int128 magnitude = negative ? -sum : sum;
    if (magnitude == 0) continue;
    int width = 0;
    while ((magnitude >> width) != 0) ++width;
    const int drop = width > 24 ? width - 24 : 0;
    const __int128 unit = static_cast<__int128>(1) << drop;
    const __int128 low = magnitude / unit * unit;
    const bool exact = low == magnitude;
    const double floor = static_cast<double>(low), ceiling = static_cast<double>(exact ? low : low + unit);
    const double toward_zero = negative ? -floor : floor, away = negative ? -ceiling : ceiling;
    EXPECT_EQ(add_f32(a, b, Rounding::kTowardZero), static_cast<float>(toward_zero)) << a << " " << b;
    EXPECT_EQ(add_f32(a, b, Rounding::kDown), static_cast<float>(std::min(toward_zero, away))) << a << " " << b;
    EXPECT_EQ(add_f32(a, b, Rounding::kUp), static_cast<float>(std::max(toward_zero, away))) << a << " " << b;
  }
}

TEST(Numeric, DirectedDivisionAndRoot_EncloseTheExactResult) {
  std::mt19937_64 random(7);
  std::uniform_real_distribution<float> any(1e-3f, 1e3f);
  for (int n = 0; n < 20000; ++n) {
    const float a = any(random), b = any(random);
    const float down = div_f32(a, b, Rounding::kDown), up = div_f32(a, b, Rounding::kUp);
    // Products of two floats are exact in double.
    EXPECT_LE(static_cast<double>(down) * b, a);
    EXPECT_GE(static_cast<double>(up) * b, a);
    EXPECT_TRUE(down == up || std::nextafter(down, 1e30f) == up);
    const float root_down = sqrt_f32(a, Rounding::kDown), root_up = sqrt_f32(a, Rounding::kUp);
    EXPECT_LE(static_cast<double>(root_down) * root_down, a);
    EXPECT_GE(static_cast<double>(root_up) * root_up, a);
    EXPECT_TRUE(root_down == root_up || std::nextafter(root_down, 1e30f) == root_up);
  }
}

TEST(Numeric, DirectedDoubles_DifferByOneStepWhereInexact) {
  EXPECT_EQ(add_f64(1.0, 0x1p-60, Rounding::kUp), std::nextafter(1.0, 2.0));
  EXPECT_EQ(add_f64(1.0, 0x1p-60, Rounding::kDown), 1.0);
  EXPECT_EQ(div_f64(1.0, 3.0, Rounding::kUp), std::nextafter(div_f64(1.0, 3.0, Rounding::kDown), 1.0));
  EXPECT_EQ(sqrt_f64(2.0, Rounding::kUp), std::nextafter(sqrt_f64(2.0, Rounding::kTowardZero), 2.0));
  EXPECT_TRUE(std::signbit(add_f64(1.0, -1.0, Rounding::kDown)));
  EXPECT_FALSE(std::signbit(add_f64(1.0, -1.0, Rounding::kUp)));
  EXPECT_EQ(1.0 / 3.0 * 3.0, 1.0) << "the mode was not put back";
}

TEST(Numeric, FloatToInteger_ClampsAndTreatsNanAsTheIsaSays) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  EXPECT_EQ(float_to_integer(nan, false, 32, true, Rounding::kTowardZero), 0u);
  EXPECT_EQ(float_to_integer(nan, false, 64, false, Rounding::kTowardZero), 0x8000000000000000u);
  EXPECT_EQ(float_to_integer(3e9, false, 32, true, Rounding::kTowardZero), 0x7fffffffu);
  EXPECT_EQ(float_to_integer(-1.0, false, 32, false, Rounding::kTowardZero), 0u);
  EXPECT_EQ(float_to_integer(2.5, false, 32, true, Rounding::kNearestEven), 2u);
  EXPECT_EQ(float_to_integer(-2.5, false, 32, true, Rounding::kDown), ~std::uint64_t{2});
}

TEST(Numeric, SmallFloats_SaturateAndSurvive) {
  EXPECT_EQ(double_to_e4m3(448.0), 0x7e);
  EXPECT_EQ(double_to_e4m3(1e9), 0x7e);
  EXPECT_EQ(double_to_e5m2(1e9), 0x7b);
  for (int bits = 0; bits < 256; ++bits) {
    const double e4m3 = e4m3_to_double(static_cast<std::uint8_t>(bits));
    if (!std::isnan(e4m3)) {
      EXPECT_EQ(double_to_e4m3(e4m3), bits);
    }
    const double e5m2 = e5m2_to_double(static_cast<std::uint8_t>(bits));
    if (std::isfinite(e5m2)) {
      EXPECT_EQ(double_to_e5m2(e5m2), bits);
    }
  }
}

TEST(Numeric, MinAndMax_OrderZerosAndLoseNans) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  EXPECT_TRUE(std::signbit(min_max(0.0f, -0.0f, false, false)));
  EXPECT_FALSE(std::signbit(min_max(-0.0f, 0.0f, true, false)));
  EXPECT_EQ(min_max(nan, 2.0f, false, false), 2.0f);
  EXPECT_TRUE(std::isnan(min_max(nan, 2.0f, true, true)));
}

// --- approximations.h -----------------------------------------------------------------------------------------------

// How many units in the last place of the nearest float `got` is off.
double ulps(double exact, float got) {
  const auto nearest = static_cast<float>(exact);
  if (std::isnan(exact) || std::isnan(got)) return std::isnan(exact) == std::isnan(got) ? 0 : 1e9;
  if (std::isinf(nearest) || std::isinf(got)) return nearest == got ? 0 : 1e9;
  int exponent = 0;
  std::frexp(exact, &exponent);
  return std::fabs(exact - got) / std::ldexp(1.0, std::max(exponent - 24, -149));
}

TEST(Approximations, EveryThousandthFloat_IsWithinTheBounds) {
  Approximations<FloatOps> functions;
  constexpr std::uint64_t kApart = test_support::kSanitized ? 9973 : 997;
  for (std::uint64_t bits = 0; bits <= 0xffffffffu; bits += kApart) {
    const auto x = std::bit_cast<float>(static_cast<std::uint32_t>(bits));
    const double exact = x;
    ASSERT_LE(ulps(std::exp2(exact), functions.ex2(x)), 1) << x;
    ASSERT_LE(ulps(std::log2(exact), functions.lg2(x)), 2) << x;
    ASSERT_LE(ulps(std::tanh(exact), functions.tanh(x)), 2) << x;
    if (!(std::fabs(x) < 0x1p50f)) continue;
    ASSERT_LE(std::fabs(std::sin(exact) - functions.sin(x)), 0x1p-23) << x;
    ASSERT_LE(std::fabs(std::cos(exact) - functions.cos(x)), 0x1p-23) << x;
  }
}

TEST(Approximations, SpecialValues_AreTheIsas) {
  Approximations<FloatOps> functions;
  const float infinity = std::numeric_limits<float>::infinity(), nan = std::numeric_limits<float>::quiet_NaN();
  const auto bits = [](float v) { return std::bit_cast<std::uint32_t>(v); };
  for (int n = -149; n < 128; ++n) {
    EXPECT_EQ(functions.ex2(static_cast<float>(n)), std::ldexp(1.0f, n));
    EXPECT_EQ(functions.lg2(std::ldexp(1.0f, n)), n);
  }
  EXPECT_EQ(functions.ex2(-infinity), 0);
  EXPECT_EQ(functions.ex2(infinity), infinity);
  EXPECT_EQ(functions.ex2(128), infinity);
  EXPECT_EQ(functions.ex2(-151), 0);
  EXPECT_EQ(functions.lg2(0.0f), -infinity);
  EXPECT_EQ(functions.lg2(-0.0f), -infinity);
  EXPECT_EQ(functions.lg2(infinity), infinity);
  EXPECT_TRUE(std::isnan(functions.lg2(-1)) && std::isnan(functions.lg2(-infinity)));
  EXPECT_EQ(bits(functions.sin(-0.0f)), bits(-0.0f));
  EXPECT_EQ(bits(functions.tanh(-0.0f)), bits(-0.0f));
  EXPECT_EQ(functions.sin(0x1p50f), 0);
  EXPECT_EQ(functions.cos(-0x1p100f), 1);
  EXPECT_EQ(functions.tanh(-infinity), -1);
  EXPECT_TRUE(std::isnan(functions.sin(infinity)) && std::isnan(functions.cos(-infinity)));
  for (const float v : {functions.ex2(nan), functions.lg2(nan), functions.sin(nan), functions.cos(nan), functions.tanh(nan)}) {
    EXPECT_TRUE(std::isnan(v));
  }
}

}  // namespace
}  // namespace pergola::device::cpu
