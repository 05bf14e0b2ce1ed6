// Tasks that spawn tasks, on the CPU device or on $PERGOLA_DEVICE, by a resident kernel and by threads: each that was
// spawned runs once, and the task that it all began with is done when all of them are.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <cstring>
#include <random>
#include <thread>

#include "src/runtime/runtime.h"
#include "src/runtime/test_arrays.h"
#include "src/session/session.h"
#include "src/session/task_pool.h"

namespace pergola::runtime {
namespace {

using session::Argument;
using session::ArrayArgument;
using session::Number;
using session::TaskExecutor;
using testing::HasSubstr;
using Words = std::vector<std::uint32_t>;

constexpr char kSource[] = R"(
#include <pergola/device/tasks.h>
typedef unsigned long long Handle;

extern "C" __global__ void leaf(unsigned* counts, unsigned at) {
  if (threadIdx.x == 0) atomicAdd(counts + at, 1u);
}
extern "C" __global__ void meeting_leaf(unsigned* counts, unsigned at) {  // by barriers and shared memory
  __shared__ unsigned one;
  if (threadIdx.x == 0) one = 1;
  __syncthreads();
  if (threadIdx.x == blockDim.x - 1) atomicAdd(counts + at, one);
}
extern "C" __global__ void grid_leaf(unsigned* counts, unsigned at) {
  if (threadIdx.x == 0) atomicAdd(counts + at + blockIdx.x, 1u);
}
// Each lane spawns one, or does its work.
extern "C" __global__ void root(unsigned* counts, unsigned at, unsigned n, Handle leaves, unsigned* refused) {
  const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  if (pergola::spawn<decltype(leaf)>(leaves, counts, at + i)) return;
  atomicAdd(counts + at + i, 1u);
  atomicAdd(refused, 1u);
}
extern "C" __global__ void grids(unsigned* counts, unsigned at, unsigned blocks, Handle leaves, unsigned* refused) {
  if (threadIdx.x != 0) return;
  if (pergola::spawn<decltype(grid_leaf)>(leaves, counts, at)) return;
  for (unsigned b = 0; b < blocks; ++b) atomicAdd(counts + at + b, 1u);
  atomicAdd(refused, 1u);
}
// A binary tree: nodes 1 to 2^depth - 1. What finds no room is done by who wanted to spawn it.
struct Tree { unsigned* counts; Handle self; unsigned nodes; unsigned* refused; };
extern "C" __global__ void tree(const Tree* tree, unsigned node) {
  if (threadIdx.x != 0) return;
  unsigned open[64], n = 0;
  open[n++] = node;
  while (n != 0) {
    const unsigned at = open[--n];
    atomicAdd(tree->counts + at, 1u);
    for (unsigned child = 2 * at; child < 2 * at + 2 && child < tree->nodes; ++child) {
      if (pergola::spawn<void(const Tree*, unsigned)>(tree->self, tree, child)) continue;
      open[n++] = child;
      atomicAdd(tree->refused, 1u);
    }
  }
}
// Writes, spawns; what it has written is seen.
extern "C" __global__ void reader(const unsigned* from, unsigned* to, unsigned n) {
  unsigned sum = 0;
  for (unsigned i = 0; i < n; ++i) sum += from[i];
  if (threadIdx.x == 0) *to = sum;
}
extern "C" __global__ void writer(unsigned* data, unsigned* sum, unsigned n, Handle readers) {
  if (threadIdx.x != 0) return;
  for (unsigned i = 0; i < n; ++i) data[i] = i + 7;
  if (!pergola::spawn<decltype(reader)>(readers, data, sum, n)) *sum = ~0u;
}
extern "C" __global__ void wide(unsigned long long a, unsigned* b, unsigned char c, double d, short e, unsigned* out) {
  if (threadIdx.x == 0) *out = a == ~0ull - 5 && *b == 77 && c == 200 && d == -2.5 && e == -3;
}
extern "C" __global__ void spawns_wide(unsigned* b, unsigned* out, Handle kind) {
  if (threadIdx.x == 0) pergola::spawn<decltype(wide)>(kind, ~0ull - 5, b, (unsigned char)200, -2.5, (short)-3, out);
}
struct Large { unsigned values[20]; };
extern "C" __global__ void large(Large l, unsigned* out) { *out = l.values[3]; }
extern "C" __global__ void fails(unsigned* counts, unsigned at) { if (threadIdx.x == 0) counts[1u << 30] = at; }
extern "C" __global__ void misuses(Handle handle, unsigned* counts) {
  if (threadIdx.x == 0) pergola::spawn<decltype(leaf)>(handle, counts, 0u);
}
)";

class TaskSpawningTest : public testing::TestWithParam<TaskExecutor>, protected TestArrays {
 protected:
  bool is_resident() const { return GetParam() == TaskExecutor::kResident; }
  void SetUp() override {
#if defined(PERGOLA_TSAN)
    if (is_resident()) GTEST_SKIP() << "TSan does not connect the device half's fences with the host.";
#endif
    const char* device = std::getenv("PERGOLA_DEVICE");
    on_cpu_ = device == nullptr || std::string_view(device) == "cpu";
    auto made = create_session(device == nullptr ? "cpu" : device, "");
    ASSERT_TRUE(made.ok()) << made.message();
    session_ = *made;
    if (!is_resident() && !on_cpu_) GTEST_SKIP() << "only the CPU device has threads that run tasks";
    auto module = session_->load_text(kSource, {});
    ASSERT_TRUE(module.ok()) << module.message();
    module_ = *module;
    session::TaskPoolOptions options;
    options.executor = GetParam();
    auto pool = session_->task_pool(options);
    ASSERT_TRUE(pool.ok()) << pool.message();
    pool_ = *pool;
  }
  session::KernelPtr kernel(const char* name) {
    auto found = module_->kernel(name);
    EXPECT_TRUE(found.ok()) << found.message();
    return *found;
  }
  static session::LaunchShape shape(std::uint32_t grid, std::uint32_t block) {
    session::LaunchShape shape;
    shape.grid = {grid, 1, 1}, shape.block = {block, 1, 1};
    return shape;
  }
  session::TaskKindPtr kind(const char* name, std::uint32_t grid, std::uint32_t block) {
    auto made = pool_->prepare(kernel(name), shape(grid, block));
    EXPECT_TRUE(made.ok()) << made.message();
    return made.ok() ? *made : nullptr;
  }
  Argument handle(const char* name, std::uint32_t grid, std::uint32_t block) {
    auto on_device = kind(name, grid, block)->on_device();
    EXPECT_TRUE(on_device.ok()) << on_device.message();
    return Number{session::ElementType::kU64, on_device.ok() ? *on_device : 0};
  }
  session::ArrayPtr words(std::size_t count) {
    auto array = session_->allocate(session::ElementType::kU32, 0, count);
    EXPECT_TRUE(array.ok());
    const std::uint32_t zero = 0;
    EXPECT_TRUE((*array)->fill(std::as_bytes(std::span(&zero, 1))).ok());
    return *array;
  }
  session::TaskId spawn(const session::TaskKindPtr& kind, std::vector<Argument> arguments) {
    const auto id = kind->spawn(arguments);
    EXPECT_TRUE(id.ok()) << id.message();
    return id.ok() ? *id : 0;
  }
  void expect_waited(session::TaskId id) {
    const Status status = pool_->wait(id, std::chrono::minutes(2));
    EXPECT_TRUE(status.ok()) << status.message();
  }

  bool on_cpu_ = true;
  session::SessionPtr session_;
  session::ModulePtr module_;
  session::TaskPoolPtr pool_;
};

TEST_P(TaskSpawningTest, EveryLaneSpawns_EachRunsOnceBeforeTheFirstIsDone) {
  for (const char* name : {"leaf", "meeting_leaf"}) {
    for (const std::uint32_t width : {1u, 32u, 64u, 100u}) {
      constexpr std::uint32_t kEach = 300, kRoots = 5;
      const auto counts = words(kEach * kRoots), refused = words(1);
      const Argument leaves = handle(name, 1, width);
      const auto roots = kind("root", 3, 128);
      for (std::uint32_t r = 0; r < kRoots; ++r) {
        const session::TaskId id =
            spawn(roots, {ArrayArgument{counts}, number(r * kEach), number(kEach), leaves, ArrayArgument{refused}});
        if (r % 2 != 0) continue;
        expect_waited(id);
        const auto done = pool_->check(id);
        EXPECT_TRUE(done.ok() && *done);
      }
      EXPECT_TRUE(pool_->wait_all().ok());
      EXPECT_EQ(read(counts), Words(kEach * kRoots, 1)) << name << " of " << width;
      EXPECT_LT(read(refused)[0], kEach * kRoots) << "none was spawned";
    }
  }
}

TEST_P(TaskSpawningTest, Done_MeansThatWhatItHasSpawnedIsDone) {
  const auto roots = kind("root", 1, 64);
  const Argument leaves = handle("leaf", 1, 32);
  for (int round = 0; round < 50; ++round) {
    const auto counts = words(64), refused = words(1);
    expect_waited(spawn(roots, {ArrayArgument{counts}, number(0), number(64), leaves, ArrayArgument{refused}}));
    // Read behind the task alone: nothing else orders it.
    EXPECT_EQ(read(counts), Words(64, 1)) << "round " << round;
  }
}

TEST_P(TaskSpawningTest, Trees_GrowToTheirLeaves) {
  constexpr std::uint32_t kNodes = 1 << 11;
  struct Tree {
    std::uint64_t counts, self;
    std::uint32_t nodes, unused;
    std::uint64_t refused;
  };
  const auto nodes = kind("tree", 1, 32);
  const auto self = nodes->on_device();
  ASSERT_TRUE(self.ok()) << self.message();
  const auto counts = words(kNodes), refused = words(1), memory = words(sizeof(Tree) / 4);
  const Tree tree{counts->address(), *self, kNodes, 0, refused->address()};
  ASSERT_TRUE(memory->write(0, std::as_bytes(std::span(&tree, 1))).ok());
  for (std::uint32_t times = 1; times <= 3; ++times) {
    expect_waited(spawn(nodes, {ArrayArgument{memory}, number(1)}));
    Words expected(kNodes, times);
    expected[0] = 0;
    EXPECT_EQ(read(counts), expected);
  }
  EXPECT_TRUE(pool_->park().ok());
  EXPECT_GE(pool_->info().spawned_by_tasks, 3 * (kNodes - 2) - read(refused)[0]);
}

TEST_P(TaskSpawningTest, GridsOfAnySize_RunEachBlockOnce) {
  const auto roots = kind("grids", 1, 32);
  for (const std::uint32_t blocks : {1u, 7u, 31u, 32u, 200u, 3000u}) {
    for (const std::uint32_t width : {32u, 200u}) {
      const auto counts = words(blocks), refused = words(1);
      expect_waited(spawn(roots, {ArrayArgument{counts}, number(0), number(blocks), handle("grid_leaf", blocks, width),
                                  ArrayArgument{refused}}));
      EXPECT_EQ(read(counts), Words(blocks, 1)) << blocks << " of " << width;
      EXPECT_EQ(read(refused)[0], 0u);
    }
  }
}

TEST_P(TaskSpawningTest, WhatTheSpawningLaneWrote_IsSeen) {
  const Argument readers = handle("reader", 1, 32);
  const auto writers = kind("writer", 1, 32);
  for (std::uint32_t n = 1; n <= 1000; n += 111) {
    const auto data = words(n), sum = words(1);
    expect_waited(spawn(writers, {ArrayArgument{data}, ArrayArgument{sum}, number(n), readers}));
    EXPECT_EQ(read(sum)[0], n * (n - 1) / 2 + 7 * n);
  }
}

TEST_P(TaskSpawningTest, ParametersOfAllSizes_Arrive) {
  const auto in = words(1), out = words(1);
  const std::uint32_t value = 77;
  ASSERT_TRUE(in->write(0, std::as_bytes(std::span(&value, 1))).ok());
  expect_waited(spawn(kind("spawns_wide", 1, 32), {ArrayArgument{in}, ArrayArgument{out}, handle("wide", 1, 64)}));
  EXPECT_EQ(read(out)[0], 1u);
}

TEST_P(TaskSpawningTest, TooManyParameters_AreRefusedWithTheNumbers) {
  const auto made = kind("large", 1, 32)->on_device();
  ASSERT_FALSE(made.ok());
  EXPECT_EQ(made.code(), Code::kUnsupported);
  EXPECT_THAT(made.message(), HasSubstr("Kernel 'large' has 88 bytes of parameters, and a task that tasks spawn has 48 "
                                        "at most"));
}

TEST_P(TaskSpawningTest, AnOrdinaryLaunch_SpawnsNothingAndDoesTheWorkItself) {
  const auto counts = words(200), refused = words(1);
  const std::vector<Argument> arguments{ArrayArgument{counts}, number(0), number(200), handle("leaf", 1, 32),
                                        ArrayArgument{refused}};
  ASSERT_TRUE(kernel("root")->launch(shape(2, 128), arguments).ok());
  EXPECT_EQ(read(counts), Words(200, 1));
  EXPECT_EQ(read(refused)[0], 200u);
}

// Mixes of roots that spawn and tasks that do not, from several threads, while the device is wanted for other work.
TEST_P(TaskSpawningTest, BesideOtherTasksAndParking_EachRunsOnce) {
  std::random_device entropy;
  const unsigned seed = std::getenv("PERGOLA_SEED") != nullptr ? std::stoul(std::getenv("PERGOLA_SEED")) : entropy();
  SCOPED_TRACE("PERGOLA_SEED=" + std::to_string(seed));
  constexpr std::uint32_t kThreads = 4, kTasks = 40, kEach = 96;
  const Argument leaves[] = {handle("leaf", 1, 32), handle("meeting_leaf", 1, 100), handle("leaf", 1, 500)};
  const auto roots = kind("root", 1, kEach);
  const auto plain = kind("grid_leaf", 3, 64);
  const auto counts = words(kThreads * kTasks * kEach), refused = words(1), others = words(kThreads * kTasks * 3);
  std::vector<std::thread> threads;
  for (std::uint32_t t = 0; t < kThreads; ++t)
    threads.emplace_back([&, t] {
      std::mt19937 random(seed + t);
      for (std::uint32_t n = 0; n < kTasks; ++n) {
        const std::uint32_t at = t * kTasks + n;
        spawn(roots,
              {ArrayArgument{counts}, number(at * kEach), number(kEach), leaves[random() % 3], ArrayArgument{refused}});
        spawn(plain, {ArrayArgument{others}, number(at * 3)});
        if (random() % 8 == 0) {
          EXPECT_TRUE(pool_->park().ok());
        }
      }
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_TRUE(pool_->wait_all().ok());
  EXPECT_EQ(read(counts), Words(kThreads * kTasks * kEach, 1));
  EXPECT_EQ(read(others), Words(kThreads * kTasks * 3, 1));
}

TEST_P(TaskSpawningTest, AFailureOfWhatWasSpawned_IsTheFirstOnes) {
  const auto counts = words(64), refused = words(1);
  const auto roots = kind("root", 1, 64);
  const session::TaskId good =
      spawn(roots, {ArrayArgument{counts}, number(0), number(8), handle("leaf", 1, 32), ArrayArgument{refused}});
  const session::TaskId bad =
      spawn(roots, {ArrayArgument{counts}, number(8), number(3), handle("fails", 1, 32), ArrayArgument{refused}});
  expect_waited(good);
  const Status status = pool_->wait(bad);
  ASSERT_FALSE(status.ok());
  EXPECT_THAT(status.message(), HasSubstr("A task that it has spawned fails: "));
  EXPECT_THAT(status.message(), HasSubstr("Kernel 'fails'"));
}

TEST_P(TaskSpawningTest, WhatIsNoHandle_FailsTheTask) {
  const auto counts = words(4);
  const auto misuses = kind("misuses", 1, 32);
  const Argument none = Number{session::ElementType::kU64, 12345};
  const Status no_handle = pool_->wait(spawn(misuses, {none, ArrayArgument{counts}}));
  ASSERT_FALSE(no_handle.ok());
  EXPECT_THAT(no_handle.message(), HasSubstr("spawns a task of 0x3039, which is no handle of a kind of this pool"));
  const Status other = pool_->wait(spawn(misuses, {handle("reader", 1, 32), ArrayArgument{counts}}));
  ASSERT_FALSE(other.ok());
  EXPECT_THAT(other.message(),
              HasSubstr(is_resident() ? "or with parameters of another size than the kind's, 20 bytes"
                                      : "spawns a task of kernel 'reader' with 12 bytes of parameters; it has 20."));
}

INSTANTIATE_TEST_SUITE_P(Executors, TaskSpawningTest, testing::Values(TaskExecutor::kResident, TaskExecutor::kThreads),
                         [](const auto& of) { return of.param == TaskExecutor::kResident ? "Resident" : "Threads"; });

}  // namespace
}  // namespace pergola::runtime
