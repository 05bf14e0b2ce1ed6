// NW: global alignment of two sequences (Needleman-Wunsch) over tiles of 16 x 16 cells, 16 threads each. A launch is an
// anti-diagonal of tiles: nw_upper from the first corner to the longest one, nw_lower from there to the last corner.
// blockIdx.y is one of several alignments; each has a matrix of `columns` x `columns` scores, whose first row and column
// are given, and as many similarities of the letters that meet.
#define TILE 16

__device__ void align_tile(const int* __restrict__ similarity, int* scores, int columns, int penalty, int tile_x,
                           int tile_y) {
  __shared__ int score[TILE + 1][TILE + 1];
  __shared__ int similar[TILE][TILE];
  int tx = threadIdx.x;
  int corner = blockIdx.y * columns * columns + columns * TILE * tile_y + TILE * tile_x;
  int first = corner + columns + 1;

  for (int row = 0; row < TILE; row++) similar[row][tx] = similarity[first + row * columns + tx];
  score[tx + 1][0] = scores[corner + columns * (tx + 1)];
  score[0][tx + 1] = scores[corner + tx + 1];
  if (tx == 0) score[0][0] = scores[corner];
  __syncthreads();

  // The tile's own anti-diagonals: thread tx has column tx.
  for (int step = 0; step < 2 * TILE - 1; step++) {
    int row = step - tx;
    if (row >= 0 && row < TILE) {
      int diagonal = score[row][tx] + similar[row][tx];
      int gap = max(score[row + 1][tx], score[row][tx + 1]) - penalty;
      score[row + 1][tx + 1] = max(diagonal, gap);
    }
    __syncthreads();
  }
  for (int row = 0; row < TILE; row++) scores[first + row * columns + tx] = score[row + 1][tx + 1];
}

extern "C" __global__ void nw_upper(const int* __restrict__ similarity, int* scores, int columns, int penalty, int i) {
  int bx = blockIdx.x;
  align_tile(similarity, scores, columns, penalty, bx, i - 1 - bx);
}

extern "C" __global__ void nw_lower(const int* __restrict__ similarity, int* scores, int columns, int penalty, int i,
                                    int tiles) {
  int bx = blockIdx.x;
  align_tile(similarity, scores, columns, penalty, bx + tiles - i, tiles - 1 - bx);
}
