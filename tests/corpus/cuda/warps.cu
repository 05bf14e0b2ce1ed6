// Warp operations: shuffles of every kind and type, votes, match, warp barriers, aggregated atomics.
//! run warp_reduce_down grid=2 block=64 : f32[128] f32[4]=0
extern "C" __global__ void warp_reduce_down(const float* in, float* out) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  float v = in[i];
  for (int k = 16; k > 0; k >>= 1) v += __shfl_down_sync(0xffffffffu, v, k);
  if (threadIdx.x % 32 == 0) out[i / 32] = v;
}
//! run warp_reduce_xor grid=1 block=64 : f64[64] f64[64]=0
extern "C" __global__ void warp_reduce_xor(const double* in, double* out) {
  double v = in[threadIdx.x];
  for (int k = 16; k > 0; k >>= 1) v += __shfl_xor_sync(0xffffffffu, v, k);
  out[threadIdx.x] = v;
}
//! run warp_scan grid=1 block=64 : i32[64] i32[64]=0
extern "C" __global__ void warp_scan(const int* in, int* out) {
  int v = in[threadIdx.x], lane = threadIdx.x & 31;
  for (int k = 1; k < 32; k *= 2) {
    int o = __shfl_up_sync(0xffffffffu, v, k);
    if (lane >= k) v += o;
  }
  out[threadIdx.x] = v;
}
//! run warp_broadcast grid=1 block=64 : i64[64] i64[64]=0
extern "C" __global__ void warp_broadcast(const long long* in, long long* out) {
  out[threadIdx.x] = __shfl_sync(0xffffffffu, in[threadIdx.x], 7) - in[threadIdx.x];
}
//! run warp_gather grid=1 block=32 : u32[32] i32[32]<64 u32[32]=0
extern "C" __global__ void warp_gather(const unsigned* in, const int* from, unsigned* out) {
  out[threadIdx.x] = __shfl_sync(0xffffffffu, in[threadIdx.x], from[threadIdx.x]);
}
//! run warp_segments grid=1 block=32 : i32[32] i32[128]=0
extern "C" __global__ void warp_segments(const int* in, int4* out) {
  int v = in[threadIdx.x];
  out[threadIdx.x] = make_int4(__shfl_sync(0xffffffffu, v, 3, 8), __shfl_up_sync(0xffffffffu, v, 2, 16),
                               __shfl_down_sync(0xffffffffu, v, 3, 4), __shfl_xor_sync(0xffffffffu, v, 1, 2));
}
//! run warp_partial_mask grid=1 block=32 : i32[32] i32[32]=0
extern "C" __global__ void warp_partial_mask(const int* in, int* out) {
  int v = in[threadIdx.x];
  if (threadIdx.x < 16) v += __shfl_xor_sync(0x0000ffffu, v, 8);
  else v -= __shfl_xor_sync(0xffff0000u, v, 4);
  out[threadIdx.x] = v;
}
//! run warp_votes grid=1 block=64 : i32[64] u32[256]=0
extern "C" __global__ void warp_votes(const int* in, uint4* out) {
  int p = in[threadIdx.x] > 0;
  out[threadIdx.x] = make_uint4(__ballot_sync(0xffffffffu, p), __any_sync(0xffffffffu, in[threadIdx.x] == 77),
                                __all_sync(0xffffffffu, in[threadIdx.x] != 78), __popc(__ballot_sync(0xffffffffu, !p)));
}
//! run warp_match grid=1 block=32 : i32[32]<5 u32[32]=0
extern "C" __global__ void warp_match(const int* in, unsigned* out) {
  out[threadIdx.x] = __match_any_sync(0xffffffffu, in[threadIdx.x]);
}
//! run warp_match_long grid=1 block=32 : i64[32]<3 u32[32]=0
extern "C" __global__ void warp_match_long(const long long* in, unsigned* out) {
  out[threadIdx.x] = __match_any_sync(0xffffffffu, (unsigned long long)in[threadIdx.x]);
}
//! run warp_match_all grid=1 block=32 : i32[32]<2 u32[32]=0
extern "C" __global__ void warp_match_all(const int* in, unsigned* out) {
  int all;
  unsigned m = __match_all_sync(0xffffffffu, in[threadIdx.x] & 0x100, &all);
  out[threadIdx.x] = m + all;
}
//! run warp_prefix_count grid=1 block=64 : i32[64] i32[64]=0
extern "C" __global__ void warp_prefix_count(const int* in, int* out) {
  unsigned lane = threadIdx.x & 31;
  unsigned b = __ballot_sync(0xffffffffu, in[threadIdx.x] & 1);
  out[threadIdx.x] = __popc(b & ((1u << lane) - 1));
}
//! run aggregated_append grid=2 block=64 : i32[128] i32[1]=0 i32[128]=0
extern "C" __global__ void aggregated_append(const int* in, int* count, int* marks) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  bool keep = in[i] > 0;
  unsigned mask = __ballot_sync(0xffffffffu, keep);
  if (keep) {
    int leader = __ffs(mask) - 1;
    if ((threadIdx.x & 31) == leader) atomicAdd(count, __popc(mask));
    marks[i] = 1;
  }
}
//! run divergent_shuffle grid=1 block=32 : i32[32] i32[32]=0
extern "C" __global__ void divergent_shuffle(const int* in, int* out) {
  int v = in[threadIdx.x];
  if (threadIdx.x & 1) v = __shfl_sync(0xaaaaaaaau, v, 1);
  else v = __shfl_sync(0x55555555u, v, 2);
  __syncwarp();
  out[threadIdx.x] = v;
}
//! run warp_exchange grid=1 block=64 : f32[64] f32[64]=0
extern "C" __global__ void warp_exchange(const float* in, float* out) {
  __shared__ float s[64];
  s[threadIdx.x] = in[threadIdx.x];
  __syncwarp();
  float v = s[threadIdx.x ^ 3];
  __syncwarp();
  s[threadIdx.x] = v * 2;
  __syncwarp();
  out[threadIdx.x] = s[threadIdx.x ^ 1];
}
//! run warp_bitonic grid=1 block=32 : i32[32]
extern "C" __global__ void warp_bitonic(int* x) {
  int lane = threadIdx.x, v = x[lane];
  for (int k = 2; k <= 32; k *= 2)
    for (int j = k / 2; j > 0; j /= 2) {
      int o = __shfl_xor_sync(0xffffffffu, v, j);
      bool up = (lane & k) == 0, low = (lane & j) == 0;
      v = up == low ? min(v, o) : max(v, o);
    }
  x[lane] = v;
}
//! run warp_matrix_row grid=4 block=32 : f32[1024] f32[32] f32[4]=0
extern "C" __global__ void warp_matrix_row(const float* a, const float* x, float* y) {
  float s = 0;
  for (int r = 0; r < 8; ++r) s = fmaf(a[(blockIdx.x * 8 + r) * 32 + threadIdx.x], x[threadIdx.x], s);
  for (int k = 16; k > 0; k >>= 1) s += __shfl_down_sync(0xffffffffu, s, k);
  if (threadIdx.x == 0) y[blockIdx.x] = s;
}
extern "C" __global__ void active_lanes(unsigned* out) {
  if (threadIdx.x & 1) out[threadIdx.x] = __activemask();
}
template <typename T>
__global__ void shuffle_all(T* x) {
  T v = x[threadIdx.x];
  v += __shfl_sync(0xffffffffu, v, 1);
  v += __shfl_up_sync(0xffffffffu, v, 1);
  v += __shfl_down_sync(0xffffffffu, v, 1);
  v += __shfl_xor_sync(0xffffffffu, v, 1);
  x[threadIdx.x] = v;
}
template __global__ void shuffle_all<int>(int*);
template __global__ void shuffle_all<unsigned long long>(unsigned long long*);
template __global__ void shuffle_all<float>(float*);
template __global__ void shuffle_all<double>(double*);
//! run odd_block_warps grid=1 block=40 : i32[40] i32[40]=0
extern "C" __global__ void odd_block_warps(const int* in, int* out) {
  int v = in[threadIdx.x];
  unsigned mask = threadIdx.x < 32 ? 0xffffffffu : 0xffu;
  out[threadIdx.x] = __popc(__ballot_sync(mask, v > 0)) + __shfl_sync(mask, v, 0, 8);
}
