// Processes that end with narrow tasks under way, killed at random moments or by themselves: they end, and the next one
// finds the device as it should be. PERGOLA_DEVICE chooses the device, PERGOLA_TASK_SEED the moments.
//
//   killed_tasks_test            starts the two below, again and again
//   killed_tasks_test --spawn    spawns tasks for ever, from two threads; says so when the first have ended
//   killed_tasks_test --leave    spawns 2,000 and returns from main() before they have ended
//   killed_tasks_test --check    spawns 2,000 tasks that count themselves: 0 where each ran once
#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <random>
#include <string>
#include <thread>

#include "pergola/pergola.hpp"
#include "pergola/tasks.hpp"

namespace {

using namespace std::chrono_literals;

constexpr const char* kCount = R"(.version 7.0
.target sm_70
.address_size 64
.visible .entry count(.param .u64 counters, .param .u32 index) {
  .reg .b64 %rd<3>; .reg .b32 %r<3>; .reg .pred %p;
  ld.param.u64 %rd1, [counters]; ld.param.u32 %r1, [index];
  mov.u32 %r2, %tid.x; setp.ne.u32 %p, %r2, 0; @%p ret;
  mul.wide.u32 %rd2, %r1, 4; add.u64 %rd1, %rd1, %rd2;
  red.global.add.u32 [%rd1], 1;
  ret;
}
)";
constexpr unsigned kTasks = 2000;

struct Pool {
  pergola::Session session;
  pergola::Module module = session.load_text(kCount);
  pergola::Kernel kernel = module.kernel("count");
  pergola::Array<unsigned> counters = session.array<unsigned>(kTasks, 0u);
  pergola::TaskPool pool = session.task_pool();
  pergola::TaskKind kind = pool.prepare(kernel, pergola::grid(1, 64));
};

[[noreturn]] void spawn_for_ever(const Pool& own) {
  for (unsigned i = 0;; i = (i + 1) % kTasks) own.kind(own.counters, i);
}

int spawn(bool leaves) {
  static const Pool& own = *new Pool;  // never given back, as programs have it
  own.pool.wait(own.kind(own.counters, 0u));
  if (write(STDOUT_FILENO, "!", 1) != 1) return 1;
  for (unsigned i = 0; leaves && i < kTasks; ++i) own.kind(own.counters, i);
  if (leaves) return 0;
  std::thread([] { spawn_for_ever(own); }).detach();
  spawn_for_ever(own);
}

int check() {
  const Pool own;
  for (unsigned i = 0; i < kTasks; ++i) own.kind(own.counters, i);
  own.pool.wait_all();
  const auto counts = own.counters.read();
  return std::all_of(counts.begin(), counts.end(), [](unsigned count) { return count == 1; }) ? 0 : 1;
}

// Another process of this program; its standard output is to be read from `out`.
struct Process {
  pid_t id = 0;
  int out = -1;
};
Process start(const char* what) {
  int ends[2] = {-1, -1};
  EXPECT_EQ(pipe2(ends, O_CLOEXEC), 0);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, ends[1], STDOUT_FILENO);
  std::string program = "/proc/self/exe", argument = what;
  char* arguments[] = {program.data(), argument.data(), nullptr};
  Process made{0, ends[0]};
  EXPECT_EQ(posix_spawn(&made.id, program.c_str(), &actions, nullptr, arguments, environ), 0);
  posix_spawn_file_actions_destroy(&actions);
  close(ends[1]);
  return made;
}
void wait_until_it_spawns(const Process& process) {
  char ready = 0;
  EXPECT_EQ(read(process.out, &ready, 1), 1) << "it has ended without a task";
}
// Its status as of waitpid(); killed after a minute, which is an error.
int end_of(const Process& process) {
  int status = 0;
  for (int tries = 0; waitpid(process.id, &status, WNOHANG) == 0; ++tries) {
    if (tries == 6000) {
      ADD_FAILURE() << "a process hangs";
      kill(process.id, SIGKILL);
    }
    std::this_thread::sleep_for(10ms);
  }
  close(process.out);
  return status;
}

class KilledTasks : public testing::TestWithParam<const char*> {
 protected:
  void SetUp() override { setenv("PERGOLA_TASK_EXECUTOR", GetParam(), 1); }
  void TearDown() override { unsetenv("PERGOLA_TASK_EXECUTOR"); }
  static void expect_that_the_next_works() {
    const int status = end_of(start("--check"));
    EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
  }
  static bool is_gpu() {
    const char* device = std::getenv("PERGOLA_DEVICE");
    return device != nullptr && std::string(device).starts_with("cuda");
  }
};
INSTANTIATE_TEST_SUITE_P(Executors, KilledTasks, testing::Values("resident", "threads"),
                         [](const auto& tested) { return std::string(tested.param); });

TEST_P(KilledTasks, AtRandomMoments_TheNextProcessWorks) {
  if (is_gpu() && GetParam() == std::string("threads")) GTEST_SKIP() << "GPUs have the resident kernel alone";
  const char* given = std::getenv("PERGOLA_TASK_SEED");
  const unsigned seed = given != nullptr ? static_cast<unsigned>(std::stoul(given)) : std::random_device()();
  RecordProperty("seed", std::to_string(seed));
  std::printf("seed %u\n", seed);
  std::mt19937 random(seed);
  for (int round = 0; round < 4; ++round) {
    const Process victim = start("--spawn");
    wait_until_it_spawns(victim);
    std::this_thread::sleep_for(std::chrono::microseconds(random() % 30'000));
    kill(victim.id, SIGKILL);
    EXPECT_TRUE(WIFSIGNALED(end_of(victim)));
    if (round % 2 == 1) expect_that_the_next_works();
  }
}

TEST_P(KilledTasks, LeavingWithTasksUnderWay_Ends) {
  if (is_gpu() && GetParam() == std::string("threads")) GTEST_SKIP() << "GPUs have the resident kernel alone";
  const Process leaving = start("--leave");
  wait_until_it_spawns(leaving);
  const int status = end_of(leaving);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
  expect_that_the_next_works();
}

}  // namespace

int main(int argc, char** argv) {
  const std::string what = argc > 1 ? argv[1] : "";
  if (what == "--spawn" || what == "--leave") return spawn(what == "--leave");
  if (what == "--check") return check();
  testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
