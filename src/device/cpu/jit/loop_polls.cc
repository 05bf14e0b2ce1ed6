#include "src/device/cpu/jit/loop_polls.h"

#include <llvm/Analysis/LoopInfo.h>
#include <llvm/Analysis/ScalarEvolution.h>
#include <llvm/IR/Dominators.h>
#include <llvm/IR/IRBuilder.h>
#include <llvm/IR/Module.h>
#include <llvm/Transforms/Utils/BasicBlockUtils.h>

#include <algorithm>
#include <vector>

#include "src/device/cpu/jit/thread_context.h"
#include "src/device/cpu/jit/vector_resume.h"

namespace pergola::device::cpu::jit {
namespace {

constexpr const char* kShort = "pergola.short";

// Does a test that every turn comes by end the loop after so many turns? Other exits, such as faults, only end it
// sooner.
bool ends(const llvm::Loop& loop, llvm::ScalarEvolution& counts, const llvm::DominatorTree& dominators) {
  if (llvm::getBooleanLoopAttribute(&loop, kShort)) return true;
  const llvm::BasicBlock* latch = loop.getLoopLatch();
  if (latch == nullptr) return false;
  llvm::SmallVector<llvm::BasicBlock*, 8> exiting;
  loop.getExitingBlocks(exiting);
  return std::any_of(exiting.begin(), exiting.end(), [&](llvm::BasicBlock* block) {
    return dominators.dominates(block, latch) &&
           !llvm::isa<llvm::SCEVCouldNotCompute>(counts.getExitCount(&loop, block));
  });
}

}  // namespace

void mark_short_loop(llvm::BranchInst& back_edge) {
  llvm::LLVMContext& context = back_edge.getContext();
  llvm::MDNode* option = llvm::MDNode::get(context, llvm::MDString::get(context, kShort));
  llvm::MDNode* id = llvm::MDNode::getDistinct(context, {nullptr, option});
  id->replaceOperandWith(0, id);  // a loop's name is a node that refers to itself
  back_edge.setMetadata(llvm::LLVMContext::MD_loop, id);
}

void add_loop_polls(llvm::Function& function, llvm::FunctionAnalysisManager& analyses) {
  const llvm::LoopInfo& loops = analyses.getResult<llvm::LoopAnalysis>(function);
  if (loops.empty()) return;
  llvm::ScalarEvolution& counts = analyses.getResult<llvm::ScalarEvolutionAnalysis>(function);
  const llvm::DominatorTree& dominators = analyses.getResult<llvm::DominatorTreeAnalysis>(function);
  std::vector<llvm::Instruction*> back_edges;
  for (const llvm::Loop* loop : loops.getLoopsInPreorder()) {
    if (ends(*loop, counts, dominators)) continue;
    llvm::SmallVector<llvm::BasicBlock*, 4> latches;
    loop->getLoopLatches(latches);
    for (llvm::BasicBlock* latch : latches) back_edges.push_back(latch->getTerminator());
  }
  if (back_edges.empty()) return;
  llvm::IRBuilder<> b(&function.getEntryBlock(), function.getEntryBlock().getFirstInsertionPt());
  // "kernel" gets the block itself, others the thread, which knows its block, or keep it in their frame.
  llvm::Value* block = function.getArg(0);
  if (llvm::Value* thread = thread_of_resumed(function, b)) block = thread;
  if (function.getName() != "kernel") {
    block =
        b.CreateLoad(b.getPtrTy(), b.CreateConstInBoundsGEP1_64(b.getInt8Ty(), block, offsetof(ThreadContext, block)));
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
