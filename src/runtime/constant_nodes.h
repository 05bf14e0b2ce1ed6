// Launches of a graph with their whole numbers as constants of their code (transform/constant_parameters.h): all of a
// launch's where a kernel's launches have few sets of them, else those that are the same in all of its launches.
//
//   step(n = 512, k = 0)  step(n = 512, k = 1)  ...  step(n = 512, k = 510)      one form, of n = 512
//   layer(size = 224, stride = 4)  layer(size = 27, stride = 1)                  two forms, of both
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "src/device/device.h"
#include "src/runtime/block_kernel.h"

namespace pergola::runtime {

struct ConstantNodes {
  device::GraphSpec spec;  // the plain graph's nodes and edges
  // By node: those that were given, with their constants where they have some. Other ways are made of these, too.
  std::vector<std::shared_ptr<BlockKernel>> kernels;
  std::size_t launches = 0;          // that have constants
  std::vector<std::string> reasons;  // by node: why it stays as it is; "" where it does not
};

// `kernels`: by node, null where the node is no launch, nothing is known of its kernel, or its parameters change from
// run to run. Compiles. Thread-safe.
ConstantNodes make_constant(const device::GraphSpec& plain, std::span<const std::shared_ptr<BlockKernel>> kernels);

}  // namespace pergola::runtime
