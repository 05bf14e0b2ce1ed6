#include "src/device/cpu/jit/vector_resume.h"

#include <llvm/IR/IntrinsicInst.h>
#include <llvm/Transforms/Coroutines/CoroCleanup.h>
#include <llvm/Transforms/Coroutines/CoroEarly.h>
#include <llvm/Transforms/Coroutines/CoroSplit.h>
#include <llvm/Transforms/InstCombine/InstCombine.h>
#include <llvm/Transforms/Scalar/EarlyCSE.h>
#include <llvm/Transforms/Scalar/SROA.h>
#include <llvm/Transforms/Scalar/SimplifyCFG.h>
#include <llvm/Transforms/Utils/BasicBlockUtils.h>

#include <algorithm>
#include <vector>

#include "src/base/result.h"

namespace pergola::device::cpu::jit {

using llvm::Intrinsic::ID;
using Value = llvm::Value*;

namespace {

constexpr const char* kFrameFacts = "pergola_jit_frame_facts";  // called with size and alignment, until they are known
constexpr std::uint64_t kPromise = 16;  // behind the frame's two functions: LLVM's Coroutines.rst

Value intrinsic(llvm::IRBuilder<>& b, ID id, llvm::ArrayRef<llvm::Type*> types, llvm::ArrayRef<Value> arguments) {
  return b.CreateCall(llvm::Intrinsic::getDeclaration(b.GetInsertBlock()->getModule(), id, types), arguments);
}

// Every wait becomes a suspension and every return the last one.
class Coroutine {
 public:
  explicit Coroutine(llvm::Function& group) : group_(group), b_(group.getContext()) {}

  void make() {
    begin();
    std::vector<llvm::Instruction*> waits, returns;
    for (llvm::BasicBlock& block : group_) {
      for (llvm::Instruction& in : block) {
        const auto* call = llvm::dyn_cast<llvm::CallInst>(&in);
        const llvm::Function* callee = call == nullptr ? nullptr : call->getCalledFunction();
        if (callee != nullptr && callee->getName() == kGroupWaits) waits.push_back(&in);
        if (llvm::isa<llvm::ReturnInst>(in)) returns.push_back(&in);
      }
    }
    left_ = block("left");
    for (llvm::Instruction* wait : waits) {
      llvm::BasicBlock* before = wait->getParent();
      llvm::BasicBlock* after = before->splitBasicBlock(wait->getNextNode(), "resumed");
      wait->eraseFromParent();
      before->getTerminator()->eraseFromParent();
      suspend(before, after, false);
    }
    for (llvm::Instruction* end : returns) {
      llvm::BasicBlock* before = end->getParent();
      end->eraseFromParent();
      auto* never = block("never");
      suspend(before, never, true);
      b_.SetInsertPoint(never);
      b_.CreateUnreachable();
    }
    b_.SetInsertPoint(left_);
    intrinsic(b_, llvm::Intrinsic::coro_end, {},
              {frame_, b_.getFalse(), llvm::ConstantTokenNone::get(b_.getContext())});
    b_.CreateRetVoid();
    group_.setPresplitCoroutine();
  }

 private:
  llvm::BasicBlock* block(const char* name) { return llvm::BasicBlock::Create(b_.getContext(), name, &group_); }

  void begin() {
    llvm::BasicBlock& entry = group_.getEntryBlock();
    b_.SetInsertPoint(&entry, entry.getFirstNonPHIOrDbgOrAlloca());
    auto* null = llvm::ConstantPointerNull::get(b_.getPtrTy());
    llvm::AllocaInst* thread = b_.CreateAlloca(b_.getPtrTy(), nullptr, "thread");
    Value id = intrinsic(b_, llvm::Intrinsic::coro_id, {}, {b_.getInt32(0), thread, null, null});
    frame_ = intrinsic(b_, llvm::Intrinsic::coro_begin, {}, {id, group_.getArg(3)});
    b_.CreateStore(group_.getArg(0), thread);
    auto* i64 = b_.getInt64Ty();
    auto* type = llvm::FunctionType::get(b_.getVoidTy(), {i64, i64}, false);
    b_.CreateCall(
        group_.getParent()->getOrInsertFunction(kFrameFacts, type),
        {intrinsic(b_, llvm::Intrinsic::coro_size, {i64}, {}), intrinsic(b_, llvm::Intrinsic::coro_align, {i64}, {})});
  }

  void suspend(llvm::BasicBlock* at, llvm::BasicBlock* then, bool last) {
    b_.SetInsertPoint(at);
    Value way = intrinsic(b_, llvm::Intrinsic::coro_suspend, {},
                          {llvm::ConstantTokenNone::get(b_.getContext()), b_.getInt1(last)});
    auto* go_on = b_.CreateSwitch(way, left_, 2);  // 0: resumed; 1: destroyed, which nobody does
    go_on->addCase(b_.getInt8(0), then);
    go_on->addCase(b_.getInt8(1), left_);
  }

  llvm::Function& group_;
  llvm::IRBuilder<> b_;
  Value frame_ = nullptr;
  llvm::BasicBlock* left_ = nullptr;
};

// What is made again after a barrier rather than kept over it.
bool is_cheap(llvm::Instruction& in) {
  return llvm::isa<llvm::CastInst, llvm::GetElementPtrInst, llvm::BinaryOperator, llvm::CmpInst, llvm::SelectInst,
                   llvm::InsertElementInst, llvm::ShuffleVectorInst>(in);
}

}  // namespace

GroupFrame make_resumable(llvm::Function& group, llvm::ModuleAnalysisManager& modules) {
  llvm::Module& module = *group.getParent();
  Coroutine(group).make();
  llvm::FunctionPassManager simplify;  // what is a value and lives on is kept in the frame, what is memory in any case
  simplify.addPass(llvm::SROAPass(llvm::SROAOptions::ModifyCFG));
  simplify.addPass(llvm::EarlyCSEPass(true));
  simplify.addPass(llvm::InstCombinePass());
  simplify.addPass(llvm::SimplifyCFGPass());
  llvm::ModulePassManager passes;
  passes.addPass(llvm::CoroEarlyPass());
  passes.addPass(llvm::createModuleToFunctionPassAdaptor(std::move(simplify)));
  passes.addPass(llvm::createModuleToPostOrderCGSCCPassAdaptor(llvm::CoroSplitPass(is_cheap, true)));
  // coro.begin gives a pointer that aliases nothing, and the kernel goes by the frame's address: it must be gone before
  // one is inlined into the other.
  passes.addPass(llvm::CoroCleanupPass());
  group.setLinkage(llvm::GlobalValue::ExternalLinkage);  // passes over the call graph start from what others may call
  passes.run(module, modules);
  group.setLinkage(llvm::GlobalValue::InternalLinkage);
  for (const char* unused : {"group.destroy", "group.cleanup"}) {
    llvm::Function* function = module.getFunction(unused);
    function->replaceAllUsesWith(llvm::ConstantPointerNull::get(llvm::PointerType::getUnqual(module.getContext())));
    function->eraseFromParent();
  }

  GroupFrame frame;
  llvm::Function* facts = module.getFunction(kFrameFacts);
  while (!facts->use_empty()) {
    auto* call = llvm::cast<llvm::CallInst>(facts->user_back());
    const auto* bytes = llvm::dyn_cast<llvm::ConstantInt>(call->getArgOperand(0));
    const auto* align = llvm::dyn_cast<llvm::ConstantInt>(call->getArgOperand(1));
    PERGOLA_CHECK(bytes != nullptr && align != nullptr);
    frame.bytes = bytes->getZExtValue();
    frame.align = align->getZExtValue();
    call->eraseFromParent();
  }
  facts->eraseFromParent();
  PERGOLA_CHECK(frame.bytes != 0);
  frame.bytes = (frame.bytes + frame.align - 1) / frame.align * frame.align;
  return frame;
}

void emit_resume(llvm::IRBuilder<>& b, Value frame) {
  intrinsic(b, llvm::Intrinsic::coro_resume, {}, {frame});
}
Value emit_returned(llvm::IRBuilder<>& b, Value frame) {
  return intrinsic(b, llvm::Intrinsic::coro_done, {}, {frame});
}

Value thread_of_resumed(llvm::Function& function, llvm::IRBuilder<>& b) {
  if (!function.getName().ends_with(".resume")) return nullptr;
  return b.CreateLoad(b.getPtrTy(), b.CreateConstInBoundsGEP1_64(b.getInt8Ty(), function.getArg(0), kPromise));
}

}  // namespace pergola::device::cpu::jit
