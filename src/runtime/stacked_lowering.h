// Launches of a graph that follow each other block by block, made one launch whose blocks run their own block of each
// (transform/stacked_kernels.h): the graph has fewer nodes, and what one launch hands to the next stays with its block.
//
//   plain    0 ─▶ 1 ─▶ 2 ─▶ 4          blocks of 1 and 2 need those of their own number alone
//            3 ──────────▶ 4                                                   stacked   0 ─▶ [1 2] ─▶ 4
//                                                                                        3 ──────────▶ 4
//
// A launch goes on top of the one that it waits for longest, by what launches are expected to take, and only where all
// else that it waits for is expected to have ended before the stack begins: else all of the stack would wait for that.
// So no cycle can be: along an edge from stack to stack expected begins only grow. What is expected may be wrong, and
// then the graph takes longer than without: `waits_for_nothing_else` asks the edges alone, and stacks less. Each edge
// into a stack then is, or stands behind, one to its first launch, so a cycle of stacks would be one of launches. Like
// columns of one block (analysis/block_columns.h), but for the kernels' own code, and of grids alike only.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "src/device/device.h"
#include "src/runtime/chain_launches.h"
#include "src/runtime/known_forms.h"

namespace pergola::runtime {

// Stacked kernels by what they are made of. Keeps them and the kernels. Thread-safe.
class StackedKernels {
 public:
  // Of each part, in order: its kernel and StackedPart::constant_lines.
  using Parts = std::vector<std::pair<std::shared_ptr<BlockKernel>, std::vector<std::uint32_t>>>;
  // What transform::stack_kernels() or the device says, the same every time.
  Result<BlockKernel::Form> form(device::Device& device, const Parts& parts, const device::Dim3& block);

 private:
  KnownForms<Parts> known_;
};

struct StackedOptions {
  std::size_t most_launches = 8;            // of a stack
  std::size_t most_parameter_bytes = 4096;  // of a launch
  // Nodes in an order that has each after what it depends on, which the made graph has as far as it can; empty: as they
  // are.
  std::vector<device::NodeId> order{};
  std::vector<double> expected_ns{};  // of each node; empty: they take alike
  // One goes on top only where all else that it waits for comes before the stack by an edge, whatever takes how long.
  bool waits_for_nothing_else = false;
  StackedKernels* stacked = nullptr;         // that are known already, where there are any
  analysis::RelationCache* cache = nullptr;  // of footprints and relations, where there is one
};

struct LoweredStacked {
  device::GraphSpec spec;
  std::vector<std::vector<device::NodeId>> members;  // by node of the spec: of the plain graph, in the order they run
  std::size_t stacks = 0;                            // nodes of several
  std::vector<std::string>
      plain_reasons;  // by node of the plain graph: why it stays one of its own; "" where it does not
};

// `kernels` and `allocations` as ChainLaunches has them; launches whose parameters change have no kernel there. Where
// nothing can be stacked `stacks` is 0. Compiles. Thread-safe.
Result<LoweredStacked> lower_stacked(device::Device& device, const device::GraphSpec& plain,
                                     std::span<const std::shared_ptr<BlockKernel>> kernels,
                                     std::span<const BlockAllocation> allocations, const StackedOptions& options = {});

}  // namespace pergola::runtime
