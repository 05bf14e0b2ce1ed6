// Asynchronous copies and barriers of sm_80 and later, by inline PTX.
//! arch: 80
//! run async_copy grid=1 block=32 : f32[128] f32[128]=0
extern "C" __global__ void async_copy(const float4* in, float4* out) {
  __shared__ float4 s[32];
  unsigned to = (unsigned)__cvta_generic_to_shared(&s[threadIdx.x]);
  asm volatile("cp.async.ca.shared.global [%0], [%1], 16;" ::"r"(to), "l"(in + threadIdx.x) : "memory");
  asm volatile("cp.async.commit_group;" ::: "memory");
  asm volatile("cp.async.wait_group 0;" ::: "memory");
  __syncthreads();
  out[threadIdx.x] = s[31 - threadIdx.x];
}
//! run async_pipeline grid=1 block=32 : f32[256] f32[32]=0 8
extern "C" __global__ void async_pipeline(const float* in, float* out, int stages) {
  __shared__ float s[2][32];
  float sum = 0;
  auto fetch = [&](int k) {
    unsigned to = (unsigned)__cvta_generic_to_shared(&s[k & 1][threadIdx.x]);
    asm volatile("cp.async.ca.shared.global [%0], [%1], 4;" ::"r"(to), "l"(in + 32 * k + threadIdx.x) : "memory");
    asm volatile("cp.async.commit_group;" ::: "memory");
  };
  fetch(0);
  for (int k = 0; k < stages; ++k) {
    if (k + 1 < stages) {
      fetch(k + 1);
      asm volatile("cp.async.wait_group 1;" ::: "memory");
    } else {
      asm volatile("cp.async.wait_all;" ::: "memory");
    }
    __syncthreads();
    sum += s[k & 1][31 - threadIdx.x];
    __syncthreads();
  }
  out[threadIdx.x] = sum;
}
//! run memory_barrier_object grid=1 block=64 : i32[64] i32[64]=0
extern "C" __global__ void memory_barrier_object(const int* in, int* out) {
  __shared__ unsigned long long barrier;
  __shared__ int s[64];
  unsigned at = (unsigned)__cvta_generic_to_shared(&barrier);
  if (threadIdx.x == 0) asm volatile("mbarrier.init.shared.b64 [%0], 64;" ::"r"(at) : "memory");
  __syncthreads();
  for (int phase = 0; phase < 3; ++phase) {
    s[threadIdx.x] = in[threadIdx.x] + phase;
    unsigned long long state;
    asm volatile("mbarrier.arrive.shared.b64 %0, [%1];" : "=l"(state) : "r"(at) : "memory");
    int done = 0;
    while (!done)
      asm volatile("{\n\t.reg .pred p;\n\tmbarrier.test_wait.shared.b64 p, [%1], %2;\n\tselp.s32 %0, 1, 0, p;\n\t}" : "=r"(done) : "r"(at), "l"(state) : "memory");
    out[threadIdx.x] += s[63 - threadIdx.x];
    __syncthreads();
  }
}
//! run cache_policy grid=1 block=32 : f32[32] f32[32]=0
extern "C" __global__ void cache_policy(const float* in, float* out) {
  float v;
  asm volatile("ld.global.L2::128B.f32 %0, [%1];" : "=f"(v) : "l"(in + threadIdx.x));
  asm volatile("st.global.f32 [%0], %1;" ::"l"(out + threadIdx.x), "f"(v) : "memory");
}
