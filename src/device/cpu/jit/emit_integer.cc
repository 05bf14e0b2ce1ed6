// Integer arithmetic (PTX ISA 9.7.1) and extended precision with carry (9.7.2). Nothing traps: a division by zero
// and its remainder give all ones, as on the hardware.
#include <llvm/IR/Intrinsics.h>

#include "src/device/cpu/jit/emitter.h"

namespace pergola::device::cpu::jit {

using llvm::Intrinsic::ID;
using ptx::Mod;
using ptx::Op;
using ptx::Type;
using Value = llvm::Value*;

Value FunctionEmitter::integer_divide(Value a, Value b, bool is_signed, bool remainder) {
  const unsigned bits = a->getType()->getIntegerBitWidth();
  Value zero = b_.CreateICmpEQ(b, k(bits, 0));
  Value safe = b_.CreateSelect(zero, k(bits, 1), b);
  Value quotient;
  if (is_signed) {
    Value minus_one = b_.CreateICmpEQ(b, llvm::Constant::getAllOnesValue(b->getType()));
    safe = b_.CreateSelect(minus_one, k(bits, 1), safe);
    quotient = b_.CreateSDiv(a, safe);
    quotient = b_.CreateSelect(minus_one, b_.CreateNeg(a), quotient);
  } else {
    quotient = b_.CreateUDiv(a, safe);
  }
  if (remainder) quotient = b_.CreateSub(a, b_.CreateMul(quotient, b));
  return b_.CreateSelect(zero, llvm::Constant::getAllOnesValue(a->getType()), quotient);
}

Value FunctionEmitter::integer_min_max(const Inst& in, Value a, Value b, bool is_signed) {
  const bool is_min = in.op == Op::kMin;
  const ID id = is_signed ? (is_min ? llvm::Intrinsic::smin : llvm::Intrinsic::smax)
                          : (is_min ? llvm::Intrinsic::umin : llvm::Intrinsic::umax);
  Value v = b_.CreateBinaryIntrinsic(id, a, b);
  if (in.has(Mod::kRelu)) v = b_.CreateBinaryIntrinsic(llvm::Intrinsic::smax, v, llvm::Constant::getNullValue(v->getType()));
  return v;
}

// add, sub, min, max of .u16x2 and .s16x2: two lanes in 32 bits.
bool FunctionEmitter::emit_packed_integer(const Inst& in) {
  const Type type = in.type();
  if (type != Type::kU16x2 && type != Type::kS16x2) return false;
  if (in.op != Op::kAdd && in.op != Op::kSub && in.op != Op::kMin && in.op != Op::kMax) return false;
  auto* lanes = llvm::FixedVectorType::get(i(16), 2);
  Value a = b_.CreateBitCast(read(in.operands[1], 32), lanes);
  Value b = b_.CreateBitCast(read(in.operands[2], 32), lanes);
  Value v = in.op == Op::kAdd   ? b_.CreateAdd(a, b)
            : in.op == Op::kSub ? b_.CreateSub(a, b)
                                : integer_min_max(in, a, b, type == Type::kS16x2);
  write(in.operands[0], b_.CreateBitCast(v, i(32)));
  return true;
}

void FunctionEmitter::emit_dot(const Inst& in) {
  const bool four = in.op == Op::kDp4a;
  const bool a_signed = ptx::is_signed(in.type(0)), b_signed = ptx::is_signed(in.type(1));
  Value a = read(in.operands[1], 32), b = read(in.operands[2], 32), sum = read(in.operands[3], 32);
  const auto part = [&](Value v, unsigned at, unsigned bits, bool sign) {
    return resize(b_.CreateTrunc(b_.CreateLShr(v, k(32, at)), i(bits)), 32, sign);
  };
  for (unsigned n = 0; n < (four ? 4u : 2u); ++n) {
    Value x = four ? part(a, 8 * n, 8, a_signed) : part(a, 16 * n, 16, a_signed);
    Value y = part(b, 8 * (n + (!four && in.has(Mod::kHi) ? 2 : 0)), 8, b_signed);
    sum = b_.CreateAdd(sum, b_.CreateMul(x, y));
  }
  write(in.operands[0], sum);
}

// SIMD video: exact in each lane, then clamped where .sat asks for it; .add sums the lanes and c.
void FunctionEmitter::emit_video(const Inst& in) {
  const bool sets = in.op == Op::kVset2 || in.op == Op::kVset4;
  const unsigned lanes = ptx::video_lanes(in.op), bits = 32 / lanes;
  const bool a_signed = ptx::is_signed(in.type(sets ? 0 : 1)), b_signed = ptx::is_signed(in.type(sets ? 1 : 2));
  Value a = read(in.operands.at(1), 32), b = read(in.operands.at(2), 32), sum = read(in.operands.at(3), 32), packed = k(32, 0);
  for (unsigned n = 0; n < lanes; ++n) {
    const auto lane = [&](Value v, bool sign) { return resize(b_.CreateTrunc(b_.CreateLShr(v, k(32, n * bits)), i(bits)), 32, sign); };
    Value v = video_lane(in, lane(a, a_signed), lane(b, b_signed));
    if (in.has(Mod::kSat)) {
      const bool sign = ptx::is_signed(in.type());
      const auto limit = [&](std::int64_t bound) { return llvm::ConstantInt::getSigned(i(32), bound); };
      const std::int64_t range = std::int64_t{1} << bits, least = sign ? -range / 2 : 0;
      v = b_.CreateBinaryIntrinsic(llvm::Intrinsic::smax, v, limit(least));
      v = b_.CreateBinaryIntrinsic(llvm::Intrinsic::smin, v, limit(least + range - 1));
    }
    sum = b_.CreateAdd(sum, v);
    packed = b_.CreateOr(packed, b_.CreateShl(b_.CreateZExt(b_.CreateTrunc(v, i(bits)), i(32)), k(32, n * bits)));
  }
  write(in.operands[0], in.has(Mod::kAdd) ? sum : packed);
}

// One lane of it, of 32-bit numbers that hold more than a lane does.
Value FunctionEmitter::video_lane(const Inst& in, Value a, Value b) {
  switch (in.op) {
    case Op::kVadd2: case Op::kVadd4: return b_.CreateAdd(a, b);
    case Op::kVsub2: case Op::kVsub4: return b_.CreateSub(a, b);
    case Op::kVabsdiff2: case Op::kVabsdiff4: return b_.CreateBinaryIntrinsic(llvm::Intrinsic::abs, b_.CreateSub(a, b), b_.getFalse());
    case Op::kVmin2: case Op::kVmin4: return b_.CreateBinaryIntrinsic(llvm::Intrinsic::smin, a, b);
    case Op::kVmax2: case Op::kVmax4: return b_.CreateBinaryIntrinsic(llvm::Intrinsic::smax, a, b);
    case Op::kVavrg2: case Op::kVavrg4: {  // halves away from negative infinity, but for a negative sum
      Value sum = b_.CreateAdd(a, b);
      return b_.CreateAShr(b_.CreateAdd(sum, b_.CreateZExt(b_.CreateICmpSGE(sum, k(32, 0)), i(32))), k(32, 1));
    }
    default: return b_.CreateZExt(compare(in, Type::kS32, a, b, compare_mod(in)), i(32));
  }
}

bool FunctionEmitter::emit_carry(const Inst& in) {
  const bool uses = in.op == Op::kAddc || in.op == Op::kSubc || in.op == Op::kMadc;
  const bool sets = in.has(Mod::kCc);
  if (!uses && !sets) return false;
  const unsigned bits = bits_of(in.type());
  Value carry_in = uses ? b_.CreateZExt(b_.CreateLoad(i(1), carry_), i(bits)) : k(bits, 0);
  Value a = read(in.operands[1], bits), b = read(in.operands[2], bits);
  const bool subtracts = in.op == Op::kSub || in.op == Op::kSubc;
  if (in.op == Op::kMad || in.op == Op::kMadc) {
    const bool sign = ptx::is_signed(in.type());
    Value wide = b_.CreateMul(resize(a, 2 * bits, sign), resize(b, 2 * bits, sign));
    a = in.has(Mod::kHi) ? b_.CreateTrunc(b_.CreateLShr(wide, k(2 * bits, bits)), i(bits))
                         : b_.CreateTrunc(wide, i(bits));
    b = read(in.operands[3], bits);
  }
  if (subtracts) {  // a + ~b + carry: CC.CF is 1 where nothing was borrowed
    b = b_.CreateNot(b);
    if (!uses) carry_in = k(bits, 1);
  }
  const ID id = llvm::Intrinsic::uadd_with_overflow;
  Value first = b_.CreateBinaryIntrinsic(id, a, b);
  Value second = b_.CreateBinaryIntrinsic(id, b_.CreateExtractValue(first, 0), carry_in);
  if (sets) {
    b_.CreateStore(b_.CreateOr(b_.CreateExtractValue(first, 1), b_.CreateExtractValue(second, 1)), carry_);
  }
  write(in.operands[0], b_.CreateExtractValue(second, 0));
  return true;
}

bool FunctionEmitter::emit_integer(const Inst& in) {
  if (in.op == Op::kDp4a || in.op == Op::kDp2a) return emit_dot(in), true;
  if (ptx::video_lanes(in.op) != 0) return emit_video(in), true;
  if (in.mods.empty() || in.operands.size() < 2) return false;
  const Type type = in.type();
  const ptx::TypeClass kind = ptx::class_of(type);
  if (kind == ptx::TypeClass::kFloat || kind == ptx::TypeClass::kPredicate || kind == ptx::TypeClass::kNone) return false;
  if (emit_packed_integer(in) || emit_carry(in)) return true;
  const unsigned bits = bits_of(type);
  const bool sign = ptx::is_signed(type);
  const auto operand = [&](std::size_t n) { return read(in.operands.at(n), bits, false); };
  const auto done = [&](Value v, bool wide_sign = false) {
    write(in.operands[0], v, wide_sign);
    return true;
  };
  const auto product = [&]() -> Value {
    if (in.has(Mod::kLo)) return b_.CreateMul(operand(1), operand(2));
    Value wide = b_.CreateMul(resize(operand(1), 2 * bits, sign), resize(operand(2), 2 * bits, sign));
    return in.has(Mod::kWide) ? wide : b_.CreateTrunc(b_.CreateLShr(wide, k(2 * bits, bits)), i(bits));
  };
  const auto product24 = [&]() -> Value {
    const auto low = [&](std::size_t n) {
      Value v = b_.CreateTrunc(operand(n), i(24));
      return resize(v, 64, sign);
    };
    Value wide = b_.CreateMul(low(1), low(2));
    return b_.CreateTrunc(in.has(Mod::kHi) ? b_.CreateLShr(wide, k(64, 16)) : wide, i(32));
  };
  const auto sum = [&](Value a, Value b) {
    return in.has(Mod::kSat) ? b_.CreateBinaryIntrinsic(llvm::Intrinsic::sadd_sat, a, b) : b_.CreateAdd(a, b);
  };
  switch (in.op) {
    case Op::kAdd: return done(sum(operand(1), operand(2)), sign);
    case Op::kSub:
      if (in.has(Mod::kSat)) return done(b_.CreateBinaryIntrinsic(llvm::Intrinsic::ssub_sat, operand(1), operand(2)));
      return done(b_.CreateSub(operand(1), operand(2)), sign);
    case Op::kMul: return done(product(), sign);
    case Op::kMad: {
      Value p = product();
      return done(sum(p, read(in.operands.at(3), p->getType()->getIntegerBitWidth())), sign);
    }
    case Op::kMul24: return done(product24());
    case Op::kMad24: return done(sum(product24(), operand(3)));
    case Op::kSad: {
      Value a = operand(1), b = operand(2);
      Value less = sign ? b_.CreateICmpSLT(a, b) : b_.CreateICmpULT(a, b);
      Value distance = b_.CreateSelect(less, b_.CreateSub(b, a), b_.CreateSub(a, b));
      return done(b_.CreateAdd(distance, operand(3)));
    }
    case Op::kDiv: return done(integer_divide(operand(1), operand(2), sign, false), sign);
    case Op::kRem: return done(integer_divide(operand(1), operand(2), sign, true), sign);
    case Op::kAbs:
      return done(b_.CreateBinaryIntrinsic(llvm::Intrinsic::abs, operand(1), b_.getFalse()), sign);
    case Op::kNeg: return done(b_.CreateNeg(operand(1)), sign);
    case Op::kMin: case Op::kMax: return done(integer_min_max(in, operand(1), operand(2), sign), sign);
    default: return false;
  }
}

}  // namespace pergola::device::cpu::jit
