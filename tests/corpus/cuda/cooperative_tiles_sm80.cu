// Tiles of several warps: from sm_80 on they keep their barriers and exchanges in shared memory of the driver's,
// %reserved_smem_offset_1. Between a reduction and a shuffle of such a tile stands a sync(): the toolkit's reduction lets the
// lanes of its last warp go on before that warp's first lane has opened the barrier, which the shuffle waits at next. Lanes
// that stay together do not see it.
//! arch: 80
//! clang: no: cooperative_groups.h is the toolkit's
#include <cooperative_groups.h>
#include <cooperative_groups/reduce.h>
namespace cg = cooperative_groups;
template <int kThreads>
__device__ void exchange(const int* in, int* sums, int* turns) {
  __shared__ int slots[256];
  auto tile = cg::tiled_partition<kThreads>(cg::this_thread_block());
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  const int v = in[i];
  const int sum = cg::reduce(tile, v, cg::plus<int>()), top = cg::reduce(tile, v, cg::greater<int>());
  tile.sync();
  const int from = tile.shfl(v, kThreads - 3);
  sums[i] = sum + 3 * top + 5 * from + 7 * tile.any(v == 3) + 11 * tile.all(v >= 0);
  int turn = v;
  for (int k = 0; k < 4; ++k) {
    slots[threadIdx.x] = turn;
    tile.sync();
    const unsigned next = (tile.thread_rank() + 33) % tile.size();
    turn = turn * 31 + slots[tile.meta_group_rank() * kThreads + next];
    tile.sync();
  }
  turns[i] = turn;
}
//! run tiles_of_64 grid=3 block=256 : i32[768]<100 i32[768]=0 i32[768]=0
extern "C" __global__ void tiles_of_64(const int* in, int* sums, int* turns) { exchange<64>(in, sums, turns); }
//! run tiles_of_128 grid=3 block=256 : i32[768]<100 i32[768]=0 i32[768]=0
extern "C" __global__ void tiles_of_128(const int* in, int* sums, int* turns) { exchange<128>(in, sums, turns); }
//! run tile_of_all grid=2 block=256 : i32[512]<100 i32[512]=0 i32[512]=0
extern "C" __global__ void tile_of_all(const int* in, int* sums, int* turns) { exchange<256>(in, sums, turns); }
//! run tiles_of_tiles grid=1 block=128 smem=64 : i32[128]<100 i32[128]=0
extern "C" __global__ void tiles_of_tiles(const int* in, int* out) {
  extern __shared__ int tops[];
  auto wide = cg::tiled_partition<64>(cg::this_thread_block());
  auto warp = cg::tiled_partition<32>(wide);
  const int top = cg::reduce(warp, in[threadIdx.x], cg::greater<int>());
  if (warp.thread_rank() == 0) tops[threadIdx.x / 32] = top;
  wide.sync();
  out[threadIdx.x] = tops[threadIdx.x / 64 * 2] * 1000 + tops[threadIdx.x / 64 * 2 + 1];
}
