#include "bench/blocks/forms/program_on_device.h"

#include <cstring>

#include "bench/blocks/forms/dependencies.h"
#include "src/ptx/parser.h"
#include "src/ptx/verifier.h"

namespace pergola::bench::blocks {

Result<ProgramOnDevice> ProgramOnDevice::make(const device::DevicePtr& device, const Program& program,
                                              const std::string& ptx) {
  ProgramOnDevice made;
  made.device_ = device;
  made.program_ = &program;
  PERGOLA_ASSIGN(ptx::Module module, ptx::parse(ptx, program.source_file));
  PERGOLA_TRY(ptx::verify(module));
  made.after_ = dependencies_of(program, module);
  PERGOLA_ASSIGN(made.module_, device->load({&module, ptx, program.source_file}));
  PERGOLA_ASSIGN(made.queue_, device->create_queue());
  const auto text = std::make_shared<const std::string>(ptx);
  for (const Launch& launch : program.launches) {
    auto& kernel = made.kernels_[launch.kernel];
    if (kernel == nullptr)
      kernel = std::make_shared<runtime::BlockKernel>(device, text, program.source_file, launch.kernel, "");
  }
  for (const Buffer& buffer : program.buffers) {
    PERGOLA_ASSIGN(device::BufferPtr memory, device->allocate(buffer.bytes(), device::MemoryKind::kDevice));
    made.buffers_.push_back(std::move(memory));
    made.contents_.emplace_back();
    if (!buffer.fill) continue;
    std::vector<std::byte> contents(buffer.bytes());
    buffer.fill(contents);
    PERGOLA_ASSIGN(made.contents_.back(), device->allocate(buffer.bytes(), device::MemoryKind::kDevice));
    PERGOLA_TRY(made.queue_->copy_to_device(made.contents_.back(), 0, contents));
    PERGOLA_TRY(made.queue_->synchronize());
  }
  return made;
}

Status ProgramOnDevice::reset() {
  for (std::size_t i = 0; i < buffers_.size(); ++i) {
    if (contents_[i] == nullptr)
      PERGOLA_TRY(queue_->fill(buffers_[i], 0, buffers_[i]->size_bytes(), 0, 1));
    else
      PERGOLA_TRY(queue_->copy(buffers_[i], 0, contents_[i], 0, buffers_[i]->size_bytes()));
  }
  return queue_->synchronize();
}

Result<std::string> ProgramOnDevice::check() {
  std::vector<std::vector<std::byte>> results(buffers_.size());
  for (std::size_t i = 0; i < buffers_.size(); ++i) {
    if (!program_->buffers[i].is_result) continue;
    results[i].resize(buffers_[i]->size_bytes());
    PERGOLA_TRY(queue_->copy_to_host(results[i], buffers_[i], 0));
  }
  PERGOLA_TRY(queue_->synchronize());
  return program_->check(Results(results.begin(), results.end()));
}

device::GraphSpec ProgramOnDevice::chain() const {
  device::GraphSpec spec;
  spec.buffers = buffers_;
  for (const Launch& launch : program_->launches) {
    device::KernelNode work;
    work.module = module_;
    work.kernel = module_->kernel(launch.kernel).value();
    work.config.grid = {launch.grid.x, launch.grid.y, launch.grid.z};
    work.config.block = {launch.block.x, launch.block.y, launch.block.z};
    work.config.dynamic_shared_bytes = launch.shared_bytes;
    const ptx::KernelSignature& signature = work.kernel->signature();
    work.parameters.resize(signature.parameter_bytes);
    for (std::size_t i = 0; i < launch.arguments.size(); ++i) {
      std::byte* const to = work.parameters.data() + signature.parameters[i].offset_bytes;
      std::visit(
          [&](const auto& value) {
            if constexpr (std::is_same_v<std::decay_t<decltype(value)>, BufferArgument>) {
              const device::DeviceAddress address = buffers_[value.buffer]->address() + value.offset_bytes;
              std::memcpy(to, &address, sizeof address);
            } else {
              std::memcpy(to, &value, sizeof value);
            }
          },
          launch.arguments[i]);
    }
    if (constants_) {
      const auto& constant = std::get<device::KernelNode>(constants_->spec.nodes[spec.nodes.size()].work);
      work.module = constant.module;
      work.kernel = constant.kernel;
    }
    device::GraphNode node;
    node.work = std::move(work);
    if (!spec.nodes.empty()) node.after = {static_cast<device::NodeId>(spec.nodes.size() - 1)};
    spec.nodes.push_back(std::move(node));
  }
  return spec;
}

device::GraphSpec ProgramOnDevice::graph() const {
  device::GraphSpec spec = chain();
  for (std::size_t i = 0; i < spec.nodes.size(); ++i) spec.nodes[i].after.assign(after_[i].begin(), after_[i].end());
  return spec;
}

std::vector<runtime::BlockAllocation> ProgramOnDevice::allocations() const {
  std::vector<runtime::BlockAllocation> all;
  for (const device::BufferPtr& buffer : buffers_) all.push_back({buffer->address(), buffer->size_bytes()});
  return all;
}

std::vector<std::shared_ptr<runtime::BlockKernel>> ProgramOnDevice::kernels() const {
  if (constants_) return constants_->kernels;
  std::vector<std::shared_ptr<runtime::BlockKernel>> all;
  for (const Launch& launch : program_->launches) all.push_back(kernels_.at(launch.kernel));
  return all;
}

Result<runtime::LoweredBlocks> ProgramOnDevice::lowered(const runtime::BlockLoweringOptions& options) const {
  return runtime::lower_blocks(*device_, chain(), kernels(), allocations(), options);
}

runtime::TrimmedGrids ProgramOnDevice::trimmed() const {
  return runtime::trim_grids(graph(), kernels(), allocations());
}

runtime::PackedNodes ProgramOnDevice::packed(const runtime::TrimmedGrids& trimmed,
                                             const runtime::PackingOptions& options) const {
  return runtime::pack_nodes(*device_, trimmed.spec, kernels(), options);
}

runtime::TrimmedGrids ProgramOnDevice::trimmed_chain() const {
  return runtime::trim_grids(chain(), kernels(), allocations());
}

Result<runtime::LoweredBlocks> ProgramOnDevice::lowered(const runtime::BlockLoweringOptions& options,
                                                        const runtime::TrimmedGrids& trimmed) const {
  return runtime::lower_blocks(*device_, trimmed.spec, kernels(), allocations(), options);
}

Result<runtime::LoweredFused> ProgramOnDevice::fused(const runtime::FusedOptions& options) const {
  return runtime::lower_fused(*device_, options.columns ? graph() : chain(), kernels(), allocations(), options);
}

runtime::ConstantNodes ProgramOnDevice::constants() const {
  return runtime::make_constant(graph(), kernels());
}

Result<runtime::LoweredStacked> ProgramOnDevice::stacked(const runtime::StackedOptions& options) const {
  return runtime::lower_stacked(*device_, graph(), kernels(), allocations(), options);
}

Result<runtime::LoweredStacked> ProgramOnDevice::merged_stacked(const runtime::LoweredMerged& merged) const {
  const std::vector<std::shared_ptr<runtime::BlockKernel>> all = kernels();
  std::vector<std::shared_ptr<runtime::BlockKernel>> left(merged.spec.nodes.size());
  for (std::size_t i = 0; i < all.size(); ++i)
    if (!merged.plain_reasons[i].empty()) left[merged.places[i]] = all[i];
  return runtime::lower_stacked(*device_, merged.spec, left, allocations());
}

Result<runtime::LoweredMerged> ProgramOnDevice::merged(const runtime::MergedOptions& options) const {
  return runtime::lower_merged(*device_, graph(), kernels(), options);
}

Result<runtime::LoweredMergedEarly> ProgramOnDevice::merged_early(const runtime::LoweredMerged& merged) const {
  return runtime::start_early(graph(), merged, kernels(), allocations());
}

}  // namespace pergola::bench::blocks
