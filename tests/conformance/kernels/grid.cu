// Grid-wide barriers as CUDA C++ writes them: cooperative_groups::this_grid(), of which compilers make reads of
// %envreg1 and %envreg2 and a loop that spins on what they point to.
#include <cooperative_groups.h>
namespace cg = cooperative_groups;

// `rounds` steps of a sum over the neighbours in a ring of n, between a and b; each step reads what other blocks wrote.
extern "C" __global__ void grid_ring(unsigned* a, unsigned* b, int n, int rounds) {
  cg::grid_group grid = cg::this_grid();
  for (int round = 0; round < rounds; ++round) {
    const unsigned* from = round % 2 == 0 ? a : b;
    unsigned* to = round % 2 == 0 ? b : a;
    for (int i = int(grid.thread_rank()); i < n; i += int(grid.size()))
      to[i] = from[(i + n - 1) % n] + 3 * from[i] + from[(i + 1) % n];
    grid.sync();
  }
}

// Sums of blocks, their sum by one block, and every element replaced by its share of it, in parts of 2^16.
extern "C" __global__ void grid_shares(unsigned* data, unsigned* sums, int n) {
  cg::grid_group grid = cg::this_grid();
  cg::thread_block block = cg::this_thread_block();
  __shared__ unsigned sum;
  if (block.thread_rank() == 0) sum = 0;
  block.sync();
  for (int i = int(grid.thread_rank()); i < n; i += int(grid.size())) atomicAdd(&sum, data[i]);
  block.sync();
  if (block.thread_rank() == 0) sums[grid.block_rank()] = sum;
  grid.sync();
  if (grid.block_rank() == 0 && block.thread_rank() == 0) {
    unsigned all = 0;
    for (int i = 0; i < int(grid.num_blocks()); ++i) all += sums[i];
    sums[0] = all;
  }
  grid.sync();
  for (int i = int(grid.thread_rank()); i < n; i += int(grid.size())) data[i] = unsigned((65536ull * data[i]) / sums[0]);
}

// Runs without a cooperative launch too, and says so.
extern "C" __global__ void grid_is_valid(int* out) {
  cg::grid_group grid = cg::this_grid();
  const bool valid = grid.is_valid();
  if (valid) grid.sync();
  if (grid.thread_rank() == 0) *out = valid ? 1 : 2;
}
