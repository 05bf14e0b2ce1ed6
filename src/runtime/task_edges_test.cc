// Edges between streams and tasks: who spawns behind work on streams, or launches behind tasks, goes on at once, and
// the results are those of the order in which it was written. Kernels wait for a word that the host writes, so that
// what is asserted is order and not time.
#include "src/runtime/task_edges.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cstdlib>
#include <thread>

#include "src/runtime/runtime.h"
#include "src/session/session.h"
#include "src/session/task_pool.h"

namespace pergola::runtime {
namespace {

using session::Argument;
using session::ArrayArgument;
using session::Number;
using session::TaskExecutor;
using testing::HasSubstr;
using namespace std::chrono_literals;
using Words = std::vector<std::uint32_t>;

#if defined(PERGOLA_TSAN) || defined(PERGOLA_ASAN)
constexpr bool kSanitized = true;
#else
constexpr bool kSanitized = false;
#endif

constexpr char kEdgesSource[] = R"(
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
extern "C" __global__ void fails(unsigned* x, const unsigned* flag) {
  while (*(const volatile unsigned*)flag == 0) ;
  if (threadIdx.x == 0) x[0] = 77;
  __trap();
}
)";

class TaskEdgesTest : public testing::TestWithParam<TaskExecutor> {
 protected:
  static constexpr std::uint32_t kWords = 64;

  bool is_resident() const { return GetParam() == TaskExecutor::kResident; }
  void SetUp() override {
#if defined(PERGOLA_TSAN)
    if (is_resident()) GTEST_SKIP() << "TSan does not connect the device half's fences with the host";
#endif
    open("");
  }
  void open(std::string_view policy, session::TaskPoolOptions options = {}) {
    auto made = create_session("cpu", policy);
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
  void TearDown() override {
    if (flag_ != nullptr) raise_flag();
  }
  session::ArrayPtr words(std::size_t count = kWords, std::uint32_t value = 0) {
    auto array = session_->allocate(session::ElementType::kU32, 0, count);
    EXPECT_TRUE(array.ok());
    EXPECT_TRUE((*array)->fill(std::as_bytes(std::span(&value, 1))).ok());
    return *array;
  }
  // The host reaches memory of the CPU device.
  void raise_flag() { std::atomic_ref(*reinterpret_cast<std::uint32_t*>(flag_->address())).store(1); }
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
  static std::vector<Argument> step_of(const session::ArrayPtr& x, std::uint32_t by, std::uint32_t plus) {
    return {ArrayArgument{x}, number(static_cast<std::uint32_t>(x->count())), number(by), number(plus)};
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
  session::ArrayPtr flag_;
};

INSTANTIATE_TEST_SUITE_P(Executors, TaskEdgesTest, testing::Values(TaskExecutor::kResident, TaskExecutor::kThreads),
                         [](const auto& tested) {
                           return std::string(tested.param == TaskExecutor::kResident ? "resident" : "threads");
                         });

// ── Streams before tasks ────────────────────────────────────────────────────────────────────────────────────────────

TEST_P(TaskEdgesTest, SpawnBehindAKernel_ReturnsBeforeThatHasEnded) {
  const auto step = kind("step");
  const auto x = words();
  ASSERT_TRUE(launch_waiting(x, 5).ok());
  const auto id = spawn(step, step_of(x, 3, 1));
  const auto second = spawn(step, step_of(x, 1, 0));
  EXPECT_NE(id, second);
  EXPECT_EQ(peek(x), 0u) << "the kernel waits for the host still";
  EXPECT_FALSE(*pool_->check(id));
  EXPECT_EQ(pool_->info().held, 2u);
  EXPECT_EQ(pool_->wait(id, 1ms).code(), Code::kTimeout);
  EXPECT_EQ(pool_->wait_all(1ms).code(), Code::kTimeout);
  raise_flag();
  EXPECT_TRUE(pool_->wait(id, 60s).ok());
  EXPECT_TRUE(*pool_->check(id));
  EXPECT_TRUE(pool_->wait_all(60s).ok());
  EXPECT_EQ(pool_->info().held, 0u);
  EXPECT_EQ(pool_->info().spawned, 2u);
  EXPECT_THAT(read(x), testing::Each(16u));
  EXPECT_EQ(pool_->wait(id + 1000).code(), Code::kInvalidArgument);
}

// What conflicts with nothing on a stream goes on beside it, also where the resident kernel is to be started for it.
TEST_P(TaskEdgesTest, SpawnBesideAKernel_ReturnsToo) {
  const auto step = kind("step");
  const auto x = words(), y = words(kWords, 2);
  ASSERT_TRUE(session_->synchronize().ok());
  ASSERT_TRUE(launch_waiting(x, 5).ok());
  const auto id = spawn(step, step_of(y, 3, 1));
  EXPECT_EQ(peek(x), 0u);
  raise_flag();
  EXPECT_TRUE(pool_->wait(id, 60s).ok());
  EXPECT_THAT(read(y), testing::Each(7u));
}

TEST_P(TaskEdgesTest, ATaskBehindTwoStreams_WaitsForBoth) {
  const auto add = kind("add_to");
  const auto x = words(), y = words();
  ASSERT_TRUE(launch("step", step_of(y, 1, 10)).ok());
  ASSERT_TRUE(launch_waiting(x, 5).ok());
  const auto id = spawn(add, {ArrayArgument{y}, ArrayArgument{x}, number(kWords)});
  EXPECT_FALSE(*pool_->check(id));
  raise_flag();
  EXPECT_THAT(read(y), testing::Each(35u)) << "a read waits for tasks that are held back";
}

TEST_P(TaskEdgesTest, WhatTheHostWritesNext_ComesAfterHeldTasks) {
  const auto step = kind("step");
  const auto x = words();
  ASSERT_TRUE(launch_waiting(x, 5).ok());
  spawn(step, step_of(x, 3, 1));
  std::thread later([&] {
    std::this_thread::sleep_for(20ms);
    raise_flag();
  });
  const Words new_ones(kWords, 9);
  EXPECT_TRUE(x->write(0, std::as_bytes(std::span(new_ones))).ok());
  EXPECT_THAT(read(x), testing::Each(9u));
  later.join();
}

TEST_P(TaskEdgesTest, AUniversalTask_ComesAfterAllWork) {
  const auto through = kind("through");
  const auto x = words();
  ASSERT_TRUE(launch_waiting(x, 5).ok());
  const auto id = spawn(through, {Number{session::ElementType::kU64, x->address()}, number(4)});
  EXPECT_FALSE(*pool_->check(id));
  raise_flag();
  EXPECT_TRUE(pool_->wait(id, 60s).ok());
  EXPECT_EQ(read(x)[0], 21u);
}

TEST_P(TaskEdgesTest, WorkThatFails_SkipsTheTasksBehindIt) {
  const auto step = kind("step");
  const auto x = words(), y = words();
  ASSERT_TRUE(launch("fails", {ArrayArgument{x}, ArrayArgument{flag_}}).ok());
  const auto id = spawn(step, step_of(x, 3, 1));
  const auto other = spawn(step, step_of(y, 3, 1));
  raise_flag();
  const Status skipped = pool_->wait(id, 60s);
  EXPECT_EQ(skipped.code(), Code::kSkipped);
  EXPECT_THAT(skipped.message(), HasSubstr("Kernel 'step'"));
  EXPECT_THAT(skipped.message(), HasSubstr("not run, because work before it failed"));
  EXPECT_THAT(skipped.message(), HasSubstr("'fails'"));
  EXPECT_THAT(skipped.message(), HasSubstr(fmt::format("{:#x}", id)));
  EXPECT_EQ(pool_->check(id).code(), Code::kSkipped);
  EXPECT_TRUE(pool_->wait(other, 60s).ok()) << "which has nothing to do with it";
  EXPECT_TRUE(pool_->wait_all(60s).ok()) << "it has been told";
  EXPECT_FALSE(session_->synchronize().ok());
  spawn(step, step_of(y, 3, 1));
  EXPECT_THAT(read(y), testing::Each(4u)) << "tasks run again";
}

TEST_P(TaskEdgesTest, ASkippedTask_IsToldByWaitAll_Once) {
  const auto step = kind("step");
  const auto x = words();
  ASSERT_TRUE(launch("fails", {ArrayArgument{x}, ArrayArgument{flag_}}).ok());
  spawn(step, step_of(x, 3, 1));
  spawn(step, step_of(x, 3, 1));
  raise_flag();
  const Status told = pool_->wait_all(60s);
  EXPECT_EQ(told.code(), Code::kSkipped);
  EXPECT_THAT(told.message(), HasSubstr("2 tasks have failed"));
  EXPECT_TRUE(pool_->wait_all(60s).ok());
}

// A failure of a task that was held is told by the id that its spawner has.
TEST_P(TaskEdgesTest, AHeldTaskThatFails_IsCalledByItsId) {
  if (is_resident()) GTEST_SKIP() << "a trap is the whole pool's there, where it is not fenced";
  const auto fails = kind("fails");
  const auto x = words();
  ASSERT_TRUE(launch_waiting(x, 5).ok());
  const auto id = spawn(fails, {ArrayArgument{x}, ArrayArgument{flag_}});
  raise_flag();
  EXPECT_THAT(pool_->wait(id, 60s).message(), HasSubstr(fmt::format("Task {:#x} has failed", id)));
  (void)pool_->wait_all(60s);
}

TEST_P(TaskEdgesTest, HighPriority_IsReleasedFirst) {
  constexpr std::uint32_t kTasks = 12;
  open("", {.blocks = 1, .park_after = {}, .executor = {}});
  const auto normal = kind("rank");
  const auto high = *normal->with_priority(session::TaskPriority::kHigh);
  const auto x = words(), order = words(kTasks), next = words(1);
  ASSERT_TRUE(session_->synchronize().ok());
  ASSERT_TRUE(launch_waiting(x, 5).ok());
  for (std::uint32_t at = 0; at < kTasks; ++at)
    spawn(at + 1 == kTasks ? high : normal, {ArrayArgument{order}, ArrayArgument{next}, ArrayArgument{x}, number(at)});
  raise_flag();
  const Words ranks = read(order);
  EXPECT_EQ(read(next)[0], kTasks);
  if (is_resident()) return;  // tasks of a resident block run side by side
  EXPECT_EQ(ranks[kTasks - 1], 0u);
  for (std::uint32_t at = 0; at + 1 < kTasks; ++at) EXPECT_EQ(ranks[at], at + 1) << "in the order of their spawns";
}

TEST_P(TaskEdgesTest, MoreThanAreHeld_SpawnsWait_AndNoneIsLost) {
  constexpr std::uint32_t kTasks = TaskEdges::kMostHeld + 100;
  const auto count = kind("count");
  const auto x = words(), counts = words(kTasks);
  ASSERT_TRUE(session_->synchronize().ok());
  ASSERT_TRUE(launch_waiting(x, 5).ok());
  std::atomic<bool> all_spawned{false};
  std::thread spawner([&] {
    for (std::uint32_t at = 0; at < kTasks; ++at) spawn(count, {ArrayArgument{counts}, ArrayArgument{x}, number(at)});
    all_spawned.store(true);
  });
  while (pool_->info().held < TaskEdges::kMostHeld) std::this_thread::sleep_for(1ms);
  std::this_thread::sleep_for(5ms);
  EXPECT_FALSE(all_spawned.load());
  EXPECT_EQ(pool_->info().held, TaskEdges::kMostHeld);
  raise_flag();
  spawner.join();
  EXPECT_THAT(read(counts), testing::Each(1u));
}

TEST_P(TaskEdgesTest, ArraysThatGo_StayForHeldTasks) {
  const auto step = kind("step");
  auto x = words();
  ASSERT_TRUE(launch_waiting(x, 5).ok());
  const auto id = spawn(step, step_of(x, 3, 1));
  std::thread later([&] {
    std::this_thread::sleep_for(20ms);
    raise_flag();
  });
  x = nullptr;
  EXPECT_TRUE(pool_->wait(id, 60s).ok());
  later.join();
}

TEST_P(TaskEdgesTest, TheSessionGoes_WithHeldTasks) {
  auto step = kind("step");
  const auto x = words();
  ASSERT_TRUE(launch_waiting(x, 5).ok());
  for (int n = 0; n < 8; ++n) spawn(step, step_of(x, 1, 1));
  std::thread later([flag = flag_] {
    std::this_thread::sleep_for(20ms);
    std::atomic_ref(*reinterpret_cast<std::uint32_t*>(flag->address())).store(1);
  });
  step = nullptr, pool_ = nullptr, module_ = nullptr, session_ = nullptr, flag_ = nullptr;
  EXPECT_THAT(read(x), testing::Each(13u));
  later.join();
}

// What is held uses no array that would wait for it.
TEST_P(TaskEdgesTest, TheSessionGoes_WithAHeldTaskOfNoArray) {
  auto through = kind("through");
  auto x = words();
  std::uint32_t memory = 2;
  ASSERT_TRUE(session_->synchronize().ok());
  ASSERT_TRUE(launch_waiting(x, 5).ok());
  std::thread later([address = flag_->address()] {
    std::this_thread::sleep_for(20ms);
    std::atomic_ref(*reinterpret_cast<std::uint32_t*>(address)).store(1);
  });
  spawn(through, {Number{session::ElementType::kU64, reinterpret_cast<std::uint64_t>(&memory)}, number(4)});
  through = nullptr, x = nullptr, pool_ = nullptr, module_ = nullptr, session_ = nullptr;
  later.join();
  flag_ = nullptr;
}

// exit() cancels what gets nowhere; what is held for it is skipped or stays, and nothing waits for it.
TEST_P(TaskEdgesTest, TheProcessEnds_WithHeldTasksBehindAKernelWithoutEnd) {
#if defined(PERGOLA_TSAN)
  GTEST_SKIP() << "a process that is forked to be ended is not followed";
#endif
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(
      {
        const auto step = kind("step");
        const auto x = words();
        ASSERT_TRUE(launch_waiting(x, 5).ok());
        spawn(step, step_of(x, 3, 1));
        std::exit(0);  // with the session alive
      },
      testing::ExitedWithCode(0), "");
}

}  // namespace
}  // namespace pergola::runtime
