// What an expert writes in place of launches: `fused_*`, one grid whose block b does task b, and `gemtc_*`, a resident
// kernel whose blocks take tasks from one queue in global memory (Krieder et al., GeMTC). The bodies are the kernels'.
#include "kernels.cu"

namespace {

// A task in a table or in the queue; the layout is `Record` of problem.h.
struct Record {
  uint4 parameters[3];  // of the kernel
  int kind, threads, reserved[2];
};
struct Queue {
  unsigned head, done;  // tickets taken, tasks done
  unsigned tail;        // tasks that the host has sent; the highest bit: leave
  unsigned reserved;
};
constexpr unsigned kLeave = 0x80000000u;

struct Mandelbrot {
  struct Parameters {
    unsigned char* image;
    int size, limit;
    float left, top, step;
  };
  static __device__ __forceinline__ void run(const Parameters& p, int thread, int threads) {
    mandelbrot_body(p.image, p.size, p.limit, p.left, p.top, p.step, thread, threads);
  }
};
struct ProductParameters {
  const float *a, *b;
  float* c;
  int n;
};
struct ProductTiled {
  using Parameters = ProductParameters;
  static __device__ __forceinline__ void run(const Parameters& p, int thread, int threads) {
    product_tiled_body(p.a, p.b, p.c, p.n, thread, threads);
  }
};
struct ProductPlain {
  using Parameters = ProductParameters;
  static __device__ __forceinline__ void run(const Parameters& p, int thread, int threads) {
    product_plain_body(p.a, p.b, p.c, p.n, thread, threads);
  }
};
struct FilterBank {
  struct Parameters {
    const float *signal, *analysis, *synthesis;
    float *scratch, *out;
    int width;
  };
  static __device__ __forceinline__ void run(const Parameters& p, int thread, int threads) {
    filter_bank_body(p.signal, p.analysis, p.synthesis, p.scratch, p.out, p.width, thread, threads);
  }
};
struct BeamFormer {
  struct Parameters {
    const float2 *samples, *taps;
    float* out;
    int width;
    float steer_re, steer_im;
  };
  static __device__ __forceinline__ void run(const Parameters& p, int thread, int threads) {
    beam_former_body(p.samples, p.taps, p.out, p.width, p.steer_re, p.steer_im, thread, threads);
  }
};
struct TripleDes {
  struct Parameters {
    const uint2* in;
    uint2* out;
    const uint2* schedule;
    const unsigned* boxes;
    int blocks;
  };
  static __device__ __forceinline__ void run(const Parameters& p, int thread, int threads) {
    triple_des_body(p.in, p.out, p.schedule, p.boxes, p.blocks, thread, threads);
  }
};
struct CosineParameters {
  const float* in;
  float* out;
  int size;
};
struct Cosine {
  using Parameters = CosineParameters;
  static __device__ __forceinline__ void run(const Parameters& p, int thread, int threads) {
    cosine_body(p.in, p.out, p.size, thread, threads);
  }
};
struct CosineShared {
  using Parameters = CosineParameters;
  static __device__ __forceinline__ void run(const Parameters& p, int thread, int threads) {
    cosine_shared_body(p.in, p.out, p.size, thread, threads);
  }
};
struct Convolution {
  struct Parameters {
    const float *in, *weights;
    float* out;
    int size;
  };
  static __device__ __forceinline__ void run(const Parameters& p, int thread, int threads) {
    convolution_body(p.in, p.weights, p.out, p.size, thread, threads);
  }
};

// With a stamp of each warp (kernels.cu).
struct ProductStampedParameters {
  const float *a, *b;
  float* c;
  int n;
  ulonglong2* stamps;
};
struct ProductTiledStamped {
  using Parameters = ProductStampedParameters;
  static __device__ __forceinline__ void run(const Parameters& p, int thread, int threads) {
    const unsigned long long begin = now();
    product_tiled_body(p.a, p.b, p.c, p.n, thread, threads);
    stamp(p.stamps, thread, begin);
  }
};
struct ProductPlainStamped {
  using Parameters = ProductStampedParameters;
  static __device__ __forceinline__ void run(const Parameters& p, int thread, int threads) {
    const unsigned long long begin = now();
    product_plain_body(p.a, p.b, p.c, p.n, thread, threads);
    stamp(p.stamps, thread, begin);
  }
};
struct CosineStampedParameters {
  const float* in;
  float* out;
  int size;
  ulonglong2* stamps;
};
struct CosineStamped {
  using Parameters = CosineStampedParameters;
  static __device__ __forceinline__ void run(const Parameters& p, int thread, int threads) {
    const unsigned long long begin = now();
    cosine_body(p.in, p.out, p.size, thread, threads);
    stamp(p.stamps, thread, begin);
  }
};
struct CosineSharedStamped {
  using Parameters = CosineStampedParameters;
  static __device__ __forceinline__ void run(const Parameters& p, int thread, int threads) {
    const unsigned long long begin = now();
    cosine_shared_body(p.in, p.out, p.size, thread, threads);
    stamp(p.stamps, thread, begin);
  }
};

// Past the first-level cache: the host writes records while the kernel runs.
__device__ __forceinline__ uint4 load_fresh(const uint4* from) {
  uint4 v;
  asm volatile("ld.relaxed.gpu.global.v4.u32 {%0, %1, %2, %3}, [%4];"
               : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
               : "l"(from)
               : "memory");
  return v;
}

template <typename Kind>
__device__ __forceinline__ void run_record(const uint4 (&raw)[3], int thread, int threads) {
  typename Kind::Parameters parameters;
  static_assert(sizeof parameters <= sizeof raw);
  memcpy(&parameters, raw, sizeof parameters);
  Kind::run(parameters, thread, threads);
}

// The kinds by number: the order is the order of a problem's kinds.
template <typename... Kinds>
__device__ __forceinline__ void run_kind(int kind, const uint4 (&raw)[3], int thread, int threads) {
  int number = 0;
  ((kind == number++ ? run_record<Kinds>(raw, thread, threads) : static_cast<void>(0)), ...);
}

template <typename... Kinds>
__device__ __forceinline__ void fused(const Record* records) {
  const Record& record = records[blockIdx.x];
  const int thread = static_cast<int>(threadIdx.x), threads = record.threads;
  if (thread >= threads) return;  // whole warps
  const uint4 raw[3] = {record.parameters[0], record.parameters[1], record.parameters[2]};
  run_kind<Kinds...>(record.kind, raw, thread, threads);
}

// The host is told of the end of a batch by `done_on_host`.
template <typename... Kinds>
__device__ __forceinline__ void gemtc(Queue* queue, const Record* records, volatile unsigned* done_on_host) {
  __shared__ unsigned taken, sent;
  const int thread = static_cast<int>(threadIdx.x);
  for (;;) {
    if (thread == 0) {
      taken = atomicAdd(&queue->head, 1u);
      unsigned tail = 0;
      for (;;) {
        asm volatile("ld.acquire.gpu.global.u32 %0, [%1];" : "=r"(tail) : "l"(&queue->tail) : "memory");
        if (taken < (tail & ~kLeave) || (tail & kLeave) != 0) break;
        __nanosleep(100);
      }
      sent = tail & ~kLeave;
    }
    __syncthreads();
    if (taken >= sent) return;
    const uint4* at = reinterpret_cast<const uint4*>(records + taken);
    const uint4 raw[3] = {load_fresh(at), load_fresh(at + 1), load_fresh(at + 2)};
    // A worker is as wide as it is: the record's count of threads is for the other forms.
    run_kind<Kinds...>(static_cast<int>(load_fresh(at + 3).x), raw, thread, static_cast<int>(blockDim.x));
    __syncthreads();
    if (thread == 0) {
      __threadfence_system();
      if (atomicAdd(&queue->done, 1u) + 1 == sent) *done_on_host = sent;
    }
  }
}

}  // namespace

// At most 32 registers a thread, so that the blocks of the resident kernel fill a multiprocessor.
#define BY_HAND(name, ...)                                                                                     \
  extern "C" __global__ void fused_##name(const Record* records) { fused<__VA_ARGS__>(records); }              \
  extern "C" __global__ void __launch_bounds__(128, 16)                                                        \
      gemtc_##name(Queue* queue, const Record* records, volatile unsigned* done_on_host) {                     \
    gemtc<__VA_ARGS__>(queue, records, done_on_host);                                                          \
  }

BY_HAND(mandelbrot, Mandelbrot)
BY_HAND(product_tiled, ProductTiled)
BY_HAND(product_plain, ProductPlain)
BY_HAND(filter_bank, FilterBank)
BY_HAND(beam_former, BeamFormer)
BY_HAND(triple_des, TripleDes)
BY_HAND(cosine, Cosine)
BY_HAND(cosine_shared, CosineShared)
BY_HAND(convolution, Convolution)
BY_HAND(mixed, TripleDes, Mandelbrot, FilterBank, ProductTiled)

#define FUSED(name, ...) \
  extern "C" __global__ void fused_##name(const Record* records) { fused<__VA_ARGS__>(records); }

FUSED(product_tiled_stamped, ProductTiledStamped)
FUSED(product_plain_stamped, ProductPlainStamped)
FUSED(cosine_stamped, CosineStamped)
FUSED(cosine_shared_stamped, CosineSharedStamped)
