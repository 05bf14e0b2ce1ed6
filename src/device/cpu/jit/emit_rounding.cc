// f32 arithmetic rounded towards zero, down or up: as LLVM code, inline, so that groups of lanes run it as vectors
// (CUDA's expf has an fma.rm). Hosts have no such instruction, and changing their rounding mode is slow and hidden from
// LLVM.
//
// Operands are exact in double, and so are products. A sum, quotient or root is `near`, its rounding to double, and
// `error`, whose sign says on which side of `near` the exact value lies (and of a sum, all that is missing). `near`
// rounded to the nearest float is at most one float from the answer, on the side that comparing it with the exact value
// tells.
#include <llvm/IR/Intrinsics.h>

#include "src/device/cpu/jit/emitter.h"
#include "src/device/cpu/numeric.h"

namespace pergola::device::cpu::jit {

using ptx::Op;
using Value = llvm::Value*;

FunctionEmitter::Exact FunctionEmitter::exact_sum(Value a, Value c, Rounding mode) {
  Value near = b_.CreateFAdd(a, c);
  Value of_c = b_.CreateFSub(near, a);  // what was added of c; then what was of a
  Value error = b_.CreateFAdd(b_.CreateFSub(a, b_.CreateFSub(near, of_c)), b_.CreateFSub(c, of_c));
  if (mode == Rounding::kDown) {  // a sum of nothing is -0, unless both are +0
    Value sign = b_.CreateAnd(b_.CreateOr(to_bits(a), to_bits(c)), k(64, std::uint64_t{1} << 63));
    Value is_zero = b_.CreateFCmpOEQ(near, llvm::ConstantFP::get(b_.getDoubleTy(), 0.0));
    near = b_.CreateSelect(is_zero, b_.CreateBitCast(sign, b_.getDoubleTy()), near);
  }
  return {near, error};
}

// Of f32 operands: add, mul, fma, div, or sqrt, by how many there are.
FunctionEmitter::Exact FunctionEmitter::exact_result(Op op, llvm::ArrayRef<Value> operands, Rounding mode) {
  auto* real = b_.getDoubleTy();
  llvm::SmallVector<Value, 3> o;
  for (Value operand : operands) o.push_back(b_.CreateFPExt(operand, real));
  const auto fma = [&](Value x, Value y, Value z) {
    return b_.CreateIntrinsic(llvm::Intrinsic::fma, {real}, {x, y, z});
  };
  switch (op) {
    case Op::kAdd: return exact_sum(o[0], o[1], mode);
    case Op::kMul: return {b_.CreateFMul(o[0], o[1]), llvm::ConstantFP::get(real, 0.0)};
    case Op::kDiv: {
      Value near = b_.CreateFDiv(o[0], o[1]);
      Value rest = fma(b_.CreateFNeg(near), o[1], o[0]);
      return {near, b_.CreateFMul(rest, o[1])};
    }
    case Op::kSqrt: {
      Value near = b_.CreateUnaryIntrinsic(llvm::Intrinsic::sqrt, o[0]);
      return {near, fma(b_.CreateFNeg(near), near, o[0])};
    }
    default: return exact_sum(b_.CreateFMul(o[0], o[1]), o[2], mode);
  }
}

Value FunctionEmitter::round_exact(Exact exact, Rounding mode) {
  Value nearest = b_.CreateFPTrunc(exact.near, b_.getFloatTy());
  Value back = b_.CreateFPExt(nearest, b_.getDoubleTy());
  Value zero = llvm::ConstantFP::get(b_.getDoubleTy(), 0.0);
  Value same = b_.CreateFCmpOEQ(back, exact.near);
  const auto beside = [&](llvm::CmpInst::Predicate back_is, llvm::CmpInst::Predicate error_is) {
    return b_.CreateOr(b_.CreateFCmp(back_is, back, exact.near),
                       b_.CreateAnd(same, b_.CreateFCmp(error_is, exact.error, zero)));
  };
  const auto above = [&] { return beside(llvm::CmpInst::FCMP_OGT, llvm::CmpInst::FCMP_OLT); };  // the float is
  const auto below = [&] { return beside(llvm::CmpInst::FCMP_OLT, llvm::CmpInst::FCMP_OGT); };
  Value bits = to_bits(nearest);
  Value outward = b_.CreateOr(b_.CreateAShr(bits, 31), 1);  // to the next float above, in bits
  Value moves, to;
  switch (mode) {
    case Rounding::kDown: moves = above(), to = b_.CreateSub(bits, outward); break;
    case Rounding::kUp: moves = below(), to = b_.CreateAdd(bits, outward); break;
    default:  // towards zero
      moves = b_.CreateSelect(b_.CreateICmpSLT(bits, k(32, 0)), below(), above());
      to = b_.CreateSub(bits, k(32, 1));
      break;
  }
  return b_.CreateBitCast(b_.CreateSelect(moves, to, bits), b_.getFloatTy());
}

// Does .ftz flush the result of mul or fma (emit_float.cc)? By rounding it where nothing near it is subnormal.
Value FunctionEmitter::rounds_to_tiny(Exact exact, Rounding mode) {
  Value scale = llvm::ConstantFP::get(b_.getDoubleTy(), 0x1p24);
  Value scaled = round_exact({b_.CreateFMul(exact.near, scale), b_.CreateFMul(exact.error, scale)}, mode);
  Value size = b_.CreateUnaryIntrinsic(llvm::Intrinsic::fabs, scaled);
  return b_.CreateFCmpOLT(size, llvm::ConstantFP::get(b_.getFloatTy(), 0x1p-102));
}

}  // namespace pergola::device::cpu::jit
