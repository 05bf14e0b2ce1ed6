// A program block by block on the interpreter: in stream order with each block measured, or in any order of its blocks.
#pragma once

#include <functional>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "bench/blocks/relations/program_relations.h"
#include "src/device/cpu/blocks/block_runner.h"
#include "src/device/cpu/blocks/launch_chain.h"
#include "src/device/device.h"

namespace pergola::bench::blocks {

namespace vclock = device::cpu::blocks;

// How launches depend on each of the `window` - 1 before; every block costs 1 ns.
Result<vclock::LaunchChain> chain_of(const Program& program, const ProgramRelations& relations, std::uint32_t window);
// The same from footprints that the caller may have changed, one for each launch.
vclock::LaunchChain chain_of(const std::vector<analysis::LaunchFootprint>& footprints, std::uint32_t window,
                             const analysis::DependencyOptions& options = {});

class ProgramExecution {
 public:
  // Loads the kernels and makes the buffers, with their contents before the first launch. `device` must be a CPU device
  // of the interpreter tier; `program` and `relations`, whose PTX it runs, must outlive the object.
  static Result<ProgramExecution> on(device::DevicePtr device, const Program& program,
                                     const ProgramRelations& relations);

  // The buffers as they were before the first launch.
  void reset();
  Status run(std::span<const vclock::BlockName> order) const;
  // All launches in stream order, the blocks of each over `threads` threads; `progress` is told how many launches are
  // done. By launch and block.
  Result<std::vector<std::vector<vclock::BlockWork>>> measure(
      unsigned threads, const std::function<void(std::size_t)>& progress = {}) const;
  // What each block of a launch keeps of its SM.
  vclock::BlockRoom room(std::size_t launch) const { return launches_[launch].room(); }
  // Program::check() of what is in the buffers now.
  std::string check() const;
  // All buffers' bytes, one behind the other.
  std::vector<std::byte> contents() const;

 private:
  ProgramExecution() = default;
  std::span<std::byte> bytes_of(std::size_t buffer) const;

  const Program* program_ = nullptr;
  device::DevicePtr device_;
  std::vector<device::BufferPtr> buffers_;
  std::vector<vclock::BlockLaunch> launches_;
};

}  // namespace pergola::bench::blocks
