// PTX -> loaded code, by the driver's compiler, which keeps what it has compiled on disk (~/.nv/ComputeCache).
//
//   PTX ── mended, exact rounding ──▶ library ──▶ module of the context
//
// Of the driver's three ways to compile PTX this one alone is taken (measured, CUDA 13.0, docs/decisions/0017):
//   cuLibraryLoadData    a program as a whole; launches of other threads go on meanwhile, kernels stay resident
//   cuModuleLoadDataEx   the same code, but launches wait until it has ended: 70 to 120 ms
//   cuLinkAddData        gives a cubin, but compiles for a linker: a division is a call, registers are lost at it
// Thread-safe.
#pragma once

#include <array>
#include <memory>
#include <string>
#include <string_view>

#include "src/base/function_ref.h"
#include "src/device/cuda/context.h"

namespace pergola::device::cuda {

struct JitTarget {
  std::uint32_t compute_major = 0, compute_minor = 0;
  bool exact_rounding = true;       // exact_rounding.h
  unsigned optimization_level = 4;  // of the driver's compiler, 0 to 4
};

// Unloading waits for all kernels that are resident on the GPU, as loading does.
class LoadedCode {
 public:
  explicit LoadedCode(ContextPtr context) : context_(std::move(context)) {}
  ~LoadedCode();
  LoadedCode(const LoadedCode&) = delete;
  LoadedCode& operator=(const LoadedCode&) = delete;
  CUmodule module() const { return module_; }

 private:
  friend class Jit;
  const ContextPtr context_;
  CUlibrary library_ = nullptr;
  CUmodule module_ = nullptr;            // the library's, in the context
  std::array<char, 16384> error_log_{};  // the driver may write to it for as long as there is the library
};

class Jit {
 public:
  Jit(ContextPtr context, JitTarget target) : context_(std::move(context)), target_(target) {}

  // The context must be current. kCompileError has the compiler's log, with `name` in place of a file.
  // `when_compiled`: ModuleSource's.
  Result<std::unique_ptr<LoadedCode>> load(std::string_view ptx, std::string_view name,
                                           const FunctionRef<Status()>* when_compiled = nullptr) const;

 private:
  Error compile_failed(CUresult result, std::string_view name, std::string_view log) const;

  const ContextPtr context_;
  const JitTarget target_;
};

}  // namespace pergola::device::cuda
