// The kernels of the image pipeline IMG (GrCUDA scheduler paper, section V-B): ordinary CUDA, nothing of Pergola's.
//
// A picture is `channels` planes of rows x cols floats in [0, 1], one plane after the other; blockIdx.z is the plane.
// Threads outside the picture do nothing, so any grid that covers it will do.

__device__ int clamp_index(int i, int count) { return i < 0 ? 0 : (i >= count ? count - 1 : i); }

// result = image convolved with the diameter x diameter weights, edges repeated.
// Dynamic shared memory: diameter * diameter floats.
extern "C" __global__ void gaussian_blur(const float* image, float* result, int rows, int cols, const float* weights,
                                         int diameter) {
  extern __shared__ float shared_weights[];
  for (int i = threadIdx.y * blockDim.x + threadIdx.x; i < diameter * diameter; i += blockDim.x * blockDim.y)
    shared_weights[i] = weights[i];
  __syncthreads();

  const int row = blockIdx.y * blockDim.y + threadIdx.y;
  const int col = blockIdx.x * blockDim.x + threadIdx.x;
  if (row >= rows || col >= cols) return;
  const float* plane = image + (size_t)blockIdx.z * rows * cols;
  const int radius = diameter / 2;
  float sum = 0.0f;
  for (int dy = -radius; dy <= radius; ++dy) {
    const float* line = plane + (size_t)clamp_index(row + dy, rows) * cols;
    for (int dx = -radius; dx <= radius; ++dx)
      sum += line[clamp_index(col + dx, cols)] * shared_weights[(dy + radius) * diameter + dx + radius];
  }
  result[((size_t)blockIdx.z * rows + row) * cols + col] = sum;
}

// result = length of the Sobel gradient of image.
extern "C" __global__ void sobel(const float* image, float* result, int rows, int cols) {
  const int row = blockIdx.y * blockDim.y + threadIdx.y;
  const int col = blockIdx.x * blockDim.x + threadIdx.x;
  if (row >= rows || col >= cols) return;
  const float* plane = image + (size_t)blockIdx.z * rows * cols;
  const float* above = plane + (size_t)clamp_index(row - 1, rows) * cols;
  const float* here = plane + (size_t)row * cols;
  const float* below = plane + (size_t)clamp_index(row + 1, rows) * cols;
  const int left = clamp_index(col - 1, cols), right = clamp_index(col + 1, cols);
  const float gx = above[right] - above[left] + 2.0f * (here[right] - here[left]) + below[right] - below[left];
  const float gy = below[left] - above[left] + 2.0f * (below[col] - above[col]) + below[right] - above[right];
  result[((size_t)blockIdx.z * rows + row) * cols + col] = sqrtf(gx * gx + gy * gy);
}

// Folds `value` of every thread of the block, a power of two of them, with larger (or smaller) of two; valid in thread 0.
template <bool kLargest>
__device__ float block_extreme(float value) {
  __shared__ float partial[1024];
  partial[threadIdx.x] = value;
  __syncthreads();
  for (unsigned step = blockDim.x / 2; step > 0; step /= 2) {
    if (threadIdx.x < step) {
      const float other = partial[threadIdx.x + step];
      const bool take = kLargest ? other > partial[threadIdx.x] : other < partial[threadIdx.x];
      if (take) partial[threadIdx.x] = other;
    }
    __syncthreads();
  }
  return partial[0];
}

// *result = the largest of x[0..n) and *result; all are >= 0, so that their bits order as integers do.
extern "C" __global__ void maximum(const float* x, float* result, int n) {
  float best = 0.0f;
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) best = x[i] > best ? x[i] : best;
  best = block_extreme<true>(best);
  if (threadIdx.x == 0) atomicMax((int*)result, __float_as_int(best));
}

// *result = the smallest of x[0..n) and *result; all are >= 0.
extern "C" __global__ void minimum(const float* x, float* result, int n) {
  float best = __int_as_float(0x7f7fffff);
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) best = x[i] < best ? x[i] : best;
  best = block_extreme<false>(best);
  if (threadIdx.x == 0) atomicMin((int*)result, __float_as_int(best));
}

// Stretches the mask x to [0, 1], five times over and cut at 1, so that edges stand out.
extern "C" __global__ void extend(float* x, const float* smallest, const float* largest, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  const float range = *largest - *smallest;
  const float stretched = range > 0.0f ? 5.0f * (x[i] - *smallest) / range : 0.0f;
  x[i] = stretched > 1.0f ? 1.0f : stretched;
}

// result = image + amount * (image - blurred), cut to [0, 1].
extern "C" __global__ void unsharpen(const float* image, const float* blurred, float* result, float amount, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  const float sharp = image[i] * (1.0f + amount) - blurred[i] * amount;
  result[i] = sharp < 0.0f ? 0.0f : (sharp > 1.0f ? 1.0f : sharp);
}

// result = sharp where the mask is 1, soft where it is 0.
extern "C" __global__ void combine(const float* sharp, const float* soft, const float* mask, float* result, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) result[i] = sharp[i] * mask[i] + soft[i] * (1.0f - mask[i]);
}
