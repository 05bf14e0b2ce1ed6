#include "src/device/cuda/jit.h"

#include "src/device/cuda/exact_rounding.h"
#include "src/device/cuda/field_lengths.h"
#include "src/device/cuda/lop3_operands.h"
#include "src/device/cuda/task_spawn.h"

namespace pergola::device::cuda {

LoadedCode::~LoadedCode() {
  if (library_ == nullptr) return;
  context_->free([driver = context_->shared_driver(), library = library_] { driver->cuLibraryUnload(library); });
}

Error Jit::compile_failed(CUresult result, std::string_view name, std::string_view log) const {
  while (!log.empty() && (log.back() == '\n' || log.back() == ' ')) log.remove_suffix(1);
  const Driver& driver = context_->driver();
  if (result == CUDA_ERROR_UNSUPPORTED_PTX_VERSION)
    return PERGOLA_ERROR(kUnsupported,
                         "The PTX of '{}' has a newer .version than the driver ({}) reads; update the driver or "
                         "compile for an older PTX version.{}{}",
                         name, driver.version_text(), log.empty() ? "" : "\n", log);
  return PERGOLA_ERROR(kCompileError, "The driver cannot compile '{}' for sm_{}{}: {}.{}{}", name,
                       target_.compute_major, target_.compute_minor, driver.describe(result), log.empty() ? "" : "\n",
                       log);
}

Result<std::unique_ptr<LoadedCode>> Jit::load(std::string_view ptx, std::string_view name,
                                              const FunctionRef<Status()>* when_compiled) const {
  const Driver& driver = context_->driver();
  // docs/driver-faults.md has what each of them is for.
  const std::string meant = with_distinct_lop3_operands(with_field_lengths_in_range(with_task_spawn(ptx)));
  const std::string text = target_.exact_rounding ? with_exact_rounding(meant) : meant;
  auto loaded = std::make_unique<LoadedCode>(context_);
  CUjit_option options[] = {CU_JIT_ERROR_LOG_BUFFER, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES, CU_JIT_OPTIMIZATION_LEVEL};
  // The driver takes a number as the pointer's own value.
  void* values[] = {loaded->error_log_.data(), reinterpret_cast<void*>(loaded->error_log_.size() - 1),
                    reinterpret_cast<void*>(std::uintptr_t{target_.optimization_level})};
  // Compiled by the first of the two or by the second, as the driver likes; a text that it cannot compile fails in one.
  CUresult result = driver.cuLibraryLoadData(&loaded->library_, text.c_str(), options, values,
                                             static_cast<unsigned>(std::size(options)), nullptr, nullptr, 0);
  if (result == CUDA_SUCCESS && when_compiled != nullptr) PERGOLA_TRY((*when_compiled)());
  if (result == CUDA_SUCCESS) result = driver.cuLibraryGetModule(&loaded->module_, loaded->library_);
  if (result == CUDA_SUCCESS) return loaded;
  if (is_sticky(result)) return context_->check(result, fmt::format("loading '{}'", name));
  return compile_failed(result, name, loaded->error_log_.data());
}

}  // namespace pergola::device::cuda
