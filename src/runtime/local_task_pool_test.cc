// Pools of narrow tasks by a session, on the CPU device or on $PERGOLA_DEVICE, by a resident kernel and by threads:
// every task runs once and sees itself, whatever runs beside it.
#include "src/session/task_pool.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <random>
#include <thread>

#include "src/runtime/runtime.h"
#include "src/runtime/task_pool_fixture.h"
#include "tests/support/sanitized.h"

namespace pergola::runtime {
namespace {

using session::Argument;
using session::ArrayArgument;
using session::Number;
using Words = TaskWords;
using test_support::kSanitized;

using session::TaskExecutor;

class TaskPoolTest : public TaskPoolFixture {
 protected:
  // Every kind of task, by 8 producers, in blocks of 1 to 992 threads of one to three dimensions: each runs once, and
  // those that are to fail do, by themselves.
  void run_mix(std::uint32_t seed, std::uint32_t tasks, bool some_fail);

  // A value of its own in each place, so that no place can have another's unseen.
  static std::uint32_t value_at(std::uint32_t place) { return place * 2654435761u + 7; }
  session::ArrayPtr numbered(std::uint32_t count) {
    Words values(count);
    for (std::uint32_t i = 0; i < count; ++i) values[i] = value_at(i);
    const session::ArrayPtr array = words(count);
    EXPECT_TRUE(array->write(0, std::as_bytes(std::span(values))).ok());
    return array;
  }
  // What task `at` of kernel 'turn' makes of 128 of these.
  static void want_turned(Words& wanted, std::uint32_t at) {
    for (std::uint32_t t = 0; t < 128; ++t) wanted[at * 128 + t] = value_at(at * 128 + 127 - t) * 3 + 1;
  }
};

INSTANTIATE_TEST_SUITE_P(Executors, TaskPoolTest, testing::Values(TaskExecutor::kResident, TaskExecutor::kThreads),
                         [](const auto& tested) {
                           return std::string(tested.param == TaskExecutor::kResident ? "resident" : "threads");
                         });

// A block of about so many threads, in one to three dimensions.
device::Dim3 any_block(std::mt19937& random, std::uint32_t threads) {
  switch (random() % 3) {
    case 0: return {threads, 1, 1};
    case 1: return {(threads + 3) / 4, std::min(threads, 4u), 1};
    default: return {(threads + 5) / 6, std::min(threads, 2u), std::min(threads, 3u)};
  }
}

void TaskPoolTest::run_mix(std::uint32_t seed, std::uint32_t tasks, bool some_fail) {
  SCOPED_TRACE(testing::Message() << "PERGOLA_SEED=" << seed);
  constexpr std::uint32_t kProducers = 8;
  std::mt19937 shapes(seed);
  const std::uint32_t all = kProducers * tasks;
  const auto counts = words(all), turned = words(all * 128), in = numbered(all * 128), early = words(all * 128);
  std::vector<session::TaskKindPtr> adds, turns, earlies, failing;
  std::vector<std::uint32_t> early_shared{512, 4096, 30 * 1024};
  for (int n = 0; n < 6; ++n)
    adds.push_back(kind("add_at", {1, 1, 1}, any_block(shapes, 1 + static_cast<std::uint32_t>(shapes() % 970))));
  turns = {kind("turn", {1, 1, 1}, {128, 1, 1}), kind("turn", {1, 1, 1}, {16, 8, 1})};
  for (const std::uint32_t shared : early_shared) earlies.push_back(kind("early", {1, 1, 1}, {100, 1, 1}, shared));
  const auto wide = kind("mark", {3, 1, 1}, {47, 1, 1});
  failing = {kind("may_fail", {1, 1, 1}, {1, 1, 1}), kind("may_fail", {1, 1, 1}, {200, 1, 1})};
  const auto marked = words(141);
  std::atomic<std::uint32_t> marks{0};
  Words wanted(all, 1), wanted_early(all * 128), wanted_turned(all * 128);
  std::vector<std::thread> producers;
  for (std::uint32_t t = 0; t < kProducers; ++t)
    producers.emplace_back([&, t] {
      std::mt19937 random(seed * 8 + t);
      std::vector<std::pair<session::TaskId, bool>> spawned;  // and whether it is to fail
      for (std::uint32_t n = 0; n < tasks; ++n) {
        const std::uint32_t at = t * tasks + n;
        const std::uint32_t how = some_fail && random() % 5 == 0 ? 1 + static_cast<std::uint32_t>(random() % 2) : 0;
        const std::vector<Argument> mine{ArrayArgument{counts}, number(at)};
        Result<session::TaskId> id =
            how != 0 || random() % 4 == 0
                ? failing[random() % 2]->spawn(std::vector<Argument>{ArrayArgument{counts}, number(at), number(how)})
                : adds[random() % adds.size()]->spawn(mine);
        ASSERT_TRUE(id.ok()) << id.message();
        spawned.emplace_back(*id, how != 0);
        if (how != 0) wanted[at] = 0;
        switch (random() % 4) {
          case 0:
            want_turned(wanted_turned, at);
            id =
                turns[random() % 2]->spawn(std::vector<Argument>{ArrayArgument{turned}, ArrayArgument{in}, number(at)});
            break;
          case 1:
            for (std::uint32_t i = 0; i <= at % 100; ++i) wanted_early[at * 128 + i] = at % 100 - i + at;
            id = earlies[random() % earlies.size()]->spawn(
                std::vector<Argument>{ArrayArgument{early}, number(1 + at % 100), number(at)});
            break;
          case 2:
            ++marks;
            id = wide->spawn(std::vector<Argument>{ArrayArgument{marked}, number(141)});
            break;
          default: continue;
        }
        ASSERT_TRUE(id.ok()) << id.message();
        spawned.emplace_back(*id, false);
        if (random() % 8 == 0) {
          ASSERT_TRUE(pool_->wait(*id).ok());
        }
      }
      for (const auto& [id, fails] : spawned) {
        const Status ended = pool_->wait(id, std::chrono::seconds(60));
        ASSERT_EQ(ended.code(), fails ? Code::kDeviceFault : Code::kOk) << ended.message();
        if (fails) {
          EXPECT_THAT(ended.message(), testing::HasSubstr("'may_fail'"));
          EXPECT_THAT(ended.message(), testing::HasSubstr("of block (0,0,0)"));
        }
      }
    });
  for (std::thread& producer : producers) producer.join();
  EXPECT_EQ(read(counts), wanted);
  EXPECT_EQ(read(turned), wanted_turned);
  EXPECT_EQ(read(early), wanted_early);
  EXPECT_THAT(read(marked), testing::Each(marks.load()));
}

// PERGOLA_SEED repeats a mix, PERGOLA_MIXES says how many.
TEST_P(TaskPoolTest, Mixes_EveryTaskOnce_AndFailuresAreTheirOwn) {
  make_pool();
  const char *given = std::getenv("PERGOLA_SEED"), *many = std::getenv("PERGOLA_MIXES");
  const auto first = given == nullptr ? static_cast<std::uint32_t>(std::random_device()())
                                      : static_cast<std::uint32_t>(std::strtoul(given, nullptr, 0));
  const int usual = is_resident() ? (kSanitized ? 2 : 8)
                    : kSanitized  ? 6
                                  : 100,
            mixes = many == nullptr ? usual : std::atoi(many);
  for (int mix = 0; mix < mixes && !HasFailure(); ++mix)
    run_mix(first + static_cast<std::uint32_t>(mix), is_resident() ? 8 : 12, mix % 2 == 1);
}

TEST_P(TaskPoolTest, OneTask_RunsAndIsWaitedFor) {
  make_pool();
  const auto counts = words(100);
  const auto mark = kind("mark", {1, 1, 1}, {100, 1, 1});
  const auto id = mark->spawn(std::vector<Argument>{ArrayArgument{counts}, number(100)});
  ASSERT_TRUE(id.ok()) << id.message();
  ASSERT_TRUE(pool_->wait(*id, std::chrono::seconds(20)).ok());
  EXPECT_TRUE(*pool_->check(*id));
  EXPECT_THAT(read(counts), testing::Each(1u));
  EXPECT_EQ(pool_->info().spawned, 1u);
}

TEST_P(TaskPoolTest, EveryTaskRunsOnce) {
  make_pool();
  constexpr std::uint32_t kTasks = 5000;
  const auto counts = words(kTasks);
  const auto add = kind("add_at", {1, 1, 1}, {32, 1, 1});
  for (std::uint32_t n = 0; n < kTasks; ++n)
    ASSERT_TRUE(add->spawn(std::vector<Argument>{ArrayArgument{counts}, number(n)}).ok());
  EXPECT_THAT(read(counts), testing::Each(1u));  // a read waits for tasks that were given the array
}

TEST_P(TaskPoolTest, Blocks_HaveBarriersAndSharedMemory) {
  make_pool();
  for (const auto& [block, blocks] : {std::pair{device::Dim3{128, 1, 1}, 1u},
                                      {device::Dim3{100, 1, 1}, 3u},
                                      {device::Dim3{8, 9, 1}, 7u},
                                      {device::Dim3{992, 1, 1}, 2u}}) {
    const auto all = static_cast<std::uint32_t>(block.count());
    constexpr std::uint32_t kTasks = 40;
    const auto in = words(all * blocks * kTasks), out = words(all * blocks * kTasks);
    Words values(in->count());
    for (std::size_t n = 0; n < values.size(); ++n) values[n] = static_cast<std::uint32_t>(n * 7);
    ASSERT_TRUE(in->write(0, std::as_bytes(std::span(values))).ok());
    const auto turn = kind("turn", {blocks, 1, 1}, block);
    std::vector<session::TaskId> ids;
    for (std::uint32_t n = 0; n < kTasks; ++n) {
      const auto id = turn->spawn(std::vector<Argument>{ArrayArgument{out}, ArrayArgument{in}, number(n * blocks)});
      ASSERT_TRUE(id.ok()) << id.message();
      ids.push_back(*id);
    }
    for (const session::TaskId id : ids) ASSERT_TRUE(pool_->wait(id, std::chrono::seconds(20)).ok());
    Words expected(values.size());
    for (std::uint32_t n = 0; n < expected.size(); ++n)
      expected[n] = values[n / all * all + (all - 1 - n % all)] * 3 + 1;
    EXPECT_EQ(read(out), expected) << all << " threads";
  }
}

TEST_P(TaskPoolTest, LanesThatReturn_AndDynamicSharedMemory) {
  make_pool();
  constexpr std::uint32_t kTasks = 60, kN = 77;
  const auto out = words(kTasks * 128);
  const auto early = kind("early", {1, 1, 1}, {128, 1, 1}, 4096);
  for (std::uint32_t n = 0; n < kTasks; ++n)
    ASSERT_TRUE(early->spawn(std::vector<Argument>{ArrayArgument{out}, number(kN), number(n)}).ok());
  const Words got = read(out);
  for (std::uint32_t n = 0; n < kTasks; ++n)
    for (std::uint32_t t = 0; t < 128; ++t) ASSERT_EQ(got[n * 128 + t], t < kN ? kN - 1 - t + n : 0) << n << " " << t;
}

TEST_P(TaskPoolTest, ParametersBeyondARecord) {
  make_pool();
  constexpr std::uint32_t kTasks = 300;
  const auto out = words(kTasks * 40);
  const auto large = kind("large", {1, 1, 1}, {40, 1, 1});
  for (std::uint32_t n = 0; n < kTasks; ++n) {
    std::uint32_t values[40];
    for (std::uint32_t i = 0; i < 40; ++i) values[i] = n * 1000 + i;
    ASSERT_TRUE(large
                    ->spawn(std::vector<Argument>{ArrayArgument{out},
                                                  session::BytesArgument{std::as_bytes(std::span(values))}, number(n)})
                    .ok());
  }
  const Words got = read(out);
  for (std::uint32_t n = 0; n < got.size(); ++n) ASSERT_EQ(got[n], n / 40 * 1001 + n % 40);
}

TEST_P(TaskPoolTest, Packed_HighBitsOfEveryWordArrive) {
  make_pool();
  const auto out = words(64);
  const auto mark = kind("mark", {1, 1, 1}, {64, 1, 1});
  struct {
    std::uint64_t counts;
    std::uint32_t n, rest;
  } parameters{out->address(), 0x80000040u, 0};
  const auto bytes = std::as_bytes(std::span(&parameters, 1));
  for (int n = 0; n < 600; ++n) {  // both phases
    const auto id = mark->spawn_packed(bytes.first(12));
    ASSERT_TRUE(id.ok()) << id.message();
    ASSERT_TRUE(pool_->wait(*id).ok());
  }
  EXPECT_FALSE(mark->spawn_packed(bytes).ok());
  EXPECT_THAT(read(out), testing::Each(600u));
}

// Of one piece and of several, with few parameters, with more than few, and with more than a record has.
TEST_P(TaskPoolTest, ManyAtOnce_EveryTaskRunsOnce_AndHasItsId) {
  make_pool();
  constexpr std::uint32_t kThreads = 3, kTasks = 700;
  const auto counts = words(kThreads * kTasks), marked = words(2000), out = words(kTasks * 40);
  const auto add = kind("add_at", {1, 1, 1}, {33, 1, 1}), mark = kind("mark", {70, 1, 1}, {32, 1, 1});
  const auto after = kind("mark_after", {1, 1, 1}, {32, 1, 1}), large = kind("large", {1, 1, 1}, {40, 1, 1});
  struct At {
    std::uint64_t counts;
    std::uint32_t at, rest;
  };
  const auto rows = [](const auto& of, std::size_t bytes) {
    return ByteRows{std::as_bytes(std::span(of)).data(), bytes, sizeof of[0], of.size()};
  };
  std::vector<std::thread> threads;
  for (std::uint32_t t = 0; t < kThreads; ++t)
    threads.emplace_back([&, t] {
      std::vector<At> parameters;
      for (std::uint32_t n = 0; n < kTasks; ++n) parameters.push_back({counts->address(), t * kTasks + n, 0});
      std::vector<session::TaskId> ids(t == 1 ? 0 : kTasks);
      std::size_t spawned = 0;
      const Status status = add->spawn_many(rows(parameters, 12), ids, spawned);
      ASSERT_TRUE(status.ok()) << status.message();
      ASSERT_EQ(spawned, kTasks);
      for (const session::TaskId id : ids) ASSERT_TRUE(pool_->wait(id, std::chrono::seconds(60)).ok());
    });
  for (std::thread& thread : threads) thread.join();
  const std::vector<At> pieces(20, At{marked->address(), 2000, 0});
  struct Large {
    std::uint64_t out;
    std::uint32_t values[40], at;
  };
  std::vector<Large> larges;
  for (std::uint32_t n = 0; n < kTasks; ++n) {
    larges.push_back({out->address(), {}, n});
    for (std::uint32_t i = 0; i < 40; ++i) larges[n].values[i] = n * 1000 + i;
  }
  std::vector<session::TaskId> ids(20);
  std::size_t spawned = 0;
  ASSERT_TRUE(mark->spawn_many(rows(pieces, 12), ids, spawned).ok());
  for (const session::TaskId id : ids) ASSERT_TRUE(pool_->wait(id, std::chrono::seconds(60)).ok());
  ASSERT_TRUE(large->spawn_many(rows(larges, 172), {}, spawned).ok());
  ASSERT_EQ(spawned, kTasks);
  ASSERT_TRUE(pool_->wait_all(std::chrono::seconds(60)).ok());
  EXPECT_THAT(read(counts), testing::Each(1u));
  EXPECT_THAT(read(marked), testing::Each(20u));
  const Words got = read(out);
  for (std::uint32_t n = 0; n < got.size(); ++n) ASSERT_EQ(got[n], n / 40 * 1001 + n % 40);
  EXPECT_EQ(pool_->info().spawned >= kThreads * kTasks + 20 + kTasks, true);
  // What is wrong is refused as a whole.
  EXPECT_EQ(add->spawn_many(rows(pieces, 16), {}, spawned).code(), Code::kInvalidArgument);
  EXPECT_EQ(add->spawn_many(rows(larges, 12), ids, spawned).code(), Code::kInvalidArgument) << "room for 20 ids";
  EXPECT_EQ(spawned, 0u);
  EXPECT_TRUE(after->spawn_many({}, {}, spawned).code() == Code::kInvalidArgument);
}

// More than rows are made of at once, before a launch on the same array and behind one.
TEST_P(TaskPoolTest, EachWithItsOwnNumbers_IsOrderedAsASpawn) {
  make_pool();
  constexpr std::uint32_t kTasks = 2500;
  const auto counts = words(kTasks, 7);
  const auto add = kind("add_at", {1, 1, 1}, {32, 1, 1});
  std::vector<std::uint32_t> numbers(2 * kTasks);
  for (std::uint32_t n = 0; n < kTasks; ++n) numbers[2 * n] = n;
  const session::TaskColumn column{1, std::as_bytes(std::span(numbers)).data(), 8};
  const std::vector<Argument> arguments{ArrayArgument{counts}, number(0)};
  std::vector<session::TaskId> ids(kTasks);
  std::size_t spawned = 0;
  for (int round = 0; round < 2; ++round) {
    const std::uint32_t zero = 0;
    ASSERT_TRUE(counts->fill(std::as_bytes(std::span(&zero, 1))).ok());
    const Status status = add->spawn_each(arguments, std::span(&column, 1), kTasks, ids, spawned);
    ASSERT_TRUE(status.ok()) << status.message();
    ASSERT_EQ(spawned, kTasks);
    const auto mark = module_->kernel("mark");
    ASSERT_TRUE(mark.ok());
    session::LaunchShape shape;
    shape.grid = {(kTasks + 255) / 256, 1, 1}, shape.block = {256, 1, 1};
    ASSERT_TRUE((*mark)->launch(shape, std::vector<Argument>{ArrayArgument{counts}, number(kTasks)}).ok());
    EXPECT_THAT(read(counts), testing::Each(2u));
    for (const session::TaskId id : ids) ASSERT_TRUE(*pool_->check(id));
  }
  const session::TaskColumn of_memory{0, column.values, 8};
  EXPECT_EQ(add->spawn_each(arguments, std::span(&of_memory, 1), 1, {}, spawned).code(), Code::kInvalidArgument);
  EXPECT_EQ(add->spawn_each(arguments, std::span(&column, 1), 5, ids, spawned).code(), Code::kInvalidArgument);
  EXPECT_TRUE(add->spawn_each(arguments, std::span(&column, 1), 0, {}, spawned).ok());
  EXPECT_EQ(spawned, 0u);
}

// What another thread has seen of the array meanwhile is not its last state: a read behind the call waits for its
// tasks.
TEST_P(TaskPoolTest, WhileAnotherThreadReads_ATaskThatIsSpawnedIsStillWaitedFor) {
#if defined(PERGOLA_TSAN)
  GTEST_SKIP() << "what the other thread reads at the moment of a spawn may be of before and after the task "
                  "(docs/tasks.md): TSan tells of that";
#endif
  make_pool();
  const std::uint32_t rounds = kSanitized ? 200 : is_resident() ? 1500 : 4000;
  constexpr std::uint32_t kEach = 3, kSteps = 2000;
  const auto counts = words(32);
  const auto add = kind("mark_after", {1, 1, 1}, {32, 1, 1});
  const std::uint32_t steps[kEach] = {kSteps, kSteps, kSteps};
  const session::TaskColumn column{2, std::as_bytes(std::span(steps)).data(), 4};
  const std::vector<Argument> arguments{ArrayArgument{counts}, number(0), number(kSteps)};
  std::atomic<std::uint32_t> reads{0};
  std::jthread other([&](const std::stop_token& stop) {
    std::uint32_t one = 0;
    for (; !stop.stop_requested(); ++reads)
      EXPECT_TRUE(counts->read(0, std::as_writable_bytes(std::span(&one, 1))).ok());
  });
  while (reads == 0) std::this_thread::yield();
  std::uint32_t spawned_so_far = 0, missed = 0;
  for (std::uint32_t round = 0; round < rounds; ++round) {
    std::size_t spawned = 1;
    const Status status = round % 2 == 0 ? add->spawn_each(arguments, std::span(&column, 1), kEach, {}, spawned)
                                         : add->spawn(arguments).status();
    ASSERT_TRUE(status.ok()) << status.message();
    spawned_so_far += static_cast<std::uint32_t>(spawned);
    missed += read(counts) != Words(32, spawned_so_far) ? 1 : 0;
  }
  other.request_stop();
  other.join();
  EXPECT_EQ(missed, 0u) << "of " << rounds << " rounds, beside " << reads << " reads";
}

TEST_P(TaskPoolTest, ParkAndStartAgain_LosesNothing) {
  make_pool({.blocks = 0, .park_after = std::chrono::microseconds(100), .executor = {}});
  constexpr std::uint32_t kTasks = 2000;
  const auto counts = words(kTasks);
  const auto add = kind("add_at", {1, 1, 1}, {64, 1, 1});
  std::atomic<bool> over{false};
  std::thread parker([&] {
    while (!over) {
      EXPECT_TRUE(pool_->park().ok());
      std::this_thread::sleep_for(std::chrono::microseconds(300));
    }
  });
  for (std::uint32_t n = 0; n < kTasks; ++n)
    EXPECT_TRUE(add->spawn(std::vector<Argument>{ArrayArgument{counts}, number(n)}).ok());
  EXPECT_TRUE(pool_->wait_all(std::chrono::seconds(60)).ok());
  over = true;
  parker.join();
  EXPECT_THAT(read(counts), testing::Each(1u));
  EXPECT_EQ(pool_->info().launches > 1, is_resident());
}

// A block that parks does not begin the other warps of a task of which some have begun: the next launch does.
TEST_P(TaskPoolTest, ParkInTheMiddleOfTasks_EachWarpRunsOnce) {
  make_pool();
  constexpr std::uint32_t kTasks = 120, kThreads = 700, kTurns = kSanitized ? 100 : 2000;
  const auto counts = words(kTasks * kThreads);
  const auto mark = kind("mark_after", {7, 1, 1}, {100, 1, 1});
  std::atomic<bool> over{false};
  std::thread parker([&] {
    while (!over) EXPECT_TRUE(pool_->park().ok());
  });
  for (std::uint32_t n = 0; n < kTasks; ++n)
    EXPECT_TRUE(mark->spawn(std::vector<Argument>{ArrayArgument{counts}, number(n * kThreads), number(kTurns)}).ok());
  EXPECT_TRUE(pool_->wait_all(std::chrono::seconds(120)).ok());
  over = true;
  parker.join();
  EXPECT_THAT(read(counts), testing::Each(1u));
}

// A block that is full, a task that waits for it, and one of high priority, which comes after and goes first. A machine
// that stands still for as long as the block is full spoils a round, never all.
TEST_P(TaskPoolTest, HighPriority_GoesBeforeWhatWaitsInTheBlock) {
  if (!is_resident()) GTEST_SKIP() << "TaskThreadsTest has it";
  make_pool({.blocks = 1, .park_after = {}, .executor = {}});
  const auto task = kind("in_order", {1, 1, 1}, {992, 1, 1});
  const auto high = *task->with_priority(session::TaskPriority::kHigh);
  bool right = false;
  for (int round = 0; round < 20 && !right; ++round) {
    const auto order = words(3), next = words(1);
    const auto spawn = [&](const session::TaskKindPtr& as, std::uint32_t at, std::uint32_t steps) {
      const auto id =
          as->spawn(std::vector<Argument>{ArrayArgument{order}, ArrayArgument{next}, number(at), number(steps)});
      ASSERT_TRUE(id.ok()) << id.message();
    };
    spawn(task, 0, kSanitized ? 2'000 : 200'000);
    spawn(task, 1, 1);
    spawn(high, 2, 1);
    const Words ranks = read(order);
    right = ranks[2] < ranks[1];
    EXPECT_EQ(read(next)[0], 3u * 992);
  }
  EXPECT_TRUE(right);
}

TEST_P(TaskPoolTest, OtherWorkOnAnArray_ComesAfterItsTasks_AndTasksAfterIt) {
  make_pool();
  constexpr std::uint32_t kN = 10000;
  auto array = session_->allocate(session::ElementType::kF32, 0, kN);
  ASSERT_TRUE(array.ok());
  const float one = 1;
  ASSERT_TRUE((*array)->fill(std::as_bytes(std::span(&one, 1))).ok());
  const auto scale = kind("scale", {10, 1, 1}, {500, 1, 1});
  auto kernel = module_->kernel("scale");
  ASSERT_TRUE(kernel.ok());
  const auto arguments = [&](float by) {
    std::uint32_t bits;
    std::memcpy(&bits, &by, 4);
    return std::vector<Argument>{ArrayArgument{*array}, Number{session::ElementType::kF32, bits}, number(kN)};
  };
  session::LaunchShape shape;
  shape.grid = {20, 1, 1}, shape.block = {500, 1, 1};
  for (int round = 0; round < 5; ++round) {
    ASSERT_TRUE((*kernel)->launch(shape, arguments(3)).ok());
    const auto id = scale->spawn(arguments(2));  // half of the array
    ASSERT_TRUE(id.ok()) << id.message();
  }
  std::vector<float> got(kN);
  ASSERT_TRUE((*array)->read(0, std::as_writable_bytes(std::span(got))).ok());
  for (std::uint32_t n = 0; n < kN; ++n) ASSERT_EQ(got[n], n < 5000 ? 243.f * 32 : 243.f) << n;
}

TEST_P(TaskPoolTest, ManyThreads_RandomMixes_EveryTaskOnce) {
  const auto seed = std::random_device()();
  SCOPED_TRACE(testing::Message() << "seed " << seed);
  make_pool();
  constexpr std::uint32_t kThreads = 4, kTasks = 400;
  const auto counts = words(kThreads * kTasks), out = words(kThreads * kTasks * 128);
  const auto in = numbered(kThreads * kTasks * 128);
  Words wanted(kThreads * kTasks * 128);
  std::vector<session::TaskKindPtr> adds, turns, marks;
  for (const std::uint32_t threads : {1u, 31u, 32u, 33u, 96u, 500u, 992u})
    adds.push_back(kind("add_at", {1, 1, 1}, {threads, 1, 1}));
  turns.push_back(kind("turn", {1, 1, 1}, {128, 1, 1}));
  turns.push_back(kind("turn", {1, 1, 1}, {16, 8, 1}));
  std::vector<std::thread> threads;
  for (std::uint32_t t = 0; t < kThreads; ++t)
    threads.emplace_back([&, t] {
      std::mt19937 random(seed + t);
      for (std::uint32_t n = 0; n < kTasks; ++n) {
        const std::uint32_t at = t * kTasks + n;
        auto id = adds[random() % adds.size()]->spawn(std::vector<Argument>{ArrayArgument{counts}, number(at)});
        ASSERT_TRUE(id.ok()) << id.message();
        if (random() % 3 == 0) {
          want_turned(wanted, at);
          id = turns[random() % 2]->spawn(std::vector<Argument>{ArrayArgument{out}, ArrayArgument{in}, number(at)});
        }
        ASSERT_TRUE(id.ok()) << id.message();
        if (random() % 8 == 0) {
          ASSERT_TRUE(pool_->wait(*id).ok());
        }
      }
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_THAT(read(counts), testing::Each(1u));
  EXPECT_EQ(read(out), wanted);
}

TEST_P(TaskPoolTest, BothPriorities_EveryTaskRunsOnce) {
  make_pool();
  constexpr std::uint32_t kTasks = 600;
  const auto counts = words(kTasks);
  const auto normal = kind("add_at", {1, 1, 1}, {96, 1, 1});
  const auto high = *normal->with_priority(session::TaskPriority::kHigh);
  const auto again = *high->with_priority(session::TaskPriority::kNormal);
  const session::TaskKindPtr kinds[] = {normal, high, again};
  for (std::uint32_t n = 0; n < kTasks; ++n)
    ASSERT_TRUE(kinds[n % 3]->spawn(std::vector<Argument>{ArrayArgument{counts}, number(n)}).ok());
  ASSERT_TRUE(pool_->wait_all(std::chrono::seconds(60)).ok());
  EXPECT_THAT(read(counts), testing::Each(1u));
}

TEST_P(TaskPoolTest, FillsAndCopies_OfAnArrayWithOpenTasks) {
  make_pool();
  const auto counts = words(64), others = words(64, 7);
  const auto mark = kind("mark", {1, 1, 1}, {64, 1, 1});
  const std::vector<Argument> arguments{ArrayArgument{counts}, number(64)};
  const std::uint32_t nine = 9;
  for (int round = 0; round < 20; ++round) {
    ASSERT_TRUE(mark->spawn(arguments).ok());
    ASSERT_TRUE(counts->fill(std::as_bytes(std::span(&nine, 1))).ok());
    ASSERT_TRUE(mark->spawn(arguments).ok());
    EXPECT_THAT(read(counts), testing::Each(10u));
    ASSERT_TRUE(mark->spawn(arguments).ok());
    ASSERT_TRUE(counts->copy_from(0, others, 0, 256).ok());
    ASSERT_TRUE(mark->spawn(arguments).ok());
    EXPECT_THAT(read(counts), testing::Each(8u));
  }
}

TEST_P(TaskPoolTest, FewRingsAndManyThreads) {
  make_pool({.blocks = 1, .park_after = {}, .executor = {}});
  constexpr std::uint32_t kThreads = 6, kTasks = 50;
  const auto counts = words(kThreads * kTasks);
  const auto add = kind("add_at", {1, 1, 1}, {992, 1, 1});
  std::vector<std::thread> threads;
  for (std::uint32_t t = 0; t < kThreads; ++t)
    threads.emplace_back([&, t] {
      for (std::uint32_t n = 0; n < kTasks; ++n)
        ASSERT_TRUE(add->spawn(std::vector<Argument>{ArrayArgument{counts}, number(t * kTasks + n)}).ok());
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_THAT(read(counts), testing::Each(1u));
}

TEST_P(TaskPoolTest, LaunchesAndTasks_OfTwoThreads_BothGoOn) {
  make_pool();
  const auto mine = words(64), others = words(64);
  const auto mark = kind("mark", {1, 1, 1}, {64, 1, 1});
  auto kernel = module_->kernel("mark");
  ASSERT_TRUE(kernel.ok());
  std::thread launches([&] {
    session::LaunchShape shape;
    shape.grid = {1, 1, 1}, shape.block = {64, 1, 1};
    for (int n = 0; n < 100; ++n)
      ASSERT_TRUE((*kernel)->launch(shape, std::vector<Argument>{ArrayArgument{others}, number(64)}).ok());
    EXPECT_THAT(read(others), testing::Each(100u));
  });
  for (int n = 0; n < 1000; ++n) {
    const auto id = mark->spawn(std::vector<Argument>{ArrayArgument{mine}, number(64)});
    ASSERT_TRUE(id.ok()) << id.message();
    if (n % 50 == 0) {
      ASSERT_TRUE(pool_->wait(*id).ok());
    }
  }
  launches.join();
  EXPECT_THAT(read(mine), testing::Each(1000u));
}

TEST_P(TaskPoolTest, KernelsAddedTogether_AreAllThere_OrNone) {
  make_pool();
  constexpr char kWaits[] =
      ".version 8.0\n.target sm_90\n.address_size 64\n.visible .entry waits() {\n  griddepcontrol.wait;\n  ret;\n}\n";
  const auto other = session_->load_text(kWaits, {});
  ASSERT_TRUE(other.ok()) << other.message();
  const auto waits = (*other)->kernel("waits"), mark = module_->kernel("mark"), add_at = module_->kernel("add_at");
  ASSERT_TRUE(waits.ok() && mark.ok() && add_at.ok());
  const Status refused = pool_->add_kernels(std::vector{*mark, *waits, *add_at});
  EXPECT_EQ(refused.code(), Code::kUnsupported) << refused.message();
  EXPECT_THAT(refused.message(), testing::HasSubstr("waits"));
  EXPECT_EQ(pool_->add_kernels(std::vector{*mark, session::KernelPtr()}).code(), Code::kInvalidArgument);
  ASSERT_TRUE(pool_->add_kernels(std::vector{*add_at, *mark, *add_at}).ok());
  const auto counts = words(64);
  const auto one = kind("mark", {1, 1, 1}, {64, 1, 1}), at = kind("add_at", {1, 1, 1}, {32, 1, 1});
  ASSERT_TRUE(one->spawn(std::vector<Argument>{ArrayArgument{counts}, number(64)}).ok());
  ASSERT_TRUE(at->spawn(std::vector<Argument>{ArrayArgument{counts}, number(7)}).ok());
  ASSERT_TRUE(pool_->wait_all(std::chrono::seconds(20)).ok());
  Words expected(64, 1);
  expected[7] += 1;
  EXPECT_EQ(read(counts), expected);
}

TEST_P(TaskPoolTest, TheSameShapeAgain_TakesNoNewKind) {
  make_pool();
  for (int n = 0; n < 5000; ++n) ASSERT_NE(kind("mark", {1, 1, 1}, {64, 1, 1}), nullptr) << n;
  const auto one = kind("mark", {1, 1, 1}, {64, 1, 1});
  EXPECT_EQ(one, kind("mark", {1, 1, 1}, {64, 1, 1})) << "by whichever object of the kernel";
  EXPECT_NE(one, kind("mark", {1, 1, 1}, {96, 1, 1}));
}

// What only threads do: a resident kernel shares its fate with its tasks.
class TaskThreadsTest : public TaskPoolTest {};
INSTANTIATE_TEST_SUITE_P(Executors, TaskThreadsTest, testing::Values(TaskExecutor::kThreads),
                         [](const auto&) { return std::string("threads"); });

TEST_P(TaskThreadsTest, WaitAll_TellsWhichFailed_Once_AndLaterTasksRun) {
  make_pool();
  const auto counts = words(8);
  const auto task = kind("may_fail", {1, 1, 1}, {32, 1, 1});
  std::vector<session::TaskId> ids;
  for (std::uint32_t at = 0; at < 8; ++at) {
    const auto id = task->spawn(std::vector<Argument>{ArrayArgument{counts}, number(at), number(at == 2 || at == 5)});
    ASSERT_TRUE(id.ok()) << id.message();
    ids.push_back(*id);
  }
  const Status all = pool_->wait_all(std::chrono::seconds(20));
  EXPECT_EQ(all.code(), Code::kDeviceFault);
  EXPECT_THAT(all.message(), testing::HasSubstr("2 tasks have failed"));
  EXPECT_THAT(all.message(), testing::HasSubstr("'may_fail'"));
  EXPECT_TRUE(pool_->wait_all(std::chrono::seconds(20)).ok()) << "told once";
  for (std::uint32_t at = 0; at < 8; ++at)
    EXPECT_EQ(pool_->wait(ids[at]).ok(), at != 2 && at != 5) << at << ": each has its own";
  ASSERT_TRUE(task->spawn(std::vector<Argument>{ArrayArgument{counts}, number(2), number(0)}).ok());
  EXPECT_EQ(read(counts), Words({1, 1, 1, 1, 1, 0, 1, 1}));
}

// One thread, a long task that keeps it, then many of both classes: who is of the high one comes first. A busy machine
// may keep the spawning thread away for longer than the long task takes, and again in each round, so that this becomes
// longer with them; without priorities every round fails.
TEST_P(TaskThreadsTest, HighPriority_GoesFirst) {
  make_pool({.blocks = 1, .park_after = {}, .executor = {}});
  const auto task = kind("in_order", {1, 1, 1}, {1, 1, 1});
  const auto high = *task->with_priority(session::TaskPriority::kHigh);
  bool right = false;
  for (int round = 0; round < 20 && !right; ++round) {
    constexpr std::uint32_t kTasks = 24;
    const auto order = words(kTasks + 1), next = words(1);
    const auto spawn = [&](const session::TaskKindPtr& as, std::uint32_t at, std::uint32_t steps) {
      const auto id =
          as->spawn(std::vector<Argument>{ArrayArgument{order}, ArrayArgument{next}, number(at), number(steps)});
      ASSERT_TRUE(id.ok()) << id.message();
    };
    // Longer and longer, until it lasts while all the others are spawned.
    spawn(task, kTasks, kSanitized ? 40'000u << std::min(round, 10) : 4'000'000u << std::min(round / 2, 5));
    for (std::uint32_t at = 0; at < kTasks; ++at) spawn(at % 4 == 3 ? high : task, at, 1);
    const Words ranks = read(order);
    std::uint32_t last_high = 0, first_normal = kTasks;
    for (std::uint32_t at = 0; at < kTasks; ++at) {
      std::uint32_t& end = at % 4 == 3 ? last_high : first_normal;
      end = at % 4 == 3 ? std::max(end, ranks[at]) : std::min(end, ranks[at]);
    }
    right = last_high < first_normal;
    EXPECT_EQ(read(next)[0], kTasks + 1);
  }
  EXPECT_TRUE(right);
}

TEST_P(TaskThreadsTest, MoreThanThereIsRoomFor_SpawnsWait) {
  make_pool({.blocks = 2, .park_after = {}, .executor = {}});
  constexpr std::uint32_t kTasks = 6'000;  // of which 4,096 can be open
  const auto counts = words(kTasks);
  const auto add = kind("add_at", {1, 1, 1}, {32, 1, 1});
  for (std::uint32_t n = 0; n < kTasks; ++n)
    ASSERT_TRUE(add->spawn(std::vector<Argument>{ArrayArgument{counts}, number(n)}).ok());
  ASSERT_TRUE(pool_->wait_all(std::chrono::seconds(60)).ok());
  EXPECT_THAT(read(counts), testing::Each(1u));
  EXPECT_EQ(pool_->info().spawned, kTasks);
  EXPECT_EQ(pool_->info().blocks, 2u);
}

TEST_P(TaskThreadsTest, TheSessionGoes_WithTasksUnderWay) {
  for (int round = 0; round < 20; ++round) {
    SetUp();
    make_pool();
    const auto counts = words(64);
    const auto add = kind("add_at", {1, 1, 1}, {64, 1, 1});
    for (std::uint32_t n = 0; n < 64; ++n)
      ASSERT_TRUE(add->spawn(std::vector<Argument>{ArrayArgument{counts}, number(n)}).ok());
    pool_ = nullptr, module_ = nullptr, session_ = nullptr;  // what is left of it goes with the array
    EXPECT_THAT(read(counts), testing::Each(1u));
  }
}

TEST_P(TaskPoolTest, WhatCannotBe_IsRefusedByName) {
  make_pool();
  auto kernel = module_->kernel("mark");
  session::LaunchShape shape;
  shape.block = {1024, 1, 1};
  EXPECT_THAT(pool_->prepare(*kernel, shape).message(), testing::HasSubstr("992 threads"));
  shape.block = {64, 1, 1};
  shape.grid = {0, 1, 1};
  EXPECT_THAT(pool_->prepare(*kernel, shape).message(), testing::HasSubstr("0 blocks"));
  shape.grid = {1, 1, 1};
  shape.dynamic_shared_bytes = 200 * 1024;
  EXPECT_THAT(pool_->prepare(*kernel, shape).message(), testing::HasSubstr("shared memory"));
  shape.dynamic_shared_bytes = 0xffffffc0u;
  EXPECT_THAT(pool_->prepare(*kernel, shape).message(), testing::HasSubstr("shared memory"));
  shape.dynamic_shared_bytes = 0;
  // As launches are, in each dimension.
  shape.block = {1, 1, 65};
  EXPECT_THAT(pool_->prepare(*kernel, shape).message(), testing::HasSubstr("block.z is 65; it must be from 1 to 64"));
  shape.block = {64, 1, 1};
  shape.grid = {1, 70'000, 1};
  EXPECT_THAT(pool_->prepare(*kernel, shape).message(), testing::HasSubstr("grid.y is 70000; it must be from 1 to"));
  shape.grid = {1u << 31, 1u << 31, 4};
  EXPECT_THAT(pool_->prepare(*kernel, shape).message(), testing::HasSubstr("blocks at most"));
  EXPECT_THAT(pool_->check(0).message(), testing::HasSubstr("no id"));
  EXPECT_THAT(pool_->wait(12345, std::nullopt).message(), testing::HasSubstr("no id"));
}

}  // namespace
}  // namespace pergola::runtime
