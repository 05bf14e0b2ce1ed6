// Neural networks: activations, softmax, normalisation, attention, convolution, quantised products, optimisers.
#include <cmath>
//! run relu_backward grid=1 block=64 : f32[64] f32[64] f32[64]=0
extern "C" __global__ void relu_backward(const float* x, const float* g, float* out) {
  out[threadIdx.x] = x[threadIdx.x] > 0 ? g[threadIdx.x] : 0.01f * g[threadIdx.x];
}
//! run gelu tol=1e-4 grid=1 block=64 : f32[64]
extern "C" __global__ void gelu(float* x) {
  float v = x[threadIdx.x];
  x[threadIdx.x] = 0.5f * v * (1.0f + tanhf(0.79788456f * (v + 0.044715f * v * v * v)));
}
//! run sigmoid tol=1e-4 grid=1 block=64 : f32[64]
extern "C" __global__ void sigmoid(float* x) { x[threadIdx.x] = 1.0f / (1.0f + expf(-x[threadIdx.x])); }
//! run softmax_rows tol=1e-4 grid=4 block=64 : f32[256] 64
extern "C" __global__ void softmax_rows(float* x, int n) {
  __shared__ float s[64];
  float* row = x + blockIdx.x * n;
  float v = row[threadIdx.x];
  s[threadIdx.x] = v;
  __syncthreads();
  for (int k = 32; k > 0; k >>= 1) {
    if (threadIdx.x < k) s[threadIdx.x] = fmaxf(s[threadIdx.x], s[threadIdx.x + k]);
    __syncthreads();
  }
  float m = s[0];
  __syncthreads();
  float e = expf(v - m);
  s[threadIdx.x] = e;
  __syncthreads();
  for (int k = 32; k > 0; k >>= 1) {
    if (threadIdx.x < k) s[threadIdx.x] += s[threadIdx.x + k];
    __syncthreads();
  }
  row[threadIdx.x] = e / s[0];
}
//! run online_softmax tol=1e-4 grid=1 block=32 : f32[256] f32[256]=0
extern "C" __global__ void online_softmax(const float* x, float* y) {
  float m = -1e30f, d = 0;
  for (int i = threadIdx.x; i < 256; i += 32) {
    float v = x[i], n = fmaxf(m, v);
    d = d * expf(m - n) + expf(v - n), m = n;
  }
  for (int k = 16; k > 0; k >>= 1) {
    float om = __shfl_xor_sync(0xffffffffu, m, k), od = __shfl_xor_sync(0xffffffffu, d, k), n = fmaxf(m, om);
    d = d * expf(m - n) + od * expf(om - n), m = n;
  }
  for (int i = threadIdx.x; i < 256; i += 32) y[i] = expf(x[i] - m) / d;
}
//! run layernorm tol=1e-4 grid=4 block=32 : f32[512] f32[128] f32[128] f32[512]=0
extern "C" __global__ void layernorm(const float4* x, const float4* gain, const float4* bias, float4* y) {
  float4 v = x[blockIdx.x * 32 + threadIdx.x];
  float s = v.x + v.y + v.z + v.w, q = v.x * v.x + v.y * v.y + v.z * v.z + v.w * v.w;
  for (int k = 16; k > 0; k >>= 1) s += __shfl_xor_sync(0xffffffffu, s, k), q += __shfl_xor_sync(0xffffffffu, q, k);
  float mean = s / 128, r = rsqrtf(q / 128 - mean * mean + 1e-5f);
  float4 g = gain[threadIdx.x], b = bias[threadIdx.x];
  y[blockIdx.x * 32 + threadIdx.x] = make_float4((v.x - mean) * r * g.x + b.x, (v.y - mean) * r * g.y + b.y, (v.z - mean) * r * g.z + b.z, (v.w - mean) * r * g.w + b.w);
}
//! run rms_norm tol=1e-4 grid=2 block=64 : f32[128] f32[64]
extern "C" __global__ void rms_norm(float* x, const float* w) {
  __shared__ float s;
  if (threadIdx.x == 0) {
    float q = 0;
    for (int i = 0; i < 64; ++i) q += x[blockIdx.x * 64 + i] * x[blockIdx.x * 64 + i];
    s = rsqrtf(q / 64 + 1e-6f);
  }
  __syncthreads();
  x[blockIdx.x * 64 + threadIdx.x] *= s * w[threadIdx.x];
}
//! run attention_row tol=1e-4 grid=16 block=32 : f32[512] f32[512] f32[512] f32[512]=0 16
extern "C" __global__ void attention_row(const float* q, const float* k, const float* v, float* out, int n) {
  int lane = threadIdx.x, row = blockIdx.x;
  float best = -1e30f, sum = 0, acc = 0, mine = q[row * 32 + lane];
  for (int j = 0; j <= row && j < n; ++j) {
    float d = mine * k[j * 32 + lane];
    for (int s = 16; s > 0; s >>= 1) d += __shfl_xor_sync(0xffffffffu, d, s);
    d *= 0.17677669f;
    float m = fmaxf(best, d), scale = expf(best - m), p = expf(d - m);
    acc = acc * scale + p * v[j * 32 + lane], sum = sum * scale + p, best = m;
  }
  out[row * 32 + lane] = acc / sum;
}
//! run rotary_embedding tol=1e-4 grid=4 block=16 : f32[128]
extern "C" __global__ void rotary_embedding(float2* x) {
  float a = blockIdx.x * powf(10000.0f, -(float)threadIdx.x / 16.0f), s = sinf(a), c = cosf(a);
  float2 v = x[blockIdx.x * 16 + threadIdx.x];
  x[blockIdx.x * 16 + threadIdx.x] = make_float2(v.x * c - v.y * s, v.x * s + v.y * c);
}
//! run conv2d_channels grid=4 block=8,8 : f32[300] f32[108] f32[256]=0 3
extern "C" __global__ void conv2d_channels(const float* in, const float* w, float* out, int channels) {
  float s = 0;
  for (int c = 0; c < channels; ++c)
    for (int j = 0; j < 3; ++j)
      for (int i = 0; i < 3; ++i)
        s += in[c * 100 + (threadIdx.y + j) * 10 + threadIdx.x + i] * w[((blockIdx.x * channels + c) * 3 + j) * 3 + i];
  out[blockIdx.x * 64 + threadIdx.y * 8 + threadIdx.x] = s;
}
//! run depthwise_conv grid=4 block=64 : f32[264] f32[12] f32[256]=0
extern "C" __global__ void depthwise_conv(const float* in, const float* w, float* out) {
  float s = 0;
#pragma unroll
  for (int k = 0; k < 3; ++k) s += in[blockIdx.x * 66 + threadIdx.x + k] * w[blockIdx.x * 3 + k];
  out[blockIdx.x * 64 + threadIdx.x] = s;
}
//! run quantise tol=0 grid=1 block=64 : f32[64] i8[64]=0 0.05f
extern "C" __global__ void quantise(const float* x, signed char* q, float scale) {
  int v = __float2int_rn(x[threadIdx.x] / scale);
  q[threadIdx.x] = (signed char)max(-128, min(127, v));
}
//! run quantised_gemm grid=2,2 block=8,8 : i32[128] i32[128] i32[256]=0 8
extern "C" __global__ void quantised_gemm(const int* a, const int* b, int* c, int words) {
  int x = blockIdx.x * 8 + threadIdx.x, y = blockIdx.y * 8 + threadIdx.y, s = 0;
  for (int k = 0; k < words; ++k) s = __dp4a(a[y * words + k], b[x * words + k], s);
  c[y * 16 + x] = s;
}
//! run int4_unpack grid=1 block=32 : u32[32] f32[256]=0 0.125f
extern "C" __global__ void int4_unpack(const unsigned* packed, float* out, float scale) {
  unsigned v = packed[threadIdx.x];
#pragma unroll
  for (int i = 0; i < 8; ++i) out[8 * threadIdx.x + i] = scale * ((int)((v >> (4 * i)) & 15) - 8);
}
//! run adam_step tol=1e-5 grid=1 block=64 : f32[64] f32[64] f32[64]=0 f32[64]=0 0.001f
extern "C" __global__ void adam_step(float* w, const float* g, float* m, float* v, float rate) {
  int i = threadIdx.x;
  m[i] = 0.9f * m[i] + 0.1f * g[i];
  v[i] = 0.999f * v[i] + 0.001f * g[i] * g[i];
  w[i] -= rate * (m[i] / 0.1f) / (sqrtf(v[i] / 0.001f) + 1e-8f);
}
//! run cross_entropy tol=1e-4 grid=1 block=16 : f32[160] i32[16]<10 f32[16]=0 10
extern "C" __global__ void cross_entropy(const float* logits, const int* label, float* loss, int n) {
  const float* row = logits + threadIdx.x * n;
  float m = row[0], s = 0;
  for (int i = 1; i < n; ++i) m = fmaxf(m, row[i]);
  for (int i = 0; i < n; ++i) s += expf(row[i] - m);
  loss[threadIdx.x] = logf(s) + m - row[label[threadIdx.x]];
}
//! run embedding_lookup grid=4 block=16 : i32[4]<32 f32[512] f32[64]=0
extern "C" __global__ void embedding_lookup(const int* token, const float* table, float* out) {
  out[blockIdx.x * 16 + threadIdx.x] = table[token[blockIdx.x] * 16 + threadIdx.x];
}
//! run dropout grid=1 block=64 : f32[64] 123u 0.5f
extern "C" __global__ void dropout(float* x, unsigned seed, float keep) {
  unsigned h = (threadIdx.x ^ seed) * 0x9e3779b1u;
  h ^= h >> 15, h *= 0x85ebca77u, h ^= h >> 13;
  x[threadIdx.x] = (h >> 8) * (1.0f / 16777216.0f) < keep ? x[threadIdx.x] / keep : 0.0f;
}
//! run top_k grid=1 block=32 : f32[64] f32[4]=0 4
extern "C" __global__ void top_k(const float* in, float* out, int k) {
  float a = in[threadIdx.x], b = in[threadIdx.x + 32];
  for (int i = 0; i < k; ++i) {
    float m = fmaxf(a, b);
    for (int s = 16; s > 0; s >>= 1) m = fmaxf(m, __shfl_xor_sync(0xffffffffu, m, s));
    if (threadIdx.x == 0) out[i] = m;
    if (a == m) a = -1e30f;
    else if (b == m) b = -1e30f;
  }
}
//! run batch_norm_statistics grid=4 block=32 : f32[256] f32[4]=0 f32[4]=0 64
extern "C" __global__ void batch_norm_statistics(const float* x, float* mean, float* variance, int n) {
  float s = 0, q = 0;
  for (int i = threadIdx.x; i < n; i += 32) s += x[blockIdx.x * n + i], q += x[blockIdx.x * n + i] * x[blockIdx.x * n + i];
  for (int k = 16; k > 0; k >>= 1) s += __shfl_down_sync(0xffffffffu, s, k), q += __shfl_down_sync(0xffffffffu, q, k);
  if (threadIdx.x == 0) mean[blockIdx.x] = s / n, variance[blockIdx.x] = q / n - s / n * (s / n);
}
