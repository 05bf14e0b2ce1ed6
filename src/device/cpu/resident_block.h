// A block on an SM, as the grid runner's SMs and the task crew's workers hold one while its execution goes on.
//
// Owned by one thread.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "src/device/cpu/block.h"
#include "src/device/cpu/guarded_bytes.h"

namespace pergola::device::cpu {

// Set to true whenever some block of the launch made progress other than waiting. Written by SMs (only where it is
// false: the line stays shared), cleared by who watches; relaxed, as it orders nothing.
using ProgressFlag = std::atomic<bool>;

// Blocks of a grid, by their linear index.
struct BlockRun {
  std::uint64_t first = 0;
  std::uint32_t count = 0;
};

// A block and those that follow it there, with their shared memory: at the end of `shared`, where a guard page follows.
struct ResidentBlock {
  Block block;
  std::uint64_t end = 0;  // one past the last block that follows
  std::chrono::steady_clock::time_point begun{};
  GuardedBytes shared;
  std::unique_ptr<BlockExecution> execution;
  bool waiting = false;  // what its last step said

  void begin(const Launch& launch, const KernelCode& code, const BlockRun& run, std::uint32_t sm,
             std::uint32_t shared_bytes);
  // One turn. True when the block has ended.
  bool step(std::uint64_t budget, ProgressFlag* progress);
  void finish() { execution.reset(); }
};

// Residents that are kept for the next block, with their shared memory. Owned by one thread.
class ResidentPool {
 public:
  std::unique_ptr<ResidentBlock> take();
  void put(std::unique_ptr<ResidentBlock> resident);

 private:
  std::vector<std::unique_ptr<ResidentBlock>> free_;
};

// The watchdog's fault: `resident` blocks have only waited for `limit`.
void raise_stuck(const Launch& launch, std::uint32_t resident, std::uint64_t unstarted, std::chrono::milliseconds limit,
                 std::span<const Stand> stands);

// That of a launch whose time is over, with `unstarted` blocks that nobody has begun.
void raise_out_of_time(const Launch& launch, std::chrono::milliseconds limit, std::uint64_t unstarted,
                       std::span<const Stand> stands);

}  // namespace pergola::device::cpu
