// When each block of a chain of launches runs, under a virtual clock: a discrete-event model of the hardware that
// BlockMaestro (paper 001, III and Figure 9) proposes.
//
//   window   at most `window` launches are resident: launching, waiting or running. A launch becomes resident when the
//            one `window` before it completes, in order; with a window of 1 that is the paper's baseline.
//   launch   takes launch_ns from then on. As many at once as the window has, where the command queue processes
//            several commands (III-C, "Hyper-Q"); or `launches_at_once`, 1 being one after the other.
//   blocks   of a launch that is launched start in an SM as soon as their counters are zero (dependency_counters.h)
//            and the policy takes them: of the SMs with room, that with the fewest blocks. Where none has room for the
//            block that the policy takes, it waits, and with it all that come behind it.
//
//   kInOrder        none before the launch before is complete: baseline, and kernel pre-launching alone
//   kProducerFirst  none before every block of all launches before has started
//   kConsumerFirst  any that is ready, those of the latest launch first
//   kOldestFirst    any that is ready, those of the earliest launch first: not the paper's
//
// Blocks of a launch start in the order of their numbers as far as they are ready. Deterministic.
#pragma once

#include <cstdint>
#include <vector>

#include "src/base/result.h"
#include "src/device/cpu/blocks/launch_chain.h"

namespace pergola::device::cpu::blocks {

enum class BlockPolicy : std::uint8_t { kInOrder, kProducerFirst, kConsumerFirst, kOldestFirst };

// The defaults are the paper's GPU (IV-A) and its baseline.
struct ScheduleOptions {
  std::uint32_t sms = 28;
  std::uint32_t blocks_per_sm = 32;
  // What the blocks of an SM may keep together: those of compute capability 6.1, which the paper's GPU has.
  std::uint32_t threads_per_sm = 2048, shared_bytes_per_sm = 96 * 1024;
  double launch_ns = 5000;
  std::uint32_t window = 1;
  std::uint32_t launches_at_once = 0;  // 0: all of the window
  BlockPolicy policy = BlockPolicy::kInOrder;
};

// Figure 9's bars, in its order.
struct ScheduleMode {
  const char* name;
  ScheduleOptions options;
};
// "baseline" "ideal" "prelaunch" "producer" "consumer-2" "consumer-3" "consumer-4", over the given hardware.
std::vector<ScheduleMode> figure_nine(const ScheduleOptions& hardware = {});

struct BlockTimes {
  // When all that it depends on had ended, launched or not: the blocks that the chain's relations name, and the
  // launches before those that they reach.
  double ready_ns = 0;
  double start_ns = 0, end_ns = 0;
  std::uint32_t sm = 0;
};

struct LaunchTimes {
  double resident_ns = 0;  // launching begins, or waits for its turn
  double launched_ns = 0;
  double complete_ns = 0;  // its last block has ended, and all launches before are complete
  std::vector<BlockTimes> blocks;
};

struct Timeline {
  std::vector<LaunchTimes> launches;
  double end_ns = 0;
  double busy_ns = 0;          // time in which any block ran
  double block_ns = 0;         // sum of all blocks' times
  std::uint64_t requests = 0;  // that lists and counters add (dependency_traffic.h)

  // The mean number of blocks that run, over the time in which any does (Figure 10).
  double concurrency() const { return busy_ns == 0 ? 0 : block_ns / busy_ns; }
  // All blocks as they start; those that start together from the latest launch down.
  std::vector<BlockName> start_order() const;
};

// kInvalidArgument: no SMs or room for blocks, a window of 0, a launch without blocks or of blocks that no SM has room
// for, a cost that is not above zero, a share outside 0 ... 1, relations that do not reach back over the window or are
// of other numbers of blocks.
Result<Timeline> schedule_blocks(const LaunchChain& chain, const ScheduleOptions& options);

}  // namespace pergola::device::cpu::blocks
