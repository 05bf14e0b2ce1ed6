// Cooperative groups further on: scans, partitions by value, copies of a group, barriers and pipelines of <cuda/...>.
//! arch: 80
//! clang: no: cooperative_groups.h, <cuda/barrier> and <cuda/pipeline> are the toolkit's
#include <cooperative_groups.h>
#include <cooperative_groups/memcpy_async.h>
#include <cooperative_groups/reduce.h>
#include <cooperative_groups/scan.h>
#include <cuda/barrier>
#include <cuda/pipeline>
namespace cg = cooperative_groups;
#pragma nv_diag_suppress static_var_with_dynamic_init
//! run tile_scans grid=1 block=64 : i32[64]<100 i32[64]=0 i32[64]=0
extern "C" __global__ void tile_scans(const int* in, int* inclusive, int* exclusive) {
  auto tile = cg::tiled_partition<16>(cg::this_thread_block());
  inclusive[threadIdx.x] = cg::inclusive_scan(tile, in[threadIdx.x]);
  exclusive[threadIdx.x] = cg::exclusive_scan(tile, in[threadIdx.x], cg::plus<int>());
}
//! run labelled_groups grid=1 block=32 : i32[32]<4 i32[32]=0 i32[32]=0
extern "C" __global__ void labelled_groups(const int* label, int* size, int* sum) {
  auto warp = cg::tiled_partition<32>(cg::this_thread_block());
  auto same = cg::labeled_partition(warp, label[threadIdx.x]);
  size[threadIdx.x] = same.size() * 100 + same.thread_rank();
  sum[threadIdx.x] = cg::reduce(same, static_cast<int>(threadIdx.x), cg::plus<int>());
}
//! run binary_groups grid=1 block=32 : i32[32] i32[32]=0
extern "C" __global__ void binary_groups(const int* in, int* out) {
  auto warp = cg::tiled_partition<32>(cg::this_thread_block());
  auto part = cg::binary_partition(warp, in[threadIdx.x] > 0);
  out[threadIdx.x] = cg::reduce(part, in[threadIdx.x], cg::bit_xor<int>()) + part.meta_group_rank();
}
//! run coalesced_shuffle grid=1 block=64 : i32[64] i32[64]=0
extern "C" __global__ void coalesced_shuffle(const int* in, int* out) {
  if (threadIdx.x % 3 != 1) {
    cg::coalesced_group active = cg::coalesced_threads();
    int next = active.shfl(in[threadIdx.x], (active.thread_rank() + 1) % active.size());
    out[threadIdx.x] = active.any(next > 0) ? next : active.ballot(next & 1);
  }
}
//! run big_tiles grid=2 block=128 : i32[256]<1000 i32[256]=0
extern "C" __global__ void big_tiles(const int* in, int* out) {
  __shared__ cg::block_tile_memory<128> scratch;
  cg::thread_block block = cg::this_thread_block(scratch);
  auto tile = cg::tiled_partition<64>(block);
  int i = blockIdx.x * 128 + threadIdx.x;
  out[i] = cg::reduce(tile, in[i], cg::plus<int>()) + tile.any(in[i] == 7);
}
//! run group_copy grid=2 block=64 : i32[512] i32[512]=0
extern "C" __global__ void group_copy(const int* in, int* out) {
  __shared__ alignas(16) int s[256];
  cg::thread_block block = cg::this_thread_block();
  cg::memcpy_async(block, s, in + blockIdx.x * 256, sizeof s);
  cg::wait(block);
  for (int i = threadIdx.x; i < 256; i += 64) out[blockIdx.x * 256 + i] = s[255 - i] * 3;
}
//! run two_stage_pipeline grid=1 block=32 : f32[256] f32[256]=0 8
extern "C" __global__ void two_stage_pipeline(const float* in, float* out, int batches) {
  __shared__ float s[2][32];
  auto pipe = cuda::make_pipeline();
  int t = threadIdx.x;
  pipe.producer_acquire();
  cuda::memcpy_async(&s[0][t], in + t, sizeof(float), pipe);
  pipe.producer_commit();
  for (int b = 0; b < batches; ++b) {
    if (b + 1 < batches) {
      pipe.producer_acquire();
      cuda::memcpy_async(&s[(b + 1) & 1][t], in + (b + 1) * 32 + t, sizeof(float), pipe);
      pipe.producer_commit();
      cuda::pipeline_consumer_wait_prior<1>(pipe);
    } else {
      cuda::pipeline_consumer_wait_prior<0>(pipe);
    }
    out[b * 32 + t] = 2 * s[b & 1][t];
    pipe.consumer_release();
  }
}
//! run block_barrier_phases grid=1 block=96 : i32[96] i32[96]=0
extern "C" __global__ void block_barrier_phases(const int* in, int* out) {
  __shared__ cuda::barrier<cuda::thread_scope_block> bar;
  __shared__ int s[96];
  if (threadIdx.x == 0) init(&bar, blockDim.x);
  __syncthreads();
  int v = in[threadIdx.x];
  for (int k = 0; k < 4; ++k) {
    s[threadIdx.x] = v;
    auto token = bar.arrive();
    bar.wait(static_cast<cuda::barrier<cuda::thread_scope_block>::arrival_token&&>(token));
    v = v * 31 + s[(threadIdx.x + 1) % 96];
    bar.arrive_and_wait();
  }
  out[threadIdx.x] = v;
}
//! run grid_rounds grid=3 block=64 cooperative : i32[192] i32[192]=0 5
extern "C" __global__ void grid_rounds(int* a, int* b, int rounds) {
  cg::grid_group grid = cg::this_grid();
  const int n = grid.size(), i = grid.thread_rank();
  for (int r = 0; r < rounds; ++r) {
    b[i] = a[(i + 64) % n] + a[i];
    auto token = grid.barrier_arrive();
    grid.barrier_wait(static_cast<cg::grid_group::arrival_token&&>(token));
    a[i] = b[(i + 1) % n];
    grid.sync();
  }
}
