// Every operator of every arithmetic type, by macro: one kernel a type.
#include <cstdint>
#define INTEGER(name, T)                                                                   \
  extern "C" __global__ void integer_##name(const T* a, const T* b, T* out, int n) {       \
    int i = blockIdx.x * blockDim.x + threadIdx.x;                                         \
    if (i >= n) return;                                                                    \
    T x = a[i], y = b[i];                                                                  \
    T d = y == 0 ? T(1) : y;                                                               \
    T s = y & T(sizeof(T) * 8 - 1);                                                        \
    T r = T(x + y);                                                                        \
    r = T(r ^ T(x - y));                                                                   \
    r = T(r + T(x * y));                                                                   \
    if (!(d == T(-1))) r = T(r ^ T(x / d) ^ T(T(x % d) * 3));                              \
    r = T(r | T(x & y));                                                                   \
    r = T(r ^ T(~x));                                                                      \
    r = T(r + T(T(x) >> s));                                                               \
    r = T(r ^ T(uint64_t(x) << s));                                                        \
    r = T(r + (x < y ? 1 : x == y ? 2 : 4));                                               \
    out[i] = r;                                                                            \
  }
//! run integer_i8 grid=2 block=64 : i8[128] i8[128] i8[128]=0 128
//! run integer_u8 grid=2 block=64 : u8[128] u8[128] u8[128]=0 128
//! run integer_i16 grid=2 block=64 : i16[128] i16[128] i16[128]=0 128
//! run integer_u16 grid=2 block=64 : u16[128] u16[128] u16[128]=0 128
//! run integer_i32 grid=2 block=64 : i32[128] i32[128] i32[128]=0 128
//! run integer_u32 grid=2 block=64 : u32[128] u32[128] u32[128]=0 128
//! run integer_i64 grid=2 block=64 : i64[128] i64[128] i64[128]=0 128
//! run integer_u64 grid=2 block=64 : u64[128] u64[128] u64[128]=0 128
INTEGER(i8, int8_t)
INTEGER(u8, uint8_t)
INTEGER(i16, int16_t)
INTEGER(u16, uint16_t)
INTEGER(i32, int32_t)
INTEGER(u32, uint32_t)
INTEGER(i64, int64_t)
INTEGER(u64, uint64_t)

#define FLOATING(name, T, root, fused, low, high, whole)                                   \
  extern "C" __global__ void floating_##name(const T* a, const T* b, T* out, int n) {      \
    int i = blockIdx.x * blockDim.x + threadIdx.x;                                         \
    if (i >= n) return;                                                                    \
    T x = a[i], y = b[i];                                                                  \
    T r = x + y;                                                                           \
    r = r * (x - y);                                                                       \
    r += x / (y * y + T(1));                                                               \
    r += root(x * x + T(0.5));                                                             \
    r = fused(r, x, y);                                                                    \
    r = low(r, T(100)) + high(x, y) + whole(x * T(7));                                     \
    r = x < y ? r : x > y ? -r : r + T(1);                                                 \
    out[i] = r;                                                                            \
  }
//! run floating_f32 grid=2 block=64 : f32[128] f32[128] f32[128]=0 128
//! run floating_f64 grid=2 block=64 : f64[128] f64[128] f64[128]=0 128
FLOATING(f32, float, sqrtf, fmaf, fminf, fmaxf, floorf)
FLOATING(f64, double, sqrt, fma, fmin, fmax, floor)

//! run saxpy grid=4 block=64 : 2.5f f32[256] f32[256] 256
extern "C" __global__ void saxpy(float a, const float* x, float* y, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] += a * x[i];
}
//! run daxpy grid=4 block=64 : 2.5 f64[256] f64[256] 256
extern "C" __global__ void daxpy(double a, const double* x, double* y, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] += a * x[i];
}
//! run saxpy_grid_stride grid=2 block=32 : 2.5f f32[256] f32[256] 250
extern "C" __global__ void saxpy_grid_stride(float a, const float* __restrict__ x, float* __restrict__ y, int n) {
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) y[i] += a * x[i];
}
//! run vector_scale4 grid=1 block=64 : f32[256] 1.25f
extern "C" __global__ void vector_scale4(float4* x, float a) {
  float4 v = x[threadIdx.x];
  v.x *= a, v.y *= a, v.z *= a, v.w *= a;
  x[threadIdx.x] = v;
}
//! run vector_add2d grid=1 block=64 : f64[128] f64[128]
extern "C" __global__ void vector_add2d(double2* x, const double2* y) {
  double2 v = x[threadIdx.x], w = y[threadIdx.x];
  x[threadIdx.x] = make_double2(v.x + w.y, v.y - w.x);
}
//! run swizzle_bytes grid=1 block=64 : u8[256] u8[256]=0
extern "C" __global__ void swizzle_bytes(const uchar4* x, uchar4* y) {
  uchar4 v = x[threadIdx.x];
  y[threadIdx.x] = make_uchar4(v.w, v.z, v.y, v.x);
}
//! run swizzle_shorts grid=1 block=64 : i16[128] i16[128]=0
extern "C" __global__ void swizzle_shorts(const short2* x, short2* y) {
  short2 v = x[threadIdx.x];
  y[threadIdx.x] = make_short2(v.y, short(-v.x));
}
//! run long_vectors grid=1 block=32 : i64[64] i64[64]=0
extern "C" __global__ void long_vectors(const longlong2* x, longlong2* y) {
  longlong2 v = x[threadIdx.x];
  y[threadIdx.x] = make_longlong2(v.x * v.y, v.x - v.y);
}
//! run mixed_precision grid=1 block=64 : f32[64] f64[64] i32[64] i64[64]=0
extern "C" __global__ void mixed_precision(const float* f, const double* d, const int* k, long long* out) {
  int i = threadIdx.x;
  double x = f[i] * d[i] + k[i];
  out[i] = (long long)(x * 1000.0) + (long long)(unsigned)(f[i] * f[i] * 100.0f);
}
//! run wide_product grid=1 block=64 : u64[64] u64[64] u64[128]=0
extern "C" __global__ void wide_product(const unsigned long long* a, const unsigned long long* b, unsigned long long* out) {
  int i = threadIdx.x;
  out[2 * i] = a[i] * b[i];
  out[2 * i + 1] = __umul64hi(a[i], b[i]);
}
//! run signed_division grid=1 block=64 : i32[64] i32[256]=0
extern "C" __global__ void signed_division(const int* a, int4* out) {
  int x = a[threadIdx.x];
  out[threadIdx.x] = make_int4(x / 7, x % 10, x / 64, x % -16);
}
//! run unsigned_division grid=1 block=64 : u32[64] u32[256]=0
extern "C" __global__ void unsigned_division(const unsigned* a, uint4* out) {
  unsigned x = a[threadIdx.x];
  out[threadIdx.x] = make_uint4(x / 7u, x % 10u, x / 641u, x % 65537u);
}
//! run long_division grid=1 block=64 : i64[64] i64[64] i64[128]=0
extern "C" __global__ void long_division(const long long* a, const long long* b, long long* out) {
  int i = threadIdx.x;
  long long d = b[i] == 0 || b[i] == -1 ? 3 : b[i] >> 20 == 0 ? 5 : b[i] >> 20;
  out[2 * i] = a[i] / d;
  out[2 * i + 1] = a[i] % d;
}
