// Footprints with a small mistake, as an analysis might make it, and what comes of it: for tests that must find it.
#pragma once

#include <array>
#include <cstdint>
#include <random>
#include <string_view>
#include <vector>

#include "src/analysis/launch_footprint.h"
#include "src/device/cpu/blocks/launch_chain.h"

namespace pergola::block_orders_test {

enum class Mistake : std::uint8_t {
  kShort,        // every block's bytes lack their last element
  kNextBlock,    // every block has the bytes of the block after it
  kWriteIsRead,  // what is written counts as read
};
inline constexpr std::array<Mistake, 3> kMistakes = {Mistake::kShort, Mistake::kNextBlock, Mistake::kWriteIsRead};
std::string_view to_string(Mistake mistake);

// Makes it in one access of one of the launches, which `random` chooses. False where none of what is tried allows it.
bool make_mistake(Mistake mistake, std::vector<analysis::LaunchFootprint>& footprints, std::mt19937_64& random);

// Whether some block no longer waits for one that it waits for in `whole`.
bool loses_a_parent(const device::cpu::blocks::LaunchChain& whole, const device::cpu::blocks::LaunchChain& broken);

}  // namespace pergola::block_orders_test
