// Kernels of the suites on control flow, warps, local memory and calls.
#include <cstdint>

extern "C" __global__ void collatz(uint32_t* steps) {
  const uint32_t i = blockIdx.x * blockDim.x + threadIdx.x;
  uint64_t n = i + 1;
  uint32_t count = 0;
  while (n != 1) {
    n = n % 2 == 0 ? n / 2 : 3 * n + 1;
    ++count;
  }
  steps[i] = count;
}

extern "C" __global__ void switches(const int* in, int* out) {
  const int x = in[threadIdx.x];
  int y;
  switch (x) {
    case 0: y = 17; break;
    case 1: y = x * 31; break;
    case 2: y = in[(threadIdx.x + 1) & 31]; break;
    case 3: y = 5; /* falls through */
    case 4: y = x ^ 99; break;
    case 5: y = -x; break;
    case 6: y = x << 7; break;
    default: y = 1000;
  }
  for (int i = 0; i < x; ++i) {
    if (i == 3) continue;
    if (i == 6) break;
    y += i * (threadIdx.x + 1);
  }
  out[threadIdx.x] = y;
}

extern "C" __global__ void shuffles(int* out) {
  const int lane = threadIdx.x & 31;
  int* mine = out + 8 * threadIdx.x;
  const int value = threadIdx.x * 10;
  mine[0] = __shfl_sync(~0u, value, 5);
  mine[1] = __shfl_sync(~0u, value, lane + 1, 8);
  mine[2] = __shfl_up_sync(~0u, value, 3);
  mine[3] = __shfl_up_sync(~0u, value, 2, 16);
  mine[4] = __shfl_down_sync(~0u, value, 7);
  mine[5] = __shfl_down_sync(~0u, value, 1, 4);
  mine[6] = __shfl_xor_sync(~0u, value, 21);
  mine[7] = __shfl_xor_sync(~0u, value, 12, 8);
}

extern "C" __global__ void warp_sum(const int* in, int* out) {
  int sum = in[blockIdx.x * blockDim.x + threadIdx.x];
  for (int offset = 16; offset > 0; offset /= 2) sum += __shfl_down_sync(~0u, sum, offset);
  if ((threadIdx.x & 31) == 0) atomicAdd(out + blockIdx.x, sum);
}

extern "C" __global__ void votes(uint32_t* out) {
  const uint32_t lane = threadIdx.x & 31;
  uint32_t* mine = out + 8 * threadIdx.x;
  mine[0] = __ballot_sync(~0u, lane % 3 == 0);
  mine[1] = __all_sync(~0u, threadIdx.x < 64);
  mine[2] = __any_sync(~0u, lane == 9 && threadIdx.x < 32);
  uint32_t uniform;
  asm volatile("{ .reg .pred p, q; setp.lt.u32 p, %1, 32; vote.sync.uni.pred q, p, -1; selp.u32 %0, 1, 0, q; }"
               : "=r"(uniform)
               : "r"(threadIdx.x));
  mine[3] = uniform;
  mine[4] = __match_any_sync(~0u, lane / 5);
  // A subset of lanes votes under divergence.
  mine[5] = 0;
  if (lane & 1) mine[5] = __ballot_sync(0xaaaaaaaau, lane > 15);
  __syncwarp();
  mine[6] = __popc(__activemask());
  mine[7] = __shfl_sync(~0u, mine[5], 1);
}

extern "C" __global__ void local_sort(const int* in, int* out) {
  int values[16];
  for (int i = 0; i < 16; ++i) values[i] = in[threadIdx.x * 16 + i];
  for (int i = 1; i < 16; ++i) {
    const int value = values[i];
    int at = i;
    while (at > 0 && values[at - 1] > value) {
      values[at] = values[at - 1];
      --at;
    }
    values[at] = value;
  }
  for (int i = 0; i < 16; ++i) out[threadIdx.x * 16 + i] = values[i];
}

__device__ __noinline__ uint32_t fibonacci(uint32_t n) { return n < 2 ? n : fibonacci(n - 1) + fibonacci(n - 2); }
extern "C" __global__ void recursion(uint32_t* out) { out[threadIdx.x] = fibonacci(threadIdx.x % 13); }

struct Pair {
  int low;
  long long high;
};
__device__ __noinline__ Pair make_pair(int x, double y) { return {x * 2, (long long)(y * 3.0)}; }
__device__ __noinline__ int sum_pair(Pair pair, const int* extra) { return pair.low + int(pair.high) + *extra; }
extern "C" __global__ void calls(int* out) {
  const int extra = threadIdx.x * 100;  // its address is taken: local memory through a generic pointer
  out[threadIdx.x] = sum_pair(make_pair(threadIdx.x, threadIdx.x + 0.5), &extra);
}

// One pointer, three spaces: generic addressing decides at run time.
__device__ __noinline__ int through(const int* p) { return *p + 1; }
extern "C" __global__ void generic_pointers(const int* in, int* out) {
  __shared__ int shared[32];
  int local[4];
  shared[threadIdx.x] = threadIdx.x * 5;
  for (int i = 0; i < 4; ++i) local[i] = threadIdx.x * 7 + i;
  __syncthreads();
  const int* p = threadIdx.x % 3 == 0 ? in + threadIdx.x : threadIdx.x % 3 == 1 ? shared + (threadIdx.x ^ 1) : local + 2;
  out[threadIdx.x] = through(p);
  out[32 + threadIdx.x] = (__isGlobal(p) ? 1 : 0) + (__isShared(p) ? 2 : 0) + (__isLocal(p) ? 4 : 0);
}

extern "C" __global__ void vectors(const float4* in, float4* out, uchar4* bytes) {
  float4 v = in[threadIdx.x];
  out[threadIdx.x] = make_float4(v.w, v.z, v.y, v.x);
  bytes[threadIdx.x] = make_uchar4(v.x, v.y, v.z, v.w);
}

extern "C" __global__ void early_return(const int* in, int* out, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  if (in[i] < 0) {
    out[i] = -1;
    return;
  }
  out[i] = in[i] * 2;
}
