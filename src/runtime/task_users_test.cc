// The host's accesses to an array wait for the tasks that were given it, and for no others: those others wait for a
// flag that is up only at each test's end.
#include "src/runtime/task_edges_fixture.h"

namespace pergola::runtime::task_edges_testing {
namespace {

constexpr char kUsersSource[] = R"(
#include <pergola/device/tasks.h>
struct Much { unsigned value, rest[15]; };
extern "C" __global__ void takes_much(Much much, unsigned* x) { x[threadIdx.x] += much.value; }
extern "C" __global__ void child(unsigned* x, unsigned value) {
  for (unsigned n = 0; n < 20000 + (x == 0); ++n) asm volatile("");
  x[threadIdx.x] += value;
}
extern "C" __global__ void parent(unsigned* x, unsigned long long children) {
  if (threadIdx.x == 0 && !pergola::spawn<decltype(child)>(children, x, 3u)) asm volatile("trap;");
}
)";

class TaskUsersTest : public TaskEdgesTest {
 protected:
  void SetUp() override {
    TaskEdgesTest::SetUp();
    if (testing::Test::IsSkipped()) return;
    other_ = words();
    ASSERT_TRUE(session_->synchronize().ok());  // what is behind no work is not held
  }
  // A task of another array that goes on until the end.
  void spawn_other() { spawn_waiting(kind("wait_and_set"), other_, 5); }
  void expect_others_end() {
    EXPECT_EQ(peek(other_), 0u) << "it goes on";
    raise_flag();
    EXPECT_THAT(read(other_), testing::Each(5u));
  }
  session::ArrayPtr ready_words(std::uint32_t value) {
    const auto array = words(kWords, value);
    EXPECT_TRUE(session_->synchronize().ok());
    return array;
  }

  session::ArrayPtr other_;
};

INSTANTIATE_TEST_SUITE_P(Executors, TaskUsersTest, testing::Values(TaskExecutor::kResident, TaskExecutor::kThreads),
                         [](const auto& tested) {
                           return std::string(tested.param == TaskExecutor::kResident ? "resident" : "threads");
                         });

TEST_P(TaskUsersTest, AReadWaitsForItsArraysTasks_AndForNoOther) {
  const auto step = kind("step");
  const auto x = ready_words(1), y = ready_words(1);
  const auto before = spawn(step, step_of(x, 2, 0));
  spawn_other();
  ASSERT_TRUE(pool_->wait(before).ok());
  EXPECT_THAT(read(x), testing::Each(2u));
  for (std::uint32_t turn = 1; turn <= 50; ++turn) {  // more than a ring has
    spawn(step, step_of(x, 1, 1));
    spawn(step, step_of(y, 1, 3));
    EXPECT_THAT(read(x), testing::Each(2 + turn));
    ASSERT_TRUE(y->wait(0, 4 * kWords, std::nullopt).ok());
    EXPECT_EQ(peek(y), 1 + 3 * turn);
  }
  set(x, 9);  // and an access of the host
  EXPECT_THAT(read(x), testing::Each(9u));
  EXPECT_EQ(other_->wait(0, 4, 1ms).code(), Code::kTimeout);
  EXPECT_EQ(other_->wait(0, 0, 1ms).code(), Code::kTimeout) << "of no bytes, which is for tasks alone";
  EXPECT_TRUE(x->wait(0, 0, 1ms).ok());
  expect_others_end();
}

TEST_P(TaskUsersTest, ATaskOfAPart_IsItsArrays) {
  const auto step = kind("step");
  const auto x = ready_words(1);
  spawn_other();
  for (const std::uint32_t first : {0u, 16u, kWords - 1})
    for (int n = 0; n < 8; ++n) {
      spawn(step, {ArrayArgument{x, 4 * first}, number(1), number(1), number(1)});
      EXPECT_EQ(read(x)[first], 2u + n);
    }
  expect_others_end();
}

TEST_P(TaskUsersTest, ParametersBeyondARecord_AreSeenToo) {
  const auto more = session_->load_text(kUsersSource, {}).value();
  const auto much = pool_->prepare(more->kernel("takes_much").value(), shape()).value();
  const auto x = ready_words(0);
  std::array<std::uint32_t, 16> value{7};
  for (std::uint32_t n = 1; n <= 20; ++n) {
    spawn(much, {session::BytesArgument{std::as_bytes(std::span(value))}, ArrayArgument{x}});
    EXPECT_EQ(read(x)[5], 7 * n);
  }
}

// Whoever spawns writes where its kernel's text does not say, and so counts as one that may use any array.
TEST_P(TaskUsersTest, WhatItsTasksHaveSpawned_IsWaitedFor) {
  const auto more = session_->load_text(kUsersSource, {}).value();
  const auto child = pool_->prepare(more->kernel("child").value(), shape()).value();
  const auto parent = pool_->prepare(more->kernel("parent").value(), shape()).value();
  const auto x = ready_words(0);
  const Argument handle = Number{session::ElementType::kU64, child->on_device().value()};
  for (std::uint32_t n = 1; n <= 20; ++n) {
    spawn(parent, {ArrayArgument{x}, handle});
    EXPECT_EQ(read(x)[5], 3 * n);
  }
}

TEST_P(TaskUsersTest, ATaskThatMayUseAnyArray_IsAlwaysWaitedFor) {
  const auto through = kind("through");
  const auto x = ready_words(5);
  for (std::uint32_t n = 0; n < 10; ++n) {
    const std::uint32_t before = read(x)[0];
    spawn(through, {Number{session::ElementType::kU64, x->address()}, number(2)});
    EXPECT_EQ(read(x)[0], 2 * before + 1);
  }
}

TEST_P(TaskUsersTest, HeldTasksOfAnArray_AreWaitedFor) {
  const auto step = kind("step");
  const auto x = ready_words(1);
  ASSERT_TRUE(launch_waiting(x, 4).ok());
  spawn(step, step_of(x, 3, 1));
  std::thread raises = raise_flag_later();
  EXPECT_THAT(read(x), testing::Each(13u));
  raises.join();
}

TEST_P(TaskUsersTest, AFailureOfItsTask_IsTold_WhileOthersGoOn) {
  const auto up = words(1, 1), x = ready_words(1);
  ASSERT_TRUE(session_->synchronize().ok());
  const auto fails = kind("fails");
  spawn_other();
  spawn(fails, {ArrayArgument{x}, ArrayArgument{up}});
  Words values(kWords);
  const Status told = x->read(0, std::as_writable_bytes(std::span(values)));
  EXPECT_EQ(told.code(), Code::kDeviceFault);
  EXPECT_THAT(told.message(), HasSubstr("'fails'"));
  raise_flag();
}

// Each thread has an array of its own, which it alone gives to tasks; the tasks of all go on beside each other.
TEST_P(TaskUsersTest, Threads_SeeWhatTheirOwnTasksHaveDone) {
  constexpr int kThreads = 4;
  constexpr std::uint32_t kTurns = kSanitized ? 60 : 300;
  const auto step = kind("step");
  std::vector<session::ArrayPtr> arrays;
  for (int n = 0; n < kThreads; ++n) arrays.push_back(ready_words(0));
  spawn_other();
  std::vector<std::thread> threads;
  std::atomic<int> wrong{0};
  for (int n = 0; n < kThreads; ++n)
    threads.emplace_back([&, mine = arrays[n]] {
      std::uint32_t sum = 0;
      for (std::uint32_t turn = 0; turn < kTurns; ++turn) {
        spawn(step, step_of(mine, 1, turn));
        sum += turn;
        const Words now = read(mine);
        wrong += std::ranges::all_of(now, [&](std::uint32_t word) { return word == sum; }) ? 0 : 1;
      }
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
  expect_others_end();
}

}  // namespace
}  // namespace pergola::runtime::task_edges_testing
