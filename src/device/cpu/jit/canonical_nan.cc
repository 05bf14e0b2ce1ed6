// NaN markers: every f32 result is a call of a pure marker function on the raw result. A use that cannot see a NaN's
// bits (arithmetic, whose own result is marked again, and comparisons) takes the raw value; what is left, stores,
// moves to integers, select and calls, becomes "x is NaN ? 0x7fffffff : x" (ISA 9.7.3).
//
// A phi all of whose uses are of the first kind counts as one, so that a running sum costs nothing in its loop.
#include <llvm/IR/Instructions.h>
#include <llvm/IR/IntrinsicInst.h>

#include <set>

#include "src/device/cpu/jit/emitter.h"
#include "src/device/cpu/numeric.h"

namespace pergola::device::cpu::jit {
namespace {

bool ignores_payload(const llvm::Instruction& user) {
  switch (user.getOpcode()) {
    case llvm::Instruction::FAdd: case llvm::Instruction::FSub: case llvm::Instruction::FMul:
    case llvm::Instruction::FDiv: case llvm::Instruction::FCmp: case llvm::Instruction::FPToSI:
    case llvm::Instruction::FPToUI: return true;
    default: break;
  }
  const auto* call = llvm::dyn_cast<llvm::IntrinsicInst>(&user);
  if (call == nullptr) return false;
  switch (call->getIntrinsicID()) {
    case llvm::Intrinsic::fma: case llvm::Intrinsic::sqrt: case llvm::Intrinsic::fptosi_sat:
    case llvm::Intrinsic::fptoui_sat: case llvm::Intrinsic::floor: case llvm::Intrinsic::ceil:
    case llvm::Intrinsic::trunc: case llvm::Intrinsic::roundeven: return true;
    default: return false;
  }
}

bool is_marker(const llvm::Value* v) {
  const auto* call = llvm::dyn_cast<llvm::CallInst>(v);
  return call != nullptr && call->getCalledFunction() != nullptr && call->getCalledFunction()->getName() == kCanonicalF32;
}

// The largest set of float phis whose every use ignores the payload, or is a phi of the set.
std::set<const llvm::PHINode*> blind_phis(llvm::Function& function) {
  std::set<const llvm::PHINode*> blind;
  for (llvm::BasicBlock& block : function) {
    for (llvm::PHINode& phi : block.phis()) {
      if (phi.getType()->isFloatTy()) blind.insert(&phi);
    }
  }
  for (bool changed = true; changed;) {
    changed = false;
    for (auto it = blind.begin(); it != blind.end();) {
      bool keeps = true;
      for (const llvm::User* user : (*it)->users()) {
        const auto* in = llvm::cast<llvm::Instruction>(user);
        const auto* phi = llvm::dyn_cast<llvm::PHINode>(in);
        // A marker of a phi would be pointless, but not wrong: it is lowered where it stands.
        keeps &= phi != nullptr ? blind.contains(phi) : ignores_payload(*in);
      }
      changed |= !keeps;
      it = keeps ? std::next(it) : blind.erase(it);
    }
  }
  return blind;
}

}  // namespace

void lower_canonical_nans(llvm::Function& function) {
  std::vector<llvm::CallInst*> markers;
  for (llvm::BasicBlock& block : function) {
    for (llvm::Instruction& in : block) {
      if (is_marker(&in)) markers.push_back(llvm::cast<llvm::CallInst>(&in));
    }
  }
  if (markers.empty()) return;
  const std::set<const llvm::PHINode*> blind = blind_phis(function);
  for (llvm::CallInst* marker : markers) {
    llvm::Value* raw = marker->getArgOperand(0);
    marker->replaceUsesWithIf(raw, [&](llvm::Use& use) {
      const auto* user = llvm::cast<llvm::Instruction>(use.getUser());
      const auto* phi = llvm::dyn_cast<llvm::PHINode>(user);
      return phi != nullptr ? blind.contains(phi) : ignores_payload(*user);
    });
    if (!marker->use_empty()) {
      llvm::IRBuilder<> b(marker);
      llvm::Value* nan = b.CreateBitCast(b.getInt32(kCanonicalNan32), b.getFloatTy());
      marker->replaceAllUsesWith(b.CreateSelect(b.CreateFCmpUNO(raw, raw), nan, raw));
    }
    marker->eraseFromParent();
  }
}

}  // namespace pergola::device::cpu::jit
