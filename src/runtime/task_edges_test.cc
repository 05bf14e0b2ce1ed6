// Edges between streams and tasks: who spawns behind work on streams, or launches behind tasks, goes on at once, and
// the results are those of the order in which it was written. Kernels wait for a word that the host writes, so that
// what is asserted is order and not time.
#include "src/runtime/task_edges.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <mutex>
#include <random>
#include <thread>

#include "src/runtime/devices.h"
#include "src/runtime/discrete_device.h"
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
  session::TaskId spawn_waiting(const session::TaskKindPtr& wait_and_set, const session::ArrayPtr& array,
                                std::uint32_t value) {
    return spawn(wait_and_set, {ArrayArgument{array}, ArrayArgument{flag_},
                                number(static_cast<std::uint32_t>(array->count())), number(value)});
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
  const auto x = words(), y = words();
  ASSERT_TRUE(launch_waiting(x, 5).ok());
  ASSERT_TRUE(launch_waiting(y, 6).ok());
  const auto id = spawn(step, step_of(x, 3, 1));
  const auto second = spawn(step, step_of(y, 2, 0));
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
  EXPECT_THAT(read(y), testing::Each(12u));
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
  auto count = kind("count");
  const auto x = words(), counts = words(1);
  ASSERT_TRUE(launch_waiting(x, 5).ok());
  for (int n = 0; n < 8; ++n) spawn(count, {ArrayArgument{counts}, ArrayArgument{x}, number(0)});
  std::thread later([flag = flag_] {
    std::this_thread::sleep_for(20ms);
    std::atomic_ref(*reinterpret_cast<std::uint32_t*>(flag->address())).store(1);
  });
  count = nullptr, pool_ = nullptr, module_ = nullptr, session_ = nullptr, flag_ = nullptr;
  EXPECT_THAT(read(counts), testing::Each(8u));
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

// ── Tasks before streams ────────────────────────────────────────────────────────────────────────────────────────────

TEST_P(TaskEdgesTest, LaunchBehindATask_ReturnsBeforeThatHasEnded) {
  const auto wait_and_set = kind("wait_and_set");
  const auto x = words();
  const auto id = spawn_waiting(wait_and_set, x, 5);
  EXPECT_TRUE(pool_->info().streams_wait);
  session::EventPtr event;
  ASSERT_TRUE(kernel("step")->launch(shape(), step_of(x, 3, 1), &event, nullptr).ok());
  ASSERT_TRUE(launch("step", step_of(x, 2, 0)).ok());
  EXPECT_EQ(peek(x), 0u) << "the task waits for the host still";
  EXPECT_FALSE(*pool_->check(id));
  EXPECT_FALSE(event->poll().has_value());
  raise_flag();
  EXPECT_TRUE(event->wait(60s).ok());
  EXPECT_TRUE(*pool_->check(id)) << "what comes after it has ended";
  EXPECT_THAT(read(x), testing::Each(32u));
}

TEST_P(TaskEdgesTest, FillsAndCopiesBehindATask_ReturnToo) {
  const auto wait_and_set = kind("wait_and_set");
  const auto x = words(), y = words(), z = words();
  spawn_waiting(wait_and_set, x, 5);
  ASSERT_TRUE(y->copy_from(0, x, 0, kWords * 4).ok());
  ASSERT_TRUE(z->copy_from(0, y, 0, kWords * 4).ok());
  const std::uint32_t value = 9;
  ASSERT_TRUE(x->fill(std::as_bytes(std::span(&value, 1))).ok());
  EXPECT_EQ(peek(y), 0u);
  raise_flag();
  EXPECT_THAT(read(z), testing::Each(5u));
  EXPECT_THAT(read(x), testing::Each(9u));
}

// The resident kernel, which fills the device, leaves when the task has ended, and not before.
TEST_P(TaskEdgesTest, WorkThatHasNothingToDoWithIt_ReturnsToo) {
  const auto wait_and_set = kind("wait_and_set");
  const auto x = words(), y = words(kWords, 2);
  spawn_waiting(wait_and_set, x, 5);
  ASSERT_TRUE(launch("step", step_of(x, 3, 1)).ok());
  ASSERT_TRUE(launch("step", step_of(y, 3, 1)).ok());
  EXPECT_EQ(peek(x), 0u);
  raise_flag();
  EXPECT_THAT(read(y), testing::Each(7u));
  EXPECT_THAT(read(x), testing::Each(16u));
}

TEST_P(TaskEdgesTest, ChainsOfBoth_AreInOrder) {
  const auto step = kind("step");
  const auto x = words();
  std::uint32_t wanted = 0;
  ASSERT_TRUE(launch_waiting(x, 5).ok());
  wanted = 5;
  std::thread later([&] {
    std::this_thread::sleep_for(20ms);
    raise_flag();
  });
  for (std::uint32_t n = 0; n < 20; ++n) {
    spawn(step, step_of(x, 3, n));
    ASSERT_TRUE(launch("step", step_of(x, 5, 1)).ok());
    wanted = (wanted * 3 + n) * 5 + 1;
  }
  EXPECT_THAT(read(x), testing::Each(wanted));
  later.join();
}

// By threads nobody waits for a task that is itself held back.
TEST_P(TaskEdgesTest, LaunchBehindAHeldTask_ReturnsByThreads) {
  if (is_resident()) GTEST_SKIP() << "the host waits until the task is in a ring: see docs/decisions/0028";
  const auto step = kind("step");
  const auto x = words();
  ASSERT_TRUE(launch_waiting(x, 5).ok());
  spawn(step, step_of(x, 3, 1));
  ASSERT_TRUE(launch("step", step_of(x, 2, 0)).ok());
  spawn(step, step_of(x, 1, 4));
  ASSERT_TRUE(launch("step", step_of(x, 10, 0)).ok());
  EXPECT_EQ(peek(x), 0u);
  raise_flag();
  EXPECT_THAT(read(x), testing::Each(360u));
}

// A task that is spawned behind the launch is none of those that the launch comes after, though those were held then.
TEST_P(TaskEdgesTest, LaunchBehindAHeldTask_DoesNotWaitForLaterTasks) {
  if (is_resident()) GTEST_SKIP() << "the launch itself waits until the task is in a ring";
  const auto step = kind("step"), wait_and_set = kind("wait_and_set");
  const auto x = words(), y = words(), later_flag = words(1);
  ASSERT_TRUE(session_->synchronize().ok());
  ASSERT_TRUE(launch_waiting(x, 5).ok());
  spawn(step, step_of(x, 3, 1));
  session::EventPtr event;
  ASSERT_TRUE(kernel("step")->launch(shape(), step_of(x, 2, 0), &event, nullptr).ok());
  spawn(wait_and_set, {ArrayArgument{y}, ArrayArgument{later_flag}, number(kWords), number(1)});
  raise_flag();
  const Status status = event->wait(30s);
  EXPECT_TRUE(status.ok()) << status.message();
  std::atomic_ref(*reinterpret_cast<std::uint32_t*>(later_flag->address())).store(1);
  EXPECT_TRUE(event->wait(60s).ok());
}

// The threads that waited in the parent are not in the child, which must not wait for them.
TEST_P(TaskEdgesTest, AForkedChild_LetsGoOfItsSession) {
  if (is_resident()) GTEST_SKIP() << "its threads belong to the device, which a child leaves alone";
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const auto forks = [&] {
    {
      const auto step = kind("step");
      const auto x = words();
      (void)launch_waiting(x, 5);
      spawn(step, step_of(x, 3, 1));
      raise_flag();
      (void)read(x);
    }
    (void)session_->synchronize();
    std::this_thread::sleep_for(50ms);  // the keeper waits for more
    if (::fork() == 0) {
      ::alarm(20);
      pool_ = nullptr, module_ = nullptr, flag_ = nullptr, session_ = nullptr;
      std::_Exit(0);
    }
    int status = 0;
    ::wait(&status);
    std::_Exit(WIFEXITED(status) ? WEXITSTATUS(status) : 100 + WTERMSIG(status));
  };
  EXPECT_EXIT(forks(), testing::ExitedWithCode(0), "");
}

TEST_P(TaskEdgesTest, UniversalWorkBehindATask_IsInOrder) {
  const auto wait_and_set = kind("wait_and_set");
  const auto x = words();
  spawn_waiting(wait_and_set, x, 5);
  ASSERT_TRUE(launch("through", {Number{session::ElementType::kU64, x->address()}, number(4)}).ok());
  EXPECT_EQ(peek(x), 0u);
  raise_flag();
  EXPECT_EQ(read(x)[0], 21u);
}

// A task that fails has ended: what waits for it goes on, and waits for the task tell it.
TEST_P(TaskEdgesTest, WorkBehindATaskThatFails_Runs) {
  const auto fails = kind("fails");
  const auto x = words();
  const auto id = spawn(fails, {ArrayArgument{x}, ArrayArgument{flag_}});
  session::EventPtr event;
  ASSERT_TRUE(kernel("step")->launch(shape(), step_of(x, 0, 6), &event, nullptr).ok());
  raise_flag();
  EXPECT_TRUE(event->wait(60s).ok());
  EXPECT_EQ(peek(x), 6u);
  EXPECT_THAT(pool_->wait(id, 60s).message(), HasSubstr("'fails'"));
  EXPECT_THAT(read(x), testing::Each(6u));
}

// So has one that is lost with the resident kernel, whose fault a trap is where there are no fences.
TEST_P(TaskEdgesTest, WorkBehindALostTask_Runs_AndTheLossIsTold) {
  if (!is_resident()) GTEST_SKIP() << "threads have no resident kernel to lose";
  open("", {.blocks = 0, .park_after = {}, .executor = {}, .fences = false});
  const auto fails = kind("fails");
  const auto x = words();
  const auto id = spawn(fails, {ArrayArgument{x}, ArrayArgument{flag_}});
  session::EventPtr event;
  ASSERT_TRUE(kernel("step")->launch(shape(), step_of(x, 0, 6), &event, nullptr).ok());
  EXPECT_FALSE(event->poll().has_value());
  raise_flag();
  EXPECT_TRUE(event->wait(60s).ok());
  EXPECT_EQ(peek(x), 6u);
  EXPECT_THAT(pool_->wait(id, 60s).message(), HasSubstr("executor of narrow tasks has failed"));
  EXPECT_THAT(launch("step", step_of(x, 1, 1)).message(), HasSubstr("executor of narrow tasks has failed"));
}

TEST_P(TaskEdgesTest, ManyLaunchesAndTasks_OfSeveralGates) {
  const auto step = kind("step");
  const auto x = words(), y = words();
  const std::uint32_t rounds = is_resident() ? 40 : 400;  // more than there are gates
  for (std::uint32_t n = 0; n < rounds; ++n) {
    spawn(step, step_of(x, 1, 1));
    ASSERT_TRUE(launch("step", step_of(x, 1, 1)).ok());
    ASSERT_TRUE(launch("step", step_of(y, 1, 1)).ok());
  }
  EXPECT_THAT(read(x), testing::Each(2 * rounds));
  EXPECT_THAT(read(y), testing::Each(rounds));
}

TEST_P(TaskEdgesTest, TheSessionGoes_WithLaunchesBehindTasks) {
  auto wait_and_set = kind("wait_and_set");
  const auto x = words();
  spawn_waiting(wait_and_set, x, 5);
  for (int n = 0; n < 8; ++n) ASSERT_TRUE(launch("step", step_of(x, 1, 1)).ok());
  std::thread later([flag = flag_] {
    std::this_thread::sleep_for(20ms);
    std::atomic_ref(*reinterpret_cast<std::uint32_t*>(flag->address())).store(1);
  });
  wait_and_set = nullptr, pool_ = nullptr, module_ = nullptr, session_ = nullptr, flag_ = nullptr;
  EXPECT_THAT(read(x), testing::Each(13u));
  later.join();
}

TEST_P(TaskEdgesTest, TheProcessEnds_WithWorkBehindATaskWithoutEnd) {
#if defined(PERGOLA_TSAN)
  GTEST_SKIP() << "a process that is forked to be ended is not followed";
#endif
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(
      {
        const auto wait_and_set = kind("wait_and_set");
        const auto x = words();
        spawn_waiting(wait_and_set, x, 5);
        ASSERT_TRUE(launch("step", step_of(x, 3, 1)).ok());
        std::exit(0);  // with the session alive
      },
      testing::ExitedWithCode(0), "");
}

// A pool's new kinds want the resident kernel exchanged while work waits behind its tasks.
TEST_P(TaskEdgesTest, NewKindsAndParking_WaitForTheStay) {
  const auto wait_and_set = kind("wait_and_set");
  const auto x = words(), y = words();
  spawn_waiting(wait_and_set, x, 5);
  ASSERT_TRUE(launch("step", step_of(x, 3, 1)).ok());
  std::thread parks([&] { EXPECT_TRUE(pool_->park().ok()); });
  std::thread prepares([&] { spawn(kind("step"), step_of(y, 1, 8)); });
  std::this_thread::sleep_for(20ms);
  EXPECT_EQ(peek(x), 0u);
  raise_flag();
  parks.join();
  prepares.join();
  EXPECT_THAT(read(x), testing::Each(16u));
  EXPECT_THAT(read(y), testing::Each(8u));
}

// Where streams cannot wait the host does, and the pool says so.
TEST_P(TaskEdgesTest, WithoutGates_TheHostWaits) {
  if (!is_resident()) GTEST_SKIP() << "threads run tasks of the CPU device, which has gates";
  auto device = std::make_shared<DiscreteDevice>(*open_device("cpu"));
  for (const bool has_none : {false, true}) {
    flag_ = nullptr;
    device->has_no_gates = has_none;
    session_ = *create_session(device, "");
    module_ = *session_->load_text(kEdgesSource, {});
    session::TaskPoolOptions options;
    options.executor = TaskExecutor::kResident;
    pool_ = *session_->task_pool(options);
    EXPECT_EQ(pool_->info().streams_wait, !has_none);
    const auto slow = kind("slow_step");
    const auto x = words();
    const auto id =
        spawn(slow, {ArrayArgument{x}, number(kWords), number(1), number(5), number(kSanitized ? 100 : 10000)});
    ASSERT_TRUE(launch("step", step_of(x, 3, 1)).ok());
    if (has_none) {
      EXPECT_TRUE(*pool_->check(id)) << "the launch has waited for it";
    }
    EXPECT_THAT(read(x), testing::Each(16u));
  }
}

TEST_P(TaskEdgesTest, Environment_SaysWhoWaits) {
  const auto made = [&](const char* given) {
    ::setenv("PERGOLA_TASK_EDGES", given, 1);
    const session::SessionPtr session = *create_session(*open_device("cpu"), "");
    session::TaskPoolOptions options;
    options.executor = is_resident() ? TaskExecutor::kResident : TaskExecutor::kThreads;
    auto pool = session->task_pool(options);
    ::unsetenv("PERGOLA_TASK_EDGES");
    return pool.ok() ? std::string((*pool)->info().streams_wait != 0 ? "streams" : "host") : pool.message();
  };
  EXPECT_EQ(made(""), "streams");
  EXPECT_EQ(made("stream"), "streams");
  EXPECT_EQ(made("host"), "host");
  EXPECT_THAT(made("both"), testing::HasSubstr("PERGOLA_TASK_EDGES is 'both'; it can be 'stream' or 'host'."));
}

// ── Both ────────────────────────────────────────────────────────────────────────────────────────────────────────────

// Launches, fills, copies, accesses of the host and tasks over few arrays, submitted one after the other by several
// threads: the contents are those of running each at once. Tasks have no order among each other, so whoever spawns one
// that conflicts with another waits for that, unless ordinary work that overwrites came in between.
class Mix {
 public:
  static constexpr std::uint32_t kArrays = 4, kWords = 16;
  struct Kinds {
    session::TaskKindPtr step, slow, add;
  };
  Mix(session::SessionPtr session, session::ModulePtr module, session::TaskPoolPtr pool, Kinds kinds)
      : session_(std::move(session)), module_(std::move(module)), pool_(std::move(pool)), kinds_(std::move(kinds)) {
    for (Array& array : arrays_) {
      array.words = *session_->allocate(session::ElementType::kU32, 0, kWords);
      fill(array, 1);
    }
  }
  void run(std::uint32_t seed, std::uint32_t threads, std::uint32_t operations) {
    std::vector<std::thread> all;
    for (std::uint32_t t = 0; t < threads; ++t)
      all.emplace_back([&, t] {
        std::mt19937 random(seed + t * 1000003);
        for (std::uint32_t n = 0; n < operations && !testing::Test::HasFailure(); ++n) {
          const std::lock_guard lock(mutex_);
          one(random);
        }
      });
    for (std::thread& thread : all) thread.join();
    for (Array& array : arrays_) compare(array);
    EXPECT_TRUE(session_->synchronize().ok());
  }

 private:
  struct Array {
    session::ArrayPtr words;
    Words wanted = Words(kWords, 0);
    std::vector<session::TaskId> readers, writers;
  };
  static Argument number(std::uint32_t value) { return Number{session::ElementType::kU32, value}; }
  static session::LaunchShape shape() { return {.grid = {1, 1, 1}, .block = {32, 1, 1}}; }
  void expect_ok(const Status& status) { EXPECT_TRUE(status.ok()) << status.message(); }
  void launch(const char* name, const std::vector<Argument>& arguments) {
    expect_ok((*module_->kernel(name))->launch(shape(), arguments, nullptr, nullptr));
  }
  void wait(std::vector<session::TaskId>& ids) {
    for (const session::TaskId id : ids) expect_ok(pool_->wait(id, 120s));
    ids.clear();
  }
  void overwritten(Array& array) {
    array.readers.clear();
    array.writers.clear();
  }
  session::TaskId spawn(session::TaskKindPtr kind, const std::vector<Argument>& arguments, bool high) {
    if (high) kind = *kind->with_priority(session::TaskPriority::kHigh);
    const auto id = kind->spawn(arguments);
    EXPECT_TRUE(id.ok()) << id.message();
    return id.ok() ? *id : 0;
  }
  void fill(Array& array, std::uint32_t value) {
    expect_ok(array.words->fill(std::as_bytes(std::span(&value, 1))));
    array.wanted.assign(kWords, value);
    overwritten(array);
  }
  void compare(Array& array) {
    Words values(kWords);
    expect_ok(array.words->read(0, std::as_writable_bytes(std::span(values))));
    EXPECT_EQ(values, array.wanted);
    array.writers.clear();
  }
  void one(std::mt19937& random) {
    Array& x = arrays_[random() % kArrays];
    Array& y = arrays_[random() % kArrays];
    const auto by = static_cast<std::uint32_t>(random() % 5), plus = static_cast<std::uint32_t>(random() % 9);
    const auto steps = static_cast<std::uint32_t>(random() % (kSanitized ? 20 : 300));
    const bool is_task = random() % 2 == 0, high = random() % 4 == 0;
    const std::vector<Argument> step{ArrayArgument{x.words}, number(kWords), number(by), number(plus)};
    switch (random() % 12) {
      case 0: return fill(x, plus);
      case 1:
        if (&x == &y) return;
        expect_ok(y.words->copy_from(0, x.words, 0, kWords * 4));
        y.wanted = x.wanted;
        return overwritten(y);
      case 2: return compare(x);
      case 3: {
        const Words values(kWords, by);
        expect_ok(x.words->write(0, std::as_bytes(std::span(values))));
        x.wanted = values;
        return overwritten(x);
      }
      case 4: return random() % 8 == 0 ? expect_ok(session_->synchronize()) : expect_ok(pool_->wait_all(120s));
      case 5:
      case 6:
      case 7:
        if (&x == &y) return;
        if (is_task) {
          wait(x.writers), wait(y.writers), wait(y.readers);
          const auto id = spawn(kinds_.add, {ArrayArgument{y.words}, ArrayArgument{x.words}, number(kWords)}, high);
          x.readers.push_back(id);
          y.writers.push_back(id);
        } else {
          launch("add_to", {ArrayArgument{y.words}, ArrayArgument{x.words}, number(kWords)});
          overwritten(y);
        }
        for (std::uint32_t i = 0; i < kWords; ++i) y.wanted[i] = y.wanted[i] * 3 + x.wanted[i];
        return;
      default:
        if (is_task) {
          wait(x.writers), wait(x.readers);
          std::vector<Argument> slow = step;
          slow.push_back(number(steps));
          x.writers.push_back(steps % 2 == 0 ? spawn(kinds_.step, step, high) : spawn(kinds_.slow, slow, high));
        } else {
          launch("step", step);
          overwritten(x);
        }
        for (std::uint32_t& word : x.wanted) word = word * by + plus;
    }
  }

  const session::SessionPtr session_;
  const session::ModulePtr module_;
  const session::TaskPoolPtr pool_;
  const Kinds kinds_;
  std::mutex mutex_;  // over each operation, so that there is one order
  Array arrays_[kArrays];
};

// PERGOLA_SEED repeats one, PERGOLA_MIXES says how many.
TEST_P(TaskEdgesTest, RandomMixes_AreAsOneAfterTheOther) {
  const char *given = std::getenv("PERGOLA_SEED"), *many = std::getenv("PERGOLA_MIXES");
  const auto first = given == nullptr ? static_cast<std::uint32_t>(std::random_device()())
                                      : static_cast<std::uint32_t>(std::strtoul(given, nullptr, 0));
  const std::uint32_t usual = kSanitized ? 4 : 12;
  const std::uint32_t mixes = many == nullptr ? usual : static_cast<std::uint32_t>(std::atoi(many));
  for (std::uint32_t mix = 0; mix < mixes && !HasFailure(); ++mix) {
    SCOPED_TRACE(testing::Message() << "PERGOLA_SEED=" << first + mix);
    open(mix % 3 == 2 ? "tasks=small" : mix % 3 == 1 ? "graphs=off" : "");
    const Mix::Kinds kinds{kind("step"), kind("slow_step"), kind("add_to")};
    Mix(session_, module_, pool_, kinds).run(first + mix, 1 + mix % 4, is_resident() ? 40 : 150);
  }
}

}  // namespace
}  // namespace pergola::runtime
