// What a session's graphs may be besides plain ones (scheduler/graph_ways.h): chains whose launches start early and
// wait for launches or for blocks (block_lowering.h), or stay in one cluster of blocks (fused_lowering.h).
//
//   plain         an edge wherever two launches conflict
//   early         each launch is on the device before the one ahead of it has ended, and waits for its end there
//   by-block      the same, but a block waits for the blocks that it needs
//   fused         runs of tiny launches are one launch of a cluster of blocks
//   fused-block   ... of one block
//
// `blocks=measured` tries them on a GPU and keeps the fastest; elsewhere, where nodes run in order anyway, it is plain.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "src/device/device.h"
#include "src/scheduler/graph_ways.h"
#include "src/scheduler/policy.h"

namespace pergola::runtime {

// Holds the device. Thread-safe.
class BlockWays final : public scheduler::GraphLowerer {
 public:
  BlockWays(device::DevicePtr device, scheduler::Blocks policy) : device_(std::move(device)), policy_(policy) {}

  std::vector<scheduler::GraphWay> ways(device::GraphSpec plain,
                                        std::span<const scheduler::LaunchToLower> launches) override;

 private:
  using Launches = std::span<const scheduler::LaunchToLower>;
  void add_fused(std::uint32_t blocks, const char* name, const device::GraphSpec& plain, Launches launches,
                 std::vector<scheduler::GraphWay>& ways) const;
  void add_early(bool by_block, const device::GraphSpec& plain, Launches launches,
                 std::vector<scheduler::GraphWay>& ways) const;

  const device::DevicePtr device_;
  const scheduler::Blocks policy_;
};

}  // namespace pergola::runtime
