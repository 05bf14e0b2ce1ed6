// BICG: s = A' r and q = A p, the two products of a step of the biconjugate gradients. blockIdx.y is one of several
// systems, each with its own matrix and vectors.

extern "C" __global__ void bicg_s(int nx, int ny, const float* __restrict__ a, const float* __restrict__ r,
                                  float* __restrict__ s) {
  int j = blockIdx.x * blockDim.x + threadIdx.x;
  int system = blockIdx.y;
  if (j < ny) {
    float sum = 0.0f;
    for (int i = 0; i < nx; i++) sum += r[system * nx + i] * a[(system * nx + i) * ny + j];
    s[system * ny + j] = sum;
  }
}

extern "C" __global__ void bicg_q(int nx, int ny, const float* __restrict__ a, const float* __restrict__ p,
                                  float* __restrict__ q) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  int system = blockIdx.y;
  if (i < nx) {
    float sum = 0.0f;
    for (int j = 0; j < ny; j++) sum += a[(system * nx + i) * ny + j] * p[system * ny + j];
    q[system * nx + i] = sum;
  }
}
