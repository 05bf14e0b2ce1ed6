// IHIST: the integral histogram: for each cell and each of 32 bins the count of pixels of that bin above and left of it,
// its own with them. Tiles of 8 x 8 cells, a thread a bin; a launch is an anti-diagonal of tiles. blockIdx.y is one of
// several images, each with counts of (rows + 1) x (columns + 1) x 32, whose first row and column are zero.
#define TILE 8
#define BINS 32

extern "C" __global__ void integral_histogram(const unsigned char* __restrict__ bins, int* counts, int rows, int columns,
                                              int diagonal, int first_tile_row) {
  int tile_row = first_tile_row + blockIdx.x;
  int tile_column = diagonal - tile_row;
  int bin = threadIdx.x;
  int pitch = columns + 1;
  int corner = (blockIdx.y * (rows + 1) + tile_row * TILE) * pitch + tile_column * TILE;
  int first_pixel = (blockIdx.y * rows + tile_row * TILE) * columns + tile_column * TILE;

  int above[TILE];
  for (int j = 0; j < TILE; j++) above[j] = counts[(corner + j + 1) * BINS + bin];
  int above_left = counts[corner * BINS + bin];
  for (int i = 0; i < TILE; i++) {
    int left = counts[(corner + (i + 1) * pitch) * BINS + bin];
    int in_row = left - above_left;
    for (int j = 0; j < TILE; j++) {
      in_row += bins[first_pixel + i * columns + j] == bin ? 1 : 0;
      above[j] += in_row;
      counts[(corner + (i + 1) * pitch + j + 1) * BINS + bin] = above[j];
    }
    above_left = left;
  }
}
