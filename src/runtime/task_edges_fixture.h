// For tests: sessions whose pool's edges (task_edges.h) are looked at. Kernels wait for a word that the host writes, so
// that what is asserted is order and not time.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cstdlib>
#include <string>
#include <thread>
#include <vector>

#include "src/runtime/runtime.h"
#include "src/runtime/test_arrays.h"
#include "src/session/session.h"
#include "src/session/task_pool.h"
#include "tests/support/sanitized.h"

namespace pergola::runtime::task_edges_testing {

using session::Argument;
using session::ArrayArgument;
using session::Number;
using session::TaskExecutor;
using testing::HasSubstr;
using namespace std::chrono_literals;
using Words = std::vector<std::uint32_t>;

using test_support::kSanitized;

inline constexpr char kEdgesSource[] = R"(
extern "C" __global__ void wait_and_set(unsigned* x, const unsigned* flag, unsigned n, unsigned value) {
  while (*(const volatile unsigned*)flag == 0) ;
  for (unsigned i = threadIdx.x; i < n; i += blockDim.x) x[i] = value;
}
// One thread: sums and products of words show in which order kernels came.
extern "C" __global__ void step(unsigned* x, unsigned n, unsigned by, unsigned plus) {
  for (unsigned i = threadIdx.x; i < n; i += blockDim.x) x[i] = x[i] * by + plus;
}
extern "C" __global__ void add_to(unsigned* y, const unsigned* x, unsigned n) {
  for (unsigned i = threadIdx.x; i < n; i += blockDim.x) y[i] = y[i] * 3 + x[i];
}
extern "C" __global__ void slow_step(unsigned* x, unsigned n, unsigned by, unsigned plus, unsigned steps) {
  unsigned value = threadIdx.x;
  for (unsigned s = 0; s < steps; ++s) value = value * 1664525u + 1013904223u;
  for (unsigned i = threadIdx.x; i < n; i += blockDim.x) x[i] = x[i] * by + plus + (value == 12345u && steps == 54321u);
}
extern "C" __global__ void rank(unsigned* order, unsigned* next, const unsigned* x, unsigned at) {
  if (threadIdx.x == 0) order[at] = atomicAdd(next, 1u) + (x[0] == 12345u);
}
extern "C" __global__ void count(unsigned* counts, const unsigned* x, unsigned at) {
  if (threadIdx.x == 0) atomicAdd(counts + at, 1u + (x[0] == 12345u));
}
extern "C" __global__ void through(unsigned long long at, unsigned by) {  // may use any array
  if (threadIdx.x == 0) *(unsigned*)at = *(unsigned*)at * by + 1;
}
extern "C" __global__ void computes(unsigned* x, unsigned steps) {
  unsigned value = threadIdx.x;
  for (unsigned s = 0; s < steps; ++s) value = value * 1664525u + 1013904223u;
  x[threadIdx.x] = value;
}
extern "C" __global__ void fails(unsigned* x, const unsigned* flag) {
  while (*(const volatile unsigned*)flag == 0) ;
  if (threadIdx.x == 0) x[0] = 77;
  __trap();
}
)";

class TaskEdgesTest : public testing::TestWithParam<TaskExecutor>, protected TestArrays {
 protected:
  static constexpr std::uint32_t kWords = 64;

  bool is_resident() const { return GetParam() == TaskExecutor::kResident; }
  void SetUp() override {
#if defined(PERGOLA_TSAN)
    if (is_resident()) GTEST_SKIP() << "TSan does not connect the device half's fences with the host";
#endif
    if (device() != "cpu") GTEST_SKIP() << "it raises a flag in the CPU device's memory";
    open("");
  }
  static std::string device() {
    const char* given = std::getenv("PERGOLA_DEVICE");
    return given == nullptr || *given == '\0' ? "cpu" : given;
  }
  void open(std::string_view policy, session::TaskPoolOptions options = {}) {
    auto made = create_session(device(), policy);
    ASSERT_TRUE(made.ok()) << made.message();
    session_ = *made;
    auto module = session_->load_text(kEdgesSource, {});
    ASSERT_TRUE(module.ok()) << module.message();
    module_ = *module;
    options.executor = GetParam();
    auto pool = session_->task_pool(options);
    ASSERT_TRUE(pool.ok()) << pool.message();
    pool_ = *pool;
    flag_ = words(1);
  }
  void let_go() { pool_ = nullptr, module_ = nullptr, flag_ = nullptr, session_ = nullptr; }
  void TearDown() override {
    if (flag_ != nullptr && device() == "cpu") raise_flag();
  }
  session::ArrayPtr words(std::size_t count = kWords, std::uint32_t value = 0) {
    auto array = session_->allocate(session::ElementType::kU32, 0, count);
    EXPECT_TRUE(array.ok());
    EXPECT_TRUE((*array)->fill(std::as_bytes(std::span(&value, 1))).ok());
    return *array;
  }
  // The host reaches memory of the CPU device.
  void raise_flag() { raise(flag_); }
  static void raise(const session::ArrayPtr& flag) {
    std::atomic_ref(*reinterpret_cast<std::uint32_t*>(flag->address())).store(1);
  }
  // To be joined; whoever drops flag_ meanwhile may.
  std::thread raise_flag_later() {
    return std::thread([flag = flag_] {
      std::this_thread::sleep_for(20ms);
      raise(flag);
    });
  }
  static std::uint32_t peek(const session::ArrayPtr& array) {
    return std::atomic_ref(*reinterpret_cast<std::uint32_t*>(array->address())).load();
  }
  session::KernelPtr kernel(const char* name) {
    auto found = module_->kernel(name);
    EXPECT_TRUE(found.ok()) << found.message();
    return *found;
  }
  static session::LaunchShape shape() { return {.grid = {1, 1, 1}, .block = {32, 1, 1}}; }
  session::TaskKindPtr kind(const char* name) {
    auto made = pool_->prepare(kernel(name), shape());
    EXPECT_TRUE(made.ok()) << made.message();
    return made.ok() ? *made : nullptr;
  }
  Status launch(const char* name, const std::vector<Argument>& arguments) {
    return kernel(name)->launch(shape(), arguments, nullptr, nullptr);
  }
  // Sets all of `array` to `value` once the flag is up.
  Status launch_waiting(const session::ArrayPtr& array, std::uint32_t value) {
    return launch("wait_and_set", {ArrayArgument{array}, ArrayArgument{flag_},
                                   number(static_cast<std::uint32_t>(array->count())), number(value)});
  }
  static session::TaskId spawn(const session::TaskKindPtr& kind, const std::vector<Argument>& arguments) {
    const auto id = kind->spawn(arguments);
    EXPECT_TRUE(id.ok()) << id.message();
    return id.ok() ? *id : 0;
  }
  session::TaskId spawn_waiting(const session::TaskKindPtr& wait_and_set, const session::ArrayPtr& array,
                                std::uint32_t value) {
    return spawn(wait_and_set, {ArrayArgument{array}, ArrayArgument{flag_},
                                number(static_cast<std::uint32_t>(array->count())), number(value)});
  }
  static std::vector<Argument> step_of(const session::ArrayPtr& x, std::uint32_t by, std::uint32_t plus) {
    return {ArrayArgument{x}, number(static_cast<std::uint32_t>(x->count())), number(by), number(plus)};
  }

  session::SessionPtr session_;
  session::ModulePtr module_;
  session::TaskPoolPtr pool_;
  session::ArrayPtr flag_;
};

}  // namespace pergola::runtime::task_edges_testing
