// The JIT tiers of the CPU device, scalar and vector. `pergola_create_jit_engine` (exports.cc) hands one to the loader.
#pragma once

#include <memory>

#include "src/device/cpu/block.h"
#include "src/device/cpu/jit_loader.h"

namespace pergola::device::cpu::jit {

// kUnavailable where LLVM cannot compile for this host.
Result<std::unique_ptr<Engine>> create_engine(VectorUse vector = VectorUse::kNever);

}  // namespace pergola::device::cpu::jit
