// A launch must be able to end although its kernel does not: a timeout, a fault in another block, the process's end.
//
// Loops whose number of turns LLVM cannot bound by 2^32 before they run, and loops around loops, count down
// BlockContext::turns_left at their back edges; at zero the run time lets the runner look (BlockRun::poll). Innermost
// counted loops pay nothing. It runs after all optimisation, so it hinders none.
#pragma once

#include <llvm/IR/Function.h>
#include <llvm/IR/Instructions.h>
#include <llvm/IR/PassManager.h>

namespace pergola::device::cpu::jit {

// Says of the loop that this branch turns that it ends after a few turns, where LLVM cannot know.
void mark_short_loop(llvm::BranchInst& back_edge);

void add_loop_polls(llvm::Function& function, llvm::FunctionAnalysisManager& analyses);

}  // namespace pergola::device::cpu::jit
