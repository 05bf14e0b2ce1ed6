// The approximate functions (PTX ISA 9.7.3) on f32: approximations.h as LLVM code, inline, so that groups of lanes run
// them as vectors; quotients and roots in the interpreter's own steps.
#include <llvm/IR/Intrinsics.h>

#include "src/device/cpu/approximations.h"
#include "src/device/cpu/jit/emitter.h"
#include "src/device/cpu/numeric.h"

namespace pergola::device::cpu::jit {

using ptx::Mod;
using ptx::Op;
using Value = llvm::Value*;

namespace {

// FloatOps of approximations.h, as LLVM code.
struct CodeOps {
  using Float = Value;
  using Double = Value;
  using Word = Value;
  llvm::IRBuilder<>& b;
  Value constant(float v) { return llvm::ConstantFP::get(b.getFloatTy(), llvm::APFloat(v)); }
  Value real(double v) { return llvm::ConstantFP::get(b.getDoubleTy(), llvm::APFloat(v)); }
  Value word(std::uint32_t v) { return b.getInt32(v); }
  Value fma(Value x, Value y, Value z) { return b.CreateIntrinsic(llvm::Intrinsic::fma, {x->getType()}, {x, y, z}); }
  Value add(Value x, Value y) { return b.CreateFAdd(x, y); }
  Value sub(Value x, Value y) { return b.CreateFSub(x, y); }
  Value mul(Value x, Value y) { return b.CreateFMul(x, y); }
  Value div(Value x, Value y) { return b.CreateFDiv(x, y); }
  Value widen(Value v) { return b.CreateFPExt(v, b.getDoubleTy()); }
  Value narrow(Value v) { return b.CreateFPTrunc(v, b.getFloatTy()); }
  Value less(Value x, Value y) { return b.CreateFCmpOLT(x, y); }
  Value equal(Value x, Value y) { return b.CreateFCmpOEQ(x, y); }
  Value is_nan(Value v) { return b.CreateFCmpUNO(v, v); }
  Value select(Value which, Value x, Value y) { return b.CreateSelect(which, x, y); }
  Value bits(Value v) { return b.CreateBitCast(v, b.getInt32Ty()); }
  Value low_bits(Value v) { return b.CreateTrunc(b.CreateBitCast(v, b.getInt64Ty()), b.getInt32Ty()); }
  Value from_bits(Value v) { return b.CreateBitCast(v, b.getFloatTy()); }
  Value iadd(Value x, Value y) { return b.CreateAdd(x, y); }
  Value isub(Value x, Value y) { return b.CreateSub(x, y); }
  Value iand(Value x, Value y) { return b.CreateAnd(x, y); }
  Value ixor(Value x, Value y) { return b.CreateXor(x, y); }
  Value left(Value v, unsigned by) { return b.CreateShl(v, by); }
  Value right(Value v, unsigned by) { return b.CreateAShr(v, by); }
  Value is_zero(Value v) { return b.CreateICmpEQ(v, b.getInt32(0)); }
  Value from_signed(Value v) { return b.CreateSIToFP(v, b.getFloatTy()); }
};

}  // namespace

// Null where the instruction is none of these.
Value FunctionEmitter::approximation(const Inst& in, llvm::ArrayRef<Value> o) {
  auto* real = b_.getDoubleTy();
  Approximations<CodeOps> functions(CodeOps{b_});
  switch (in.op) {
    case Op::kSin: return functions.sin(o[0]);
    case Op::kCos: return functions.cos(o[0]);
    case Op::kLg2: return functions.lg2(o[0]);
    case Op::kEx2: return functions.ex2(o[0]);
    case Op::kTanh: return functions.tanh(o[0]);
    case Op::kRsqrt: {
      Value root = b_.CreateUnaryIntrinsic(llvm::Intrinsic::sqrt, b_.CreateFPExt(o[0], real));
      return b_.CreateFPTrunc(b_.CreateFDiv(llvm::ConstantFP::get(real, 1.0), root), b_.getFloatTy());
    }
    case Op::kDiv: return in.has(Mod::kApprox) ? divide_approximately(o[0], o[1]) : nullptr;
    default: return nullptr;
  }
}

// Zero for 2^126 < |b| < 2^128, as a × (1/b) with a flushed 1/b has it (ISA 9.7.3.8); then infinity by b is a NaN.
Value FunctionEmitter::divide_approximately(Value a, Value b) {
  const auto constant = [&](double v) { return llvm::ConstantFP::get(b_.getFloatTy(), v); };
  const auto magnitude = [&](Value v) { return b_.CreateUnaryIntrinsic(llvm::Intrinsic::fabs, v); };
  Value infinity = llvm::ConstantFP::getInfinity(b_.getFloatTy());
  Value size = magnitude(b);
  Value flushed = b_.CreateAnd(b_.CreateFCmpOGT(size, constant(0x1p126)), b_.CreateFCmpOLT(size, infinity));
  Value sign = b_.CreateAnd(b_.CreateXor(to_bits(a), to_bits(b)), k(32, 0x80000000));
  Value nan = b_.CreateBitCast(k(32, kCanonicalNan32), b_.getFloatTy());
  Value zero = b_.CreateSelect(b_.CreateFCmpOLT(magnitude(a), infinity), b_.CreateBitCast(sign, b_.getFloatTy()), nan);
  return b_.CreateSelect(flushed, zero, b_.CreateFDiv(a, b));
}

}  // namespace pergola::device::cpu::jit
