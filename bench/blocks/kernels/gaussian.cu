// GAUSSIAN: elimination without pivots. Step t: the multipliers of column t, then what lies below row t and right of
// column t, the right-hand side with it. Grids are those of the whole matrix; what is past a step's rest returns.

extern "C" __global__ void multipliers(float* m, const float* a, int size, int t) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= size - 1 - t) return;
  m[size * (i + t + 1) + t] = a[size * (i + t + 1) + t] / a[size * t + t];
}

extern "C" __global__ void eliminate(const float* m, float* a, float* b, int size, int t) {
  int x = blockIdx.x * blockDim.x + threadIdx.x;
  int y = blockIdx.y * blockDim.y + threadIdx.y;
  if (x >= size - 1 - t) return;
  if (y >= size - t) return;
  a[size * (x + 1 + t) + (y + t)] -= m[size * (x + 1 + t) + t] * a[size * t + (y + t)];
  if (y == 0) b[x + 1 + t] -= m[size * (x + 1 + t) + t] * b[t];
}
