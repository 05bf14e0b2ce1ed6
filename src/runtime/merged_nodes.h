// One launch that is several: the kernel that runs the blocks of all (transform/merged_launches.h, joined_kernels.h),
// its grid, and the array of their parameters. Which launches may be merged is merged_lowering.h's to know.
#pragma once

#include <map>
#include <span>
#include <utility>
#include <vector>

#include "src/device/device.h"
#include "src/runtime/block_kernel.h"

namespace pergola::runtime {

// Launches of one kernel that differ in grid and parameters alone. Borrows.
struct AlikeLaunches {
  BlockKernel* kernel = nullptr;
  std::vector<const device::KernelNode*> works;
};

// Makes launches, each kernel once. Thread-compatible.
class MergedNodes {
 public:
  MergedNodes(device::Device& device, std::uint32_t most_parameter_bytes)
      : device_(device), most_parameter_bytes_(most_parameter_bytes) {}

  // Grids one behind the other, along z; the array has room for most_parameter_bytes at most, in which all must fit.
  Result<device::KernelNode> in_layers(const AlikeLaunches& launches);
  // All blocks in one row, of one or more kernels in blocks of one shape. kResourceExhausted where so few blocks of
  // that fit a multiprocessor that some launch would be slower than by itself: fewer than three quarters of its own,
  // and not all of the row at once.
  Result<device::KernelNode> in_a_row(std::span<const AlikeLaunches> parts);
  // Whether launches of its kernel can be in a row: kUnsupported, with file and line, where they cannot.
  static Status can_be_in_a_row(const AlikeLaunches& part);
  // What a part takes of the parameters there, with the gap that may be before it.
  static std::size_t row_bytes(const AlikeLaunches& part);

 private:
  using Shapes = std::vector<std::pair<BlockKernel*, transform::MergedShape>>;
  Result<BlockKernel::Form> joined(const Shapes& shapes, const device::Dim3& block);
  Status check(const BlockKernel::Form& form, const device::LaunchConfig& config,
               std::span<const AlikeLaunches> parts) const;

  device::Device& device_;
  const std::uint32_t most_parameter_bytes_;
  std::map<std::pair<Shapes, std::array<std::uint32_t, 3>>, Result<BlockKernel::Form>> joined_;
};

}  // namespace pergola::runtime
