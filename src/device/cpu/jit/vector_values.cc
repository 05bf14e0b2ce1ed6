// The vector tier's values: reading and keeping them, and the instructions that work on each lane by itself.
#include <llvm/IR/IntrinsicInst.h>
#include <llvm/IR/Operator.h>

#include "src/device/cpu/jit/loop_polls.h"
#include "src/device/cpu/jit/vector_emitter.h"

namespace pergola::device::cpu::jit {

using llvm::Instruction;
using Value = llvm::Value*;

// --- masks ----------------------------------------------------------------------------------------------------------

bool VectorEmitter::is_everyone(Value mask) const {
  const auto* constant = llvm::dyn_cast<llvm::Constant>(mask);
  return constant != nullptr && constant->isAllOnesValue();
}

// By select: what a lane outside `a` holds in `b` decides nothing, poison or not.
Value VectorEmitter::both(Value a, Value b) {
  if (is_everyone(a)) return b;
  if (is_everyone(b)) return a;
  return b_.CreateSelect(a, b, llvm::Constant::getNullValue(a->getType()));
}

Value VectorEmitter::without(Value mask, Value lanes) {
  if (is_everyone(mask)) return b_.CreateNot(lanes);
  return b_.CreateSelect(mask, b_.CreateNot(lanes), llvm::Constant::getNullValue(mask->getType()));
}

Value VectorEmitter::bits_of(Value mask) { return b_.CreateBitCast(mask, b_.getIntNTy(lanes_)); }

Value VectorEmitter::any(Value mask) { return b_.CreateICmpNE(bits_of(mask), b_.getIntN(lanes_, 0)); }

// --- values ---------------------------------------------------------------------------------------------------------

llvm::AllocaInst* VectorEmitter::entry_alloca(llvm::Type* type, const llvm::Twine& name, bool zeroed) {
  llvm::IRBuilder<> at(entry_, entry_->begin());
  auto* made = at.CreateAlloca(type, nullptr, name);
  if (zeroed) {
    at.SetInsertPoint(entry_end_);
    at.CreateStore(llvm::Constant::getNullValue(type), made);
  }
  return made;
}

// Values start as zero: a lane that never came by reads no poison.
VectorEmitter::Slot VectorEmitter::slot(const Instruction& in) {
  Slot& s = slots_[&in];
  const Shape shape = shapes_.of(&in);
  if (shape.has_base() && s.base == nullptr) s.base = entry_alloca(in.getType(), "base", true);
  if (shape.is_guarded() && s.guard == nullptr) s.guard = entry_alloca(b_.getInt1Ty(), "holds", true);
  if (!shape.is_uniform() && !shape.is_affine() && s.vector == nullptr) s.vector = entry_alloca(wide(in.getType()), "vector", true);
  return s;
}

Value VectorEmitter::base(const llvm::Value* v) {
  if (v == scalar_.getArg(0)) return thread_;
  if (const auto* constant = llvm::dyn_cast<llvm::Constant>(v)) return const_cast<llvm::Constant*>(constant);
  Value& known = known_.base[v];
  if (known == nullptr) {
    const Slot s = slot(*llvm::cast<Instruction>(v));
    if (s.base == nullptr) refuse_vector("a value has no scalar form");
    known = b_.CreateLoad(s.base->getAllocatedType(), s.base);
  }
  return known;
}

Value VectorEmitter::guard(const llvm::Value* v) {
  if (!shapes_.of(v).is_guarded()) return nullptr;
  Value& known = known_.guard[v];
  if (known == nullptr) known = b_.CreateLoad(b_.getInt1Ty(), slot(*llvm::cast<Instruction>(v)).guard);
  return known;
}

Value VectorEmitter::lane_numbers(llvm::Type* element) {
  std::vector<llvm::Constant*> numbers;
  for (unsigned lane = 0; lane < lanes_; ++lane) numbers.push_back(llvm::ConstantInt::get(element, lane));
  return llvm::ConstantVector::get(numbers);
}

Value VectorEmitter::add_strides(Value base, std::int64_t stride) {
  const bool pointer = base->getType()->isPointerTy();
  llvm::Type* element = pointer ? b_.getInt64Ty() : base->getType();
  std::vector<llvm::Constant*> offsets;
  for (unsigned lane = 0; lane < lanes_; ++lane) {
    offsets.push_back(llvm::ConstantInt::get(element, static_cast<std::uint64_t>(stride) * lane));
  }
  Value strides = llvm::ConstantVector::get(offsets);
  if (pointer) return b_.CreateGEP(b_.getInt8Ty(), base, strides);
  return b_.CreateAdd(splat(base), strides);
}

Value VectorEmitter::vector(const llvm::Value* v) {
  if (const auto* constant = llvm::dyn_cast<llvm::Constant>(v)) {
    return splat(const_cast<llvm::Constant*>(constant));
  }
  if (const auto known = known_.vector.find(v); known != known_.vector.end()) return known->second;
  const Shape shape = shapes_.of(v);
  Value made = nullptr;
  if (shape.is_uniform()) {
    made = splat(base(v));
  } else if (shape.is_affine()) {
    made = add_strides(base(v), shape.stride);
  } else {
    const Slot s = slot(*llvm::cast<Instruction>(v));
    made = b_.CreateLoad(s.vector->getAllocatedType(), s.vector);
  }
  known_.vector[v] = made;
  return made;
}

// Whatever another block reads goes to its slot.
void VectorEmitter::keep(const Instruction& in, Value base, Value guard, Value vector) {
  if (base != nullptr) known_.base[&in] = base;
  if (guard != nullptr) known_.guard[&in] = guard;
  if (vector != nullptr) known_.vector[&in] = vector;
  bool elsewhere = false;
  for (const llvm::User* user : in.users()) {
    const auto* used = llvm::cast<Instruction>(user);
    elsewhere |= used->getParent() != in.getParent() || llvm::isa<llvm::PHINode>(used);
  }
  if (!elsewhere) return;
  const Slot s = slot(in);
  if (s.base != nullptr && base != nullptr) b_.CreateStore(base, s.base);
  if (s.guard != nullptr) b_.CreateStore(guard != nullptr ? guard : b_.getTrue(), s.guard);
  if (s.vector != nullptr && vector != nullptr) b_.CreateStore(vector, s.vector);
}

// --- instructions ---------------------------------------------------------------------------------------------------

void VectorEmitter::emit_instruction(const Instruction& in) {
  b_.SetCurrentDebugLocation(in.getDebugLoc());
  if (in.getType()->isVectorTy()) refuse_vector("LLVM made a vector of it already");
  if (in.getType()->isIntegerTy() && in.getType()->getIntegerBitWidth() > 128) refuse_vector("it has values of more than 128 bits");
  switch (in.getOpcode()) {
    case Instruction::Load: return emit_load(llvm::cast<llvm::LoadInst>(in));
    case Instruction::Store: return emit_store(llvm::cast<llvm::StoreInst>(in));
    case Instruction::Alloca: return emit_variable(llvm::cast<llvm::AllocaInst>(in));
    case Instruction::AtomicRMW: return emit_read_modify_write(llvm::cast<llvm::AtomicRMWInst>(in));
    case Instruction::AtomicCmpXchg: return emit_compare_exchange(llvm::cast<llvm::AtomicCmpXchgInst>(in));
    case Instruction::Fence: {
      const auto& fence = llvm::cast<llvm::FenceInst>(in);
      b_.CreateFence(fence.getOrdering(), fence.getSyncScopeID());
      return;
    }
    case Instruction::Call: return emit_call(llvm::cast<llvm::CallInst>(in));
    default: return emit_plain(in);
  }
}

// Does base32 + lane × stride keep its carry in every lane when it is widened?
Value VectorEmitter::widening_guard(const llvm::CastInst& cast, Value base, std::int64_t stride) {
  const unsigned bits = base->getType()->getIntegerBitWidth();
  const auto span = static_cast<std::uint64_t>(stride < 0 ? -stride : stride) * (lanes_ - 1);
  const bool sign = cast.getOpcode() == Instruction::SExt;
  const std::uint64_t top = sign ? (std::uint64_t{1} << (bits - 1)) - 1 : (~std::uint64_t{0} >> (64 - bits));
  if (span > top) return b_.getFalse();
  const auto number = [&](std::uint64_t v) { return llvm::ConstantInt::get(base->getType(), v); };
  if (stride > 0) return sign ? b_.CreateICmpSLE(base, number(top - span)) : b_.CreateICmpULE(base, number(top - span));
  return sign ? b_.CreateICmpSGE(base, number(0 - (top + 1) + span)) : b_.CreateICmpUGE(base, number(span));
}

void VectorEmitter::emit_plain(const Instruction& in) {
  const Shape shape = shapes_.of(&in);
  Value scalar = nullptr, holds = nullptr, lanes = nullptr;
  if (shape.has_base()) {
    bool uniform = true;
    std::vector<Value> operands;
    for (const llvm::Value* operand : in.operands()) {
      uniform &= shapes_.of(operand).is_uniform();
      operands.push_back(base(operand));
    }
    scalar = rebuild(in, operands, false, uniform);
  }
  if (shape.is_guarded()) {
    const auto* cast = llvm::dyn_cast<llvm::CastInst>(&in);
    if (cast != nullptr && shapes_.of(in.getOperand(0)).is_affine()) {
      holds = widening_guard(*cast, base(in.getOperand(0)), shapes_.of(in.getOperand(0)).stride);
    } else if (llvm::isa<llvm::SelectInst>(in)) {
      Value a = guard(in.getOperand(1)), b = guard(in.getOperand(2));
      holds = b_.CreateSelect(base(in.getOperand(0)), a != nullptr ? a : b_.getTrue(), b != nullptr ? b : b_.getTrue());
    } else {
      for (const llvm::Value* operand : in.operands()) {
        Value one = guard(operand);
        if (one != nullptr) holds = holds == nullptr ? one : b_.CreateAnd(holds, one);
      }
    }
  }
  if (!shape.is_uniform() && !shape.is_affine()) {
    std::vector<Value> operands;
    for (const llvm::Value* operand : in.operands()) {
      const bool shared_index = llvm::isa<llvm::GetElementPtrInst>(in) && llvm::isa<llvm::Constant>(operand);
      operands.push_back(shared_index ? base(operand) : vector(operand));
    }
    lanes = rebuild(in, operands, true, false);
  }
  keep(in, scalar, holds, lanes);
}

// The same operation on other operands; `is_wide`: on vectors. Flags that may make poison stay only where the operands
// are exactly the lanes' own.
Value VectorEmitter::rebuild(const Instruction& in, llvm::ArrayRef<Value> o, bool is_wide, bool keeps_flags) {
  const auto type = [&](llvm::Type* scalar) -> llvm::Type* { return is_wide ? wide(scalar) : scalar; };
  if (const auto* binary = llvm::dyn_cast<llvm::BinaryOperator>(&in)) {
    const bool divides = binary->getOpcode() == Instruction::UDiv || binary->getOpcode() == Instruction::SDiv ||
                         binary->getOpcode() == Instruction::URem || binary->getOpcode() == Instruction::SRem;
    if (divides && is_wide && !llvm::isa<llvm::Constant>(in.getOperand(1))) return divide(in, o[0], o[1]);
    const auto opcode = binary->getOpcode() == Instruction::Or && !is_wide && !keeps_flags && shapes_.of(&in).has_base() &&
                                llvm::cast<llvm::PossiblyDisjointInst>(binary)->isDisjoint()
                            ? Instruction::Add : binary->getOpcode();
    Value made = b_.CreateBinOp(opcode, o[0], o[1]);
    if (auto* instruction = llvm::dyn_cast<Instruction>(made); instruction != nullptr && keeps_flags) instruction->copyIRFlags(&in);
    return made;
  }
  if (const auto* cast = llvm::dyn_cast<llvm::CastInst>(&in)) {
    const bool signs = !is_wide && !keeps_flags && VectorShapes::is_low_half(*cast);
    return b_.CreateCast(signs ? llvm::CastInst::SExt : cast->getOpcode(), o[0], type(in.getType()));
  }
  if (const auto* address = llvm::dyn_cast<llvm::GetElementPtrInst>(&in)) {
    return b_.CreateGEP(address->getSourceElementType(), o[0], o.drop_front());
  }
  switch (in.getOpcode()) {
    case Instruction::FNeg: return b_.CreateFNeg(o[0]);
    case Instruction::ICmp: return b_.CreateICmp(llvm::cast<llvm::CmpInst>(in).getPredicate(), o[0], o[1]);
    case Instruction::FCmp: return b_.CreateFCmp(llvm::cast<llvm::CmpInst>(in).getPredicate(), o[0], o[1]);
    case Instruction::Select: return b_.CreateSelect(o[0], o[1], o[2]);
    case Instruction::Freeze: return b_.CreateFreeze(o[0]);
    case Instruction::ExtractValue:
      return b_.CreateExtractValue(o[0], llvm::cast<llvm::ExtractValueInst>(in).getIndices());
    default: refuse_vector(std::string("LLVM made '") + in.getOpcodeName() + "' of it, which is not implemented");
  }
}

// Integer division by lanes' own divisors: exact in double up to 32 bits, else lane by lane. What lanes outside the
// mask divide by never traps.
Value VectorEmitter::divide(const Instruction& in, Value a, Value b) {
  const unsigned bits = in.getType()->getIntegerBitWidth();
  const bool sign = in.getOpcode() == Instruction::SDiv || in.getOpcode() == Instruction::SRem;
  const bool remainder = in.getOpcode() == Instruction::URem || in.getOpcode() == Instruction::SRem;
  if (bits <= 32) {
    auto* real = wide(b_.getDoubleTy());
    Value x = sign ? b_.CreateSIToFP(a, real) : b_.CreateUIToFP(a, real);
    Value y = sign ? b_.CreateSIToFP(b, real) : b_.CreateUIToFP(b, real);
    const auto id = sign ? llvm::Intrinsic::fptosi_sat : llvm::Intrinsic::fptoui_sat;
    Value q = b_.CreateIntrinsic(id, {a->getType(), real}, {b_.CreateFDiv(x, y)});
    return remainder ? b_.CreateSub(a, b_.CreateMul(q, b)) : q;
  }
  const auto opcode = static_cast<Instruction::BinaryOps>(in.getOpcode());
  return per_lane(mask_, {a, b}, {in.getType()}, [&](llvm::ArrayRef<Value> o, Value) {
    return std::vector<Value>{b_.CreateBinOp(opcode, o[0], o[1])};
  }).front();
}

// Runs `body` once for each lane of the mask, lowest first; operands and results go through the stack. The mask holds
// at least one lane. Results of other lanes are zero.
std::vector<Value> VectorEmitter::per_lane(
    Value mask, llvm::ArrayRef<Value> operands, llvm::ArrayRef<llvm::Type*> results,
    const std::function<std::vector<Value>(llvm::ArrayRef<Value>, Value lane)>& body) {
  const auto memory_type = [&](llvm::Type* type) -> llvm::Type* { return type->isIntegerTy(1) ? b_.getInt8Ty() : type; };
  std::vector<llvm::AllocaInst*> in, out;
  for (Value operand : operands) {
    if (!operand->getType()->isVectorTy()) {
      in.push_back(nullptr);
      continue;
    }
    llvm::Type* element = llvm::cast<llvm::VectorType>(operand->getType())->getElementType();
    in.push_back(entry_alloca(wide(memory_type(element)), "operands", false));
    b_.CreateStore(element->isIntegerTy(1) ? b_.CreateZExt(operand, wide(b_.getInt8Ty())) : operand, in.back());
  }
  for (llvm::Type* type : results) {
    out.push_back(entry_alloca(wide(memory_type(type)), "results", false));
    b_.CreateStore(llvm::Constant::getNullValue(out.back()->getAllocatedType()), out.back());
  }
  auto* bits_type = b_.getIntNTy(lanes_);
  Value all = bits_of(mask);
  auto *before = b_.GetInsertBlock(), *turn = new_block("lane"), *done = new_block("lanes_done");
  b_.CreateBr(turn);
  b_.SetInsertPoint(turn);
  auto* left = b_.CreatePHI(bits_type, 2);
  left->addIncoming(all, before);
  Value lane = b_.CreateZExtOrTrunc(b_.CreateBinaryIntrinsic(llvm::Intrinsic::cttz, left, b_.getTrue()), b_.getInt64Ty());
  std::vector<Value> scalars;
  for (std::size_t n = 0; n < operands.size(); ++n) {
    if (in[n] == nullptr) {
      scalars.push_back(operands[n]);
      continue;
    }
    llvm::Type* element = llvm::cast<llvm::VectorType>(operands[n]->getType())->getElementType();
    Value v = b_.CreateLoad(memory_type(element), b_.CreateGEP(memory_type(element), in[n], lane));
    scalars.push_back(element->isIntegerTy(1) ? b_.CreateTrunc(v, element) : v);
  }
  const std::vector<Value> made = body(scalars, lane);
  for (std::size_t n = 0; n < results.size(); ++n) {
    Value v = results[n]->isIntegerTy(1) ? b_.CreateZExt(made[n], b_.getInt8Ty()) : made[n];
    b_.CreateStore(v, b_.CreateGEP(memory_type(results[n]), out[n], lane));
  }
  Value rest = b_.CreateAnd(left, b_.CreateSub(left, llvm::ConstantInt::get(bits_type, 1)));
  left->addIncoming(rest, b_.GetInsertBlock());
  mark_short_loop(*b_.CreateCondBr(b_.CreateICmpNE(rest, llvm::ConstantInt::get(bits_type, 0)), turn, done));
  b_.SetInsertPoint(done);
  std::vector<Value> vectors;
  for (std::size_t n = 0; n < results.size(); ++n) {
    Value v = b_.CreateLoad(out[n]->getAllocatedType(), out[n]);
    vectors.push_back(results[n]->isIntegerTy(1) ? b_.CreateTrunc(v, wide(results[n])) : v);
  }
  return vectors;
}

}  // namespace pergola::device::cpu::jit
