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
#include "src/device/cpu/jit/line_tables.h"
#include "src/device/cpu/jit/thread_context.h"
#include "src/device/cpu/jit/vector_emitter.h"
#include "src/device/cpu/jit/vector_refusal.h"
#include "src/device/cpu/jit/vector_resume.h"

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

// A block that only goes to the one that returns goes: who is sent there has returned, and barriers need not wait for it.
void return_at_once(llvm::BasicBlock& end) {
  for (llvm::BasicBlock* block : llvm::to_vector(llvm::predecessors(&end))) {
    const auto* branch = llvm::dyn_cast<llvm::BranchInst>(&block->front());
    if (block->isEntryBlock() || branch == nullptr || branch->isConditional()) continue;
    block->replaceAllUsesWith(&end);  // which has no phis that would have to learn of it
    block->eraseFromParent();
  }
}

llvm::BasicBlock& unify_returns(llvm::Function& thread) {
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
  return *end;
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
    // A frame larger than a page touches each page on its way down, so it cannot step over the stack's guard.
    kernel_->addFnAttr("probe-stack", "inline-asm");
    b_.SetInsertPoint(block("entry"));
    add_line_scope(*kernel_);
    b_.SetCurrentDebugLocation(line_place(*kernel_, 0, 0));
    context_ = kernel_->getArg(0);
    for (unsigned d = 0; d < 3; ++d) extent_[d] = b_.CreateLoad(b_.getInt32Ty(), at(context_, offsetof(BlockContext, ntid) + 4 * d));
    threads_ = b_.CreateMul(b_.CreateMul(extent_[0], extent_[1]), extent_[2]);
  }

  void one_group() {
    Value thread = kernel_->getArg(1);
    run(thread, b_.CreateLoad(b_.getInt32Ty(), at(thread, offsetof(ThreadContext, linear))), {});
    b_.CreateRetVoid();
  }

  void all_groups() {
    auto* thread = b_.CreateAlloca(context_type(), nullptr, "thread");
    thread->setAlignment(llvm::Align(alignof(ThreadContext)));
    begin_thread(thread);
    note_running(b_.getInt32(0));
    for_each_group([&](Value x, Value y, Value z, Value linear) {
      place(thread, x, y, z, linear);
      run(thread, linear, {});
      // Behind the group's code, so that the loads it begins with are seen to run in every turn, and leave the loop.
      note_running(b_.CreateAdd(linear, b_.getInt32(layout_.lanes)));
    });
    b_.CreateRetVoid();
  }

  // Each group to its first barrier, then all of them to the next, until none is left.
  void resumed_groups(const GroupFrame& frame) {
    Value lanes = b_.getInt32(layout_.lanes);
    Value count = b_.CreateZExt(b_.CreateUDiv(b_.CreateAdd(threads_, b_.getInt32(layout_.lanes - 1)), lanes), b_.getInt64Ty());
    auto* threads = b_.CreateAlloca(context_type(), count, "threads");
    threads->setAlignment(llvm::Align(alignof(ThreadContext)));
    auto* frames = b_.CreateAlloca(b_.getInt8Ty(), b_.CreateMul(count, b_.getInt64(frame.bytes)), "frames");
    frames->setAlignment(llvm::Align(std::max<std::uint64_t>(frame.align, 16)));
    auto* waiting = b_.CreateAlloca(b_.getInt64Ty(), nullptr, "waiting");
    const auto frame_of = [&](Value group) { return b_.CreateGEP(b_.getInt8Ty(), frames, b_.CreateMul(group, b_.getInt64(frame.bytes))); };
    const auto count_waiting = [&](Value of) {
      Value more = b_.CreateZExt(b_.CreateNot(emit_returned(b_, of)), b_.getInt64Ty());
      b_.CreateStore(b_.CreateAdd(b_.CreateLoad(b_.getInt64Ty(), waiting), more), waiting);
    };
    b_.CreateStore(b_.getInt64(0), waiting);
    for_each_group([&](Value x, Value y, Value z, Value linear) {
      Value group = b_.CreateZExt(b_.CreateUDiv(linear, lanes), b_.getInt64Ty());
      Value thread = b_.CreateGEP(context_type(), threads, group), own = frame_of(group);
      begin_thread(thread);
      place(thread, x, y, z, linear);
      note_running(linear);
      run(thread, linear, {own});
      count_waiting(own);
    });
    auto *turn = block("turn"), *done = block("all_returned");
    const auto again = [&] {
      b_.CreateCondBr(b_.CreateICmpNE(b_.CreateLoad(b_.getInt64Ty(), waiting), b_.getInt64(0)), turn, done);
    };
    again();
    b_.SetInsertPoint(turn);
    complete_barrier();
    b_.CreateStore(b_.getInt64(0), waiting);
    loop(b_.CreateTrunc(count, b_.getInt32Ty()), 1, [&](Value index) {
      Value own = frame_of(b_.CreateZExt(index, b_.getInt64Ty()));
      auto *waits = block("waits"), *next = block("next");
      b_.CreateCondBr(emit_returned(b_, own), next, waits);
      b_.SetInsertPoint(waits);
      note_running(b_.CreateMul(index, lanes));
      emit_resume(b_, own);
      count_waiting(own);
      b_.CreateBr(next);
      b_.SetInsertPoint(next);
    });
    again();
    b_.SetInsertPoint(done);
    b_.CreateRetVoid();
  }

 private:
  llvm::Type* context_type() { return llvm::ArrayType::get(b_.getInt8Ty(), sizeof(ThreadContext)); }
  llvm::BasicBlock* block(const char* name) { return llvm::BasicBlock::Create(b_.getContext(), name, kernel_); }
  Value at(Value base, std::size_t offset) { return b_.CreateConstInBoundsGEP1_64(b_.getInt8Ty(), base, offset); }
  void copy(Value from, Value to, std::size_t offset, llvm::Type* type) {
    b_.CreateStore(b_.CreateLoad(type, at(from, offset)), at(to, offset));
  }
  void begin_thread(Value thread) {
    Value from = kernel_->getArg(1);
    b_.CreateStore(context_, at(thread, offsetof(ThreadContext, block)));
    copy(from, thread, offsetof(ThreadContext, local_base), b_.getInt64Ty());
    copy(from, thread, offsetof(ThreadContext, local_bytes), b_.getInt32Ty());
  }
  // What all groups brought along becomes what each takes away.
  void complete_barrier() {
    auto* type = b_.getInt64Ty();
    Value arrivals = at(context_, offsetof(BlockContext, arrivals));
    b_.CreateStore(b_.CreateLoad(type, arrivals), at(context_, offsetof(BlockContext, arrived)));
    b_.CreateStore(b_.getInt64(0), arrivals);
  }
  // `body` gets the indices of the group's first thread: x, y, z, linear.
  template <typename Body>
  void for_each_group(Body body) {
    if (layout_.kind == LaneLayout::Kind::kRows) {
      loop(extent_[2], 1, [&](Value z) {
        loop(extent_[1], 1, [&](Value y) {
          Value row = b_.CreateMul(b_.CreateAdd(b_.CreateMul(z, extent_[1]), y), extent_[0]);
          loop(extent_[0], layout_.lanes, [&](Value x) { body(x, y, z, b_.CreateAdd(row, x)); });
        });
      });
    } else {
      loop(threads_, layout_.lanes, [&](Value linear) {
        if (layout_.kind == LaneLayout::Kind::kLine) return body(linear, b_.getInt32(0), b_.getInt32(0), linear);
        Value rows = b_.CreateUDiv(linear, extent_[0]);
        body(b_.CreateURem(linear, extent_[0]), b_.CreateURem(rows, extent_[1]), b_.CreateUDiv(rows, extent_[1]), linear);
      });
    }
  }
  // A block has at least one thread in each dimension. Turns are counted, so that LLVM knows their number.
  template <typename Body>
  void loop(Value end, unsigned step, Body body) {
    Value turns = b_.CreateAdd(b_.CreateUDiv(b_.CreateSub(end, b_.getInt32(1)), b_.getInt32(step)), b_.getInt32(1));
    llvm::BasicBlock *before = b_.GetInsertBlock(), *head = block("loop"), *done = block("done");
    b_.CreateBr(head);
    b_.SetInsertPoint(head);
    auto* turn = b_.CreatePHI(b_.getInt32Ty(), 2);
    turn->addIncoming(b_.getInt32(0), before);
    body(b_.CreateMul(turn, b_.getInt32(step)));
    Value next = b_.CreateAdd(turn, b_.getInt32(1), "", true, false);
    turn->addIncoming(next, b_.GetInsertBlock());
    b_.CreateCondBr(b_.CreateICmpULT(next, turns), head, done);
    b_.SetInsertPoint(done);
  }
  void place(Value thread, Value x, Value y, Value z, Value linear) {
    b_.CreateStore(x, at(thread, offsetof(ThreadContext, tid)));
    b_.CreateStore(y, at(thread, offsetof(ThreadContext, tid) + 4));
    b_.CreateStore(z, at(thread, offsetof(ThreadContext, tid) + 8));
    b_.CreateStore(linear, at(thread, offsetof(ThreadContext, linear)));
  }
  // For messages: which group it was, should it fault. volatile, as nothing here reads it.
  void note_running(Value linear) {
    b_.CreateStore(linear, at(kernel_->getArg(1), offsetof(ThreadContext, linear)))->setVolatile(true);
  }
  void run(Value thread, Value linear, llvm::ArrayRef<Value> more) {
    Value left = b_.CreateSub(threads_, linear);
    llvm::SmallVector<Value, 4> arguments{thread, b_.CreateBinaryIntrinsic(llvm::Intrinsic::umin, left, b_.getInt32(layout_.lanes)), context_};
    arguments.append(more.begin(), more.end());
    b_.CreateCall(&group_, arguments);
  }

  llvm::Function& group_;
  const LaneLayout layout_;
  llvm::IRBuilder<> b_;
  llvm::Function* kernel_ = nullptr;
  Value context_ = nullptr, threads_ = nullptr, extent_[3] = {};
};

}  // namespace

void make_group_kernel(llvm::Module& module, llvm::TargetMachine& machine, const std::string& name,
                       const LaneLayout& layout, GroupWaits waits) {
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
  for (const char* waiting : {"pergola_jit_barrier", "pergola_jit_collective"}) {
    if (llvm::Function* function = module.getFunction(waiting)) function->addFnAttr(llvm::Attribute::Convergent);
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
  return_at_once(unify_returns(thread));
  functions.clear();
  llvm::FunctionPassManager shape;
  shape.addPass(llvm::LowerSwitchPass());
  shape.addPass(llvm::EarlyCSEPass());
  shape.addPass(llvm::LoopSimplifyPass());
  shape.addPass(llvm::LCSSAPass());
  shape.run(thread, functions);

  auto* pointer = llvm::PointerType::getUnqual(module.getContext());
  llvm::SmallVector<llvm::Type*, 4> arguments{pointer, llvm::Type::getInt32Ty(module.getContext()), pointer};
  if (waits == GroupWaits::kResumed) arguments.push_back(pointer);  // the frame
  auto* type = llvm::FunctionType::get(llvm::Type::getVoidTy(module.getContext()), arguments, false);
  auto* group = llvm::Function::Create(type, llvm::GlobalValue::InternalLinkage, "group", module);
  group->addFnAttr(llvm::Attribute::NoUnwind);
  if (waits == GroupWaits::kResumed) {
    group->addFnAttr("probe-stack", "inline-asm");
  } else {
    group->addFnAttr(llvm::Attribute::AlwaysInline);
  }
  {
    const VectorFlow flow(thread, functions.getResult<llvm::LoopAnalysis>(thread),
                          functions.getResult<llvm::DominatorTreeAnalysis>(thread));
    const VectorShapes shapes(thread, flow, layout);
    VectorEmitter(thread, flow, shapes, *group, waits).run();
  }
  functions.clear();
  thread.eraseFromParent();
  GroupFrame frame;
  if (waits == GroupWaits::kResumed) {
    modules.clear();
    cgscc.clear();
    loops.clear();
    frame = make_resumable(*group, modules);
  }
  KernelLoop loop(module, *group, layout);
  switch (waits) {
    case GroupWaits::kNever: return loop.all_groups();
    case GroupWaits::kResumed: return loop.resumed_groups(frame);
    case GroupWaits::kFibers: return loop.one_group();
  }
}

}  // namespace pergola::device::cpu::jit
