// From PTX to callable host code: LLVM's side of the engine, behind one class so that no header of ours brings in LLVM.
#pragma once

#include <memory>
#include <span>

#include "src/base/result.h"
#include "src/device/cpu/block.h"
#include "src/device/cpu/jit/kernel_traits.h"
#include "src/device/cpu/jit/lane_layout.h"
#include "src/device/cpu/jit/thread_context.h"
#include "src/device/cpu/place.h"

namespace pergola::device::cpu::jit {

// Host code of one llvm::Module; destroying it frees the code. Nothing may run in it then.
class CompiledUnit {
 public:
  virtual ~CompiledUnit() = default;
  virtual Result<void*> symbol(const std::string& name) const = 0;
  // The PTX instruction whose code, here or in the functions that this refers to, holds `address`; line 0 where that is
  // not known. Reads line tables, so it is for messages alone. Thread-safe.
  virtual PtxPlace place_of(std::uintptr_t address) const = 0;
};

// One LLJIT, and a cache of objects on disk in front of LLVM's passes. Thread-safe.
class Compiler {
 public:
  static Result<std::shared_ptr<Compiler>> create();
  virtual ~Compiler() = default;

  struct Source {
    const ptx::Module& module;
    std::string_view module_text;  // with its lines: what the object cache goes by
    std::span<const GlobalPlacement> globals;
    const KernelTraits& traits;
    const std::vector<std::string>& address_taken;
    const SharedLayout& shared;
  };
  // "kernel" of `entry`; `functions` (may be null) holds what address-taken functions it refers to, and must outlive it.
  virtual Result<std::shared_ptr<CompiledUnit>> compile_kernel(const Source& source, const ptx::Function& entry,
                                                               const std::shared_ptr<CompiledUnit>& functions) = 0;
  // What compile_kernel() would refuse, without compiling.
  virtual Status check_kernel(const Source& source, const ptx::Function& entry) = 0;
  // The same for groups of lanes (vector_emitter.h): "kernel" runs one group where the traits ask for fibers, else all
  // groups of a block. kUnsupported where the vector tier cannot run it.
  virtual Result<std::shared_ptr<CompiledUnit>> compile_group_kernel(const Source& source, const ptx::Function& entry,
                                                                     const std::shared_ptr<CompiledUnit>& functions,
                                                                     const LaneLayout& layout) = 0;
  // Every address-taken function of the module, as "func.NAME".
  virtual Result<std::shared_ptr<CompiledUnit>> compile_functions(const Source& source) = 0;
};

// What emitted code calls a module-scope variable.
std::string variable_symbol(const std::string& name);

}  // namespace pergola::device::cpu::jit
