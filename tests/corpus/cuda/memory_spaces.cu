// Constant memory, __device__ globals of every shape, local memory, aliasing, cache hints, address-space tests.
#include <cstdint>
__constant__ float coefficients[8] = {1.0f, 0.5f, 0.25f, 0.125f, -1.0f, -0.5f, 3.0f, 0.0f};
__constant__ int uninitialized_constants[64];
__device__ int global_counter = 5;
__device__ float global_table[16] = {1, 2, 3, 4};
__device__ double global_matrix[4][4] = {{1, 0, 0, 0}, {0, 2, 0, 0}, {0, 0, 3, 0}, {0, 0, 0, 4}};
__device__ const char global_text[] = "pergola";
struct Record { int a; float b; double c; };
__device__ Record global_record = {7, 1.5f, 2.25};
__device__ int* global_pointer = &global_counter;
__device__ unsigned char global_bytes[3] = {1, 2, 255};

//! run constant_polynomial grid=1 block=64 : f32[64]
extern "C" __global__ void constant_polynomial(float* x) {
  float v = x[threadIdx.x], r = 0;
  for (int i = 7; i >= 0; --i) r = fmaf(r, v, coefficients[i]);
  x[threadIdx.x] = r;
}
//! run constant_gather grid=1 block=64 : i32[64]<8 f32[64]=0
extern "C" __global__ void constant_gather(const int* i, float* out) { out[threadIdx.x] = coefficients[i[threadIdx.x]]; }
extern "C" __global__ void constant_uninitialized(int* out) { out[threadIdx.x] = uninitialized_constants[threadIdx.x]; }
//! run globals_read grid=1 block=16 : f64[16]=0
extern "C" __global__ void globals_read(double* out) {
  int i = threadIdx.x;
  out[i] = global_table[i] + global_matrix[i / 4][i % 4] + global_text[i % 7] + global_record.a + global_record.b +
           global_record.c + *global_pointer + global_bytes[i % 3];
}
extern "C" __global__ void globals_write(const float* in) {
  global_table[threadIdx.x & 15] = in[threadIdx.x];
  atomicAdd(&global_counter, 1);
}
template <typename T>
__device__ T typed_slot;
template <typename T>
__global__ void template_global(T* out) {
  typed_slot<T> = out[0];
  out[1] = typed_slot<T> + T(1);
}
template __global__ void template_global<int>(int*);
template __global__ void template_global<double>(double*);
//! run restrict_pointers grid=1 block=64 : f32[64] f32[64] f32[64]=0
extern "C" __global__ void restrict_pointers(const float* __restrict__ a, const float* __restrict__ b, float* __restrict__ c) {
  c[threadIdx.x] = a[threadIdx.x] * b[threadIdx.x] + a[(threadIdx.x + 1) & 63];
}
//! run aliasing_pointers grid=1 block=1 : f32[64] f32[64] 64
extern "C" __global__ void aliasing_pointers(float* a, float* b, int n) {
  for (int i = 0; i + 1 < n; ++i) {
    a[i] = b[i + 1] * 2;
    b[i] = a[i] + a[i + 1];
  }
}
//! run selected_pointer grid=1 block=64 : f32[64] f32[64] f32[64]=0 i32[64]
extern "C" __global__ void selected_pointer(const float* a, const float* b, float* out, const int* which) {
  const float* p = which[threadIdx.x] > 0 ? a : b;
  out[threadIdx.x] = p[threadIdx.x];
}
extern "C" __global__ void pointer_table(float** rows, int n) {
  for (int i = 0; i < n; ++i) rows[i][threadIdx.x] += 1.0f;
}
//! run pointer_walk grid=1 block=4 : i32[256] i32[4]=0
extern "C" __global__ void pointer_walk(const int* p, int* out) {
  const int* end = p + 256;
  int s = 0;
  for (p += threadIdx.x; p < end; p += 4) s += *p;
  out[threadIdx.x] = s;
}
//! run cache_hints grid=1 block=64 : f32[64] f32[64]=0
extern "C" __global__ void cache_hints(const float* in, float* out) {
  int i = threadIdx.x;
  float v = __ldg(in + i) + __ldca(in + i) + __ldcg(in + i) + __ldcs(in + i) + __ldcv(in + i);
  __stcg(out + i, v);
  __stcs(out + i, v + 1);
  __stwt(out + i, v + 2);
}
//! run cache_hints_vector grid=1 block=32 : f32[128] f32[32]=0
extern "C" __global__ void cache_hints_vector(const float4* in, float* out) {
  float4 v = __ldg(in + threadIdx.x);
  out[threadIdx.x] = v.x + v.y * v.z - v.w;
}
//! run cache_hints_types grid=1 block=32 : u8[32] i16[32] i64[32] f64[32] f64[32]=0
extern "C" __global__ void cache_hints_types(const unsigned char* a, const short* b, const long long* c, const double* d, double* out) {
  int i = threadIdx.x;
  out[i] = __ldg(a + i) + __ldg(b + i) + (double)__ldg(c + i) + __ldg(d + i);
}
extern "C" __global__ void which_space(const float* p, int* out) {
  __shared__ float s[4];
  float l = p[0];
  s[threadIdx.x & 3] = l;
  __syncthreads();
  const float* q = threadIdx.x % 3 == 0 ? p : threadIdx.x % 3 == 1 ? s : &l;
  out[threadIdx.x] = __isGlobal(q) + 2 * __isShared(q) + 4 * __isLocal(q);
}
//! run volatile_memory grid=1 block=32 : i32[32] f64[32] u8[32]
extern "C" __global__ void volatile_memory(volatile int* a, volatile double* b, volatile unsigned char* c) {
  int i = threadIdx.x;
  a[i] = a[i] + a[i];
  b[i] = b[i] * b[i];
  c[i] = c[i] + 1;
}
//! run unaligned_bytes grid=1 block=32 : u8[133] u32[32]=0
extern "C" __global__ void unaligned_bytes(const unsigned char* p, unsigned* out) {
  const unsigned char* q = p + 4 * threadIdx.x + 1;
  out[threadIdx.x] = q[0] | q[1] << 8 | q[2] << 16 | (unsigned)q[3] << 24;
}
//! run local_struct_array grid=1 block=32 : i32[32]<8 f64[32]=0
extern "C" __global__ void local_struct_array(const int* which, double* out) {
  Record r[8];
  for (int i = 0; i < 8; ++i) r[i] = {i, i * 0.5f, i * 0.25};
  r[which[threadIdx.x]].a += 10;
  double s = 0;
  for (int i = 0; i < 8; ++i) s = s * 1.5 + r[i ^ which[threadIdx.x]].a + r[i].b + r[i].c;
  out[threadIdx.x] = s;
}
//! run memcpy_memset grid=1 block=32 : u8[1024] u8[1024]=0
extern "C" __global__ void memcpy_memset(const unsigned char* in, unsigned char* out) {
  unsigned char t[32];
  memcpy(t, in + 32 * threadIdx.x, 32);
  memset(t + 8, 7, 8);
  for (int i = 0; i < 32; ++i) out[32 * threadIdx.x + i] = t[(i * 5) & 31];
}
//! run big_offsets grid=1 block=32 : i32[4096] i32[32]=0
extern "C" __global__ void big_offsets(const int* in, int* out) {
  long long base = 4000;
  out[threadIdx.x] = in[base + threadIdx.x] + in[threadIdx.x * 100 + 17];
}
