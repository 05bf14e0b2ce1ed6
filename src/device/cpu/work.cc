#include "src/device/cpu/work.h"

#include <algorithm>
#include <cstring>

#include "src/device/cpu/cpu_device.h"
#include "src/device/cpu/queue_worker.h"
#include "src/device/validate.h"

namespace pergola::device::cpu {
Result<CpuBuffer*> own_buffer(const CpuDevice& device, const BufferPtr& buffer) {
  auto* own = dynamic_cast<CpuBuffer*>(buffer.get());
  if (own != nullptr && own->memory() == device.memory().get()) return own;
  return PERGOLA_ERROR(kInvalidArgument, "The buffer is {}.",
                       buffer == nullptr ? "null" : "of another device; a queue takes buffers of its own device");
}

Result<CheckedLaunch> check_launch(const CpuDevice& device, const ModulePtr& module, const Kernel& kernel,
                                   const LaunchConfig& config, std::size_t parameter_bytes, std::string_view what) {
  const auto* own_module = dynamic_cast<const CpuModule*>(module.get());
  if (own_module == nullptr || own_module->device() != &device) {
    return PERGOLA_ERROR(
        kInvalidArgument, "The module is {}.",
        module == nullptr ? "null" : fmt::format("of another device; load it on the device of {}", what));
  }
  const CpuKernel* own = own_module->own(kernel);
  if (own == nullptr) {
    return PERGOLA_ERROR(kInvalidArgument, "The kernel is not one of the module that is given with it.");
  }
  PERGOLA_TRY(validate_launch(device.info(), *own, config, parameter_bytes));
  const std::uint64_t shared = own->shared_bytes(config.dynamic_shared_bytes);
  if (shared > device.info().max_shared_bytes_per_block) {
    return PERGOLA_ERROR(
        kResourceExhausted,
        "Kernel '{}' needs {} bytes of shared memory, {} of them dynamic; a block of '{}' has at most {}.",
        own->signature().name, shared, config.dynamic_shared_bytes, device.info().id,
        device.info().max_shared_bytes_per_block);
  }
  return CheckedLaunch{own, static_cast<std::uint32_t>(shared)};
}

Launch launch_of(CpuDevice& device, const CpuKernel& kernel, const LaunchConfig& config,
                 std::span<const std::byte> parameters, FaultSlot& fault, PrintBuffer& print) {
  Launch launch;
  launch.kernel_name = kernel.signature().name;
  launch.config = config;
  launch.parameters = parameters;
  launch.static_shared_bytes = kernel.resources().static_shared_bytes;
  launch.grid_id = device.next_grid_id();
  launch.sm_count = device.info().sm_count;
  launch.memory = &device.memory()->map;
  launch.print = &print;
  launch.heap = &device.heap();
  launch.fault = &fault;
  launch.reads_grid_workspace = kernel.reads_grid_workspace();
  return launch;
}

Result<LaunchWork> LaunchWork::make(CpuDevice& device, const ModulePtr& module, const Kernel& kernel,
                                    const LaunchConfig& config, std::span<const std::byte> parameters) {
  PERGOLA_ASSIGN(const CheckedLaunch checked,
                 check_launch(device, module, kernel, config, parameters.size(), "this queue"));
  LaunchWork work;
  work.module_ = module;
  work.kernel_ = checked.kernel;
  work.config_ = config;
  work.shared_bytes_ = checked.shared_bytes;
  work.parameter_bytes_ = parameters.size();
  work.parameters_ = AlignedBytes::make(std::max<std::size_t>(parameters.size(), 1), kParameterAlignBytes);
  if (work.parameters_.data() == nullptr) {
    return PERGOLA_ERROR(kResourceExhausted, "The host has no {} bytes for parameters.", parameters.size());
  }
  work.set_parameters(parameters);
  return work;
}

void LaunchWork::set_parameters(std::span<const std::byte> parameters) {
  PERGOLA_CHECK(parameters.size() == parameter_bytes_);
  if (!parameters.empty()) std::memcpy(parameters_.data(), parameters.data(), parameters.size());
}

Status LaunchWork::run(QueueWorker& worker) const {
  CpuDevice& device = worker.device();
  FaultSlot fault;
  PrintBuffer print(device.output());
  Launch launch = launch_of(device, *kernel_, config_, {parameters_.data(), parameter_bytes_}, fault, print);
  std::shared_ptr<CpuBuffer> workspace;  // of this run alone: the same graph may run twice at a time
  if (config_.cooperative && launch.reads_grid_workspace) {
    PERGOLA_ASSIGN(workspace, CpuBuffer::create(device.memory(), sizeof(GridWorkspace), MemoryKind::kDevice));
    const GridWorkspace fresh;
    std::memcpy(workspace->bytes(), &fresh, sizeof fresh);
    launch.grid_workspace = workspace->address();
  }
  PERGOLA_TRY(worker.begin_launch(fault));
  BufferMargins::Watch watch(device.memory()->margins, launch.kernel_name, launch.parameters);
  const std::uint64_t first_block = device.heap().next_id();
  Status status = device.runner().run(launch, kernel_->code(), shared_bytes_, &device.progress());
  worker.end_launch();
  if (status.ok()) status = watch.end();
  if (status.ok()) status = device.heap().check(launch.kernel_name, first_block);
  print.flush();
  return status;
}

Result<CopyWork> CopyWork::make(CpuDevice& device, const CopyNode& node) {
  PERGOLA_ASSIGN(CpuBuffer * to, own_buffer(device, node.destination));
  PERGOLA_ASSIGN(CpuBuffer * from, own_buffer(device, node.source));
  PERGOLA_TRY(validate_copy(to, node.destination_offset_bytes, from, node.source_offset_bytes, node.size_bytes));
  for (const CopyNode::Row& row : node.more_rows) {
    PERGOLA_ASSIGN(CpuBuffer * row_to, own_buffer(device, row.destination));
    PERGOLA_ASSIGN(CpuBuffer * row_from, own_buffer(device, row.source));
    PERGOLA_TRY(
        validate_copy(row_to, node.destination_offset_bytes, row_from, node.source_offset_bytes, row.size_bytes));
  }
  CopyWork work;
  work.node_ = node;
  return work;
}

Status CopyWork::run() const {
  const auto copy = [&](const BufferPtr& to, const BufferPtr& from, std::size_t size_bytes) {
    if (size_bytes != 0)
      std::memcpy(to->host_pointer() + node_.destination_offset_bytes, from->host_pointer() + node_.source_offset_bytes,
                  size_bytes);
  };
  copy(node_.destination, node_.source, node_.size_bytes);
  for (const CopyNode::Row& row : node_.more_rows) copy(row.destination, row.source, row.size_bytes);
  return {};
}

Result<FillWork> FillWork::make(CpuDevice& device, const FillNode& node) {
  PERGOLA_ASSIGN(CpuBuffer * to, own_buffer(device, node.destination));
  PERGOLA_TRY(validate_fill(to, node.offset_bytes, node.size_bytes, node.pattern, node.pattern_bytes));
  FillWork work;
  work.node_ = node;
  return work;
}

Status FillWork::run() const {
  expand_fill({node_.destination->host_pointer() + node_.offset_bytes, node_.size_bytes}, node_.pattern,
              node_.pattern_bytes);
  return {};
}

}  // namespace pergola::device::cpu
