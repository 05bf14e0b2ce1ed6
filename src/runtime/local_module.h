// A loaded module of the in-process session, and its kernels.
#pragma once

#include "src/runtime/local_session.h"
#include "src/session/kernel_names.h"

namespace pergola::runtime {

// Immutable. kernels[i], infos[i] and names[i] are of the same kernel; where the device refuses it, kernels[i] says why
// and infos[i] is empty. A LocalKernel is of one that is not refused.
class LocalModule final : public session::Module, public std::enable_shared_from_this<LocalModule> {
 public:
  LocalModule(std::shared_ptr<LocalSession> session, device::ModulePtr module, std::string name, std::string ptx,
              std::vector<session::KernelName> names, std::vector<session::KernelInfo> infos,
              std::vector<Result<const device::Kernel*>> kernels);

  const std::vector<std::string>& kernel_names() const override { return ptx_names_; }
  const std::string& ptx() const override { return ptx_; }
  Result<session::KernelPtr> kernel(std::string_view name) override;

 private:
  friend class LocalKernel;

  const std::shared_ptr<LocalSession> session_;
  const device::ModulePtr module_;
  const std::string name_, ptx_;
  const std::vector<session::KernelName> names_;
  const std::vector<session::KernelInfo> infos_;
  const std::vector<Result<const device::Kernel*>> kernels_;  // the kernels are owned by module_
  std::vector<std::string> ptx_names_;
};

class LocalKernel final : public session::Kernel {
 public:
  LocalKernel(std::shared_ptr<const LocalModule> module, std::size_t index)
      : module_(std::move(module)), index_(index) {}

  const session::KernelInfo& info() const override { return module_->infos_[index_]; }
  Result<session::EventPtr> launch(const session::LaunchShape& shape,
                                   std::span<const session::Argument> arguments) override;
  Result<session::EventPtr> launch_nothing(std::span<const session::Argument> arguments) override;

 private:
  const std::shared_ptr<const LocalModule> module_;
  const std::size_t index_;
};

}  // namespace pergola::runtime
