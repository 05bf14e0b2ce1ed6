// Bit manipulation: counts, permutations, shifts, fields, codes.
#include <cstdint>
//! run bit_counts grid=1 block=64 : u32[64] i32[256]=0
extern "C" __global__ void bit_counts(const unsigned* a, int4* out) {
  unsigned x = a[threadIdx.x];
  out[threadIdx.x] = make_int4(__popc(x), __clz((int)x), __ffs((int)x), (int)__brev(x));
}
//! run bit_counts64 grid=1 block=64 : u64[64] u64[256]=0
extern "C" __global__ void bit_counts64(const unsigned long long* a, unsigned long long* out) {
  unsigned long long x = a[threadIdx.x];
  unsigned long long* o = out + 4 * threadIdx.x;
  o[0] = __popcll(x), o[1] = __clzll((long long)x), o[2] = __ffsll((long long)x), o[3] = __brevll(x);
}
//! run byte_permute grid=1 block=64 : u32[64] u32[64] u32[64]=0
extern "C" __global__ void byte_permute(const unsigned* a, const unsigned* b, unsigned* out) {
  int i = threadIdx.x;
  out[i] = __byte_perm(a[i], b[i], 0x5140) ^ __byte_perm(a[i], b[i], b[i] & 0x7777);
}
//! run funnel_shift grid=1 block=64 : u32[64] u32[64] u32[64]=0
extern "C" __global__ void funnel_shift(const unsigned* a, const unsigned* b, unsigned* out) {
  int i = threadIdx.x;
  unsigned s = b[i] & 63;
  out[i] = __funnelshift_l(a[i], b[i], s) ^ __funnelshift_r(a[i], b[i], s) ^ __funnelshift_lc(a[i], b[i], s) ^
           __funnelshift_rc(a[i], b[i], s);
}
//! run rotate grid=1 block=64 : u32[64] u64[64] u64[64]=0
extern "C" __global__ void rotate(const unsigned* a, const unsigned long long* b, unsigned long long* out) {
  int i = threadIdx.x;
  unsigned x = a[i];
  unsigned long long y = b[i];
  unsigned r = (x << 13) | (x >> 19);
  out[i] = ((y << 23) | (y >> 41)) + r;
}
//! run morton_encode grid=1 block=64 : u32[64] u32[64] u64[64]=0
extern "C" __global__ void morton_encode(const unsigned* x, const unsigned* y, unsigned long long* out) {
  auto spread = [](unsigned long long v) {
    v &= 0xffffffffull;
    v = (v | v << 16) & 0x0000ffff0000ffffull;
    v = (v | v << 8) & 0x00ff00ff00ff00ffull;
    v = (v | v << 4) & 0x0f0f0f0f0f0f0f0full;
    v = (v | v << 2) & 0x3333333333333333ull;
    return (v | v << 1) & 0x5555555555555555ull;
  };
  out[threadIdx.x] = spread(x[threadIdx.x]) | spread(y[threadIdx.x]) << 1;
}
//! run gray_code grid=1 block=64 : u32[64] u32[128]=0
extern "C" __global__ void gray_code(const unsigned* a, uint2* out) {
  unsigned x = a[threadIdx.x], g = x ^ (x >> 1), b = g;
  for (int s = 16; s > 0; s >>= 1) b ^= b >> s;
  out[threadIdx.x] = make_uint2(g, b);
}
struct Fields {
  unsigned low : 3;
  int middle : 11;
  unsigned high : 18;
};
//! run bit_fields grid=1 block=64 : u32[64] u32[64]
extern "C" __global__ void bit_fields(Fields* f, const unsigned* a) {
  Fields v = f[threadIdx.x];
  v.middle = (int)a[threadIdx.x] + v.low;
  v.high ^= (unsigned)v.middle;
  v.low = v.low + 1;
  f[threadIdx.x] = v;
}
union Bits {
  float f;
  unsigned u;
  unsigned char c[4];
};
//! run union_bits grid=1 block=64 : f32[64] u32[64]=0
extern "C" __global__ void union_bits(const float* a, unsigned* out) {
  Bits b;
  b.f = a[threadIdx.x];
  b.c[0] ^= 0xff;
  out[threadIdx.x] = b.u + b.c[3];
}
//! run parity_majority grid=1 block=64 : u32[64] u32[64] u32[64] u32[64]=0
extern "C" __global__ void parity_majority(const unsigned* a, const unsigned* b, const unsigned* c, unsigned* out) {
  int i = threadIdx.x;
  out[i] = ((a[i] & b[i]) | (b[i] & c[i]) | (a[i] & c[i])) + (__popc(a[i] ^ b[i] ^ c[i]) & 1);
}
//! run bit_reverse_permute grid=1 block=64 : f32[64] f32[64]=0
extern "C" __global__ void bit_reverse_permute(const float* in, float* out) {
  out[__brev(threadIdx.x) >> 26] = in[threadIdx.x];
}
//! run saturating_sums grid=1 block=64 : i32[64] i32[64] i32[64]=0
extern "C" __global__ void saturating_sums(const int* a, const int* b, int* out) {
  int i = threadIdx.x;
  long long s = (long long)a[i] + b[i];
  out[i] = s > 2147483647LL ? 2147483647 : s < -2147483648LL ? (int)-2147483648LL : (int)s;
}
//! run packed_bytes grid=1 block=64 : u32[64] u32[64] u32[64]=0
extern "C" __global__ void packed_bytes(const unsigned* a, const unsigned* b, unsigned* out) {
  int i = threadIdx.x;
  out[i] = __vadd4(a[i], b[i]) ^ __vsub4(b[i], a[i]) ^ __vadd2(a[i], b[i]) ^ __vabsdiffu4(a[i], b[i]);
}
//! run halves_and_averages grid=1 block=64 : i32[64] i32[64] u32[64]=0
extern "C" __global__ void halves_and_averages(const int* a, const int* b, unsigned* out) {
  int i = threadIdx.x;
  unsigned ua = (unsigned)a[i], ub = (unsigned)b[i];
  out[i] = (unsigned)__hadd(a[i], b[i]) + (unsigned)__rhadd(a[i], b[i]) + __uhadd(ua, ub) + __urhadd(ua, ub) +
           __sad(a[i] >> 8, b[i] >> 8, 3u) + __usad(ua, ub, 5u) + (unsigned)__mul24(a[i], b[i]) + __umul24(ua, ub) +
           (unsigned)__mulhi(a[i], b[i]) + __umulhi(ua, ub);
}
//! run dot4 grid=1 block=64 : i32[64] i32[64] i32[64]=0
extern "C" __global__ void dot4(const int* a, const int* b, int* out) {
  int i = threadIdx.x;
  out[i] = __dp4a(a[i], b[i], 7) + (int)__dp4a((unsigned)a[i], (unsigned)b[i], 9u);
}
//! run dot2 grid=1 block=64 : i32[64] i32[64] i32[64]=0
extern "C" __global__ void dot2(const int* a, const int* b, int* out) {
  int i = threadIdx.x;
  out[i] = __dp2a_lo(a[i], b[i], 7) + __dp2a_hi(a[i], b[i], 9);
}
