#include "src/device/cpu/grid_runner.h"

#include <gtest/gtest.h>

#include <chrono>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <set>
#include <vector>

#include "src/device/cpu/fake_engine.h"

namespace pergola::device::cpu {
namespace {

using testing::Script;
using testing::ScriptedCode;

// A launch of a script, and what holds it.
struct Scripted {
  explicit Scripted(Dim3 grid, Script script, std::uint32_t threads = 32) : code(std::move(script)) {
    launch.kernel_name = "scripted";
    launch.config.grid = grid;
    launch.config.block = {threads, 1, 1};
    launch.fault = &fault;
  }
  FaultSlot fault;
  ScriptedCode code;
  Launch launch;
};

Status run(GridRunner& runner, Scripted& scripted, std::uint32_t shared_bytes = 0) {
  return runner.run(scripted.launch, scripted.code, shared_bytes);
}

TEST(GridRunner, EveryBlock_RunsOnce_WithItsIndexAndSharedMemory) {
  GridRunner runner({.sms = 3});
  std::mutex mutex;
  std::multiset<std::tuple<std::uint32_t, std::uint32_t, std::uint32_t>> seen;
  std::atomic<int> bad{0};
  Scripted kernel({5, 4, 3}, [&](const Block& block, std::uint64_t turn) {
    const auto address = reinterpret_cast<std::uintptr_t>(block.shared_base);
    if (address % 128 != 0 || block.shared_bytes != 1000 || block.sm >= 3) ++bad;
    std::fill_n(block.shared_base, block.shared_bytes, std::byte{1});
    if (turn < 2) return Progress::kRan;
    const std::scoped_lock lock(mutex);
    seen.insert({block.index.x, block.index.y, block.index.z});
    return Progress::kFinished;
  });
  EXPECT_TRUE(run(runner, kernel, 1000).ok());
  EXPECT_EQ(bad, 0);
  EXPECT_EQ(seen.size(), 60u);
  for (std::uint32_t z = 0; z < 3; ++z)
    for (std::uint32_t y = 0; y < 4; ++y)
      for (std::uint32_t x = 0; x < 5; ++x) EXPECT_EQ(seen.count({x, y, z}), 1u) << x << y << z;
}

TEST(GridRunner, OneSm_HandsBlocksOutInOrder) {
  GridRunner runner({.sms = 1});
  std::vector<std::uint32_t> order;
  Scripted kernel({50, 1, 1}, [&](const Block& block, std::uint64_t) {
    order.push_back(block.index.x);
    return Progress::kFinished;
  });
  EXPECT_TRUE(run(runner, kernel).ok());
  for (std::uint32_t i = 0; i < 50; ++i) EXPECT_EQ(order.at(i), i);
}

// Block 0 waits for the last resident block: all of them must become resident, and no more.
TEST(GridRunner, WaitingBlocks_MeetTheOnesTheyWaitFor) {
  for (const std::uint32_t sms : {1u, 2u, 4u}) {
    GridRunner runner({.sms = sms, .blocks_per_sm = 8});
    const std::uint32_t blocks = sms * 8;
    std::atomic<std::uint32_t> arrived{0};
    Scripted kernel({blocks, 1, 1}, [&](const Block&, std::uint64_t turn) {
      if (turn == 0) ++arrived;
      return arrived == blocks ? Progress::kFinished : Progress::kWaiting;
    });
    EXPECT_TRUE(run(runner, kernel).ok());
    EXPECT_EQ(arrived, blocks) << sms;
  }
}

// As above, but the spin is one the tier takes for progress.
TEST(GridRunner, SpinningBlocksThatClaimProgress_MeetTheOnesTheyWaitFor) {
  GridRunner runner({.sms = 2, .blocks_per_sm = 4});
  std::atomic<std::uint32_t> arrived{0};
  Scripted kernel({8, 1, 1}, [&](const Block&, std::uint64_t turn) {
    if (turn == 0) ++arrived;
    return arrived == 8 ? Progress::kFinished : Progress::kRan;
  });
  EXPECT_TRUE(run(runner, kernel).ok());
}

// An execution that takes some of the blocks that follow, and leaves the rest: between two steps, or for good.
class RunOfBlocks final : public KernelCode {
 public:
  RunOfBlocks(std::function<void(const Dim3&)> seen, std::uint32_t most) : seen_(std::move(seen)), most_(most) {}
  std::unique_ptr<BlockExecution> start(Block& block) const override { return std::make_unique<Execution>(*this, block); }
  std::uint32_t local_bytes_per_thread() const override { return 0; }

 private:
  struct Execution final : BlockExecution {
    Execution(const RunOfBlocks& made_by, Block& of) : code(made_by), block(of) {}
    Progress step(std::uint64_t) override {
      if (ended) return Progress::kFinished;
      code.seen_(block.index);
      for (std::uint32_t n = 1; n < code.most_ && block.following != 0; ++n) {
        block.advance(block.launch->config.grid);
        code.seen_(block.index);
      }
      ended = true;
      return code.most_ % 2 == 0 ? Progress::kFinished : Progress::kRan;
    }
    const RunOfBlocks& code;
    Block& block;
    bool ended = false;
  };
  const std::function<void(const Dim3&)> seen_;
  const std::uint32_t most_;
};

TEST(GridRunner, RunsOfBlocks_RunEachBlockOnce_WhateverIsLeftOfThem) {
  for (const std::uint32_t most : {1u, 2u, 5u, 8u, 1u << 20}) {
    GridRunner runner({.sms = 3, .blocks_per_sm = 4});
    std::mutex mutex;
    std::multiset<std::tuple<std::uint32_t, std::uint32_t, std::uint32_t>> seen;
    RunOfBlocks code([&](const Dim3& index) {
      const std::scoped_lock lock(mutex);
      seen.insert({index.x, index.y, index.z});
    }, most);
    FaultSlot fault;
    Launch launch;
    launch.config.grid = {37, 11, 5};
    launch.config.block = {32, 1, 1};
    launch.fault = &fault;
    EXPECT_TRUE(runner.run(launch, code, 0).ok());
    EXPECT_EQ(seen.size(), 37u * 11 * 5) << most;
    EXPECT_EQ(std::set(seen.begin(), seen.end()).size(), 37u * 11 * 5) << most;
  }
}

TEST(GridRunner, BlocksBeyondResidency_WaitForRoom) {
  GridRunner runner({.sms = 1, .blocks_per_sm = 4});
  std::atomic<int> resident{0}, most{0};
  Scripted kernel({40, 1, 1}, [&](const Block&, std::uint64_t turn) {
    if (turn == 0) most = std::max(most.load(), ++resident);
    if (turn < 5) return Progress::kWaiting;
    --resident;
    return Progress::kFinished;
  });
  EXPECT_TRUE(run(runner, kernel).ok());
  EXPECT_EQ(most, 4);
}

TEST(GridRunner, Residency_IsBoundByBlocksThreadsAndSharedMemory) {
  GridRunner runner({.sms = 1});
  EXPECT_EQ(runner.resident_blocks_per_sm(32, 0), 32u);
  EXPECT_EQ(runner.resident_blocks_per_sm(1, 0), 32u);
  EXPECT_EQ(runner.resident_blocks_per_sm(1024, 0), 2u);
  EXPECT_EQ(runner.resident_blocks_per_sm(65, 0), 21u);  // 96 threads are held
  EXPECT_EQ(runner.resident_blocks_per_sm(32, 48 * 1024), 4u);
  EXPECT_EQ(runner.resident_blocks_per_sm(32, 227 * 1024), 1u);
  EXPECT_EQ(runner.resident_blocks_per_sm(32, 228 * 1024), 0u);
}

TEST(GridRunner, BlockTooLarge_IsRefusedWithNumbers) {
  GridRunner runner({.sms = 1});
  Scripted kernel({2, 1, 1}, [](const Block&, std::uint64_t) { return Progress::kFinished; });
  const Status status = run(runner, kernel, 228 * 1024);
  EXPECT_EQ(status.code(), Code::kResourceExhausted);
  EXPECT_NE(status.message().find("233472"), std::string::npos) << status.message();
}

TEST(GridRunner, Fault_StopsEveryBlock_AndIsTheResult) {
  GridRunner runner({.sms = 2, .blocks_per_sm = 4});
  std::atomic<int> started{0};
  Scripted kernel({1000000, 1, 1}, [&](const Block& block, std::uint64_t turn) {
    if (turn == 0) ++started;
    if (block.index.x == 5) {
      block.launch->fault->raise(PERGOLA_ERROR(kDeviceFault, "Block {} trapped.", block.index.x));
      return Progress::kFinished;
    }
    return block.index.x < 5 ? Progress::kWaiting : Progress::kFinished;
  });
  const Status status = run(runner, kernel);
  EXPECT_EQ(status.code(), Code::kDeviceFault);
  EXPECT_EQ(status.message(), "Block 5 trapped.");
  EXPECT_LT(started, 100);
}

TEST(GridRunner, Cooperative_AllBlocksMeetRepeatedly) {
  GridRunner runner({.sms = 4, .blocks_per_sm = 8});
  for (const std::uint32_t blocks : {2u, 3u, 5u, 31u, 32u}) {
    std::atomic<std::uint32_t> arrived{0};
    std::vector<std::uint32_t> phase(blocks, 0);  // each owned by its block's SM
    Scripted kernel({blocks, 1, 1}, [&](const Block& block, std::uint64_t) {
      std::uint32_t& mine = phase[block.index.x];
      if (mine == 0) {
        mine = 1;
        ++arrived;
      }
      if (arrived < mine * blocks) return Progress::kWaiting;
      if (mine == 20) return Progress::kFinished;
      ++mine;
      ++arrived;
      return Progress::kRan;
    });
    kernel.launch.config.cooperative = true;
    EXPECT_TRUE(run(runner, kernel).ok());
    EXPECT_EQ(arrived, 20 * blocks);
  }
}

// A grid that fills every SM and spins until the other queue's grid has run.
void run_beside_a_spinner(GridRunner& runner, Progress spin) {
  std::atomic<bool> release{false};
  std::atomic<int> others{0};
  Scripted spinner({8, 1, 1}, [&](const Block&, std::uint64_t) { return release ? Progress::kFinished : spin; });
  Scripted other({100, 1, 1}, [&](const Block&, std::uint64_t turn) {
    if (turn < 3) return Progress::kRan;
    ++others;
    return Progress::kFinished;
  });
  std::thread first([&] { EXPECT_TRUE(run(runner, spinner).ok()); });
  EXPECT_TRUE(run(runner, other).ok());
  EXPECT_EQ(others, 100);
  release = true;
  first.join();
}

TEST(GridRunner, SpinningGrid_DoesNotStarveAnother) {
  GridRunner runner({.sms = 2, .blocks_per_sm = 4});
  run_beside_a_spinner(runner, Progress::kWaiting);
  run_beside_a_spinner(runner, Progress::kRan);
}

TEST(GridRunner, SharedOccupancy_FullDeviceKeepsOthersOut_UntilThereIsRoom) {
  GridRunner runner({.sms = 2, .blocks_per_sm = 4, .occupancy = Occupancy::kShared});
  std::atomic<bool> release{false};
  std::atomic<int> spinning{0}, others{0};
  Scripted spinner({8, 1, 1}, [&](const Block&, std::uint64_t turn) {
    if (turn == 0) ++spinning;
    return release ? Progress::kFinished : Progress::kWaiting;
  });
  Scripted other({1, 1, 1}, [&](const Block&, std::uint64_t) {
    ++others;
    return Progress::kFinished;
  });
  std::thread first([&] { EXPECT_TRUE(run(runner, spinner).ok()); });
  while (spinning < 8) std::this_thread::yield();
  std::thread second([&] { EXPECT_TRUE(run(runner, other).ok()); });
  std::this_thread::sleep_for(std::chrono::milliseconds(30));
  EXPECT_EQ(others, 0);
  release = true;
  first.join();
  second.join();
  EXPECT_EQ(others, 1);
}

TEST(GridRunner, FaultRaisedFromOutside_CancelsASpinningGrid) {
  for (const std::uint32_t blocks : {1u, 2u, 100u}) {
    GridRunner runner({.sms = 2, .blocks_per_sm = 4});
    std::atomic<bool> begun{false};
    Scripted kernel({blocks, 1, 1}, [&](const Block&, std::uint64_t) {
      begun = true;
      return Progress::kWaiting;
    });
    std::thread caller([&] { EXPECT_EQ(run(runner, kernel).code(), Code::kDeviceLost); });
    while (!begun) std::this_thread::yield();
    kernel.fault.raise(PERGOLA_ERROR(kDeviceLost, "Cancelled."));
    runner.poke();
    caller.join();
  }
}

TEST(GridRunner, ManyThreads_RunManyGrids) {
  GridRunner runner({.sms = 3, .blocks_per_sm = 4});
  std::atomic<std::uint64_t> blocks{0};
  std::vector<std::thread> callers;
  for (std::uint32_t t = 0; t < 4; ++t) {
    callers.emplace_back([&, t] {
      for (std::uint32_t i = 0; i < 200; ++i) {
        const std::uint32_t count = 1 + (i * 7 + t) % 20;
        std::uint64_t mine = 0;
        std::mutex mutex;
        Scripted kernel({count, 1, 1}, [&](const Block& block, std::uint64_t turn) {
          if (turn < block.index.x % 3) return turn == 0 ? Progress::kWaiting : Progress::kRan;
          const std::scoped_lock lock(mutex);
          ++mine;
          return Progress::kFinished;
        });
        ASSERT_TRUE(run(runner, kernel).ok());
        ASSERT_EQ(mine, count);
        blocks += mine;
      }
    });
  }
  for (std::thread& caller : callers) caller.join();
  EXPECT_GT(blocks, 0u);
}

TEST(GridRunner, IdleAndWaitingSms_UseLittleTime) {
  GridRunner runner({.sms = 4, .blocks_per_sm = 4});
  std::atomic<bool> release{false};
  Scripted kernel({16, 1, 1}, [&](const Block&, std::uint64_t) {
    return release ? Progress::kFinished : Progress::kWaiting;
  });
  std::thread caller([&] { EXPECT_TRUE(run(runner, kernel).ok()); });
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  timespec before{}, after{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &before);
  std::this_thread::sleep_for(std::chrono::milliseconds(300));
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &after);
  release = true;
  caller.join();
  const double used_s = static_cast<double>(after.tv_sec - before.tv_sec) +
                        1e-9 * static_cast<double>(after.tv_nsec - before.tv_nsec);
  EXPECT_LT(used_s, 0.2);  // of 1.2 thread-seconds
}

}  // namespace
}  // namespace pergola::device::cpu
