// Stencils and images: 1, 2 and 3 dimensions, convolution, filters, morphology, resampling, pooling, integral images.
//! run stencil_1d grid=2 block=64 : f32[128] f32[128]=0 128
extern "C" __global__ void stencil_1d(const float* in, float* out, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i > 0 && i < n - 1) out[i] = 0.25f * in[i - 1] + 0.5f * in[i] + 0.25f * in[i + 1];
}
//! run stencil_1d_shared grid=2 block=64 : f32[128] f32[128]=0 128
extern "C" __global__ void stencil_1d_shared(const float* in, float* out, int n) {
  __shared__ float s[64 + 6];
  int i = blockIdx.x * 64 + threadIdx.x, t = threadIdx.x + 3;
  s[t] = in[i];
  if (threadIdx.x < 3) {
    s[threadIdx.x] = i >= 3 ? in[i - 3] : 0;
    s[t + 64] = i + 64 < n ? in[i + 64] : 0;
  }
  __syncthreads();
  float r = 0;
  for (int k = -3; k <= 3; ++k) r += s[t + k];
  out[i] = r;
}
//! run heat_2d grid=2,2 block=16,16 : f32[1024] f32[1024]=0 32 32 0.1f
extern "C" __global__ void heat_2d(const float* in, float* out, int w, int h, float k) {
  int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
  if (x == 0 || y == 0 || x >= w - 1 || y >= h - 1) return;
  const float* c = in + y * w + x;
  out[y * w + x] = c[0] + k * (c[-1] + c[1] + c[-w] + c[w] - 4 * c[0]);
}
//! run heat_2d_tiled grid=2,2 block=16,16 : f64[1024] f64[1024]=0 32
extern "C" __global__ void heat_2d_tiled(const double* in, double* out, int n) {
  __shared__ double s[18][18];
  int x = blockIdx.x * 16 + threadIdx.x, y = blockIdx.y * 16 + threadIdx.y;
  for (int j = threadIdx.y; j < 18; j += 16)
    for (int i = threadIdx.x; i < 18; i += 16) {
      int gx = min(max((int)blockIdx.x * 16 + i - 1, 0), n - 1), gy = min(max((int)blockIdx.y * 16 + j - 1, 0), n - 1);
      s[j][i] = in[gy * n + gx];
    }
  __syncthreads();
  int i = threadIdx.x + 1, j = threadIdx.y + 1;
  out[y * n + x] = 0.2 * (s[j][i] + s[j - 1][i] + s[j + 1][i] + s[j][i - 1] + s[j][i + 1]);
}
//! run stencil_3d grid=2,2,2 block=4,4,4 : f32[512] f32[512]=0 8
extern "C" __global__ void stencil_3d(const float* in, float* out, int n) {
  int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y, z = blockIdx.z * blockDim.z + threadIdx.z;
  int i = (z * n + y) * n + x;
  if (x % (n - 1) == 0 || y % (n - 1) == 0 || z % (n - 1) == 0) { out[i] = in[i]; return; }
  out[i] = (in[i - 1] + in[i + 1] + in[i - n] + in[i + n] + in[i - n * n] + in[i + n * n] - 6 * in[i]) * 0.15f;
}
//! run wave_equation grid=1 block=64 : f32[64] f32[64] f32[64]=0 64
extern "C" __global__ void wave_equation(const float* before, const float* now, float* next, int n) {
  int i = threadIdx.x, l = i == 0 ? n - 1 : i - 1, r = i == n - 1 ? 0 : i + 1;
  next[i] = 2 * now[i] - before[i] + 0.3f * (now[l] - 2 * now[i] + now[r]);
}
//! run life grid=2,2 block=8,8 : u8[256]<2 u8[256]=0 16
extern "C" __global__ void life(const unsigned char* in, unsigned char* out, int n) {
  int x = blockIdx.x * 8 + threadIdx.x, y = blockIdx.y * 8 + threadIdx.y, s = 0;
  for (int j = -1; j <= 1; ++j)
    for (int i = -1; i <= 1; ++i)
      if (i != 0 || j != 0) s += in[((y + j + n) % n) * n + (x + i + n) % n];
  out[y * n + x] = s == 3 || (s == 2 && in[y * n + x]);
}
__constant__ float filter_weights[25] = {1, 4, 6, 4, 1, 4, 16, 24, 16, 4, 6, 24, 36, 24, 6, 4, 16, 24, 16, 4, 1, 4, 6, 4, 1};
//! run convolve_5x5 grid=2,2 block=16,16 : f32[1024] f32[1024]=0 32 32
extern "C" __global__ void convolve_5x5(const float* in, float* out, int w, int h) {
  int x = blockIdx.x * 16 + threadIdx.x, y = blockIdx.y * 16 + threadIdx.y;
  float s = 0;
#pragma unroll
  for (int j = 0; j < 5; ++j)
#pragma unroll
    for (int i = 0; i < 5; ++i) {
      int u = x + i - 2, v = y + j - 2;
      if (u >= 0 && u < w && v >= 0 && v < h) s += filter_weights[5 * j + i] * in[v * w + u];
    }
  out[y * w + x] = s / 256.0f;
}
//! run convolve_rows grid=1,8 block=64 : f32[512] f32[9] f32[512]=0 64 4
extern "C" __global__ void convolve_rows(const float* in, const float* taps, float* out, int w, int radius) {
  int x = threadIdx.x, y = blockIdx.y;
  float s = 0;
  for (int k = -radius; k <= radius; ++k) s += taps[k + radius] * in[y * w + min(max(x + k, 0), w - 1)];
  out[y * w + x] = s;
}
//! run sobel grid=2,2 block=16,16 : u8[1024] u8[1024]=0 32 32
extern "C" __global__ void sobel(const unsigned char* in, unsigned char* out, int w, int h) {
  int x = blockIdx.x * 16 + threadIdx.x, y = blockIdx.y * 16 + threadIdx.y;
  if (x < 1 || y < 1 || x >= w - 1 || y >= h - 1) return;
  const unsigned char* p = in + y * w + x;
  int gx = p[1 - w] + 2 * p[1] + p[1 + w] - p[-1 - w] - 2 * p[-1] - p[-1 + w];
  int gy = p[w - 1] + 2 * p[w] + p[w + 1] - p[-w - 1] - 2 * p[-w] - p[-w + 1];
  int m = abs(gx) + abs(gy);
  out[y * w + x] = m > 255 ? 255 : m;
}
//! run median_3x3 grid=2,2 block=8,8 : u8[256] u8[256]=0 16
extern "C" __global__ void median_3x3(const unsigned char* in, unsigned char* out, int n) {
  int x = blockIdx.x * 8 + threadIdx.x, y = blockIdx.y * 8 + threadIdx.y;
  unsigned char v[9];
  for (int j = 0; j < 3; ++j)
    for (int i = 0; i < 3; ++i) v[3 * j + i] = in[min(max(y + j - 1, 0), n - 1) * n + min(max(x + i - 1, 0), n - 1)];
  for (int i = 0; i < 5; ++i)
    for (int j = i + 1; j < 9; ++j)
      if (v[j] < v[i]) { unsigned char t = v[i]; v[i] = v[j]; v[j] = t; }
  out[y * n + x] = v[4];
}
//! run erode grid=2,2 block=8,8 : u8[256] u8[256]=0 16
extern "C" __global__ void erode(const unsigned char* in, unsigned char* out, int n) {
  int x = blockIdx.x * 8 + threadIdx.x, y = blockIdx.y * 8 + threadIdx.y;
  int m = 255;
  for (int j = max(y - 1, 0); j <= min(y + 1, n - 1); ++j)
    for (int i = max(x - 1, 0); i <= min(x + 1, n - 1); ++i) m = min(m, (int)in[j * n + i]);
  out[y * n + x] = m;
}
//! run rgb_to_gray grid=1 block=64 : u8[256] u8[64]=0
extern "C" __global__ void rgb_to_gray(const uchar4* in, unsigned char* out) {
  uchar4 p = in[threadIdx.x];
  out[threadIdx.x] = (unsigned char)((77 * p.x + 150 * p.y + 29 * p.z) >> 8);
}
//! run yuv_to_rgb grid=1 block=64 : u8[192] u8[192]=0
extern "C" __global__ void yuv_to_rgb(const unsigned char* in, unsigned char* out) {
  int i = 3 * threadIdx.x;
  float y = in[i], u = in[i + 1] - 128.0f, v = in[i + 2] - 128.0f;
  float c[3] = {y + 1.402f * v, y - 0.344f * u - 0.714f * v, y + 1.772f * u};
  for (int k = 0; k < 3; ++k) out[i + k] = (unsigned char)fminf(fmaxf(c[k] + 0.5f, 0.0f), 255.0f);
}
//! run resize_bilinear grid=1,1 block=16,16 : f32[1024] f32[256]=0 32 32 16 16
extern "C" __global__ void resize_bilinear(const float* in, float* out, int w, int h, int ow, int oh) {
  float fx = (threadIdx.x + 0.5f) * w / ow - 0.5f, fy = (threadIdx.y + 0.5f) * h / oh - 0.5f;
  int x = (int)floorf(fx), y = (int)floorf(fy);
  float ax = fx - x, ay = fy - y;
  auto at = [&](int u, int v) { return in[min(max(v, 0), h - 1) * w + min(max(u, 0), w - 1)]; };
  float top = at(x, y) + ax * (at(x + 1, y) - at(x, y)), low = at(x, y + 1) + ax * (at(x + 1, y + 1) - at(x, y + 1));
  out[threadIdx.y * ow + threadIdx.x] = top + ay * (low - top);
}
//! run max_pool_2x2 grid=1 block=16,16 : f32[1024] f32[256]=0 32
extern "C" __global__ void max_pool_2x2(const float* in, float* out, int w) {
  const float* p = in + 2 * threadIdx.y * w + 2 * threadIdx.x;
  out[threadIdx.y * (w / 2) + threadIdx.x] = fmaxf(fmaxf(p[0], p[1]), fmaxf(p[w], p[w + 1]));
}
//! run average_pool grid=1 block=8,8 : f32[1024] f32[64]=0 32 4
extern "C" __global__ void average_pool(const float* in, float* out, int w, int k) {
  float s = 0;
  for (int j = 0; j < k; ++j)
    for (int i = 0; i < k; ++i) s += in[(threadIdx.y * k + j) * w + threadIdx.x * k + i];
  out[threadIdx.y * 8 + threadIdx.x] = s / (k * k);
}
//! run integral_rows grid=1 block=32 : i32[1024]<256 i32[1024]=0 32
extern "C" __global__ void integral_rows(const int* in, int* out, int n) {
  int s = 0;
  for (int x = 0; x < n; ++x) out[threadIdx.x * n + x] = s += in[threadIdx.x * n + x];
}
//! run threshold_otsu_counts grid=4 block=64 : u8[256] u32[2]=0 100
extern "C" __global__ void threshold_otsu_counts(const unsigned char* in, unsigned* counts, int level) {
  unsigned above = __ballot_sync(0xffffffffu, in[blockIdx.x * 64 + threadIdx.x] > level);
  if ((threadIdx.x & 31) == 0) atomicAdd(&counts[0], __popc(above)), atomicAdd(&counts[1], 32 - __popc(above));
}
//! run bilateral tol=1e-5 grid=1 block=8,8 : f32[64] f32[64]=0 8
extern "C" __global__ void bilateral(const float* in, float* out, int n) {
  int x = threadIdx.x, y = threadIdx.y;
  float centre = in[y * n + x], s = 0, w = 0;
  for (int j = max(y - 2, 0); j <= min(y + 2, n - 1); ++j)
    for (int i = max(x - 2, 0); i <= min(x + 2, n - 1); ++i) {
      float d = in[j * n + i] - centre, g = expf(-d * d - 0.1f * ((x - i) * (x - i) + (y - j) * (y - j)));
      s += g * in[j * n + i], w += g;
    }
  out[y * n + x] = s / w;
}
