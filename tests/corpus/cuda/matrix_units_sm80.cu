// Tensor cores by inline PTX, and texture objects: what a CPU device may refuse, and the parser must know.
//! arch: 80
//! clang: no: texture functions are the toolkit's
extern "C" __global__ void mma_f16(const unsigned* a, const unsigned* b, float* d) {
  unsigned t = threadIdx.x;
  float c[4] = {0, 0, 0, 0};
  asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
               : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
               : "r"(a[4 * t]), "r"(a[4 * t + 1]), "r"(a[4 * t + 2]), "r"(a[4 * t + 3]), "r"(b[2 * t]), "r"(b[2 * t + 1]));
  for (int i = 0; i < 4; ++i) d[4 * t + i] = c[i];
}
extern "C" __global__ void mma_s8(const unsigned* a, const unsigned* b, int* d) {
  unsigned t = threadIdx.x;
  int c[4] = {0, 0, 0, 0};
  asm volatile("mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
               : "+r"(c[0]), "+r"(c[1]), "+r"(c[2]), "+r"(c[3])
               : "r"(a[4 * t]), "r"(a[4 * t + 1]), "r"(a[4 * t + 2]), "r"(a[4 * t + 3]), "r"(b[2 * t]), "r"(b[2 * t + 1]));
  for (int i = 0; i < 4; ++i) d[4 * t + i] = c[i];
}
extern "C" __global__ void load_matrix(const uint4* in, uint4* out) {
  __shared__ uint4 s[32];
  s[threadIdx.x] = in[threadIdx.x];
  __syncthreads();
  unsigned at = (unsigned)__cvta_generic_to_shared(&s[threadIdx.x]);
  uint4 r;
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];" : "=r"(r.x), "=r"(r.y), "=r"(r.z), "=r"(r.w) : "r"(at));
  out[threadIdx.x] = r;
}
extern "C" __global__ void texture_fetch(cudaTextureObject_t t, float* out) { out[threadIdx.x] = tex2D<float>(t, threadIdx.x + 0.5f, 0.5f); }
extern "C" __global__ void surface_write(cudaSurfaceObject_t s) { surf2Dwrite(1.0f, s, threadIdx.x * 4, 0); }
