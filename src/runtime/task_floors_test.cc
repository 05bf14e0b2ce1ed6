// Ordinary work and tasks without end, side by side: neither keeps the other from the device.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <deque>
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
using namespace std::chrono_literals;

constexpr char kFloorsSource[] = R"(
extern "C" __global__ void add_at(unsigned* counts, unsigned at, unsigned steps) {
  unsigned value = at;
  for (unsigned n = 0; n < steps; ++n) value = value * 1664525u + 1013904223u;
  if (threadIdx.x == 0) atomicAdd(counts + at, 1u + (value == 12345u && steps == 54321u));
}
)";

class TaskFloorsTest : public testing::TestWithParam<TaskExecutor> {
 protected:
  void SetUp() override {
#if defined(PERGOLA_TSAN)
    if (GetParam() == TaskExecutor::kResident)
      GTEST_SKIP() << "TSan does not connect the device half's fences with the host";
#endif
    const char* device = std::getenv("PERGOLA_DEVICE");
    if (device != nullptr && std::string_view(device) != "cpu" && GetParam() == TaskExecutor::kThreads)
      GTEST_SKIP() << "only the CPU device has threads that run tasks";
    open();
  }
  void open() {
    const char* device = std::getenv("PERGOLA_DEVICE");
    auto made = create_session(device == nullptr ? "cpu" : device, "");
    ASSERT_TRUE(made.ok()) << made.message();
    session_ = *made;
    auto module = session_->load_text(kFloorsSource, {});
    ASSERT_TRUE(module.ok()) << module.message();
    module_ = *module;
    session::TaskPoolOptions options;
    options.executor = GetParam();
    const auto pool = session_->task_pool(options);
    ASSERT_TRUE(pool.ok()) << pool.message();
    pool_ = *pool;
    const auto kernel = module_->kernel("add_at");
    ASSERT_TRUE(kernel.ok());
    kernel_ = *kernel;
    const auto kind = pool_->prepare(kernel_, shape());
    ASSERT_TRUE(kind.ok()) << kind.message();
    kind_ = *kind;
  }
  static session::LaunchShape shape() { return {.grid = {1, 1, 1}, .block = {64, 1, 1}}; }
  session::ArrayPtr words() const {
    auto array = session_->allocate(session::ElementType::kU32, 0, 64);
    EXPECT_TRUE(array.ok());
    const std::uint32_t zero = 0;
    EXPECT_TRUE((*array)->fill(std::as_bytes(std::span(&zero, 1))).ok());
    return *array;
  }
  static Argument number(std::uint32_t value) { return Number{session::ElementType::kU32, value}; }
  static std::uint32_t sum(const session::ArrayPtr& array) {
    std::vector<std::uint32_t> values(64);
    EXPECT_TRUE(array->read(0, std::as_writable_bytes(std::span(values))).ok());
    std::uint32_t all = 0;
    for (const std::uint32_t value : values) all += value;
    return all;
  }

  session::SessionPtr session_;
  session::ModulePtr module_;
  session::TaskPoolPtr pool_;
  session::KernelPtr kernel_;
  session::TaskKindPtr kind_;
};

INSTANTIATE_TEST_SUITE_P(Executors, TaskFloorsTest, testing::Values(TaskExecutor::kResident, TaskExecutor::kThreads),
                         [](const auto& tested) {
                           return std::string(tested.param == TaskExecutor::kResident ? "resident" : "threads");
                         });

// Each class goes on in every window of time, whatever the other does.
TEST_P(TaskFloorsTest, LaunchesAndTasksWithoutEnd_BothGoOn) {
  constexpr int kWindows = 5, kLaunchers = 2, kSpawners = 2;
  const auto launched_on = words(), tasks_on = words();
  std::atomic<bool> ends{false};
  std::atomic<std::uint32_t> launched{0}, ended{0};  // ordinary launches that have ended; tasks likewise
  const auto launch = [&] {
    for (std::uint32_t n = 0; !ends.load(); ++n) {
      const std::vector<Argument> arguments{ArrayArgument{launched_on}, number(n % 64), number(100)};
      session::EventPtr event;
      ASSERT_TRUE(kernel_->launch(shape(), arguments, n % 8 == 7 ? &event : nullptr, nullptr).ok());
      if (event == nullptr) continue;
      ASSERT_TRUE(event->wait().ok());
      launched.fetch_add(8);
    }
  };
  const auto spawn = [&] {
    std::deque<session::TaskId> open;
    for (std::uint32_t n = 0; !ends.load(); ++n) {
      const auto id = kind_->spawn(std::vector<Argument>{ArrayArgument{tasks_on}, number(n % 64), number(100)});
      ASSERT_TRUE(id.ok()) << id.message();
      open.push_back(*id);
      if (open.size() < 64) continue;
      ASSERT_TRUE(pool_->wait(open.front()).ok());
      open.pop_front();
      ended.fetch_add(1);
    }
  };
  std::vector<std::thread> threads;
  for (int n = 0; n < kLaunchers; ++n) threads.emplace_back(launch);
  for (int n = 0; n < kSpawners; ++n) threads.emplace_back(spawn);
  std::vector<std::uint32_t> launched_by, ended_by;
  for (int window = 0; window < kWindows; ++window) {
    const std::uint32_t launched_before = launched.load(), ended_before = ended.load();
    const auto until = std::chrono::steady_clock::now() + 20s;  // of a machine that is busy with other things
    do {
      std::this_thread::sleep_for(200ms);
    } while ((launched.load() == launched_before || ended.load() == ended_before) &&
             std::chrono::steady_clock::now() < until);
    launched_by.push_back(launched.load() - launched_before);
    ended_by.push_back(ended.load() - ended_before);
  }
  ends.store(true);
  for (std::thread& thread : threads) thread.join();
  EXPECT_THAT(launched_by, testing::Each(testing::Gt(0u)));
  EXPECT_THAT(ended_by, testing::Each(testing::Gt(0u)));
  EXPECT_TRUE(session_->synchronize().ok());
  EXPECT_GE(sum(launched_on), launched.load());
  EXPECT_GE(sum(tasks_on), ended.load());
}

// Where that is asked for, and tasks have no end, the resident kernel is away for a moment now and then: other work of
// the process may wait.
TEST_P(TaskFloorsTest, TasksWithoutEnd_LeaveTheDeviceNowAndThen) {
  if (GetParam() != TaskExecutor::kResident) GTEST_SKIP() << "threads leave the device to others anyway";
  ASSERT_EQ(setenv("PERGOLA_TASK_STAY_MS", "soon", 1), 0);
  EXPECT_THAT((*create_session("cpu", ""))->task_pool({}).message(), testing::HasSubstr("milliseconds"));
  ASSERT_EQ(setenv("PERGOLA_TASK_STAY_MS", "20", 1), 0);
  open();
  ASSERT_EQ(unsetenv("PERGOLA_TASK_STAY_MS"), 0);
  const auto array = words();
  const auto until = std::chrono::steady_clock::now() + 20s;
  std::uint32_t tasks = 0;
  const std::uint64_t before = pool_->info().launches;
  std::deque<session::TaskId> open;
  while (pool_->info().launches < before + 4 && std::chrono::steady_clock::now() < until) {
    const auto id = kind_->spawn(std::vector<Argument>{ArrayArgument{array}, number(tasks++ % 64), number(100)});
    ASSERT_TRUE(id.ok()) << id.message();
    open.push_back(*id);
    if (open.size() < 256) continue;
    ASSERT_TRUE(pool_->wait(open.front()).ok());
    open.pop_front();
  }
  EXPECT_GE(pool_->info().launches, before + 4);
  EXPECT_EQ(sum(array), tasks);
}

}  // namespace
}  // namespace pergola::runtime
