// Comparison and selection (PTX ISA 9.7.5 and 9.7.6): setp, set, selp, slct, and their f16 forms (9.7.4).
#include "src/device/cpu/jit/emitter.h"

namespace pergola::device::cpu::jit {

using llvm::CmpInst;
using ptx::Mod;
using ptx::Op;
using ptx::Type;
using Value = llvm::Value*;

Mod FunctionEmitter::compare_mod(const Inst& in) const {
  for (Mod mod : in.mods) {
    switch (mod) {
      case Mod::kEq: case Mod::kNe: case Mod::kLt: case Mod::kLe: case Mod::kGt: case Mod::kGe: case Mod::kLo:
      case Mod::kLs: case Mod::kHi: case Mod::kHs: case Mod::kEqu: case Mod::kNeu: case Mod::kLtu: case Mod::kLeu:
      case Mod::kGtu: case Mod::kGeu: case Mod::kNum: case Mod::kNan: return mod;
      default: break;
    }
  }
  refuse(in, "it names no comparison");
}

Value FunctionEmitter::compare(const Inst& in, Type type, Value a, Value b, Mod operation) {
  if (ptx::is_float(type)) {
    CmpInst::Predicate predicate;
    switch (operation) {
      case Mod::kEq: predicate = CmpInst::FCMP_OEQ; break;
      case Mod::kNe: predicate = CmpInst::FCMP_ONE; break;
      case Mod::kLt: predicate = CmpInst::FCMP_OLT; break;
      case Mod::kLe: predicate = CmpInst::FCMP_OLE; break;
      case Mod::kGt: predicate = CmpInst::FCMP_OGT; break;
      case Mod::kGe: predicate = CmpInst::FCMP_OGE; break;
      case Mod::kEqu: predicate = CmpInst::FCMP_UEQ; break;
      case Mod::kNeu: predicate = CmpInst::FCMP_UNE; break;
      case Mod::kLtu: predicate = CmpInst::FCMP_ULT; break;
      case Mod::kLeu: predicate = CmpInst::FCMP_ULE; break;
      case Mod::kGtu: predicate = CmpInst::FCMP_UGT; break;
      case Mod::kGeu: predicate = CmpInst::FCMP_UGE; break;
      case Mod::kNum: predicate = CmpInst::FCMP_ORD; break;
      case Mod::kNan: predicate = CmpInst::FCMP_UNO; break;
      default: refuse(in, "the comparison is not one of floats");
    }
    return b_.CreateFCmp(predicate, a, b);
  }
  const bool sign = ptx::is_signed(type);
  switch (operation) {
    case Mod::kEq: return b_.CreateICmpEQ(a, b);
    case Mod::kNe: return b_.CreateICmpNE(a, b);
    case Mod::kLt: return sign ? b_.CreateICmpSLT(a, b) : b_.CreateICmpULT(a, b);
    case Mod::kLe: return sign ? b_.CreateICmpSLE(a, b) : b_.CreateICmpULE(a, b);
    case Mod::kGt: return sign ? b_.CreateICmpSGT(a, b) : b_.CreateICmpUGT(a, b);
    case Mod::kGe: return sign ? b_.CreateICmpSGE(a, b) : b_.CreateICmpUGE(a, b);
    case Mod::kLo: return b_.CreateICmpULT(a, b);
    case Mod::kLs: return b_.CreateICmpULE(a, b);
    case Mod::kHi: return b_.CreateICmpUGT(a, b);
    case Mod::kHs: return b_.CreateICmpUGE(a, b);
    default: refuse(in, "the comparison is not one of integers");
  }
}

// The optional third source: p combined with predicate c by .and, .or or .xor.
Value FunctionEmitter::combine(const Inst& in, Value p, const ptx::Operand& c) {
  Value other = read_pred(c);
  if (in.has(Mod::kAnd)) return b_.CreateAnd(p, other);
  if (in.has(Mod::kOr)) return b_.CreateOr(p, other);
  if (in.has(Mod::kXor)) return b_.CreateXor(p, other);
  refuse(in, "it combines with a predicate by no operation");
}

void FunctionEmitter::emit_setp(const Inst& in) {
  const Type type = in.type();
  const Mod operation = compare_mod(in);
  const bool combines = in.operands.size() > 3;
  const bool packed = type == Type::kF16x2 || type == Type::kBF16x2;
  const ptx::Operand& destination = in.operands[0];
  const bool pair = destination.kind == ptx::Operand::Kind::kPair;
  const auto settle = [&](Value p) { return combines ? combine(in, p, in.operands[3]) : p; };
  if (packed) {
    const Type half = type == Type::kF16x2 ? Type::kF16 : Type::kBF16;
    Value a = read(in.operands[1], 32), b = read(in.operands[2], 32);
    for (unsigned n = 0; n < (pair ? 2u : 1u); ++n) {
      const auto lane = [&](Value v) {
        Value pattern = b_.CreateTrunc(b_.CreateLShr(v, k(32, 16 * n)), i(16));
        return half_to_float(in.has(Mod::kFtz) ? flush_half(pattern, half) : pattern, half);
      };
      write(pair ? destination.elements[n] : destination, settle(compare(in, half, lane(a), lane(b), operation)));
    }
    return;
  }
  Value a, b;
  if (ptx::is_float(type)) {
    a = read_float(in.operands[1], type, in.has(Mod::kFtz));
    b = read_float(in.operands[2], type, in.has(Mod::kFtz));
  } else {
    a = read(in.operands[1], bits_of(type));
    b = read(in.operands[2], bits_of(type));
  }
  Value p = compare(in, type, a, b, operation);
  if (!pair) return write(destination, settle(p));
  Value yes = settle(p), no = settle(b_.CreateNot(p));  // before either is written: c may be one of them
  write(destination.elements[0], yes);
  write(destination.elements[1], no);
}

void FunctionEmitter::emit_set(const Inst& in) {
  const Type to = in.type(0), from = in.type(1);
  const bool packed = from == Type::kF16x2 || from == Type::kBF16x2;
  Value a, b;
  if (packed) {  // a true half is 1.0, or all ones where the destination is an integer
    const Type half = from == Type::kF16x2 ? Type::kF16 : Type::kBF16;
    const std::uint64_t truth = to == Type::kF16x2 ? 0x3c00 : to == Type::kBF16x2 ? 0x3f80 : 0xffff;
    a = read(in.operands[1], 32);
    b = read(in.operands[2], 32);
    Value both = k(32, 0);
    for (unsigned n = 0; n < 2; ++n) {
      const auto lane = [&](Value v) {
        Value pattern = b_.CreateTrunc(b_.CreateLShr(v, k(32, 16 * n)), i(16));
        return half_to_float(in.has(Mod::kFtz) ? flush_half(pattern, half) : pattern, half);
      };
      Value p = compare(in, half, lane(a), lane(b), compare_mod(in));
      if (in.operands.size() > 3) p = combine(in, p, in.operands[3]);
      both = b_.CreateOr(both, b_.CreateSelect(p, k(32, truth << (16 * n)), k(32, 0)));
    }
    return write(in.operands[0], both);
  }
  if (ptx::is_float(from)) {
    a = read_float(in.operands[1], from, in.has(Mod::kFtz));
    b = read_float(in.operands[2], from, in.has(Mod::kFtz));
  } else {
    a = read(in.operands[1], bits_of(from));
    b = read(in.operands[2], bits_of(from));
  }
  Value p = compare(in, from, a, b, compare_mod(in));
  if (in.operands.size() > 3) p = combine(in, p, in.operands[3]);
  if (!ptx::is_float(to)) return write(in.operands[0], b_.CreateSExt(p, i(bits_of(to))), true);
  const std::uint64_t one = to == Type::kF32 ? 0x3f800000u : to == Type::kF16 ? 0x3c00u : 0x3f80u;
  write(in.operands[0], b_.CreateSelect(p, k(bits_of(to), one), k(bits_of(to), 0)));
}

bool FunctionEmitter::emit_compare(const Inst& in) {
  switch (in.op) {
    case Op::kSetp: return emit_setp(in), true;
    case Op::kSet: return emit_set(in), true;
    case Op::kSelp: {
      const unsigned bits = bits_of(in.type());
      Value p = read_pred(in.operands[3]);
      const auto value = [&](const ptx::Operand& o) {
        return ptx::is_float(in.type()) && bits >= 32 ? read_float(o, in.type()) : read(o, bits);
      };
      write(in.operands[0], b_.CreateSelect(p, value(in.operands[1]), value(in.operands[2])),
            ptx::is_signed(in.type()));
      return true;
    }
    case Op::kSlct: {  // slct d, a, b, c: c >= 0 ? a : b
      const unsigned bits = bits_of(in.type(0));
      Value take;
      if (in.type(1) == Type::kF32) {
        Value c = read_float(in.operands[3], Type::kF32);
        if (in.has(Mod::kFtz)) c = flush(c);
        take = b_.CreateFCmpOGE(c, llvm::ConstantFP::get(c->getType(), 0.0));
      } else {
        take = b_.CreateICmpSGE(read(in.operands[3], 32), k(32, 0));
      }
      write(in.operands[0], b_.CreateSelect(take, read(in.operands[1], bits), read(in.operands[2], bits)));
      return true;
    }
    default: return false;
  }
}

}  // namespace pergola::device::cpu::jit
