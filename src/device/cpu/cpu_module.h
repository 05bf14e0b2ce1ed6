// A module loaded on the CPU device: a tier's code, and its instance of the module's variables.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "src/device/cpu/block.h"
#include "src/device/cpu/cpu_buffer.h"
#include "src/device/cpu/global_placement.h"
#include "src/device/cpu/grid_runner.h"
#include "src/device/device.h"

namespace pergola::device::cpu {

class CpuDevice;

class CpuKernel final : public Kernel {
 public:
  CpuKernel(ptx::KernelSignature signature, SharedLayout layout, std::shared_ptr<const KernelCode> code,
            bool reads_grid_workspace, const GridRunner& runner, const DeviceInfo& info)
      : signature_(std::move(signature)), layout_(std::move(layout)), code_(std::move(code)),
        reads_grid_workspace_(reads_grid_workspace), runner_(runner), info_(info) {}

  const ptx::KernelSignature& signature() const override { return signature_; }
  KernelResources resources() const override;
  Result<std::uint32_t> max_resident_blocks_per_sm(std::uint32_t threads,
                                                   std::uint32_t dynamic_shared_bytes) const override;

  // What a block gets in all: statics, padding before the dynamic part, and that.
  std::uint64_t shared_bytes(std::uint32_t dynamic_shared_bytes) const;
  const KernelCode& code() const { return *code_; }
  bool reads_grid_workspace() const { return reads_grid_workspace_; }  // Launch::grid_workspace

 private:
  const ptx::KernelSignature signature_;
  const SharedLayout layout_;
  const std::shared_ptr<const KernelCode> code_;
  const bool reads_grid_workspace_;
  const GridRunner& runner_;  // of the device, which the module keeps alive
  const DeviceInfo& info_;
};

// Kernels are compiled when they are first asked for; afterwards immutable. Thread-safe.
class CpuModule final : public Module {
 public:
  static Result<std::shared_ptr<CpuModule>> load(std::shared_ptr<CpuDevice> device, const ModuleSource& source);

  Result<const Kernel*> kernel(std::string_view name) const override;
  std::vector<std::string> kernel_names() const override;
  Result<Global> global(std::string_view name) const override;

  // `kernel` as one of this module's; null where it is not.
  const CpuKernel* own(const Kernel& kernel) const;
  const CpuDevice* device() const { return device_.get(); }

 private:
  CpuModule(std::shared_ptr<CpuDevice> device, std::shared_ptr<const ptx::Module> ptx, GlobalStorage globals)
      : device_(std::move(device)), ptx_(std::move(ptx)), globals_(std::move(globals)) {}

  // Members are destroyed from the last to the first: kernels, code, variables, and the device at the very end.
  const std::shared_ptr<CpuDevice> device_;
  const std::shared_ptr<const ptx::Module> ptx_;
  GlobalStorage globals_;
  std::unique_ptr<ModuleCode> code_;
  mutable std::mutex mutex_;  // guards kernels_, and orders compilation
  mutable std::map<std::string, std::unique_ptr<const CpuKernel>, std::less<>> kernels_;
};

}  // namespace pergola::device::cpu
