// Slices of narrow tasks in traces, by a resident kernel and by threads, on the CPU device or on $PERGOLA_DEVICE: each
// task that has ended while the trace was on has one, under its id, and no other has.
#include <gmock/gmock.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <map>

#include "src/base/file.h"
#include "src/runtime/runtime.h"
#include "src/scheduler/explain.h"
#include "src/scheduler/trace_file.h"
#include "src/session/task_pool.h"
#include "tests/support/sanitized.h"

namespace pergola::runtime {
namespace {

using scheduler::TaskSlice;
using scheduler::Timeline;
using session::Argument;
using session::TaskExecutor;
using session::TaskId;
using testing::HasSubstr;
using testing::Not;

constexpr char kSliceSource[] = R"(
#include <pergola/device/tasks.h>
extern "C" __global__ void add_at(unsigned* counts, unsigned at) {
  if (threadIdx.x == 0) atomicAdd(counts + at, 1u);
}
extern "C" __global__ void wide(unsigned* counts, unsigned at) {  // its warps wait for each other
  __shared__ unsigned one;
  if (threadIdx.x == 0) one = 1;
  __syncthreads();
  if (threadIdx.x == blockDim.x - 1) atomicAdd(counts + at, one);
}
extern "C" __global__ void parent(unsigned* counts, unsigned at, unsigned long long children) {
  if (threadIdx.x == 0 && !pergola::spawn<decltype(add_at)>(children, counts, at)) atomicAdd(counts + at, 1u << 16);
}
)";
constexpr std::uint32_t kCounts = 64;

class TaskSlices : public testing::TestWithParam<TaskExecutor> {
 protected:
  void SetUp() override {
    if (GetParam() == TaskExecutor::kResident && test_support::kThreadSanitized)
      GTEST_SKIP() << "TSan does not connect the device half's fences with the host.";
    const char* device = std::getenv("PERGOLA_DEVICE");
    if (GetParam() == TaskExecutor::kThreads && device != nullptr && std::string_view(device) != "cpu")
      GTEST_SKIP() << "Only the CPU device runs tasks by threads.";
    // A trace's end gives up tasks that get nowhere for a while, and an interpreter on a busy machine is as slow.
    setenv("PERGOLA_END_GRACE_MS", "120000", 1);
    session_ = create_session(device == nullptr ? "cpu" : device, "").value();
    unsetenv("PERGOLA_END_GRACE_MS");
    module_ = session_->load_text(kSliceSource, {}).value();
    counts_ = session_->allocate(session::ElementType::kU32, 0, kCounts).value();
    const std::uint32_t zero = 0;
    ASSERT_TRUE(counts_->fill(std::as_bytes(std::span(&zero, 1))).ok());
    ASSERT_TRUE(session_->synchronize().ok());  // a task behind the fill would be held back, and have another id
  }
  ~TaskSlices() override { std::filesystem::remove(path_); }

  void make_pool(bool slices = true, std::uint32_t blocks = 0) {
    session::TaskPoolOptions options;
    options.executor = GetParam();
    options.slices = slices;
    options.blocks = blocks;
    pool_ = session_->task_pool(options).value();
  }
  session::TaskKindPtr kind(const char* kernel, std::uint32_t blocks, std::uint32_t threads) {
    session::LaunchShape shape;
    shape.grid = {blocks, 1, 1}, shape.block = {threads, 1, 1};
    return pool_->prepare(module_->kernel(kernel).value(), shape).value();
  }
  TaskId spawn(const session::TaskKindPtr& kind, std::uint32_t at, std::vector<Argument> more = {}) {
    std::vector<Argument> arguments{session::ArrayArgument{counts_, 0},
                                    session::Number{session::ElementType::kU32, at}};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return kind->spawn(arguments).value();
  }
  void begin_trace() { ASSERT_TRUE(session_->trace(path_.string()).ok()); }
  Timeline end_trace() {
    EXPECT_TRUE(session_->trace(std::nullopt).ok());
    return traced();
  }
  Timeline traced() const { return scheduler::parse_trace(read_file(path_).value(), "trace").value(); }

  const std::filesystem::path path_ =
      std::filesystem::temp_directory_path() / fmt::format("pergola-task-slices-{}.json", ::getpid());
  session::SessionPtr session_;
  session::ModulePtr module_;
  session::ArrayPtr counts_;
  session::TaskPoolPtr pool_;
};

INSTANTIATE_TEST_SUITE_P(Executors, TaskSlices, testing::Values(TaskExecutor::kResident, TaskExecutor::kThreads),
                         [](const auto& each) {
                           return each.param == TaskExecutor::kResident ? "Resident" : "Threads";
                         });

std::vector<TaskId> ids_of(const Timeline& timeline) {
  std::vector<TaskId> ids;
  for (const TaskSlice& task : timeline.tasks) ids.push_back(task.id);
  return ids;
}

TEST_P(TaskSlices, EachTaskOfATrace_HasOne_UnderItsId) {
  make_pool();
  const auto narrow = kind("add_at", 1, 32), wide = kind("wide", 1, 96), grid = kind("add_at", 3, 40);
  const TaskId before = spawn(narrow, 0);
  ASSERT_TRUE(pool_->wait(before).ok());
  begin_trace();
  std::vector<TaskId> ids;
  std::map<TaskId, std::string> names;
  for (std::uint32_t n = 0; n < 40; ++n)
    for (const auto& [each, name] : {std::pair{narrow, "add_at"}, std::pair{wide, "wide"}, std::pair{grid, "add_at"}}) {
      ids.push_back(spawn(each, n));
      names[ids.back()] = name;
    }
  const Timeline timeline = end_trace();  // waits for them
  EXPECT_THAT(ids_of(timeline), testing::UnorderedElementsAreArray(ids));
  const double last_ns = timeline.tasks.empty() ? 0 : timeline.tasks.back().start_ns;
  for (const TaskSlice& task : timeline.tasks) {
    EXPECT_EQ(task.name, names[task.id]);
    EXPECT_LE(task.start_ns, task.end_ns);
    EXPECT_LE(task.start_ns, last_ns) << "in the order of their begins";
    EXPECT_GT(task.start_ns, -1e6) << "on the trace's axis";
    EXPECT_LT(task.end_ns, 600e9);
  }
  EXPECT_EQ(timeline.tasks_are_resident, GetParam() == TaskExecutor::kResident);
  EXPECT_EQ(timeline.dropped_tasks, 0u);
  EXPECT_THAT(scheduler::explain(timeline),
              testing::AllOf(HasSubstr("narrow tasks: 120 on "), HasSubstr(" at once\n"),
                             HasSubstr("    80 of add_at: "), HasSubstr("    40 of wide: ")));
}

TEST_P(TaskSlices, TheyAreWhereTheHostWaitedForThem) {
  make_pool();
  const auto narrow = kind("add_at", 1, 32);
  begin_trace();
  for (int n = 0; n < 5; ++n) ASSERT_TRUE(pool_->wait(spawn(narrow, 0)).ok());
  const Timeline timeline = end_trace();
  ASSERT_EQ(timeline.tasks.size(), 5u);
  ASSERT_EQ(timeline.host.size(), 5u);
  // One after the other, and each before the end of its wait but for what the two clocks are apart: on a GPU the begin
  // of a launch, and a thread may be kept away between the two looks at the CPU device's clocks.
  const double apart_ns = timeline.host_error_ns + 1e6;
  for (std::size_t n = 0; n < 5; ++n) {
    EXPECT_LE(timeline.tasks[n].end_ns, timeline.host[n].end_ns + apart_ns) << n;
    if (n == 0) continue;
    EXPECT_GE(timeline.tasks[n].start_ns, timeline.host[n - 1].end_ns - apart_ns) << n;
  }
}

TEST_P(TaskSlices, APoolMadeInATrace_AndTheNextTrace_HaveTheirOwn) {
  begin_trace();
  make_pool();
  const auto narrow = kind("add_at", 1, 32);
  const TaskId first = spawn(narrow, 0);
  EXPECT_THAT(ids_of(end_trace()), testing::ElementsAre(first));
  ASSERT_TRUE(pool_->wait(spawn(narrow, 1)).ok());  // in none
  begin_trace();
  const TaskId second = spawn(narrow, 2);
  begin_trace();  // ends the one before
  EXPECT_THAT(ids_of(end_trace()), testing::IsEmpty());
  begin_trace();
  const TaskId third = spawn(narrow, 3);
  EXPECT_NE(second, third);
  EXPECT_THAT(ids_of(end_trace()), testing::ElementsAre(third));
}

TEST_P(TaskSlices, TheEndOfASession_WritesThem) {
  make_pool();
  auto narrow = kind("add_at", 1, 32);
  begin_trace();
  const TaskId task = spawn(narrow, 0);
  narrow.reset();
  pool_.reset(), module_.reset(), counts_.reset();
  session_.reset();
  EXPECT_THAT(ids_of(traced()), testing::ElementsAre(task));
}

TEST_P(TaskSlices, WithoutTheOption_ThereAreNone) {
  make_pool(false);
  begin_trace();
  ASSERT_TRUE(pool_->wait(spawn(kind("add_at", 1, 32), 0)).ok());
  const Timeline timeline = end_trace();
  EXPECT_THAT(timeline.tasks, testing::IsEmpty());
  EXPECT_THAT(timeline.host, testing::SizeIs(1)) << "the wait";
  EXPECT_THAT(scheduler::explain(timeline), Not(HasSubstr("at once")));
}

TEST_P(TaskSlices, WhatTasksSpawn_HasThem_WithoutIds) {
  make_pool();
  const auto child = kind("add_at", 1, 32), parent = kind("parent", 1, 32);
  begin_trace();
  const Argument handle = session::Number{session::ElementType::kU64, child->on_device().value()};
  const TaskId task = spawn(parent, 0, {handle});
  ASSERT_TRUE(pool_->wait(task).ok());
  std::uint32_t count = 0;
  ASSERT_TRUE(counts_->read(0, std::as_writable_bytes(std::span(&count, 1))).ok());
  const Timeline timeline = end_trace();
  ASSERT_EQ(count, 1u) << "there was room to spawn it";
  EXPECT_THAT(ids_of(timeline), testing::ElementsAre(task, 0));
  EXPECT_EQ(timeline.tasks[0].name, "parent");
  EXPECT_EQ(timeline.tasks[1].name, "add_at");
}

TEST_P(TaskSlices, ALargeTask_HasOne_OrOneForEachPiece) {
  make_pool();
  const auto large = kind("add_at", 100, 64);
  begin_trace();
  ASSERT_TRUE(pool_->wait(spawn(large, 0)).ok());
  const Timeline timeline = end_trace();
  if (GetParam() == TaskExecutor::kThreads)
    EXPECT_EQ(timeline.tasks.size(), 1u);
  else  // what a resident block runs at once is one: 15 blocks of two warps
    EXPECT_EQ(timeline.tasks.size(), (100u + 14) / 15);
}

TEST_P(TaskSlices, OfAResidentBlock_TheNewestAreKept_AndTheOthersCounted) {
  if (GetParam() == TaskExecutor::kThreads) GTEST_SKIP() << "Threads keep 262,144.";
  make_pool(true, 1);
  const auto narrow = kind("add_at", 1, 32);
  begin_trace();
  std::vector<TaskId> ids;
  for (std::uint32_t n = 0; n < 1500; ++n) ids.push_back(spawn(narrow, 0));
  const Timeline timeline = end_trace();
  EXPECT_EQ(timeline.tasks.size(), 1024u);
  EXPECT_EQ(timeline.dropped_tasks, 1500u - 1024);
  EXPECT_THAT(scheduler::explain(timeline), HasSubstr("476 older narrow tasks were dropped"));
  EXPECT_THAT(ids_of(timeline), testing::Contains(ids.back()));
  EXPECT_THAT(ids_of(timeline), Not(testing::Contains(ids.front())));
}

TEST_P(TaskSlices, FailedTasks_HaveThem) {
  make_pool();
  const auto narrow = kind("add_at", 1, 32);
  begin_trace();
  const TaskId task = spawn(narrow, 1u << 30);  // a wild address
  EXPECT_FALSE(pool_->wait(task).ok());
  EXPECT_THAT(ids_of(end_trace()), testing::ElementsAre(task));
}

}  // namespace
}  // namespace pergola::runtime
