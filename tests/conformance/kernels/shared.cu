// Kernels of the shared-memory, barrier and atomic suites.
#include <cstdint>

extern "C" __global__ void static_shared(const int* in, int* out) {
  __shared__ int tile[256];
  tile[threadIdx.x] = in[blockIdx.x * 256 + threadIdx.x];
  __syncthreads();
  out[blockIdx.x * 256 + threadIdx.x] = tile[255 - threadIdx.x];
}

extern __shared__ __align__(16) unsigned char dynamic[];
extern "C" __global__ void dynamic_shared(const int* in, int* out, int n) {
  int* tile = reinterpret_cast<int*>(dynamic);
  for (int i = threadIdx.x; i < n; i += blockDim.x) tile[i] = in[i];
  __syncthreads();
  for (int i = threadIdx.x; i < n; i += blockDim.x) out[i] = tile[n - 1 - i];
}

extern "C" __global__ void static_and_dynamic(int* out, int n) {
  __shared__ int fixed[32];
  int* tile = reinterpret_cast<int*>(dynamic);
  if (threadIdx.x < 32) fixed[threadIdx.x] = 1000 + threadIdx.x;
  tile[threadIdx.x] = threadIdx.x;
  __syncthreads();
  uint32_t bytes;
  asm("mov.u32 %0, %%dynamic_smem_size;" : "=r"(bytes));
  out[threadIdx.x] = fixed[threadIdx.x & 31] + tile[(threadIdx.x + 1) % n] + (bytes == uint32_t(n) * 4 ? 0 : 1 << 20);
}

// Sum of a block by halving, with a barrier in a loop; blocks of any size that is a power of two.
extern "C" __global__ void tree_sum(const int* in, int* out) {
  __shared__ int sums[1024];
  sums[threadIdx.x] = in[blockIdx.x * blockDim.x + threadIdx.x];
  __syncthreads();
  for (int half = blockDim.x / 2; half > 0; half /= 2) {
    if (threadIdx.x < half) sums[threadIdx.x] += sums[threadIdx.x + half];
    __syncthreads();
  }
  if (threadIdx.x == 0) out[blockIdx.x] = sums[0];
}

// Two halves of the block pass a value to and fro over two named barriers.
extern "C" __global__ void named_barriers(int* out, int rounds) {
  __shared__ int box[64];
  const int half = threadIdx.x / 64, lane = threadIdx.x % 64;
  int value = half == 0 ? lane : 0;
  for (int i = 0; i < rounds; ++i) {
    if (half == 0) {
      box[lane] = value + 1;
      asm volatile("bar.sync 1, 128;" ::: "memory");
      asm volatile("bar.sync 2, 128;" ::: "memory");
      value = box[lane];
    } else {
      asm volatile("bar.sync 1, 128;" ::: "memory");
      box[lane] = box[lane] * 2;
      asm volatile("bar.sync 2, 128;" ::: "memory");
    }
  }
  if (half == 0) out[lane] = value;
}

extern "C" __global__ void barrier_reductions(int* out, int limit) {
  const int small = threadIdx.x < limit;
  out[3 * threadIdx.x] = __syncthreads_count(small);
  out[3 * threadIdx.x + 1] = __syncthreads_and(small);
  out[3 * threadIdx.x + 2] = __syncthreads_or(small);
}

// Threads that have left do not hold up the others' barrier.
extern "C" __global__ void early_exit(int* out, int stay) {
  __shared__ int value;
  if (threadIdx.x == 0) value = 0;
  if (threadIdx.x >= stay) return;
  __syncthreads();
  atomicAdd(&value, 1);
  __syncthreads();
  out[threadIdx.x] = value;
}

extern "C" __global__ void atomics(uint32_t* u, int32_t* s, unsigned long long* l, float* f) {
  const uint32_t i = blockIdx.x * blockDim.x + threadIdx.x;
  atomicAdd(u + 0, i);
  atomicSub(u + 1, 1);
  atomicMin(u + 2, i * 2654435761u);
  atomicMax(u + 3, i * 2654435761u);
  atomicAnd(u + 4, ~(1u << (i & 31)) | 0x55555555u);
  atomicOr(u + 5, 1u << (i & 31) & 0x0f0f0f0fu);
  atomicXor(u + 6, i);
  atomicInc(u + 7, 99);
  atomicDec(u + 8, 99);
  atomicMin(s + 0, int32_t(i) - 500);
  atomicMax(s + 1, int32_t(i) - 500);
  atomicAdd(s + 2, -int32_t(i));
  atomicAdd(l + 0, 1ull << 20 | i);
  atomicMax(l + 1, (unsigned long long)i << 32);
  atomicAdd(f, 1.0f);  // exact: fewer than 2^24
  // A lock-free product modulo a prime, by compare and swap.
  uint32_t seen = u[9], want;
  do {
    want = seen;
    seen = atomicCAS(u + 9, want, want * 3u % 65521u);
  } while (seen != want);
  const uint32_t before = atomicExch(u + 10, i + 1);  // every value but the last comes back once
  atomicAdd(u + 11, before);
}

extern "C" __global__ void shared_histogram(const uint8_t* data, int n, uint32_t* bins) {
  __shared__ uint32_t local[256];
  for (int i = threadIdx.x; i < 256; i += blockDim.x) local[i] = 0;
  __syncthreads();
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) atomicAdd(local + data[i], 1);
  __syncthreads();
  for (int i = threadIdx.x; i < 256; i += blockDim.x) atomicAdd(bins + i, local[i]);
}

// Grid-wide barriers by one growing counter; needs a cooperative launch.
extern "C" __global__ void grid_barrier(unsigned* counter, int* data, int rounds) {
  const int blocks = gridDim.x;
  for (int round = 0; round < rounds; ++round) {
    if (threadIdx.x == 0) {
      const int next = (blockIdx.x + 1) % blocks;
      data[(round + 1) * blocks + next] = data[round * blocks + blockIdx.x] + 1;
      __threadfence();
      atomicAdd(counter, 1);
      while (*reinterpret_cast<volatile unsigned*>(counter) < unsigned(blocks) * (round + 1)) {
      }
      __threadfence();
    }
    __syncthreads();
  }
}
