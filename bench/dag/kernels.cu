// The kernels of the six problems, as a CUDA programmer writes them: nothing here knows who schedules them.
//
// 1D kernels take any block size that is a multiple of 32; `n` counts elements. Kernels write only what they are for:
// an iteration run twice gives the same result twice.
//
// What counts elements is an Index: an int, which is the fastest, or with WIDE_INDEX 64 bits, for arrays of more than
// 2^31 elements. Coordinates, features and classes stay int.

namespace {

#ifdef WIDE_INDEX
using Index = long long;
using UnsignedIndex = unsigned long long;
#else
using Index = int;
using UnsignedIndex = unsigned;
#endif

__device__ Index index_1d() {
  return static_cast<Index>(static_cast<UnsignedIndex>(blockIdx.x) * blockDim.x + threadIdx.x);
}

// ── Reduction ───────────────────────────────────────────────────────────────────────────────────────────────────────

struct Add {
  static __device__ double identity() { return 0; }
  __device__ double operator()(double a, double b) const { return a + b; }
};
struct Largest {
  static __device__ double identity() { return -1e300; }
  __device__ double operator()(double a, double b) const { return a > b ? a : b; }
};
struct Smallest {
  static __device__ double identity() { return 1e300; }
  __device__ double operator()(double a, double b) const { return a < b ? a : b; }
};

// Of all threads of the block; thread 0 has the result.
template <typename Op>
__device__ double reduce_block(double value, Op op) {
  __shared__ double of_warp[32];
  for (int away = 16; away > 0; away /= 2) value = op(value, __shfl_down_sync(0xffffffffu, value, away));
  if (threadIdx.x % 32 == 0) of_warp[threadIdx.x / 32] = value;
  __syncthreads();
  if (threadIdx.x < 32) {
    value = threadIdx.x < blockDim.x / 32 ? of_warp[threadIdx.x] : Op::identity();
    for (int away = 16; away > 0; away /= 2) value = op(value, __shfl_down_sync(0xffffffffu, value, away));
  }
  __syncthreads();
  return value;
}

// Of all threads of the grid, in an order that does not depend on timing: each block leaves its value in `partial`
// (gridDim.x of them), and the block that ends last reduces those. `counter` is 0 before and after.
template <typename Op>
__device__ void reduce_grid(double value, Op op, double* partial, unsigned* counter, double* result) {
  __shared__ bool is_last;
  value = reduce_block(value, op);
  if (threadIdx.x == 0) {
    partial[blockIdx.x] = value;
    __threadfence();
    is_last = atomicInc(counter, gridDim.x - 1) == gridDim.x - 1;
  }
  __syncthreads();
  if (!is_last) return;
  __threadfence();
  value = Op::identity();
  for (unsigned i = threadIdx.x; i < gridDim.x; i += blockDim.x) value = op(value, partial[i]);
  value = reduce_block(value, op);
  if (threadIdx.x == 0) *result = value;
}

template <typename Op>
__device__ void reduce_array(const float* x, Index n, Op op, double* partial, unsigned* counter, double* result) {
  double value = Op::identity();
  for (long long i = index_1d(); i < n; i += gridDim.x * blockDim.x) value = op(value, x[i]);
  reduce_grid(value, op, partial, counter, result);
}

// Of a row of `n` values.
__device__ float largest_of(const float* row, int n) {
  float largest = row[0];
  for (int i = 1; i < n; ++i) largest = fmaxf(largest, row[i]);
  return largest;
}

}  // namespace

extern "C" {

// ── VEC ─────────────────────────────────────────────────────────────────────────────────────────────────────────────

// VEC's sizes go beyond what an int counts.
__global__ void square(const float* x, float* y, long long n) {
  const long long i = static_cast<long long>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (i < n) y[i] = x[i] * x[i];
}

__global__ void sum_of_differences(const float* x, const float* y, long long n, double* partial,
                                   unsigned* counter, double* result) {
  double value = 0;
  for (long long i = index_1d(); i < n; i += gridDim.x * blockDim.x) value += static_cast<double>(x[i]) - y[i];
  reduce_grid(value, Add(), partial, counter, result);
}

// ── B&S ─────────────────────────────────────────────────────────────────────────────────────────────────────────────

// European calls after Black and Scholes, in double precision: one a price of the underlying stock.
__global__ void black_scholes(const double* price, double* call, Index n, double strike, double rate,
                              double volatility, double years) {
  const Index i = index_1d();
  if (i >= n) return;
  const double spread = volatility * sqrt(years);
  const double d1 = (log(price[i] / strike) + (rate + 0.5 * volatility * volatility) * years) / spread;
  const double d2 = d1 - spread;
  const double root_half = 0.70710678118654752440;
  call[i] = price[i] * 0.5 * erfc(-d1 * root_half) - strike * exp(-rate * years) * 0.5 * erfc(-d2 * root_half);
}

// ── IMG ─────────────────────────────────────────────────────────────────────────────────────────────────────────────

// Images are rows x cols floats; what lies outside counts as black. Blocks of two dimensions, x along the columns.
__global__ void gaussian_blur(const float* in, float* out, int rows, int cols, const float* weights, int diameter) {
  const int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
  if (x >= cols || y >= rows) return;
  const int radius = diameter / 2;
  float sum = 0;
  for (int dy = -radius; dy <= radius; ++dy) {
    for (int dx = -radius; dx <= radius; ++dx) {
      const int from_x = x + dx, from_y = y + dy;
      if (from_x >= 0 && from_x < cols && from_y >= 0 && from_y < rows)
        sum += in[Index{from_y} * cols + from_x] * weights[(dy + radius) * diameter + dx + radius];
    }
  }
  out[Index{y} * cols + x] = sum;
}

__global__ void sobel(const float* in, float* out, int rows, int cols) {
  const int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
  if (x >= cols || y >= rows) return;
  float across = 0, down = 0;
  for (int dy = -1; dy <= 1; ++dy) {
    for (int dx = -1; dx <= 1; ++dx) {
      const int from_x = x + dx, from_y = y + dy;
      if (from_x < 0 || from_x >= cols || from_y < 0 || from_y >= rows) continue;
      const float pixel = in[Index{from_y} * cols + from_x];
      across += static_cast<float>(dx * (2 - dy * dy)) * pixel;
      down += static_cast<float>(dy * (2 - dx * dx)) * pixel;
    }
  }
  out[Index{y} * cols + x] = sqrtf(across * across + down * down);
}

__global__ void maximum(const float* x, Index n, double* partial, unsigned* counter, double* result) {
  reduce_array(x, n, Largest(), partial, counter, result);
}
__global__ void minimum(const float* x, Index n, double* partial, unsigned* counter, double* result) {
  reduce_array(x, n, Smallest(), partial, counter, result);
}

// The mask stretched to 0 ... 5 and cut at 1, in place.
__global__ void extend(float* mask, const double* smallest, const double* largest, Index n) {
  const Index i = index_1d();
  if (i >= n) return;
  const float low = static_cast<float>(*smallest), high = static_cast<float>(*largest);
  mask[i] = fminf(1.f, 5.f * (mask[i] - low) / (high - low));
}

__global__ void unsharpen(const float* image, const float* blurred, float* out, float amount, Index n) {
  const Index i = index_1d();
  if (i < n) out[i] = fminf(1.f, fmaxf(0.f, image[i] * (1.f + amount) - blurred[i] * amount));
}

// x where the mask is 1, y where it is 0.
__global__ void combine(const float* x, const float* y, const float* mask, float* out, Index n) {
  const Index i = index_1d();
  if (i < n) out[i] = x[i] * mask[i] + y[i] * (1.f - mask[i]);
}

// ── ML ──────────────────────────────────────────────────────────────────────────────────────────────────────────────

// Samples are rows of `features` floats that hold whole numbers, the categories 0 ... categories - 1.

__global__ void rr_normalise(const float* samples, const float* mean, const float* deviation, float* out, int features,
                             Index n) {
  const Index i = index_1d();
  if (i < n) out[i] = (samples[i] - mean[i % features]) / deviation[i % features];
}

// scores[row][class] = samples[row] . coefficients[class]; a thread each.
__global__ void rr_product(const float* samples, const float* coefficients, float* scores, int features, int classes,
                           Index n) {
  const Index i = index_1d();
  if (i >= n) return;
  const float *sample = samples + i / classes * features, *weight = coefficients + i % classes * features;
  float sum = 0;
  for (int k = 0; k < features; ++k) sum += sample[k] * weight[k];
  scores[i] = sum;
}

__global__ void rr_intercept(float* scores, const float* intercept, int classes, Index n) {
  const Index i = index_1d();
  if (i < n) scores[i] += intercept[i % classes];
}

// likelihood[row][class] = the sum of log P(feature = its category | class), of [features][categories][classes].
__global__ void nb_likelihood(const float* samples, const float* log_probability, float* likelihood, int features,
                              int categories, int classes, Index n) {
  const Index i = index_1d();
  if (i >= n) return;
  const float* sample = samples + i / classes * features;
  const int which = i % classes;
  float sum = 0;
  for (int k = 0; k < features; ++k)
    sum += log_probability[(k * categories + static_cast<int>(sample[k])) * classes + which];
  likelihood[i] = sum;
}

__global__ void nb_maximum(const float* likelihood, float* largest, int classes, Index rows) {
  const Index row = index_1d();
  if (row < rows) largest[row] = largest_of(likelihood + row * classes, classes);
}

__global__ void nb_log_sum(const float* likelihood, const float* largest, float* log_sum, int classes, Index rows) {
  const Index row = index_1d();
  if (row >= rows) return;
  float sum = 0;
  for (int c = 0; c < classes; ++c) sum += expf(likelihood[row * classes + c] - largest[row]);
  log_sum[row] = logf(sum) + largest[row];
}

__global__ void nb_posterior(float* likelihood, const float* log_sum, int classes, Index n) {
  const Index i = index_1d();
  if (i < n) likelihood[i] = expf(likelihood[i] - log_sum[i / classes]);
}

__global__ void softmax(float* scores, int classes, Index rows) {
  const Index row = index_1d();
  if (row >= rows) return;
  float* score = scores + row * classes;
  const float largest = largest_of(score, classes);
  float sum = 0;
  for (int c = 0; c < classes; ++c) sum += score[c] = expf(score[c] - largest);
  for (int c = 0; c < classes; ++c) score[c] /= sum;
}

// The class whose two scores together are the highest.
__global__ void argmax(const float* a, const float* b, int* chosen, int classes, Index rows) {
  const Index row = index_1d();
  if (row >= rows) return;
  int best = 0;
  float highest = -1;
  for (int c = 0; c < classes; ++c) {
    const float score = a[row * classes + c] + b[row * classes + c];
    if (score > highest) highest = score, best = c;
  }
  chosen[row] = best;
}

// ── HITS ────────────────────────────────────────────────────────────────────────────────────────────────────────────

// y = A x, of A in compressed rows: a warp a row.
__global__ void sparse_product(const Index* row_begin, const int* column, const float* value, const float* x,
                               float* y, Index rows) {
  const Index row = index_1d() / 32;
  const int lane = threadIdx.x % 32;
  float sum = 0;
  if (row < rows)
    for (Index k = row_begin[row] + lane; k < row_begin[row + 1]; k += 32) sum += value[k] * x[column[k]];
  for (int away = 16; away > 0; away /= 2) sum += __shfl_down_sync(0xffffffffu, sum, away);
  if (row < rows && lane == 0) y[row] = sum;
}

__global__ void sum(const float* x, Index n, double* partial, unsigned* counter, double* result) {
  reduce_array(x, n, Add(), partial, counter, result);
}

__global__ void divide(const float* x, float* y, const double* by, Index n) {
  const Index i = index_1d();
  if (i < n) y[i] = static_cast<float>(x[i] / *by);
}

// ── DL ──────────────────────────────────────────────────────────────────────────────────────────────────────────────

// Images are [channels][side][side]. Blocks of three dimensions: x, y, filter or channel. 3 x 3, zeros outside, ReLU.
__global__ void convolution(const float* in, const float* weights, float* out, int side, int channels, int filters) {
  const int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
  const int filter = blockIdx.z * blockDim.z + threadIdx.z;
  if (x >= side || y >= side || filter >= filters) return;
  float sum = 0;
  for (int c = 0; c < channels; ++c) {
    for (int dy = -1; dy <= 1; ++dy) {
      for (int dx = -1; dx <= 1; ++dx) {
        const int from_x = x + dx, from_y = y + dy;
        if (from_x >= 0 && from_x < side && from_y >= 0 && from_y < side)
          sum += in[(Index{c} * side + from_y) * side + from_x] * weights[((filter * channels + c) * 3 + dy + 1) * 3 + dx + 1];
      }
    }
  }
  out[(Index{filter} * side + y) * side + x] = fmaxf(sum, 0.f);
}

// The mean of each factor x factor square; `side` is the result's.
__global__ void pooling(const float* in, float* out, int side, int channels, int factor) {
  const int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
  const int c = blockIdx.z * blockDim.z + threadIdx.z;
  if (x >= side || y >= side || c >= channels) return;
  const int from_side = side * factor;
  float sum = 0;
  for (int dy = 0; dy < factor; ++dy)
    for (int dx = 0; dx < factor; ++dx) sum += in[(Index{c} * from_side + y * factor + dy) * from_side + x * factor + dx];
  out[(Index{c} * side + y) * side + x] = sum / static_cast<float>(factor * factor);
}

__global__ void concatenate(const float* a, const float* b, float* out, Index n) {
  const Index i = index_1d();
  if (i < n) out[i] = a[i];
  if (i < n) out[n + i] = b[i];
}

__global__ void dense(const float* x, const float* weights, Index n, double* partial, unsigned* counter, double* result) {
  double value = 0;
  for (long long i = index_1d(); i < n; i += gridDim.x * blockDim.x) value += static_cast<double>(x[i]) * weights[i];
  reduce_grid(value, Add(), partial, counter, result);
}

// ── Tiles ───────────────────────────────────────────────────────────────────────────────────────────────────────────

#ifdef WIDE_INDEX

// Not timed: x[i] of all n elements from those of the first tile, which the host has written: x[i % tile], and `shift`
// more for each tile before it. Of any type of 4 or 8 bytes where `shift` is 0.
__global__ void repeat_int(int* x, Index tile, Index n, int shift) {
  const Index i = index_1d();
  if (i >= tile && i < n) x[i] = x[i % tile] + static_cast<int>(i / tile) * shift;
}
__global__ void repeat_long(long long* x, Index tile, Index n, long long shift) {
  const Index i = index_1d();
  if (i >= tile && i < n) x[i] = x[i % tile] + i / tile * shift;
}

#endif

}  // extern "C"
