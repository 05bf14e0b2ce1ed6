// Texture objects: each thread reads at coordinates of its own. Coordinates come as pairs or triples of floats.
extern "C" __global__ void sample_1d(cudaTextureObject_t image, const float* at, float* out, int count) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < count) out[i] = tex1D<float>(image, at[i]);
}

extern "C" __global__ void fetch_1d(cudaTextureObject_t image, const int* at, int* out, int count) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < count) out[i] = tex1Dfetch<int>(image, at[i]);
}

extern "C" __global__ void sample_2d(cudaTextureObject_t image, const float2* at, float* out, int count) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < count) out[i] = tex2D<float>(image, at[i].x, at[i].y);
}

extern "C" __global__ void sample_2d_four(cudaTextureObject_t image, const float2* at, float4* out, int count) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < count) out[i] = tex2D<float4>(image, at[i].x, at[i].y);
}

extern "C" __global__ void sample_2d_integers(cudaTextureObject_t image, const float2* at, uint4* out, int count) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < count) out[i] = tex2D<uint4>(image, at[i].x, at[i].y);
}

extern "C" __global__ void sample_3d(cudaTextureObject_t image, const float4* at, float* out, int count) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < count) out[i] = tex3D<float>(image, at[i].x, at[i].y, at[i].z);
}

extern "C" __global__ void gather_2d(cudaTextureObject_t image, const float2* at, float4* out, int count) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < count) out[i] = tex2Dgather<float4>(image, at[i].x, at[i].y, 0);
}

extern "C" __global__ void blur_3x3(cudaTextureObject_t image, float* out, int width, int height) {
  const int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
  if (x >= width || y >= height) return;
  float sum = 0;
  for (int dy = -1; dy <= 1; ++dy)
    for (int dx = -1; dx <= 1; ++dx) sum += tex2D<float>(image, x + dx + 0.5f, y + dy + 0.5f);
  out[y * width + x] = sum;
}
