// Edges between streams and tasks: who spawns behind work on streams, or launches behind tasks, goes on at once, and
// the results are those of the order in which it was written.
#include "src/runtime/task_edges.h"

#include <sys/wait.h>
#include <unistd.h>

#include <future>
#include <sstream>
#include <thread>

#include "src/runtime/devices.h"
#include "src/runtime/discrete_device.h"
#include "src/runtime/task_edges_fixture.h"

namespace pergola::runtime::task_edges_testing {
namespace {

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
  std::thread later = raise_flag_later();
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
  raise(later_flag);
  EXPECT_TRUE(event->wait(60s).ok());
}

// The threads that waited in the parent are not in the child, which must not wait for them.
TEST_P(TaskEdgesTest, AForkedChild_LetsGoOfItsSession) {
  if (is_resident()) GTEST_SKIP() << "its threads belong to the device, which a child leaves alone";
#if defined(PERGOLA_TSAN)
  GTEST_SKIP() << "TSan ends a child that lets go of its parent's threads";
#endif
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

// The task finds the array's memory all the same.
TEST_P(TaskEdgesTest, AnArrayThatGoesWhileATaskOfItIsHeld_DoesNotWait) {
  const auto add_to = kind("add_to");
  auto x = words();
  const auto y = words(kWords, 1);
  ASSERT_TRUE(launch_waiting(x, 5).ok());
  std::promise<void> goes_on;
  std::thread late([&, flag = flag_] {
    goes_on.get_future().wait_for(10s);
    raise(flag);
  });
  const auto id = spawn(add_to, {ArrayArgument{y}, ArrayArgument{x}, number(kWords)});
  x = nullptr;
  EXPECT_EQ(peek(flag_), 0u) << "it has waited";
  const auto other = words(kWords, 9);  // elsewhere
  goes_on.set_value();
  late.join();
  EXPECT_TRUE(pool_->wait(id, 60s).ok());
  EXPECT_THAT(read(y), testing::Each(8u));
  EXPECT_THAT(read(other), testing::Each(9u));
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

// Also where the task had ended before: only the host is told, once.
TEST_P(TaskEdgesTest, ALaunchBehindATaskThatHasFailed_Runs_AndTheHostIsTold) {
  const auto fails = kind("fails");
  const auto x = words();
  spawn(fails, {ArrayArgument{x}, ArrayArgument{flag_}});
  session::EventPtr behind;
  ASSERT_TRUE(kernel("step")->launch(shape(), step_of(x, 0, 7), &behind, nullptr).ok());
  raise_flag();
  ASSERT_TRUE(behind->wait(60s).ok());
  for (std::uint32_t round = 0; round < 3; ++round) {
    const Status status = launch("step", step_of(x, round, 1));
    EXPECT_TRUE(status.ok()) << status.message();
  }
  const std::uint32_t zero = 0;
  const auto y = words();
  EXPECT_TRUE(y->fill(std::as_bytes(std::span(&zero, 1))).ok());
  EXPECT_THAT(x->wait(0, 4, 60s).message(), HasSubstr("'fails'"));
  EXPECT_THAT(read(x), testing::Each(5u));
}

// An event of launches, which an open task does not hold up; a wait for an array keeps its time.
TEST_P(TaskEdgesTest, WhileATaskGoesOn_RecordedEventsEnd_AndTimedWaitsReturn) {
  const auto fails = kind("fails");
  const auto x = words();
  const auto first = session_->record();
  const auto id = spawn(fails, {ArrayArgument{x}, ArrayArgument{flag_}});
  const auto event = session_->record();
  ASSERT_TRUE(first.ok() && event.ok());
  EXPECT_TRUE((*event)->wait(60s).ok());
  EXPECT_TRUE((*event)->elapsed_ns(**first).ok());
  EXPECT_EQ(x->wait(0, 4, std::chrono::milliseconds(2)).code(), Code::kTimeout);
  raise_flag();
  EXPECT_THAT(pool_->wait(id, 60s).message(), HasSubstr("'fails'"));
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

TEST_P(TaskEdgesTest, AllTasksThatAreLost_AreNamed) {
  if (!is_resident()) GTEST_SKIP() << "threads have no resident kernel to lose";
  open("", {.blocks = 0, .park_after = {}, .executor = {}, .fences = false});
  const auto fails = kind("fails"), waits = kind("wait_and_set");
  const auto x = words(), never = words();
  std::vector<session::TaskId> ids{spawn(fails, {ArrayArgument{x}, ArrayArgument{flag_}})};
  for (int n = 0; n < 40; ++n)
    ids.push_back(spawn(waits, {ArrayArgument{x}, ArrayArgument{never}, number(1u), number(1u)}));
  raise_flag();
  const std::string told = pool_->wait(ids.front(), 60s).message();
  EXPECT_EQ(pool_->wait(ids.back(), 60s).message(), told);
  EXPECT_THAT(told, HasSubstr("1 of 'fails', 40 of 'wait_and_set' ("));
  // "0x1000000000000 to 0x1000000000017, 0x2000000000000"
  std::vector<session::TaskId> named;
  const std::size_t begin = told.find('(') + 1;
  std::istringstream runs(told.substr(begin, told.find(')') - begin));
  for (std::string run; std::getline(runs, run, ',');) {
    const std::size_t to = run.find(" to ");
    const session::TaskId from = std::stoull(run, nullptr, 16);
    const session::TaskId last = to == std::string::npos ? from : std::stoull(run.substr(to + 4), nullptr, 16);
    for (session::TaskId id = from; id <= last; ++id) named.push_back(id);
  }
  EXPECT_THAT(named, testing::UnorderedElementsAreArray(ids)) << told;
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
  std::thread later = raise_flag_later();
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

}  // namespace
}  // namespace pergola::runtime::task_edges_testing
