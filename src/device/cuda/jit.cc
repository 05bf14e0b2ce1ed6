#include "src/device/cuda/jit.h"

#include <array>
#include <cstring>

#include "src/base/log.h"
#include "src/device/cuda/exact_rounding.h"
#include "src/device/cuda/field_lengths.h"
#include "src/device/cuda/lop3_operands.h"

namespace pergola::device::cuda {
namespace {

using ErrorLog = std::array<char, 16384>;

// What the driver's compiler is told, whichever call runs it. `log` outlives this.
struct JitOptions {
  JitOptions(ErrorLog& log, unsigned level)
      // The driver takes a number as the pointer's own value.
      : values{log.data(), reinterpret_cast<void*>(log.size() - 1), reinterpret_cast<void*>(std::uintptr_t{level})} {}
  static constexpr unsigned count = 3;
  CUjit_option names[count] = {CU_JIT_ERROR_LOG_BUFFER, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES, CU_JIT_OPTIMIZATION_LEVEL};
  void* values[count];
};

// One linker run, destroyed on every path. The cubin belongs to it.
class Linker {
 public:
  explicit Linker(const Driver& driver) : driver_(driver) { error_log_.fill('\0'); }
  ~Linker() {
    if (state_ != nullptr) driver_.cuLinkDestroy(state_);
  }
  Linker(const Linker&) = delete;
  Linker& operator=(const Linker&) = delete;

  CUresult run(const std::string& ptx, const std::string& name, unsigned level, void** cubin, std::size_t* bytes) {
    JitOptions options(error_log_, level);
    CUresult result = driver_.cuLinkCreate(options.count, options.names, options.values, &state_);
    if (result != CUDA_SUCCESS) return result;
    // With its terminating zero, which the driver's PTX reader wants.
    result = driver_.cuLinkAddData(state_, CU_JIT_INPUT_PTX, const_cast<char*>(ptx.c_str()), ptx.size() + 1,
                                   name.c_str(), 0, nullptr, nullptr);
    if (result != CUDA_SUCCESS) return result;
    return driver_.cuLinkComplete(state_, cubin, bytes);
  }
  std::string_view log() const { return error_log_.data(); }

 private:
  const Driver& driver_;
  CUlinkState state_ = nullptr;
  ErrorLog error_log_;
};

}  // namespace

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

Result<std::string> Jit::compile(const std::string& ptx, std::string_view name) const {
  Linker linker(context_->driver());
  void* cubin = nullptr;
  std::size_t bytes = 0;
  const CUresult result = linker.run(ptx, std::string(name), target_.optimization_level, &cubin, &bytes);
  if (result == CUDA_SUCCESS) return std::string(static_cast<const char*>(cubin), bytes);
  if (is_sticky(result)) return context_->check(result, fmt::format("compiling '{}'", name));
  return compile_failed(result, name, linker.log());
}

Result<CUmodule> Jit::load(std::string_view ptx, std::string_view name) const {
  const Driver& driver = context_->driver();
  // docs/driver-faults.md has what each of them is for.
  const std::string meant = with_distinct_lop3_operands(with_field_lengths_in_range(ptx));
  const std::string text = target_.exact_rounding ? with_exact_rounding(meant) : meant;
  CUmodule module = nullptr;
  if (cache_ == nullptr) {
    ErrorLog log{};
    JitOptions options(log, target_.optimization_level);
    const CUresult result = driver.cuModuleLoadDataEx(&module, text.c_str(), options.count, options.names, options.values);
    if (result == CUDA_SUCCESS) return module;
    if (is_sticky(result)) return context_->check(result, fmt::format("loading '{}'", name));
    return compile_failed(result, name, log.data());
  }
  const CacheKey key = cache_key(
      "cubin", {text, fmt::format("sm_{}{}", target_.compute_major, target_.compute_minor), driver.version_text(),
                fmt::format("cuLink 2, level {}", target_.optimization_level)});
  if (const std::optional<std::string> cubin = cache_->get(key)) {
    const CUresult result = driver.cuModuleLoadData(&module, cubin->data());
    if (result == CUDA_SUCCESS) return module;
    if (is_sticky(result)) return context_->check(result, fmt::format("loading '{}'", name));
    PERGOLA_INFO("The cached cubin of '{}' is refused ({}) and is made anew.", name, driver.describe(result));
  }
  PERGOLA_ASSIGN(const std::string cubin, compile(text, name));
  PERGOLA_TRY(context_->check(driver.cuModuleLoadData(&module, cubin.data()), fmt::format("loading '{}'", name)));
  cache_->put(key, cubin);
  return module;
}

}  // namespace pergola::device::cuda
