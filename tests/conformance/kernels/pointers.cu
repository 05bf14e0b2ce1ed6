// A call through a table of functions: a module of its own, for devices that give functions no address.
typedef int (*Operation)(int, int);
__device__ int op_add(int a, int b) { return a + b; }
__device__ int op_sub(int a, int b) { return a - b; }
__device__ int op_mul(int a, int b) { return a * b; }
__device__ int op_min(int a, int b) { return a < b ? a : b; }
__device__ Operation operations[4] = {op_add, op_sub, op_mul, op_min};
extern "C" __global__ void function_pointers(int* out) {
  out[threadIdx.x] = operations[(threadIdx.x * 7) & 3](threadIdx.x, 11);
}
