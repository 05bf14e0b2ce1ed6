// A session, and a process, ends within a few seconds whatever goes on: a launch without end, tasks that are held
// behind it, tasks whose resident kernel waits for it. Each in a process of its own, which an alarm ends where it
// hangs.
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <future>

#include "src/runtime/task_edges_fixture.h"

namespace pergola::runtime::task_edges_testing {
namespace {

class SessionEndTest : public TaskEdgesTest {
 protected:
  void SetUp() override {
#if defined(PERGOLA_TSAN)
    GTEST_SKIP() << "TSan ends a child that was forked beside threads";
#endif
    TaskEdgesTest::SetUp();
    GTEST_FLAG_SET(death_test_style, "threadsafe");
  }
  // In the child: a session that has little patience.
  void open_impatient(std::string_view policy = "") {
    ::alarm(20);
    let_go();
    ::setenv("PERGOLA_END_GRACE_MS", "300", 1);
    open(policy);
  }
};

INSTANTIATE_TEST_SUITE_P(Executors, SessionEndTest, testing::Values(TaskExecutor::kResident, TaskExecutor::kThreads),
                         [](const auto& tested) {
                           return std::string(tested.param == TaskExecutor::kResident ? "resident" : "threads");
                         });

TEST_P(SessionEndTest, ALaunchWithoutEnd_IsGivenUp) {
  const auto ends = [&] {
    open_impatient();
    (void)launch_waiting(words(), 5);
    let_go();
    std::_Exit(0);
  };
  EXPECT_EXIT(ends(), testing::ExitedWithCode(0), "");
}

// The tasks are refused, and it is said which launch they wait for.
TEST_P(SessionEndTest, TasksBehindALaunchWithoutEnd_AreRefused) {
  const auto ends = [&] {
    open_impatient();
    {
      const auto step = kind("step");
      const auto x = words();
      (void)launch_waiting(x, 5);
      spawn(step, step_of(x, 3, 1));
      spawn(step, step_of(x, 3, 1));
    }
    let_go();
    std::_Exit(0);
  };
  EXPECT_EXIT(ends(), testing::ExitedWithCode(0),
              "2 narrow tasks are not run, because their session ends(.|\n)*'step'(.|\n)*'wait_and_set'");
}

// Their streams wait for what waits for the launch.
TEST_P(SessionEndTest, LaunchesBehindHeldTasks_EndToo) {
  const auto ends = [&] {
    open_impatient();
    {
      const auto step = kind("step");
      const auto x = words(), y = words();
      (void)launch_waiting(x, 5);
      spawn(step, step_of(x, 3, 1));
      // Where a kernel is resident the launch itself waits on the host for the task that is held.
      for (int n = 0; !is_resident() && n < 3; ++n) (void)launch("step", step_of(x, 1, 1));
      (void)launch("step", step_of(y, 1, 1));
    }
    let_go();
    std::_Exit(0);
  };
  EXPECT_EXIT(ends(), testing::ExitedWithCode(0), "");
}

// They are in a ring, and the resident kernel's start lets ordinary work go first.
TEST_P(SessionEndTest, TasksBesideALaunchWithoutEnd_AreRun) {
  const auto ends = [&] {
    open_impatient();
    {
      const auto step = kind("step");
      const auto x = words(), y = words();
      (void)session_->synchronize();
      (void)launch_waiting(x, 5);
      spawn(step, step_of(y, 3, 1));
    }
    let_go();
    std::_Exit(0);
  };
  EXPECT_EXIT(ends(), testing::ExitedWithCode(0), "");
}

// Which keeps no other launch from being submitted meanwhile.
TEST_P(SessionEndTest, ALaunchBesideAStartThatWaits_ReturnsAtOnce) {
  const auto goes_on = [&] {
    open_impatient();
    const auto step = kind("step");
    const auto x = words(), y = words(), z = words();
    (void)session_->synchronize();
    (void)launch_waiting(x, 5);
    spawn(step, step_of(y, 3, 1));
    std::this_thread::sleep_for(50ms);  // the start waits
    (void)launch("step", step_of(z, 1, 7));
    (void)pool_->info();
    std::_Exit(peek(x) == 0 ? 0 : 1);
  };
  EXPECT_EXIT(goes_on(), testing::ExitedWithCode(0), "");
}

// With everything alive, and with what static objects have.
TEST_P(SessionEndTest, TheProcessEnds_WithTasksBehindALaunchWithoutEnd) {
  const auto ends = [&](bool is_static) {
    open_impatient();
    const auto step = kind("step");
    const auto x = words();
    (void)launch_waiting(x, 5);
    spawn(step, step_of(x, 3, 1));
    if (is_static) {
      static session::TaskKindPtr kept_kind;
      static session::ArrayPtr kept;
      kept_kind = step, kept = x;
      let_go();
      std::exit(0);
    }
    std::exit(0);
  };
  EXPECT_EXIT(ends(false), testing::ExitedWithCode(0), "");
  EXPECT_EXIT(ends(true), testing::ExitedWithCode(0), "");
}

TEST_P(SessionEndTest, LaunchesThatRunAsTasks_EndBesideALaunchWithoutEnd) {
  const auto ends = [&] {
    open_impatient("tasks=small");
    {
      const auto x = words(), y = words();
      for (int n = 0; n < 50; ++n) (void)launch("step", step_of(y, 1, 1));
      (void)launch_waiting(x, 5);
      for (int n = 0; n < 50; ++n) (void)launch("step", step_of(y, 1, 1));
      spawn(kind("step"), step_of(x, 3, 1));
    }
    let_go();
    std::_Exit(0);
  };
  EXPECT_EXIT(ends(), testing::ExitedWithCode(0), "");
}

// Threads stop it; a resident kernel is left with it. Arrays that it was given go before.
TEST_P(SessionEndTest, ATaskWithoutEnd_IsGivenUp) {
  const auto ends = [&](bool launches) {
    open_impatient();
    {
      const auto wait_and_set = kind("wait_and_set");
      const auto x = words(), y = words(), z = words();
      spawn_waiting(wait_and_set, x, 5);
      spawn_waiting(wait_and_set, y, 5);
      if (launches) (void)launch("step", step_of(x, 3, 1));
    }
    let_go();
    std::_Exit(0);
  };
  EXPECT_EXIT(ends(false), testing::ExitedWithCode(0), "");
  EXPECT_EXIT(ends(true), testing::ExitedWithCode(0), "");
}

// A kernel of the CPU device whose blocks end gets on, and what comes after it is run: the end waits.
TEST_P(SessionEndTest, TasksBehindALaunchThatGetsOn_AreRun) {
  if (is_resident()) GTEST_SKIP() << "what runs tasks there gets on itself, so only the end of work counts";
  const auto ends = [&] {
    open_impatient();
    std::uint32_t told = 2;  // memory of the host, which the CPU device reaches
    {
      const auto through = kind("through");
      const auto x = words();
      const session::LaunchShape many{.grid = {300, 1, 1}, .block = {32, 1, 1}};
      (void)kernel("computes")
          ->launch(many, std::vector<Argument>{ArrayArgument{x}, number(4'000'000)}, nullptr, nullptr);
      spawn(through, {Number{session::ElementType::kU64, reinterpret_cast<std::uint64_t>(&told)}, number(3)});
    }
    let_go();
    std::_Exit(told == 7 ? 0 : 1);
  };
  EXPECT_EXIT(ends(), testing::ExitedWithCode(0), "");
}

// In this process, which goes on with other sessions.
class GivenUpTest : public TaskEdgesTest {};
INSTANTIATE_TEST_SUITE_P(Executors, GivenUpTest, testing::Values(TaskExecutor::kResident, TaskExecutor::kThreads),
                         [](const auto& tested) {
                           return std::string(tested.param == TaskExecutor::kResident ? "resident" : "threads");
                         });

TEST_P(GivenUpTest, OtherSessionsGoOn) {
  const session::SessionPtr other = session_;
  const auto before = words();
  let_go();
  ::setenv("PERGOLA_END_GRACE_MS", "300", 1);
  open("");
  ::unsetenv("PERGOLA_END_GRACE_MS");
  {
    const auto step = kind("step");
    const auto x = words(), y = words();
    ASSERT_TRUE(session_->synchronize().ok());
    ASSERT_TRUE(launch_waiting(x, 5).ok());
    spawn(step, step_of(x, 3, 1));
    spawn(step, step_of(y, 3, 1));
  }
  let_go();
  const std::uint32_t value = 7;
  EXPECT_TRUE(before->fill(std::as_bytes(std::span(&value, 1))).ok());
  EXPECT_THAT(read(before), testing::Each(7u));
  open("");
  const auto z = words();
  spawn(kind("step"), step_of(z, 3, 1));
  EXPECT_THAT(read(z), testing::Each(1u));
}

TEST(EndGrace, IsANumberOfMilliseconds) {
  ::setenv("PERGOLA_END_GRACE_MS", "soon", 1);
  const auto refused = create_session(std::string_view("cpu"), "");
  ::unsetenv("PERGOLA_END_GRACE_MS");
  EXPECT_THAT(refused.message(), HasSubstr("PERGOLA_END_GRACE_MS is 'soon'; it can be a number of milliseconds"));
}

}  // namespace
}  // namespace pergola::runtime::task_edges_testing
