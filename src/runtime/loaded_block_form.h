// A loaded kernel in the form whose parameters lie in memory (scheduler/work.h), made of its PTX when a graph wants it.
//
// It is a module of its own, and so has its own instances of variables: a kernel that uses variables which some kernel
// of its module writes has no such form. It holds the device and the PTX but not the session, whose scheduler holds it.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "src/device/device.h"
#include "src/runtime/block_kernel.h"
#include "src/scheduler/work.h"

namespace pergola::runtime {

class LoadedBlockForm final : public scheduler::BlockForm {
 public:
  // `ptx` has been loaded on the device as `source_name`; `written_variable` is one that the kernel uses and some
  // kernel writes, or "".
  LoadedBlockForm(device::DevicePtr device, std::shared_ptr<const std::string> ptx, std::string source_name,
                  std::string kernel, std::string written_variable)
      : device_(std::move(device)),
        ptx_(std::move(ptx)),
        source_name_(std::move(source_name)),
        kernel_(std::move(kernel)),
        written_variable_(std::move(written_variable)),
        block_kernel_(std::make_shared<BlockKernel>(device_, ptx_, source_name_, kernel_, written_variable_)) {}

  // kUnsupported, with file and line where it is the text's; or what the device says.
  Result<Kernel> make() override;
  // The same kernel for chains of launches.
  const std::shared_ptr<BlockKernel>& block_kernel() const { return block_kernel_; }

 private:
  Result<Kernel> compile() const;

  const device::DevicePtr device_;
  const std::shared_ptr<const std::string> ptx_;
  const std::string source_name_, kernel_, written_variable_;
  const std::shared_ptr<BlockKernel> block_kernel_;
  std::optional<Result<Kernel>> made_;
};

}  // namespace pergola::runtime
