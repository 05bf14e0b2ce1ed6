// What a session's graphs may be besides plain ones (scheduler/graph_ways.h): chains whose launches start early and
// wait for launches or for blocks (block_lowering.h), or stay in one cluster of blocks (fused_lowering.h); and launches
// side by side as one (merged_lowering.h), or one after
// the other (stacked_lowering.h).
//
//   plain         an edge wherever two launches conflict
//   ordered       the same edges; where launches may run at once the device meets first those that most waits for
//   uploads-in-a-row  the same, and copies from the host follow each other on the link
//   copies-in-rows  the same, with such copies in two rows, and those to the host in one
//   trimmed       launches have no blocks that write nothing; all ways below are made of that
//   packed        small blocks of kernels whose threads know nothing of each other are several to one of the device's
//   merged        launches of one kernel that may run at once are one launch, of the blocks of all
//   merged-kernels   ... of different kernels
//   stacked       launches that follow each other block by block are one launch, whose blocks run a block of each
//   merged-stacked   merged is made, and what stays is stacked
//   early         each launch is on the device before the one ahead of it has ended, and waits for its end there
//   packed-early  both: packed, and started early
//   merged-early  both: merged is made, and its launches start early and wait for launches
//   by-block      the same, but a block waits for the blocks that it needs
//   fused         runs of tiny launches are one launch of a cluster of blocks
//   fused-block   ... of one block
//   constants     launches have their whole numbers (sizes, strides, lengths of loops) as constants of their code; by
//                 blocks=constants alone, as nobody has measured it yet
//   columns       runs of launches whose grids fall into parts that need nothing of each other are one launch, whose
//                 blocks run a part each
//
// `blocks=measured` tries them on a GPU and keeps the fastest; elsewhere, where nodes run in order anyway, it is plain.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "src/analysis/relation_cache.h"
#include "src/device/device.h"
#include "src/runtime/merged_nodes.h"
#include "src/runtime/stacked_lowering.h"
#include "src/runtime/trimmed_grids.h"
#include "src/scheduler/graph_ways.h"
#include "src/scheduler/policy.h"

namespace pergola::runtime {

// Holds the device. Thread-safe.
class BlockWays final : public scheduler::GraphLowerer {
 public:
  BlockWays(device::DevicePtr device, scheduler::Blocks policy);

  std::size_t count() const override { return kinds_.size(); }
  std::string why_none() const override;
  std::optional<scheduler::GraphWay> way(std::size_t n, const device::GraphSpec& plain,
                                         std::span<const scheduler::LaunchToLower> launches) override;
  bool keeps_plain() const override { return policy_ == scheduler::Blocks::kMeasured; }

 private:
  enum class Kind : std::uint8_t {
    kOrdered,
    kUploadsInARow,
    kCopiesInRows,
    kConstants,
    kTrimmed,
    kPacked,
    kMerged,
    kMergedKernels,
    kStacked,
    kMergedStacked,
    kEarly,
    kPackedEarly,
    kMergedEarly,
    kByBlock,
    kFused,
    kFusedBlock,
    kColumns
  };
  static const char* name_of(Kind kind);
  using Launches = std::span<const scheduler::LaunchToLower>;
  static std::optional<scheduler::GraphWay> ordered(const device::GraphSpec& plain, Launches launches);
  static std::optional<scheduler::GraphWay> constants(const device::GraphSpec& plain, Launches launches);
  static std::optional<scheduler::GraphWay> in_rows(Kind kind, const device::GraphSpec& plain);
  std::optional<scheduler::GraphWay> way_of(Kind kind, const device::GraphSpec& plain, Launches launches) const;
  std::optional<scheduler::GraphWay> packed(const device::GraphSpec& plain, Launches launches) const;
  std::optional<scheduler::GraphWay> merged(bool of_kernels, const device::GraphSpec& plain, Launches launches) const;
  std::optional<scheduler::GraphWay> stacked(Kind kind, const device::GraphSpec& plain, Launches launches) const;
  std::optional<scheduler::GraphWay> merged_early(const device::GraphSpec& plain, Launches launches) const;
  std::optional<scheduler::GraphWay> early(Kind kind, const device::GraphSpec& plain, Launches launches) const;
  std::optional<scheduler::GraphWay> fused(Kind kind, const device::GraphSpec& plain, Launches launches) const;

  const device::DevicePtr device_;
  const scheduler::Blocks policy_;
  std::vector<Kind> kinds_;
  // Ways of one graph ask for the same footprints, and the graphs of a region for the same relations.
  mutable analysis::RelationCache cache_;
  mutable JoinedKernels joined_;
  mutable StackedKernels stacked_;
};

}  // namespace pergola::runtime
