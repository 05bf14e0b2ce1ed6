// DTW: dynamic time warping, the cheapest way to match two series that may be stretched. Tiles of 32 x 32 cells, 32
// threads each; a launch is an anti-diagonal of tiles. blockIdx.y is one of several pairs of series, each with costs of
// (rows + 1) x (columns + 1) cells, whose first row and column are given.
#define TILE 32

extern "C" __global__ void dtw(const float* __restrict__ a, const float* __restrict__ b, float* costs, int rows,
                               int columns, int diagonal, int first_tile_row) {
  __shared__ float cost[TILE + 1][TILE + 1];
  __shared__ float across[TILE];
  int tile_row = first_tile_row + blockIdx.x;
  int tile_column = diagonal - tile_row;
  int t = threadIdx.x;
  int pitch = columns + 1;
  int corner = (blockIdx.y * (rows + 1) + tile_row * TILE) * pitch + tile_column * TILE;

  float own = a[blockIdx.y * rows + tile_row * TILE + t];
  across[t] = b[blockIdx.y * columns + tile_column * TILE + t];
  cost[0][t + 1] = costs[corner + t + 1];
  cost[t + 1][0] = costs[corner + (t + 1) * pitch];
  if (t == 0) cost[0][0] = costs[corner];
  __syncthreads();

  for (int step = 0; step < 2 * TILE - 1; step++) {
    int j = step - t;
    if (j >= 0 && j < TILE) {
      float least = fminf(cost[t][j], fminf(cost[t][j + 1], cost[t + 1][j]));
      cost[t + 1][j + 1] = least + fabsf(own - across[j]);
    }
    __syncthreads();
  }
  for (int i = 1; i <= TILE; i++) costs[corner + i * pitch + t + 1] = cost[i][t + 1];
}
