// IIMG: the integral image: each cell the sum of all pixels above and left of it, its own with them. Tiles of 32 x 32
// cells, 32 threads each; a launch is an anti-diagonal of tiles. blockIdx.y is one of several images, each with sums of
// (rows + 1) x (columns + 1) cells, whose first row and column are zero.
#define TILE 32

extern "C" __global__ void integral_image(const unsigned char* __restrict__ pixels, int* sums, int rows, int columns,
                                          int diagonal, int first_tile_row) {
  __shared__ int sum[TILE][TILE + 1];
  __shared__ int left[TILE];
  int tile_row = first_tile_row + blockIdx.x;
  int tile_column = diagonal - tile_row;
  int t = threadIdx.x;
  int pitch = columns + 1;
  int corner = (blockIdx.y * (rows + 1) + tile_row * TILE) * pitch + tile_column * TILE;
  int first_pixel = (blockIdx.y * rows + tile_row * TILE) * columns + tile_column * TILE;

  for (int i = 0; i < TILE; i++) sum[i][t] = pixels[first_pixel + i * columns + t];
  left[t] = sums[corner + (t + 1) * pitch];
  __syncthreads();
  // Along row t, then down column t.
  for (int j = 1; j < TILE; j++) sum[t][j] += sum[t][j - 1];
  __syncthreads();
  int above = sums[corner + t + 1] - sums[corner];
  int down = 0;
  for (int i = 0; i < TILE; i++) {
    down += sum[i][t];
    sums[corner + (i + 1) * pitch + t + 1] = down + above + left[i];
  }
}
