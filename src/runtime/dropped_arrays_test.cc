// Arrays that go while narrow tasks have them, by a resident kernel and by threads of the CPU device: nobody waits, the
// memory stays until the tasks have ended, and is given back then.
#include <gmock/gmock.h>

#include <atomic>
#include <cstdlib>

#include "src/runtime/local_array.h"
#include "src/runtime/runtime.h"
#include "src/session/task_pool.h"
#include "tests/support/sanitized.h"

namespace pergola::runtime {
namespace {

using session::Argument;
using session::ArrayArgument;
using session::TaskExecutor;

constexpr char kDropSource[] = R"(
// Ends once *flag is not 0, and then adds what is in `data` to *out.
extern "C" __global__ void until(volatile unsigned* flag, const unsigned* data, unsigned* out) {
  if (threadIdx.x != 0) return;
  while (*flag == 0) __nanosleep(1000);
  atomicAdd(out, *data);
}
extern "C" __global__ void add(const unsigned* data, unsigned* out) {
  if (threadIdx.x == 0) atomicAdd(out, *data);
}
)";

constexpr std::size_t kMemory = std::size_t{32} << 20, kLarge = std::size_t{2} << 20;

class DroppedArrays : public testing::TestWithParam<TaskExecutor> {
 protected:
  void SetUp() override {
    if (GetParam() == TaskExecutor::kResident && test_support::kThreadSanitized)
      GTEST_SKIP() << "TSan does not connect the device half's fences with the host.";
    setenv("PERGOLA_CPU_MEMORY_BYTES", std::to_string(kMemory).c_str(), 1);
    setenv("PERGOLA_END_GRACE_MS", "20", 1);  // for which who needs memory waits for tasks that get nowhere
    auto made = create_session("cpu", "");
    unsetenv("PERGOLA_CPU_MEMORY_BYTES"), unsetenv("PERGOLA_END_GRACE_MS");
    session_ = *std::move(made);
    const auto module = session_->load_text(kDropSource, {}).value();
    session::TaskPoolOptions options;
    options.executor = GetParam();
    options.blocks = 2;
    pool_ = session_->task_pool(options).value();
    session::LaunchShape shape;
    shape.grid = {1, 1, 1}, shape.block = {32, 1, 1};
    until_ = pool_->prepare(module->kernel("until").value(), shape).value();
    add_ = pool_->prepare(module->kernel("add").value(), shape).value();
    flag_ = words(1, 0), out_ = words(1, 0);
  }
  void TearDown() override {
    if (flag_ != nullptr) set_flag();  // tasks that wait may end
  }

  session::ArrayPtr words(std::size_t count, std::uint32_t value) {
    auto made = session_->allocate(session::ElementType::kU32, 0, count).value();
    EXPECT_TRUE(made->write(0, std::as_bytes(std::span(&value, 1))).ok());
    EXPECT_TRUE(session_->synchronize().ok());  // no task is held back behind it
    return made;
  }
  // Beside tasks, as another device would: the CPU device's memory is the host's.
  void set_flag() {
    auto* const word = reinterpret_cast<std::uint32_t*>(flag_->address());
    std::atomic_ref(*word).store(1);
  }
  std::uint32_t out() {
    std::uint32_t value = 0;
    EXPECT_TRUE(out_->read(0, std::as_writable_bytes(std::span(&value, 1))).ok());
    return value;
  }
  static void spawn(const session::TaskKindPtr& kind, const std::vector<session::ArrayPtr>& arrays) {
    std::vector<Argument> arguments;
    for (const session::ArrayPtr& array : arrays) arguments.emplace_back(ArrayArgument{array, 0});
    EXPECT_TRUE(kind->spawn(arguments).ok());
  }
  // How large an array there may be, to 64 KiB.
  std::size_t room() {
    std::size_t fits = 0;
    for (std::size_t step = kMemory; step >= (1u << 16); step /= 2)
      if (session_->allocate(session::ElementType::kU8, 0, fits + step).ok()) fits += step;
    return fits;
  }

  session::SessionPtr session_;
  session::TaskPoolPtr pool_;
  session::TaskKindPtr until_, add_;
  session::ArrayPtr flag_, out_;
};

INSTANTIATE_TEST_SUITE_P(Executors, DroppedArrays, testing::Values(TaskExecutor::kResident, TaskExecutor::kThreads),
                         [](const auto& each) {
                           return each.param == TaskExecutor::kResident ? "Resident" : "Threads";
                         });

TEST_P(DroppedArrays, NobodyWaits_AndTheMemoryStaysUntilTheTasksHaveEnded) {
  const std::size_t before = room();
  spawn(until_,
        {flag_, words(kLarge / 4, 5), out_});  // the array goes, though the task cannot end before what is below
  // (Who finds no room has a resident kernel leave, which waits for the task.)
  if (GetParam() == TaskExecutor::kThreads) {
    EXPECT_LE(room(), before - kLarge / 2) << "kept";
  }
  set_flag();
  ASSERT_TRUE(pool_->wait_all().ok());
  EXPECT_EQ(out(), 5u);
  EXPECT_EQ(room(), before) << "given back";
}

TEST_P(DroppedArrays, OfMany_AllAreGivenBack_AndNoneBeforeItsTaskHasEnded) {
  constexpr std::uint32_t kMany = 500;
  const std::size_t before = room();
  std::uint32_t sum = 3;
  std::vector<session::ArrayPtr> arrays;
  for (std::uint32_t n = 0; n < kMany; ++n) arrays.push_back(words(1000, n));
  spawn(until_, {flag_, words(1, 3), out_});
  for (std::uint32_t n = 0; n < kMany; ++n) {
    spawn(add_, {arrays[n], out_});
    arrays[n].reset();
    sum += n;
    if (n == kMany / 2) set_flag();
  }
  ASSERT_TRUE(pool_->wait_all().ok());
  EXPECT_EQ(out(), sum);
  EXPECT_EQ(room(), before);
}

// They are more than the device has: who finds no room waits for the tasks.
TEST_P(DroppedArrays, WhereThereIsNoRoom_TasksAreWaitedFor) {
  constexpr std::uint32_t kMany = 60;
  for (std::uint32_t n = 0; n < kMany; ++n) spawn(add_, {words(kLarge / 4, 1), out_});
  ASSERT_TRUE(pool_->wait_all().ok());
  EXPECT_EQ(out(), kMany);
}

}  // namespace
}  // namespace pergola::runtime
