#include "src/device/null/null_module.h"

#include <algorithm>

namespace pergola::device::null {

KernelResources NullKernel::resources() const {
  return {.static_shared_bytes = signature_.static_shared_bytes, .max_threads_per_block = info_.max_threads_per_block};
}

Result<std::uint32_t> NullKernel::max_resident_blocks_per_sm(std::uint32_t threads,
                                                             std::uint32_t dynamic_shared_bytes) const {
  const std::uint64_t shared = std::uint64_t{signature_.static_shared_bytes} + dynamic_shared_bytes;
  if (threads == 0 || threads > info_.max_threads_per_block || shared > info_.max_shared_bytes_per_block)
    return PERGOLA_ERROR(kInvalidArgument, "Kernel '{}': no block has {} threads and {} bytes of shared memory.",
                         signature_.name, threads, shared);
  return info_.max_blocks_per_sm;
}

Result<std::shared_ptr<NullModule>> NullModule::create(const ModuleSource& source, const DeviceInfo& info) {
  if (source.module == nullptr)
    return PERGOLA_ERROR(kInvalidArgument, "Module '{}' is not parsed; load() takes a parsed module.", source.name);
  auto made = std::make_shared<NullModule>();
  made->name_ = source.name;
  for (const ptx::Function* entry : source.module->entries()) {
    PERGOLA_ASSIGN(ptx::KernelSignature signature, ptx::signature(*source.module, *entry));
    made->kernels_.try_emplace(entry->name, std::move(signature), info);
  }
  for (const ptx::Item& item : source.module->items) {
    const auto* variable = std::get_if<ptx::Variable>(&item.node);
    if (variable == nullptr) continue;
    if (variable->space == ptx::Space::kGlobal || variable->space == ptx::Space::kConst)
      made->globals_.try_emplace(variable->name, variable->size_bytes());
  }
  return made;
}

Result<const Kernel*> NullModule::kernel(std::string_view name) const {
  if (const auto found = kernels_.find(name); found != kernels_.end()) return &found->second;
  return PERGOLA_ERROR(kNotFound, "No kernel '{}' is in module '{}'; it has: {}.", name, name_,
                       fmt::join(kernel_names(), ", "));
}

std::vector<std::string> NullModule::kernel_names() const {
  std::vector<std::string> names;
  for (const auto& entry : kernels_) names.push_back(entry.first);
  return names;
}

Result<Module::Global> NullModule::global(std::string_view name) const {
  const auto found = globals_.find(name);
  if (found == globals_.end())
    return PERGOLA_ERROR(kNotFound, "No variable '{}' is in module '{}'.", name, name_);
  return Global{reinterpret_cast<DeviceAddress>(found->second.data()), found->second.size()};
}

bool NullModule::owns(const Kernel& kernel) const {
  return std::any_of(kernels_.begin(), kernels_.end(), [&](const auto& entry) { return &entry.second == &kernel; });
}

}  // namespace pergola::device::null
