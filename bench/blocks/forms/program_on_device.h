// A program in a device's memory, with what its launches are as a graph: for tests and forms that go beneath sessions.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "bench/blocks/program.h"
#include "src/device/device.h"
#include "src/runtime/block_lowering.h"
#include "src/runtime/constant_nodes.h"
#include "src/runtime/fused_lowering.h"
#include "src/runtime/merged_early.h"
#include "src/runtime/merged_lowering.h"
#include "src/runtime/stacked_lowering.h"
#include "src/runtime/trimmed_grids.h"

namespace pergola::bench::blocks {

// `program` must outlive it. Used by one thread.
class ProgramOnDevice {
 public:
  // Loads `ptx`, the program's kernels.
  static Result<ProgramOnDevice> make(const device::DevicePtr& device, const Program& program, const std::string& ptx);

  // The buffers as they are before the first launch. Waits.
  Status reset();
  // What Program::check says of the buffers now. Waits.
  Result<std::string> check();

  // The launches in order, each after the one before it.
  device::GraphSpec chain() const;
  // The launches, each after those that it must come after.
  device::GraphSpec graph() const;
  // The graph without blocks that write nothing, and the chain.
  runtime::TrimmedGrids trimmed() const;
  runtime::TrimmedGrids trimmed_chain() const;
  // Of that, with small blocks several to one of the device's.
  runtime::PackedNodes packed(const runtime::TrimmedGrids& trimmed, const runtime::PackingOptions& options = {}) const;
  // The graph, with whole numbers of the launches as constants.
  runtime::ConstantNodes constants() const;
  // From now on the chain, the graph and all that is made of them have these.
  void use_constants() { constants_ = constants(); }
  // The chain, as blocks that wait for blocks; the same of that with smaller grids.
  Result<runtime::LoweredBlocks> lowered(const runtime::BlockLoweringOptions& options) const;
  Result<runtime::LoweredBlocks> lowered(const runtime::BlockLoweringOptions& options,
                                         const runtime::TrimmedGrids& trimmed) const;

  // The chain, with runs of tiny launches as one.
  Result<runtime::LoweredFused> fused(const runtime::FusedOptions& options) const;
  // The graph, with launches whose blocks follow each other as one; and the merged graph, of what is not merged there.
  Result<runtime::LoweredStacked> stacked(const runtime::StackedOptions& options = {}) const;
  Result<runtime::LoweredStacked> merged_stacked(const runtime::LoweredMerged& merged) const;
  // The graph, with launches side by side as one; the same with launches that start early, `merged` being in layers
  // alone.
  Result<runtime::LoweredMerged> merged(const runtime::MergedOptions& options) const;
  Result<runtime::LoweredMergedEarly> merged_early(const runtime::LoweredMerged& merged) const;

  device::Queue& queue() { return *queue_; }
  const std::vector<device::BufferPtr>& buffers() const { return buffers_; }

 private:
  std::vector<runtime::BlockAllocation> allocations() const;
  std::vector<std::shared_ptr<runtime::BlockKernel>> kernels() const;

  device::DevicePtr device_;
  const Program* program_ = nullptr;
  device::ModulePtr module_;
  std::unique_ptr<device::Queue> queue_;
  std::vector<device::BufferPtr> buffers_, contents_;  // contents_: of those that are filled
  std::map<std::string, std::shared_ptr<runtime::BlockKernel>> kernels_;
  std::vector<std::vector<std::size_t>> after_;  // by launch
  std::optional<runtime::ConstantNodes> constants_;
};

}  // namespace pergola::bench::blocks
