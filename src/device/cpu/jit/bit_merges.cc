#include "src/device/cpu/jit/bit_merges.h"

#include <llvm/IR/IRBuilder.h>
#include <llvm/IR/Module.h>
#include <llvm/TargetParser/Triple.h>

#include <vector>

namespace pergola::device::cpu::jit {
namespace {

bool is_masked(const llvm::Value* v) {
  const auto* in = llvm::dyn_cast<llvm::BinaryOperator>(v);
  return in != nullptr && in->getOpcode() == llvm::Instruction::And &&
         (llvm::isa<llvm::Constant>(in->getOperand(0)) || llvm::isa<llvm::Constant>(in->getOperand(1)));
}

// More than the shapes that LLVM takes today for such a merge: it also makes some from each other.
bool may_merge(const llvm::Instruction& in) {
  const unsigned opcode = in.getOpcode();
  if (opcode != llvm::Instruction::Or && opcode != llvm::Instruction::Xor && opcode != llvm::Instruction::Add) return false;
  const auto* type = llvm::dyn_cast<llvm::FixedVectorType>(in.getType());
  if (type == nullptr) return false;
  const unsigned bits = type->getScalarSizeInBits();  // of the elements that VPTERNLOG has masks for
  return (bits == 32 || bits == 64) && (is_masked(in.getOperand(0)) || is_masked(in.getOperand(1)));
}

}  // namespace

void fence_bit_merges(llvm::Function& function) {
  if (!llvm::Triple(function.getParent()->getTargetTriple()).isX86()) return;
  std::vector<llvm::Instruction*> merges;
  for (llvm::BasicBlock& block : function) {
    for (llvm::Instruction& in : block) {
      if (may_merge(in)) merges.push_back(&in);
    }
  }
  for (llvm::Instruction* merge : merges) {
    llvm::IRBuilder<> b(merge->getNextNode());
    b.SetCurrentDebugLocation(merge->getDebugLoc());
    auto* type = llvm::cast<llvm::FixedVectorType>(merge->getType());
    llvm::Type* element = type->getScalarSizeInBits() == 32 ? b.getFloatTy() : b.getDoubleTy();
    llvm::Type* real = llvm::FixedVectorType::get(element, type->getNumElements());  // fences are for such alone
    auto* bits = llvm::cast<llvm::Instruction>(b.CreateBitCast(merge, real));
    llvm::Value* fence = b.CreateIntrinsic(llvm::Intrinsic::arithmetic_fence, {real}, {bits});
    llvm::Value* hidden = b.CreateBitCast(fence, type);
    merge->replaceUsesWithIf(hidden, [&](const llvm::Use& use) { return use.getUser() != bits; });
  }
}

}  // namespace pergola::device::cpu::jit
