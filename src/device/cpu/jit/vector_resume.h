// Groups that wait at barriers without a stack of their own.
//
//   group(thread, lanes, block, frame) runs from the start to the first barrier, and leaves in `frame` what it needs
//   later frame: [resume function, null at the end][...][thread][...] resume(frame)                      runs to the
//   next barrier
//
// Where every barrier of a kernel is one that all threads of the block come to, groups need no record of who has
// arrived: each is run to its next barrier, in turn, and when the last is there, all are. So a barrier costs a call
// through the frame instead of a change of stacks, and the values that a group keeps over barriers lie close together.
// LLVM's coroutine passes do the work.
#pragma once

#include <llvm/IR/Function.h>
#include <llvm/IR/IRBuilder.h>
#include <llvm/IR/Module.h>
#include <llvm/Passes/PassBuilder.h>

#include <cstdint>

namespace pergola::device::cpu::jit {

// What VectorEmitter calls where a group waits.
inline constexpr const char* kGroupWaits = "pergola_jit_group_waits";

struct GroupFrame {
  std::uint64_t bytes = 0, align = 1;  // a multiple of the alignment; a power of two
};

// `group` is void(ptr thread, i32 lanes, ptr block, ptr frame), as VectorEmitter made it. Afterwards it is as above. `modules` are
// analyses of its module, with nothing kept.
GroupFrame make_resumable(llvm::Function& group, llvm::ModuleAnalysisManager& modules);

// In another function: runs a group of `frame` on to its next barrier; whether it has returned.
void emit_resume(llvm::IRBuilder<>& b, llvm::Value* frame);
llvm::Value* emit_returned(llvm::IRBuilder<>& b, llvm::Value* frame);

// The thread's context in the first lines of a resume function, null where `function` is none.
llvm::Value* thread_of_resumed(llvm::Function& function, llvm::IRBuilder<>& b);

}  // namespace pergola::device::cpu::jit
