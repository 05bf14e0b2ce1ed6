// Launches of a graph whose small blocks are several to one of the device's (transform/packed_blocks.h).
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "src/device/device.h"
#include "src/runtime/block_kernel.h"

namespace pergola::runtime {

struct PackingOptions {
  std::uint32_t most_threads = 64;    // of a block that is small
  std::uint32_t block_threads = 256;  // of one of several, at most
  // Fewer are not worth it. How many they are is a power of two, so that launches whose grids differ share forms.
  std::uint32_t fewest_blocks = 4;
  std::uint32_t least_resident = 2;  // blocks of the device's for each multiprocessor, at least
};

// How a launch would be packed; none where its blocks are large or few, or it is cooperative, in clusters, or has
// dynamic shared memory.
std::optional<transform::PackedShape> packing_of(const device::LaunchConfig& config, std::uint32_t multiprocessors,
                                                 const PackingOptions& options = {});

// Makes `work` the launch of `form`, which is its kernel's in that shape. kResourceExhausted where its registers do not
// allow blocks of that size; `work` is as it was then.
Status pack_node(device::KernelNode& work, const transform::PackedShape& shape, const BlockKernel::Form& form);

struct PackedNodes {
  device::GraphSpec spec;            // the plain graph's nodes and edges
  std::size_t launches = 0;          // that are packed
  std::vector<std::string> reasons;  // by node: why it stays as it is; "" where it is packed
};

// `kernels`: by node, null where the node is no launch, nothing is known of its kernel, or its parameters change from
// run to run. Compiles. Thread-safe.
PackedNodes pack_nodes(const device::Device& device, const device::GraphSpec& plain,
                       std::span<const std::shared_ptr<BlockKernel>> kernels, const PackingOptions& options = {});

}  // namespace pergola::runtime
