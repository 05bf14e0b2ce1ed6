// CUDA's math functions, for clang (pergola_cuda.h).
//
// What PTX does in one instruction is a builtin of clang here. The rest is declared and called under the name
// __pergola_<name> (math_functions.def), since clang brings no library that computes it; the functions of CUDA's names
// are inline around those calls, so that neither clang nor LLVM takes them for the C library's.
#pragma once

#define PERGOLA_MATH_F1(name)                               \
  extern "C" __device__ float __pergola_##name(float);      \
  PERGOLA_FN float name(float a) { return __pergola_##name(a); }
#define PERGOLA_MATH_F2(name)                                  \
  extern "C" __device__ float __pergola_##name(float, float);  \
  PERGOLA_FN float name(float a, float b) { return __pergola_##name(a, b); }
#define PERGOLA_MATH_FI(name)                                \
  extern "C" __device__ float __pergola_##name(float, int);  \
  PERGOLA_FN float name(float a, int b) { return __pergola_##name(a, b); }
#define PERGOLA_MATH_IF(name)                        \
  extern "C" __device__ int __pergola_##name(float); \
  PERGOLA_FN int name(float a) { return __pergola_##name(a); }
#define PERGOLA_MATH_D1(name)                           \
  extern "C" __device__ double __pergola_##name(double); \
  PERGOLA_FN double name(double a) { return __pergola_##name(a); }
#define PERGOLA_MATH_D2(name)                                    \
  extern "C" __device__ double __pergola_##name(double, double); \
  PERGOLA_FN double name(double a, double b) { return __pergola_##name(a, b); }
#define PERGOLA_MATH_DI(name)                                 \
  extern "C" __device__ double __pergola_##name(double, int); \
  PERGOLA_FN double name(double a, int b) { return __pergola_##name(a, b); }
#define PERGOLA_MATH_ID(name)                         \
  extern "C" __device__ int __pergola_##name(double); \
  PERGOLA_FN int name(double a) { return __pergola_##name(a); }
#include <pergola/device/math_functions.def>
#undef PERGOLA_MATH_F1
#undef PERGOLA_MATH_F2
#undef PERGOLA_MATH_FI
#undef PERGOLA_MATH_IF
#undef PERGOLA_MATH_D1
#undef PERGOLA_MATH_D2
#undef PERGOLA_MATH_DI
#undef PERGOLA_MATH_ID

// In PTX directly.
PERGOLA_FN float sqrtf(float a) { return __builtin_sqrtf(a); }
PERGOLA_FN double sqrt(double a) { return __builtin_sqrt(a); }
PERGOLA_FN float floorf(float a) { return __builtin_floorf(a); }
PERGOLA_FN double floor(double a) { return __builtin_floor(a); }
PERGOLA_FN float ceilf(float a) { return __builtin_ceilf(a); }
PERGOLA_FN double ceil(double a) { return __builtin_ceil(a); }
PERGOLA_FN float truncf(float a) { return __builtin_truncf(a); }
PERGOLA_FN double trunc(double a) { return __builtin_trunc(a); }
PERGOLA_FN float rintf(float a) { return __builtin_rintf(a); }
PERGOLA_FN double rint(double a) { return __builtin_rint(a); }
PERGOLA_FN float nearbyintf(float a) { return __builtin_nearbyintf(a); }
PERGOLA_FN double nearbyint(double a) { return __builtin_nearbyint(a); }
PERGOLA_FN float roundf(float a) { return __builtin_roundf(a); }
PERGOLA_FN double round(double a) { return __builtin_round(a); }
PERGOLA_FN float fabsf(float a) { return __builtin_fabsf(a); }
PERGOLA_FN double fabs(double a) { return __builtin_fabs(a); }
PERGOLA_FN float copysignf(float a, float b) { return __builtin_copysignf(a, b); }
PERGOLA_FN double copysign(double a, double b) { return __builtin_copysign(a, b); }
PERGOLA_FN float fminf(float a, float b) { return __builtin_fminf(a, b); }
PERGOLA_FN double fmin(double a, double b) { return __builtin_fmin(a, b); }
PERGOLA_FN float fmaxf(float a, float b) { return __builtin_fmaxf(a, b); }
PERGOLA_FN double fmax(double a, double b) { return __builtin_fmax(a, b); }
PERGOLA_FN float fmaf(float a, float b, float c) { return __builtin_fmaf(a, b, c); }
PERGOLA_FN double fma(double a, double b, double c) { return __builtin_fma(a, b, c); }
PERGOLA_FN float rsqrtf(float a) { return __frsqrt_rn(a); }
PERGOLA_FN double rsqrt(double a) { return 1.0 / __builtin_sqrt(a); }
PERGOLA_FN float fdimf(float a, float b) { return a <= b ? 0.0f : a - b; }
PERGOLA_FN double fdim(double a, double b) { return a <= b ? 0.0 : a - b; }
PERGOLA_FN float rcbrtf(float a) { return 1.0f / cbrtf(a); }
PERGOLA_FN double rcbrt(double a) { return 1.0 / cbrt(a); }
// Norms that neither overflow nor underflow on the way: the squares of floats are taken as doubles, those of doubles once
// the largest is near 1. An infinity among them gives infinity, also beside a NaN.
PERGOLA_FN bool pergola_any_infinite(double a, double b, double c, double d) {
  return __builtin_isinf(a) || __builtin_isinf(b) || __builtin_isinf(c) || __builtin_isinf(d);
}
PERGOLA_FN double pergola_norm_of_floats(double a, double b, double c, double d) {
  return pergola_any_infinite(a, b, c, d) ? __builtin_inf() : sqrt(a * a + b * b + c * c + d * d);
}
PERGOLA_FN int pergola_largest_exponent(double a, double b, double c, double d) {
  const double largest = fmax(fmax(fabs(a), fabs(b)), fmax(fabs(c), fabs(d)));
  if (!(largest > 0.0) || __builtin_isinf(largest)) return 0;
  const int exponent = ilogb(largest);
  return exponent < -1000 ? -1000 : exponent > 1000 ? 1000 : exponent;
}
PERGOLA_FN double pergola_norm_scaled(double a, double b, double c, double d, int exponent) {
  if (pergola_any_infinite(a, b, c, d)) return __builtin_inf();
  a = scalbn(a, -exponent), b = scalbn(b, -exponent), c = scalbn(c, -exponent), d = scalbn(d, -exponent);
  return sqrt(a * a + b * b + c * c + d * d);
}
PERGOLA_FN double pergola_norm(double a, double b, double c, double d) {
  const int exponent = pergola_largest_exponent(a, b, c, d);
  return scalbn(pergola_norm_scaled(a, b, c, d, exponent), exponent);
}
PERGOLA_FN double pergola_inverse_norm(double a, double b, double c, double d) {
  const int exponent = pergola_largest_exponent(a, b, c, d);
  return scalbn(1.0 / pergola_norm_scaled(a, b, c, d, exponent), -exponent);
}
PERGOLA_FN float rhypotf(float a, float b) { return (float)(1.0 / pergola_norm_of_floats(a, b, 0.0, 0.0)); }
PERGOLA_FN double rhypot(double a, double b) { return pergola_inverse_norm(a, b, 0.0, 0.0); }
PERGOLA_FN float norm3df(float a, float b, float c) { return (float)pergola_norm_of_floats(a, b, c, 0.0); }
PERGOLA_FN double norm3d(double a, double b, double c) { return pergola_norm(a, b, c, 0.0); }
PERGOLA_FN float norm4df(float a, float b, float c, float d) { return (float)pergola_norm_of_floats(a, b, c, d); }
PERGOLA_FN double norm4d(double a, double b, double c, double d) { return pergola_norm(a, b, c, d); }
PERGOLA_FN float rnorm3df(float a, float b, float c) { return (float)(1.0 / pergola_norm_of_floats(a, b, c, 0.0)); }
PERGOLA_FN double rnorm3d(double a, double b, double c) { return pergola_inverse_norm(a, b, c, 0.0); }
PERGOLA_FN float rnorm4df(float a, float b, float c, float d) { return (float)(1.0 / pergola_norm_of_floats(a, b, c, d)); }
PERGOLA_FN double rnorm4d(double a, double b, double c, double d) { return pergola_inverse_norm(a, b, c, d); }
PERGOLA_FN int __isnanf(float a) { return a != a; }
PERGOLA_FN long lrintf(float a) { return __float2ll_rn(a); }
PERGOLA_FN long lrint(double a) { return __double2ll_rn(a); }
PERGOLA_FN long long llrintf(float a) { return __float2ll_rn(a); }
PERGOLA_FN long long llrint(double a) { return __double2ll_rn(a); }
PERGOLA_FN long lroundf(float a) { return static_cast<long>(roundf(a)); }
PERGOLA_FN long lround(double a) { return static_cast<long>(round(a)); }
PERGOLA_FN long long llroundf(float a) { return static_cast<long long>(roundf(a)); }
PERGOLA_FN long long llround(double a) { return static_cast<long long>(round(a)); }
PERGOLA_FN float ldexpf(float a, int b) { return scalbnf(a, b); }
PERGOLA_FN double ldexp(double a, int b) { return scalbn(a, b); }
PERGOLA_FN float modff(float a, float* whole) {
  *whole = truncf(a);
  return copysignf(__builtin_isinf(a) ? 0.0f : a - *whole, a);
}
PERGOLA_FN double modf(double a, double* whole) {
  *whole = trunc(a);
  return copysign(__builtin_isinf(a) ? 0.0 : a - *whole, a);
}
PERGOLA_FN float frexpf(float a, int* exponent) {
  if (a == 0.0f || !__builtin_isfinite(a)) {
    *exponent = 0;
    return a;
  }
  *exponent = ilogbf(a) + 1;
  return scalbnf(a, -*exponent);
}
PERGOLA_FN double frexp(double a, int* exponent) {
  if (a == 0.0 || !__builtin_isfinite(a)) {
    *exponent = 0;
    return a;
  }
  *exponent = ilogb(a) + 1;
  return scalbn(a, -*exponent);
}
PERGOLA_FN void sincosf(float a, float* sine, float* cosine) {
  *sine = sinf(a);
  *cosine = cosf(a);
}
PERGOLA_FN void sincos(double a, double* sine, double* cosine) {
  *sine = sin(a);
  *cosine = cos(a);
}
// sin(pi a) and cos(pi a): reduced exactly first, so that whole and half numbers give whole results.
PERGOLA_FN float sinpif(float a) {
  const float r = a - 2.0f * rintf(0.5f * a);
  const float q = r > 0.5f ? 1.0f - r : r < -0.5f ? -1.0f - r : r;
  return sinf(q * 3.14159265358979323846f);
}
PERGOLA_FN float cospif(float a) {
  const float r = fabsf(a - 2.0f * rintf(0.5f * a));
  return sinf((0.5f - r) * 3.14159265358979323846f);
}
PERGOLA_FN double sinpi(double a) {
  const double r = a - 2.0 * rint(0.5 * a);
  const double q = r > 0.5 ? 1.0 - r : r < -0.5 ? -1.0 - r : r;
  return sin(q * 3.14159265358979323846);
}
PERGOLA_FN double cospi(double a) {
  const double r = fabs(a - 2.0 * rint(0.5 * a));
  return sin((0.5 - r) * 3.14159265358979323846);
}
PERGOLA_FN float normcdff(float a) { return 0.5f * erfcf(-a * 0.70710678118654752440f); }
PERGOLA_FN double normcdf(double a) { return 0.5 * erfc(-a * 0.70710678118654752440); }
PERGOLA_FN bool isnan(float a) { return __builtin_isnan(a); }
PERGOLA_FN bool isnan(double a) { return __builtin_isnan(a); }
PERGOLA_FN bool isinf(float a) { return __builtin_isinf(a); }
PERGOLA_FN bool isinf(double a) { return __builtin_isinf(a); }
PERGOLA_FN bool isfinite(float a) { return __builtin_isfinite(a); }
PERGOLA_FN bool isfinite(double a) { return __builtin_isfinite(a); }
PERGOLA_FN bool signbit(float a) { return __float_as_int(a) < 0; }
PERGOLA_FN bool signbit(double a) { return __double_as_longlong(a) < 0; }

// C++: the double's name for floats too.
PERGOLA_FN float sin(float a) { return sinf(a); }
PERGOLA_FN float cos(float a) { return cosf(a); }
PERGOLA_FN float tan(float a) { return tanf(a); }
PERGOLA_FN float asin(float a) { return asinf(a); }
PERGOLA_FN float acos(float a) { return acosf(a); }
PERGOLA_FN float atan(float a) { return atanf(a); }
PERGOLA_FN float sinh(float a) { return sinhf(a); }
PERGOLA_FN float cosh(float a) { return coshf(a); }
PERGOLA_FN float tanh(float a) { return tanhf(a); }
PERGOLA_FN float asinh(float a) { return asinhf(a); }
PERGOLA_FN float acosh(float a) { return acoshf(a); }
PERGOLA_FN float atanh(float a) { return atanhf(a); }
PERGOLA_FN float exp(float a) { return expf(a); }
PERGOLA_FN float exp2(float a) { return exp2f(a); }
PERGOLA_FN float exp10(float a) { return exp10f(a); }
PERGOLA_FN float expm1(float a) { return expm1f(a); }
PERGOLA_FN float log(float a) { return logf(a); }
PERGOLA_FN float log2(float a) { return log2f(a); }
PERGOLA_FN float log10(float a) { return log10f(a); }
PERGOLA_FN float log1p(float a) { return log1pf(a); }
PERGOLA_FN float cbrt(float a) { return cbrtf(a); }
PERGOLA_FN float erf(float a) { return erff(a); }
PERGOLA_FN float erfc(float a) { return erfcf(a); }
PERGOLA_FN float tgamma(float a) { return tgammaf(a); }
PERGOLA_FN float lgamma(float a) { return lgammaf(a); }
PERGOLA_FN float logb(float a) { return logbf(a); }
PERGOLA_FN float sqrt(float a) { return sqrtf(a); }
PERGOLA_FN float floor(float a) { return floorf(a); }
PERGOLA_FN float ceil(float a) { return ceilf(a); }
PERGOLA_FN float trunc(float a) { return truncf(a); }
PERGOLA_FN float rint(float a) { return rintf(a); }
PERGOLA_FN float nearbyint(float a) { return nearbyintf(a); }
PERGOLA_FN float round(float a) { return roundf(a); }
PERGOLA_FN float fabs(float a) { return fabsf(a); }
PERGOLA_FN float rsqrt(float a) { return rsqrtf(a); }
PERGOLA_FN float rcbrt(float a) { return rcbrtf(a); }
PERGOLA_FN float sinpi(float a) { return sinpif(a); }
PERGOLA_FN float cospi(float a) { return cospif(a); }
PERGOLA_FN float atan2(float a, float b) { return atan2f(a, b); }
PERGOLA_FN float pow(float a, float b) { return powf(a, b); }
PERGOLA_FN float hypot(float a, float b) { return hypotf(a, b); }
PERGOLA_FN float fmod(float a, float b) { return fmodf(a, b); }
PERGOLA_FN float remainder(float a, float b) { return remainderf(a, b); }
PERGOLA_FN float nextafter(float a, float b) { return nextafterf(a, b); }
PERGOLA_FN float copysign(float a, float b) { return copysignf(a, b); }
PERGOLA_FN float fmin(float a, float b) { return fminf(a, b); }
PERGOLA_FN float fmax(float a, float b) { return fmaxf(a, b); }
PERGOLA_FN float fdim(float a, float b) { return fdimf(a, b); }
PERGOLA_FN float fma(float a, float b, float c) { return fmaf(a, b, c); }
PERGOLA_FN float scalbn(float a, int b) { return scalbnf(a, b); }
PERGOLA_FN float ldexp(float a, int b) { return scalbnf(a, b); }
PERGOLA_FN int ilogb(float a) { return ilogbf(a); }
PERGOLA_FN long lrint(float a) { return lrintf(a); }
PERGOLA_FN long long llrint(float a) { return llrintf(a); }
PERGOLA_FN long lround(float a) { return lroundf(a); }
PERGOLA_FN float modf(float a, float* whole) { return modff(a, whole); }
PERGOLA_FN float frexp(float a, int* exponent) { return frexpf(a, exponent); }

// An integer argument, or arguments of two types, are taken as double ([cmath.syn]).
template <bool condition>
struct pergola_if {};
template <>
struct pergola_if<true> {
  typedef double type;
};
#define PERGOLA_PROMOTE1(name)                                              \
  template <class A>                                                        \
  PERGOLA_FN typename pergola_if<__is_integral(A)>::type name(A a) {        \
    return name(static_cast<double>(a));                                    \
  }
#define PERGOLA_PROMOTE2(name)                                                                                        \
  template <class A, class B>                                                                                         \
  PERGOLA_FN typename pergola_if<__is_arithmetic(A) && __is_arithmetic(B) &&                                          \
                                 !(__is_same(A, B) && __is_floating_point(A))>::type                                  \
  name(A a, B b) {                                                                                                    \
    return name(static_cast<double>(a), static_cast<double>(b));                                                      \
  }
PERGOLA_PROMOTE1(sin)
PERGOLA_PROMOTE1(cos)
PERGOLA_PROMOTE1(tan)
PERGOLA_PROMOTE1(asin)
PERGOLA_PROMOTE1(acos)
PERGOLA_PROMOTE1(atan)
PERGOLA_PROMOTE1(sinh)
PERGOLA_PROMOTE1(cosh)
PERGOLA_PROMOTE1(tanh)
PERGOLA_PROMOTE1(exp)
PERGOLA_PROMOTE1(exp2)
PERGOLA_PROMOTE1(log)
PERGOLA_PROMOTE1(log2)
PERGOLA_PROMOTE1(log10)
PERGOLA_PROMOTE1(log1p)
PERGOLA_PROMOTE1(cbrt)
PERGOLA_PROMOTE1(sqrt)
PERGOLA_PROMOTE1(floor)
PERGOLA_PROMOTE1(ceil)
PERGOLA_PROMOTE1(trunc)
PERGOLA_PROMOTE1(rint)
PERGOLA_PROMOTE1(round)
PERGOLA_PROMOTE1(fabs)
PERGOLA_PROMOTE1(rsqrt)
PERGOLA_PROMOTE2(atan2)
PERGOLA_PROMOTE2(pow)
PERGOLA_PROMOTE2(hypot)
PERGOLA_PROMOTE2(fmod)
PERGOLA_PROMOTE2(remainder)
PERGOLA_PROMOTE2(copysign)
PERGOLA_PROMOTE2(fmin)
PERGOLA_PROMOTE2(fmax)
PERGOLA_PROMOTE2(fdim)
#undef PERGOLA_PROMOTE1
#undef PERGOLA_PROMOTE2

PERGOLA_FN int abs(int a) { return a < 0 ? -a : a; }
PERGOLA_FN long abs(long a) { return a < 0 ? -a : a; }
PERGOLA_FN long labs(long a) { return a < 0 ? -a : a; }
PERGOLA_FN long long abs(long long a) { return a < 0 ? -a : a; }
PERGOLA_FN long long llabs(long long a) { return a < 0 ? -a : a; }
PERGOLA_FN float abs(float a) { return fabsf(a); }
PERGOLA_FN double abs(double a) { return fabs(a); }

// min and max of each pair of types; mixed pairs convert as arithmetic does. All PERGOLA_HD: usable in constants.
#define PERGOLA_MINMAX(R, A, B)                                                                              \
  PERGOLA_HD R min(A a, B b) { return static_cast<R>(a) < static_cast<R>(b) ? static_cast<R>(a) : static_cast<R>(b); } \
  PERGOLA_HD R max(A a, B b) { return static_cast<R>(a) < static_cast<R>(b) ? static_cast<R>(b) : static_cast<R>(a); }
PERGOLA_MINMAX(int, int, int)
PERGOLA_MINMAX(unsigned int, unsigned int, unsigned int)
PERGOLA_MINMAX(unsigned int, int, unsigned int)
PERGOLA_MINMAX(unsigned int, unsigned int, int)
PERGOLA_MINMAX(long, long, long)
PERGOLA_MINMAX(unsigned long, unsigned long, unsigned long)
PERGOLA_MINMAX(unsigned long, long, unsigned long)
PERGOLA_MINMAX(unsigned long, unsigned long, long)
PERGOLA_MINMAX(long long, long long, long long)
PERGOLA_MINMAX(unsigned long long, unsigned long long, unsigned long long)
PERGOLA_MINMAX(unsigned long long, long long, unsigned long long)
PERGOLA_MINMAX(unsigned long long, unsigned long long, long long)
#undef PERGOLA_MINMAX
#define PERGOLA_MINMAX(R, A, B, f)                      \
  PERGOLA_FN R min(A a, B b) { return fmin##f(static_cast<R>(a), static_cast<R>(b)); }  \
  PERGOLA_FN R max(A a, B b) { return fmax##f(static_cast<R>(a), static_cast<R>(b)); }
PERGOLA_MINMAX(float, float, float, f)
PERGOLA_MINMAX(double, double, double, )
PERGOLA_MINMAX(double, float, double, )
PERGOLA_MINMAX(double, double, float, )
#undef PERGOLA_MINMAX
PERGOLA_FN unsigned int umin(unsigned int a, unsigned int b) { return min(a, b); }
PERGOLA_FN unsigned int umax(unsigned int a, unsigned int b) { return max(a, b); }
