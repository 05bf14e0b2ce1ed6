// Sessions with tasks=small, by threads and by a resident kernel: what becomes a task, and that nobody can tell but by
// asking.
#include "src/runtime/small_tasks.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <thread>

#include "src/runtime/local_session.h"
#include "src/runtime/runtime.h"
#include "src/session/task_pool.h"

namespace pergola::runtime {
namespace {

using session::Argument;
using session::ArrayArgument;
using session::Number;
using session::TaskExecutor;
using ::testing::HasSubstr;
using Words = std::vector<std::uint32_t>;

constexpr char kSmallTasksSource[] = R"(
extern "C" __global__ void bump(unsigned* x, unsigned steps) {  // loses one where two run at once
  if (threadIdx.x != 0) return;
  unsigned value = x[0], noise = value;
  for (unsigned n = 0; n < steps; ++n) noise = noise * 1664525u + 1013904223u;
  x[0] = value + 1 + (noise == 12345u && steps == 54321u);
}
extern "C" __global__ void add(unsigned* y, const unsigned* x) { y[threadIdx.x] += x[threadIdx.x]; }
extern "C" __global__ void may_fail(unsigned* x, unsigned how) { x[how == 0 ? 0 : 1u << 30] = 1; }
__device__ unsigned last;
extern "C" __global__ void keep(unsigned* x) { last = x[0]; }
)";

class SmallTasksTest : public testing::TestWithParam<TaskExecutor> {
 protected:
  void SetUp() override {
#if defined(PERGOLA_TSAN)
    if (GetParam() == TaskExecutor::kResident)
      GTEST_SKIP() << "TSan does not connect the device half's fences with the host";
#endif
    const char* device = std::getenv("PERGOLA_DEVICE");
    if (device != nullptr && std::string_view(device) != "cpu" && GetParam() == TaskExecutor::kThreads)
      GTEST_SKIP() << "only the CPU device has threads that run tasks";
    auto made = create_session(device == nullptr ? "cpu" : device, "tasks=small");
    ASSERT_TRUE(made.ok()) << made.message();
    session_ = *made;
    session::TaskPoolOptions options;
    options.executor = GetParam();
    ASSERT_TRUE(session_->task_pool(options).ok());
    local().scheduler().set_task_bounds({.most_ns = 1e9, .launches_in_a_row = 0});
    auto module = session_->load_text(kSmallTasksSource, {});
    ASSERT_TRUE(module.ok()) << module.message();
    module_ = *module;
  }
  LocalSession& local() const { return dynamic_cast<LocalSession&>(*session_); }
  session::ArrayPtr words(std::uint32_t value = 0) const {
    auto array = session_->allocate(session::ElementType::kU32, 0, 32);
    EXPECT_TRUE(array.ok());
    EXPECT_TRUE((*array)->fill(std::as_bytes(std::span(&value, 1))).ok());
    return *array;
  }
  static Result<Words> read(const session::ArrayPtr& array) {
    Words values(32);
    PERGOLA_TRY(array->read(0, std::as_writable_bytes(std::span(values))));
    return values;
  }
  Status launch(const char* name, const std::vector<Argument>& arguments, std::uint64_t* ticket = nullptr) const {
    PERGOLA_ASSIGN(const session::KernelPtr kernel, module_->kernel(name));
    return kernel->launch({.grid = {1, 1, 1}, .block = {32, 1, 1}}, arguments, nullptr, ticket);
  }
  static Argument number(std::uint32_t value) { return Number{session::ElementType::kU32, value}; }
  scheduler::TaskTally tally(std::string_view name) const {
    for (const auto& kernel : local().scheduler().graphs().tasks.kernels)
      if (kernel.name == name) return kernel.tally;
    return {};
  }
  // Until it may be a task, or is known never to be.
  void learn(const char* name, const std::vector<Argument>& arguments) const {
    for (int n = 0; n < 5; ++n) {
      ASSERT_TRUE(launch(name, arguments).ok());
      ASSERT_TRUE(session_->synchronize().ok());
    }
    local().small_tasks()->settle();
  }

  session::SessionPtr session_;
  session::ModulePtr module_;
};

INSTANTIATE_TEST_SUITE_P(Executors, SmallTasksTest, testing::Values(TaskExecutor::kResident, TaskExecutor::kThreads),
                         [](const auto& tested) {
                           return std::string(tested.param == TaskExecutor::kResident ? "resident" : "threads");
                         });

TEST_P(SmallTasksTest, IndependentLaunches_AreTasks_AndAllIsRight) {
  const auto shared = words(2);
  learn("add", {ArrayArgument{words(), 0}, ArrayArgument{shared, 0}});
  std::vector<session::ArrayPtr> arrays;
  for (std::uint32_t n = 0; n < 40; ++n) arrays.push_back(words(n));
  ASSERT_TRUE(session_->synchronize().ok());
  for (int round = 0; round < 3; ++round)
    for (const auto& array : arrays)
      ASSERT_TRUE(launch("add", {ArrayArgument{array, 0}, ArrayArgument{shared, 0}}).ok());
  for (std::uint32_t n = 0; n < 40; ++n) EXPECT_THAT(*read(arrays[n]), ::testing::Each(n + 6));
  EXPECT_GE(tally("add").tasks, 40u);
  const auto text = session_->graphs("text");
  ASSERT_TRUE(text.ok());
  EXPECT_THAT(*text, HasSubstr("launches of add ran as tasks"));
}

TEST_P(SmallTasksTest, TwoThreadsOnOneArray_LoseNothing) {
  const auto x = words();
  learn("bump", {ArrayArgument{x, 0}, number(50)});
  const auto work = [&] {
    for (int n = 0; n < 300; ++n) {
      ASSERT_TRUE(launch("bump", {ArrayArgument{x, 0}, number(50)}).ok());
      if (n % 16 == 0) {
        ASSERT_TRUE(read(x).ok());
      }
    }
  };
  std::thread other(work);
  work();
  other.join();
  EXPECT_EQ(read(x)->front(), 605u);
  EXPECT_GT(tally("bump").tasks, 0u);
}

TEST_P(SmallTasksTest, OtherWork_ComesAfterTasks_AndSpawnedTasksToo) {
  const auto x = words(), y = words();
  const auto bump = module_->kernel("bump");
  const auto pool = session_->task_pool({});
  ASSERT_TRUE(bump.ok() && pool.ok());
  const auto kind = (*pool)->prepare(*bump, {.grid = {1, 1, 1}, .block = {32, 1, 1}});
  ASSERT_TRUE(kind.ok()) << kind.message();
  learn("bump", {ArrayArgument{x, 0}, number(2000)});
  for (int n = 0; n < 8; ++n) {
    ASSERT_TRUE(launch("bump", {ArrayArgument{x, 0}, number(2000)}).ok());
    ASSERT_TRUE(y->copy_from(0, x, 0, 128).ok());
    EXPECT_EQ(read(y)->front(), 6u + 3 * n);
    ASSERT_TRUE(launch("bump", {ArrayArgument{x, 0}, number(2000)}).ok());
    ASSERT_TRUE((*kind)->spawn(std::vector<Argument>{ArrayArgument{x, 0}, number(2000)}).ok());
  }
  EXPECT_EQ(read(x)->front(), 29u);
  EXPECT_GT(tally("bump").tasks, 0u);
}

TEST_P(SmallTasksTest, TicketsAndRecords_EndWithTheTask) {
  const auto x = words();
  learn("bump", {ArrayArgument{x, 0}, number(10)});
  const auto kernel = module_->kernel("bump");
  ASSERT_TRUE(kernel.ok());
  const std::uint64_t before = tally("bump").tasks;
  std::uint64_t ticket = 0;
  ASSERT_TRUE(launch("bump", {ArrayArgument{x, 0}, number(10)}, &ticket).ok());
  ASSERT_EQ(tally("bump").tasks, before + 1) << *session_->graphs("text");
  const auto event = (*kernel)->event_of(ticket);
  ASSERT_TRUE(event.ok()) << event.message();
  EXPECT_TRUE((*event)->wait().ok());
  const auto start = session_->record();
  ASSERT_TRUE(start.ok() && (*start)->wait().ok());
  EXPECT_THAT((*event)->elapsed_ns(**start).message(), HasSubstr("ran as a task (tasks=small) has no time"));
  EXPECT_THAT((*start)->elapsed_ns(**event).message(), HasSubstr("ran as a task (tasks=small) has no time"));
  session::EventPtr timed;
  ASSERT_TRUE((*kernel)
                  ->launch({.grid = {1, 1, 1}, .block = {32, 1, 1}},
                           std::vector<Argument>{ArrayArgument{x, 0}, number(10)}, &timed, nullptr)
                  .ok());
  ASSERT_TRUE(timed->wait().ok());
  EXPECT_TRUE(timed->elapsed_ns(**start).ok());
}

TEST_P(SmallTasksTest, AFailure_IsToldByWhatWaits_AndBySynchronize_Once) {
  const auto x = words(), y = words();
  learn("may_fail", {ArrayArgument{x, 0}, number(0)});
  const std::uint64_t before = tally("may_fail").tasks;
  ASSERT_TRUE(launch("may_fail", {ArrayArgument{x, 0}, number(1)}).ok());
  ASSERT_EQ(tally("may_fail").tasks, before + 1) << *session_->graphs("text");
  const auto failed = read(x);
  EXPECT_EQ(failed.code(), Code::kDeviceFault) << failed.message();
  EXPECT_THAT(failed.message(), HasSubstr("'may_fail'"));
  EXPECT_FALSE(session_->synchronize().ok());
  EXPECT_TRUE(session_->synchronize().ok());
  EXPECT_TRUE(launch("may_fail", {ArrayArgument{x, 0}, number(0)}).ok());
  EXPECT_EQ(read(x)->front(), 1u);
}

TEST_P(SmallTasksTest, AFailure_IsToldByEventsBehindIt) {
  const auto x = words();
  learn("may_fail", {ArrayArgument{x, 0}, number(0)});
  const std::uint64_t before = tally("may_fail").tasks;
  ASSERT_TRUE(launch("may_fail", {ArrayArgument{x, 0}, number(1)}).ok());
  ASSERT_EQ(tally("may_fail").tasks, before + 1) << *session_->graphs("text");
  for (int n = 0; n < 2; ++n) {
    const auto event = session_->record().value();
    EXPECT_EQ(event->wait().code(), Code::kDeviceFault);
    ASSERT_TRUE(event->poll().has_value());
    EXPECT_THAT(event->poll()->message(), HasSubstr("'may_fail'"));
  }
  EXPECT_FALSE(session_->synchronize().ok());
  EXPECT_TRUE(session_->record().value()->wait().ok());
}

TEST_P(SmallTasksTest, WhatCannotBeATask_StaysALaunch_AndWhyIsTold) {
  const auto x = words(7);
  learn("keep", {ArrayArgument{x, 0}});
  ASSERT_TRUE(launch("keep", {ArrayArgument{x, 0}}).ok());
  EXPECT_EQ(tally("keep").tasks, 0u);
  const auto text = session_->graphs("text");
  ASSERT_TRUE(text.ok());
  EXPECT_THAT(*text, HasSubstr("its kernel cannot be a task: "));
  EXPECT_THAT(*text, HasSubstr("'last'"));
}

TEST_P(SmallTasksTest, ArraysModuleAndSession_MayGo) {
  auto x = words(), y = words();
  learn("bump", {ArrayArgument{x, 0}, number(5000)});
  for (int n = 0; n < 20; ++n) {
    ASSERT_TRUE(launch("bump", {ArrayArgument{y, 0}, number(5000)}).ok());
    y = words();
  }
  ASSERT_TRUE(launch("bump", {ArrayArgument{x, 0}, number(5000)}).ok());
  module_.reset();
  EXPECT_EQ(read(x)->front(), 6u);
  x.reset(), y.reset();
  session_.reset();
}

}  // namespace
}  // namespace pergola::runtime
