// Control flow: divergence, loops, switches, early returns, recursion, function pointers, gotos.
//! run collatz grid=2 block=64 : u32[128]<1000 i32[128]=0
extern "C" __global__ void collatz(const unsigned* in, int* steps) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  unsigned long long x = in[i] + 1;
  int n = 0;
  while (x != 1) {
    x = x & 1 ? 3 * x + 1 : x >> 1;
    ++n;
  }
  steps[i] = n;
}
//! run gcd grid=1 block=64 : u32[64] u32[64] u32[64]=0
extern "C" __global__ void gcd(const unsigned* a, const unsigned* b, unsigned* out) {
  unsigned x = a[threadIdx.x], y = b[threadIdx.x];
  while (y != 0) {
    unsigned t = x % y;
    x = y, y = t;
  }
  out[threadIdx.x] = x;
}
//! run switch_dense grid=1 block=64 : i32[64]<12 f32[64] f32[64]=0
extern "C" __global__ void switch_dense(const int* op, const float* in, float* out) {
  float x = in[threadIdx.x], r = 0;
  switch (op[threadIdx.x]) {
    case 0: r = x + 1; break;
    case 1: r = x * x; break;
    case 2: r = -x;
    case 3: r += 4; break;
    case 4: r = x > 0 ? x : 0; break;
    case 5: r = fabsf(x); break;
    case 6: r = floorf(x * 10); break;
    case 7: r = x / 3; break;
    case 8: r = sqrtf(fabsf(x)); break;
    case 9: r = fmaf(x, x, x); break;
    default: r = 99;
  }
  out[threadIdx.x] = r;
}
//! run switch_sparse grid=1 block=64 : i32[64]<2000 i32[64]=0
extern "C" __global__ void switch_sparse(const int* in, int* out) {
  int r;
  switch (in[threadIdx.x]) {
    case 1: r = 10; break;
    case 17: r = 20; break;
    case 300: r = 30; break;
    case 1999: r = 40; break;
    default: r = in[threadIdx.x] * 2;
  }
  out[threadIdx.x] = r;
}
//! run interpreter_loop grid=1 block=32 : u8[64]<7 i32[32]=0
extern "C" __global__ void interpreter_loop(const unsigned char* program, int* out) {
  int stack[8];
  int top = 0;
  stack[0] = threadIdx.x;
  for (int pc = 0; pc < 64; ++pc) {
    switch (program[pc]) {
      case 0: stack[top & 7] += 3; break;
      case 1: stack[top & 7] *= 5; break;
      case 2: top = (top + 1) & 7, stack[top] = pc; break;
      case 3: if (top > 0) { stack[top - 1] ^= stack[top]; --top; } break;
      case 4: stack[top & 7] >>= 1; break;
      case 5: if (stack[top & 7] & 1) ++pc; break;
      default: stack[top & 7] -= 7;
    }
  }
  out[threadIdx.x] = stack[top & 7];
}
//! run early_returns grid=2 block=64 : f32[128] f32[128]=0 100
extern "C" __global__ void early_returns(const float* in, float* out, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  if (in[i] < 0) {
    out[i] = -1;
    return;
  }
  if (i % 3 == 0) return;
  out[i] = in[i];
}
//! run nested_loops grid=1 block=32 : i32[32]<20 i32[32]=0
extern "C" __global__ void nested_loops(const int* in, int* out) {
  int n = in[threadIdx.x], s = 0;
  for (int i = 0; i < n; ++i) {
    for (int j = i; j < n; ++j) {
      if ((i + j) % 7 == 3) continue;
      if (j > 2 * i + 5) break;
      s += i * j;
    }
  }
  out[threadIdx.x] = s;
}
//! run gotos grid=1 block=32 : i32[32]<50 i32[32]=0
extern "C" __global__ void gotos(const int* in, int* out) {
  int x = in[threadIdx.x], n = 0;
again:
  ++n;
  if (x > 40) { x -= 13; goto again; }
  if (x & 1) { x = x / 2 + 20; if (n < 9) goto again; }
  out[threadIdx.x] = x * 100 + n;
}
__device__ __noinline__ int ackermann_like(int m, int n) {
  if (m == 0) return n + 1;
  if (n == 0) return ackermann_like(m - 1, 1);
  return ackermann_like(m - 1, ackermann_like(m, n - 1) & 7);
}
//! run recursion grid=1 block=32 : i32[32]=0
extern "C" __global__ void recursion(int* out) { out[threadIdx.x] = ackermann_like(2, threadIdx.x & 3); }
__device__ __noinline__ int fibonacci_of(int n) { return n < 2 ? n : fibonacci_of(n - 1) + fibonacci_of(n - 2); }
//! run fibonacci grid=1 block=32 : i32[32]=0
extern "C" __global__ void fibonacci(int* out) { out[threadIdx.x] = fibonacci_of(threadIdx.x & 7); }
__device__ __noinline__ bool is_odd(int n);
__device__ __noinline__ bool is_even(int n) { return n == 0 || is_odd(n - 1); }
__device__ __noinline__ bool is_odd(int n) { return n != 0 && is_even(n - 1); }
//! run mutual_recursion grid=1 block=32 : i32[32]=0
extern "C" __global__ void mutual_recursion(int* out) { out[threadIdx.x] = is_even(threadIdx.x); }

__device__ __noinline__ float op_add(float a, float b) { return a + b; }
__device__ __noinline__ float op_multiply(float a, float b) { return a * b; }
__device__ __noinline__ float op_maximum(float a, float b) { return a > b ? a : b; }
typedef float (*Operation)(float, float);
__device__ Operation operations[3] = {op_add, op_multiply, op_maximum};
//! run function_pointers grid=1 block=96 : f32[96] f32[96] f32[96]=0
extern "C" __global__ void function_pointers(const float* a, const float* b, float* out) {
  out[threadIdx.x] = operations[threadIdx.x % 3](a[threadIdx.x], b[threadIdx.x]);
}
//! run chosen_pointer grid=1 block=64 : f32[64] f32[64]=0 1
extern "C" __global__ void chosen_pointer(const float* a, float* out, int which) {
  Operation f = which ? op_add : op_maximum;
  out[threadIdx.x] = f(a[threadIdx.x], 0.25f);
}
struct Wide {
  double a[3];
  int b;
};
__device__ __noinline__ Wide make_wide(int seed) {
  Wide w;
  for (int i = 0; i < 3; ++i) w.a[i] = seed * (i + 1);
  w.b = -seed;
  return w;
}
__device__ __noinline__ double use_wide(Wide w) { return w.a[0] + w.a[1] * w.a[2] + w.b; }
//! run struct_calls grid=1 block=32 : f64[32]=0
extern "C" __global__ void struct_calls(double* out) { out[threadIdx.x] = use_wide(make_wide(threadIdx.x)); }
//! run local_array grid=1 block=32 : i32[64]<16 i32[32]=0
extern "C" __global__ void local_array(const int* in, int* out) {
  int table[16];
  for (int i = 0; i < 16; ++i) table[i] = i * i;
  for (int i = 0; i < 32; ++i) table[in[(i + threadIdx.x) & 63]] += i;
  int s = 0;
  for (int i = 0; i < 16; ++i) s = s * 31 + table[i];
  out[threadIdx.x] = s;
}
//! run unrolled grid=1 block=64 : f32[1024] f32[64]=0
extern "C" __global__ void unrolled(const float* in, float* out) {
  float s = 0;
#pragma unroll
  for (int i = 0; i < 16; ++i) s += in[i * 64 + threadIdx.x] * (i + 1);
  out[threadIdx.x] = s;
}
//! run not_unrolled grid=1 block=64 : f32[1024] f32[64]=0 16
extern "C" __global__ void not_unrolled(const float* in, float* out, int n) {
  float s = 0;
#pragma unroll 1
  for (int i = 0; i < n; ++i) s += in[i * 64 + threadIdx.x] * (i + 1);
  out[threadIdx.x] = s;
}
//! run ternary_chain grid=1 block=64 : i32[64] i32[64]=0
extern "C" __global__ void ternary_chain(const int* in, int* out) {
  int x = in[threadIdx.x];
  out[threadIdx.x] = x > 1000 ? x > 100000 ? 1 : 2 : x < -1000 ? x < -100000 ? 3 : 4 : x == 0 ? 5 : 6;
}
//! run binary_search grid=1 block=64 : i32[256]=iota i32[64]<256 i32[64]=0
extern "C" __global__ void binary_search(const int* sorted, const int* keys, int* out) {
  int low = 0, high = 255, key = keys[threadIdx.x];
  while (low < high) {
    int middle = (low + high) / 2;
    if (sorted[middle] < key) low = middle + 1;
    else high = middle;
  }
  out[threadIdx.x] = low;
}
