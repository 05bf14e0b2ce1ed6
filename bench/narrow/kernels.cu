// The narrow tasks of the benchmark, as a CUDA programmer writes kernels: one task is a launch of one block. Nothing here
// knows who runs them. Each kernel is a body that says which thread of how many it is, so that the forms fused by hand
// (by_hand.cu) have the same code.
//
// Bodies take any count of threads that is a multiple of 32, but where they say otherwise. Parameters are at most 48 bytes.

namespace {

// ── MB: Mandelbrot, the count of iterations of each pixel. Every operation is one rounding, so that hosts agree. ───────

__device__ __forceinline__ void mandelbrot_body(unsigned char* image, int size, int limit, float left, float top, float step,
                                                int thread, int threads) {
  for (int pixel = thread; pixel < size * size; pixel += threads) {
    const float cx = fmaf(static_cast<float>(pixel % size), step, left);
    const float cy = fmaf(static_cast<float>(pixel / size), step, top);
    float x = 0, y = 0;
    int count = 0;
    while (count < limit) {
      const float yy = y * y;
      if (fmaf(x, x, yy) > 4.f) break;
      const float next = fmaf(x, x, fmaf(-y, y, cx));
      y = fmaf(x + x, y, cy);
      x = next;
      ++count;
    }
    image[pixel] = static_cast<unsigned char>(count);
  }
}

// ── MM: a product of square matrices ───────────────────────────────────────────────────────────────────────────────────

// In tiles in shared memory. `n` is a multiple of 64, there are 128 or 256 threads.
__device__ __forceinline__ void product_tiled_body(const float* a, const float* b, float* c, int n, int thread, int threads) {
  constexpr int kDepth = 16, kColumns = 64, kRowsOfThread = 8;
  __shared__ __align__(16) float a_tile[kDepth][32];  // by depth, then row
  __shared__ float b_tile[kDepth][kColumns];
  const int rows = threads / kColumns * kRowsOfThread, column = thread % kColumns, first = thread / kColumns * kRowsOfThread;
  for (int row0 = 0; row0 < n; row0 += rows) {
    for (int column0 = 0; column0 < n; column0 += kColumns) {
      float sum[kRowsOfThread] = {};
      for (int k0 = 0; k0 < n; k0 += kDepth) {
        for (int i = thread; i < rows * kDepth; i += threads)
          a_tile[i % kDepth][i / kDepth] = a[(row0 + i / kDepth) * n + k0 + i % kDepth];
        for (int i = thread; i < kDepth * kColumns; i += threads)
          b_tile[i / kColumns][i % kColumns] = b[(k0 + i / kColumns) * n + column0 + i % kColumns];
        __syncthreads();
#pragma unroll 4
        for (int k = 0; k < kDepth; ++k) {
          const float right = b_tile[k][column];
          const float4 low = *reinterpret_cast<const float4*>(&a_tile[k][first]);
          sum[0] += low.x * right, sum[1] += low.y * right, sum[2] += low.z * right, sum[3] += low.w * right;
          const float4 high = *reinterpret_cast<const float4*>(&a_tile[k][first + 4]);
          sum[4] += high.x * right, sum[5] += high.y * right, sum[6] += high.z * right, sum[7] += high.w * right;
        }
        __syncthreads();
      }
#pragma unroll
      for (int r = 0; r < kRowsOfThread; ++r) c[(row0 + first + r) * n + column0 + column] = sum[r];
    }
  }
}

// Without shared memory or barriers; `n` is a multiple of 4.
__device__ __forceinline__ void product_plain_body(const float* a, const float* b, float* c, int n, int thread, int threads) {
  for (int item = thread; item < n * n / 4; item += threads) {
    const int column = item % n, row = item / n * 4;
    const float* left = a + row * n;
    float s0 = 0, s1 = 0, s2 = 0, s3 = 0;
    for (int k = 0; k < n; ++k) {
      const float right = b[k * n + column];
      s0 += left[k] * right, s1 += left[n + k] * right, s2 += left[2 * n + k] * right, s3 += left[3 * n + k] * right;
    }
    float* out = c + row * n + column;
    out[0] = s0, out[n] = s1, out[2 * n] = s2, out[3 * n] = s3;
  }
}

// ── FB: filter bank: a filter, one sample of eight kept, zeros between them, another filter ───────────────────────────

constexpr int kTaps = 64, kDecimation = 8;

// out[i] = sum of taps[k] * in[i - k], four of them at a time.
__device__ __forceinline__ void fir(const float* in, const float* taps, float* out, int width, int thread, int threads) {
  for (int i = thread; i < width; i += 4 * threads) {
    float s0 = 0, s1 = 0, s2 = 0, s3 = 0;
    const int i1 = i + threads, i2 = i1 + threads, i3 = i2 + threads;
    for (int k = 0; k < kTaps; ++k) {
      const float tap = taps[k];
      if (i >= k) s0 += tap * in[i - k];
      if (i1 >= k && i1 < width) s1 += tap * in[i1 - k];
      if (i2 >= k && i2 < width) s2 += tap * in[i2 - k];
      if (i3 >= k && i3 < width) s3 += tap * in[i3 - k];
    }
    out[i] = s0;
    if (i1 < width) out[i1] = s1;
    if (i2 < width) out[i2] = s2;
    if (i3 < width) out[i3] = s3;
  }
}

// `scratch` has room for 2 * width + width / 8 numbers.
__device__ __forceinline__ void filter_bank_body(const float* signal, const float* analysis, const float* synthesis,
                                                 float* scratch, float* out, int width, int thread, int threads) {
  float *filtered = scratch, *expanded = scratch + width, *decimated = scratch + 2 * width;
  fir(signal, analysis, filtered, width, thread, threads);
  __syncthreads();
  for (int i = thread; i < width / kDecimation; i += threads) decimated[i] = filtered[i * kDecimation];
  __syncthreads();
  for (int i = thread; i < width; i += threads) expanded[i] = i % kDecimation == 0 ? decimated[i / kDecimation] : 0.f;
  __syncthreads();
  fir(expanded, synthesis, out, width, thread, threads);
}

// ── BF: beam former: a complex filter, steered, and what comes from there ─────────────────────────────────────────────

__device__ __forceinline__ void beam_former_body(const float2* samples, const float2* taps, float* out, int width,
                                                 float steer_re, float steer_im, int thread, int threads) {
  for (int i = thread; i < width; i += 2 * threads) {
    const int other = i + threads;
    float re0 = 0, im0 = 0, re1 = 0, im1 = 0;
    for (int k = 0; k < kTaps; ++k) {
      const float2 tap = taps[k];
      if (i >= k) {
        const float2 sample = samples[i - k];
        re0 += tap.x * sample.x - tap.y * sample.y, im0 += tap.x * sample.y + tap.y * sample.x;
      }
      if (other < width && other >= k) {
        const float2 sample = samples[other - k];
        re1 += tap.x * sample.x - tap.y * sample.y, im1 += tap.x * sample.y + tap.y * sample.x;
      }
    }
    const float a0 = re0 * steer_re - im0 * steer_im, b0 = re0 * steer_im + im0 * steer_re;
    out[i] = sqrtf(a0 * a0 + b0 * b0);
    const float a1 = re1 * steer_re - im1 * steer_im, b1 = re1 * steer_im + im1 * steer_re;
    if (other < width) out[other] = sqrtf(a1 * a1 + b1 * b1);
  }
}

// ── 3DES: FIPS 46-3, ECB, encrypt, decrypt, encrypt. A thread a block of 8 bytes. ─────────────────────────────────────

__device__ __forceinline__ unsigned swap_bytes(unsigned x) {
  return x << 24 | (x & 0xff00u) << 8 | (x >> 8 & 0xff00u) | x >> 24;
}
__device__ __forceinline__ void swap_bits(unsigned& a, unsigned& b, int by, unsigned mask) {
  const unsigned t = (a >> by ^ b) & mask;
  b ^= t;
  a ^= t << by;
}

// `schedule`: 48 rounds of two words; `boxes`: eight of 64 words, permuted (triple_des.cc makes both).
__device__ __forceinline__ void triple_des_body(const uint2* in, uint2* out, const uint2* schedule, const unsigned* boxes,
                                                int blocks, int thread, int threads) {
  for (int i = thread; i < blocks; i += threads) {
    const uint2 block = in[i];
    unsigned left = swap_bytes(block.x), right = swap_bytes(block.y);
    swap_bits(left, right, 4, 0x0f0f0f0fu);
    swap_bits(left, right, 16, 0x0000ffffu);
    swap_bits(right, left, 2, 0x33333333u);
    swap_bits(right, left, 8, 0x00ff00ffu);
    swap_bits(left, right, 1, 0x55555555u);
#pragma unroll 1
    for (int pass = 0; pass < 3; ++pass) {
#pragma unroll 2
      for (int round = 0; round < 16; ++round) {
        const uint2 key = schedule[pass * 16 + round];
        const unsigned x = (right >> 3 | right << 29) ^ key.x, y = (right << 1 | right >> 31) ^ key.y;
        const unsigned f = boxes[x >> 24 & 63] ^ boxes[128 + (x >> 16 & 63)] ^ boxes[256 + (x >> 8 & 63)] ^
                           boxes[384 + (x & 63)] ^ boxes[64 + (y >> 24 & 63)] ^ boxes[192 + (y >> 16 & 63)] ^
                           boxes[320 + (y >> 8 & 63)] ^ boxes[448 + (y & 63)];
        const unsigned next = left ^ f;
        left = right;
        right = next;
      }
      const unsigned swapped = left;
      left = right;
      right = swapped;
    }
    swap_bits(left, right, 1, 0x55555555u);
    swap_bits(right, left, 8, 0x00ff00ffu);
    swap_bits(right, left, 2, 0x33333333u);
    swap_bits(left, right, 16, 0x0000ffffu);
    swap_bits(left, right, 4, 0x0f0f0f0fu);
    out[i] = make_uint2(swap_bytes(left), swap_bytes(right));
  }
}

// ── DCT: of 8 x 8 pixels ───────────────────────────────────────────────────────────────────────────────────────────────

__device__ __forceinline__ void transform_8(float (&v)[8]) {
  constexpr float kA = 1.387039845322148f, kB = 1.306562964876377f, kC = 1.175875602419359f, kD = 0.785694958387102f,
                  kE = 0.541196100146197f, kF = 0.275899379282943f, kNorm = 0.3535533905932737f;
  const float p07 = v[0] + v[7], p16 = v[1] + v[6], p25 = v[2] + v[5], p34 = v[3] + v[4];
  const float m07 = v[0] - v[7], m61 = v[6] - v[1], m25 = v[2] - v[5], m43 = v[4] - v[3];
  const float even = p07 + p34, odd = p16 + p25, even_m = p07 - p34, odd_m = p16 - p25;
  v[0] = kNorm * (even + odd);
  v[4] = kNorm * (even - odd);
  v[2] = kNorm * (kB * even_m + kE * odd_m);
  v[6] = kNorm * (kE * even_m - kB * odd_m);
  v[1] = kNorm * (kA * m07 - kC * m61 + kD * m25 - kF * m43);
  v[3] = kNorm * (kC * m07 + kF * m61 - kA * m25 + kD * m43);
  v[5] = kNorm * (kD * m07 + kA * m61 + kF * m25 - kC * m43);
  v[7] = kNorm * (kF * m07 + kD * m61 + kC * m25 + kA * m43);
}

// Of `size` x `size` pixels, a multiple of 8: all rows, then all columns.
__device__ __forceinline__ void cosine_body(const float* in, float* out, int size, int thread, int threads) {
  for (int item = thread; item < size * size / 8; item += threads) {
    float v[8];
    const float4* from = reinterpret_cast<const float4*>(in) + 2 * item;
    const float4 low = from[0], high = from[1];
    v[0] = low.x, v[1] = low.y, v[2] = low.z, v[3] = low.w, v[4] = high.x, v[5] = high.y, v[6] = high.z, v[7] = high.w;
    transform_8(v);
    float4* to = reinterpret_cast<float4*>(out) + 2 * item;
    to[0] = make_float4(v[0], v[1], v[2], v[3]);
    to[1] = make_float4(v[4], v[5], v[6], v[7]);
  }
  __syncthreads();
  for (int item = thread; item < size * size / 8; item += threads) {
    float v[8];
    float* at = out + item / size * 8 * size + item % size;
#pragma unroll
    for (int i = 0; i < 8; ++i) v[i] = at[i * size];
    transform_8(v);
#pragma unroll
    for (int i = 0; i < 8; ++i) at[i * size] = v[i];
  }
}

// The same strip by strip in shared memory; `size` is 128.
__device__ __forceinline__ void cosine_shared_body(const float* in, float* out, int size, int thread, int threads) {
  constexpr int kWidth = 128, kPitch = kWidth + 4;
  __shared__ __align__(16) float strip[8 * kPitch];
  for (int top = 0; top < size; top += 8) {
    for (int item = thread; item < kWidth; item += threads) {  // eight pixels of a row each
      const int row = item / (kWidth / 8), column = item % (kWidth / 8) * 8;
      float v[8];
      const float4* from = reinterpret_cast<const float4*>(in + (top + row) * size + column);
      const float4 low = from[0], high = from[1];
      v[0] = low.x, v[1] = low.y, v[2] = low.z, v[3] = low.w, v[4] = high.x, v[5] = high.y, v[6] = high.z, v[7] = high.w;
      transform_8(v);
      float4* to = reinterpret_cast<float4*>(strip + row * kPitch + column);
      to[0] = make_float4(v[0], v[1], v[2], v[3]);
      to[1] = make_float4(v[4], v[5], v[6], v[7]);
    }
    __syncthreads();
    for (int column = thread; column < kWidth; column += threads) {
      float v[8];
#pragma unroll
      for (int i = 0; i < 8; ++i) v[i] = strip[i * kPitch + column];
      transform_8(v);
#pragma unroll
      for (int i = 0; i < 8; ++i) out[(top + i) * size + column] = v[i];
    }
    __syncthreads();
  }
}

// ── CONV: 5 x 5, zeros around the image ────────────────────────────────────────────────────────────────────────────────

// Four pixels of a column each; `size` is a multiple of 4.
__device__ __forceinline__ void convolution_body(const float* in, const float* weights, float* out, int size, int thread,
                                                 int threads) {
  for (int item = thread; item < size * size / 4; item += threads) {
    const int x = item % size, y = item / size * 4;
    float sum[4] = {};
#pragma unroll 1
    for (int dx = 0; dx < 5; ++dx) {
      const int column = x + dx - 2;
      if (column < 0 || column >= size) continue;
      float v[8];
#pragma unroll
      for (int i = 0; i < 8; ++i) {
        const int row = y + i - 2;
        v[i] = row >= 0 && row < size ? in[row * size + column] : 0.f;
      }
#pragma unroll
      for (int dy = 0; dy < 5; ++dy) {
        const float weight = weights[dy * 5 + dx];
#pragma unroll
        for (int i = 0; i < 4; ++i) sum[i] += weight * v[i + dy];
      }
    }
#pragma unroll
    for (int i = 0; i < 4; ++i) out[(y + i) * size + x] = sum[i];
  }
}

}  // namespace

extern "C" {

__global__ void mandelbrot(unsigned char* image, int size, int limit, float left, float top, float step) {
  mandelbrot_body(image, size, limit, left, top, step, static_cast<int>(threadIdx.x), static_cast<int>(blockDim.x));
}
__global__ void product_tiled(const float* a, const float* b, float* c, int n) {
  product_tiled_body(a, b, c, n, static_cast<int>(threadIdx.x), static_cast<int>(blockDim.x));
}
__global__ void product_plain(const float* a, const float* b, float* c, int n) {
  product_plain_body(a, b, c, n, static_cast<int>(threadIdx.x), static_cast<int>(blockDim.x));
}
__global__ void filter_bank(const float* signal, const float* analysis, const float* synthesis, float* scratch, float* out,
                            int width) {
  filter_bank_body(signal, analysis, synthesis, scratch, out, width, static_cast<int>(threadIdx.x),
                   static_cast<int>(blockDim.x));
}
__global__ void beam_former(const float2* samples, const float2* taps, float* out, int width, float steer_re,
                            float steer_im) {
  beam_former_body(samples, taps, out, width, steer_re, steer_im, static_cast<int>(threadIdx.x),
                   static_cast<int>(blockDim.x));
}
__global__ void triple_des(const uint2* in, uint2* out, const uint2* schedule, const unsigned* boxes, int blocks) {
  triple_des_body(in, out, schedule, boxes, blocks, static_cast<int>(threadIdx.x), static_cast<int>(blockDim.x));
}
__global__ void cosine(const float* in, float* out, int size) {
  cosine_body(in, out, size, static_cast<int>(threadIdx.x), static_cast<int>(blockDim.x));
}
__global__ void cosine_shared(const float* in, float* out, int size) {
  cosine_shared_body(in, out, size, static_cast<int>(threadIdx.x), static_cast<int>(blockDim.x));
}
__global__ void convolution(const float* in, const float* weights, float* out, int size) {
  convolution_body(in, weights, out, size, static_cast<int>(threadIdx.x), static_cast<int>(blockDim.x));
}

// ── SLUD: blocks of 32 x 32 of a sparse matrix (BOTS sparselu). 128 threads. ──────────────────────────────────────────

__device__ __forceinline__ void slud_lu0_body(float* diagonal) {
  const int thread = static_cast<int>(threadIdx.x), column = thread % 32;
  for (int k = 0; k < 31; ++k) {
    for (int row = k + 1 + thread; row < 32; row += 128) diagonal[row * 32 + k] /= diagonal[k * 32 + k];
    __syncthreads();
    for (int row = k + 1 + thread / 32; row < 32; row += 4)
      if (column > k) diagonal[row * 32 + column] -= diagonal[row * 32 + k] * diagonal[k * 32 + column];
    __syncthreads();
  }
}
__device__ __forceinline__ void slud_fwd_body(const float* diagonal, float* right) {
  const int thread = static_cast<int>(threadIdx.x), column = thread % 32;
  for (int k = 0; k < 31; ++k) {
    const float above = right[k * 32 + column];
    for (int row = k + 1 + thread / 32; row < 32; row += 4)
      right[row * 32 + column] -= diagonal[row * 32 + k] * above;
    __syncthreads();
  }
}
__device__ __forceinline__ void slud_bdiv_body(const float* diagonal, float* below) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  for (int row = static_cast<int>(threadIdx.x) / 32; row < 32; row += 4) {
    float value = below[row * 32 + lane];
    for (int k = 0; k < 32; ++k) {
      if (lane == k) value /= diagonal[k * 32 + k];
      const float factor = __shfl_sync(0xffffffffu, value, k);
      if (lane > k) value -= factor * diagonal[k * 32 + lane];
    }
    below[row * 32 + lane] = value;
  }
}
__device__ __forceinline__ void slud_bmod_body(const float* below, const float* right, float* inner) {
  const int column = static_cast<int>(threadIdx.x) % 32, first = static_cast<int>(threadIdx.x) / 32 * 8;
  float sum[8] = {};
#pragma unroll 4
  for (int k = 0; k < 32; ++k) {
    const float value = right[k * 32 + column];
#pragma unroll
    for (int i = 0; i < 8; ++i) sum[i] += below[(first + i) * 32 + k] * value;
  }
#pragma unroll
  for (int i = 0; i < 8; ++i) inner[(first + i) * 32 + column] -= sum[i];
}

__global__ void slud_lu0(float* diagonal) { slud_lu0_body(diagonal); }
__global__ void slud_fwd(const float* diagonal, float* right) { slud_fwd_body(diagonal, right); }
__global__ void slud_bdiv(const float* diagonal, float* below) { slud_bdiv_body(diagonal, below); }
__global__ void slud_bmod(const float* below, const float* right, float* inner) { slud_bmod_body(below, right, inner); }

// ── Rates ──────────────────────────────────────────────────────────────────────────────────────────────────────────────

// A task that does nothing, and one that computes for a while: `steps` dependent operations of each thread.
__global__ void empty(unsigned* unused) {
  if (unused != nullptr) *unused = 1;
}
__global__ void busy(float* out, int steps, float value) {
  float x = value + static_cast<float>(threadIdx.x);
  for (int i = 0; i < steps; ++i) x = fmaf(x, 1.0001f, 0.5f);
  out[threadIdx.x] = x;
}
__device__ unsigned long long now() {
  unsigned long long ns;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(ns)::"memory");
  return ns;
}
// The same for tasks `first` on, one a block, each of its own steps; each writes when it has begun and ended.
__global__ void stamped(const int* steps, float* out, ulonglong2* stamps, int first) {
  const int task = first + static_cast<int>(blockIdx.x);
  const unsigned long long begin = now();
  float x = static_cast<float>(threadIdx.x);
  for (int i = 0; i < steps[task]; ++i) x = fmaf(x, 1.0001f, 0.5f);
  if (threadIdx.x != 0) return;
  out[task] = x;
  stamps[task] = make_ulonglong2(begin, now());
}
// When each warp of a task began and ended, for how many are at work on average (Table 5).
__device__ __forceinline__ void stamp(ulonglong2* stamps, int thread, unsigned long long begin) {
  if (thread % 32 == 0) stamps[thread / 32] = make_ulonglong2(begin, now());
}
__global__ void product_tiled_stamped(const float* a, const float* b, float* c, int n, ulonglong2* stamps) {
  const unsigned long long begin = now();
  product_tiled_body(a, b, c, n, static_cast<int>(threadIdx.x), static_cast<int>(blockDim.x));
  stamp(stamps, static_cast<int>(threadIdx.x), begin);
}
__global__ void product_plain_stamped(const float* a, const float* b, float* c, int n, ulonglong2* stamps) {
  const unsigned long long begin = now();
  product_plain_body(a, b, c, n, static_cast<int>(threadIdx.x), static_cast<int>(blockDim.x));
  stamp(stamps, static_cast<int>(threadIdx.x), begin);
}
__global__ void cosine_stamped(const float* in, float* out, int size, ulonglong2* stamps) {
  const unsigned long long begin = now();
  cosine_body(in, out, size, static_cast<int>(threadIdx.x), static_cast<int>(blockDim.x));
  stamp(stamps, static_cast<int>(threadIdx.x), begin);
}
__global__ void cosine_shared_stamped(const float* in, float* out, int size, ulonglong2* stamps) {
  const unsigned long long begin = now();
  cosine_shared_body(in, out, size, static_cast<int>(threadIdx.x), static_cast<int>(blockDim.x));
  stamp(stamps, static_cast<int>(threadIdx.x), begin);
}
// A task of several blocks (Figure 11).
__global__ void product_grid(const float* a, const float* b, float* c, int n) {
  product_plain_body(a, b, c, n, static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x),
                     static_cast<int>(gridDim.x * blockDim.x));
}
__global__ void convolution_grid(const float* in, const float* weights, float* out, int size) {
  convolution_body(in, weights, out, size, static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x),
                   static_cast<int>(gridDim.x * blockDim.x));
}
// Counts itself: one thread a task.
__global__ void count(unsigned* counters, int index) {
  if (threadIdx.x == 0) atomicAdd(counters + index, 1u);
}

}  // extern "C"
