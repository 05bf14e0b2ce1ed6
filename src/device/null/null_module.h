// A module of the null device: signatures of its kernels, storage for its variables, no code.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "src/device/device.h"

namespace pergola::device::null {

class NullKernel final : public Kernel {
 public:
  NullKernel(ptx::KernelSignature signature, const DeviceInfo& info)
      : signature_(std::move(signature)), info_(info) {}
  const ptx::KernelSignature& signature() const override { return signature_; }
  KernelResources resources() const override;
  Result<std::uint32_t> max_resident_blocks_per_sm(std::uint32_t threads,
                                                   std::uint32_t dynamic_shared_bytes) const override;

 private:
  ptx::KernelSignature signature_;
  DeviceInfo info_;
};

class NullModule final : public Module {
 public:
  static Result<std::shared_ptr<NullModule>> create(const ModuleSource& source, const DeviceInfo& info);

  Result<const Kernel*> kernel(std::string_view name) const override;
  std::vector<std::string> kernel_names() const override;
  Result<Global> global(std::string_view name) const override;
  bool owns(const Kernel& kernel) const;

 private:
  std::string name_;
  std::map<std::string, NullKernel, std::less<>> kernels_;
  std::map<std::string, std::vector<std::byte>, std::less<>> globals_;  // zeroed: no kernel sees initial values
};

}  // namespace pergola::device::null
