// LLVM 19's x86 back end takes `select(lanes, (a & C) | (b & ~C), a)`, with AVX-512, for one VPTERNLOG with C in memory,
// but swaps two of its truth tables: lanes get other bits (LLVM's issue 157929). PTX's `bfi` in a branch is such a
// select. So what merges bits by a constant is hidden from selects behind it, by a fence that makes no code.
// It runs after all optimisation.
#pragma once

#include <llvm/IR/Function.h>

namespace pergola::device::cpu::jit {

void fence_bit_merges(llvm::Function& function);

}  // namespace pergola::device::cpu::jit
