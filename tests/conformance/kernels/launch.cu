// Kernels of the launch suites: what a thread sees of its grid, its parameters and its special registers.
#include <cstdint>

struct Mixed {
  char tag;
  double value;
  short small[3];
};

extern "C" __global__ void grid_shape(uint32_t* out) {
  const uint64_t block = blockIdx.x + uint64_t(gridDim.x) * (blockIdx.y + uint64_t(gridDim.y) * blockIdx.z);
  const uint32_t thread = threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z);
  const uint32_t threads = blockDim.x * blockDim.y * blockDim.z;
  uint32_t* mine = out + 4 * (block * threads + thread);
  mine[0] = blockIdx.x | blockIdx.y << 10 | blockIdx.z << 20;
  mine[1] = threadIdx.x | threadIdx.y << 10 | threadIdx.z << 20;
  mine[2] = gridDim.x | gridDim.y << 10 | gridDim.z << 20;
  mine[3] = blockDim.x | blockDim.y << 10 | blockDim.z << 20;
}

extern "C" __global__ void every_parameter(int8_t a, uint8_t b, int16_t c, uint16_t d, int32_t e, uint32_t f, int64_t g,
                                           uint64_t h, float i, double j, Mixed k, uint64_t* out, bool l) {
  out[0] = uint64_t(int64_t(a));
  out[1] = b;
  out[2] = uint64_t(int64_t(c));
  out[3] = d;
  out[4] = uint64_t(int64_t(e));
  out[5] = f;
  out[6] = uint64_t(g);
  out[7] = h;
  out[8] = __float_as_uint(i);
  out[9] = uint64_t(__double_as_longlong(j));
  out[10] = uint64_t(int64_t(k.tag));
  out[11] = uint64_t(__double_as_longlong(k.value));
  out[12] = uint64_t(int64_t(k.small[0])) ^ uint64_t(int64_t(k.small[2])) << 16;
  out[13] = l;
}

// A parameter array indexed at run time: the compiler cannot keep it in registers.
struct Table {
  int values[16];
};
extern "C" __global__ void parameter_table(Table table, int* out, int shift) {
  out[threadIdx.x] = table.values[(threadIdx.x + shift) & 15];
}

extern "C" __global__ void no_parameters() {}

extern "C" __global__ void add_one(int* data, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) data[i] += 1;
}

extern "C" __global__ void add(int* data, int value) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  data[i] = data[i] * 3 + value;
}

extern "C" __global__ void saxpy(float a, const float* x, float* y, int n) {
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) y[i] += a * x[i];
}

// Runs until `until` nanoseconds of the device's clock have gone by, so that work is in flight.
extern "C" __global__ void wait_ns(uint64_t ns, int* done) {
  uint64_t start, now;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(start));
  do {
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
  } while (now - start < ns);
  if (threadIdx.x == 0) *done = 1;
}

extern "C" __global__ void special_registers(uint32_t* out, uint32_t* bad) {
  uint32_t lane, warp, warps, lt, le, ge, gt, eq, sm, sms, clock0, clock1;
  asm volatile("mov.u32 %0, %%laneid;" : "=r"(lane));
  asm volatile("mov.u32 %0, %%warpid;" : "=r"(warp));
  asm volatile("mov.u32 %0, %%nwarpid;" : "=r"(warps));
  asm volatile("mov.u32 %0, %%lanemask_lt;" : "=r"(lt));
  asm volatile("mov.u32 %0, %%lanemask_le;" : "=r"(le));
  asm volatile("mov.u32 %0, %%lanemask_ge;" : "=r"(ge));
  asm volatile("mov.u32 %0, %%lanemask_gt;" : "=r"(gt));
  asm volatile("mov.u32 %0, %%lanemask_eq;" : "=r"(eq));
  asm volatile("mov.u32 %0, %%smid;" : "=r"(sm));
  asm volatile("mov.u32 %0, %%nsmid;" : "=r"(sms));
  asm volatile("mov.u32 %0, %%clock;" : "=r"(clock0));
  asm volatile("mov.u32 %0, %%clock;" : "=r"(clock1));
  const uint32_t thread = threadIdx.x;
  uint32_t wrong = 0;
  if (lane != (thread & 31)) wrong |= 1;
  if (warp >= warps) wrong |= 2;
  if (lt != (1u << lane) - 1) wrong |= 4;
  if (le != (lt | eq) || eq != 1u << lane) wrong |= 8;
  if (ge != ~lt || gt != ~le) wrong |= 16;
  if (sm >= sms) wrong |= 32;
  if (warpSize != 32) wrong |= 64;
  if (int32_t(clock1 - clock0) < 0) wrong |= 128;
  out[blockIdx.x * blockDim.x + thread] = lane;
  if (wrong) atomicOr(bad, wrong);
}
