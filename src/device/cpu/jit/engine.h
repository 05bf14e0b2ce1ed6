// The scalar JIT tier of the CPU device. `pergola_create_jit_engine` (exports.cc) hands one to the loader.
#pragma once

#include <memory>

#include "src/device/cpu/block.h"

namespace pergola::device::cpu::jit {

// kUnavailable where LLVM cannot compile for this host.
Result<std::unique_ptr<Engine>> create_engine();

}  // namespace pergola::device::cpu::jit
