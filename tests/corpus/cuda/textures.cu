// Texture objects: what a kernel samples and fetches. No run lines: a run line has no texture; tests/conformance runs them.
extern "C" __global__ void bilateral_texture(cudaTextureObject_t image, float* out, int w, int h, float deviation, int r) {
  int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
  if (x >= w || y >= h) return;
  float sum = 0, weights = 0, centre = tex2D<float>(image, x + 0.5f, y + 0.5f);
  for (int i = -r; i <= r; ++i)
    for (int j = -r; j <= r; ++j) {
      float v = tex2D<float>(image, x + j + 0.5f, y + i + 0.5f), d = v - centre;
      float weight = expf(-(i * i + j * j) * 0.125f) * expf(-d * d / (2 * deviation * deviation));
      sum += weight * v;
      weights += weight;
    }
  out[y * w + x] = sum / weights;
}
extern "C" __global__ void texture_kinds(cudaTextureObject_t t, float* out) {
  float4 a = tex2D<float4>(t, 1.5f, 2.5f);
  uchar4 b = tex2D<uchar4>(t, 0.5f, 0.5f);
  int2 c = tex1Dfetch<int2>(t, 7);
  out[0] = a.x + a.w + b.y + c.y + tex1D<float>(t, 0.25f) + tex3D<float>(t, 1, 2, 3) + tex1Dfetch<unsigned short>(t, 3);
  float4 g = tex2Dgather<float4>(t, 0.5f, 0.5f, 1);
  out[1] = g.z + g.y + tex2D<signed char>(t, 1, 1) + tex2D<unsigned int>(t, 1, 1);
}
extern "C" __global__ void texture_by_pointer(cudaTextureObject_t t, float* out) {
  float v;
  tex2D(&v, t, 1.5f, 0.5f);
  int w;
  tex1Dfetch(&w, t, 2);
  out[threadIdx.x] = v + w;
}
