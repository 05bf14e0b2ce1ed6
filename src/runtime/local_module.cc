#include "src/runtime/local_module.h"

#include "src/runtime/local_array.h"
#include "src/session/arguments.h"

namespace pergola::runtime {

LocalModule::LocalModule(std::shared_ptr<LocalSession> session, device::ModulePtr module, std::string name,
                         std::string ptx, std::vector<session::KernelName> names,
                         std::vector<session::KernelInfo> infos, std::vector<Result<const device::Kernel*>> kernels)
    : session_(std::move(session)),
      module_(std::move(module)),
      name_(std::move(name)),
      ptx_(std::move(ptx)),
      names_(std::move(names)),
      infos_(std::move(infos)),
      kernels_(std::move(kernels)) {
  for (const session::KernelName& kernel : names_) ptx_names_.push_back(kernel.ptx);
}

Result<session::KernelPtr> LocalModule::kernel(std::string_view name) {
  PERGOLA_ASSIGN(const std::size_t index, session::find_kernel(names_, name, name_));
  if (!kernels_[index])
    return PERGOLA_ERROR(kUnsupported, "{} Kernel '{}' is refused therefore; others of '{}' can be used.",
                         kernels_[index].message(), ptx_names_[index], name_);
  return session::KernelPtr(std::make_shared<LocalKernel>(shared_from_this(), index));
}

Result<session::EventPtr> LocalKernel::launch(const session::LaunchShape& shape,
                                              std::span<const session::Argument> arguments) {
  LocalSession& session = *module_->session_;
  PERGOLA_ASSIGN(session::BoundArguments bound, session::bind_arguments(info(), session.id(), arguments));
  std::vector<device::BufferPtr> buffers;
  buffers.reserve(bound.arrays.size());
  // bind_arguments() has seen that they are of this session, whose arrays are all LocalArrays.
  for (const session::ArrayPtr& array : bound.arrays) buffers.push_back(static_cast<LocalArray&>(*array).buffer());
  return session.launch(module_->module_, **module_->kernels_[index_], shape, bound.parameters, std::move(buffers));
}

Result<session::EventPtr> LocalKernel::launch_nothing(std::span<const session::Argument> arguments) {
  PERGOLA_TRY(session::bind_arguments(info(), module_->session_->id(), arguments).status());
  return module_->session_->record();
}

}  // namespace pergola::runtime
