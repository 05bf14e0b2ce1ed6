// Module-scope variables: addresses, sizes, initial values, and that each loaded module has its own.
#include <cstdint>

struct Item {
  short tag;
  int values[2];
};
extern "C" {
__device__ int counter = 41;
__device__ float zeroed[100];
__device__ Item items[2] = {{7, {-1, 2}}, {9, {1 << 30, 4}}};
__device__ int* pointer_to_counter = &counter;
__constant__ double table[4] = {0.5, -1.25, 3.0, 1e300};
__device__ unsigned char message[] = "initial bytes";

__global__ void use_globals(long long* out) {
  out[0] = ++counter;
  out[1] = *pointer_to_counter;
  out[2] = items[1].tag + items[0].values[0];
  out[3] = items[1].values[0];
  out[4] = __double_as_longlong(table[3]);
  out[5] = message[8];
  zeroed[3] += 1.5f;
  out[6] = __float_as_int(zeroed[3]);
}

__global__ void read_table(const int* index, double* out) { out[threadIdx.x] = table[index[threadIdx.x]]; }
}
