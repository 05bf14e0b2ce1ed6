// Launches of a graph that need nothing of each other, made one launch (merged_nodes.h): the graph has
// fewer nodes, and fewer edges that fork and join.
//
//   plain    0 ─▶ 2 ─▶ 4        depth 0, 1, 2; two launches of one kernel in each
//            1 ─▶ 3 ─▶ 5                                                     merged   [0 1] ─▶ [2 3] ─▶ [4 5]
//
// What is as deep in the graph, counted in nodes on the longest way from a root, is independent: a way from one to the
// other would make that one deeper. For the same reason groups of one depth make no cycle. Copies and fills are nodes
// of the way as well, and stay.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "src/device/device.h"
#include "src/runtime/block_kernel.h"
#include "src/runtime/merged_nodes.h"

namespace pergola::runtime {

struct MergedOptions {
  std::uint32_t most_parameter_bytes = 4096;  // of a launch
  // Where grids differ, some blocks of the merged grid are nobody's: it has at most so many times those that are
  // needed.
  double most_blocks = 1.25;
  // Launches of different kernels are merged, too, where their blocks have one shape; and those of one kernel however
  // much their grids differ. Of at most so many kernels each.
  bool different_kernels = false;
  std::size_t most_kernels = 8;
  JoinedKernels* joined = nullptr;  // that are known already, where there are any
};

struct MergedGroup {
  std::vector<device::NodeId> launches;  // of the plain graph, two or more, ascending
  device::NodeId node = 0;               // of the spec
  bool in_a_row = false;                 // of several kernels, or of grids that differ much
  transform::MergedShape shape{};        // where it is not
};

struct LoweredMerged {
  device::GraphSpec spec;
  std::vector<MergedGroup> groups;
  std::vector<device::NodeId> places;  // by node of the plain graph: which of the spec's it is, or is part of
  std::vector<std::string>
      plain_reasons;  // by node of the plain graph: why it stays one of its own; "" where it does not
};

// `kernels`: by node, null where the node is no launch, nothing is known of its kernel, or its parameters change from
// run to run. Where nothing can be merged `groups` is empty and the graph the plain one. Edges that others imply are
// left out. Compiles. Thread-safe.
Result<LoweredMerged> lower_merged(device::Device& device, const device::GraphSpec& plain,
                                   std::span<const std::shared_ptr<BlockKernel>> kernels,
                                   const MergedOptions& options = {});

}  // namespace pergola::runtime
