// A chain of launches that start early, block by block on the interpreter, as a GPU may run it that does as little for
// it as PTX allows (ISA 9.7.13.13, griddepcontrol), in orders that bring a missing rule to light.
//
//   launch 0   ─t──────────────s│         t   launch_dependents, of every block: launch 1 may start
//   launch 1     ─t──p p p──────w│        s   a block's counter grows; p   it is looked at
//   launch 2        ─t────────────w│      w   griddepcontrol.wait: till the launch before has ended
//
// - A launch starts when all blocks of the one that it is an early dependent of have executed launch_dependents or
//   ended; else when those before it have ended.
// - griddepcontrol.wait waits for the launch before, and no other. A launch has ended when its blocks have.
// - At most `room` blocks are on the device, and begin in the order of launches.
// - Memory is as weak as weak_memory.h has it, or not at all: either shows what the other hides.
//
// What is missing in the code of the launches then shows in the bits that there are when the last one ends, or as
// blocks that wait for ever.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "src/device/cpu/blocks/block_runner.h"
#include "src/device/device.h"
#include "src/device/graph.h"

namespace pergola::early_test {

enum class Preference : std::uint8_t { kLatestLaunch, kEarliestLaunch, kRandom };

struct EarlyOrder {
  Preference preference = Preference::kLatestLaunch;
  std::uint64_t seed = 0;
  std::uint32_t room = ~std::uint32_t{0};  // at least 1
  bool is_weak = true;                     // memory; else each store is seen by all at once
  // Launch and block that goes on only where no other can.
  std::optional<std::pair<std::size_t, std::uint32_t>> last{};
};

struct EarlyRun {
  std::string stuck;               // who waits for ever, or has faulted; "" where all have ended
  std::vector<std::byte> at_end;   // of the spec's buffers, one behind the other, when the last launch ended
  std::uint32_t most_running = 0;  // launches that had begun and not ended, at once
  // By launch: the launch before had not ended when it began.
  std::vector<bool> overlaps;
  // By launch: of the block that did most before its launch_dependents, how many instructions that was; of all of the
  // block where it has none.
  std::vector<std::uint32_t> before_trigger;
};

// Runs all of it, changing the buffers. `spec`: of kernels alone, on a CPU device of the interpreter tier.
Result<EarlyRun> run_early(const device::DevicePtr& device, const device::GraphSpec& spec, const EarlyOrder& order);

}  // namespace pergola::early_test
