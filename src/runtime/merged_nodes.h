// One launch that is several: the kernel that runs the blocks of all (transform/merged_launches.h, joined_kernels.h),
// its grid, and the array of their parameters. Which launches may be merged is merged_lowering.h's to know.
#pragma once

#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "src/device/device.h"
#include "src/runtime/block_kernel.h"
#include "src/runtime/known_forms.h"

namespace pergola::runtime {

// Launches of one kernel that differ in grid and parameters alone. Borrows.
struct AlikeLaunches {
  std::shared_ptr<BlockKernel> kernel;
  std::vector<const device::KernelNode*> works;
};

// Joined kernels by what they are made of. Keeps them and the kernels. Thread-safe.
class JoinedKernels {
 public:
  using Shapes = std::vector<std::pair<std::shared_ptr<BlockKernel>, transform::MergedShape>>;
  // What transform::join_kernels() or the device says, the same every time.
  Result<BlockKernel::Form> form(device::Device& device, const Shapes& shapes, const device::Dim3& block);

 private:
  KnownForms<Shapes> known_;
};

// Makes launches. Thread-safe where `joined` and the kernels are.
class MergedNodes {
 public:
  MergedNodes(device::Device& device, JoinedKernels& joined, std::uint32_t most_parameter_bytes)
      : device_(device), joined_(joined), most_parameter_bytes_(most_parameter_bytes) {}

  struct Layered {
    device::KernelNode work;
    transform::MergedShape shape;
  };
  // Grids one behind the other, along z; the array has room for most_parameter_bytes at most, in which all must fit.
  Result<Layered> in_layers(const AlikeLaunches& launches) const;
  // All blocks in one row, of one or more kernels in blocks of one shape. kResourceExhausted where so few blocks of
  // that fit a multiprocessor that some launch would be slower than by itself: fewer than three quarters of its own,
  // and not all of the row at once.
  Result<device::KernelNode> in_a_row(std::span<const AlikeLaunches> parts) const;
  // Whether launches of its kernel can be in a row: kUnsupported, with file and line, where they cannot.
  static Status can_be_in_a_row(const AlikeLaunches& part);
  // What a part takes of the parameters there, with the gap that may be before it.
  static std::size_t row_bytes(const AlikeLaunches& part);

 private:
  Status check(const BlockKernel::Form& form, const device::LaunchConfig& config,
               std::span<const AlikeLaunches> parts) const;

  device::Device& device_;
  JoinedKernels& joined_;
  const std::uint32_t most_parameter_bytes_;
};

}  // namespace pergola::runtime
