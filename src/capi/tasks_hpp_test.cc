// Narrow tasks in C++: what becomes of arguments, shapes and times, over the pool of capi_tasks_test.cc, which writes
// down what it is asked.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <pergola/pergola.hpp>

#include <array>
#include <chrono>
#include <cstddef>
#include <cstring>
#include <string>

pergola_task_pool make_recording_pool();
std::string asked_of_pools();

namespace {

using ::testing::HasSubstr;
using namespace std::chrono_literals;

constexpr const char* kPtx = R"(
.version 7.0
.target sm_70
.address_size 64
.visible .entry store(.param .u64 p, .param .f32 f, .param .u8 b) {
  .reg .b64 %a;
  .reg .f32 %f;
  ld.param.u64 %a, [p];
  ld.param.f32 %f, [f];
  st.global.f32 [%a], %f;
  ret;
}
)";

class TasksHpp : public ::testing::Test {
 protected:
  template <typename F>
  static std::string message(pergola::Code code, const F& call) {
    try {
      call();
    } catch (const pergola::Error& error) {
      EXPECT_EQ(error.code(), code) << error.what();
      return error.what();
    }
    ADD_FAILURE() << "nothing was thrown";
    return "";
  }

  pergola::Session session_{"null"};
  pergola::Kernel kernel_ = session_.load_text(kPtx).kernel("store");
  pergola::TaskPool pool_{make_recording_pool()};
};

TEST_F(TasksHpp, ShapesAndArguments_AreThoseOfLaunches) {
  pergola::TaskKind kind = pool_.prepare(kernel_, pergola::grid({2, 3}, 64, 128));
  EXPECT_EQ(asked_of_pools(), "prepare store 2x3x1 64x1x1 128");
  const pergola::TaskKind one = pool_.prepare(kernel_, pergola::for_each(20));
  EXPECT_THAT(asked_of_pools(), HasSubstr("prepare store 1x1x1"));
  auto array = session_.array<float>(4);
  const pergola::TaskId first = kind.spawn(array, 2, 7);
  EXPECT_EQ(asked_of_pools(), "spawn 3");
  EXPECT_EQ(kind(array.from(1), 2.f, 7), first + 1);
  EXPECT_THAT(message(pergola::Code::kInvalidArgument, [&] { kind(array, 2, 300); }), HasSubstr("is 300"));
  pergola::TaskKind copy = kind;
  kind = one;
  EXPECT_EQ(copy(array, 2, 7), first + 2) << "the kind lives as long as an object of it";
  EXPECT_EQ(copy.kernel().name(), "store");
}

TEST_F(TasksHpp, PackedParameters_AreTheKernelsBytes) {
  struct Parameters {
    std::uint64_t p;
    float f;
    std::uint8_t b;
  };
  static_assert(sizeof(Parameters) == 16);  // three bytes of padding, which the kernel does not have
  const pergola::TaskKind kind = pool_.prepare(kernel_, pergola::grid(1, 32));
  EXPECT_NE(kind.spawn_packed(Parameters{0x0102, 1.f, 9}), 0u);
  EXPECT_EQ(asked_of_pools(), "packed 2 1 0 0 0 0 0 0 0 0 80 3f 9");
  std::array<std::byte, 13> bytes{};
  bytes[12] = std::byte{5};
  kind.spawn_packed(std::span<const std::byte>(bytes));
  EXPECT_EQ(asked_of_pools(), "packed 0 0 0 0 0 0 0 0 0 0 0 0 5");
  kind.spawn_packed(bytes);
  struct Short {
    std::uint64_t p;
  };
  struct Long {
    Parameters parameters;
    std::uint64_t more;
  };
  EXPECT_EQ(message(pergola::Code::kInvalidArgument, [&] { kind.spawn_packed(Short{}); }),
            "The parameters of kernel 'store' have 13 bytes; 8 are given.");
  EXPECT_THAT(message(pergola::Code::kInvalidArgument, [&] { kind.spawn_packed(Long{}); }), HasSubstr("24 are given"));
  EXPECT_THAT(
      message(pergola::Code::kInvalidArgument, [&] { kind.spawn_packed(std::span<const std::byte>(bytes).first(12)); }),
      HasSubstr("12 are given"));
}

TEST_F(TasksHpp, ManyAtOnce_AreRowsOfTheirStructs) {
  struct Parameters {
    std::uint64_t p;
    float f;
    std::uint8_t b;
  };
  const pergola::TaskKind kind = pool_.prepare(kernel_, pergola::grid(1, 32));
  const std::vector<Parameters> parameters{{0x0102, 1.f, 9}, {0x0304, 1.f, 8}};
  std::array<pergola::TaskId, 2> ids{};
  kind.spawn_many(parameters, ids);
  EXPECT_EQ(asked_of_pools(), "many, 2 ids: 2 1 0 0 0 0 0 0 0 0 80 3f 9; 4 3 0 0 0 0 0 0 0 0 80 3f 8;");
  EXPECT_NE(ids[0], ids[1]);
  kind.spawn_many(std::span(parameters).first(1));
  EXPECT_EQ(asked_of_pools(), "many, 0 ids: 2 1 0 0 0 0 0 0 0 0 80 3f 9;");
  EXPECT_EQ(message(pergola::Code::kInvalidArgument, [&] { kind.spawn_many(std::span(parameters).first(1), ids); }),
            "There is room for 2 ids of 1 task.");
  const std::vector<std::uint64_t> wrong(3);
  EXPECT_EQ(message(pergola::Code::kInvalidArgument, [&] { kind.spawn_many(wrong); }),
            "The parameters of kernel 'store' have 13 bytes; 8 are given.");
}

TEST_F(TasksHpp, Each_HasItsOwnNumbers) {
  const pergola::TaskKind kind = pool_.prepare(kernel_, pergola::grid(1, 32));
  auto array = session_.array<float>(4);
  const std::vector<int> numbers{7, 8};
  const auto ids = kind.spawn_each(2, array, 2, numbers);
  EXPECT_EQ(asked_of_pools(), "each of 2 tasks, 3 arguments, 2 ids, 2: 7 8");
  EXPECT_EQ(ids.size(), 2u);
  EXPECT_EQ(message(pergola::Code::kInvalidArgument, [&] { kind.spawn_each(3, array, 2, numbers); }),
            "Argument 2 has 2 values for 3 tasks.");
  const std::vector<int> large{7, 300};
  EXPECT_THAT(message(pergola::Code::kInvalidArgument, [&] { kind.spawn_each(2, array, 2, std::span(large)); }),
              HasSubstr("is 300"));
  EXPECT_TRUE(kind.spawn_each(0, array, 2, std::vector<int>()).empty());
}

TEST_F(TasksHpp, KernelsAreAddedTogether) {
  pool_.add_kernels({kernel_, kernel_});
  EXPECT_EQ(asked_of_pools(), "add store store");
  const std::vector<pergola::Kernel> some(3, kernel_);
  pool_.add_kernels(some);
  EXPECT_EQ(asked_of_pools(), "add store store store");
}

TEST_F(TasksHpp, PoolsSpawn_PreparesOnce) {
  auto array = session_.array<float>(4);
  const pergola::TaskId first = pool_.spawn(kernel_, pergola::grid(1, 32), array, 1.f, 2);
  // Another kind of the recording pool would count from the start.
  EXPECT_EQ(pool_.spawn(kernel_, pergola::grid(1, 32), array, 1.f, 2), first + 1);
  EXPECT_EQ(pool_.spawn(kernel_, pergola::grid(1, 64), array, 1.f, 2), first);
  EXPECT_EQ(pool_.spawn(kernel_, pergola::grid(1, 32), array, 1.f, 2), first + 2);
}

// Each call of kernel() gives a handle of its own: one that is only spawned must not be prepared and kept each time.
TEST_F(TasksHpp, PoolsSpawn_KnowsAKernelThatIsAskedForAgain) {
  auto array = session_.array<float>(4);
  const pergola::Module module = session_.load_text(kPtx);
  const pergola::TaskId first = pool_.spawn(module.kernel("store"), pergola::grid(1, 32), array, 1.f, 2);
  EXPECT_EQ(pool_.spawn(module.kernel("store"), pergola::grid(1, 32), array, 1.f, 2), first + 1);
  const char* const declared = "pointer float, float, uint8";
  EXPECT_EQ(pool_.spawn(module.kernel("store", declared), pergola::grid(1, 32), array, 1.f, 2), first);
  EXPECT_EQ(pool_.spawn(module.kernel("store", declared), pergola::grid(1, 32), array, 1.f, 2), first + 1);
}

TEST_F(TasksHpp, Waits_TakeTimes) {
  pool_.wait(3);
  EXPECT_EQ(asked_of_pools(), "wait 3 -1");
  EXPECT_TRUE(pool_.wait(3, 2us));
  EXPECT_EQ(asked_of_pools(), "wait 3 2000");
  EXPECT_TRUE(pool_.wait(3, -1s)) << "a time that is over does not wait";
  EXPECT_EQ(asked_of_pools(), "wait 3 0");
  pool_.wait_all();
  EXPECT_EQ(asked_of_pools(), "wait_all -1");
  EXPECT_TRUE(pool_.wait_all(5ns));
  EXPECT_EQ(asked_of_pools(), "wait_all 5");
  EXPECT_TRUE(pool_.check(41));
  EXPECT_FALSE(pool_.check(42));
  pool_.park();
  EXPECT_EQ(asked_of_pools(), "park");
  EXPECT_EQ(pool_.info().spawned, 8u);
  EXPECT_EQ(pool_.prepare(kernel_, pergola::grid(1, 32)).on_device(), 0x123456789abcdefu);
}

TEST_F(TasksHpp, DeviceWithoutPools_IsRefused) {
  message(pergola::Code::kUnsupported, [&] { session_.task_pool(); });
  EXPECT_THAT(message(pergola::Code::kInvalidArgument, [&] { session_.task_pool({.park_after = -1ns}); }),
              HasSubstr("park_after_ns is -1"));
}

// As everybody will write it.
TEST(TasksHppOnCpu, ManyTasks_RunAndAreWaitedFor) {
#if defined(PERGOLA_TSAN)
  GTEST_SKIP() << "TSan does not connect the device half's fences with the host; executor_test has the host's half.";
#endif
  constexpr const char* kMarkPtx = R"(
.version 7.0
.target sm_70
.address_size 64
.visible .entry mark(.param .u64 out, .param .u32 at, .param .f32 value) {
  .reg .b64 %rd<3>;
  .reg .b32 %r<2>;
  .reg .f32 %f;
  ld.param.u64 %rd0, [out];
  ld.param.u32 %r0, [at];
  ld.param.f32 %f, [value];
  mul.wide.u32 %rd1, %r0, 4;
  add.u64 %rd2, %rd0, %rd1;
  st.global.f32 [%rd2], %f;
  ret;
}
)";
  constexpr int kTasks = 500;
  pergola::Session session("cpu");
  pergola::Kernel kernel = session.load_text(kMarkPtx).kernel("mark");
  auto out = session.array<float>(2 * kTasks, 0.f);
  pergola::TaskPool pool = session.task_pool({.blocks = 1, .park_after = 1ms});
  pergola::TaskKind mark = pool.prepare(kernel, pergola::grid(1, 32));
  for (int i = 0; i < kTasks; ++i) mark(out, i, i);
  struct Parameters {
    std::uint64_t out;
    std::uint32_t at;
    float value;
  };
  pergola::TaskId last = 0;
  for (std::uint32_t i = kTasks; i < 2 * kTasks; ++i)
    last = mark.spawn_packed(Parameters{out.address(), i, static_cast<float>(i)});
  pool.wait(last);
  EXPECT_TRUE(pool.check(last));
  EXPECT_TRUE(pool.wait_all(60s));
  const auto values = out.read();
  for (int i = 0; i < 2 * kTasks; ++i) ASSERT_EQ(values[i], static_cast<float>(i));
  EXPECT_EQ(pool.info().spawned, 2u * kTasks);
  EXPECT_EQ(pool.info().blocks, 1u);
  pool.spawn(kernel, pergola::for_each(1), out, 3, 4.f);
  EXPECT_EQ(out.read()[3], 4.f);
}

}  // namespace
