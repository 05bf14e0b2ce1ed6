// Pools of narrow tasks by a session, on the CPU device or on $PERGOLA_DEVICE: every task runs once and sees itself,
// whatever runs beside it.
#include "src/session/task_pool.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cstdlib>
#include <cstring>
#include <random>
#include <thread>

#include "src/runtime/runtime.h"
#include "src/session/session.h"

namespace pergola::runtime {
namespace {

using session::Argument;
using session::ArrayArgument;
using session::Number;
using Words = std::vector<std::uint32_t>;

constexpr char kSource[] = R"(
extern "C" __global__ void mark(unsigned* counts, unsigned n) {
  unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) atomicAdd(counts + i, 1u);
}
extern "C" __global__ void add_at(unsigned* counts, unsigned at) { if (threadIdx.x == 0) atomicAdd(counts + at, 1u); }
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
extern "C" __global__ void scale(float* x, float by, unsigned n) {
  unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) x[i] *= by;
}
)";

class TaskPoolTest : public testing::Test {
 protected:
  void SetUp() override {
#if defined(PERGOLA_TSAN)
    GTEST_SKIP() << "TSan does not connect the device half's fences with the host; executor_test has the host's half.";
#endif
    const char* device = std::getenv("PERGOLA_DEVICE");  // cpu, unless somebody asks for a GPU
    auto made = create_session(device == nullptr ? "cpu" : device, "");
    ASSERT_TRUE(made.ok()) << made.message();
    session_ = *made;
    auto module = session_->load_text(kSource, {});
    ASSERT_TRUE(module.ok()) << module.message();
    module_ = *module;
  }
  void make_pool(session::TaskPoolOptions options = {}) {
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
  static Words read(const session::ArrayPtr& array) {
    Words values(array->count());
    const Status status = array->read(0, std::as_writable_bytes(std::span(values)));
    EXPECT_TRUE(status.ok()) << status.message();
    return values;
  }
  static Argument number(std::uint32_t value) { return Number{session::ElementType::kU32, value}; }

  session::SessionPtr session_;
  session::ModulePtr module_;
  session::TaskPoolPtr pool_;
};

TEST_F(TaskPoolTest, OneTask_RunsAndIsWaitedFor) {
  make_pool();
  const auto counts = words(100);
  const auto mark = kind("mark", {1, 1, 1}, {100, 1, 1});
  const auto id = mark->spawn(std::vector<Argument>{ArrayArgument{counts}, number(100)});
  ASSERT_TRUE(id.ok()) << id.message();
  ASSERT_TRUE(pool_->wait(*id, std::chrono::seconds(20)).ok());
  EXPECT_TRUE(*pool_->check(*id));
  EXPECT_THAT(read(counts), testing::Each(1u));
  EXPECT_EQ(pool_->info().spawned, 1u);
}

TEST_F(TaskPoolTest, EveryTaskRunsOnce) {
  make_pool();
  constexpr std::uint32_t kTasks = 5000;
  const auto counts = words(kTasks);
  const auto add = kind("add_at", {1, 1, 1}, {32, 1, 1});
  for (std::uint32_t n = 0; n < kTasks; ++n)
    ASSERT_TRUE(add->spawn(std::vector<Argument>{ArrayArgument{counts}, number(n)}).ok());
  EXPECT_THAT(read(counts), testing::Each(1u));  // a read waits for tasks that were given the array
}

TEST_F(TaskPoolTest, Blocks_HaveBarriersAndSharedMemory) {
  make_pool();
  for (const auto& [block, blocks] : {std::pair{device::Dim3{128, 1, 1}, 1u},
                                      {device::Dim3{100, 1, 1}, 3u},
                                      {device::Dim3{8, 9, 1}, 7u},
                                      {device::Dim3{992, 1, 1}, 2u}}) {
    const auto all = static_cast<std::uint32_t>(block.count());
    constexpr std::uint32_t kTasks = 40;
    const auto in = words(all * blocks * kTasks), out = words(all * blocks * kTasks);
    Words values(in->count());
    for (std::size_t n = 0; n < values.size(); ++n) values[n] = static_cast<std::uint32_t>(n * 7);
    ASSERT_TRUE(in->write(0, std::as_bytes(std::span(values))).ok());
    const auto turn = kind("turn", {blocks, 1, 1}, block);
    std::vector<session::TaskId> ids;
    for (std::uint32_t n = 0; n < kTasks; ++n) {
      const auto id = turn->spawn(std::vector<Argument>{ArrayArgument{out}, ArrayArgument{in}, number(n * blocks)});
      ASSERT_TRUE(id.ok()) << id.message();
      ids.push_back(*id);
    }
    for (const session::TaskId id : ids) ASSERT_TRUE(pool_->wait(id, std::chrono::seconds(20)).ok());
    Words expected(values.size());
    for (std::uint32_t n = 0; n < expected.size(); ++n)
      expected[n] = values[n / all * all + (all - 1 - n % all)] * 3 + 1;
    EXPECT_EQ(read(out), expected) << all << " threads";
  }
}

TEST_F(TaskPoolTest, LanesThatReturn_AndDynamicSharedMemory) {
  make_pool();
  constexpr std::uint32_t kTasks = 60, kN = 77;
  const auto out = words(kTasks * 128);
  const auto early = kind("early", {1, 1, 1}, {128, 1, 1}, 4096);
  for (std::uint32_t n = 0; n < kTasks; ++n)
    ASSERT_TRUE(early->spawn(std::vector<Argument>{ArrayArgument{out}, number(kN), number(n)}).ok());
  const Words got = read(out);
  for (std::uint32_t n = 0; n < kTasks; ++n)
    for (std::uint32_t t = 0; t < 128; ++t) ASSERT_EQ(got[n * 128 + t], t < kN ? kN - 1 - t + n : 0) << n << " " << t;
}

TEST_F(TaskPoolTest, ParametersBeyondARecord) {
  make_pool();
  constexpr std::uint32_t kTasks = 300;
  const auto out = words(kTasks * 40);
  const auto large = kind("large", {1, 1, 1}, {40, 1, 1});
  for (std::uint32_t n = 0; n < kTasks; ++n) {
    std::uint32_t values[40];
    for (std::uint32_t i = 0; i < 40; ++i) values[i] = n * 1000 + i;
    ASSERT_TRUE(large
                    ->spawn(std::vector<Argument>{ArrayArgument{out},
                                                  session::BytesArgument{std::as_bytes(std::span(values))}, number(n)})
                    .ok());
  }
  const Words got = read(out);
  for (std::uint32_t n = 0; n < got.size(); ++n) ASSERT_EQ(got[n], n / 40 * 1001 + n % 40);
}

TEST_F(TaskPoolTest, Packed_HighBitsOfEveryWordArrive) {
  make_pool();
  const auto out = words(64);
  const auto mark = kind("mark", {1, 1, 1}, {64, 1, 1});
  struct {
    std::uint64_t counts;
    std::uint32_t n, rest;
  } parameters{out->address(), 0x80000040u, 0};
  const auto bytes = std::as_bytes(std::span(&parameters, 1));
  for (int n = 0; n < 600; ++n) {  // both phases
    const auto id = mark->spawn_packed(bytes.first(12));
    ASSERT_TRUE(id.ok()) << id.message();
    ASSERT_TRUE(pool_->wait(*id).ok());
  }
  EXPECT_FALSE(mark->spawn_packed(bytes).ok());
  EXPECT_THAT(read(out), testing::Each(600u));
}

TEST_F(TaskPoolTest, ParkAndStartAgain_LosesNothing) {
  make_pool({.blocks = 0, .park_after = std::chrono::microseconds(100)});
  constexpr std::uint32_t kTasks = 2000;
  const auto counts = words(kTasks);
  const auto add = kind("add_at", {1, 1, 1}, {64, 1, 1});
  std::atomic<bool> over{false};
  std::thread parker([&] {
    while (!over) {
      EXPECT_TRUE(pool_->park().ok());
      std::this_thread::sleep_for(std::chrono::microseconds(300));
    }
  });
  for (std::uint32_t n = 0; n < kTasks; ++n)
    EXPECT_TRUE(add->spawn(std::vector<Argument>{ArrayArgument{counts}, number(n)}).ok());
  EXPECT_TRUE(pool_->wait_all(std::chrono::seconds(60)).ok());
  over = true;
  parker.join();
  EXPECT_THAT(read(counts), testing::Each(1u));
  EXPECT_GT(pool_->info().launches, 1u);
}

TEST_F(TaskPoolTest, OtherWorkOnAnArray_ComesAfterItsTasks_AndTasksAfterIt) {
  make_pool();
  constexpr std::uint32_t kN = 10000;
  auto array = session_->allocate(session::ElementType::kF32, 0, kN);
  ASSERT_TRUE(array.ok());
  const float one = 1;
  ASSERT_TRUE((*array)->fill(std::as_bytes(std::span(&one, 1))).ok());
  const auto scale = kind("scale", {10, 1, 1}, {500, 1, 1});
  auto kernel = module_->kernel("scale");
  ASSERT_TRUE(kernel.ok());
  const auto arguments = [&](float by) {
    std::uint32_t bits;
    std::memcpy(&bits, &by, 4);
    return std::vector<Argument>{ArrayArgument{*array}, Number{session::ElementType::kF32, bits}, number(kN)};
  };
  session::LaunchShape shape;
  shape.grid = {20, 1, 1}, shape.block = {500, 1, 1};
  for (int round = 0; round < 5; ++round) {
    ASSERT_TRUE((*kernel)->launch(shape, arguments(3)).ok());
    const auto id = scale->spawn(arguments(2));  // half of the array
    ASSERT_TRUE(id.ok()) << id.message();
  }
  std::vector<float> got(kN);
  ASSERT_TRUE((*array)->read(0, std::as_writable_bytes(std::span(got))).ok());
  for (std::uint32_t n = 0; n < kN; ++n) ASSERT_EQ(got[n], n < 5000 ? 243.f * 32 : 243.f) << n;
}

TEST_F(TaskPoolTest, ManyThreads_RandomMixes_EveryTaskOnce) {
  const auto seed = std::random_device()();
  SCOPED_TRACE(testing::Message() << "seed " << seed);
  make_pool();
  constexpr std::uint32_t kThreads = 4, kTasks = 400;
  const auto counts = words(kThreads * kTasks), out = words(kThreads * kTasks * 128);
  const auto in = words(kThreads * kTasks * 128, 5);
  std::vector<session::TaskKindPtr> adds, turns, marks;
  for (const std::uint32_t threads : {1u, 31u, 32u, 33u, 96u, 500u, 992u})
    adds.push_back(kind("add_at", {1, 1, 1}, {threads, 1, 1}));
  turns.push_back(kind("turn", {1, 1, 1}, {128, 1, 1}));
  turns.push_back(kind("turn", {1, 1, 1}, {16, 8, 1}));
  std::vector<std::thread> threads;
  for (std::uint32_t t = 0; t < kThreads; ++t)
    threads.emplace_back([&, t] {
      std::mt19937 random(seed + t);
      for (std::uint32_t n = 0; n < kTasks; ++n) {
        const std::uint32_t at = t * kTasks + n;
        auto id = adds[random() % adds.size()]->spawn(std::vector<Argument>{ArrayArgument{counts}, number(at)});
        ASSERT_TRUE(id.ok()) << id.message();
        if (random() % 3 == 0)
          id = turns[random() % 2]->spawn(std::vector<Argument>{ArrayArgument{out}, ArrayArgument{in}, number(at)});
        ASSERT_TRUE(id.ok()) << id.message();
        if (random() % 8 == 0) {
          ASSERT_TRUE(pool_->wait(*id).ok());
        }
      }
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_THAT(read(counts), testing::Each(1u));
  EXPECT_THAT(read(out), testing::Each(testing::AnyOf(0u, 16u)));
}

TEST_F(TaskPoolTest, FillsAndCopies_OfAnArrayWithOpenTasks) {
  make_pool();
  const auto counts = words(64), others = words(64, 7);
  const auto mark = kind("mark", {1, 1, 1}, {64, 1, 1});
  const std::vector<Argument> arguments{ArrayArgument{counts}, number(64)};
  const std::uint32_t nine = 9;
  for (int round = 0; round < 20; ++round) {
    ASSERT_TRUE(mark->spawn(arguments).ok());
    ASSERT_TRUE(counts->fill(std::as_bytes(std::span(&nine, 1))).ok());
    ASSERT_TRUE(mark->spawn(arguments).ok());
    EXPECT_THAT(read(counts), testing::Each(10u));
    ASSERT_TRUE(mark->spawn(arguments).ok());
    ASSERT_TRUE(counts->copy_from(0, others, 0, 256).ok());
    ASSERT_TRUE(mark->spawn(arguments).ok());
    EXPECT_THAT(read(counts), testing::Each(8u));
  }
}

TEST_F(TaskPoolTest, FewRingsAndManyThreads) {
  make_pool({.blocks = 1, .park_after = {}});
  constexpr std::uint32_t kThreads = 6, kTasks = 50;
  const auto counts = words(kThreads * kTasks);
  const auto add = kind("add_at", {1, 1, 1}, {992, 1, 1});
  std::vector<std::thread> threads;
  for (std::uint32_t t = 0; t < kThreads; ++t)
    threads.emplace_back([&, t] {
      for (std::uint32_t n = 0; n < kTasks; ++n)
        ASSERT_TRUE(add->spawn(std::vector<Argument>{ArrayArgument{counts}, number(t * kTasks + n)}).ok());
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_THAT(read(counts), testing::Each(1u));
}

TEST_F(TaskPoolTest, LaunchesAndTasks_OfTwoThreads_BothGoOn) {
  make_pool();
  const auto mine = words(64), others = words(64);
  const auto mark = kind("mark", {1, 1, 1}, {64, 1, 1});
  auto kernel = module_->kernel("mark");
  ASSERT_TRUE(kernel.ok());
  std::thread launches([&] {
    session::LaunchShape shape;
    shape.grid = {1, 1, 1}, shape.block = {64, 1, 1};
    for (int n = 0; n < 100; ++n)
      ASSERT_TRUE((*kernel)->launch(shape, std::vector<Argument>{ArrayArgument{others}, number(64)}).ok());
    EXPECT_THAT(read(others), testing::Each(100u));
  });
  for (int n = 0; n < 1000; ++n) {
    const auto id = mark->spawn(std::vector<Argument>{ArrayArgument{mine}, number(64)});
    ASSERT_TRUE(id.ok()) << id.message();
    if (n % 50 == 0) {
      ASSERT_TRUE(pool_->wait(*id).ok());
    }
  }
  launches.join();
  EXPECT_THAT(read(mine), testing::Each(1000u));
}

TEST_F(TaskPoolTest, TheSameShapeAgain_TakesNoNewKind) {
  make_pool();
  for (int n = 0; n < 5000; ++n) ASSERT_NE(kind("mark", {1, 1, 1}, {64, 1, 1}), nullptr) << n;
}

TEST_F(TaskPoolTest, WhatCannotBe_IsRefusedByName) {
  make_pool();
  auto kernel = module_->kernel("mark");
  session::LaunchShape shape;
  shape.block = {1024, 1, 1};
  EXPECT_THAT(pool_->prepare(*kernel, shape).message(), testing::HasSubstr("992 threads"));
  shape.block = {64, 1, 1};
  shape.grid = {0, 1, 1};
  EXPECT_THAT(pool_->prepare(*kernel, shape).message(), testing::HasSubstr("0 blocks"));
  shape.grid = {1, 1, 1};
  shape.dynamic_shared_bytes = 200 * 1024;
  EXPECT_THAT(pool_->prepare(*kernel, shape).message(), testing::HasSubstr("shared memory"));
  shape.dynamic_shared_bytes = 0xffffffc0u;
  EXPECT_THAT(pool_->prepare(*kernel, shape).message(), testing::HasSubstr("shared memory"));
  shape.dynamic_shared_bytes = 0;
  shape.grid = {1u << 31, 1u << 31, 4};
  EXPECT_THAT(pool_->prepare(*kernel, shape).message(), testing::HasSubstr("blocks at most"));
  EXPECT_THAT(pool_->check(0).message(), testing::HasSubstr("no id"));
  EXPECT_THAT(pool_->wait(12345, std::nullopt).message(), testing::HasSubstr("no id"));
}

}  // namespace
}  // namespace pergola::runtime
