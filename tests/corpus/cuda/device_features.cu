// Device services and unusual features: printf, assert, malloc, clocks, traps, launch bounds, 3-D indices, inline PTX.
#include <cstdio>
#include <cassert>
//! run launch_bounds_1 grid=1 block=64 : f32[64]
extern "C" __global__ void __launch_bounds__(64) launch_bounds_1(float* x) { x[threadIdx.x] += 1; }
//! run launch_bounds_2 grid=1 block=64 : f32[64]
extern "C" __global__ void __launch_bounds__(128, 4) launch_bounds_2(float* x) { x[threadIdx.x] *= 3; }
//! run index_3d grid=2,2,2 block=4,2,2 : i32[128]=0
extern "C" __global__ void index_3d(int* out) {
  int b = (blockIdx.z * gridDim.y + blockIdx.y) * gridDim.x + blockIdx.x;
  int t = (threadIdx.z * blockDim.y + threadIdx.y) * blockDim.x + threadIdx.x;
  out[b * blockDim.x * blockDim.y * blockDim.z + t] = b * 100 + t + gridDim.z;
}
extern "C" __global__ void prints(int n, const float* x) {
  if (threadIdx.x < n) printf("lane %d of %u: %f %s %c %lld %%\n", threadIdx.x, blockDim.x, x[threadIdx.x], "text", 'c', 1ll << 40);
}
extern "C" __global__ void prints_nothing() { printf("hello\n"); }
//! run asserts grid=1 block=32 : i32[32]
extern "C" __global__ void asserts(int* x) {
  assert(x != nullptr && "a pointer is needed");
  x[threadIdx.x] ^= 1;
}
extern "C" __global__ void traps(const int* x) { if (x[threadIdx.x] < 0) __trap(); }
//! run heap grid=1 block=8 : i32[8]=0
extern "C" __global__ void heap(int* out) {
  int* p = static_cast<int*>(malloc(16 * sizeof(int)));
  if (p == nullptr) return;
  for (int i = 0; i < 16; ++i) p[i] = i * threadIdx.x;
  int s = 0;
  for (int i = 0; i < 16; ++i) s += p[i];
  out[threadIdx.x] = s;
  free(p);
}
struct Counted { int n; __device__ explicit Counted(int v) : n(v) {} __device__ ~Counted() { n = 0; } };
//! run new_and_delete grid=1 block=4 : i32[4]=0
extern "C" __global__ void new_and_delete(int* out) {
  Counted* c = new Counted(threadIdx.x + 3);
  out[threadIdx.x] = c->n;
  delete c;
}
extern "C" __global__ void clocks(long long* out) {
  long long a = clock64();
  int b = clock();
  __nanosleep(20);
  out[threadIdx.x] = clock64() - a + (clock() - b);
}
//! run asm_add_carry grid=1 block=32 : u32[64] u32[64] u32[64]=0
extern "C" __global__ void asm_add_carry(const uint2* a, const uint2* b, uint2* out) {
  uint2 x = a[threadIdx.x], y = b[threadIdx.x], r;
  asm("add.cc.u32 %0, %2, %4;\n\taddc.u32 %1, %3, %5;" : "=r"(r.x), "=r"(r.y) : "r"(x.x), "r"(x.y), "r"(y.x), "r"(y.y));
  out[threadIdx.x] = r;
}
//! run asm_multiply_chain grid=1 block=32 : u32[32] u32[32] u32[64]=0
extern "C" __global__ void asm_multiply_chain(const unsigned* a, const unsigned* b, uint2* out) {
  unsigned low, high;
  asm("{\n\t.reg .u32 t;\n\tmul.lo.u32 t, %2, %3;\n\tmad.lo.cc.u32 %0, %2, %3, t;\n\tmadc.hi.u32 %1, %2, %3, 0;\n\t}" : "=r"(low), "=r"(high) : "r"(a[threadIdx.x]), "r"(b[threadIdx.x]));
  out[threadIdx.x] = make_uint2(low, high);
}
//! run asm_bit_fields grid=1 block=32 : u32[32] u32[128]=0
extern "C" __global__ void asm_bit_fields(const unsigned* in, uint4* out) {
  unsigned x = in[threadIdx.x], a, b, c;
  int d;
  asm("bfe.u32 %0, %1, 5, 11;" : "=r"(a) : "r"(x));
  asm("bfi.b32 %0, %1, %2, 8, 7;" : "=r"(b) : "r"(x), "r"(0x12345678u));
  asm("bfind.u32 %0, %1;" : "=r"(c) : "r"(x));
  asm("bfe.s32 %0, %1, 3, 9;" : "=r"(d) : "r"((int)x));
  out[threadIdx.x] = make_uint4(a, b, c, (unsigned)d);
}
//! run asm_logic3 grid=1 block=32 : u32[32] u32[32] u32[32] u32[32]=0
extern "C" __global__ void asm_logic3(const unsigned* a, const unsigned* b, const unsigned* c, unsigned* out) {
  unsigned r;
  asm("lop3.b32 %0, %1, %2, %3, 0xE8;" : "=r"(r) : "r"(a[threadIdx.x]), "r"(b[threadIdx.x]), "r"(c[threadIdx.x]));
  out[threadIdx.x] = r;
}
//! run asm_predicates grid=1 block=32 : i32[32] i32[32]=0
extern "C" __global__ void asm_predicates(const int* in, int* out) {
  int r;
  asm("{\n\t.reg .pred p, q;\n\tsetp.gt.s32 p, %1, 0;\n\tsetp.lt.and.s32 q, %1, 1000, p;\n\tselp.s32 %0, 1, 2, q;\n\t@!p mov.s32 %0, 3;\n\t}" : "=r"(r) : "r"(in[threadIdx.x]));
  out[threadIdx.x] = r;
}
//! run asm_special_registers grid=2 block=64 : u32[128]=0
extern "C" __global__ void asm_special_registers(unsigned* out) {
  unsigned lane, warp, below;
  asm("mov.u32 %0, %%laneid;" : "=r"(lane));
  asm("mov.u32 %0, %%lanemask_lt;" : "=r"(below));
  warp = threadIdx.x / 32;
  out[blockIdx.x * 64 + threadIdx.x] = lane * 1000 + warp * 100 + __popc(below);
}
//! run asm_vector_loads grid=1 block=32 : f32[128] f32[128]=0
extern "C" __global__ void asm_vector_loads(const float* in, float* out) {
  float a, b, c, d;
  asm volatile("ld.global.v4.f32 {%0, %1, %2, %3}, [%4];" : "=f"(a), "=f"(b), "=f"(c), "=f"(d) : "l"(in + 4 * threadIdx.x));
  asm volatile("st.global.v2.f32 [%0], {%1, %2};" ::"l"(out + 4 * threadIdx.x), "f"(d), "f"(c) : "memory");
  asm volatile("st.global.v2.f32 [%0+8], {%1, %2};" ::"l"(out + 4 * threadIdx.x), "f"(b), "f"(a) : "memory");
}
//! run asm_acquire_release grid=1 block=32 : u32[32] u32[32]=0
extern "C" __global__ void asm_acquire_release(unsigned* a, unsigned* b) {
  unsigned v;
  asm volatile("ld.acquire.gpu.global.u32 %0, [%1];" : "=r"(v) : "l"(a + threadIdx.x) : "memory");
  asm volatile("st.release.gpu.global.u32 [%0], %1;" ::"l"(b + threadIdx.x), "r"(v + 1) : "memory");
  asm volatile("ld.relaxed.sys.global.u32 %0, [%1];" : "=r"(v) : "l"(b + threadIdx.x) : "memory");
  asm volatile("fence.acq_rel.gpu;" ::: "memory");
  asm volatile("fence.sc.sys;" ::: "memory");
  asm volatile("red.relaxed.gpu.global.add.u32 [%0], %1;" ::"l"(a + threadIdx.x), "r"(v) : "memory");
}
//! run asm_named_barriers grid=1 block=64 : i32[64] i32[64]=0
extern "C" __global__ void asm_named_barriers(const int* in, int* out) {
  __shared__ int s[64];
  s[threadIdx.x] = in[threadIdx.x];
  int id = 1 + threadIdx.x / 32;
  asm volatile("bar.sync %0, 32;" ::"r"(id) : "memory");
  int v = s[threadIdx.x ^ 1];
  asm volatile("bar.sync 3, 64;" ::: "memory");
  out[threadIdx.x] = v + s[63 - threadIdx.x];
}
//! run asm_producer_consumer grid=1 block=64 : i32[32] i32[32]=0
extern "C" __global__ void asm_producer_consumer(const int* in, int* out) {
  __shared__ int s[32];
  if (threadIdx.x < 32) {
    s[threadIdx.x] = in[threadIdx.x] * 2;
    asm volatile("bar.arrive 4, 64;" ::: "memory");
  } else {
    asm volatile("bar.sync 4, 64;" ::: "memory");
    out[threadIdx.x - 32] = s[63 - threadIdx.x];
  }
}
//! run asm_subword grid=1 block=32 : u16[32] u16[32]=0
extern "C" __global__ void asm_subword(const unsigned short* in, unsigned short* out) {
  unsigned short r;
  asm("add.u16 %0, %1, %1;" : "=h"(r) : "h"(in[threadIdx.x]));
  out[threadIdx.x] = r;
}
//! run asm_shift_saturate grid=1 block=32 : i32[32] i32[64]=0
extern "C" __global__ void asm_shift_saturate(const int* in, int2* out) {
  int a, b;
  asm("add.sat.s32 %0, %1, %2;" : "=r"(a) : "r"(in[threadIdx.x]), "r"(2000000000));
  asm("shr.s32 %0, %1, 40;" : "=r"(b) : "r"(in[threadIdx.x]));
  out[threadIdx.x] = make_int2(a, b);
}
//! run asm_float_tests grid=1 block=32 : f32[32] u32[32]=0
extern "C" __global__ void asm_float_tests(const float* in, unsigned* out) {
  unsigned r;
  asm("{\n\t.reg .pred p, q;\n\ttestp.finite.f32 p, %1;\n\ttestp.normal.f32 q, %1;\n\tselp.u32 %0, 1, 0, p;\n\t@q add.u32 %0, %0, 2;\n\t}" : "=r"(r) : "f"(in[threadIdx.x] / (threadIdx.x & 3)));
  out[threadIdx.x] = r;
}
//! run asm_min_nan grid=1 block=32 : f32[32] f32[64]=0
extern "C" __global__ void asm_min_nan(const float* in, float2* out) {
  float n = __int_as_float(0x7fc00001), a, b;
  asm("min.f32 %0, %1, %2;" : "=f"(a) : "f"(in[threadIdx.x]), "f"(n));
  asm("cvt.rni.ftz.f32.f32 %0, %1;" : "=f"(b) : "f"(in[threadIdx.x] * 10));
  out[threadIdx.x] = make_float2(a, b);
}
//! run asm_call_pointer grid=1 block=32 : u64[32] u64[32]=0
extern "C" __global__ void asm_call_pointer(const unsigned long long* in, unsigned long long* out) {
  unsigned low, high;
  asm("mov.b64 {%0, %1}, %2;" : "=r"(low), "=r"(high) : "l"(in[threadIdx.x]));
  unsigned long long r;
  asm("mov.b64 %0, {%1, %2};" : "=l"(r) : "r"(high), "r"(low));
  out[threadIdx.x] = r;
}
extern "C" __global__ void asm_prefetch(const float* in, float* out) {
  asm volatile("prefetch.global.L2 [%0];" ::"l"(in + threadIdx.x));
  out[threadIdx.x] = in[threadIdx.x];
}
extern "C" __global__ void unused_parameters(const float* a, const float*, int, double, float* b) { b[0] = a[0]; }
extern "C" __global__ void no_parameters() {}
extern "C" __global__ void many_parameters(int a, long long b, char c, short d, float e, double f, unsigned char g, float4 h, char3 i, int* out) {
  out[0] = a + (int)b + c + d + (int)e + (int)f + g + (int)h.w + i.z;
}
