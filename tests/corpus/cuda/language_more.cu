// More of what CUDA C++ has: every kind of atomic, aggregates of lanes, heap and virtual tables together, unions, packed
// arithmetic, intrinsics that few kernels use.
#include <assert.h>
#include <stdint.h>
#include <stdio.h>
#include <new>
//! run atomics_float_double tol=1e-4 grid=4 block=64 : f32[4]=0 f64[4]=0 f32[256]=0.5
extern "C" __global__ void atomics_float_double(float* f, double* d, const float* in) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  atomicAdd(&f[i & 3], in[i]);
  atomicAdd(&d[i & 3], static_cast<double>(in[i]) * 0.25);
  atomicAdd_block(&f[i & 3], 0.0f);
}
//! run atomics_64 grid=2 block=64 : u64[8]=5 u64[128]<1000
extern "C" __global__ void atomics_64(unsigned long long* x, const unsigned long long* in) {
  unsigned long long v = in[blockIdx.x * 64 + threadIdx.x];
  atomicAdd(&x[0], v);
  atomicMin(&x[1], v);
  atomicMax(&x[2], v);
  atomicAnd(&x[3], v | 0xff00ull);
  atomicOr(&x[4], v);
  atomicXor(&x[5], v);
  long long* s = reinterpret_cast<long long*>(&x[6]);
  atomicMax(s, static_cast<long long>(v) - 500);
  atomicMin(s + 1, static_cast<long long>(v) - 500);
}
//! run atomics_16_cas grid=2 block=32 : u16[4]=1 u16[64]<50
extern "C" __global__ void atomics_16_cas(unsigned short* x, const unsigned short* in) {
  unsigned short v = in[blockIdx.x * 32 + threadIdx.x], old = x[threadIdx.x & 3], seen;
  do {
    seen = old;
    old = atomicCAS(&x[threadIdx.x & 3], seen, static_cast<unsigned short>(seen + v));
  } while (old != seen);
}
//! run atomics_wrap grid=1 block=64 : u32[4]=3 u32[64]=0
extern "C" __global__ void atomics_wrap(unsigned* x, unsigned* out) {
  atomicInc(&x[0], 9);
  atomicDec(&x[1], 7);
  out[threadIdx.x] = atomicExch_system(&out[threadIdx.x], threadIdx.x + 1);
  atomicSub(reinterpret_cast<int*>(&x[2]), 2);
}
//! run float_minimum_by_bits grid=2 block=64 : u32[2]=4294967295 f32[128]
extern "C" __global__ void float_minimum_by_bits(unsigned* least, const float* in) {
  unsigned bits = __float_as_uint(in[blockIdx.x * 64 + threadIdx.x]);
  bits = bits >> 31 ? ~bits : bits | 0x80000000u;
  atomicMin(least, bits);
  if (threadIdx.x % 3 == 0) atomicMin(least + 1, bits);
}
// One add a warp for those of its lanes that have something; the order of lanes in it is that of their numbers.
__device__ int aggregated(int* counter) {
  unsigned active = __activemask();
  int leader = __ffs(active) - 1, lane = threadIdx.x & 31, base = 0;
  if (lane == leader) base = atomicAdd(counter, __popc(active));
  base = __shfl_sync(active, base, leader);
  return base + __popc(active & ((1u << lane) - 1));
}
//! run filter_aggregated grid=1 block=32 : i32[32] i32[32]=0 i32[1]=0
extern "C" __global__ void filter_aggregated(const int* in, int* out, int* count) {
  if (in[threadIdx.x] > 0) out[aggregated(count)] = in[threadIdx.x];
}
//! run nth_set_bit grid=1 block=64 : u32[64] u32[192]=0
extern "C" __global__ void nth_set_bit(const unsigned* in, unsigned* out) {
  unsigned m = in[threadIdx.x];
  out[3 * threadIdx.x] = __fns(m, 0, 3);
  out[3 * threadIdx.x + 1] = __fns(m, threadIdx.x & 31, 0);
  out[3 * threadIdx.x + 2] = __fns(m, threadIdx.x & 31, -static_cast<int>(threadIdx.x & 7));
}
//! run video_bytes grid=1 block=32 : u32[32] u32[32] u32[512]=0
extern "C" __global__ void video_bytes(const unsigned* a, const unsigned* b, unsigned* out) {
  unsigned x = a[threadIdx.x], y = b[threadIdx.x], *o = out + 16 * threadIdx.x;
  o[0] = __vadd4(x, y);
  o[1] = __vsub2(x, y);
  o[2] = __vmaxu4(x, y);
  o[3] = __vmins2(x, y);
  o[4] = __vavgu4(x, y);
  o[5] = __vcmpeq4(x & 0x0f0f0f0fu, y & 0x0f0f0f0fu);
  o[6] = __vsadu4(x, y);
  o[7] = __vabsdiffs2(x, y);
  o[8] = __vavgs4(x, y) ^ __vhaddu2(x, y);
  o[9] = __vaddss2(x, y) + __vsubus4(x, y);
  o[10] = __vcmpgts4(x, y) | __vcmpleu2(y, x);
  o[11] = __vabsss4(x) ^ __vneg2(y);
  o[12] = __vsads2(x, y) + __vsetltu4(x, y);
  o[13] = __vsubss4(x, y) ^ __vaddus4(x, y);
  o[14] = __vavgs2(x, y) + __vnegss4(x);
  o[15] = __vmaxs4(x, y) - __vminu2(x, y);
}
//! run dots_and_shifts grid=1 block=32 : i32[32] i32[32] i32[32] i32[160]=0
extern "C" __global__ void dots_and_shifts(const int* a, const int* b, const int* c, int* out) {
  int t = threadIdx.x, *o = out + 5 * t;
  char4 p = *reinterpret_cast<const char4*>(a + t), q = *reinterpret_cast<const char4*>(b + t);
  o[0] = __dp4a(a[t], b[t], c[t]);
  o[1] = p.x * q.x + p.y * q.y + p.z * q.z + p.w * q.w;
  o[2] = __funnelshift_l(a[t], b[t], c[t]);
  o[3] = __funnelshift_rc(a[t], b[t], c[t] & 63);
  o[4] = static_cast<int>(__byte_perm(a[t], b[t], c[t] & 0x7777));
}
struct Shape {
  __device__ virtual float area() const = 0;
  __device__ virtual ~Shape() {}
};
struct Disc : Shape {
  float r;
  __device__ explicit Disc(float radius) : r(radius) {}
  __device__ float area() const override { return 3.0f * r * r; }
};
struct Square : Shape {
  float side;
  int count;
  __device__ explicit Square(float s) : side(s), count(2) {}
  __device__ float area() const override { return side * side * count; }
};
//! run shapes_on_the_heap grid=2 block=32 : f32[64]=0.5 f32[64]=0
extern "C" __global__ void shapes_on_the_heap(const float* in, float* out) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  Shape* shape = i % 3 == 0 ? static_cast<Shape*>(new Disc(in[i])) : new Square(in[i] + i);
  out[i] = shape->area();
  delete shape;
}
struct Cell { int value; Cell* next; };
//! run lists_on_the_heap grid=1 block=32 : i32[32]<9 i32[32]=0
extern "C" __global__ void lists_on_the_heap(const int* lengths, int* sums) {
  Cell* head = nullptr;
  for (int i = 0; i < lengths[threadIdx.x]; ++i) {
    Cell* cell = static_cast<Cell*>(malloc(sizeof(Cell)));
    if (cell == nullptr) break;
    cell->value = i * threadIdx.x;
    cell->next = head;
    head = cell;
  }
  int sum = 0;
  while (head != nullptr) {
    sum = 3 * sum + head->value;
    Cell* next = head->next;
    free(head);
    head = next;
  }
  sums[threadIdx.x] = sum;
}
typedef int (*Operation)(int, int);
__device__ int op_add(int a, int b) { return a + b; }
__device__ int op_multiply(int a, int b) { return a * b; }
__device__ int op_mix(int a, int b) { return (a << 3) ^ b; }
__device__ Operation operations[3] = {op_add, op_multiply, op_mix};
//! run table_of_functions grid=1 block=64 : i32[64] i32[64] i32[64]=0
extern "C" __global__ void table_of_functions(const int* a, const int* b, int* out) {
  Operation chosen = operations[threadIdx.x % 3];
  out[threadIdx.x] = chosen(a[threadIdx.x], b[threadIdx.x]) + operations[0](1, 2);
}
__device__ int partition_count(int n, int most) {
  if (n == 0) return 1;
  int sum = 0;
  for (int k = min(n, most); k > 0; --k) sum += partition_count(n - k, k);
  return sum;
}
//! run partitions grid=1 block=12 : i32[12]=0
extern "C" __global__ void partitions(int* out) { out[threadIdx.x] = partition_count(threadIdx.x, threadIdx.x); }
//! run quicksort_depth grid=1 block=4 : i32[64]
__device__ void quicksort(int* x, int low, int high) {
  if (low >= high) return;
  int pivot = x[(low + high) / 2], i = low, j = high;
  while (i <= j) {
    while (x[i] < pivot) ++i;
    while (x[j] > pivot) --j;
    if (i <= j) {
      int t = x[i];
      x[i++] = x[j];
      x[j--] = t;
    }
  }
  quicksort(x, low, j);
  quicksort(x, i, high);
}
extern "C" __global__ void quicksort_depth(int* x) { quicksort(x + 16 * threadIdx.x, 0, 15); }
//! run prints_and_asserts grid=1 block=4 : i32[4]=3
extern "C" __global__ void prints_and_asserts(int* x) {
  assert(x[threadIdx.x] == 3);
  printf("%d of %s: %5.2f %c %llu %p\n", threadIdx.x, "four", x[threadIdx.x] * 0.5, 'a' + threadIdx.x, 1ull << 40, nullptr);
  x[threadIdx.x] = printf("%%\n");
}
//! run read_only_loads tol=1e-6 grid=1 block=32 : f32[128] f64[64] i32[32]<32 f32[32]=0
extern "C" __global__ void read_only_loads(const float4* a, const double2* b, const int* at, float* out) {
  float4 v = __ldg(a + at[threadIdx.x]);
  double2 d = __ldg(b + __ldg(at + threadIdx.x));
  out[threadIdx.x] = v.x + v.y - v.z * v.w + static_cast<float>(d.x - d.y);
}
union Word { float f; unsigned u; unsigned char bytes[4]; };
//! run unions_in_local grid=1 block=32 : f32[32] u32[32]=0
extern "C" __global__ void unions_in_local(const float* in, unsigned* out) {
  Word w;
  w.f = in[threadIdx.x];
  unsigned char first = w.bytes[threadIdx.x & 3];
  w.bytes[threadIdx.x & 3] = w.bytes[(threadIdx.x + 1) & 3];
  w.bytes[(threadIdx.x + 1) & 3] = first;
  out[threadIdx.x] = w.u;
}
__device__ unsigned long long seeds[4] = {1, 2, 3, 4};
__device__ int* kept_pointer = nullptr;
//! run module_state grid=1 block=4 : u64[4]=0
extern "C" __global__ void module_state(unsigned long long* out) {
  __shared__ int here;
  if (threadIdx.x == 0) kept_pointer = &here;
  __syncthreads();
  if (threadIdx.x == 1) *kept_pointer = 41;
  __syncthreads();
  seeds[threadIdx.x] = seeds[threadIdx.x] * 6364136223846793005ull + 1;
  out[threadIdx.x] = seeds[threadIdx.x] + here;
}
//! run int128_products grid=1 block=32 : u64[32] u64[32] u64[64]=0
extern "C" __global__ void int128_products(const unsigned long long* a, const unsigned long long* b, unsigned long long* out) {
  unsigned long long x = a[threadIdx.x], y = b[threadIdx.x];
  unsigned long long high = __umul64hi(x, y), low = x * y;
  low += 0x123456789abcdefull;
  high += low < 0x123456789abcdefull;
  out[2 * threadIdx.x] = low;
  out[2 * threadIdx.x + 1] = high;
}
//! run math_mixture tol=1e-4 grid=1 block=64 : f32[64] f64[64] f64[512]=0
extern "C" __global__ void math_mixture(const float* f, const double* d, double* out) {
  int t = threadIdx.x;
  double* o = out + 8 * t;
  o[0] = hypotf(f[t], 1.0f) + rhypot(d[t], 2.0);
  o[1] = erff(f[t]) + erfc(d[t]);
  o[2] = lgammaf(fabsf(f[t]) + 1) + tgamma(fabs(d[t]) + 0.5);
  o[3] = cbrtf(f[t]) + rcbrt(fabs(d[t]) + 1);
  int e;
  o[4] = frexpf(f[t], &e) + ldexp(d[t], 3) + e;
  o[5] = remainderf(f[t], 0.7f) + fmod(d[t], 0.3);
  o[6] = normcdff(f[t]) + sinpi(d[t]) + cospif(f[t]);
  o[7] = fdimf(f[t], 0.2f) + nextafter(d[t], 9.0) + ilogb(d[t] + 4) + copysignf(1.0f, f[t]) + fmaf(f[t], 2, 1) + exp10(d[t]) + logb(3 + d[t]);
}
