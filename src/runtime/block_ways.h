// What a session's graphs may be besides plain ones (scheduler/graph_ways.h): chains whose launches start early and
// wait for launches or for blocks (block_lowering.h), or stay in one cluster of blocks (fused_lowering.h); and launches
// side by side as one (merged_lowering.h), or one after
// the other (stacked_lowering.h).
//
//   plain         an edge wherever two launches conflict
//   ordered       the same edges; where launches may run at once the device meets first those that most waits for, and
//                 gives their blocks priority
//   uploads-in-a-row  the same, and copies from the host follow each other on the link
//   copies-in-rows  the same, with such copies in two rows, and those to the host in one
//   engines-in-rows  such copies, launches, and copies to the host in one row each
//   copies-together  copies of arrays that lie together, or are alike and in the same memories, are fewer
//   together-in-rows  both of these
//   trimmed       launches have no blocks that write nothing; all ways below are made of that
//   packed        small blocks of kernels whose threads know nothing of each other are several to one of the device's
//   merged        launches of one kernel that may run at once are one launch, of the blocks of all
//   merged-kernels   ... of different kernels
//   stacked       launches that follow each other block by block are one launch, whose blocks run a block of each
//   stacked-alone    ... where they wait for nothing that what is below them does not wait for
//   merged-stacked   merged is made, and what stays is stacked
//   early         each launch is on the device before the one ahead of it has ended, and waits for its end there
//   packed-early  both: packed, and started early
//   merged-early  both: merged is made, and its launches start early and wait for launches
//   by-block      the same, but a block waits for the blocks that it needs
//   fused         runs of tiny launches are one launch of a cluster of blocks
//   fused-block   ... of one block
//   constants     launches have their whole numbers (sizes, strides, lengths of loops) as constants of their code
//   columns       runs of launches whose grids fall into parts that need nothing of each other are one launch, whose
//                 blocks run a part each
//
// `blocks=measured` tries them on a GPU and keeps the fastest; elsewhere, where nodes run in order anyway, it is plain.
// Constants come last, and on top: the plain graph and those ways that were fastest are made of kernels with constants
// once more (constants-stacked, ...), as what they bring and what a way brings are nearly always both had. So with
// copies: of the fastest way that changes launches the copies are then put in order as in the fastest of those that
// change copies (packed+copies-in-rows, constants-packed+copies-in-rows), where both are faster than the plain one.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
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
  std::string name(std::size_t n) const override { return name_of(kinds_.at(n)); }
  std::optional<scheduler::GraphWay> way_named(std::string_view name, const device::GraphSpec& plain,
                                               std::span<const scheduler::LaunchToLower> launches) override;
  std::size_t finer_count() const override;
  std::optional<scheduler::GraphWay> finer_way(std::size_t n, const device::GraphSpec& plain,
                                               std::span<const scheduler::LaunchToLower> launches,
                                               std::span<const std::string> fastest) override;
  bool keeps_plain() const override { return policy_ == scheduler::Blocks::kMeasured; }

 private:
  enum class Kind : std::uint8_t {
    kOrdered,
    kUploadsInARow,
    kCopiesInRows,
    kEnginesInRows,
    kCopiesTogether,
    kTogetherInRows,
    kConstants,
    kTrimmed,
    kPacked,
    kMerged,
    kMergedKernels,
    kStacked,
    kStackedAlone,
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
  // What a way is made of: the plain graph, or one that differs from it in kernels or grids alone.
  struct Base {
    device::GraphSpec spec;
    std::vector<std::shared_ptr<BlockKernel>> kernels;  // by node; null where its parameters change, or it has none
    bool has_others = false;  // all kinds are made of it: one that would be the same as another is refused
  };
  using Way = std::optional<scheduler::GraphWay>;
  Way finer(std::string_view name, const device::GraphSpec& plain, Launches launches, bool tells) const;
  std::string with_copies_in_order(std::span<const std::string_view> fastest) const;
  static bool is_finer(std::string_view name);
  std::optional<Kind> kind_named(std::string_view name) const;  // of those that are offered
  static bool changes_copies(Kind kind);                        // or the order of all, and no launch
  static Way ordered(const Base& base, Launches launches);
  static Way in_rows(Kind kind, std::optional<device::GraphSpec> spec, const char* why);
  static Way copies_as_one(Kind kind, const Base& base);
  Way made_of(Kind kind, Base base, Launches launches) const;
  Way way_of(Kind kind, const Base& base, Launches launches) const;
  Way packed(const Base& base) const;
  Way merged(bool of_kernels, const Base& base) const;
  Way stacked(Kind kind, const Base& base, Launches launches) const;
  Way merged_early(const Base& base, Launches launches) const;
  Way early(Kind kind, const Base& base, Launches launches) const;
  Way fused(Kind kind, const Base& base, Launches launches) const;

  const device::DevicePtr device_;
  const scheduler::Blocks policy_;
  std::vector<Kind> kinds_;
  // Ways of one graph ask for the same footprints, and the graphs of a region for the same relations.
  mutable analysis::RelationCache cache_;
  mutable JoinedKernels joined_;
  mutable StackedKernels stacked_;
};

}  // namespace pergola::runtime
