// Which narrow task goes next where several wait: urgent ones and others, wide ones and narrow ones. None waits for
// ever.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <thread>
#include <vector>

#include "src/runtime/task_pool_fixture.h"
#include "tests/support/sanitized.h"

namespace pergola::runtime {
namespace {

using session::Argument;
using session::ArrayArgument;
using session::TaskExecutor;
using std::chrono::steady_clock;

class TaskOrder : public TaskPoolFixture {
 protected:
  // Spawns one task of the kind after the other, on a thread of its own, until end().
  class Stream {
   public:
    Stream(session::TaskKindPtr kind, std::vector<Argument> arguments)
        : thread_([this, kind = std::move(kind), arguments = std::move(arguments)] {
            while (!over_.load(std::memory_order_relaxed)) {
              const auto id = kind->spawn(arguments);
              ASSERT_TRUE(id.ok()) << id.message();
              spawned.fetch_add(1, std::memory_order_relaxed);
            }
          }) {}
    ~Stream() { end(); }
    void end() {
      over_ = true;
      if (thread_.joinable()) thread_.join();
    }
    std::atomic<std::uint64_t> spawned{0};

   private:
    std::atomic<bool> over_{false};
    std::thread thread_;
  };
  static constexpr std::chrono::seconds kPatience{test_support::kSanitized ? 120 : 30};
  // Steps of 'mark_after' in which the device has more to do than a thread can spawn.
  static constexpr std::uint32_t kLong = test_support::kThreadSanitized ? 5 : 2000;  // under TSan it interprets
  template <typename IsSo>
  static bool becomes(const IsSo& is_so) {
    const auto until = steady_clock::now() + kPatience;
    bool is = false;
    while (!(is = is_so()) && steady_clock::now() < until) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    return is;
  }
};

std::string executor_of(const testing::TestParamInfo<TaskExecutor>& tested) {
  return tested.param == TaskExecutor::kResident ? "resident" : "threads";
}

INSTANTIATE_TEST_SUITE_P(Executors, TaskOrder, testing::Values(TaskExecutor::kResident, TaskExecutor::kThreads),
                         executor_of);

// Urgent tasks without end keep the one block busy, and its ring full. One that is not urgent is spawned, and ends.
TEST_P(TaskOrder, BehindUrgentTasksWithoutEnd_OneThatIsNot_HasItsTurn) {
  make_pool({.blocks = 1, .park_after = {}, .executor = {}});
  const auto counts = words(1), marked = words(992);
  const auto normal = kind("add_at", {1, 1, 1}, {992, 1, 1});
  const auto high = *kind("mark_after", {1, 1, 1}, {992, 1, 1})->with_priority(session::TaskPriority::kHigh);
  Stream urgent(high, {ArrayArgument{marked}, number(0), number(kLong)});
  ASSERT_TRUE(becomes([&] { return urgent.spawned > 100; }));
  const std::uint64_t before = urgent.spawned;
  const auto id = normal->spawn(std::vector<Argument>{ArrayArgument{counts}, number(0)});
  ASSERT_TRUE(id.ok()) << id.message();
  const Status ended = pool_->wait(*id, kPatience);
  EXPECT_TRUE(ended.ok()) << ended.message();
  EXPECT_LT(urgent.spawned - before, 5000u) << "of which some hundred may go first";
  urgent.end();
  ASSERT_TRUE(pool_->wait_all(std::chrono::seconds(120)).ok());
  EXPECT_THAT(read(counts), testing::Each(1u));
  EXPECT_THAT(read(marked), testing::Each(static_cast<std::uint32_t>(urgent.spawned)));
}

// One warp is busy for long, a block of all others waits for it, and narrow tasks come behind: they pass.
TEST_P(TaskOrder, WhatDoesNotFit_IsPassedByNarrowerTasks) {
  if (!is_resident()) GTEST_SKIP() << "threads have no warps to wait for";
  if (device_name() != "cpu") GTEST_SKIP() << "the host does not write what a resident kernel reads";
  make_pool({.blocks = 1, .park_after = {}, .executor = {}});
  constexpr std::uint32_t kNarrow = 20;
  const auto stop = words(1), counts = words(kNarrow + 1);
  const auto out = words(992), in = words(992, 5);
  const auto waits = kind("wait_for", {1, 1, 1}, {32, 1, 1}), wide = kind("turn", {1, 1, 1}, {992, 1, 1});
  const auto narrow = kind("add_at", {1, 1, 1}, {32, 1, 1});
  const auto long_one =
      waits->spawn(std::vector<Argument>{ArrayArgument{stop}, ArrayArgument{counts}, number(kNarrow)});
  ASSERT_TRUE(long_one.ok()) << long_one.message();
  const auto wide_one = wide->spawn(std::vector<Argument>{ArrayArgument{out}, ArrayArgument{in}, number(0)});
  ASSERT_TRUE(wide_one.ok()) << wide_one.message();
  for (std::uint32_t at = 0; at < kNarrow; ++at)
    ASSERT_TRUE(narrow->spawn(std::vector<Argument>{ArrayArgument{counts}, number(at)}).ok());
  // Written beside the tasks that use them, which a session would wait for.
  const auto* const told = reinterpret_cast<const volatile std::uint32_t*>(counts->address());
  EXPECT_TRUE(becomes([&] {
    std::uint32_t done = 0;
    for (std::uint32_t at = 0; at < kNarrow; ++at) done += told[at];
    return done == kNarrow;
  })) << "narrow tasks wait for a wide one that waits for a long one";
  EXPECT_FALSE(*pool_->check(*wide_one));
  *reinterpret_cast<volatile std::uint32_t*>(stop->address()) = 1;
  ASSERT_TRUE(pool_->wait(*wide_one, std::chrono::seconds(60)).ok());
  EXPECT_THAT(read(counts), testing::Each(1u));
  EXPECT_THAT(read(out), testing::Each(16u));
}

// Narrow tasks without end, of which some run always: a block of all warps has its turn all the same.
TEST_P(TaskOrder, BehindNarrowTasksWithoutEnd_AWideOne_HasItsTurn) {
  make_pool({.blocks = 1, .park_after = {}, .executor = {}});
  const auto counts = words(96), out = words(992), in = words(992, 5);
  const auto narrow = kind("mark_after", {1, 1, 1}, {96, 1, 1}), wide = kind("turn", {1, 1, 1}, {992, 1, 1});
  Stream stream(narrow, {ArrayArgument{counts}, number(0), number(kLong)});
  ASSERT_TRUE(becomes([&] { return stream.spawned > 100; }));
  for (int round = 0; round < 3; ++round) {
    const auto id = wide->spawn(std::vector<Argument>{ArrayArgument{out}, ArrayArgument{in}, number(0)});
    ASSERT_TRUE(id.ok()) << id.message();
    const Status ended = pool_->wait(*id, kPatience);
    EXPECT_TRUE(ended.ok()) << ended.message();
  }
  stream.end();
  ASSERT_TRUE(pool_->wait_all(std::chrono::seconds(120)).ok());
  EXPECT_THAT(read(out), testing::Each(16u));
  EXPECT_THAT(read(counts), testing::Each(static_cast<std::uint32_t>(stream.spawned)));
}

// Of both classes, in two threads, with parkings in between: each runs once, whichever was made urgent meanwhile.
TEST_P(TaskOrder, BothClasses_ParkedInTheMiddle_EachRunsOnce) {
  make_pool({.blocks = 1, .park_after = std::chrono::milliseconds(1), .executor = {}});
  constexpr std::uint32_t kTasks = test_support::kSanitized ? 60 : 300;
  const auto counts = words(2 * kTasks);
  const auto normal = kind("add_at", {1, 1, 1}, {992, 1, 1}), small = kind("add_at", {1, 1, 1}, {100, 1, 1});
  const auto high = *normal->with_priority(session::TaskPriority::kHigh);
  std::thread other([&] {
    for (std::uint32_t at = 0; at < kTasks; ++at)
      ASSERT_TRUE(high->spawn(std::vector<Argument>{ArrayArgument{counts}, number(at)}).ok());
  });
  for (std::uint32_t at = kTasks; at < 2 * kTasks; ++at) {
    ASSERT_TRUE((at % 3 == 0 ? small : normal)->spawn(std::vector<Argument>{ArrayArgument{counts}, number(at)}).ok());
    if (at % 16 == 0) std::this_thread::sleep_for(std::chrono::milliseconds(2));
    if (at % 50 == 0) {
      EXPECT_TRUE(pool_->park().ok());
    }
  }
  other.join();
  ASSERT_TRUE(pool_->wait_all(std::chrono::seconds(120)).ok());
  EXPECT_THAT(read(counts), testing::Each(1u));
}

}  // namespace
}  // namespace pergola::runtime
