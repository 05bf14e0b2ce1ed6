// Kernels in the manner of PolyBench (dense loops, a thread a point) and SHOC (sorts, scans, spectra, hashes).
#define AT(m, i, j) m[(i) * n + (j)]
//! run two_products_first tol=1e-4 grid=2,2 block=16,16 : f32[1024] f32[1024] f32[1024]=0 32 1.5f
extern "C" __global__ void two_products_first(const float* a, const float* b, float* t, int n, float alpha) {
  int j = blockIdx.x * blockDim.x + threadIdx.x, i = blockIdx.y * blockDim.y + threadIdx.y;
  if (i >= n || j >= n) return;
  AT(t, i, j) = 0;
  for (int k = 0; k < n; ++k) AT(t, i, j) += alpha * AT(a, i, k) * AT(b, k, j);
}
//! run two_products_second tol=1e-4 grid=2,2 block=16,16 : f32[1024] f32[1024] f32[1024] 32 0.75f
extern "C" __global__ void two_products_second(const float* t, const float* c, float* d, int n, float beta) {
  int j = blockIdx.x * blockDim.x + threadIdx.x, i = blockIdx.y * blockDim.y + threadIdx.y;
  if (i >= n || j >= n) return;
  AT(d, i, j) *= beta;
  for (int k = 0; k < n; ++k) AT(d, i, j) += AT(t, i, k) * AT(c, k, j);
}
//! run gemver_update tol=1e-12 grid=2,2 block=16,16 : f64[1024] f64[32] f64[32] f64[32] f64[32] 32
extern "C" __global__ void gemver_update(double* a, const double* u1, const double* v1, const double* u2, const double* v2, int n) {
  int j = blockIdx.x * blockDim.x + threadIdx.x, i = blockIdx.y * blockDim.y + threadIdx.y;
  if (i < n && j < n) AT(a, i, j) += u1[i] * v1[j] + u2[i] * v2[j];
}
//! run gemver_transposed tol=1e-10 grid=1 block=32 : f64[1024] f64[32]=0 f64[32] f64[32] 32 1.25
extern "C" __global__ void gemver_transposed(const double* a, double* x, const double* y, const double* z, int n, double beta) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  for (int j = 0; j < n; ++j) x[i] += beta * AT(a, j, i) * y[j];
  x[i] += z[i];
}
//! run jacobi_2d tol=1e-5 grid=3,3 block=16,16 : f32[2304] f32[2304]=0 48
extern "C" __global__ void jacobi_2d(const float* a, float* b, int n) {
  int i = blockIdx.y * blockDim.y + threadIdx.y, j = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= 1 && i < n - 1 && j >= 1 && j < n - 1)
    AT(b, i, j) = 0.2f * (AT(a, i, j) + AT(a, i, j - 1) + AT(a, i, 1 + j) + AT(a, 1 + i, j) + AT(a, i - 1, j));
}
// Sweeps along rows, forth and back; b stays away from zero.
//! run adi_rows tol=1e-3 grid=1 block=32 : f32[1024] f32[1024]=4 f32[1024]=1 32
extern "C" __global__ void adi_rows(float* a, float* b, float* x, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  for (int j = 1; j < n; ++j) {
    AT(x, i, j) -= AT(x, i, j - 1) * 0.1f * AT(a, i, j) / AT(b, i, j - 1);
    AT(b, i, j) -= 0.01f * AT(a, i, j) * AT(a, i, j) / AT(b, i, j - 1);
  }
  AT(x, i, n - 1) /= AT(b, i, n - 1);
  for (int j = 0; j < n - 2; ++j)
    AT(x, i, n - j - 2) = (AT(x, i, n - 2 - j) - 0.1f * AT(x, i, n - j - 3) * AT(a, i, n - j - 3)) / AT(b, i, n - 3 - j);
}
//! run correlation_moments tol=1e-4 grid=1 block=32 : f32[1024] f32[32]=0 f32[32]=0 32
extern "C" __global__ void correlation_moments(const float* data, float* mean, float* deviation, int n) {
  int j = blockIdx.x * blockDim.x + threadIdx.x;
  if (j >= n) return;
  float sum = 0, squares = 0;
  for (int i = 0; i < n; ++i) sum += AT(data, i, j);
  float m = sum / n;
  for (int i = 0; i < n; ++i) squares += (AT(data, i, j) - m) * (AT(data, i, j) - m);
  float s = sqrtf(squares / n);
  mean[j] = m;
  deviation[j] = s <= 0.005f ? 1.0f : s;
}
//! run correlation_matrix tol=1e-3 grid=1 block=32 : f32[1024] f32[1024]=0 32
extern "C" __global__ void correlation_matrix(const float* data, float* out, int n) {
  int j1 = blockIdx.x * blockDim.x + threadIdx.x;
  if (j1 >= n) return;
  AT(out, j1, j1) = 1;
  for (int j2 = j1 + 1; j2 < n; ++j2) {
    float sum = 0;
    for (int i = 0; i < n; ++i) sum += AT(data, i, j1) * AT(data, i, j2);
    AT(out, j1, j2) = sum;
    AT(out, j2, j1) = sum;
  }
}
//! run fdtd_electric tol=1e-5 grid=4,4 block=8,8 : f32[16] f32[1024] f32[1024] f32[1024] 3 32
extern "C" __global__ void fdtd_electric(const float* source, float* ex, float* ey, const float* hz, int t, int n) {
  int i = blockIdx.y * blockDim.y + threadIdx.y, j = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n || j >= n) return;
  if (i == 0) AT(ey, i, j) = source[t]; else AT(ey, i, j) -= 0.5f * (AT(hz, i, j) - AT(hz, i - 1, j));
  if (j > 0) AT(ex, i, j) -= 0.5f * (AT(hz, i, j) - AT(hz, i, j - 1));
}
//! run gram_schmidt_column tol=1e-3 grid=1 block=32 : f32[1024] f32[1024]=0 f32[1024]=0 32 4
extern "C" __global__ void gram_schmidt_column(float* a, float* r, float* q, int n, int k) {
  __shared__ float norm;
  int t = threadIdx.x;
  if (t == 0) {
    float sum = 0;
    for (int i = 0; i < n; ++i) sum += AT(a, i, k) * AT(a, i, k);
    norm = sqrtf(sum);
    AT(r, k, k) = norm;
  }
  __syncthreads();
  AT(q, t, k) = AT(a, t, k) / norm;
  __syncthreads();
  if (t > k) {
    float sum = 0;
    for (int i = 0; i < n; ++i) sum += AT(q, i, k) * AT(a, i, t);
    AT(r, k, t) = sum;
    for (int i = 0; i < n; ++i) AT(a, i, t) -= AT(q, i, k) * sum;
  }
}
// Four bits a pass: counts by digit in shared memory, their scan, and the scatter.
//! run radix_sort_4bit grid=2 block=128 : u32[256] u32[256]=0 8
extern "C" __global__ void radix_sort_4bit(const unsigned* in, unsigned* out, int shift) {
  __shared__ unsigned counts[16][128], totals[16], starts[16];
  int t = threadIdx.x, base = blockIdx.x * 128;
  unsigned key = in[base + t], digit = (key >> shift) & 15;
  for (int d = 0; d < 16; ++d) counts[d][t] = d == int(digit);
  __syncthreads();
  if (t < 16) {
    unsigned sum = 0;
    for (int i = 0; i < 128; ++i) {
      unsigned c = counts[t][i];
      counts[t][i] = sum;
      sum += c;
    }
    totals[t] = sum;
  }
  __syncthreads();
  if (t == 0) {
    unsigned sum = 0;
    for (int d = 0; d < 16; ++d) { starts[d] = sum; sum += totals[d]; }
  }
  __syncthreads();
  out[base + starts[digit] + counts[digit][t]] = key;
}
//! run scan_with_carry grid=1 block=128 : i32[640]<100 i32[640]=0 640
extern "C" __global__ void scan_with_carry(const int* in, int* out, int n) {
  __shared__ volatile int buffer[256];
  __shared__ int carry;
  int t = threadIdx.x;
  if (t == 0) carry = 0;
  buffer[t] = 0;
  __syncthreads();
  for (int base = 0; base < n; base += 128) {
    int value = base + t < n ? in[base + t] : 0;
    int index = t + 128;
    buffer[index] = value;
    __syncthreads();
    for (int offset = 1; offset < 128; offset *= 2) {
      int other = buffer[index - offset];
      __syncthreads();
      value += other;
      buffer[index] = value;
      __syncthreads();
    }
    if (base + t < n) out[base + t] = value + carry;
    __syncthreads();
    if (t == 127) carry += value;
    __syncthreads();
  }
}
//! run csr_warp_rows tol=1e-4 grid=4 block=64 : f32[256] i32[256]<32 i32[33]=iota8 f32[32] 32 f32[32]=0
extern "C" __global__ void csr_warp_rows(const float* __restrict__ values, const int* __restrict__ columns,
                                         const int* __restrict__ rows, const float* __restrict__ x, int n, float* __restrict__ y) {
  __shared__ volatile float partial[64];
  int t = threadIdx.x, lane = t & 31, warps = blockDim.x / 32;
  for (int row = blockIdx.x * warps + t / 32; row < n; row += gridDim.x * warps) {
    float sum = 0;
    for (int j = rows[row] + lane; j < rows[row + 1]; j += 32) sum += values[j] * __ldg(&x[columns[j]]);
    partial[t] = sum;
    __syncwarp();
    for (int s = 16; s > 0; s /= 2) {
      if (lane < s) partial[t] = partial[t] + partial[t + s];
      __syncwarp();
    }
    if (lane == 0) y[row] = partial[t];
  }
}
//! run ell_rows tol=1e-4 grid=1 block=64 : f32[512] i32[512]<64 i32[64]<9 f32[64] f32[64]=0 64
extern "C" __global__ void ell_rows(const float* values, const int* columns, const int* lengths, const float* x, float* y, int n) {
  int row = blockIdx.x * blockDim.x + threadIdx.x;
  if (row >= n) return;
  float sum = 0;
  int limit = lengths[row];
  for (int i = 0; i < limit; ++i) {
    int at = i * n + row;
    sum += values[at] * x[columns[at]];
  }
  y[row] = sum;
}
inline __device__ float2 times(float2 a, float2 b) { return make_float2(a.x * b.x - a.y * b.y, a.x * b.y + a.y * b.x); }
inline __device__ void butterfly(float2& a, float2& b) {
  float2 d = make_float2(a.x - b.x, a.y - b.y);
  a = make_float2(a.x + b.x, a.y + b.y);
  b = d;
}
inline __device__ void fft4(float2& a0, float2& a1, float2& a2, float2& a3) {
  butterfly(a0, a2);
  butterfly(a1, a3);
  a3 = make_float2(a3.y, -a3.x);
  butterfly(a0, a1);
  butterfly(a2, a3);
}
inline __device__ void fft8(float2* a) {
  for (int i = 0; i < 4; ++i) butterfly(a[i], a[i + 4]);
  const float r = 0.70710678118654752f;
  a[5] = times(a[5], make_float2(r, -r));
  a[6] = make_float2(a[6].y, -a[6].x);
  a[7] = times(a[7], make_float2(-r, -r));
  fft4(a[0], a[1], a[2], a[3]);
  fft4(a[4], a[5], a[6], a[7]);
}
// 64 points by 8 threads: eights, twiddles, a transpose through shared memory, eights.
//! run fft_radix8 tol=1e-3 grid=2 block=8 : f32[256]
extern "C" __global__ void fft_radix8(float2* work) {
  __shared__ float re[72], im[72];
  float2 data[8];
  int t = threadIdx.x;
  work += blockIdx.x * 64;
  for (int i = 0; i < 8; ++i) data[i] = work[t + 8 * i];
  fft8(data);
  const int reversed[] = {0, 4, 2, 6, 1, 5, 3, 7};
  for (int i = 1; i < 8; ++i) {
    float angle = -2 * 3.14159265f * t * reversed[i] / 64, s, c;
    sincosf(angle, &s, &c);
    data[i] = times(data[i], make_float2(c, s));
  }
  for (int i = 0; i < 8; ++i) { re[reversed[i] * 9 + t] = data[i].x; im[reversed[i] * 9 + t] = data[i].y; }
  __syncthreads();
  for (int i = 0; i < 8; ++i) data[i] = make_float2(re[t * 9 + i], im[t * 9 + i]);
  fft8(data);
  for (int i = 0; i < 8; ++i) work[t + 8 * reversed[i]] = data[i];
}
__device__ __forceinline__ unsigned rotated(unsigned x, int c) { return (x << c) | (x >> (32 - c)); }
#define STEP(f, a, b, c, d, k, x, s) a = b + rotated(a + (f) + (x) + (k), s)
// A hash of 64 steps in the manner of MD5, of keys of eight letters drawn from the thread's number.
//! run hash_search grid=2 block=64 : u32[4]<100 u32[512]=0 u32[1]=0
extern "C" __global__ void hash_search(const unsigned* wanted, uint4* digests, unsigned* found) {
  unsigned id = blockIdx.x * blockDim.x + threadIdx.x, words[4] = {0, 0, 0x80, 64};
  for (int i = 0, rest = id; i < 4; ++i, rest /= 10) words[0] |= unsigned('a' + rest % 10) << (8 * i);
  words[1] = words[0] ^ 0x01020304u;
  unsigned a = 0x67452301, b = 0xefcdab89, c = 0x98badcfe, d = 0x10325476;
  for (int i = 0; i < 16; ++i) {
    STEP((b & c) | (~b & d), a, b, c, d, 0xd76aa478u + i, words[i & 3], 7);
    STEP((a & b) | (~a & c), d, a, b, c, 0xe8c7b756u ^ i, words[(i + 1) & 3], 12);
    STEP(d ^ a ^ b, c, d, a, b, 0x242070dbu * i, words[(i + 2) & 3], 17);
    STEP(c ^ (d | ~a), b, c, d, a, 0xc1bdceeeu - i, words[(i + 3) & 3], 22);
  }
  digests[id] = make_uint4(a, b, c, d);
  if ((a & 127) == wanted[0]) atomicMax(found, id);
}
//! run triad grid=4 block=64 : f64[256] f64[256] f64[256]=0 1.75
extern "C" __global__ void triad(const double* a, const double* b, double* c, double s) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  c[i] = a[i] + s * b[i];
}
// The largest cluster round each point within a diameter, grown by the nearest point, a bit mask of who is in.
//! run quality_clusters grid=1 block=32 : f32[64] u32[32]=0 1.0f
extern "C" __global__ void quality_clusters(const float2* points, unsigned* members, float diameter) {
  unsigned in = 1u << threadIdx.x;
  for (int round = 1; round < 32; ++round) {
    int next = -1;
    float best = diameter;
    for (int p = 0; p < 32; ++p) {
      if (in >> p & 1) continue;
      float farthest = 0;
      for (unsigned rest = in; rest != 0; rest &= rest - 1) {
        int q = __ffs(rest) - 1;
        float dx = __fsub_rn(points[p].x, points[q].x), dy = __fsub_rn(points[p].y, points[q].y);
        farthest = fmaxf(farthest, __fadd_rn(__fmul_rn(dx, dx), __fmul_rn(dy, dy)));
      }
      if (farthest < best) { best = farthest; next = p; }
    }
    if (next < 0) break;
    in |= 1u << next;
  }
  members[threadIdx.x] = in;
}
