#include "src/device/cuda/cuda_module.h"

#include "src/device/validate.h"

namespace pergola::device::cuda {
Result<CudaKernel> CudaKernel::create(ContextPtr context, CUmodule module, ptx::KernelSignature signature,
                                      const DeviceInfo& info, std::uint32_t shared_memory_percent) {
  const Driver& driver = context->driver();
  CudaKernel made;
  PERGOLA_TRY(context->check(driver.cuModuleGetFunction(&made.function_, module, signature.name.c_str()),
                             fmt::format("finding kernel '{}'", signature.name)));
  const std::string doing = fmt::format("loading kernel '{}'", signature.name);
  if (driver.cuFuncLoad != nullptr) PERGOLA_TRY(context->check(driver.cuFuncLoad(made.function_), doing));
  int registers = 0, shared = 0, local = 0, threads = 0;
  const auto get = [&](int* value, CUfunction_attribute which) {
    return context->check(driver.cuFuncGetAttribute(value, which, made.function_), doing);
  };
  PERGOLA_TRY(get(&registers, CU_FUNC_ATTRIBUTE_NUM_REGS));
  PERGOLA_TRY(get(&shared, CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES));
  PERGOLA_TRY(get(&local, CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES));
  PERGOLA_TRY(get(&threads, CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK));
  const int dynamic = static_cast<int>(info.max_shared_bytes_per_block) - shared;
  if (dynamic > 0)
    PERGOLA_TRY(context->check(
        driver.cuFuncSetAttribute(made.function_, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, dynamic), doing));
  if (shared_memory_percent != 0)
    PERGOLA_TRY(
        context->check(driver.cuFuncSetAttribute(made.function_, CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT,
                                                 static_cast<int>(shared_memory_percent)),
                       doing));
  made.resources_ = {.registers_per_thread = static_cast<std::uint32_t>(registers),
                     .static_shared_bytes = static_cast<std::uint32_t>(shared),
                     .local_bytes_per_thread = static_cast<std::uint32_t>(local),
                     .max_threads_per_block = static_cast<std::uint32_t>(threads)};
  made.context_ = std::move(context);
  made.signature_ = std::move(signature);
  return made;
}

Result<std::uint32_t> CudaKernel::max_resident_blocks_per_sm(std::uint32_t threads,
                                                             std::uint32_t dynamic_shared_bytes) const {
  PERGOLA_TRY(context_->enter());
  int blocks = 0;
  PERGOLA_TRY(context_->check(context_->driver().cuOccupancyMaxActiveBlocksPerMultiprocessor(
                                  &blocks, function_, static_cast<int>(threads), dynamic_shared_bytes),
                              fmt::format("asking for the occupancy of '{}'", signature_.name)));
  return static_cast<std::uint32_t>(blocks);
}

Result<std::shared_ptr<CudaModule>> CudaModule::create(const ContextPtr& context, const Jit& jit,
                                                       const ModuleSource& source, const DeviceInfo& info) {
  if (source.module == nullptr)
    return PERGOLA_ERROR(kInvalidArgument, "Module '{}' is not parsed; load() takes a parsed module.", source.name);
  PERGOLA_TRY(validate_target(info, *source.module, source.name));
  PERGOLA_TRY(context->enter());
  PERGOLA_ASSIGN(std::unique_ptr<LoadedCode> code, jit.load(source.text, source.name, source.when_compiled));
  if (source.module->find_function("vprintf") != nullptr) context->note_prints();
  std::shared_ptr<CudaModule> made(new CudaModule(context, std::move(code), source.name));
  for (const ptx::Function* entry : source.module->entries()) {
    if (!entry->has_body) continue;
    PERGOLA_ASSIGN(ptx::KernelSignature signature, ptx::signature(*source.module, *entry));
    PERGOLA_ASSIGN(CudaKernel kernel, CudaKernel::create(context, made->code_->module(), std::move(signature), info,
                                                         source.shared_memory_percent));
    made->kernels_.emplace(entry->name, std::move(kernel));
  }
  return made;
}

Result<const Kernel*> CudaModule::kernel(std::string_view name) const {
  if (const auto found = kernels_.find(name); found != kernels_.end()) return &found->second;
  return PERGOLA_ERROR(kNotFound, "No kernel '{}' is in module '{}'; it has: {}.", name, name_,
                       fmt::join(kernel_names(), ", "));
}

std::vector<std::string> CudaModule::kernel_names() const {
  std::vector<std::string> names;
  for (const auto& entry : kernels_) names.push_back(entry.first);
  return names;
}

Result<Module::Global> CudaModule::global(std::string_view name) const {
  PERGOLA_TRY(context_->enter());
  Global found;
  CUdeviceptr address = 0;
  const CUresult result =
      context_->driver().cuModuleGetGlobal(&address, &found.size_bytes, code_->module(), std::string(name).c_str());
  if (result == CUDA_ERROR_NOT_FOUND)
    return PERGOLA_ERROR(kNotFound, "No variable '{}' is in module '{}'.", name, name_);
  PERGOLA_TRY(context_->check(result, fmt::format("finding variable '{}'", name)));
  found.address = address;
  return found;
}

const CudaKernel* CudaModule::own(const Kernel* kernel) const {
  const auto* mine = dynamic_cast<const CudaKernel*>(kernel);
  if (mine == nullptr) return nullptr;
  const auto found = kernels_.find(mine->signature().name);
  return found != kernels_.end() && &found->second == mine ? mine : nullptr;
}

}  // namespace pergola::device::cuda
