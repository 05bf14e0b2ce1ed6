// Tasks that leave their memory, trap or fail an assertion, on a resident kernel: each fails by itself, with words that
// say where, and the resident kernel goes on. On the CPU device or on $PERGOLA_DEVICE.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <random>

#include "src/runtime/runtime.h"
#include "src/runtime/test_arrays.h"
#include "src/session/session.h"
#include "src/session/task_pool.h"

namespace pergola::runtime {
namespace {

using session::Argument;
using session::ArrayArgument;
using session::Number;
using testing::AllOf;
using testing::HasSubstr;
using Words = std::vector<std::uint32_t>;

constexpr char kWrongKernels[] = R"(
#include <assert.h>
struct Many { unsigned values[30]; };
__device__ __noinline__ unsigned put(unsigned* to, unsigned long long at, unsigned value) { to[at] = value; return value + 1; }
__device__ __noinline__ unsigned by_generic(unsigned* p) { return *p; }
__constant__ unsigned squares[4] = {0, 1, 4, 9};
__device__ const unsigned cubes[4] = {0, 1, 8, 27};

// Marks out[at] where `how` is 0; else its thread `lane` does what is wrong.
extern "C" __global__ void plain(unsigned* out, unsigned at, unsigned how, unsigned lane) {
  const unsigned long long far = 1ull << 30;
  if (threadIdx.x == lane) {
    if (how == 1) __trap();
    if (how == 2) out[far] = 1;
    if (how == 3) out[at] = out[far];
    if (how == 4) atomicAdd(out + far, 1u);
    if (how == 5) out[at] = put(out, far, 7);
    if (how == 6) ((uint4*)out)[far] = make_uint4(1, 2, 3, 4);
    if (how == 7) *(unsigned*)(unsigned long long)(at - 107) = 1;
    if (how == 8) *(unsigned*)((char*)out + 2) = 1;
    if (how == 9) assert(at == 12345678u);
    if (how == 10) while (((volatile unsigned*)out)[far] == 0) {}
    if (how == 11) while (atomicCAS(out + far, 0u, 1u) != 1u) {}
    if (how == 12) for (unsigned n = 0; n < 100; ++n) ((volatile unsigned*)out)[far * (n & 1)] = n;
    if (how == 13) ((unsigned*)0xffff800000000000ull)[at] = 1;
    out[at] = how + 1;
  }
}
extern "C" __global__ void meets(unsigned* out, unsigned at, unsigned how) {  // blocks of 96 threads
  __shared__ unsigned values[96];
  const unsigned long long far = 1ull << 30;
  const unsigned t = threadIdx.x;
  unsigned value = t * 3 + at;
  if (how == 1 && t == 40) value = out[far];
  if (how == 2 && (t & 1)) out[far + t] = 1;
  if (how == 3 && t == 95) value = atomicAdd(out + far, 1u);
  if (how == 4 && t < 8) value = ((uint4*)(out + far))[t].x + ((uint4*)(out + far))[t].w;
  if (how == 5) value = out[far + t * 4] + out[far + t * 4 + 1] + out[far + t * 4 + 2] + out[far + t * 4 + 3];
  values[t] = value;
  __syncthreads();
  if (how == 6 && t == 33) __trap();
  value = values[95 - t] + __shfl_xor_sync(~0u, value, 1);
  if (how == 7 && t == 1) put(out, far, 1);
  __syncthreads();
  if (how == 8 && t == 2) while (((volatile unsigned*)out)[far] == 0) {}
  values[t] = value;
  __syncthreads();
  out[at * 96 + t] = values[95 - t];
  if (how == 9 && t == 64) out[far] = 2;
}
extern "C" __global__ void reads(unsigned* out, Many many, unsigned at) {  // all that is memory
  __shared__ unsigned shared[32];
  unsigned local[8];
  const unsigned t = threadIdx.x;
  for (unsigned n = 0; n < 8; ++n) local[(n + at) % 8] = n + many.values[(t + n) % 30];
  shared[t] = local[t % 8];
  __syncthreads();
  unsigned* const where[3] = {shared + (31 - t), local + t % 8, out + at * 32 + t};
  out[at * 32 + t] = 5;
  unsigned sum = 0;
  for (unsigned n = 0; n < 3; ++n) sum += by_generic(where[(n + at) % 3]);
  const unsigned* const table = at % 2 == 0 ? squares : cubes;
  out[at * 32 + t] = sum + table[t % 4] + cubes[(t + at) % 4];
}
// Loops whose accesses are checked at their begin.
extern "C" __global__ void copies(unsigned* out, const unsigned* in, int n, int stride) {
  for (int k = threadIdx.x; k < n; k += blockDim.x) {
    const int from = k * stride;
    out[k] = in[from] + 1;  // the line
    if (out[k] == 77) break;
  }
}
extern "C" __global__ void sums(unsigned* out, const unsigned* in, int n) {
  __shared__ unsigned parts[64];
  unsigned sum = 0;
  for (int k = threadIdx.x; k < n; k += blockDim.x) sum += in[n - 1 - k];
  parts[threadIdx.x] = sum;
  __syncthreads();
  for (int k = 0; k < 64; ++k) sum += parts[(threadIdx.x + k) % 64];
  out[threadIdx.x] = sum - parts[threadIdx.x];
}
)";

class TaskFencesTest : public testing::Test, protected TestArrays {
 protected:
  void SetUp() override {
#if defined(PERGOLA_TSAN)
    GTEST_SKIP() << "TSan does not connect the device half's fences with the host.";
#endif
    const char* device = std::getenv("PERGOLA_DEVICE");
    auto made = create_session(device == nullptr ? "cpu" : device, "");
    ASSERT_TRUE(made.ok()) << made.message();
    session_ = *made;
    auto module = session_->load_text(kWrongKernels, {});
    ASSERT_TRUE(module.ok()) << module.message();
    module_ = *module;
    // It does not park by itself: whoever counts launches sees that of a new kind and no other.
    session::TaskPoolOptions options;
    options.executor = session::TaskExecutor::kResident;
    options.park_after = std::chrono::seconds(100);
    auto pool = session_->task_pool(options);
    ASSERT_TRUE(pool.ok()) << pool.message();
    pool_ = *pool;
  }
  session::TaskKindPtr kind(const char* name, device::Dim3 grid, device::Dim3 block) {
    auto kernel = module_->kernel(name);
    EXPECT_TRUE(kernel.ok()) << kernel.message();
    session::LaunchShape shape;
    shape.grid = grid, shape.block = block;
    auto made = pool_->prepare(*kernel, shape);
    EXPECT_TRUE(made.ok()) << made.message();
    return made.ok() ? *made : nullptr;
  }
  session::ArrayPtr words(std::size_t count) {
    auto array = session_->allocate(session::ElementType::kU32, 0, count);
    EXPECT_TRUE(array.ok());
    const std::uint32_t zero = 0;
    EXPECT_TRUE((*array)->fill(std::as_bytes(std::span(&zero, 1))).ok());
    return *array;
  }
  static session::TaskId spawn(const session::TaskKindPtr& kind, const std::vector<Argument>& arguments) {
    const auto id = kind->spawn(arguments);
    EXPECT_TRUE(id.ok()) << id.message();
    return id.ok() ? *id : 0;
  }
  Status wait(session::TaskId id) { return pool_->wait(id, std::chrono::seconds(60)); }

  session::SessionPtr session_;
  session::ModulePtr module_;
  session::TaskPoolPtr pool_;
};

TEST_F(TaskFencesTest, WildAccessesTrapsAndAsserts_FailTheirTaskAlone_AndSayWhere) {
  const std::pair<std::uint32_t, const char*> cases[] = {
      {1, " (trap): thread (3,0,0) of block (0,0,0) traps."},
      {2, "thread (3,0,0) of block (0,0,0) writes 4 bytes at 0x"},
      {3, "reads 4 bytes at 0x"},
      {4, "reads and writes 4 bytes at 0x"},
      {5, "writes 4 bytes at 0x"},
      {6, "writes 16 bytes at 0x"},
      {7, "writes 4 bytes at 0x0,"},
      {8, ", which is no multiple of 4, at byte 2 of an array of 4096 bytes"},
      {9, "fails the assertion `at == 12345678u` at "},
      {10, "reads 4 bytes at 0x"},
      {11, "reads and writes 4 bytes at 0x"},
      {12, "writes 4 bytes at 0x"},
      {13, "writes 4 bytes at 0xffff80000000"},
  };
  const auto out = words(1024);
  const auto task = kind("plain", {1, 1, 1}, {32, 1, 1});
  ASSERT_TRUE(wait(spawn(task, {ArrayArgument{out}, number(0), number(0), number(0)})).ok());
  const std::uint64_t launches = pool_->info().launches;
  Words wanted(1024, 0);
  wanted[0] = 1;
  for (const auto& [how, text] : cases) {
    const auto bad = spawn(task, {ArrayArgument{out}, number(100 + how), number(how), number(3)});
    const auto good = spawn(task, {ArrayArgument{out}, number(200 + how), number(0), number(31)});
    wanted[200 + how] = 1;
    if (how == 5) wanted[100 + how] = 6;  // a device function's lane goes on
    if (how == 12) wanted[0] = 0;
    const Status ended = wait(bad);
    EXPECT_EQ(ended.code(), Code::kDeviceFault) << how;
    EXPECT_THAT(ended.message(),
                AllOf(HasSubstr("Task 0x"), HasSubstr("has failed: Kernel 'plain' at "), HasSubstr(text)));
    if (how != 1 && how < 7) {
      EXPECT_THAT(ended.message(), AllOf(HasSubstr("where the pool's fences know no memory"),
                                         HasSubstr("bytes past the end of an array")));
    }
    if (how == 7) {
      EXPECT_THAT(ended.message(), HasSubstr("know no memory, behind a null pointer."));
    }
    EXPECT_EQ(wait(bad).code(), Code::kDeviceFault) << "each time";
    EXPECT_EQ(pool_->check(bad).code(), Code::kDeviceFault);
    EXPECT_TRUE(wait(good).ok()) << how;
  }
  EXPECT_EQ(read(out), wanted);
  EXPECT_EQ(pool_->info().launches, launches) << "the resident kernel has gone on";
}

TEST_F(TaskFencesTest, BlocksThatMeet_EndAllTheSame) {
  constexpr std::uint32_t kWays = 10;
  const auto out = words(kWays * 2 * 96);
  const auto task = kind("meets", {1, 1, 1}, {96, 1, 1});
  ASSERT_TRUE(wait(spawn(task, {ArrayArgument{out}, number(0), number(0)})).ok());
  const std::uint64_t launches = pool_->info().launches;
  std::vector<session::TaskId> ids;
  for (std::uint32_t how = 0; how < kWays; ++how) {
    ids.push_back(spawn(task, {ArrayArgument{out}, number(2 * how), number(how)}));
    ids.push_back(spawn(task, {ArrayArgument{out}, number(2 * how + 1), number(0)}));
  }
  for (std::size_t n = 0; n < ids.size(); ++n) {
    const Status ended = wait(ids[n]);
    EXPECT_EQ(ended.code(), n % 2 == 0 && n != 0 ? Code::kDeviceFault : Code::kOk) << n << ended.message();
  }
  EXPECT_EQ(pool_->info().launches, launches);
  const Words got = read(out);
  for (std::uint32_t at = 1; at < kWays * 2; at += 2)
    for (std::uint32_t t = 0; t < 96; ++t) {
      const std::uint32_t s = 95 - t, value = (95 - s) * 3 + at + ((s ^ 1) * 3 + at);
      ASSERT_EQ(got[at * 96 + t], value) << at << " " << t;
    }
}

TEST_F(TaskFencesTest, WhatIsMemory_IsNoFault) {
  constexpr std::uint32_t kTasks = 20;
  const auto out = words(kTasks * 32), same = words(kTasks * 32);
  const auto task = kind("reads", {1, 1, 1}, {32, 1, 1});
  std::uint32_t values[30];
  for (std::uint32_t n = 0; n < 30; ++n) values[n] = n * 100;
  const auto arguments = [&](const session::ArrayPtr& to, std::uint32_t at) {
    return std::vector<Argument>{ArrayArgument{to}, session::BytesArgument{std::as_bytes(std::span(values))},
                                 number(at)};
  };
  auto kernel = module_->kernel("reads");
  session::LaunchShape shape;
  shape.block = {32, 1, 1};
  for (std::uint32_t at = 0; at < kTasks; ++at) {
    const Status ended = wait(spawn(task, arguments(out, at)));
    EXPECT_TRUE(ended.ok()) << ended.message();
    ASSERT_TRUE((*kernel)->launch(shape, arguments(same, at)).ok());
  }
  EXPECT_EQ(read(out), read(same));
}

// A body whose range is not all memory is checked access by access: who fails, where and at which line is told.
TEST_F(TaskFencesTest, AWildAccessInTheMiddleOfALoop_IsToldAsItIs) {
  if (session_->device().kind != device::DeviceKind::kCpu)
    GTEST_SKIP() << "granules of a GPU are larger than the arrays";
  constexpr std::uint32_t kWords = 4096;  // four pages
  const std::string source = kWrongKernels;
  const auto line =
      1 + std::count(source.begin(), source.begin() + static_cast<std::ptrdiff_t>(source.find("// the line")), '\n');
  const auto out = words(kWords), in = words(kWords);
  const auto one = kind("copies", {1, 1, 1}, {1, 1, 1}), many = kind("copies", {1, 1, 1}, {32, 1, 1});
  const auto arguments = [&](const session::ArrayPtr& from, std::int32_t n, std::int32_t stride) {
    return std::vector<Argument>{ArrayArgument{out}, ArrayArgument{from}, number(static_cast<std::uint32_t>(n)),
                                 number(static_cast<std::uint32_t>(stride))};
  };
  for (const auto& task : {one, many}) {
    ASSERT_TRUE(wait(spawn(task, arguments(in, kWords, 1))).ok());
    EXPECT_EQ(read(out), Words(kWords, 1));
    for (const std::int32_t n : {0, -5, 1})
      EXPECT_TRUE(wait(spawn(task, arguments(in, n, 1 << 30))).ok()) << "no round, or one";
    EXPECT_EQ(wait(spawn(task, arguments(in, 5, -4))).code(), Code::kDeviceFault) << "before the array";
  }
  // The array that is read ends at a page, in the middle of what the loop would reach.
  const std::string past = fmt::format("{:#x}, where the pool's fences know no memory", in->address() + 4 * kWords);
  const auto bad = spawn(one, arguments(in, 4 * kWords, 4));
  const auto good = spawn(one, arguments(in, kWords / 4, 4));
  EXPECT_THAT(
      wait(bad).message(),
      AllOf(HasSubstr(fmt::format(":{} (ld.global.u32): thread (0,0,0) of block (0,0,0) reads 4 bytes at ", line)),
            HasSubstr(past)));
  EXPECT_TRUE(wait(good).ok());
  // An index that wraps: 2^31 words further on and back again, and one that would be far without a break before.
  EXPECT_EQ(wait(spawn(one, arguments(in, 4, 1 << 30))).code(), Code::kDeviceFault);
  const std::uint32_t stops = 76;
  ASSERT_TRUE(in->write(4 * 9, std::as_bytes(std::span(&stops, 1))).ok());
  EXPECT_TRUE(wait(spawn(one, arguments(in, 1 << 30, 1))).ok()) << "it leaves the loop before";
  // Two bytes beside a word.
  struct {
    std::uint64_t out, in;
    std::int32_t n, stride;
  } parameters{out->address(), in->address() + 2, 9, 1};
  const auto odd = one->spawn_packed(std::as_bytes(std::span(&parameters, 1)));
  ASSERT_TRUE(odd.ok()) << odd.message();
  EXPECT_THAT(wait(*odd).message(), AllOf(HasSubstr(fmt::format(":{} (ld.global.u32)", line)),
                                          HasSubstr(fmt::format("{:#x}, which is no multiple of 4", parameters.in))));
}

// Lanes of a warp that meets others are all checked where one of them may leave memory.
TEST_F(TaskFencesTest, BlocksThatMeetBehindALoop_EndAllTheSame) {
  const auto out = words(64), garbage = words(64), in = words(4096);
  const auto task = kind("sums", {1, 1, 1}, {64, 1, 1});
  const std::uint32_t ones = 1;
  ASSERT_TRUE(in->fill(std::as_bytes(std::span(&ones, 1))).ok());
  const auto sum_of = [&](std::uint32_t n, const session::ArrayPtr& to) {
    return spawn(task, {ArrayArgument{to}, ArrayArgument{in}, number(n)});
  };
  for (const std::uint32_t n : {4096u, 1u, 0u, 63u, 4095u}) {
    const auto bad = sum_of(1u << 20, garbage);
    const auto good = sum_of(n, out);
    EXPECT_EQ(wait(bad).code(), Code::kDeviceFault);
    ASSERT_TRUE(wait(good).ok());
    EXPECT_EQ(read(out), Words(64, n));
  }
}

// Arrays come and go while the resident kernel runs: what is new is known to the next task.
TEST_F(TaskFencesTest, NewArrays_AreMemoryAtOnce_AndFreedOnesNoLonger) {
  const auto task = kind("plain", {1, 1, 1}, {32, 1, 1});
  std::mt19937 random(7);
  for (int n = 0; n < 200; ++n) {
    const auto out = words(1 + random() % 100'000);
    const auto at = static_cast<std::uint32_t>(out->count() - 1);
    const Status ended = wait(spawn(task, {ArrayArgument{out}, number(at), number(0), number(0)}));
    ASSERT_TRUE(ended.ok()) << ended.message();
    ASSERT_EQ(read(out)[at], 1u);
  }
  session::ArrayPtr gone = words(1 << 20);
  struct {
    std::uint64_t out;
    std::uint32_t at, how, lane, rest;
  } parameters{gone->address(), 5, 0, 0, 0};
  gone.reset();
  ASSERT_TRUE(session_->synchronize().ok());  // what had it has ended
  const auto id = task->spawn_packed(std::as_bytes(std::span(&parameters, 1)).first(20));
  ASSERT_TRUE(id.ok()) << id.message();
  if (session_->device().kind == device::DeviceKind::kCpu) {
    EXPECT_THAT(wait(*id).message(), HasSubstr("the pool's fences know no memory"));
  }
}

TEST_F(TaskFencesTest, Grids_FailAsOne) {
  const auto out = words(4096);
  const auto task = kind("plain", {70, 1, 1}, {64, 1, 1});
  const auto bad = spawn(task, {ArrayArgument{out}, number(1), number(2), number(9)});
  const auto good = spawn(task, {ArrayArgument{out}, number(2), number(0), number(9)});
  EXPECT_THAT(wait(bad).message(), AllOf(HasSubstr(fmt::format("Task {:#x} has failed", bad)), HasSubstr("(9,0,0)")));
  EXPECT_TRUE(wait(good).ok());
  EXPECT_TRUE(pool_->wait_all().ok()) << "it has been told";
}

TEST_F(TaskFencesTest, WaitAll_TellsWhichFailed_Once) {
  const auto out = words(8);
  const auto task = kind("plain", {1, 1, 1}, {32, 1, 1});
  std::vector<session::TaskId> ids;
  for (std::uint32_t at = 0; at < 8; ++at)
    ids.push_back(spawn(task, {ArrayArgument{out}, number(at), number(at == 2 || at == 5 ? 2 : 0), number(0)}));
  const Status all = pool_->wait_all(std::chrono::seconds(60));
  EXPECT_EQ(all.code(), Code::kDeviceFault);
  EXPECT_THAT(all.message(), AllOf(HasSubstr("2 tasks have failed"), HasSubstr("'plain'")));
  EXPECT_TRUE(pool_->wait_all(std::chrono::seconds(60)).ok()) << "told once";
  for (std::uint32_t at = 0; at < 8; ++at) EXPECT_EQ(wait(ids[at]).ok(), at != 2 && at != 5) << at;
  EXPECT_EQ(read(out), Words({1, 1, 0, 1, 1, 0, 1, 1}));
}

// PERGOLA_SEED repeats it.
TEST_F(TaskFencesTest, AThousandTasks_SomeOfThemWrong) {
  const char* given = std::getenv("PERGOLA_SEED");
  const auto seed = given == nullptr ? static_cast<std::uint32_t>(std::random_device()())
                                     : static_cast<std::uint32_t>(std::strtoul(given, nullptr, 0));
  SCOPED_TRACE(testing::Message() << "PERGOLA_SEED=" << seed);
  constexpr std::uint32_t kTasks = 1100;
  std::mt19937 random(seed);
  const auto out = words(kTasks), met = words(kTasks * 96);
  const auto plain = kind("plain", {1, 1, 1}, {64, 1, 1}), meets = kind("meets", {1, 1, 1}, {96, 1, 1});
  Words wanted(kTasks, 0);
  std::vector<std::pair<session::TaskId, bool>> ids;  // and whether it is to fail
  for (std::uint32_t at = 0; at < kTasks; ++at) {
    const bool fails = random() % 10 == 0;
    if (random() % 4 == 0) {
      ids.emplace_back(spawn(meets, {ArrayArgument{met}, number(at), number(fails ? 1 + random() % 7 : 0)}), fails);
      continue;
    }
    if (!fails) wanted[at] = 1;
    std::uint32_t how = fails ? 1 + random() % 9 : 0;
    if (how == 5) how = 4;
    ids.emplace_back(spawn(plain, {ArrayArgument{out}, number(at), number(how), number(random() % 64)}), fails);
  }
  for (const auto& [id, fails] : ids) {
    const Status ended = wait(id);
    ASSERT_EQ(ended.code(), fails ? Code::kDeviceFault : Code::kOk) << ended.message();
  }
  EXPECT_EQ(read(out), wanted);
}

}  // namespace
}  // namespace pergola::runtime
