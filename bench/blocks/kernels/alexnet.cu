// AlexNet-like: five convolutions, three dense layers, and what is between them, a kernel each. Images are maps of side x
// side pixels, one after the other; the grid's last dimension is one of several images.

// A block a map of the result: grid (maps, images).
extern "C" __global__ void convolution(const float* __restrict__ in, const float* __restrict__ weights,
                                       const float* __restrict__ bias, float* __restrict__ out, int channels, int in_side,
                                       int out_side, int width, int stride, int padding) {
  int map = blockIdx.x;
  int maps = gridDim.x;
  int image = blockIdx.y;
  for (int p = threadIdx.x; p < out_side * out_side; p += blockDim.x) {
    int top = p / out_side * stride - padding;
    int left = p % out_side * stride - padding;
    float sum = bias[map];
    for (int c = 0; c < channels; c++)
      for (int i = 0; i < width; i++)
        for (int j = 0; j < width; j++) {
          int y = top + i, x = left + j;
          if (y >= 0 && y < in_side && x >= 0 && x < in_side)
            sum += in[((image * channels + c) * in_side + y) * in_side + x] *
                   weights[((map * channels + c) * width + i) * width + j];
        }
    out[(image * maps + map) * out_side * out_side + p] = sum;
  }
}

// In place, a thread a value: grid (pieces of a map, maps, images).
extern "C" __global__ void relu(float* values, int pixels) {
  int p = blockIdx.x * blockDim.x + threadIdx.x;
  int map = blockIdx.z * gridDim.y + blockIdx.y;
  if (p < pixels) values[map * pixels + p] = fmaxf(values[map * pixels + p], 0.0f);
}

// Each value by what its pixel has in five maps, a thread a pixel of all maps: grid (pieces of a map, images).
extern "C" __global__ void normalise_response(const float* __restrict__ in, float* __restrict__ out, int maps, int pixels,
                                              float k, float alpha, float beta) {
  int p = blockIdx.x * blockDim.x + threadIdx.x;
  int first = blockIdx.y * maps * pixels;
  if (p >= pixels) return;
  for (int map = 0; map < maps; map++) {
    float sum = 0.0f;
    for (int other = max(0, map - 2); other <= min(maps - 1, map + 2); other++) {
      float value = in[first + other * pixels + p];
      sum += value * value;
    }
    out[first + map * pixels + p] = in[first + map * pixels + p] * powf(k + alpha * sum / 5.0f, -beta);
  }
}

// The most of 3 x 3, every second pixel. A block a map: grid (maps, images).
extern "C" __global__ void pool(const float* __restrict__ in, float* __restrict__ out, int in_side, int out_side) {
  int map = blockIdx.y * gridDim.x + blockIdx.x;
  for (int p = threadIdx.x; p < out_side * out_side; p += blockDim.x) {
    int y = p / out_side * 2, x = p % out_side * 2;
    float most = in[(map * in_side + y) * in_side + x];
    for (int i = 0; i < 3; i++)
      for (int j = 0; j < 3; j++) most = fmaxf(most, in[(map * in_side + y + i) * in_side + x + j]);
    out[map * out_side * out_side + p] = most;
  }
}

// A thread a neuron: grid (pieces of the neurons, images). Weights of one input are together.
extern "C" __global__ void dense(const float* __restrict__ in, const float* __restrict__ weights,
                                 const float* __restrict__ bias, float* __restrict__ out, int inputs, int outputs) {
  int o = blockIdx.x * blockDim.x + threadIdx.x;
  int image = blockIdx.y;
  if (o < outputs) {
    float sum = bias[o];
    for (int i = 0; i < inputs; i++) sum += in[image * inputs + i] * weights[i * outputs + o];
    out[image * outputs + o] = sum;
  }
}

// exp(value - the most of all), and each block's sum of these, of 256 threads: grid (pieces, images).
extern "C" __global__ void exponentials(const float* __restrict__ in, float* __restrict__ out,
                                        float* __restrict__ sums, int n) {
  __shared__ float part[256];
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  int image = blockIdx.y;
  float most = in[image * n];
  for (int k = 1; k < n; k++) most = fmaxf(most, in[image * n + k]);
  float value = 0.0f;
  if (i < n) {
    value = expf(in[image * n + i] - most);
    out[image * n + i] = value;
  }
  part[threadIdx.x] = value;
  __syncthreads();
  for (int s = 128; s > 0; s >>= 1) {
    if (threadIdx.x < s) part[threadIdx.x] += part[threadIdx.x + s];
    __syncthreads();
  }
  if (threadIdx.x == 0) sums[image * gridDim.x + blockIdx.x] = part[0];
}

extern "C" __global__ void normalise(float* values, const float* __restrict__ sums, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  int image = blockIdx.y;
  if (i < n) {
    float sum = 0.0f;
    for (int k = 0; k < gridDim.x; k++) sum += sums[image * gridDim.x + k];
    values[image * n + i] /= sum;
  }
}
