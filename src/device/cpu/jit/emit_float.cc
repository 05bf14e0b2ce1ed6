// Floating point (PTX ISA 9.7.3 to 9.7.5): f32, f64, f16, bf16 and their packed pairs. Never contracted, never
// reordered. Round to nearest is LLVM's own arithmetic; directed modes and f16 fma call numeric.h.
#include <llvm/IR/Intrinsics.h>

#include "src/device/cpu/jit/emitter.h"
#include "src/device/cpu/numeric.h"

namespace pergola::device::cpu::jit {

using ptx::Mod;
using ptx::Op;
using ptx::Type;
using Value = llvm::Value*;

namespace {
bool is_half(Type type) { return type == Type::kF16 || type == Type::kBF16; }
bool takes_narrow(Op op) { return op == Op::kAdd || op == Op::kSub || op == Op::kFma; }
}  // namespace

int FunctionEmitter::rounding(const Inst& in) const {
  for (Mod mod : in.mods) {
    switch (mod) {
      case Mod::kRn: case Mod::kRni: return static_cast<int>(Rounding::kNearestEven);
      case Mod::kRz: case Mod::kRzi: return static_cast<int>(Rounding::kTowardZero);
      case Mod::kRm: case Mod::kRmi: return static_cast<int>(Rounding::kDown);
      case Mod::kRp: case Mod::kRpi: return static_cast<int>(Rounding::kUp);
      case Mod::kRna: return static_cast<int>(Rounding::kNearestAway);
      default: break;
    }
  }
  return static_cast<int>(Rounding::kNearestEven);
}

Value FunctionEmitter::canonical(Value v) {
  if (!v->getType()->isFloatTy()) return v;  // f64 operations keep the payload, as the host does
  return call_runtime(kCanonicalF32, b_.getFloatTy(), {v}, true);
}

Value FunctionEmitter::flush(Value v) {
  if (!v->getType()->isFloatTy()) return v;
  Value bits = b_.CreateBitCast(v, i(32));
  Value small = b_.CreateICmpEQ(b_.CreateAnd(bits, k(32, 0x7f800000)), k(32, 0));
  return b_.CreateSelect(small, b_.CreateBitCast(b_.CreateAnd(bits, k(32, 0x80000000)), v->getType()), v);
}

Value FunctionEmitter::flush_half(Value pattern, Type type) {
  const std::uint64_t exponent = type == Type::kBF16 ? 0x7f80 : 0x7c00;
  Value small = b_.CreateICmpEQ(b_.CreateAnd(pattern, k(16, exponent)), k(16, 0));
  return b_.CreateSelect(small, b_.CreateAnd(pattern, k(16, 0x8000)), pattern);
}

Value FunctionEmitter::saturate(Value v) {
  auto* zero = llvm::ConstantFP::get(v->getType(), 0.0);
  auto* one = llvm::ConstantFP::get(v->getType(), 1.0);
  Value positive = b_.CreateSelect(b_.CreateFCmpOGT(v, zero), v, zero);
  return b_.CreateSelect(b_.CreateFCmpOGT(positive, one), one, positive);
}

// max(v, +0); a NaN stays.
Value FunctionEmitter::relu(Value v) {
  auto* zero = llvm::ConstantFP::get(v->getType(), 0.0);
  return b_.CreateSelect(b_.CreateFCmpUGT(v, zero), v, zero);
}

Value FunctionEmitter::half_to_float(Value pattern, Type type) {
  if (type == Type::kBF16) {
    return b_.CreateBitCast(b_.CreateShl(b_.CreateZExt(pattern, i(32)), k(32, 16)), b_.getFloatTy());
  }
  return b_.CreateFPExt(b_.CreateBitCast(pattern, b_.getHalfTy()), b_.getFloatTy());
}

Value FunctionEmitter::float_to_half(Value v, Type type) {
  Value nan = b_.CreateFCmpUNO(v, v);
  Value pattern;
  if (type == Type::kBF16) {
    Value bits = b_.CreateBitCast(v, i(32));
    Value odd = b_.CreateAnd(b_.CreateLShr(bits, k(32, 16)), k(32, 1));
    Value rounded = b_.CreateAdd(bits, b_.CreateAdd(odd, k(32, 0x7fff)));
    pattern = b_.CreateTrunc(b_.CreateLShr(rounded, k(32, 16)), i(16));
  } else {
    pattern = b_.CreateBitCast(b_.CreateFPTrunc(v, b_.getHalfTy()), i(16));
  }
  return b_.CreateSelect(nan, k(16, kCanonicalNan16), pattern);
}

// .ftz of mul and fma of f32: what lies below the smallest normal number before its exponent is bounded is flushed, also
// where rounding makes that number of it (numeric.h). With operands scaled by 2^24 nothing near it is subnormal.
Value FunctionEmitter::flush_tiny(const Inst& in, Value v, llvm::ArrayRef<Value> o) {
  auto* type = v->getType();
  const auto constant = [&](double value) { return llvm::ConstantFP::get(type, value); };
  Value tiny;
  if (rounding(in) == 0) {
    Value scaled = b_.CreateFMul(o[0], constant(0x1p24));
    scaled = in.op == Op::kMul ? b_.CreateFMul(scaled, o[1])
                               : b_.CreateIntrinsic(llvm::Intrinsic::fma, {type}, {scaled, o[1], b_.CreateFMul(o[2], constant(0x1p24))});
    tiny = b_.CreateFCmpOLT(b_.CreateUnaryIntrinsic(llvm::Intrinsic::fabs, scaled), constant(0x1p-102));
  } else {
    const auto towards = static_cast<Rounding>(rounding(in));
    tiny = rounds_to_tiny(exact_result(in.op, o, towards), towards);
  }
  Value zero = b_.CreateBitCast(b_.CreateAnd(b_.CreateBitCast(v, i(32)), k(32, 0x80000000)), type);
  return b_.CreateSelect(tiny, zero, v);
}

// ISA 9.7.3.11: -0 < +0; a NaN loses to a number, unless .NaN asks to keep it.
Value FunctionEmitter::float_min_max(const Inst& in, Value a, Value b) {
  const bool is_min = in.op == Op::kMin;
  auto* type = a->getType();
  const unsigned bits = type->getPrimitiveSizeInBits();
  Value a_sign = nullptr;
  if (in.has(Mod::kXorsign)) {
    a_sign = b_.CreateAnd(b_.CreateXor(to_bits(a), to_bits(b)), k(bits, std::uint64_t{1} << (bits - 1)));
  }
  if (in.has(Mod::kXorsign) || in.has(Mod::kAbs)) {
    a = b_.CreateUnaryIntrinsic(llvm::Intrinsic::fabs, a);
    b = b_.CreateUnaryIntrinsic(llvm::Intrinsic::fabs, b);
  }
  Value first = is_min ? b_.CreateFCmpOLT(a, b) : b_.CreateFCmpOGT(a, b);
  Value v = b_.CreateSelect(first, a, b);
  Value same = is_min ? b_.CreateOr(to_bits(a), to_bits(b)) : b_.CreateAnd(to_bits(a), to_bits(b));
  v = b_.CreateSelect(b_.CreateFCmpOEQ(a, b), b_.CreateBitCast(same, type), v);
  Value a_nan = b_.CreateFCmpUNO(a, a), b_nan = b_.CreateFCmpUNO(b, b);
  Value nan = bits == 64 ? b_.CreateBitCast(b_.CreateOr(to_bits(b_.CreateSelect(b_nan, b, a)), k(64, std::uint64_t{1} << 51)), type)
                         : b_.CreateBitCast(k(32, kCanonicalNan32), type);
  v = b_.CreateSelect(b_nan, a, b_.CreateSelect(a_nan, b, v));
  if (a_sign != nullptr) v = b_.CreateBitCast(b_.CreateXor(to_bits(v), a_sign), type);
  Value gives_nan = in.has(Mod::kNaN) ? b_.CreateOr(a_nan, b_nan) : b_.CreateAnd(a_nan, b_nan);
  return b_.CreateSelect(gives_nan, nan, v);
}

// One operation on float or double operands, already flushed.
Value FunctionEmitter::float_arithmetic(const Inst& in, unsigned bits, llvm::ArrayRef<Value> o) {
  const int mode = rounding(in);
  auto* type = o[0]->getType();
  const auto directed = [&](Op op, const char* name, llvm::ArrayRef<Value> operands) {
    const auto towards = static_cast<Rounding>(mode);
    if (bits == 32) return round_exact(exact_result(op, operands, towards), towards);
    std::vector<Value> arguments(operands.begin(), operands.end());
    arguments.push_back(k(32, static_cast<std::uint64_t>(mode)));
    return call_runtime(std::string("pergola_jit_") + name + "_f64", type, arguments, true);
  };
  const auto negate = [&](Value v) { return b_.CreateSelect(b_.CreateFCmpUNO(v, v), v, b_.CreateFNeg(v)); };  // a NaN stays
  if (bits == 64 && (in.op == Op::kRsqrt || (in.op == Op::kRcp && in.has(Mod::kApprox)))) {
    const char* name = in.op == Op::kRcp ? "pergola_jit_approx_rcp_f64" : in.has(Mod::kFtz) ? "pergola_jit_approx_rsqrt_f64" : "pergola_jit_rsqrt_f64";
    return call_runtime(name, type, {o[0]}, true);
  }
  if (Value v = bits == 32 ? approximation(in, o) : nullptr) return v;
  switch (in.op) {
    case Op::kAdd: return mode == 0 ? b_.CreateFAdd(o[0], o[1]) : directed(Op::kAdd, "add", {o[0], o[1]});
    case Op::kSub: return mode == 0 ? b_.CreateFSub(o[0], o[1]) : directed(Op::kAdd, "add", {o[0], negate(o[1])});
    case Op::kMul: return mode == 0 ? b_.CreateFMul(o[0], o[1]) : directed(Op::kMul, "mul", {o[0], o[1]});
    case Op::kFma: case Op::kMad:
      if (mode != 0) return directed(Op::kFma, "fma", {o[0], o[1], o[2]});
      return b_.CreateIntrinsic(llvm::Intrinsic::fma, {type}, {o[0], o[1], o[2]});
    case Op::kDiv: return mode == 0 ? b_.CreateFDiv(o[0], o[1]) : directed(Op::kDiv, "div", {o[0], o[1]});
    case Op::kRcp: {
      Value one = llvm::ConstantFP::get(type, 1.0);
      return mode == 0 ? b_.CreateFDiv(one, o[0]) : directed(Op::kDiv, "div", {one, o[0]});
    }
    case Op::kSqrt:
      return mode == 0 ? b_.CreateUnaryIntrinsic(llvm::Intrinsic::sqrt, o[0]) : directed(Op::kSqrt, "sqrt", {o[0]});
    case Op::kMin: case Op::kMax: {
      Value v = float_min_max(in, o[0], o[1]);
      return o.size() > 2 ? float_min_max(in, v, o[2]) : v;
    }
    default: refuse(in, "the operation is not implemented in this tier");
  }
}

// One lane of any float type; 16-bit types come and go as patterns.
Value FunctionEmitter::float_operation(const Inst& in, Type type, llvm::ArrayRef<Value> operands) {
  const bool half = is_half(type);
  const unsigned bits = bits_of(type);
  const bool ftz = in.has(Mod::kFtz);
  std::vector<Value> o(operands.begin(), operands.end());
  if (ftz) {
    for (Value& v : o) v = half ? flush_half(v, type) : flush(v);
  }
  if (in.op == Op::kNeg || in.op == Op::kAbs) {  // on the bits
    Value v = to_bits(o[0]);
    const std::uint64_t sign = std::uint64_t{1} << (bits - 1);
    v = in.op == Op::kNeg ? b_.CreateXor(v, k(bits, sign)) : b_.CreateAnd(v, b_.CreateNot(k(bits, sign)));
    if (bits == 32) return canonical(b_.CreateBitCast(v, float_type(32)));
    if (bits == 64) {  // a NaN becomes quiet and keeps its sign
      Value kept = b_.CreateOr(to_bits(o[0]), k(64, std::uint64_t{1} << 51));
      return b_.CreateBitCast(b_.CreateSelect(b_.CreateFCmpUNO(o[0], o[0]), kept, v), float_type(64));
    }
    Value wide = half_to_float(o[0], type);
    return b_.CreateSelect(b_.CreateFCmpUNO(wide, wide), k(16, kCanonicalNan16), v);
  }
  Value v;
  if (half && in.op == Op::kFma) {
    const char* name = type == Type::kBF16 ? "pergola_jit_fma_bf16" : ftz ? "pergola_jit_fma_ftz_f16" : "pergola_jit_fma_f16";
    v = b_.CreateTrunc(call_runtime(name, i(32), {b_.CreateZExt(o[0], i(32)), b_.CreateZExt(o[1], i(32)),
                                                  b_.CreateZExt(o[2], i(32))}, true), i(16));
    if (in.has(Mod::kSat) || in.has(Mod::kRelu)) v = half_to_float(v, type);
  } else if (half) {
    std::vector<Value> wide;
    for (Value operand : o) wide.push_back(half_to_float(operand, type));
    v = float_arithmetic(in, 32, wide);
    if (ftz && in.op == Op::kMul) {  // exact so far: below this it rounds to less than the smallest normal f16
      Value tiny = b_.CreateFCmpOLT(b_.CreateUnaryIntrinsic(llvm::Intrinsic::fabs, v),
                                    llvm::ConstantFP::get(v->getType(), (1 - 0x1p-12) * 0x1p-14));
      Value zero = b_.CreateBitCast(b_.CreateAnd(b_.CreateBitCast(v, i(32)), k(32, 0x80000000)), v->getType());
      v = b_.CreateSelect(tiny, zero, v);
    }
  } else {
    v = float_arithmetic(in, bits, o);
    const bool product = in.op == Op::kMul || in.op == Op::kFma || in.op == Op::kMad;
    if (ftz && product && bits == 32) v = flush_tiny(in, v, o);
  }
  if (in.has(Mod::kSat)) v = saturate(v);
  if (in.has(Mod::kRelu)) v = relu(v);
  if (half) {
    if (v->getType()->isFloatTy()) v = float_to_half(v, type);
    return ftz ? flush_half(v, type) : v;
  }
  return canonical(ftz ? flush(v) : v);
}

void FunctionEmitter::emit_float_operation(const Inst& in, Type type) {
  const bool packed = type == Type::kF16x2 || type == Type::kBF16x2 || type == Type::kF32x2;
  const std::size_t count = in.operands.size();
  if (!packed) {
    std::vector<Value> operands;
    for (std::size_t n = 1; n < count; ++n) {  // factors of add, sub and fma.f32.f16 are narrower: widened exactly
      operands.push_back(is_half(type) ? read(in.operands[n], 16) : read_float(in.operands[n], ptx::operand_type(in, n)));
    }
    return write(in.operands[0], float_operation(in, type, operands));
  }
  const Type lane_type = type == Type::kF16x2 ? Type::kF16 : type == Type::kBF16x2 ? Type::kBF16 : Type::kF32;
  const unsigned lane_bits = bits_of(lane_type), bits = 2 * lane_bits;
  std::vector<Value> whole;
  for (std::size_t n = 1; n < count; ++n) whole.push_back(read(in.operands[n], bits));
  Value result = k(bits, 0);
  for (unsigned lane = 0; lane < 2; ++lane) {
    std::vector<Value> operands;
    for (Value v : whole) {
      Value part = b_.CreateTrunc(b_.CreateLShr(v, k(bits, lane * lane_bits)), i(lane_bits));
      operands.push_back(lane_type == Type::kF32 ? b_.CreateBitCast(part, b_.getFloatTy()) : part);
    }
    Value v = b_.CreateZExt(to_bits(float_operation(in, lane_type, operands)), i(bits));
    result = b_.CreateOr(result, b_.CreateShl(v, k(bits, lane * lane_bits)));
  }
  write(in.operands[0], result);
}

bool FunctionEmitter::emit_float(const Inst& in) {
  if (in.operands.size() < 2) return false;
  Type type = in.type();
  switch (in.op) {
    case Op::kTestp: {
      Value a = read_float(in.operands[1], type);
      unsigned test = 0;
      if (in.has(Mod::kFinite)) test = llvm::fcFinite;
      if (in.has(Mod::kInfinite)) test = llvm::fcInf;
      if (in.has(Mod::kNumber)) test = llvm::fcAllFlags & ~llvm::fcNan;
      if (in.has(Mod::kNotanumber)) test = llvm::fcNan;
      if (in.has(Mod::kNormal)) test = llvm::fcNormal | llvm::fcZero;  // ISA 9.7.3.1
      if (in.has(Mod::kSubnormal)) test = llvm::fcSubnormal;
      write(in.operands[0], b_.createIsFPClass(a, test));
      return true;
    }
    case Op::kCopysign: {  // the sign of a with the magnitude of b
      const unsigned bits = bits_of(type);
      const std::uint64_t sign = std::uint64_t{1} << (bits - 1);
      Value a = read(in.operands[1], bits), b = read(in.operands[2], bits);
      write(in.operands[0], b_.CreateOr(b_.CreateAnd(a, k(bits, sign)), b_.CreateAnd(b, k(bits, sign - 1))));
      return true;
    }
    case Op::kAdd: case Op::kSub: case Op::kMul: case Op::kFma: case Op::kMad: case Op::kDiv: case Op::kAbs:
    case Op::kNeg: case Op::kMin: case Op::kMax: case Op::kRcp: case Op::kSqrt: case Op::kRsqrt: case Op::kSin:
    case Op::kCos: case Op::kLg2: case Op::kEx2: case Op::kTanh:
      if (!ptx::is_float(type)) return false;
      if (in.type(1) != Type::kNone && !(type == Type::kF32 && is_half(in.type(1)) && takes_narrow(in.op))) return false;
      if (bits_of(type) == 0 || type == Type::kTF32) return false;
      return emit_float_operation(in, type), true;
    default: return false;
  }
}

}  // namespace pergola::device::cpu::jit
