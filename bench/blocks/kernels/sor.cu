// SOR: a sweep of successive over-relaxation for Poisson's equation on a square, in place. Tiles of 32 x 32 cells, 32
// threads each; a launch is an anti-diagonal of tiles. blockIdx.y is one of several squares, each of (rows + 2) x
// (columns + 2) cells with a border that stays.
#define TILE 32

extern "C" __global__ void sor(float* u, const float* __restrict__ f, int rows, int columns, int diagonal,
                               int first_tile_row, float omega) {
  __shared__ float cell[TILE + 2][TILE + 2];
  int tile_row = first_tile_row + blockIdx.x;
  int tile_column = diagonal - tile_row;
  int t = threadIdx.x;
  int pitch = columns + 2;
  int corner = (blockIdx.y * (rows + 2) + tile_row * TILE) * pitch + tile_column * TILE;

  for (int i = 0; i < TILE + 2; i++) cell[i][t + 1] = u[corner + i * pitch + t + 1];
  cell[t + 1][0] = u[corner + (t + 1) * pitch];
  cell[t + 1][TILE + 1] = u[corner + (t + 1) * pitch + TILE + 1];
  __syncthreads();

  for (int step = 0; step < 2 * TILE - 1; step++) {
    int i = t + 1, j = step - t + 1;
    if (j >= 1 && j <= TILE) {
      float around = cell[i - 1][j] + cell[i][j - 1] + cell[i + 1][j] + cell[i][j + 1];
      cell[i][j] = (1.0f - omega) * cell[i][j] + 0.25f * omega * (around - f[corner + i * pitch + j]);
    }
    __syncthreads();
  }
  for (int i = 1; i <= TILE; i++) u[corner + i * pitch + t + 1] = cell[i][t + 1];
}
