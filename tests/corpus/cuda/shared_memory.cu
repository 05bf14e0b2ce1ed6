// Shared memory: static, dynamic, several arrays, reductions, scans, transposes, bank padding.
//! run reduce_shared grid=4 block=128 : f32[512] f32[4]=0
extern "C" __global__ void reduce_shared(const float* in, float* out) {
  __shared__ float s[128];
  s[threadIdx.x] = in[blockIdx.x * 128 + threadIdx.x];
  __syncthreads();
  for (int k = 64; k > 0; k >>= 1) {
    if (threadIdx.x < k) s[threadIdx.x] += s[threadIdx.x + k];
    __syncthreads();
  }
  if (threadIdx.x == 0) out[blockIdx.x] = s[0];
}
//! run reduce_dynamic grid=4 block=128 smem=512 : i32[512] i32[4]=0
extern "C" __global__ void reduce_dynamic(const int* in, int* out) {
  extern __shared__ int dynamic_ints[];
  dynamic_ints[threadIdx.x] = in[blockIdx.x * blockDim.x + threadIdx.x];
  __syncthreads();
  for (int k = blockDim.x / 2; k > 0; k >>= 1) {
    if (threadIdx.x < k) dynamic_ints[threadIdx.x] = max(dynamic_ints[threadIdx.x], dynamic_ints[threadIdx.x + k]);
    __syncthreads();
  }
  if (threadIdx.x == 0) out[blockIdx.x] = dynamic_ints[0];
}
//! run dynamic_two_parts grid=1 block=64 smem=768 : f32[64] f64[64]=0
extern "C" __global__ void dynamic_two_parts(const float* in, double* out) {
  extern __shared__ double dynamic_doubles[];
  double* d = dynamic_doubles;
  float* f = reinterpret_cast<float*>(d + 64);
  f[threadIdx.x] = in[threadIdx.x];
  __syncthreads();
  d[threadIdx.x] = f[63 - threadIdx.x] * 2.0;
  __syncthreads();
  out[threadIdx.x] = d[(threadIdx.x + 1) & 63];
}
template <typename T, int N>
__global__ void block_sum(const T* in, T* out) {
  __shared__ T s[N];
  s[threadIdx.x] = in[blockIdx.x * N + threadIdx.x];
  __syncthreads();
#pragma unroll
  for (int k = N / 2; k > 0; k /= 2) {
    if (threadIdx.x < k) s[threadIdx.x] += s[threadIdx.x + k];
    __syncthreads();
  }
  if (threadIdx.x == 0) out[blockIdx.x] = s[0];
}
template __global__ void block_sum<int, 256>(const int*, int*);
template __global__ void block_sum<double, 64>(const double*, double*);
template __global__ void block_sum<unsigned long long, 32>(const unsigned long long*, unsigned long long*);
//! run scan_hillis grid=2 block=64 : i32[128] i32[128]=0
extern "C" __global__ void scan_hillis(const int* in, int* out) {
  __shared__ int s[2][64];
  int t = threadIdx.x, b = 0;
  s[0][t] = in[blockIdx.x * 64 + t];
  __syncthreads();
  for (int k = 1; k < 64; k *= 2) {
    s[1 - b][t] = t >= k ? s[b][t] + s[b][t - k] : s[b][t];
    b = 1 - b;
    __syncthreads();
  }
  out[blockIdx.x * 64 + t] = s[b][t];
}
//! run scan_blelloch grid=1 block=64 : i32[128] i32[128]=0
extern "C" __global__ void scan_blelloch(const int* in, int* out) {
  __shared__ int s[128];
  int t = threadIdx.x;
  s[2 * t] = in[2 * t], s[2 * t + 1] = in[2 * t + 1];
  int offset = 1;
  for (int d = 64; d > 0; d >>= 1) {
    __syncthreads();
    if (t < d) s[offset * (2 * t + 2) - 1] += s[offset * (2 * t + 1) - 1];
    offset *= 2;
  }
  if (t == 0) s[127] = 0;
  for (int d = 1; d < 128; d *= 2) {
    offset >>= 1;
    __syncthreads();
    if (t < d) {
      int a = offset * (2 * t + 1) - 1, b = offset * (2 * t + 2) - 1, v = s[a];
      s[a] = s[b];
      s[b] += v;
    }
  }
  __syncthreads();
  out[2 * t] = s[2 * t], out[2 * t + 1] = s[2 * t + 1];
}
//! run transpose_tiled grid=2,2 block=16,16 : f32[1024] f32[1024]=0 32
extern "C" __global__ void transpose_tiled(const float* in, float* out, int n) {
  __shared__ float tile[16][17];
  int x = blockIdx.x * 16 + threadIdx.x, y = blockIdx.y * 16 + threadIdx.y;
  if (x < n && y < n) tile[threadIdx.y][threadIdx.x] = in[y * n + x];
  __syncthreads();
  x = blockIdx.y * 16 + threadIdx.x, y = blockIdx.x * 16 + threadIdx.y;
  if (x < n && y < n) out[y * n + x] = tile[threadIdx.x][threadIdx.y];
}
//! run transpose_naive grid=2,2 block=16,16 : f32[1024] f32[1024]=0 32
extern "C" __global__ void transpose_naive(const float* in, float* out, int n) {
  int x = blockIdx.x * 16 + threadIdx.x, y = blockIdx.y * 16 + threadIdx.y;
  if (x < n && y < n) out[x * n + y] = in[y * n + x];
}
//! run reverse_block grid=2 block=64 : i64[128]
extern "C" __global__ void reverse_block(long long* x) {
  __shared__ long long s[64];
  x += blockIdx.x * 64;
  s[threadIdx.x] = x[threadIdx.x];
  __syncthreads();
  x[threadIdx.x] = s[63 - threadIdx.x];
}
//! run histogram_shared grid=4 block=64 : u8[1024] u32[256]=0 1024
extern "C" __global__ void histogram_shared(const unsigned char* in, unsigned* bins, int n) {
  __shared__ unsigned local_bins[256];
  for (int i = threadIdx.x; i < 256; i += blockDim.x) local_bins[i] = 0;
  __syncthreads();
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) atomicAdd(&local_bins[in[i]], 1u);
  __syncthreads();
  for (int i = threadIdx.x; i < 256; i += blockDim.x) atomicAdd(&bins[i], local_bins[i]);
}
struct Pair { float value; int index; };
//! run argmax grid=2 block=64 : f32[128] f32[2]=0 i32[2]=0
extern "C" __global__ void argmax(const float* in, float* best, int* where) {
  __shared__ Pair s[64];
  s[threadIdx.x] = {in[blockIdx.x * 64 + threadIdx.x], (int)threadIdx.x};
  __syncthreads();
  for (int k = 32; k > 0; k >>= 1) {
    if (threadIdx.x < k) {
      Pair o = s[threadIdx.x + k];
      if (o.value > s[threadIdx.x].value || (o.value == s[threadIdx.x].value && o.index < s[threadIdx.x].index)) s[threadIdx.x] = o;
    }
    __syncthreads();
  }
  if (threadIdx.x == 0) best[blockIdx.x] = s[0].value, where[blockIdx.x] = s[0].index;
}
//! run barrier_votes grid=1 block=96 : i32[96] i32[96]=0
extern "C" __global__ void barrier_votes(const int* in, int* out) {
  int p = in[threadIdx.x] & 1;
  int c = __syncthreads_count(p);
  int a = __syncthreads_and(in[threadIdx.x] != 0);
  int o = __syncthreads_or(in[threadIdx.x] == 12345);
  out[threadIdx.x] = c * 100 + a * 10 + o;
}
//! run early_exit_barrier grid=1 block=64 : i32[64] i32[64]=0 40
extern "C" __global__ void early_exit_barrier(const int* in, int* out, int n) {
  __shared__ int s[64];
  if (threadIdx.x >= n) return;
  s[threadIdx.x] = in[threadIdx.x];
  __syncthreads();
  out[threadIdx.x] = s[n - 1 - threadIdx.x];
}
//! run loop_of_barriers grid=1 block=64 : f32[64] 10
extern "C" __global__ void loop_of_barriers(float* x, int steps) {
  __shared__ float s[66];
  int t = threadIdx.x + 1;
  s[t] = x[threadIdx.x];
  if (threadIdx.x == 0) s[0] = s[65] = 0;
  for (int i = 0; i < steps; ++i) {
    __syncthreads();
    float v = 0.25f * s[t - 1] + 0.5f * s[t] + 0.25f * s[t + 1];
    __syncthreads();
    s[t] = v;
  }
  x[threadIdx.x] = s[t];
}
//! run shared_bytes grid=1 block=64 : u8[64] u8[64]=0
extern "C" __global__ void shared_bytes(const unsigned char* in, unsigned char* out) {
  __shared__ unsigned char a[64];
  __shared__ unsigned short b[64];
  a[threadIdx.x] = in[threadIdx.x];
  b[63 - threadIdx.x] = in[threadIdx.x] * 3;
  __syncthreads();
  out[threadIdx.x] = a[63 - threadIdx.x] ^ (unsigned char)(b[threadIdx.x] >> 1);
}
//! run shared_vector grid=1 block=32 : f32[128] f32[128]=0
extern "C" __global__ void shared_vector(const float4* in, float4* out) {
  __shared__ float4 s[32];
  s[threadIdx.x ^ 5] = in[threadIdx.x];
  __syncthreads();
  out[threadIdx.x] = s[threadIdx.x];
}
__device__ __noinline__ float through_generic(const float* p, int i) { return p[i] + 1.0f; }
//! run generic_pointers grid=1 block=32 : f32[32] f32[32]=0
extern "C" __global__ void generic_pointers(const float* in, float* out) {
  __shared__ float s[32];
  float l[4] = {1, 2, 3, 4};
  s[threadIdx.x] = in[threadIdx.x] * 2;
  __syncthreads();
  const float* p = threadIdx.x % 3 == 0 ? s : threadIdx.x % 3 == 1 ? in : l;
  out[threadIdx.x] = through_generic(p, threadIdx.x & 3);
}
//! run block_compaction grid=1 block=64 : i32[64] i32[64]=0 i32[1]=0
extern "C" __global__ void block_compaction(const int* in, int* out, int* count) {
  __shared__ int s[65];
  int keep = in[threadIdx.x] > 0;
  s[threadIdx.x + 1] = keep;
  if (threadIdx.x == 0) s[0] = 0;
  __syncthreads();
  if (threadIdx.x == 0)
    for (int i = 1; i <= 64; ++i) s[i] += s[i - 1];
  __syncthreads();
  if (keep) out[s[threadIdx.x]] = in[threadIdx.x];
  if (threadIdx.x == 0) *count = s[64];
}
