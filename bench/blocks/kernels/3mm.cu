// 3MM: E = A B, F = C D, G = E F. A thread an element of the product, as simple suites have it.

// c = a b, a of ni x nk, b of nk x nj.
extern "C" __global__ void product(int ni, int nj, int nk, const float* __restrict__ a, const float* __restrict__ b,
                                   float* __restrict__ c) {
  int j = blockIdx.x * blockDim.x + threadIdx.x;
  int i = blockIdx.y * blockDim.y + threadIdx.y;
  if (i < ni && j < nj) {
    float sum = 0.0f;
    for (int k = 0; k < nk; k++) sum += a[i * nk + k] * b[k * nj + j];
    c[i * nj + j] = sum;
  }
}
