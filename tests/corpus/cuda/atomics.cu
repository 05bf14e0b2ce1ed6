// Atomic operations of every kind, type, scope and space; locks; ordered arrival.
#define ATOMIC(name, T, call)                                       \
  extern "C" __global__ void atomic_##name(T* x, const T* in) {     \
    int i = blockIdx.x * blockDim.x + threadIdx.x;                  \
    T v = in[i];                                                    \
    T* p = x + (i & 7);                                             \
    call;                                                           \
  }
//! run atomic_add_i32 grid=2 block=64 : i32[8]=0 i32[128]
//! run atomic_add_u32 grid=2 block=64 : u32[8]=0 u32[128]
//! run atomic_add_u64 grid=2 block=64 : u64[8]=0 u64[128]
//! run atomic_sub_i32 grid=2 block=64 : i32[8]=0 i32[128]
//! run atomic_min_i32 grid=2 block=64 : i32[8] i32[128]
//! run atomic_max_i32 grid=2 block=64 : i32[8] i32[128]
//! run atomic_min_u32 grid=2 block=64 : u32[8] u32[128]
//! run atomic_max_u32 grid=2 block=64 : u32[8] u32[128]
//! run atomic_min_i64 grid=2 block=64 : i64[8] i64[128]
//! run atomic_max_u64 grid=2 block=64 : u64[8] u64[128]
//! run atomic_and_u32 grid=2 block=64 : u32[8] u32[128]
//! run atomic_or_u32 grid=2 block=64 : u32[8] u32[128]
//! run atomic_xor_i32 grid=2 block=64 : i32[8] i32[128]
//! run atomic_and_u64 grid=2 block=64 : u64[8] u64[128]
//! run atomic_or_u64 grid=2 block=64 : u64[8] u64[128]
//! run atomic_xor_u64 grid=2 block=64 : u64[8] u64[128]
//! run atomic_inc_u32 grid=2 block=64 : u32[8]=0 u32[128]=100
//! run atomic_dec_u32 grid=2 block=64 : u32[8]=0 u32[128]=100
//! run atomic_add_block grid=1 block=64 : i32[8]=0 i32[64]
//! run atomic_add_system grid=1 block=64 : i32[8]=0 i32[64]
ATOMIC(add_i32, int, atomicAdd(p, v))
ATOMIC(add_u32, unsigned, atomicAdd(p, v))
ATOMIC(add_u64, unsigned long long, atomicAdd(p, v))
ATOMIC(add_f32, float, atomicAdd(p, v))
ATOMIC(add_f64, double, atomicAdd(p, v))
ATOMIC(sub_i32, int, atomicSub(p, v))
ATOMIC(min_i32, int, atomicMin(p, v))
ATOMIC(max_i32, int, atomicMax(p, v))
ATOMIC(min_u32, unsigned, atomicMin(p, v))
ATOMIC(max_u32, unsigned, atomicMax(p, v))
ATOMIC(min_i64, long long, atomicMin(p, v))
ATOMIC(max_u64, unsigned long long, atomicMax(p, v))
ATOMIC(and_u32, unsigned, atomicAnd(p, v))
ATOMIC(or_u32, unsigned, atomicOr(p, v))
ATOMIC(xor_i32, int, atomicXor(p, v))
ATOMIC(and_u64, unsigned long long, atomicAnd(p, v))
ATOMIC(or_u64, unsigned long long, atomicOr(p, v))
ATOMIC(xor_u64, unsigned long long, atomicXor(p, v))
ATOMIC(inc_u32, unsigned, atomicInc(p, v))
ATOMIC(dec_u32, unsigned, atomicDec(p, v))
ATOMIC(exch_i32, int, atomicExch(p, v))
ATOMIC(exch_u64, unsigned long long, atomicExch(p, v))
ATOMIC(exch_f32, float, atomicExch(p, v))
ATOMIC(add_block, int, atomicAdd_block(p, v))
ATOMIC(add_system, int, atomicAdd_system(p, v))
ATOMIC(max_block, unsigned, atomicMax_block(p, v))
ATOMIC(cas_system, unsigned long long, atomicCAS_system(p, 0ull, v))

//! run atomic_returns grid=1 block=1 : i32[1] i32[4]=0
extern "C" __global__ void atomic_returns(int* x, int4* out) {
  int a = atomicAdd(x, 5), b = atomicExch(x, 77), c = atomicCAS(x, 77, 88), d = atomicCAS(x, 77, 99);
  *out = make_int4(a, b, c, d);
}
//! run cas_maximum_float grid=2 block=64 : f32[1] f32[128]
extern "C" __global__ void cas_maximum_float(float* best, const float* in) {
  float v = in[blockIdx.x * blockDim.x + threadIdx.x];
  int* p = reinterpret_cast<int*>(best);
  int old = *p;
  while (__int_as_float(old) < v) {
    int seen = atomicCAS(p, old, __float_as_int(v));
    if (seen == old) break;
    old = seen;
  }
}
//! run cas_add_double grid=1 block=64 : f64[1]=0 i32[64]<1000
extern "C" __global__ void cas_add_double(double* sum, const int* in) {
  unsigned long long* p = reinterpret_cast<unsigned long long*>(sum);
  unsigned long long old = *p, seen;
  do {
    seen = old;
    old = atomicCAS(p, seen, (unsigned long long)__double_as_longlong(__longlong_as_double((long long)seen) + in[threadIdx.x]));
  } while (old != seen);
}
//! run spin_lock grid=4 block=32 : i32[1]=0 i32[1]=0
extern "C" __global__ void spin_lock(int* lock, int* total) {
  if (threadIdx.x == 0) {
    while (atomicCAS(lock, 0, 1) != 0) {
    }
    __threadfence();
    volatile int* t = total;
    *t = *t + blockIdx.x + 1;
    __threadfence();
    atomicExch(lock, 0);
  }
}
//! run ticket_lock grid=4 block=32 : i32[2]=0 i32[1]=0
extern "C" __global__ void ticket_lock(int* turns, volatile int* total) {
  if (threadIdx.x != 0) return;
  int mine = atomicAdd(&turns[0], 1);
  while (atomicAdd(&turns[1], 0) != mine) {
  }
  __threadfence();
  *total = *total * 1 + 3;
  __threadfence();
  atomicAdd(&turns[1], 1);
}
//! run last_block_sum grid=4 block=64 : i32[256] i32[4]=0 u32[1]=0 i32[1]=0
extern "C" __global__ void last_block_sum(const int* in, int* partial, unsigned* arrived, int* out) {
  __shared__ int s[64];
  __shared__ bool last;
  s[threadIdx.x] = in[blockIdx.x * 64 + threadIdx.x];
  __syncthreads();
  for (int k = 32; k > 0; k >>= 1) {
    if (threadIdx.x < k) s[threadIdx.x] += s[threadIdx.x + k];
    __syncthreads();
  }
  if (threadIdx.x == 0) {
    partial[blockIdx.x] = s[0];
    __threadfence();
    last = atomicInc(arrived, gridDim.x - 1) == gridDim.x - 1;
  }
  __syncthreads();
  if (last && threadIdx.x == 0) {
    int total = 0;
    for (int i = 0; i < gridDim.x; ++i) total += reinterpret_cast<volatile int*>(partial)[i];
    *out = total;
  }
}
//! run shared_atomics grid=2 block=64 : i32[128] u64[16]=0
extern "C" __global__ void shared_atomics(const int* in, unsigned long long* out) {
  __shared__ unsigned long long sums[8];
  __shared__ int low;
  if (threadIdx.x < 8) sums[threadIdx.x] = 0;
  if (threadIdx.x == 0) low = 1 << 30;
  __syncthreads();
  int v = in[blockIdx.x * 64 + threadIdx.x];
  atomicAdd(&sums[threadIdx.x & 7], (unsigned long long)(v & 0xffff));
  atomicMin(&low, v);
  __syncthreads();
  if (threadIdx.x < 8) out[blockIdx.x * 8 + threadIdx.x] = sums[threadIdx.x] + (unsigned)low;
}
//! run histogram_global grid=4 block=64 : u8[256] u32[256]=0
extern "C" __global__ void histogram_global(const unsigned char* in, unsigned* bins) {
  atomicAdd(&bins[in[blockIdx.x * blockDim.x + threadIdx.x]], 1u);
}
//! run volatile_flags grid=2 block=1 : i32[2]=0 i32[1]=0
extern "C" __global__ void volatile_flags(volatile int* flags, volatile int* data) {
  if (blockIdx.x == 0) {
    data[0] = 42;
    __threadfence();
    flags[0] = 1;
  } else {
    while (flags[0] == 0) {
    }
    __threadfence();
    flags[1] = data[0] + 1;
  }
}
__device__ int grid_arrivals;
extern "C" __global__ void grid_barrier_counter(int* out, int n) {
  __syncthreads();
  if (threadIdx.x == 0) {
    __threadfence();
    atomicAdd(&grid_arrivals, 1);
    while (atomicAdd(&grid_arrivals, 0) < n) {
    }
    __threadfence();
  }
  __syncthreads();
  out[blockIdx.x * blockDim.x + threadIdx.x] = grid_arrivals;
}
//! run fences grid=1 block=32 : i32[32] i32[32]=0
extern "C" __global__ void fences(int* a, int* b) {
  a[threadIdx.x] += 1;
  __threadfence_block();
  b[threadIdx.x] = a[threadIdx.x];
  __threadfence();
  b[threadIdx.x] += a[threadIdx.x];
  __threadfence_system();
  a[threadIdx.x] = b[threadIdx.x];
}
