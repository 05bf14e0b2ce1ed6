// Cooperative groups and scoped atomics through the toolkit's headers.
//! clang: no: cooperative_groups.h and <cuda/atomic> are the toolkit's
#include <cooperative_groups.h>
#include <cooperative_groups/reduce.h>
#include <cuda/atomic>
namespace cg = cooperative_groups;
//! run group_block_sync grid=1 block=256 : i32[256]
extern "C" __global__ void group_block_sync(int* x) {
  __shared__ int s[256];
  cg::thread_block block = cg::this_thread_block();
  s[block.thread_rank()] = x[block.thread_rank()];
  block.sync();
  x[block.thread_rank()] = s[block.size() - 1 - block.thread_rank()];
}
//! run group_tile_sum tol=1e-5 grid=1 block=64 : f32[64] f32[8]=0
extern "C" __global__ void group_tile_sum(const float* in, float* out) {
  auto tile = cg::tiled_partition<8>(cg::this_thread_block());
  float v = in[threadIdx.x];
  for (int k = 4; k > 0; k /= 2) v += tile.shfl_down(v, k);
  if (tile.thread_rank() == 0) out[threadIdx.x / 8] = v;
}
//! run group_reduce grid=1 block=64 : i32[64] i32[2]=0
extern "C" __global__ void group_reduce(const int* in, int* out) {
  auto warp = cg::tiled_partition<32>(cg::this_thread_block());
  int v = cg::reduce(warp, in[threadIdx.x], cg::plus<int>());
  if (warp.thread_rank() == 0) out[threadIdx.x / 32] = v;
}
//! run group_coalesced grid=1 block=64 : i32[1]=0 i32[64]
extern "C" __global__ void group_coalesced(int* counter, const int* in) {
  if (in[threadIdx.x] > 0) {
    auto active = cg::coalesced_threads();
    if (active.thread_rank() == 0) atomicAdd(counter, (int)active.size());
  }
}
//! run group_grid_sync grid=4 block=32 cooperative : i32[300] 300
extern "C" __global__ void group_grid_sync(int* x, int n) {
  cg::grid_group grid = cg::this_grid();
  for (int i = grid.thread_rank(); i < n; i += grid.size()) x[i] += 1;
  grid.sync();
  for (int i = grid.thread_rank(); i < n; i += grid.size()) x[i] *= 2;
}
//! run atomic_reference grid=2 block=32 : u32[1]=0 u32[1]=0
extern "C" __global__ void atomic_reference(unsigned* counter, unsigned* flag) {
  cuda::atomic_ref<unsigned, cuda::thread_scope_device> c(*counter);
  c.fetch_add(1, cuda::memory_order_relaxed);
  cuda::atomic_ref<unsigned, cuda::thread_scope_system> f(*flag);
  f.store(1, cuda::memory_order_release);
}
extern "C" __global__ void atomic_wait_flag(unsigned* flag, int* data) {
  cuda::atomic_ref<unsigned, cuda::thread_scope_device> f(*flag);
  while (f.load(cuda::memory_order_acquire) == 0) {
  }
  data[threadIdx.x] += 1;
}
//! run atomic_compare_exchange grid=2 block=32 : u64[1]=1
extern "C" __global__ void atomic_compare_exchange(unsigned long long* p) {
  cuda::atomic_ref<unsigned long long, cuda::thread_scope_block> a(*p);
  unsigned long long old = a.load();
  while (!a.compare_exchange_weak(old, old * 3 + 1, cuda::memory_order_acq_rel)) {
  }
}
