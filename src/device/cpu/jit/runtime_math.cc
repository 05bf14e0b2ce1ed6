// Arithmetic that generated code calls: directed rounding, conversions without an instruction, special
// functions, additions of floats in memory. All but the last are pure.
#include <atomic>
#include <bit>
#include <cmath>
#include <cstring>

#include "src/device/cpu/jit/runtime_calls.h"
#include "src/device/cpu/jit/runtime_math.h"
#include "src/device/cpu/numeric.h"
#include "src/device/cpu/warp_sync.h"

namespace pergola::device::cpu::jit {
namespace {

Rounding mode(std::uint32_t rounding) { return static_cast<Rounding>(rounding); }

FloatFormat format(std::uint32_t number) {
  switch (number) {
    case kFormatF16: return kF16Format;
    case kFormatBf16: return kBf16Format;
    case kFormatTf32: return kTf32Format;
    case kFormatF64: return kF64Format;
    default: return kF32Format;
  }
}

double add64(double a, double b, std::uint32_t r) { return add_f64(a, b, mode(r)); }
double mul64(double a, double b, std::uint32_t r) { return mul_f64(a, b, mode(r)); }
double fma64(double a, double b, double c, std::uint32_t r) { return fma_f64(a, b, c, mode(r)); }
double div64(double a, double b, std::uint32_t r) { return div_f64(a, b, mode(r)); }
double sqrt64(double a, std::uint32_t r) { return sqrt_f64(a, mode(r)); }

std::uint32_t fma_of(std::uint32_t a, std::uint32_t b, std::uint32_t c, FloatFormat f) {
  const double exact = fma_to_odd(widen(a, f), widen(b, f), widen(c, f), Rounding::kNearestEven);
  return static_cast<std::uint32_t>(round_double(exact, f, Rounding::kNearestEven));
}
std::uint32_t fma_half(std::uint32_t a, std::uint32_t b, std::uint32_t c) { return fma_of(a, b, c, kF16Format); }
std::uint32_t fma_brain(std::uint32_t a, std::uint32_t b, std::uint32_t c) { return fma_of(a, b, c, kBf16Format); }

std::uint32_t fma_half_ftz(std::uint32_t a, std::uint32_t b, std::uint32_t c) {
  const double exact = fma_to_odd(widen(a, kF16Format), widen(b, kF16Format), widen(c, kF16Format), Rounding::kNearestEven);
  const auto result = static_cast<std::uint32_t>(round_double(exact, kF16Format, Rounding::kNearestEven));
  return rounds_below_normal(exact, kF16Format, Rounding::kNearestEven) ? result & 0x8000 : result;
}

std::uint64_t round_to(double value, std::uint32_t to, std::uint32_t r) { return round_double(value, format(to), mode(r)); }
std::uint64_t int_to_float(std::uint64_t value, std::uint32_t is_signed, std::uint32_t to, std::uint32_t r) {
  const bool negative = is_signed != 0 && value >> 63 != 0;
  return integer_to_float(negative, negative ? 0 - value : value, format(to), mode(r));
}
std::uint32_t to_fp8(float value, std::uint32_t e5m2) { return e5m2 != 0 ? double_to_e5m2(value) : double_to_e4m3(value); }
std::uint32_t fp8_to_f16(std::uint32_t bits, std::uint32_t e5m2, std::uint32_t relu) {
  double value = e5m2 != 0 ? e5m2_to_double(static_cast<std::uint8_t>(bits)) : e4m3_to_double(static_cast<std::uint8_t>(bits));
  if (relu != 0 && !std::isnan(value) && std::signbit(value)) value = 0;
  return static_cast<std::uint32_t>(round_double(value, kF16Format, Rounding::kNearestEven));
}

// rcp.approx.f64 and rsqrt.approx.f64.
double reciprocal(double x) { return 1.0 / x; }
double reciprocal_root(double x) { return 1.0 / std::sqrt(x); }

// Of f64 only the upper 32 bits of operand and result count; subnormals are flushed.
template <double (*kFunction)(double)>
double approximate_high(double a) {
  constexpr std::uint64_t kHigh = 0xffffffff00000000u;
  a = std::bit_cast<double>(std::bit_cast<std::uint64_t>(a) & kHigh);
  if (std::fpclassify(a) == FP_SUBNORMAL) a = std::copysign(0.0, a);
  double result = kFunction(a);
  if (std::isnan(result)) return std::bit_cast<double>(std::uint64_t{0x7fffffff00000000u});
  if (std::fpclassify(result) == FP_SUBNORMAL) result = std::copysign(0.0, result);
  return std::bit_cast<double>(std::bit_cast<std::uint64_t>(result) & kHigh);
}
// Adds to a float in memory as one atomic step; gives the old bits. Relaxed would do for PTX's default, but a kernel's
// .acquire and .release forms come here too.
template <typename Bits, typename Add>
std::uint64_t atomic_add(void* at, Add add) {
  std::atomic_ref<Bits> word(*static_cast<Bits*>(at));
  Bits old = word.load(std::memory_order_relaxed);
  while (!word.compare_exchange_weak(old, add(old), std::memory_order_acq_rel, std::memory_order_relaxed)) {
  }
  return old;
}
// In global memory f32 additions flush subnormals, in shared memory they do not (ISA 9.7.13.4).
std::uint64_t atomic_add_f32(void* at, std::uint64_t value, std::uint32_t flushes) {
  const auto b = std::bit_cast<float>(static_cast<std::uint32_t>(value));
  return atomic_add<std::uint32_t>(at, [b, flushes](std::uint32_t old) {
    const auto a = std::bit_cast<float>(old);
    return std::bit_cast<std::uint32_t>(canonical(flushes != 0 ? flush(flush(a) + flush(b)) : a + b));
  });
}
std::uint64_t atomic_add_f64(void* at, std::uint64_t value, std::uint32_t) {
  const auto b = std::bit_cast<double>(value);
  return atomic_add<std::uint64_t>(at, [b](std::uint64_t a) { return std::bit_cast<std::uint64_t>(std::bit_cast<double>(a) + b); });
}

// f16 and bf16: one, or a pair in 32 bits; added, or the smaller or larger kept.
std::uint16_t combine_half(std::uint16_t a, std::uint16_t b, FloatFormat f, std::uint32_t operation) {
  const double x = widen(a, f), y = widen(b, f);
  const double exact = operation == kHalfAdd ? add_to_odd(x, y, Rounding::kNearestEven)
                                             : min_max(x, y, operation == kHalfMax, false);
  return static_cast<std::uint16_t>(round_double(exact, f, Rounding::kNearestEven));
}
template <int kFormat>
std::uint64_t atomic_half(void* at, std::uint64_t value, std::uint32_t operation) {
  return atomic_add<std::uint16_t>(at, [value, operation](std::uint16_t a) {
    return combine_half(a, static_cast<std::uint16_t>(value), format(kFormat), operation);
  });
}
template <int kFormat>
std::uint64_t atomic_pair(void* at, std::uint64_t value, std::uint32_t operation) {
  return atomic_add<std::uint32_t>(at, [value, operation](std::uint32_t a) {
    const auto part = [&](int shift) {
      return std::uint32_t{combine_half(static_cast<std::uint16_t>(a >> shift), static_cast<std::uint16_t>(value >> shift),
                                        format(kFormat), operation)} << shift;
    };
    return part(0) | part(16);
  });
}

std::uint32_t fns(std::uint32_t mask, std::uint32_t base, std::uint32_t offset) {
  return find_nth_set(mask, base, static_cast<std::int32_t>(offset));
}

}  // namespace

std::vector<RuntimeSymbol> math_symbols() {
  return {
      symbol("pergola_jit_add_f64", add64), symbol("pergola_jit_mul_f64", mul64), symbol("pergola_jit_fma_f64", fma64),
      symbol("pergola_jit_div_f64", div64), symbol("pergola_jit_sqrt_f64", sqrt64),
      symbol("pergola_jit_fma_f16", fma_half), symbol("pergola_jit_fma_bf16", fma_brain),
      symbol("pergola_jit_fma_ftz_f16", fma_half_ftz), symbol("pergola_jit_round", round_to),
      symbol("pergola_jit_int_to_float", int_to_float), symbol("pergola_jit_to_fp8", to_fp8),
      symbol("pergola_jit_fp8_to_f16", fp8_to_f16), symbol("pergola_jit_approx_rcp_f64", approximate_high<reciprocal>),
      symbol("pergola_jit_approx_rsqrt_f64", approximate_high<reciprocal_root>),
      symbol("pergola_jit_rsqrt_f64", reciprocal_root),  // all of its bits
      symbol("pergola_jit_atomic_add_f32", atomic_add_f32),
      symbol("pergola_jit_atomic_add_f64", atomic_add_f64),
      symbol("pergola_jit_atomic_f16", atomic_half<kFormatF16>),
      symbol("pergola_jit_atomic_bf16", atomic_half<kFormatBf16>),
      symbol("pergola_jit_atomic_f16x2", atomic_pair<kFormatF16>),
      symbol("pergola_jit_atomic_bf16x2", atomic_pair<kFormatBf16>), symbol("pergola_jit_fns", fns),
  };
}

}  // namespace pergola::device::cpu::jit
