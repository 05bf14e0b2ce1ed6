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

constexpr unsigned kMostTurnBits = 32;
constexpr std::uint32_t kOuterTurn = 64;  // what a turn of a loop around others counts for

// Does a test that every turn comes by end the loop after so many turns, some seconds' worth at most? Other exits, such
// as faults, only end it sooner. Of loops in loops the outer ones may take for ever although each is counted.
bool ends(const llvm::Loop& loop, llvm::ScalarEvolution& counts, const llvm::DominatorTree& dominators) {
  if (llvm::getBooleanLoopAttribute(&loop, kShort)) return true;
  if (!loop.isInnermost()) return false;
  const llvm::BasicBlock* latch = loop.getLoopLatch();
  if (latch == nullptr) return false;
  llvm::SmallVector<llvm::BasicBlock*, 8> exiting;
  loop.getExitingBlocks(exiting);
  return std::any_of(exiting.begin(), exiting.end(), [&](llvm::BasicBlock* block) {
    if (!dominators.dominates(block, latch)) return false;
    const llvm::SCEV* turns = counts.getExitCount(&loop, block);
    return !llvm::isa<llvm::SCEVCouldNotCompute>(turns) &&
           counts.getUnsignedRangeMax(turns).getActiveBits() <= kMostTurnBits;
  });
}

// Where a kernel stands whose time is over in this loop: where the loop turns, or where that has no place, as two
// branches became one, the first of the loop that has.
llvm::DebugLoc place_of_turn(const llvm::Loop& loop, const llvm::Instruction& back_edge) {
  const auto has_line = [](const llvm::DebugLoc& place) { return place && place.getLine() != 0; };
  if (has_line(back_edge.getDebugLoc())) return back_edge.getDebugLoc();
  for (const llvm::BasicBlock* block : loop.blocks()) {
    for (const llvm::Instruction& in : *block) {
      if (has_line(in.getDebugLoc())) return in.getDebugLoc();
    }
  }
  return back_edge.getDebugLoc();
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
  struct Turn {
    llvm::Instruction* back_edge;
    std::uint32_t weight;
    llvm::DebugLoc place;
  };
  std::vector<Turn> turns;
  for (const llvm::Loop* loop : loops.getLoopsInPreorder()) {
    if (ends(*loop, counts, dominators)) continue;
    llvm::SmallVector<llvm::BasicBlock*, 4> latches;
    loop->getLoopLatches(latches);
    for (llvm::BasicBlock* latch : latches) {
      llvm::Instruction* back_edge = latch->getTerminator();
      turns.push_back({back_edge, loop->isInnermost() ? 1 : kOuterTurn, place_of_turn(*loop, *back_edge)});
    }
  }
  if (turns.empty()) return;
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
  for (const auto& [back_edge, weight, place] : turns) {
    b.SetInsertPoint(back_edge);
    llvm::Value* now = b.CreateSub(b.CreateLoad(b.getInt32Ty(), left), b.getInt32(weight));
    b.CreateStore(now, left);
    llvm::Instruction* then = llvm::SplitBlockAndInsertIfThen(b.CreateICmpSLE(now, b.getInt32(0)), back_edge, false);
    b.SetInsertPoint(then);
    b.CreateCall(poll, {block})->setDebugLoc(place);
  }
}

}  // namespace pergola::device::cpu::jit
