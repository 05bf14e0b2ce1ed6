// Dense and sparse linear algebra: matrix products of several shapes, decompositions, solvers, CSR, ELL, COO.
//! run gemm_naive grid=2,2 block=16,16 : f32[1024] f32[1024] f32[1024]=0 32
extern "C" __global__ void gemm_naive(const float* a, const float* b, float* c, int n) {
  int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
  float s = 0;
  for (int k = 0; k < n; ++k) s += a[y * n + k] * b[k * n + x];
  c[y * n + x] = s;
}
template <typename T, int N>
__device__ void gemm_tile(const T* a, const T* b, T* c, int n) {
  __shared__ T sa[N][N], sb[N][N + 1];
  int tx = threadIdx.x, ty = threadIdx.y, x = blockIdx.x * N + tx, y = blockIdx.y * N + ty;
  T s = 0;
  for (int k = 0; k < n; k += N) {
    sa[ty][tx] = a[y * n + k + tx];
    sb[ty][tx] = b[(k + ty) * n + x];
    __syncthreads();
#pragma unroll
    for (int i = 0; i < N; ++i) s += sa[ty][i] * sb[i][tx];
    __syncthreads();
  }
  c[y * n + x] = s;
}
//! run gemm_tiled_f32 grid=2,2 block=16,16 : f32[1024] f32[1024] f32[1024]=0 32
extern "C" __global__ void gemm_tiled_f32(const float* a, const float* b, float* c, int n) { gemm_tile<float, 16>(a, b, c, n); }
//! run gemm_tiled_f64 grid=4,4 block=8,8 : f64[1024] f64[1024] f64[1024]=0 32
extern "C" __global__ void gemm_tiled_f64(const double* a, const double* b, double* c, int n) { gemm_tile<double, 8>(a, b, c, n); }
//! run gemm_tiled_i32 grid=4,4 block=8,8 : i32[1024] i32[1024] i32[1024]=0 32
extern "C" __global__ void gemm_tiled_i32(const int* a, const int* b, int* c, int n) { gemm_tile<int, 8>(a, b, c, n); }
//! run gemm_register_tile grid=1,1 block=8,8 : f32[1024] f32[1024] f32[1024]=0 32
extern "C" __global__ void gemm_register_tile(const float* a, const float* b, float* c, int n) {
  float acc[4][4] = {};
  int row = (blockIdx.y * 8 + threadIdx.y) * 4, column = (blockIdx.x * 8 + threadIdx.x) * 4;
  for (int k = 0; k < n; ++k) {
    float4 v = *reinterpret_cast<const float4*>(b + k * n + column);
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      float u = a[(row + i) * n + k];
      acc[i][0] += u * v.x, acc[i][1] += u * v.y, acc[i][2] += u * v.z, acc[i][3] += u * v.w;
    }
  }
  for (int i = 0; i < 4; ++i)
    *reinterpret_cast<float4*>(c + (row + i) * n + column) = make_float4(acc[i][0], acc[i][1], acc[i][2], acc[i][3]);
}
//! run gemv_rows grid=1 block=32 : f32[1024] f32[32] f32[32]=0 32
extern "C" __global__ void gemv_rows(const float* a, const float* x, float* y, int n) {
  int r = blockIdx.x * blockDim.x + threadIdx.x;
  float s = 0;
  for (int k = 0; k < n; ++k) s += a[r * n + k] * x[k];
  y[r] = s;
}
//! run gemv_columns grid=1 block=32 : f64[1024] f64[32] f64[32]=0 32
extern "C" __global__ void gemv_columns(const double* a, const double* x, double* y, int n) {
  double s = 0;
  for (int k = 0; k < n; ++k) s += a[k * n + threadIdx.x] * x[k];
  y[threadIdx.x] = s;
}
//! run symmetric_rank_k grid=2,2 block=8,8 : f32[256] f32[256] 16
extern "C" __global__ void symmetric_rank_k(const float* a, float* c, int n) {
  int i = blockIdx.y * 8 + threadIdx.y, j = blockIdx.x * 8 + threadIdx.x;
  if (j > i) return;
  for (int k = 0; k < n; ++k) c[i * n + j] += 0.5f * a[i * n + k] * a[j * n + k];
}
//! run lu_in_place grid=1 block=16 : f64[256] 16
extern "C" __global__ void lu_in_place(double* a, int n) {
  int t = threadIdx.x;
  a[t * n + t] += 40.0;
  __syncthreads();
  for (int k = 0; k < n; ++k) {
    if (t > k) {
      a[t * n + k] /= a[k * n + k];
      for (int j = k + 1; j < n; ++j) a[t * n + j] -= a[t * n + k] * a[k * n + j];
    }
    __syncthreads();
  }
}
//! run cholesky grid=1 block=1 : f64[64] 8
extern "C" __global__ void cholesky(double* a, int n) {
  for (int i = 0; i < n; ++i) a[i * n + i] = fabs(a[i * n + i]) + 20.0;
  for (int j = 0; j < n; ++j) {
    for (int k = 0; k < j; ++k)
      for (int i = j; i < n; ++i) a[i * n + j] -= a[i * n + k] * a[j * n + k];
    double d = sqrt(fabs(a[j * n + j]) + 1.0);
    for (int i = j; i < n; ++i) a[i * n + j] /= d;
  }
}
//! run triangular_solve grid=1 block=16 : f64[256] f64[16] 16
extern "C" __global__ void triangular_solve(const double* l, double* x, int n) {
  for (int i = 0; i < n; ++i) {
    if (threadIdx.x == 0) x[i] /= fabs(l[i * n + i]) + 2.0;
    __syncthreads();
    if (threadIdx.x > i && threadIdx.x < n) x[threadIdx.x] -= l[threadIdx.x * n + i] * x[i];
    __syncthreads();
  }
}
//! run jacobi_step grid=2 block=16 : f32[1024] f32[32] f32[32] f32[32]=0 32
extern "C" __global__ void jacobi_step(const float* a, const float* b, const float* x, float* next, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  float s = b[i];
  for (int j = 0; j < n; ++j) s -= j == i ? 0.0f : a[i * n + j] * x[j];
  next[i] = s / (a[i * n + i] + 8.0f);
}
//! run gauss_pivot_search grid=1 block=32 : f32[1024] i32[1]=0 32 3
extern "C" __global__ void gauss_pivot_search(const float* a, int* pivot, int n, int column) {
  int best = threadIdx.x;
  float v = threadIdx.x >= column ? fabsf(a[threadIdx.x * n + column]) : -1.0f;
  for (int k = 16; k > 0; k >>= 1) {
    float ov = __shfl_down_sync(0xffffffffu, v, k);
    int ob = __shfl_down_sync(0xffffffffu, best, k);
    if (ov > v) v = ov, best = ob;
  }
  if (threadIdx.x == 0) *pivot = best;
}
//! run outer_product grid=2,2 block=16,16 : f32[32] f32[32] f32[1024] 32
extern "C" __global__ void outer_product(const float* x, const float* y, float* a, int n) {
  int j = blockIdx.x * 16 + threadIdx.x, i = blockIdx.y * 16 + threadIdx.y;
  a[i * n + j] += x[i] * y[j];
}
//! run dot_product grid=2 block=64 : f64[128] f64[128] f64[2]=0
extern "C" __global__ void dot_product(const double* a, const double* b, double* out) {
  __shared__ double s[2];
  int i = blockIdx.x * 64 + threadIdx.x;
  double v = a[i] * b[i];
  for (int k = 16; k > 0; k >>= 1) v += __shfl_down_sync(0xffffffffu, v, k);
  if (threadIdx.x % 32 == 0) s[threadIdx.x / 32] = v;
  __syncthreads();
  if (threadIdx.x == 0) out[blockIdx.x] = s[0] + s[1];
}
//! run norm_squared grid=1 block=64 : f32[256] f32[1]=0
extern "C" __global__ void norm_squared(const float4* x, float* out) {
  __shared__ float s[64];
  float4 v = x[threadIdx.x];
  s[threadIdx.x] = v.x * v.x + v.y * v.y + v.z * v.z + v.w * v.w;
  __syncthreads();
  if (threadIdx.x == 0) {
    float t = 0;
    for (int i = 0; i < 64; ++i) t += s[i];
    *out = t;
  }
}
// A row of up to eight columns each: rows[i] = 8 i, wherever the columns point.
//! run csr_scalar grid=1 block=32 : i32[33]=iota8 i32[264]<32 f32[264] f32[32] f32[32]=0 32
extern "C" __global__ void csr_scalar(const int* rows, const int* columns, const float* values, const float* x, float* y, int n) {
  int r = blockIdx.x * blockDim.x + threadIdx.x;
  if (r >= n) return;
  float s = 0;
  for (int k = rows[r]; k < rows[r + 1]; ++k) s += values[k] * x[columns[k]];
  y[r] = s;
}
//! run csr_vector grid=8 block=128 : i32[33]=iota8 i32[264]<32 f32[264] f32[32] f32[32]=0 32
extern "C" __global__ void csr_vector(const int* rows, const int* columns, const float* values, const float* x, float* y, int n) {
  int r = (blockIdx.x * blockDim.x + threadIdx.x) / 32, lane = threadIdx.x & 31;
  if (r >= n) return;
  float s = 0;
  for (int k = rows[r] + lane; k < rows[r + 1]; k += 32) s += values[k] * __ldg(x + columns[k]);
  for (int k = 16; k > 0; k >>= 1) s += __shfl_down_sync(0xffffffffu, s, k);
  if (lane == 0) y[r] = s;
}
//! run ell_product grid=1 block=32 : i32[256]<32 f64[256] f64[32] f64[32]=0 32 8
extern "C" __global__ void ell_product(const int* columns, const double* values, const double* x, double* y, int n, int width) {
  int r = blockIdx.x * blockDim.x + threadIdx.x;
  double s = 0;
  for (int k = 0; k < width; ++k) {
    int c = columns[k * n + r];
    if (c >= 0) s += values[k * n + r] * x[c];
  }
  y[r] = s;
}
//! run coo_product grid=2 block=64 : i32[128]<32 i32[128]<32 i32[128]<100 i32[32]<100 i32[32]=0
extern "C" __global__ void coo_product(const int* rows, const int* columns, const int* values, const int* x, int* y) {
  int k = blockIdx.x * blockDim.x + threadIdx.x;
  atomicAdd(&y[rows[k]], values[k] * x[columns[k]]);
}
//! run dia_product grid=1 block=32 : f32[96] f32[32] f32[32]=0 32
extern "C" __global__ void dia_product(const float* bands, const float* x, float* y, int n) {
  int i = threadIdx.x;
  float s = bands[n + i] * x[i];
  if (i > 0) s += bands[i] * x[i - 1];
  if (i + 1 < n) s += bands[2 * n + i] * x[i + 1];
  y[i] = s;
}
//! run thomas_batches grid=1 block=32 : f64[512] f64[512] 16
extern "C" __global__ void thomas_batches(const double* d, double* x, int n) {
  double c[16], g[16];
  int t = threadIdx.x;
  c[0] = 0.25, g[0] = d[t] * 0.25;
  for (int i = 1; i < n; ++i) {
    double m = 1.0 / (4.0 - c[i - 1]);
    c[i] = m, g[i] = (d[i * 32 + t] + g[i - 1]) * m;
  }
  x[(n - 1) * 32 + t] = g[n - 1];
  for (int i = n - 2; i >= 0; --i) x[i * 32 + t] = g[i] + c[i] * x[(i + 1) * 32 + t];
}
