// The LLVM tier is a shared library of its own, libpergola_cpu_jit.so, so that Pergola starts where LLVM is not.
//
// It exports two C functions:
//   int pergola_cpu_jit_abi()                                      kJitAbiVersion of the build it comes from
//   pergola::device::cpu::Engine* pergola_create_jit_engine(int)   a new engine for a VectorUse, owned by the caller; null: no JIT here
// The version covers block.h and all it includes: both sides come from one build, or the library is refused.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "src/base/result.h"
#include "src/device/cpu/block.h"

namespace pergola::device::cpu {

// Moves with every change of block.h or of what it includes.
inline constexpr int kJitAbiVersion = 4;

// Which kernels the JIT runs in groups of lanes, as vector code (the vector tier); the others run a thread at a time.
enum class VectorUse : std::uint8_t {
  kNever,
  kWhereItCan,  // what the vector tier refuses by name runs a thread at a time, and the log (info) says why
  kAlways,      // what it refuses is refused
};

// Where the library is looked for: $PERGOLA_CPU_JIT alone where it is set; else beside the file that this code is in,
// in ../lib from there, and where the dynamic linker looks.
std::vector<std::string> jit_library_candidates();

// Opens the library, never closes it, and makes its engine. kUnavailable says what was tried and why each failed.
// Thread-safe.
Result<std::shared_ptr<Engine>> load_jit_engine(VectorUse vector = VectorUse::kNever);

}  // namespace pergola::device::cpu
