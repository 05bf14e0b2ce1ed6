// Half and bfloat16 arithmetic through the toolkit's headers.
//! arch: 80
//! clang: no: cuda_fp16.h and cuda_bf16.h are the toolkit's
#include <cuda_bf16.h>
#include <cuda_fp16.h>
extern "C" __global__ void half_arithmetic(__half* a, const __half* b) {
  __half x = a[threadIdx.x], y = b[threadIdx.x];
  a[threadIdx.x] = __hadd(__hmul(x, y), __hsub(x, y));
}
extern "C" __global__ void half2_fused(__half2* a, const __half2* b, const __half2* c) { a[threadIdx.x] = __hfma2(a[threadIdx.x], b[threadIdx.x], c[threadIdx.x]); }
extern "C" __global__ void half_axpy(int n, float a, const __half* x, float* y) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] += a * __half2float(x[i]);
}
extern "C" __global__ void half_compare(const __half* a, const __half* b, int* out) { out[threadIdx.x] = __hlt(a[threadIdx.x], b[threadIdx.x]) + 2 * __heq(a[threadIdx.x], b[threadIdx.x]); }
extern "C" __global__ void half_convert(const float* in, __half* out) { out[threadIdx.x] = __float2half_rn(in[threadIdx.x]); }
extern "C" __global__ void half_integers(const __half* in, int* out) { out[threadIdx.x] = __half2int_rz(in[threadIdx.x]) + __half2int_rn(in[threadIdx.x]); }
extern "C" __global__ void half_math(__half* x) { x[threadIdx.x] = hsqrt(hexp(x[threadIdx.x])); }
extern "C" __global__ void half_shuffle(__half2* x) { x[threadIdx.x] = __hadd2(x[threadIdx.x], __shfl_xor_sync(0xffffffffu, x[threadIdx.x], 1)); }
extern "C" __global__ void bfloat_arithmetic(__nv_bfloat16* a, const __nv_bfloat16* b) { a[threadIdx.x] = __hfma(a[threadIdx.x], b[threadIdx.x], __float2bfloat16(0.5f)); }
extern "C" __global__ void bfloat_convert(const float* in, __nv_bfloat16* out) { out[threadIdx.x] = __float2bfloat16_rn(in[threadIdx.x]); }
extern "C" __global__ void bfloat2_widen(const __nv_bfloat162* in, float2* out) { out[threadIdx.x] = __bfloat1622float2(in[threadIdx.x]); }
extern "C" __global__ void half_atomic(__half2* sum, const __half2* in) { atomicAdd(sum, in[threadIdx.x]); }
template <typename T>
__global__ void dot_accumulate(const T* a, const T* b, float* out, int n) {
  float s = 0;
  for (int i = threadIdx.x; i < n; i += blockDim.x) s += float(a[i]) * float(b[i]);
  for (int k = 16; k > 0; k >>= 1) s += __shfl_down_sync(0xffffffffu, s, k);
  if (threadIdx.x == 0) *out = s;
}
template __global__ void dot_accumulate<__half>(const __half*, const __half*, float*, int);
template __global__ void dot_accumulate<__nv_bfloat16>(const __nv_bfloat16*, const __nv_bfloat16*, float*, int);
