// Kernels that fault, each in one way.
#include <cstdint>

#include <cassert>

extern "C" __global__ void store_to(int* where) { *where = 1; }
extern "C" __global__ void load_from(const int* where, int* out) { *out = *where; }
extern "C" __global__ void traps(int* out, int go) {
  if (go) asm volatile("trap;");
  *out = 1;
}
extern "C" __global__ void asserts(int* out, int value) {
  assert(value == 0);
  *out = 1;
}
extern "C" __global__ void shared_far(int* out, int index) {
  __shared__ int tile[8];
  tile[threadIdx.x & 7] = 0;
  tile[index] = 1;
  __syncthreads();
  out[0] = tile[0];
}
