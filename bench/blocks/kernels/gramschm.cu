// GRAMSCHM: modified Gram-Schmidt, A = Q R, A of ni x nj. Step k: the norm of column k by one thread, the column of Q,
// then row k of R with what is right of column k made orthogonal to it, a thread a column.

extern "C" __global__ void column_norm(int ni, int nj, const float* a, float* r, int k) {
  int t = blockIdx.x * blockDim.x + threadIdx.x;
  if (t == 0) {
    float sum = 0.0f;
    for (int i = 0; i < ni; i++) sum += a[i * nj + k] * a[i * nj + k];
    r[k * nj + k] = sqrtf(sum);
  }
}

extern "C" __global__ void column_of_q(int ni, int nj, const float* a, const float* r, float* q, int k) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < ni) q[i * nj + k] = a[i * nj + k] / r[k * nj + k];
}

extern "C" __global__ void project(int ni, int nj, float* a, float* r, const float* q, int k) {
  int j = blockIdx.x * blockDim.x + threadIdx.x;
  if (j > k && j < nj) {
    float sum = 0.0f;
    for (int i = 0; i < ni; i++) sum += q[i * nj + k] * a[i * nj + j];
    r[k * nj + j] = sum;
    for (int i = 0; i < ni; i++) a[i * nj + j] -= q[i * nj + k] * sum;
  }
}
