#include "src/device/cpu/cpu_module.h"

#include <algorithm>

#include "src/analysis/resources.h"
#include "src/device/cpu/cpu_device.h"
#include "src/device/cpu/spin_loads.h"
#include "src/device/validate.h"
#include "src/ptx/signature.h"

namespace pergola::device::cpu {
namespace {

Status refuse_aliases(const ptx::Module& module) {
  for (const ptx::Item& item : module.items) {
    const auto* verbatim = std::get_if<ptx::Verbatim>(&item.node);
    if (verbatim == nullptr || !verbatim->text.starts_with(".alias")) continue;
    return PERGOLA_ERROR(kUnsupported, "'{}' has '{}': the CPU device resolves no aliases; call the function by its own name.",
                         module.source_name, verbatim->text);
  }
  return {};
}

}  // namespace

KernelResources CpuKernel::resources() const {
  return {.static_shared_bytes = layout_.static_bytes,
          .local_bytes_per_thread = code_->local_bytes_per_thread(),
          .max_threads_per_block = info_.max_threads_per_block};
}

std::uint64_t CpuKernel::shared_bytes(std::uint32_t dynamic_shared_bytes) const {
  if (dynamic_shared_bytes == 0) return layout_.static_bytes;
  return std::uint64_t{layout_.dynamic_offset} + dynamic_shared_bytes;
}

Result<std::uint32_t> CpuKernel::max_resident_blocks_per_sm(std::uint32_t threads,
                                                            std::uint32_t dynamic_shared_bytes) const {
  const std::uint64_t shared = shared_bytes(dynamic_shared_bytes);
  if (threads == 0 || threads > info_.max_threads_per_block || shared > info_.max_shared_bytes_per_block) {
    return PERGOLA_ERROR(kInvalidArgument,
                         "Kernel '{}': no block has {} threads and {} bytes of shared memory; at most {} and {}.",
                         signature_.name, threads, shared, info_.max_threads_per_block,
                         info_.max_shared_bytes_per_block);
  }
  return runner_.resident_blocks_per_sm(threads, static_cast<std::uint32_t>(shared));
}

Result<std::shared_ptr<CpuModule>> CpuModule::load(std::shared_ptr<CpuDevice> device, const ModuleSource& source) {
  if (source.module == nullptr) {
    return PERGOLA_ERROR(kInvalidArgument, "Module '{}' is not parsed; load() takes a parsed module.", source.name);
  }
  PERGOLA_TRY(validate_target(device->info(), *source.module, source.name));
  PERGOLA_TRY(refuse_aliases(*source.module));
  auto ptx = std::make_shared<ptx::Module>(*source.module);
  // A check for races is about the accesses as they are written.
  if (!device->engine().checks_races()) look_again_in_spin_loops(*ptx);
  PERGOLA_ASSIGN(GlobalStorage globals, GlobalStorage::place(*ptx, *device->memory()));
  auto made = std::shared_ptr<CpuModule>(new CpuModule(std::move(device), ptx, std::move(globals)));
  PERGOLA_ASSIGN(made->code_, made->device_->engine().compile(ptx, made->globals_.placements()));
  PERGOLA_TRY(made->globals_.initialize(
      *ptx, [&](std::string_view function) { return made->code_->function_address(function); }));
  return made;
}

Result<const Kernel*> CpuModule::kernel(std::string_view name) const {
  const std::scoped_lock lock(mutex_);
  if (const auto found = kernels_.find(name); found != kernels_.end()) return found->second.get();
  const ptx::Function* entry = ptx_->find_function(name);
  if (entry == nullptr || !entry->is_entry || !entry->has_body) {
    return PERGOLA_ERROR(kNotFound, "No kernel '{}' is in module '{}'; it has: {}.", name, ptx_->source_name,
                         fmt::join(kernel_names(), ", "));
  }
  PERGOLA_ASSIGN(ptx::KernelSignature signature, ptx::signature(*ptx_, *entry));
  PERGOLA_ASSIGN(SharedLayout layout, shared_layout(*ptx_, *entry));
  PERGOLA_ASSIGN(std::shared_ptr<const KernelCode> code, code_->kernel(name));
  PERGOLA_ASSIGN(const analysis::Resources uses, analysis::resources(*ptx_, *entry));
  auto made = std::make_unique<const CpuKernel>(std::move(signature), std::move(layout), std::move(code),
                                                uses.uses_grid_sync, device_->runner(), device_->info());
  return kernels_.emplace(std::string(name), std::move(made)).first->second.get();
}

std::vector<std::string> CpuModule::kernel_names() const {
  std::vector<std::string> names;
  for (const ptx::Function* entry : ptx_->entries()) {
    if (entry->has_body) names.push_back(entry->name);
  }
  return names;
}

Result<Module::Global> CpuModule::global(std::string_view name) const {
  const GlobalPlacement* found = globals_.find(name);
  if (found == nullptr) {
    return PERGOLA_ERROR(kNotFound, "No variable '{}' is in module '{}'.", name, ptx_->source_name);
  }
  return Global{reinterpret_cast<DeviceAddress>(found->address), found->size_bytes};
}

const CpuKernel* CpuModule::own(const Kernel& kernel) const {
  const std::scoped_lock lock(mutex_);
  const auto found = std::find_if(kernels_.begin(), kernels_.end(),
                                  [&](const auto& entry) { return entry.second.get() == &kernel; });
  return found == kernels_.end() ? nullptr : found->second.get();
}

}  // namespace pergola::device::cpu
