// LUD: a blocked LU decomposition in place, tiles of 16 x 16, L with a unit diagonal. A step: the diagonal tile; the
// tiles right of it and below it (the perimeter: block b has one of each); all that is right of and below these.
#define TILE 16

// 16 threads.
extern "C" __global__ void lud_diagonal(float* m, int n, int offset) {
  __shared__ float tile[TILE][TILE];
  int tx = threadIdx.x;
  int at = offset * n + offset;
  for (int i = 0; i < TILE; i++) tile[i][tx] = m[at + i * n + tx];
  __syncthreads();
  for (int k = 0; k < TILE - 1; k++) {
    if (tx > k) {
      // Row tx.
      tile[tx][k] /= tile[k][k];
      for (int j = k + 1; j < TILE; j++) tile[tx][j] -= tile[tx][k] * tile[k][j];
    }
    __syncthreads();
  }
  // The first row is as it was.
  for (int i = 1; i < TILE; i++) m[at + i * n + tx] = tile[i][tx];
}

// 32 threads: half for the tile of the row, half for the tile of the column.
extern "C" __global__ void lud_perimeter(float* m, int n, int offset) {
  __shared__ float diagonal[TILE][TILE];
  __shared__ float row[TILE][TILE];
  __shared__ float column[TILE][TILE];
  int lane = threadIdx.x % TILE;
  int distance = (blockIdx.x + 1) * TILE;
  int diagonal_at = offset * n + offset;
  int row_at = offset * n + offset + distance;
  int column_at = (offset + distance) * n + offset;

  if (threadIdx.x < TILE) {
    for (int i = 0; i < TILE / 2; i++) diagonal[i][lane] = m[diagonal_at + i * n + lane];
    for (int i = 0; i < TILE; i++) row[i][lane] = m[row_at + i * n + lane];
  } else {
    for (int i = TILE / 2; i < TILE; i++) diagonal[i][lane] = m[diagonal_at + i * n + lane];
    for (int i = 0; i < TILE; i++) column[i][lane] = m[column_at + i * n + lane];
  }
  __syncthreads();

  if (threadIdx.x < TILE) {
    for (int i = 1; i < TILE; i++)
      for (int j = 0; j < i; j++) row[i][lane] -= diagonal[i][j] * row[j][lane];
  } else {
    for (int i = 0; i < TILE; i++) {
      for (int j = 0; j < i; j++) column[lane][i] -= column[lane][j] * diagonal[j][i];
      column[lane][i] /= diagonal[i][i];
    }
  }
  __syncthreads();

  if (threadIdx.x < TILE) {
    for (int i = 1; i < TILE; i++) m[row_at + i * n + lane] = row[i][lane];
  } else {
    for (int i = 0; i < TILE; i++) m[column_at + i * n + lane] = column[i][lane];
  }
}

// 16 x 16 threads, one for each element.
extern "C" __global__ void lud_internal(float* m, int n, int offset) {
  __shared__ float row[TILE][TILE];
  __shared__ float column[TILE][TILE];
  int tx = threadIdx.x, ty = threadIdx.y;
  int i = offset + (blockIdx.y + 1) * TILE + ty;
  int j = offset + (blockIdx.x + 1) * TILE + tx;

  row[ty][tx] = m[(offset + ty) * n + j];
  column[ty][tx] = m[i * n + offset + tx];
  __syncthreads();

  float sum = 0.0f;
  for (int k = 0; k < TILE; k++) sum += column[ty][k] * row[k][tx];
  m[i * n + j] -= sum;
}
