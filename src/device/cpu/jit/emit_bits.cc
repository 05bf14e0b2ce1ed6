// Logic, shifts and bit fields (PTX ISA 9.7.1 and 9.7.8). Shift amounts at or above the width clamp: zero, or copies
// of the sign.
#include <llvm/IR/Intrinsics.h>

#include "src/device/cpu/jit/emitter.h"

namespace pergola::device::cpu::jit {

using ptx::Mod;
using ptx::Op;
using ptx::Type;
using Value = llvm::Value*;

// `amount` is i32 whatever the width of `a`.
Value FunctionEmitter::shift_left(Value a, Value amount) {
  const unsigned bits = a->getType()->getIntegerBitWidth();
  Value inside = b_.CreateICmpULT(amount, k(32, bits));
  Value safe = resize(b_.CreateSelect(inside, amount, k(32, 0)), bits);
  return b_.CreateSelect(inside, b_.CreateShl(a, safe), k(bits, 0));
}

Value FunctionEmitter::shift_right(Value a, Value amount, bool arithmetic) {
  const unsigned bits = a->getType()->getIntegerBitWidth();
  Value inside = b_.CreateICmpULT(amount, k(32, bits));
  if (arithmetic) return b_.CreateAShr(a, resize(b_.CreateSelect(inside, amount, k(32, bits - 1)), bits));
  Value safe = resize(b_.CreateSelect(inside, amount, k(32, 0)), bits);
  return b_.CreateSelect(inside, b_.CreateLShr(a, safe), k(bits, 0));
}

// Funnel shift of b:a (b the high half): .l gives the high word of (b:a << c), .r the low word of (b:a >> c).
void FunctionEmitter::emit_shf(const Inst& in) {
  Value a = read(in.operands[1], 32), b = read(in.operands[2], 32), c = read(in.operands[3], 32);
  Value amount = in.has(Mod::kWrap) ? b_.CreateAnd(c, k(32, 31))
                                    : b_.CreateBinaryIntrinsic(llvm::Intrinsic::umin, c, k(32, 32));
  Value both = b_.CreateOr(b_.CreateShl(b_.CreateZExt(b, i(64)), k(64, 32)), b_.CreateZExt(a, i(64)));
  Value wide = b_.CreateZExt(amount, i(64));
  Value v = in.has(Mod::kL) ? b_.CreateLShr(b_.CreateShl(both, wide), k(64, 32)) : b_.CreateLShr(both, wide);
  write(in.operands[0], b_.CreateTrunc(v, i(32)));
}

// prmt: each selector nibble picks one byte of {b, a}; its top bit replicates that byte's sign.
void FunctionEmitter::emit_prmt(const Inst& in) {
  Value a = read(in.operands[1], 32), b = read(in.operands[2], 32), c = read(in.operands[3], 32);
  Value both = b_.CreateOr(b_.CreateShl(b_.CreateZExt(b, i(64)), k(64, 32)), b_.CreateZExt(a, i(64)));
  const auto byte = [&](Value index) {  // index: i32 in 0..7
    Value shift = b_.CreateZExt(b_.CreateShl(index, k(32, 3)), i(64));
    return b_.CreateAnd(b_.CreateTrunc(b_.CreateLShr(both, shift), i(32)), k(32, 0xff));
  };
  static constexpr struct { Mod mod; std::uint16_t selector[4]; } kModes[] = {
      {Mod::kF4e, {0x3210, 0x4321, 0x5432, 0x6543}},
      {Mod::kB4e, {0x5670, 0x6701, 0x7012, 0x0123}},
      {Mod::kRc8, {0x0000, 0x1111, 0x2222, 0x3333}},
      {Mod::kEcl, {0x3210, 0x3211, 0x3222, 0x3333}},
      {Mod::kEcr, {0x0000, 0x1110, 0x2210, 0x3210}},
      {Mod::kRc16, {0x1010, 0x3232, 0x1010, 0x3232}},
  };
  Value selector = c;
  bool replicate = true;
  for (const auto& mode : kModes) {
    if (!in.has(mode.mod)) continue;
    replicate = false;
    Value low = b_.CreateAnd(c, k(32, 3));
    selector = k(32, mode.selector[0]);
    for (unsigned n = 1; n < 4; ++n) {
      selector = b_.CreateSelect(b_.CreateICmpEQ(low, k(32, n)), k(32, mode.selector[n]), selector);
    }
  }
  Value result = k(32, 0);
  for (unsigned n = 0; n < 4; ++n) {
    Value nibble = b_.CreateLShr(selector, k(32, 4 * n));
    Value picked = byte(b_.CreateAnd(nibble, k(32, 7)));
    if (replicate) {
      Value sign = b_.CreateAnd(b_.CreateAShr(b_.CreateTrunc(picked, i(8)), k(8, 7)), k(8, 0xff));
      Value msb = b_.CreateICmpNE(b_.CreateAnd(nibble, k(32, 8)), k(32, 0));
      picked = b_.CreateSelect(msb, b_.CreateZExt(sign, i(32)), picked);
    }
    result = b_.CreateOr(result, b_.CreateShl(picked, k(32, 8 * n)));
  }
  write(in.operands[0], result);
}

// A field's position or length: 8 bits; of 64-bit fields the hardware takes all 32 (seen on an H200), where everything
// from 64 on is alike.
Value FunctionEmitter::field_number(const ptx::Operand& operand, unsigned bits) {
  Value v = read(operand, 32);
  return bits == 64 ? b_.CreateBinaryIntrinsic(llvm::Intrinsic::umin, v, k(32, 255)) : b_.CreateAnd(v, k(32, 255));
}

// bfe d, a, pos, len: bits beyond the top are copies of the sign (signed) or zero.
void FunctionEmitter::emit_bfe(const Inst& in) {
  const Type type = in.type();
  const unsigned bits = bits_of(type);
  const bool sign = ptx::is_signed(type);
  Value a = read(in.operands[1], bits);
  Value pos = field_number(in.operands[2], bits), len = field_number(in.operands[3], bits);
  Value shifted = shift_right(a, pos, sign);
  Value empty = b_.CreateICmpEQ(len, k(32, 0));
  Value whole = b_.CreateICmpUGE(len, k(32, bits));
  Value v;
  if (sign) {  // the sign bit is bit min(pos + len - 1, msb) of a; shifting up and down copies it
    Value up = b_.CreateSelect(whole, k(32, 0), b_.CreateSub(k(32, bits), len));
    Value safe = resize(b_.CreateSelect(empty, k(32, 0), up), bits);
    v = b_.CreateAShr(b_.CreateShl(shifted, safe), safe);
  } else {
    Value mask = b_.CreateSub(shift_left(k(bits, 1), len), k(bits, 1));
    v = b_.CreateAnd(shifted, mask);
  }
  write(in.operands[0], b_.CreateSelect(empty, k(bits, 0), v));
}

bool FunctionEmitter::emit_bits(const Inst& in) {
  if (in.operands.size() < 2) return false;
  const Type type = in.type();
  const unsigned bits = bits_of(type);
  const auto operand = [&](std::size_t n) { return read(in.operands.at(n), bits); };
  const auto done = [&](Value v, bool sign = false) {
    write(in.operands[0], v, sign);
    return true;
  };
  switch (in.op) {
    case Op::kAnd: return done(b_.CreateAnd(operand(1), operand(2)));
    case Op::kOr: return done(b_.CreateOr(operand(1), operand(2)));
    case Op::kXor: return done(b_.CreateXor(operand(1), operand(2)));
    case Op::kNot: return done(b_.CreateNot(operand(1)));
    case Op::kCnot: return done(b_.CreateZExt(b_.CreateICmpEQ(operand(1), k(bits, 0)), i(bits)));
    case Op::kShl: return done(shift_left(operand(1), read(in.operands.at(2), 32)));
    case Op::kShr:
      return done(shift_right(operand(1), read(in.operands.at(2), 32), ptx::is_signed(type)), ptx::is_signed(type));
    case Op::kShf: return emit_shf(in), true;
    case Op::kPrmt: return emit_prmt(in), true;
    case Op::kBfe: return emit_bfe(in), true;
    case Op::kLop3: {
      if (in.has(Mod::kAnd) || in.has(Mod::kOr) || in.operands.size() != 5) return false;
      Value x = operand(1), y = operand(2), z = operand(3), v = k(32, 0);
      const std::uint64_t table = in.operands[4].bits;
      for (unsigned n = 0; n < 8; ++n) {
        if (((table >> n) & 1) == 0) continue;
        Value term = b_.CreateAnd((n & 4) != 0 ? x : b_.CreateNot(x), (n & 2) != 0 ? y : b_.CreateNot(y));
        v = b_.CreateOr(v, b_.CreateAnd(term, (n & 1) != 0 ? z : b_.CreateNot(z)));
      }
      return done(v);
    }
    case Op::kPopc: return done(resize(b_.CreateUnaryIntrinsic(llvm::Intrinsic::ctpop, operand(1)), 32));
    case Op::kClz: {
      return done(resize(b_.CreateBinaryIntrinsic(llvm::Intrinsic::ctlz, operand(1), b_.getFalse()), 32));
    }
    case Op::kBrev: return done(b_.CreateUnaryIntrinsic(llvm::Intrinsic::bitreverse, operand(1)));
    case Op::kBfind: {
      Value a = operand(1);
      if (ptx::is_signed(type)) a = b_.CreateXor(a, b_.CreateAShr(a, k(bits, bits - 1)));
      Value zeros = b_.CreateBinaryIntrinsic(llvm::Intrinsic::ctlz, a, b_.getFalse());
      Value v = in.has(Mod::kShiftamt) ? zeros : b_.CreateSub(k(bits, bits - 1), zeros);
      Value none = b_.CreateICmpEQ(a, k(bits, 0));
      return done(b_.CreateSelect(none, k(32, 0xffffffff), resize(v, 32)));
    }
    case Op::kBfi: {  // bfi f, a, b, pos, len: the low len bits of a, put into b at pos
      Value pos = field_number(in.operands.at(3), bits), len = field_number(in.operands.at(4), bits);
      Value mask = shift_left(b_.CreateSub(shift_left(k(bits, 1), len), k(bits, 1)), pos);
      return done(b_.CreateOr(b_.CreateAnd(operand(2), b_.CreateNot(mask)),
                              b_.CreateAnd(shift_left(operand(1), pos), mask)));
    }
    case Op::kBmsk: {
      Value from = read(in.operands.at(1), 32), width = read(in.operands.at(2), 32);
      if (!in.has(Mod::kClamp)) {
        from = b_.CreateAnd(from, k(32, 31));
        width = b_.CreateAnd(width, k(32, 31));
      }
      return done(shift_left(b_.CreateSub(shift_left(k(32, 1), width), k(32, 1)), from));
    }
    case Op::kSzext: {
      Value a = operand(1), n = read(in.operands.at(2), 32);
      if (!in.has(Mod::kClamp)) n = b_.CreateAnd(n, k(32, 31));
      Value whole = b_.CreateICmpUGE(n, k(32, 32));
      Value none = b_.CreateICmpEQ(n, k(32, 0));
      Value up = b_.CreateSelect(b_.CreateOr(whole, none), k(32, 0), b_.CreateSub(k(32, 32), n));
      Value high = b_.CreateShl(a, up);
      Value v = ptx::is_signed(type) ? b_.CreateAShr(high, up) : b_.CreateLShr(high, up);
      return done(b_.CreateSelect(none, k(32, 0), v));
    }
    case Op::kFns:
      return done(call_runtime("pergola_jit_fns", i(32), {read(in.operands.at(1), 32), read(in.operands.at(2), 32),
                                                           read(in.operands.at(3), 32)}, true));
    default: return false;
  }
}

}  // namespace pergola::device::cpu::jit
