// The vector tier's faults: edges to leaves (vector_flow.h), the blocks that no lane comes back from.
//
// The test before an access of shared memory is by far the commonest. Where the lanes' offsets differ by a stride it is
// one comparison for all of them, and where that fails a call that looks at each lane that is here:
//
//   offset + lane × stride < bound in every lane   ◀──   offset + (lanes - 1) × stride < bound, in 64 bits
#include <llvm/IR/CFG.h>
#include <llvm/IR/IntrinsicInst.h>

#include "src/device/cpu/jit/thread_context.h"
#include "src/device/cpu/jit/vector_emitter.h"

namespace pergola::device::cpu::jit {

using llvm::BasicBlock;
using Value = llvm::Value*;

namespace {

// The call that a leaf ends with, where it is one of those that raise a fault and do not come back.
const llvm::CallInst* fault_call(const BasicBlock& leaf) {
  const auto* call = llvm::dyn_cast_or_null<llvm::CallInst>(leaf.getTerminator()->getPrevNode());
  const llvm::Function* callee = call == nullptr ? nullptr : call->getCalledFunction();
  if (callee == nullptr) return nullptr;
  const llvm::StringRef name = callee->getName();
  const bool faults = name == "pergola_jit_shared_fault" || name == "pergola_jit_local_fault" ||
                      name == "pergola_jit_misaligned" || name == "pergola_jit_trap";
  return faults ? call : nullptr;
}

}  // namespace

llvm::MDNode* VectorEmitter::rarely() {
  return llvm::MDNode::get(b_.getContext(), {llvm::MDString::get(b_.getContext(), "branch_weights"),
                                             llvm::ConstantAsMetadata::get(b_.getInt32(1)),
                                             llvm::ConstantAsMetadata::get(b_.getInt32(1u << 20))});
}

// A copy of the leaf for the lanes that take the edge; the others go on. `condition`: a scalar or a mask, null for all.
void VectorEmitter::emit_leaf_edge(const BasicBlock* from, BasicBlock* leaf, Value condition) {
  const Known before = known_;
  Value everybody = mask_;
  BasicBlock* go_on = nullptr;
  if (condition != nullptr) {
    Value taken = condition;
    if (condition->getType()->isVectorTy()) {
      mask_ = both(mask_, condition);
      taken = any(mask_);
    }
    auto* fault = new_block("leaf");
    go_on = new_block("go_on");
    b_.CreateCondBr(taken, fault, go_on, rarely());
    b_.SetInsertPoint(fault);
  }
  const llvm::CallInst* last = fault_call(*leaf);
  for (const llvm::Instruction& in : *leaf) {
    if (in.isTerminator()) break;
    if (&in == last) {
      emit_fault(*last);
    } else if (const auto* phi = llvm::dyn_cast<llvm::PHINode>(&in)) {
      known_.vector[phi] = vector(phi->getIncomingValueForBlock(from));
    } else {
      emit_instruction(in);
    }
  }
  b_.CreateUnreachable();
  mask_ = everybody;
  known_ = before;
  if (go_on != nullptr) b_.SetInsertPoint(go_on);
}

// As nobody comes back, the first lane's call is all there is to see.
void VectorEmitter::emit_fault(const llvm::CallInst& call) {
  if (fault_thread_ == nullptr) {
    fault_thread_ = entry_alloca(llvm::ArrayType::get(b_.getInt8Ty(), sizeof(ThreadContext)), "thread", false);
    fault_thread_->setAlignment(llvm::Align(alignof(ThreadContext)));
  }
  Value lane =
      b_.CreateZExt(b_.CreateBinaryIntrinsic(llvm::Intrinsic::cttz, bits_of(mask_), b_.getTrue()), b_.getInt64Ty());
  std::vector<Value> arguments;
  for (const llvm::Value* argument : call.args()) {
    if (argument == scalar_.getArg(0)) {
      arguments.push_back(fault_thread_);
    } else if (shapes_.of(argument).is_uniform()) {
      arguments.push_back(base(argument));
    } else {
      arguments.push_back(b_.CreateExtractElement(vector(argument), lane));
    }
  }
  b_.CreateLifetimeStart(fault_thread_);  // so that groups that barriers suspend do not keep it
  runtime("pergola_jit_lane_context", b_.getVoidTy(), {thread_, b_.CreateTrunc(lane, b_.getInt32Ty()), fault_thread_});
  b_.CreateCall(call.getCalledFunction(), arguments)->setAttributes(call.getAttributes());
}

// False where the branch is no test of shared memory's bounds whose offsets differ by a stride.
bool VectorEmitter::emit_bounds_check(unsigned n, const llvm::BranchInst& branch) {
  const bool faults_if = VectorFlow::is_leaf(branch.getSuccessor(0));
  const BasicBlock* leaf = branch.getSuccessor(faults_if ? 0 : 1);
  const llvm::CallInst* call = fault_call(*leaf);
  if (call == nullptr || call->getCalledFunction()->getName() != "pergola_jit_shared_fault") return false;
  const auto argument = [&](unsigned number) {
    const llvm::Value* v = call->getArgOperand(number);
    const auto* phi = llvm::dyn_cast<llvm::PHINode>(v);
    return phi != nullptr && phi->getParent() == leaf ? phi->getIncomingValueForBlock(flow_.block(n)) : v;
  };
  const llvm::Value* offset = argument(1);
  const auto* compare = llvm::dyn_cast<llvm::ICmpInst>(branch.getCondition());
  if (compare == nullptr) return false;
  const bool turned = compare->getOperand(1) == offset;
  const llvm::Value* bound = compare->getOperand(turned ? 0 : 1);
  const auto predicate = turned ? compare->getSwappedPredicate() : compare->getPredicate();
  if (compare->getOperand(turned ? 1 : 0) != offset || !shapes_.of(bound).is_uniform()) return false;
  if (predicate != (faults_if ? llvm::ICmpInst::ICMP_UGE : llvm::ICmpInst::ICMP_ULT)) return false;
  const Shape shape = shapes_.of(offset);
  if (!(shape.is_affine() || shape.is_uniform()) || shape.stride < 0) return false;
  for (unsigned number = 2; number < call->arg_size(); ++number) {
    if (!shapes_.of(argument(number)).is_uniform()) return false;
  }
  auto *look = new_block("look"), *go_on = new_block("go_on");
  const auto span = static_cast<std::uint64_t>(shape.stride) * (lanes_ - 1);
  auto* i64 = b_.getInt64Ty();
  Value first = base(offset);
  Value last = b_.CreateAdd(b_.CreateZExt(first, i64), b_.getInt64(span), "", true, true);
  b_.CreateCondBr(b_.CreateICmpUGE(last, b_.CreateZExt(base(bound), i64)), look, go_on, rarely());
  b_.SetInsertPoint(look);
  runtime(
      "pergola_jit_group_bounds", b_.getVoidTy(),
      {thread_, b_.CreateZExtOrTrunc(bits_of(mask_), b_.getInt32Ty()), first,
       b_.getInt32(static_cast<std::uint32_t>(shape.stride)), base(argument(2)), base(argument(3)), base(argument(4))});
  b_.CreateBr(go_on);
  b_.SetInsertPoint(go_on);
  return true;
}

}  // namespace pergola::device::cpu::jit
