// From a thread function to a kernel for groups of lanes: what comes before and around VectorEmitter.
#pragma once

#include <llvm/IR/Module.h>
#include <llvm/Target/TargetMachine.h>

#include "src/device/cpu/jit/kernel_traits.h"
#include "src/device/cpu/jit/vector_shape.h"

namespace pergola::device::cpu::jit {

// `module` holds "thread.NAME" (`name`) and what it calls (ModuleEmitter::emit_thread); afterwards
// "kernel"(BlockContext*, ThreadContext*), which runs one group where groups are fibers, else every group of the block.
// Throws VectorRefusal.
void make_group_kernel(llvm::Module& module, llvm::TargetMachine& machine, const std::string& name,
                       const LaneLayout& layout, GroupWaits waits);

}  // namespace pergola::device::cpu::jit
