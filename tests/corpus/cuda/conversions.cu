// Conversions between every pair of types, with every rounding mode, and reinterpretation.
#include <cstdint>
#define CONVERT(name, From, To)                                                       \
  extern "C" __global__ void convert_##name(const From* in, To* out, int n) {         \
    int i = blockIdx.x * blockDim.x + threadIdx.x;                                    \
    if (i < n) out[i] = static_cast<To>(in[i]);                                       \
  }
//! run convert_i8_i32 grid=1 block=64 : i8[64] i32[64]=0 64
//! run convert_i32_i8 grid=1 block=64 : i32[64] i8[64]=0 64
//! run convert_u8_f32 grid=1 block=64 : u8[64] f32[64]=0 64
//! run convert_i16_f64 grid=1 block=64 : i16[64] f64[64]=0 64
//! run convert_i32_f32 grid=1 block=64 : i32[64] f32[64]=0 64
//! run convert_u32_f32 grid=1 block=64 : u32[64] f32[64]=0 64
//! run convert_i64_f32 grid=1 block=64 : i64[64] f32[64]=0 64
//! run convert_u64_f64 grid=1 block=64 : u64[64] f64[64]=0 64
//! run convert_f32_i32 grid=1 block=64 : f32[64] i32[64]=0 64
//! run convert_f32_f64 grid=1 block=64 : f32[64] f64[64]=0 64
//! run convert_f64_f32 grid=1 block=64 : f64[64] f32[64]=0 64
//! run convert_f64_i64 grid=1 block=64 : f64[64] i64[64]=0 64
//! run convert_u16_u64 grid=1 block=64 : u16[64] u64[64]=0 64
//! run convert_i32_i64 grid=1 block=64 : i32[64] i64[64]=0 64
//! run convert_i64_i16 grid=1 block=64 : i64[64] i16[64]=0 64
CONVERT(i8_i32, int8_t, int32_t)
CONVERT(i32_i8, int32_t, int8_t)
CONVERT(u8_f32, uint8_t, float)
CONVERT(i16_f64, int16_t, double)
CONVERT(i32_f32, int32_t, float)
CONVERT(u32_f32, uint32_t, float)
CONVERT(i64_f32, int64_t, float)
CONVERT(u64_f64, uint64_t, double)
CONVERT(f32_i32, float, int32_t)
CONVERT(f32_f64, float, double)
CONVERT(f64_f32, double, float)
CONVERT(f64_i64, double, int64_t)
CONVERT(u16_u64, uint16_t, uint64_t)
CONVERT(i32_i64, int32_t, int64_t)
CONVERT(i64_i16, int64_t, int16_t)

#define ROUNDED(mode)                                                                                             \
  extern "C" __global__ void rounded_##mode(const float* f, const double* d, const int* k, const long long* l,    \
                                            double* out) {                                                        \
    int i = threadIdx.x;                                                                                          \
    float x = f[i], y = f[63 - i];                                                                                \
    double u = d[i], v = d[63 - i];                                                                               \
    double* o = out + 12 * i;                                                                                     \
    o[0] = __fadd_##mode(x, y), o[1] = __fmul_##mode(x, y), o[2] = __fdiv_##mode(x, y + 3.0f);                    \
    o[3] = __fmaf_##mode(x, y, 0.1f), o[4] = __fsqrt_##mode(x * x), o[5] = __dadd_##mode(u, v);                   \
    o[6] = __dmul_##mode(u, v), o[7] = __fma_##mode(u, v, 0.1), o[8] = __float2int_##mode(x * 100.0f);            \
    o[9] = __double2float_##mode(u), o[10] = __int2float_##mode(k[i]);                                            \
    o[11] = __ll2double_##mode(l[i]) + (double)__double2ll_##mode(u * 1e6);                                       \
  }
//! run rounded_rn grid=1 block=64 : f32[64] f64[64] i32[64] i64[64] f64[768]=0
//! run rounded_rz grid=1 block=64 : f32[64] f64[64] i32[64] i64[64] f64[768]=0
//! run rounded_ru grid=1 block=64 : f32[64] f64[64] i32[64] i64[64] f64[768]=0
//! run rounded_rd grid=1 block=64 : f32[64] f64[64] i32[64] i64[64] f64[768]=0
ROUNDED(rn)
ROUNDED(rz)
ROUNDED(ru)
ROUNDED(rd)

//! run to_integers grid=1 block=64 : f32[64] i32[512]=0
extern "C" __global__ void to_integers(const float* in, int* out) {
  float x = in[threadIdx.x] * 50.0f;
  int* o = out + 8 * threadIdx.x;
  o[0] = (int)floorf(x), o[1] = (int)ceilf(x), o[2] = (int)truncf(x), o[3] = (int)rintf(x), o[4] = (int)roundf(x);
  o[5] = (int)(signed char)(int)x, o[6] = (int)(unsigned short)(int)fabsf(x), o[7] = __float2int_rd(x);
}
//! run clamped_casts grid=1 block=64 : f32[64] i32[128]=0
extern "C" __global__ void clamped_casts(const float* in, int2* out) {
  float x = in[threadIdx.x] * 1e12f;
  out[threadIdx.x] = make_int2(__float2int_rz(x), (int)__float2uint_rz(x));
}
//! run reinterpret grid=1 block=64 : f32[64] f64[64] i32[64]=0 i64[64]=0
extern "C" __global__ void reinterpret(const float* f, const double* d, int* i, long long* l) {
  int t = threadIdx.x;
  i[t] = __float_as_int(f[t]) ^ __double2hiint(d[t]) ^ __double2loint(d[t]);
  l[t] = __double_as_longlong(d[t]) + __double_as_longlong(__hiloint2double(i[t], 17));
}
//! run booleans grid=1 block=64 : i32[64] f32[64] u8[64]=0
extern "C" __global__ void booleans(const int* a, const float* b, bool* out) {
  bool x = a[threadIdx.x] & 1, y = b[threadIdx.x] > 0.0f, z = a[threadIdx.x];
  out[threadIdx.x] = (x && y) || (!x && z) || (y != z);
}
