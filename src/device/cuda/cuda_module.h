// A loaded module: the driver's handles of its kernels, with the signatures read off its PTX.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "src/device/cuda/context.h"
#include "src/device/cuda/jit.h"
#include "src/device/device.h"

namespace pergola::device::cuda {

class CudaKernel final : public Kernel {
 public:
  // Loads the code now and not at the first launch, and allows all the dynamic shared memory that the GPU has.
  static Result<CudaKernel> create(ContextPtr context, CUmodule module, ptx::KernelSignature signature,
                                   const DeviceInfo& info, std::uint32_t shared_memory_percent);

  const ptx::KernelSignature& signature() const override { return signature_; }
  KernelResources resources() const override { return resources_; }
  Result<std::uint32_t> max_resident_blocks_per_sm(std::uint32_t threads,
                                                   std::uint32_t dynamic_shared_bytes) const override;
  CUfunction function() const { return function_; }

 private:
  ContextPtr context_;
  CUfunction function_ = nullptr;
  ptx::KernelSignature signature_;
  KernelResources resources_;
};

class CudaModule final : public Module {
 public:
  static Result<std::shared_ptr<CudaModule>> create(const ContextPtr& context, const Jit& jit,
                                                    const ModuleSource& source, const DeviceInfo& info);
  CudaModule(const CudaModule&) = delete;
  CudaModule& operator=(const CudaModule&) = delete;

  Result<const Kernel*> kernel(std::string_view name) const override;
  std::vector<std::string> kernel_names() const override;
  Result<Global> global(std::string_view name) const override;

  // The kernel as one of this module; null where it is none.
  const CudaKernel* own(const Kernel* kernel) const;
  const Context* context() const { return context_.get(); }

 private:
  CudaModule(ContextPtr context, std::unique_ptr<const LoadedCode> code, std::string_view name)
      : context_(std::move(context)), code_(std::move(code)), name_(name) {}

  const ContextPtr context_;
  const std::unique_ptr<const LoadedCode> code_;
  const std::string name_;
  std::map<std::string, CudaKernel, std::less<>> kernels_;
};

}  // namespace pergola::device::cuda
