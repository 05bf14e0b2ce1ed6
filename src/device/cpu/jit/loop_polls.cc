#include "src/device/cpu/jit/loop_polls.h"

#include <llvm/Analysis/LoopInfo.h>
#include <llvm/Analysis/ScalarEvolution.h>
#include <llvm/IR/IRBuilder.h>
#include <llvm/IR/Module.h>
#include <llvm/Transforms/Utils/BasicBlockUtils.h>

#include <vector>

#include "src/device/cpu/jit/thread_context.h"

namespace pergola::device::cpu::jit {

void add_loop_polls(llvm::Function& function, llvm::FunctionAnalysisManager& analyses) {
  const llvm::LoopInfo& loops = analyses.getResult<llvm::LoopAnalysis>(function);
  if (loops.empty()) return;
  llvm::ScalarEvolution& counts = analyses.getResult<llvm::ScalarEvolutionAnalysis>(function);
  std::vector<llvm::Instruction*> back_edges;
  for (const llvm::Loop* loop : loops.getLoopsInPreorder()) {
    if (counts.hasLoopInvariantBackedgeTakenCount(loop)) continue;
    llvm::SmallVector<llvm::BasicBlock*, 4> latches;
    loop->getLoopLatches(latches);
    for (llvm::BasicBlock* latch : latches) back_edges.push_back(latch->getTerminator());
  }
  if (back_edges.empty()) return;
  llvm::IRBuilder<> b(&function.getEntryBlock(), function.getEntryBlock().getFirstInsertionPt());
  // "kernel" gets the block itself, device functions get the thread, which knows its block.
  llvm::Value* block = function.getArg(0);
  if (function.getName() != "kernel") {
    block = b.CreateLoad(b.getPtrTy(), b.CreateConstInBoundsGEP1_64(b.getInt8Ty(), block, offsetof(ThreadContext, block)));
  }
  llvm::Value* left = b.CreateConstInBoundsGEP1_64(b.getInt8Ty(), block, offsetof(BlockContext, turns_left));
  auto* type = llvm::FunctionType::get(b.getVoidTy(), {b.getPtrTy()}, false);
  llvm::FunctionCallee poll = function.getParent()->getOrInsertFunction("pergola_jit_poll", type);
  for (llvm::Instruction* back_edge : back_edges) {
    b.SetInsertPoint(back_edge);
    llvm::Value* now = b.CreateSub(b.CreateLoad(b.getInt32Ty(), left), b.getInt32(1));
    b.CreateStore(now, left);
    llvm::Instruction* then = llvm::SplitBlockAndInsertIfThen(b.CreateICmpEQ(now, b.getInt32(0)), back_edge, false);
    b.SetInsertPoint(then);
    b.CreateCall(poll, {block});
  }
}

}  // namespace pergola::device::cpu::jit
