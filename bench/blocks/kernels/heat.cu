// HEAT: a sweep of Gauss and Seidel over a backward Euler step of the heat equation on a square, the result beside what
// it is made of. Tiles of 32 x 32 cells, 32 threads each; a launch is an anti-diagonal of tiles. blockIdx.y is one of
// several squares, each of (rows + 2) x (columns + 2) cells with a border that stays.
#define TILE 32

extern "C" __global__ void heat(const float* __restrict__ before, float* after, int rows, int columns, int diagonal,
                                int first_tile_row, float ratio) {
  __shared__ float cell[TILE + 2][TILE + 2];
  int tile_row = first_tile_row + blockIdx.x;
  int tile_column = diagonal - tile_row;
  int t = threadIdx.x;
  int pitch = columns + 2;
  int corner = (blockIdx.y * (rows + 2) + tile_row * TILE) * pitch + tile_column * TILE;

  // Above and left are this sweep's results, the rest is what was before.
  for (int i = 1; i <= TILE + 1; i++) cell[i][t + 1] = before[corner + i * pitch + t + 1];
  cell[0][t + 1] = after[corner + t + 1];
  cell[t + 1][0] = after[corner + (t + 1) * pitch];
  cell[t + 1][TILE + 1] = before[corner + (t + 1) * pitch + TILE + 1];
  __syncthreads();

  for (int step = 0; step < 2 * TILE - 1; step++) {
    int i = t + 1, j = step - t + 1;
    if (j >= 1 && j <= TILE)
      cell[i][j] = (cell[i][j] + ratio * (cell[i - 1][j] + cell[i][j - 1] + cell[i + 1][j] + cell[i][j + 1])) /
                   (1.0f + 4.0f * ratio);
    __syncthreads();
  }
  for (int i = 1; i <= TILE; i++) after[corner + i * pitch + t + 1] = cell[i][t + 1];
}
