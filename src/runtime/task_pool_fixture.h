// For tests: a pool of narrow tasks on the CPU device or on $PERGOLA_DEVICE, and kernels for it.
#pragma once

#include <gtest/gtest.h>

#include <cstdlib>
#include <string>
#include <vector>

#include "src/runtime/runtime.h"
#include "src/runtime/test_arrays.h"
#include "src/session/session.h"
#include "src/session/task_pool.h"

namespace pergola::runtime {

using TaskWords = std::vector<std::uint32_t>;

inline constexpr char kTaskKernels[] = R"(
extern "C" __global__ void mark(unsigned* counts, unsigned n) {
  unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) atomicAdd(counts + i, 1u);
}
extern "C" __global__ void add_at(unsigned* counts, unsigned at) {
  if (threadIdx.x + threadIdx.y + threadIdx.z == 0) atomicAdd(counts + at, 1u);
}
extern "C" __global__ void turn(unsigned* out, const unsigned* in, unsigned at) {  // of a block's values, by barriers
  __shared__ unsigned values[992];
  unsigned t = threadIdx.y * blockDim.x + threadIdx.x, all = blockDim.x * blockDim.y;
  out += (at + blockIdx.x) * all; in += (at + blockIdx.x) * all;
  values[t] = in[t];
  __syncthreads();
  unsigned value = values[all - 1 - t];
  __syncthreads();
  values[t] = value * 3 + 1;
  __syncthreads();
  out[t] = values[t];
}
extern "C" __global__ void early(unsigned* out, unsigned n, unsigned at) {  // returns before a barrier
  extern __shared__ unsigned more[];
  unsigned t = threadIdx.x;
  if (t >= n) return;
  more[t] = t + at;
  __syncthreads();
  out[at * 128 + t] = more[n - 1 - t];
}
struct Many { unsigned values[40]; };
extern "C" __global__ void large(unsigned* out, Many many, unsigned at) { out[at * 40 + threadIdx.x] = many.values[threadIdx.x] + at; }
// Fails as `how` says: 1, 2.
extern "C" __global__ void may_fail(unsigned* counts, unsigned at, unsigned how) {
  if (threadIdx.x != 0) return;
  if (how == 1) __trap();
  if (how == 2) counts[1u << 30] = 1;
  atomicAdd(counts + at, 1u);
}
extern "C" __global__ void in_order(unsigned* order, unsigned* next, unsigned at, unsigned steps) {
  unsigned value = at;
  for (unsigned n = 0; n < steps; ++n) value = value * 1664525u + 1013904223u;
  order[at] = atomicAdd(next, 1u) + (value == 12345u && next[0] == 0);  // which it is not: the loop stays
}
extern "C" __global__ void mark_after(unsigned* counts, unsigned first, unsigned steps) {  // warps take unlike times
  const unsigned i = first + blockIdx.x * blockDim.x + threadIdx.x;
  unsigned value = i;
  for (unsigned n = 0; n < steps * (i / 32 % 5); ++n) value = value * 1664525u + 1013904223u;
  if (value != 12345u || counts[i] != ~0u) atomicAdd(counts + i, 1u);  // always: the loop stays
}
extern "C" __global__ void wait_for(const volatile unsigned* stop, unsigned* counts, unsigned at) {
  while (*stop == 0) {}
  if (threadIdx.x == 0) atomicAdd(counts + at, 1u);
}
extern "C" __global__ void scale(float* x, float by, unsigned n) {
  unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) x[i] *= by;
}
)";

class TaskPoolFixture : public testing::TestWithParam<session::TaskExecutor>, protected TestArrays {
 protected:
  // What PERGOLA_DEVICE says; cpu, unless somebody asks for a GPU.
  static std::string device_name() {
    const char* const device = std::getenv("PERGOLA_DEVICE");
    return device == nullptr ? "cpu" : device;
  }
  bool is_resident() const { return GetParam() == session::TaskExecutor::kResident; }
  void SetUp() override {
#if defined(PERGOLA_TSAN)
    if (is_resident())
      GTEST_SKIP()
          << "TSan does not connect the device half's fences with the host; executor_test has the host's half.";
#endif
    auto made = create_session(device_name(), "");
    ASSERT_TRUE(made.ok()) << made.message();
    session_ = *made;
    if (!is_resident() && device_name() != "cpu") GTEST_SKIP() << "only the CPU device has threads that run tasks";
    auto module = session_->load_text(kTaskKernels, {});
    ASSERT_TRUE(module.ok()) << module.message();
    module_ = *module;
  }
  void make_pool(session::TaskPoolOptions options = {}) {
    options.executor = GetParam();
    auto pool = session_->task_pool(options);
    ASSERT_TRUE(pool.ok()) << pool.message();
    pool_ = *pool;
  }
  session::TaskKindPtr kind(const char* name, device::Dim3 grid, device::Dim3 block, std::uint32_t shared = 0) {
    auto kernel = module_->kernel(name);
    EXPECT_TRUE(kernel.ok()) << kernel.message();
    session::LaunchShape shape;
    shape.grid = grid, shape.block = block, shape.dynamic_shared_bytes = shared;
    auto made = pool_->prepare(*kernel, shape);
    EXPECT_TRUE(made.ok()) << made.message();
    return made.ok() ? *made : nullptr;
  }
  session::ArrayPtr words(std::size_t count, std::uint32_t value = 0) {
    auto array = session_->allocate(session::ElementType::kU32, 0, count);
    EXPECT_TRUE(array.ok());
    EXPECT_TRUE((*array)->fill(std::as_bytes(std::span(&value, 1))).ok());
    return *array;
  }

  session::SessionPtr session_;
  session::ModulePtr module_;
  session::TaskPoolPtr pool_;
};

}  // namespace pergola::runtime
