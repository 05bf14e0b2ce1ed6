// The seven problems of bench/cpu-device, as ordinary CUDA. kernels.cl holds the same in OpenCL C, native.cc as loops.
#define TILE 16
#define BINS 256

extern "C" __global__ void saxpy(float a, const float* x, float* y, unsigned n) {
  const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] = a * x[i] + y[i];
}

// c = a × b, n × n, n a multiple of TILE.
extern "C" __global__ void matmul(const float* a, const float* b, float* c, unsigned n) {
  __shared__ float as[TILE][TILE], bs[TILE][TILE];
  const unsigned x = threadIdx.x, y = threadIdx.y;
  const unsigned row = blockIdx.y * TILE + y, column = blockIdx.x * TILE + x;
  float sum = 0.0f;
  for (unsigned t = 0; t < n; t += TILE) {
    as[y][x] = a[row * n + t + x];
    bs[y][x] = b[(t + y) * n + column];
    __syncthreads();
    for (unsigned k = 0; k < TILE; ++k) sum += as[y][k] * bs[k][x];
    __syncthreads();
  }
  c[row * n + column] = sum;
}

// Five points, the border kept.
extern "C" __global__ void stencil(const float* in, float* out, unsigned w, unsigned h) {
  const unsigned x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
  if (x >= w || y >= h) return;
  const unsigned i = y * w + x;
  float v = in[i];
  if (x > 0 && y > 0 && x + 1 < w && y + 1 < h) v = 0.5f * v + 0.125f * (in[i - 1] + in[i + 1] + in[i - w] + in[i + w]);
  out[i] = v;
}

// One sum a block of 2 × 256 elements, by a tree in shared memory.
extern "C" __global__ void reduction(const float* in, float* sums) {
  __shared__ float part[256];
  const unsigned t = threadIdx.x;
  const unsigned i = blockIdx.x * 512 + t;
  part[t] = in[i] + in[i + 256];
  __syncthreads();
  for (unsigned s = 128; s > 0; s >>= 1) {
    if (t < s) part[t] += part[t + s];
    __syncthreads();
  }
  if (t == 0) sums[blockIdx.x] = part[0];
}

extern "C" __global__ void mandelbrot(unsigned* out, unsigned w, unsigned h, unsigned limit) {
  const unsigned x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
  if (x >= w || y >= h) return;
  const float cr = -2.0f + 3.0f * x / w, ci = -1.5f + 3.0f * y / h;
  float zr = 0.0f, zi = 0.0f;
  unsigned n = 0;
  while (n < limit && zr * zr + zi * zi <= 4.0f) {
    const float r = zr * zr - zi * zi + cr;
    zi = 2.0f * zr * zi + ci;
    zr = r;
    ++n;
  }
  out[y * w + x] = n;
}

static __device__ float normal(float d) {
  const float k = 1.0f / (1.0f + 0.2316419f * fabsf(d));
  const float tail = 0.39894228f * expf(-0.5f * d * d) *
                     (k * (0.31938153f + k * (-0.356563782f + k * (1.781477937f + k * (-1.821255978f + k * 1.330274429f)))));
  return d > 0.0f ? 1.0f - tail : tail;
}

extern "C" __global__ void black_scholes(const float* spot, const float* strike, const float* years, float* call, float* put,
                                         float rate, float volatility, unsigned n) {
  const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  const float s = spot[i], x = strike[i], t = years[i];
  const float root = sqrtf(t);
  const float d1 = (logf(s / x) + (rate + 0.5f * volatility * volatility) * t) / (volatility * root);
  const float d2 = d1 - volatility * root;
  const float n1 = normal(d1), n2 = normal(d2), discounted = x * expf(-rate * t);
  call[i] = s * n1 - discounted * n2;
  put[i] = discounted * (1.0f - n2) - s * (1.0f - n1);
}

// 256 bins of bytes: a block counts in shared memory, then adds to the whole. 256 threads a block.
extern "C" __global__ void histogram(const unsigned* words, unsigned* bins, unsigned n) {
  __shared__ unsigned mine[BINS];
  mine[threadIdx.x] = 0;
  __syncthreads();
  for (unsigned i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) {
    const unsigned v = words[i];
    atomicAdd(&mine[v & 255], 1u);
    atomicAdd(&mine[v >> 8 & 255], 1u);
    atomicAdd(&mine[v >> 16 & 255], 1u);
    atomicAdd(&mine[v >> 24], 1u);
  }
  __syncthreads();
  atomicAdd(&bins[threadIdx.x], mine[threadIdx.x]);
}

// What a launch costs.
extern "C" __global__ void empty(unsigned*) {}
