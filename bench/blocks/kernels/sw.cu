// SW: local alignment of two sequences (Smith-Waterman, a linear cost of gaps). Tiles of 32 x 32 cells, 32 threads each; a
// launch is an anti-diagonal of tiles. blockIdx.y is one of several pairs of sequences, each with scores of (rows + 1) x
// (columns + 1) cells, whose first row and column are zero.
#define TILE 32

extern "C" __global__ void smith_waterman(const unsigned char* __restrict__ query,
                                          const unsigned char* __restrict__ subject, int* scores, int rows, int columns,
                                          int diagonal, int first_tile_row, int match, int mismatch, int gap) {
  __shared__ int score[TILE + 1][TILE + 1];
  __shared__ unsigned char across[TILE];
  int tile_row = first_tile_row + blockIdx.x;
  int tile_column = diagonal - tile_row;
  int t = threadIdx.x;
  int pitch = columns + 1;
  int corner = (blockIdx.y * (rows + 1) + tile_row * TILE) * pitch + tile_column * TILE;

  unsigned char own = query[blockIdx.y * rows + tile_row * TILE + t];
  across[t] = subject[blockIdx.y * columns + tile_column * TILE + t];
  score[0][t + 1] = scores[corner + t + 1];
  score[t + 1][0] = scores[corner + (t + 1) * pitch];
  if (t == 0) score[0][0] = scores[corner];
  __syncthreads();

  for (int step = 0; step < 2 * TILE - 1; step++) {
    int j = step - t;
    if (j >= 0 && j < TILE) {
      int both = score[t][j] + (own == across[j] ? match : -mismatch);
      int one = max(score[t][j + 1], score[t + 1][j]) - gap;
      score[t + 1][j + 1] = max(0, max(both, one));
    }
    __syncthreads();
  }
  for (int i = 1; i <= TILE; i++) scores[corner + i * pitch + t + 1] = score[i][t + 1];
}
