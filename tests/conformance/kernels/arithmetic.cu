// Kernels of the arithmetic suite. Only operations whose bits the ISA fixes.
#include <cuda_fp16.h>

#include <cstdint>

extern "C" __global__ void integers64(const int64_t* a, const int64_t* b, int64_t* out) {
  const int i = threadIdx.x;
  const int64_t x = a[i], y = b[i];
  const uint64_t ux = x, uy = y;
  int64_t* mine = out + 16 * i;
  mine[0] = ux + uy;
  mine[1] = ux - uy;
  mine[2] = ux * uy;
  mine[3] = __mul64hi(x, y);
  mine[4] = __umul64hi(ux, uy);
  mine[5] = x / (y | 1);
  mine[6] = x % (y | 1);
  mine[7] = ux / (uy | 1);
  mine[8] = ux % (uy | 1);
  mine[9] = x >> (uy & 63);
  mine[10] = ux >> (uy & 63);
  mine[11] = ux << (uy & 63);
  mine[12] = x < y ? x : y;
  mine[13] = ux < uy;
  mine[14] = __clzll(x) | __popcll(x) << 8 | __ffsll(x) << 16;
  mine[15] = __brevll(ux) ^ (x < 0 ? 0 - ux : ux);
}

extern "C" __global__ void bits32(const uint32_t* a, const uint32_t* b, uint32_t* out) {
  const int i = threadIdx.x;
  const uint32_t x = a[i], y = b[i];
  uint32_t* mine = out + 16 * i;
  uint32_t t;
  mine[0] = __clz(x);
  mine[1] = __popc(x);
  mine[2] = __brev(x);
  mine[3] = __byte_perm(x, y, x & 0x7777);
  mine[4] = __funnelshift_l(x, y, y);
  mine[5] = __funnelshift_r(x, y, y);
  asm("bfe.u32 %0, %1, %2, %3;" : "=r"(t) : "r"(x), "r"(y & 63), "r"(y >> 8 & 63));
  mine[6] = t;
  asm("bfe.s32 %0, %1, %2, %3;" : "=r"(t) : "r"(x), "r"(y & 63), "r"(y >> 8 & 63));
  mine[7] = t;
  asm("bfi.b32 %0, %1, %2, %3, %4;" : "=r"(t) : "r"(x), "r"(y), "r"(y & 31), "r"(x & 31));
  mine[8] = t;
  asm("lop3.b32 %0, %1, %2, %3, 0x96;" : "=r"(t) : "r"(x), "r"(y), "r"(x >> 3));
  mine[9] = t;
  mine[10] = __umulhi(x, y);
  mine[11] = __mulhi(int(x), int(y));
  mine[12] = __sad(int(x), int(y), y);
  asm("shl.b32 %0, %1, %2;" : "=r"(t) : "r"(x), "r"(y & 127));
  mine[13] = t;
  asm("shr.s32 %0, %1, %2;" : "=r"(t) : "r"(x), "r"(y & 127));
  mine[14] = t;
  asm("add.sat.s32 %0, %1, %2;" : "=r"(t) : "r"(x), "r"(y));
  mine[15] = t;
}

extern "C" __global__ void floats32(const float* a, const float* b, uint32_t* out) {
  const int i = threadIdx.x;
  const float x = a[i], y = b[i];
  uint32_t* mine = out + 16 * i;
  mine[0] = __float_as_uint(__fadd_rn(x, y));
  mine[1] = __float_as_uint(__fmul_rn(x, y));
  mine[2] = __float_as_uint(__fdiv_rn(x, y));
  mine[3] = __float_as_uint(__fsqrt_rn(fabsf(x)));
  mine[4] = __float_as_uint(__fmaf_rn(x, y, x));
  mine[5] = __float_as_uint(__fadd_rz(x, y));
  mine[6] = __float_as_uint(__fmul_ru(x, y));
  mine[7] = __float_as_uint(__fmaf_rd(x, y, y));
  mine[8] = __float_as_uint(fminf(x, y));
  mine[9] = __float_as_uint(fmaxf(x, y));
  mine[10] = __float2int_rn(x);
  mine[11] = __float2int_rz(x);
  mine[12] = __float2uint_rd(x);
  mine[13] = __float_as_uint(rintf(x));
  mine[14] = (x < y) | (x == y) << 1 | (x != y) << 2 | isnan(x) << 3 | (x >= y) << 4 | !(x <= y) << 5;
  mine[15] = __float_as_uint(__saturatef(x));
}

extern "C" __global__ void floats64(const double* a, const double* b, uint64_t* out) {
  const int i = threadIdx.x;
  const double x = a[i], y = b[i];
  uint64_t* mine = out + 12 * i;
  mine[0] = __double_as_longlong(__dadd_rn(x, y));
  mine[1] = __double_as_longlong(__dmul_rn(x, y));
  mine[2] = __double_as_longlong(__ddiv_rn(x, y));
  mine[3] = __double_as_longlong(__dsqrt_rn(fabs(x)));
  mine[4] = __double_as_longlong(__fma_rn(x, y, x));
  mine[5] = __double_as_longlong(__dadd_ru(x, y));
  mine[6] = __double_as_longlong(__dmul_rz(x, y));
  mine[7] = __double2ll_rn(x);
  mine[8] = __float_as_uint(__double2float_rn(x));
  mine[9] = __double_as_longlong(__ll2double_rn(__double_as_longlong(x)));
  mine[10] = __double_as_longlong(floor(x)) ^ __double_as_longlong(ceil(y));
  mine[11] = __double_as_longlong(fmin(x, y));
}

extern "C" __global__ void halves(const uint16_t* a, const uint16_t* b, uint16_t* out) {
  const int i = threadIdx.x;
  const __half x = __ushort_as_half(a[i]), y = __ushort_as_half(b[i]);
  uint16_t* mine = out + 8 * i;
  mine[0] = __half_as_ushort(__hadd_rn(x, y));
  mine[1] = __half_as_ushort(__hmul_rn(x, y));
  mine[2] = __half_as_ushort(__hsub_rn(x, y));
  mine[3] = __half_as_ushort(__hfma(x, y, x));
  mine[4] = __half_as_ushort(__float2half_rn(__half2float(x) * 0.3f));
  mine[5] = __half_as_ushort(__float2half_rz(__half2float(y) * 0.7f));
  mine[6] = __hlt(x, y) | __heq(x, x) << 1;
  mine[7] = __half2short_rn(x);
}
