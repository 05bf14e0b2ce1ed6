// MVT: x1 += A y1 and x2 += A' y2. blockIdx.y is one of several systems.

extern "C" __global__ void mvt_rows(int n, const float* __restrict__ a, float* __restrict__ x1,
                                    const float* __restrict__ y1) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  int system = blockIdx.y;
  if (i < n) {
    float sum = x1[system * n + i];
    for (int j = 0; j < n; j++) sum += a[(system * n + i) * n + j] * y1[system * n + j];
    x1[system * n + i] = sum;
  }
}

extern "C" __global__ void mvt_columns(int n, const float* __restrict__ a, float* __restrict__ x2,
                                       const float* __restrict__ y2) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  int system = blockIdx.y;
  if (i < n) {
    float sum = x2[system * n + i];
    for (int j = 0; j < n; j++) sum += a[(system * n + j) * n + i] * y2[system * n + j];
    x2[system * n + i] = sum;
  }
}
