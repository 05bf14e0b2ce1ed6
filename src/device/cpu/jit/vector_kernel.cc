#include "src/device/cpu/jit/vector_kernel.h"

#include <llvm/Analysis/TargetTransformInfo.h>
#include <llvm/IR/IntrinsicInst.h>
#include <llvm/Passes/PassBuilder.h>
#include <llvm/Transforms/IPO/AlwaysInliner.h>
#include <llvm/Transforms/InstCombine/InstCombine.h>
#include <llvm/Transforms/Scalar/EarlyCSE.h>
#include <llvm/Transforms/Scalar/SROA.h>
#include <llvm/Transforms/Scalar/SimplifyCFG.h>
#include <llvm/Transforms/Utils/BasicBlockUtils.h>
#include <llvm/Transforms/Utils/LCSSA.h>
#include <llvm/Transforms/Utils/LoopSimplify.h>
#include <llvm/Transforms/Utils/LowerSwitch.h>

#include "src/device/cpu/jit/emitter.h"
#include "src/device/cpu/jit/thread_context.h"
#include "src/device/cpu/jit/vector_emitter.h"
#include "src/device/cpu/jit/vector_refusal.h"

namespace pergola::device::cpu::jit {
namespace {

using Value = llvm::Value*;

// `exit` inside an inlined function ends the thread: it is a return of the thread function.
void exits_return(llvm::Function& thread) {
  std::vector<llvm::CallInst*> exits;
  for (llvm::BasicBlock& block : thread) {
    for (llvm::Instruction& in : block) {
      auto* call = llvm::dyn_cast<llvm::CallInst>(&in);
      if (call != nullptr && call->getCalledFunction() != nullptr && call->getCalledFunction()->getName() == "pergola_jit_exit") {
        exits.push_back(call);
      }
    }
  }
  for (llvm::CallInst* call : exits) {
    llvm::BasicBlock* block = call->getParent();
    block->splitBasicBlock(call, "after_exit");  // what follows is unreachable
    block->getTerminator()->eraseFromParent();
    llvm::ReturnInst::Create(thread.getContext(), block);
  }
}

void unify_returns(llvm::Function& thread) {
  std::vector<llvm::BasicBlock*> returning;
  for (llvm::BasicBlock& block : thread) {
    if (llvm::isa<llvm::ReturnInst>(block.getTerminator())) returning.push_back(&block);
  }
  auto* end = llvm::BasicBlock::Create(thread.getContext(), "end", &thread);
  llvm::ReturnInst::Create(thread.getContext(), end);
  for (llvm::BasicBlock* block : returning) {
    block->getTerminator()->eraseFromParent();
    llvm::BranchInst::Create(end, block);
  }
}

// Sums and differences with their carry become plain arithmetic, before LLVM passes the pairs about.
void lower_carries(llvm::Function& thread) {
  std::vector<llvm::WithOverflowInst*> carries;
  for (llvm::BasicBlock& block : thread) {
    for (llvm::Instruction& in : block) {
      auto* carry = llvm::dyn_cast<llvm::WithOverflowInst>(&in);
      if (carry != nullptr && !carry->isSigned() && carry->getBinaryOp() != llvm::Instruction::Mul) carries.push_back(carry);
    }
  }
  for (llvm::WithOverflowInst* carry : carries) {
    llvm::IRBuilder<> b(carry);
    Value a = carry->getLHS(), c = carry->getRHS();
    Value v = b.CreateBinOp(carry->getBinaryOp(), a, c);
    Value out = carry->getBinaryOp() == llvm::Instruction::Add ? b.CreateICmpULT(v, a) : b.CreateICmpULT(a, c);
    Value pair = b.CreateInsertValue(llvm::PoisonValue::get(carry->getType()), v, 0);
    carry->replaceAllUsesWith(b.CreateInsertValue(pair, out, 1));
    carry->eraseFromParent();
  }
}

// Pairs (a compare-and-swap's answer) are taken apart where they are made: VectorEmitter keeps no
// aggregates.
void take_pairs_apart(llvm::Function& thread) {
  std::vector<llvm::Instruction*> pairs;
  for (llvm::BasicBlock& block : thread) {
    for (llvm::Instruction& in : block) {
      if (in.getType()->isStructTy()) pairs.push_back(&in);
    }
  }
  for (llvm::Instruction* pair : pairs) {
    std::vector<llvm::ExtractValueInst*> users;
    for (llvm::User* user : pair->users()) {
      auto* part = llvm::dyn_cast<llvm::ExtractValueInst>(user);
      if (part == nullptr || part->getNumIndices() != 1) refuse_vector("it passes an aggregate about");
      users.push_back(part);
    }
    llvm::Value* parts[2] = {};
    llvm::IRBuilder<> b(pair->getNextNode());
    for (const llvm::ExtractValueInst* user : users) {
      Value& part = parts[*user->idx_begin()];
      if (part == nullptr) part = b.CreateExtractValue(pair, user->getIndices());
    }
    for (llvm::ExtractValueInst* user : users) {
      user->replaceAllUsesWith(parts[*user->idx_begin()]);
      user->eraseFromParent();
    }
  }
}

// "kernel": the contexts of groups and the walk over them.
class KernelLoop {
 public:
  KernelLoop(llvm::Module& module, llvm::Function& group, const LaneLayout& layout)
      : group_(group), layout_(layout), b_(module.getContext()) {
    auto* pointer = b_.getPtrTy();
    kernel_ = llvm::Function::Create(llvm::FunctionType::get(b_.getVoidTy(), {pointer, pointer}, false),
                                     llvm::GlobalValue::ExternalLinkage, "kernel", module);
    kernel_->addFnAttr(llvm::Attribute::NoUnwind);
    b_.SetInsertPoint(block("entry"));
    context_ = kernel_->getArg(0);
    for (unsigned d = 0; d < 3; ++d) extent_[d] = b_.CreateLoad(b_.getInt32Ty(), at(context_, offsetof(BlockContext, ntid) + 4 * d));
    threads_ = b_.CreateMul(b_.CreateMul(extent_[0], extent_[1]), extent_[2]);
  }

  void one_group() {
    Value thread = kernel_->getArg(1);
    run(thread, b_.CreateLoad(b_.getInt32Ty(), at(thread, offsetof(ThreadContext, linear))));
    b_.CreateRetVoid();
  }

  void all_groups() {
    auto* thread = b_.CreateAlloca(llvm::ArrayType::get(b_.getInt8Ty(), sizeof(ThreadContext)), nullptr, "thread");
    thread->setAlignment(llvm::Align(alignof(ThreadContext)));
    Value from = kernel_->getArg(1);
    b_.CreateStore(context_, at(thread, offsetof(ThreadContext, block)));
    copy(from, thread, offsetof(ThreadContext, local_base), b_.getInt64Ty());
    copy(from, thread, offsetof(ThreadContext, local_bytes), b_.getInt32Ty());
    if (layout_.kind == LaneLayout::Kind::kRows) {
      loop(extent_[2], 1, [&](Value z) {
        loop(extent_[1], 1, [&](Value y) {
          Value row = b_.CreateMul(b_.CreateAdd(b_.CreateMul(z, extent_[1]), y), extent_[0]);
          loop(extent_[0], layout_.lanes, [&](Value x) { place(thread, x, y, z, b_.CreateAdd(row, x)); });
        });
      });
    } else {
      loop(threads_, layout_.lanes, [&](Value linear) {
        if (layout_.kind == LaneLayout::Kind::kLine) return place(thread, linear, b_.getInt32(0), b_.getInt32(0), linear);
        Value rows = b_.CreateUDiv(linear, extent_[0]);
        place(thread, b_.CreateURem(linear, extent_[0]), b_.CreateURem(rows, extent_[1]), b_.CreateUDiv(rows, extent_[1]), linear);
      });
    }
    b_.CreateRetVoid();
  }

 private:
  llvm::BasicBlock* block(const char* name) { return llvm::BasicBlock::Create(b_.getContext(), name, kernel_); }
  Value at(Value base, std::size_t offset) { return b_.CreateConstInBoundsGEP1_64(b_.getInt8Ty(), base, offset); }
  void copy(Value from, Value to, std::size_t offset, llvm::Type* type) {
    b_.CreateStore(b_.CreateLoad(type, at(from, offset)), at(to, offset));
  }
  // A block has at least one thread in each dimension.
  template <typename Body>
  void loop(Value end, unsigned step, Body body) {
    llvm::BasicBlock *before = b_.GetInsertBlock(), *head = block("loop"), *done = block("done");
    b_.CreateBr(head);
    b_.SetInsertPoint(head);
    auto* index = b_.CreatePHI(b_.getInt32Ty(), 2);
    index->addIncoming(b_.getInt32(0), before);
    body(index);
    Value next = b_.CreateAdd(index, b_.getInt32(step), "", true, false);
    index->addIncoming(next, b_.GetInsertBlock());
    b_.CreateCondBr(b_.CreateICmpULT(next, end), head, done);
    b_.SetInsertPoint(done);
  }
  void place(Value thread, Value x, Value y, Value z, Value linear) {
    b_.CreateStore(x, at(thread, offsetof(ThreadContext, tid)));
    b_.CreateStore(y, at(thread, offsetof(ThreadContext, tid) + 4));
    b_.CreateStore(z, at(thread, offsetof(ThreadContext, tid) + 8));
    b_.CreateStore(linear, at(thread, offsetof(ThreadContext, linear)));
    // For messages: which group it was, should it fault. volatile, as nothing here reads it.
    b_.CreateStore(linear, at(kernel_->getArg(1), offsetof(ThreadContext, linear)))->setVolatile(true);
    run(thread, linear);
  }
  void run(Value thread, Value linear) {
    Value left = b_.CreateSub(threads_, linear);
    b_.CreateCall(&group_, {thread, b_.CreateBinaryIntrinsic(llvm::Intrinsic::umin, left, b_.getInt32(layout_.lanes))});
  }

  llvm::Function& group_;
  const LaneLayout layout_;
  llvm::IRBuilder<> b_;
  llvm::Function* kernel_ = nullptr;
  Value context_ = nullptr, threads_ = nullptr, extent_[3] = {};
};

}  // namespace

void make_group_kernel(llvm::Module& module, llvm::TargetMachine& machine, const std::string& name,
                       const LaneLayout& layout, bool fibers) {
  llvm::LoopAnalysisManager loops;
  llvm::FunctionAnalysisManager functions;
  llvm::CGSCCAnalysisManager cgscc;
  llvm::ModuleAnalysisManager modules;
  llvm::PassBuilder builder(&machine);
  builder.registerModuleAnalyses(modules);
  builder.registerCGSCCAnalyses(cgscc);
  builder.registerFunctionAnalyses(functions);
  builder.registerLoopAnalyses(loops);
  builder.crossRegisterProxies(loops, functions, cgscc, modules);

  llvm::ModulePassManager inliner;
  inliner.addPass(llvm::AlwaysInlinerPass());
  inliner.run(module, modules);
  llvm::Function& thread = *module.getFunction("thread." + name);
  // Lanes wait for each other in these: no pass may copy them or move them under a condition.
  for (const char* waits : {"pergola_jit_barrier", "pergola_jit_collective"}) {
    if (llvm::Function* function = module.getFunction(waits)) function->addFnAttr(llvm::Attribute::Convergent);
  }
  exits_return(thread);
  lower_carries(thread);
  functions.clear();
  llvm::FunctionPassManager early;
  early.addPass(llvm::SimplifyCFGPass());
  early.addPass(llvm::SROAPass(llvm::SROAOptions::ModifyCFG));
  early.addPass(llvm::EarlyCSEPass(true));
  early.addPass(llvm::InstCombinePass());
  early.addPass(llvm::SimplifyCFGPass());
  early.run(thread, functions);
  lower_canonical_nans(thread);
  take_pairs_apart(thread);
  unify_returns(thread);
  functions.clear();
  llvm::FunctionPassManager shape;
  shape.addPass(llvm::LowerSwitchPass());
  shape.addPass(llvm::EarlyCSEPass());
  shape.addPass(llvm::LoopSimplifyPass());
  shape.addPass(llvm::LCSSAPass());
  shape.run(thread, functions);

  auto* type = llvm::FunctionType::get(llvm::Type::getVoidTy(module.getContext()),
                                       {llvm::PointerType::getUnqual(module.getContext()), llvm::Type::getInt32Ty(module.getContext())}, false);
  auto* group = llvm::Function::Create(type, llvm::GlobalValue::InternalLinkage, "group", module);
  group->addFnAttr(llvm::Attribute::NoUnwind);
  group->addFnAttr(llvm::Attribute::AlwaysInline);
  {
    const VectorFlow flow(thread, functions.getResult<llvm::LoopAnalysis>(thread),
                          functions.getResult<llvm::DominatorTreeAnalysis>(thread));
    const VectorShapes shapes(thread, flow, layout);
    VectorEmitter(thread, flow, shapes, *group).run();
  }
  functions.clear();
  thread.eraseFromParent();
  KernelLoop loop(module, *group, layout);
  if (fibers) {
    loop.one_group();
  } else {
    loop.all_groups();
  }
}

}  // namespace pergola::device::cpu::jit
