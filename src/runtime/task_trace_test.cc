// What a trace has of narrow tasks: the host's waits for them, by whichever call.
#include <gmock/gmock.h>
#include <unistd.h>

#include <filesystem>

#include "src/base/file.h"
#include "src/runtime/runtime.h"
#include "src/scheduler/explain.h"
#include "src/scheduler/trace_file.h"
#include "src/session/task_pool.h"

namespace pergola::runtime {
namespace {

using scheduler::HostKind;
using scheduler::HostSlice;
using session::Argument;

constexpr char kTraceSource[] = R"(
extern "C" __global__ void add_at(unsigned* counts, unsigned at) {
  if (threadIdx.x == 0) atomicAdd(counts + at, 1u);
}
)";
constexpr std::uint32_t kTraced = 50;

class TaskTraceTest : public testing::Test {
 protected:
  void SetUp() override {
    const char* device = std::getenv("PERGOLA_DEVICE");
    session_ = create_session(device == nullptr ? "cpu" : device, "").value();
    module_ = session_->load_text(kTraceSource, {}).value();
    pool_ = session_->task_pool({}).value();
    session::LaunchShape shape;
    shape.grid = {1, 1, 1}, shape.block = {32, 1, 1};
    add_ = pool_->prepare(module_->kernel("add_at").value(), shape).value();
    counts_ = session_->allocate(session::ElementType::kU32, 0, kTraced).value();
    ASSERT_TRUE(counts_->fill(std::as_bytes(std::span(&kZero, 1))).ok());
    ASSERT_TRUE(session_->synchronize().ok());  // a task behind the fill is counted once that has ended
    path_ = std::filesystem::temp_directory_path() / fmt::format("pergola-task-trace-{}.json", ::getpid());
  }
  void TearDown() override { std::filesystem::remove(path_); }
  session::TaskId spawn_all() {
    session::TaskId last = 0;
    for (std::uint32_t at = 0; at < kTraced; ++at)
      last = add_->spawn(std::vector<Argument>{session::ArrayArgument{counts_, 0},
                                               session::Number{session::ElementType::kU32, at}})
                 .value();
    return last;
  }
  scheduler::Timeline end_trace() {
    EXPECT_TRUE(session_->trace(std::nullopt).ok());
    return scheduler::parse_trace(read_file(path_).value(), "trace").value();
  }
  static std::vector<HostSlice> task_waits(const scheduler::Timeline& timeline) {
    std::vector<HostSlice> waits;
    for (const HostSlice& slice : timeline.host)
      if (slice.kind == HostKind::kTasks) waits.push_back(slice);
    return waits;
  }

  static constexpr std::uint32_t kZero = 0;
  session::SessionPtr session_;
  session::ModulePtr module_;
  session::TaskPoolPtr pool_;
  session::TaskKindPtr add_;
  session::ArrayPtr counts_;
  std::filesystem::path path_;
};

TEST_F(TaskTraceTest, WaitsOfTheHostForTasks_AreSlices) {
  ASSERT_TRUE(session_->trace(path_.string()).ok());
  ASSERT_TRUE(pool_->wait(spawn_all()).ok());
  spawn_all();
  ASSERT_TRUE(pool_->wait_all().ok());
  spawn_all();
  std::vector<std::uint32_t> values(kTraced);
  ASSERT_TRUE(counts_->read(0, std::as_writable_bytes(std::span(values))).ok());
  EXPECT_THAT(values, testing::Each(3u));
  const scheduler::Timeline timeline = end_trace();
  const std::vector<HostSlice> waits = task_waits(timeline);
  // The read waits only if some task has not ended by then.
  ASSERT_THAT(waits.size(), testing::AnyOf(2u, 3u));
  EXPECT_EQ(waits[0].tasks, kTraced);
  EXPECT_EQ(waits[1].tasks, 2 * kTraced);
  for (const HostSlice& wait : waits) EXPECT_LE(wait.start_ns, wait.end_ns);
  EXPECT_THAT(explain(timeline), testing::HasSubstr("us for narrow tasks, of which 100 had been spawned by then"));
}

TEST_F(TaskTraceTest, QuestionsAndWhatComesOutsideATrace_AreNone) {
  ASSERT_TRUE(pool_->wait(spawn_all()).ok());
  ASSERT_TRUE(session_->trace(path_.string()).ok());
  static_cast<void>(pool_->wait(spawn_all(), std::chrono::nanoseconds(0)));
  const scheduler::Timeline timeline = end_trace();
  EXPECT_THAT(task_waits(timeline), testing::IsEmpty());
  ASSERT_TRUE(pool_->wait_all().ok());
}

}  // namespace
}  // namespace pergola::runtime
