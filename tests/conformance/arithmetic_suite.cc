// Arithmetic whose bits the ISA fixes, against the host's.
#include <algorithm>
#include <bit>
#include <cfenv>
#include <cmath>
#include <limits>
#include <random>

#include "tests/conformance/harness.h"

namespace pergola::conformance {
namespace {

CONFORMANCE_SUITE(Arithmetic);

constexpr std::uint32_t kSeed = 20261121;  // of every random input here
constexpr std::size_t kCount = 256;

template <typename T>
std::vector<T> integers(std::uint32_t salt) {
  std::mt19937_64 random(kSeed + salt);
  std::vector<T> values{0, 1, static_cast<T>(-1), std::numeric_limits<T>::min(), std::numeric_limits<T>::max(), 31, 32,
                        33, 63, 64};
  while (values.size() < kCount) values.push_back(static_cast<T>(random() >> random() % 60));
  return values;
}

template <typename T>
std::vector<T> reals(std::uint32_t salt) {
  std::mt19937_64 random(kSeed + salt);
  using Limits = std::numeric_limits<T>;
  std::vector<T> values{0,   -T(0),          1,  -1,  T(0.5), Limits::denorm_min(), -Limits::denorm_min(), Limits::min(),
                        Limits::max(), Limits::infinity(), -Limits::infinity(), T(1.5), T(2.5), T(1e9), T(-1e9)};
  while (values.size() < kCount)
    values.push_back(std::ldexp(T(std::int64_t(random()) >> 8), int(random() % 60) - 80));
  // Each value meets others than its own kind.
  std::shuffle(values.begin(), values.end(), random);
  return values;
}

// The host's result under a rounding mode, kept from being computed before the mode is set.
template <typename T, typename F>
T rounded(int mode, F&& compute) {
  const int before = std::fegetround();
  std::fesetround(mode);
  const volatile T result = compute();
  std::fesetround(before);
  return result;
}

// Canonical NaNs: which NaN an operation gives is the device's own affair.
std::uint32_t bits(float value) { return std::isnan(value) ? 0x7fffffffu : std::bit_cast<std::uint32_t>(value); }
std::uint64_t bits(double value) {
  return std::isnan(value) ? 0x7fffffffffffffffu : std::bit_cast<std::uint64_t>(value);
}
float f32(std::uint64_t pattern) { return std::bit_cast<float>(static_cast<std::uint32_t>(pattern)); }

TEST_P(Arithmetic, Integers64) {
  const auto a = integers<std::int64_t>(1), b = integers<std::int64_t>(2);
  const BufferPtr out = zeros<std::uint64_t>(16 * kCount);
  run(load("arithmetic"), "integers64", {.block = {kCount, 1, 1}}, Arguments(upload(a), upload(b), out));
  const auto got = download<std::uint64_t>(out);
  for (std::size_t i = 0; i < kCount; ++i) {
    SCOPED_TRACE(fmt::format("x {} y {}", a[i], b[i]));
    const std::int64_t x = a[i], y = b[i], odd = y | 1;
    const auto ux = static_cast<std::uint64_t>(x), uy = static_cast<std::uint64_t>(y), uodd = uy | 1;
    const std::uint64_t* mine = got.data() + 16 * i;
    EXPECT_EQ(mine[0], ux + uy);
    EXPECT_EQ(mine[1], ux - uy);
    EXPECT_EQ(mine[2], ux * uy);
    EXPECT_EQ(mine[3], static_cast<std::uint64_t>((static_cast<__int128>(x) * y) >> 64));
    EXPECT_EQ(mine[4], static_cast<std::uint64_t>((static_cast<unsigned __int128>(ux) * uy) >> 64));
    if (odd != -1) {  // the smallest number over -1 overflows
      EXPECT_EQ(mine[5], static_cast<std::uint64_t>(x / odd));
      EXPECT_EQ(mine[6], static_cast<std::uint64_t>(x % odd));
    }
    EXPECT_EQ(mine[7], ux / uodd);
    EXPECT_EQ(mine[8], ux % uodd);
    EXPECT_EQ(mine[9], static_cast<std::uint64_t>(x >> (uy & 63)));
    EXPECT_EQ(mine[10], ux >> (uy & 63));
    EXPECT_EQ(mine[11], ux << (uy & 63));
    EXPECT_EQ(mine[12], static_cast<std::uint64_t>(std::min(x, y)));
    EXPECT_EQ(mine[13], std::uint64_t{ux < uy});
    const auto first = static_cast<std::uint64_t>(ux == 0 ? 0 : std::countr_zero(ux) + 1);
    EXPECT_EQ(mine[14], static_cast<std::uint64_t>(std::countl_zero(ux)) |
                            static_cast<std::uint64_t>(std::popcount(ux)) << 8 | first << 16);
    std::uint64_t reversed = 0;
    for (int bit = 0; bit < 64; ++bit) reversed |= (ux >> bit & 1) << (63 - bit);
    EXPECT_EQ(mine[15], reversed ^ (x < 0 ? 0 - ux : ux));
  }
}

std::uint32_t byte_perm(std::uint32_t x, std::uint32_t y, std::uint32_t selector) {
  const std::uint64_t both = std::uint64_t{y} << 32 | x;
  std::uint32_t result = 0;
  for (int i = 0; i < 4; ++i) result |= static_cast<std::uint32_t>(both >> (8 * (selector >> (4 * i) & 7)) & 0xff) << (8 * i);
  return result;
}

std::uint32_t field(std::uint32_t x, std::uint32_t at, std::uint32_t length, bool is_signed) {
  std::uint32_t result = 0;
  const std::uint32_t last = std::min(at + length - 1, 31u);
  const std::uint32_t sign = is_signed && length != 0 ? x >> last & 1 : 0;
  for (std::uint32_t i = 0; i < 32; ++i) result |= (i < length && at + i <= 31 ? x >> (at + i) & 1 : sign) << i;
  return result;
}

TEST_P(Arithmetic, Bits32) {
  const auto a = integers<std::uint32_t>(3), b = integers<std::uint32_t>(4);
  const BufferPtr out = zeros<std::uint32_t>(16 * kCount);
  run(load("arithmetic"), "bits32", {.block = {kCount, 1, 1}}, Arguments(upload(a), upload(b), out));
  const auto got = download<std::uint32_t>(out);
  for (std::size_t i = 0; i < kCount; ++i) {
    const std::uint32_t x = a[i], y = b[i];
    SCOPED_TRACE(fmt::format("x {:#x} y {:#x}", x, y));
    const std::uint32_t* mine = got.data() + 16 * i;
    EXPECT_EQ(mine[0], static_cast<std::uint32_t>(std::countl_zero(x)));
    EXPECT_EQ(mine[1], static_cast<std::uint32_t>(std::popcount(x)));
    std::uint32_t reversed = 0;
    for (int bit = 0; bit < 32; ++bit) reversed |= (x >> bit & 1) << (31 - bit);
    EXPECT_EQ(mine[2], reversed);
    EXPECT_EQ(mine[3], byte_perm(x, y, x & 0x7777));
    const std::uint64_t both = std::uint64_t{y} << 32 | x;
    EXPECT_EQ(mine[4], static_cast<std::uint32_t>(both << (y & 31) >> 32));
    EXPECT_EQ(mine[5], static_cast<std::uint32_t>(both >> (y & 31)));
    EXPECT_EQ(mine[6], field(x, y & 63, y >> 8 & 63, false));
    EXPECT_EQ(mine[7], field(x, y & 63, y >> 8 & 63, true));
    std::uint32_t inserted = y;
    for (std::uint32_t bit = 0; bit < (x & 31) && (y & 31) + bit < 32; ++bit) {
      const std::uint32_t place = 1u << ((y & 31) + bit);
      inserted = (x >> bit & 1) != 0 ? inserted | place : inserted & ~place;
    }
    EXPECT_EQ(mine[8], inserted);
    EXPECT_EQ(mine[9], x ^ y ^ x >> 3);
    EXPECT_EQ(mine[10], static_cast<std::uint32_t>(std::uint64_t{x} * y >> 32));
    const auto sx = static_cast<std::int32_t>(x), sy = static_cast<std::int32_t>(y);
    EXPECT_EQ(mine[11], static_cast<std::uint32_t>(std::int64_t{sx} * sy >> 32));
    EXPECT_EQ(mine[12], y + (sx < sy ? y - x : x - y));
    EXPECT_EQ(mine[13], (y & 127) > 31 ? 0 : x << (y & 127));
    EXPECT_EQ(mine[14], static_cast<std::uint32_t>(sx >> std::min(y & 127, 31u)));
    const std::int64_t sum = std::int64_t{sx} + sy;
    EXPECT_EQ(static_cast<std::int32_t>(mine[15]), std::clamp<std::int64_t>(sum, INT32_MIN, INT32_MAX));
  }
}

// cvt to an integer type clamps, and takes NaN to 0 (ISA 9.7.9.21).
template <typename I, typename T>
I clamped(T value) {
  if (std::isnan(value)) return 0;
  if (value <= static_cast<T>(std::numeric_limits<I>::min())) return std::numeric_limits<I>::min();
  if (value >= static_cast<T>(std::numeric_limits<I>::max())) return std::numeric_limits<I>::max();
  return static_cast<I>(value);
}

TEST_P(Arithmetic, Floats32) {
  const auto a = reals<float>(5), b = reals<float>(6);
  const BufferPtr out = zeros<std::uint32_t>(16 * kCount);
  run(load("arithmetic"), "floats32", {.block = {kCount, 1, 1}}, Arguments(upload(a), upload(b), out));
  const auto got = download<std::uint32_t>(out);
  for (std::size_t i = 0; i < kCount; ++i) {
    const volatile float x = a[i], y = b[i];
    SCOPED_TRACE(fmt::format("x {} y {}", a[i], b[i]));
    const std::uint32_t* mine = got.data() + 16 * i;
    EXPECT_EQ(bits(f32(mine[0])), bits(x + y));
    EXPECT_EQ(bits(f32(mine[1])), bits(x * y));
    EXPECT_EQ(bits(f32(mine[2])), bits(x / y));
    EXPECT_EQ(bits(f32(mine[3])), bits(std::sqrt(std::fabs(float(x)))));
    EXPECT_EQ(bits(f32(mine[4])), bits(std::fma(float(x), float(y), float(x))));
    EXPECT_EQ(bits(f32(mine[5])), bits(rounded<float>(FE_TOWARDZERO, [&] { return x + y; })));
    EXPECT_EQ(bits(f32(mine[6])), bits(rounded<float>(FE_UPWARD, [&] { return x * y; })));
    EXPECT_EQ(bits(f32(mine[7])), bits(rounded<float>(FE_DOWNWARD, [&] { return std::fma(float(x), float(y), float(y)); })));
    EXPECT_EQ(f32(mine[8]), std::fmin(float(x), float(y)));
    EXPECT_EQ(f32(mine[9]), std::fmax(float(x), float(y)));
    EXPECT_EQ(static_cast<std::int32_t>(mine[10]), clamped<std::int32_t>(double(std::nearbyint(float(x)))));
    EXPECT_EQ(static_cast<std::int32_t>(mine[11]), clamped<std::int32_t>(double(std::trunc(float(x)))));
    EXPECT_EQ(mine[12], clamped<std::uint32_t>(double(std::floor(float(x)))));
    EXPECT_EQ(bits(f32(mine[13])), bits(std::nearbyint(float(x))));
    const bool less = x < y, equal = x == y, more = x > y;
    EXPECT_EQ(mine[14], unsigned(less) | unsigned(equal) << 1 | unsigned(!equal) << 2 |
                            unsigned(std::isnan(float(x))) << 3 | unsigned(more || equal) << 4 |
                            unsigned(!(less || equal)) << 5);
    EXPECT_EQ(f32(mine[15]), std::fmin(std::fmax(float(x), 0.0f), 1.0f));
  }
}

TEST_P(Arithmetic, Floats64) {
  const auto a = reals<double>(7), b = reals<double>(8);
  const BufferPtr out = zeros<std::uint64_t>(12 * kCount);
  run(load("arithmetic"), "floats64", {.block = {kCount, 1, 1}}, Arguments(upload(a), upload(b), out));
  const auto got = download<std::uint64_t>(out);
  const auto f64 = [](std::uint64_t pattern) { return std::bit_cast<double>(pattern); };
  for (std::size_t i = 0; i < kCount; ++i) {
    const volatile double x = a[i], y = b[i];
    SCOPED_TRACE(fmt::format("x {} y {}", a[i], b[i]));
    const std::uint64_t* mine = got.data() + 12 * i;
    EXPECT_EQ(bits(f64(mine[0])), bits(x + y));
    EXPECT_EQ(bits(f64(mine[1])), bits(x * y));
    EXPECT_EQ(bits(f64(mine[2])), bits(x / y));
    EXPECT_EQ(bits(f64(mine[3])), bits(std::sqrt(std::fabs(double(x)))));
    EXPECT_EQ(bits(f64(mine[4])), bits(std::fma(double(x), double(y), double(x))));
    EXPECT_EQ(bits(f64(mine[5])), bits(rounded<double>(FE_UPWARD, [&] { return x + y; })));
    EXPECT_EQ(bits(f64(mine[6])), bits(rounded<double>(FE_TOWARDZERO, [&] { return x * y; })));
    if (std::fabs(double(x)) < 9e18) {
      EXPECT_EQ(static_cast<std::int64_t>(mine[7]), std::llrint(double(x)));
    }
    EXPECT_EQ(bits(f32(mine[8])), bits(static_cast<float>(double(x))));
    EXPECT_EQ(bits(f64(mine[9])), bits(static_cast<double>(std::bit_cast<std::int64_t>(double(x)))));
    EXPECT_EQ(mine[10], std::bit_cast<std::uint64_t>(std::floor(double(x))) ^
                            std::bit_cast<std::uint64_t>(std::ceil(double(y))));
    EXPECT_EQ(f64(mine[11]), std::fmin(double(x), double(y)));
  }
}

// Halves as doubles, in which sums, products and fused ones of halves are exact or rounded once to half below.
double from_half(std::uint16_t pattern) {
  const int exponent = pattern >> 10 & 31;
  const double fraction = pattern & 1023;
  const double magnitude = exponent == 31   ? (fraction == 0 ? INFINITY : NAN)
                           : exponent == 0 ? std::ldexp(fraction, -24)
                                           : std::ldexp(1024 + fraction, exponent - 25);
  return pattern >> 15 != 0 ? -magnitude : magnitude;
}

std::uint16_t to_half(double value, bool toward_zero = false) {
  if (std::isnan(value)) return 0x7fff;
  const std::uint16_t sign = std::signbit(value) ? 0x8000 : 0;
  const double magnitude = std::fabs(value);
  if (std::isinf(magnitude)) return sign | 0x7c00;
  int exponent = 0;
  std::frexp(magnitude, &exponent);
  const int step = std::max(exponent - 11, -24);  // the weight of the last bit
  const double scaled = std::ldexp(magnitude, -step);
  const double kept = std::ldexp(toward_zero ? std::trunc(scaled) : std::nearbyint(scaled), step);
  if (kept > 65504) return sign | (toward_zero ? 0x7bff : 0x7c00);
  if (kept < std::ldexp(1.0, -14)) return sign | static_cast<std::uint16_t>(std::ldexp(kept, 24));
  std::frexp(kept, &exponent);
  const auto fraction = static_cast<unsigned>(std::ldexp(kept, 11 - exponent)) - 1024;
  return sign | static_cast<std::uint16_t>((exponent + 14) << 10 | fraction);
}

TEST_P(Arithmetic, Halves) {
  std::vector<std::uint16_t> a, b;
  std::mt19937 random(kSeed);
  for (std::size_t i = 0; i < kCount; ++i) {
    a.push_back(static_cast<std::uint16_t>(random()));
    b.push_back(static_cast<std::uint16_t>(random()));
  }
  const BufferPtr out = zeros<std::uint16_t>(8 * kCount);
  run(load("arithmetic"), "halves", {.block = {kCount, 1, 1}}, Arguments(upload(a), upload(b), out));
  const auto got = download<std::uint16_t>(out);
  const auto canonical = [](std::uint16_t h) { return std::isnan(from_half(h)) ? std::uint16_t{0x7fff} : h; };
  for (std::size_t i = 0; i < kCount; ++i) {
    const double x = from_half(a[i]), y = from_half(b[i]);
    SCOPED_TRACE(fmt::format("x {:#x} ({}) y {:#x} ({})", a[i], x, b[i], y));
    const std::uint16_t* mine = got.data() + 8 * i;
    EXPECT_EQ(canonical(mine[0]), to_half(x + y));
    EXPECT_EQ(canonical(mine[1]), to_half(x * y));
    EXPECT_EQ(canonical(mine[2]), to_half(x - y));
    EXPECT_EQ(canonical(mine[3]), to_half(std::fma(x, y, x)));
    EXPECT_EQ(canonical(mine[4]), to_half(static_cast<float>(x) * 0.3f));
    EXPECT_EQ(canonical(mine[5]), to_half(static_cast<float>(y) * 0.7f, true));
    EXPECT_EQ(mine[6], unsigned(x < y) | unsigned(x == x) << 1);
    if (!std::isnan(x)) {
      EXPECT_EQ(static_cast<std::int16_t>(mine[7]), clamped<std::int16_t>(std::nearbyint(x)));
    }
  }
}

// Where .rn is not written the ISA lets a compiler fuse; every device here rounds twice (see cuda/exact_rounding.h).
TEST_P(Arithmetic, MultiplyThenAdd_RoundsTwice) {
  struct Input {
    float x, y, z, unused;
    double dx, dy, dz;
  };
  const float x = 1.0f + 0x1p-12f, y = 1.0f + 0x1p-13f;
  const double dx = 1.0 + 0x1p-30, dy = 1.0 + 0x1p-29;
  const volatile float product = x * y;
  const volatile double wide_product = dx * dy;
  const Input input{x, y, -product, 0, dx, dy, wide_product};
  const BufferPtr out = zeros<std::uint64_t>(3);
  run(load("bounds"), "two_roundings", {}, Arguments(upload(std::vector<Input>{input}), out));
  const auto got = download<std::uint64_t>(out);
  EXPECT_EQ(f32(got[0]), 0.0f);
  EXPECT_EQ(f32(got[0] >> 32), std::fma(x, y, -product));
  EXPECT_NE(std::fma(x, y, -product), 0.0f);
  EXPECT_EQ(std::bit_cast<double>(got[1]), 0.0);
  EXPECT_EQ(std::bit_cast<double>(got[2]), std::fma(dx, dy, -wide_product));
  EXPECT_NE(std::fma(dx, dy, -wide_product), 0.0);
}

}  // namespace
}  // namespace pergola::conformance
