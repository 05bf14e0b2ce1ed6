// Orders in which the blocks of a chain may run one by one, chosen to bring a missed dependence to light: whatever the
// counters allow and a stream would not do.
#pragma once

#include <cstdint>
#include <vector>

#include "src/device/cpu/blocks/launch_chain.h"

namespace pergola::device::cpu::blocks {

enum class BlockChoice : std::uint8_t {
  kLatestLaunch,    // of the blocks that are ready one of the latest launch, the highest number first
  kReversedBlocks,  // of the earliest launch, the highest number first
  kRandom,          // any
};

// All blocks of all launches, each behind what it depends on, with at most `window` launches begun and not complete.
// The relations of `chain` must reach back so far (schedule_blocks checks that). The same order for the same seed.
std::vector<BlockName> block_order(const LaunchChain& chain, std::uint32_t window, BlockChoice choice,
                                   std::uint64_t seed = 0);

}  // namespace pergola::device::cpu::blocks
