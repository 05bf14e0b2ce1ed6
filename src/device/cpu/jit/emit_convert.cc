// cvt (PTX ISA 9.7.9.21): between integers, between floats, and across, each with one rounding.
#include <llvm/IR/Intrinsics.h>

#include "src/device/cpu/jit/emitter.h"
#include "src/device/cpu/jit/runtime_calls.h"
#include "src/device/cpu/numeric.h"

namespace pergola::device::cpu::jit {

using ptx::Mod;
using ptx::Op;
using ptx::Type;
using Value = llvm::Value*;

namespace {

int format_of(Type type) {
  switch (type) {
    case Type::kF16: case Type::kF16x2: return kFormatF16;
    case Type::kBF16: case Type::kBF16x2: return kFormatBf16;
    case Type::kTF32: return kFormatTf32;
    case Type::kF64: return kFormatF64;
    default: return kFormatF32;
  }
}

}  // namespace

// To a narrower integer with .sat: clamped to its range, as the source's own type counts.
Value FunctionEmitter::convert_int(const Inst& in, Type to, Type from, Value a) {
  const unsigned bits = bits_of(to);
  const bool from_signed = ptx::is_signed(from), to_signed = ptx::is_signed(to);
  if (!in.has(Mod::kSat)) return resize(a, bits, from_signed);
  Value wide = resize(a, 128, from_signed);  // any 64-bit value, of either sign
  auto* type = wide->getType();
  const llvm::APInt low = to_signed ? llvm::APInt::getSignedMinValue(bits).sext(128) : llvm::APInt(128, 0);
  const llvm::APInt high = to_signed ? llvm::APInt::getSignedMaxValue(bits).zext(128)
                                     : llvm::APInt::getMaxValue(bits).zext(128);
  wide = b_.CreateBinaryIntrinsic(llvm::Intrinsic::smax, wide, llvm::ConstantInt::get(type, low));
  wide = b_.CreateBinaryIntrinsic(llvm::Intrinsic::smin, wide, llvm::ConstantInt::get(type, high));
  return resize(wide, bits);
}

Value FunctionEmitter::int_to_float(const Inst& in, Type to, Type from, Value a) {
  const bool sign = ptx::is_signed(from);
  const int mode = rounding(in);
  if (mode == 0 && (to == Type::kF32 || to == Type::kF64)) {
    return sign ? b_.CreateSIToFP(a, float_type(bits_of(to))) : b_.CreateUIToFP(a, float_type(bits_of(to)));
  }
  Value wide = resize(a, 64, sign);
  Value bits = call_runtime("pergola_jit_int_to_float", i(64),
                            {wide, k(32, sign ? 1 : 0), k(32, static_cast<std::uint64_t>(format_of(to))),
                             k(32, static_cast<std::uint64_t>(mode))}, true);
  return resize(bits, bits_of(to));
}

Value FunctionEmitter::round_to_integral(const Inst& in, Value v) {
  switch (static_cast<Rounding>(rounding(in))) {
    case Rounding::kTowardZero: return b_.CreateUnaryIntrinsic(llvm::Intrinsic::trunc, v);
    case Rounding::kDown: return b_.CreateUnaryIntrinsic(llvm::Intrinsic::floor, v);
    case Rounding::kUp: return b_.CreateUnaryIntrinsic(llvm::Intrinsic::ceil, v);
    default: return b_.CreateUnaryIntrinsic(llvm::Intrinsic::roundeven, v);
  }
}

// Clamps to the range; a NaN gives 0, or the top bit alone where the source is f64 or the result has 64 bits.
Value FunctionEmitter::float_to_int(const Inst& in, Type to, Type from, Value a) {
  const unsigned bits = bits_of(to);
  const auto id = ptx::is_signed(to) ? llvm::Intrinsic::fptosi_sat : llvm::Intrinsic::fptoui_sat;
  Value v = b_.CreateIntrinsic(id, {i(bits), a->getType()}, {round_to_integral(in, a)});
  if (from != Type::kF64 && bits != 64) return v;
  return b_.CreateSelect(b_.CreateFCmpUNO(a, a), k(bits, std::uint64_t{1} << (bits - 1)), v);
}

Value FunctionEmitter::float_to_float(const Inst& in, Type to, Type from, Value a) {
  const bool integral = in.has(Mod::kRni) || in.has(Mod::kRzi) || in.has(Mod::kRmi) || in.has(Mod::kRpi);
  Value v = integral ? round_to_integral(in, a) : a;  // float or double
  if (in.has(Mod::kSat)) v = saturate(v);
  if (in.has(Mod::kRelu)) v = relu(v);
  const int mode = integral ? 0 : rounding(in);
  if (to == Type::kF64) return v->getType()->isFloatTy() ? b_.CreateFPExt(v, b_.getDoubleTy()) : v;
  if (to == Type::kF32 && (mode == 0 || from != Type::kF64)) {
    Value narrow = v->getType()->isDoubleTy() ? b_.CreateFPTrunc(v, b_.getFloatTy()) : v;
    if (in.has(Mod::kFtz)) narrow = flush(narrow);
    return from == Type::kF64 ? narrow : canonical(narrow);  // of an f64's NaN sign and payload stay
  }
  if (mode == 0 && !in.has(Mod::kSatfinite) && v->getType()->isFloatTy() && (to == Type::kF16 || to == Type::kBF16)) return float_to_half(v, to);
  Value wide = v->getType()->isFloatTy() ? b_.CreateFPExt(v, b_.getDoubleTy()) : v;
  Value bits = call_runtime("pergola_jit_round", i(64), {wide, k(32, static_cast<std::uint64_t>(format_of(to))),
                                                         k(32, static_cast<std::uint64_t>(mode))}, true);
  const std::uint64_t infinity = to == Type::kF16 ? 0x7c00 : to == Type::kBF16 ? 0x7f80 : 0xffull << 10;
  if (in.has(Mod::kSatfinite)) {  // the largest finite number of its sign is one below infinity
    const std::uint64_t magnitude = to == Type::kTF32 ? (1u << 18) - 1 : 0x7fff;
    Value overflows = b_.CreateICmpEQ(b_.CreateAnd(bits, k(64, magnitude)), k(64, infinity));
    bits = b_.CreateSub(bits, b_.CreateZExt(overflows, i(64)));
  }
  if (to == Type::kTF32) {
    Value word = b_.CreateTrunc(b_.CreateShl(bits, k(64, 13)), i(32));
    return b_.CreateSelect(b_.CreateFCmpUNO(a, a), k(32, kCanonicalNan32), word);
  }
  Value pattern = resize(bits, bits_of(to));
  if (to == Type::kF32) {  // from f64, in a directed mode
    Value kept = b_.CreateBitCast(b_.CreateFPTrunc(wide, b_.getFloatTy()), i(32));
    pattern = b_.CreateSelect(b_.CreateFCmpUNO(wide, wide), kept, pattern);
  }
  if (to == Type::kF32 && in.has(Mod::kFtz)) return flush(b_.CreateBitCast(pattern, b_.getFloatTy()));
  return pattern;
}

// The bits of a NaN that goes from one float type to another: the rules are the interpreter's (exec_convert.cc). `v` is what
// converting gives otherwise.
Value FunctionEmitter::converted_nan(const Inst& in, Type to, Type from, Value raw, Value v) {
  const bool integral = in.has(Mod::kRni) || in.has(Mod::kRzi) || in.has(Mod::kRmi) || in.has(Mod::kRpi);
  const bool computes = integral || in.has(Mod::kFtz);
  if (in.has(Mod::kSat)) return v;
  const auto bits = [&](unsigned n, Value x) { return b_.CreateZExtOrTrunc(x, i(n)); };
  const auto field = [&](Value x, unsigned right, std::uint64_t mask) {
    return b_.CreateAnd(b_.CreateLShr(x, k(64, right)), k(64, mask));
  };
  Value nan = nullptr;
  if (to == Type::kF32 && !computes && from == Type::kBF16) nan = b_.CreateShl(bits(32, raw), k(32, 16));
  if (to == Type::kF32 && !computes && from == Type::kF32) nan = raw;
  if (to == Type::kF64 && (from == Type::kF16 || from == Type::kBF16)) {
    const bool half = from == Type::kF16;
    Value payload = b_.CreateAnd(bits(64, raw), k(64, half ? 0x3ff : 0x7f));
    nan = b_.CreateOr(b_.CreateShl(payload, k(64, half ? 42 : 45)), k(64, 0x7ff8000000000000u));
    nan = b_.CreateOr(nan, b_.CreateShl(b_.CreateAnd(bits(64, raw), k(64, 0x8000)), k(64, 48)));
  }
  if (to == Type::kF64 && from == Type::kF32 && computes) nan = k(64, 0x7fffffffe0000000u);
  if (to == Type::kF64 && from == Type::kF64) nan = integral ? b_.CreateOr(raw, k(64, std::uint64_t{1} << 51)) : raw;
  if (from == Type::kF64 && (to == Type::kF16 || to == Type::kBF16)) {
    const bool half = to == Type::kF16;
    Value word = b_.CreateOr(field(raw, 48, 0x8000), half ? field(raw, 42, 0x3ff) : field(raw, 45, 0x7f));
    nan = bits(16, b_.CreateOr(word, k(64, half ? 0x7e00 : 0x7fc0)));
  }
  if (to == Type::kTF32) {
    nan = k(32, 0x7fffe000);
    if (in.has(Mod::kRna)) nan = b_.CreateSub(b_.CreateAnd(raw, k(32, 0xffffe000)), k(32, in.has(Mod::kSatfinite) ? 0x2000 : 0));
  }
  if (nan == nullptr) return v;
  Value source = from == Type::kBF16 || from == Type::kF16 ? half_to_float(raw, from) : b_.CreateBitCast(raw, float_type(bits_of(from)));
  return b_.CreateSelect(b_.CreateFCmpUNO(source, source), nan, to_bits(v));
}

// cvt to or from a pair: d = {a in the high half, b in the low}; or a pair of 8-bit floats from or to a pair of halves.
bool FunctionEmitter::emit_packed_cvt(const Inst& in) {
  const Type to = in.type(0), from = in.type(1);
  const auto is_fp8 = [](Type type) { return type == Type::kE4M3x2 || type == Type::kE5M2x2; };
  const auto fp8 = [](Type type) { return type == Type::kE4M3x2 ? 0u : 1u; };
  if (is_fp8(to)) {
    Value high, low;
    if (from == Type::kF32) {
      high = read_float(in.operands[1], Type::kF32);
      low = read_float(in.operands[2], Type::kF32);
    } else if (from == Type::kF16x2) {
      Value pair = read(in.operands[1], 32);
      high = half_to_float(b_.CreateTrunc(b_.CreateLShr(pair, k(32, 16)), i(16)), Type::kF16);
      low = half_to_float(b_.CreateTrunc(pair, i(16)), Type::kF16);
    } else {
      return false;
    }
    const auto narrow = [&](Value v) {
      if (in.has(Mod::kRelu)) v = relu(v);
      return call_runtime("pergola_jit_to_fp8", i(32), {v, k(32, fp8(to))}, true);
    };
    write(in.operands[0], b_.CreateTrunc(b_.CreateOr(b_.CreateShl(narrow(high), k(32, 8)), narrow(low)), i(16)));
    return true;
  }
  if (is_fp8(from) && to == Type::kF16x2) {
    Value pair = b_.CreateZExt(read(in.operands[1], 16), i(32));
    const auto widen_one = [&](Value v) {
      return call_runtime("pergola_jit_fp8_to_f16", i(32), {v, k(32, fp8(from)), k(32, in.has(Mod::kRelu) ? 1 : 0)}, true);
    };
    Value low = widen_one(b_.CreateAnd(pair, k(32, 0xff)));
    write(in.operands[0], b_.CreateOr(b_.CreateShl(widen_one(b_.CreateLShr(pair, k(32, 8))), k(32, 16)), low));
    return true;
  }
  if ((to != Type::kF16x2 && to != Type::kBF16x2) || from != Type::kF32 || in.operands.size() != 3) return false;
  const Type half = to == Type::kF16x2 ? Type::kF16 : Type::kBF16;
  const auto part = [&](const ptx::Operand& o) {
    return b_.CreateZExt(float_to_float(in, half, Type::kF32, read_float(o, Type::kF32, in.has(Mod::kFtz))), i(32));
  };
  Value high = part(in.operands[1]), low = part(in.operands[2]);
  write(in.operands[0], b_.CreateOr(b_.CreateShl(high, k(32, 16)), low));
  return true;
}

// cvt.pack.sat: a and b clamped to a narrow type, a above b; c, where there is one, shifted up above both.
bool FunctionEmitter::emit_cvt_pack(const Inst& in) {
  const Type to = in.type(0), from = in.type(1);
  const unsigned bits = bits_of(to);
  if (!in.has(Mod::kSat) || (bits != 8 && bits != 16) || bits_of(from) != 32 || in.operands.size() < 3) return false;
  const auto part = [&](std::size_t n) {
    return b_.CreateZExt(convert_int(in, to, from, read(in.operands[n], 32)), i(32));
  };
  Value v = b_.CreateOr(b_.CreateShl(part(1), k(32, bits)), part(2));
  if (in.operands.size() > 3 && bits == 8) v = b_.CreateOr(v, b_.CreateShl(read(in.operands[3], 32), k(32, 16)));
  write(in.operands[0], v);
  return true;
}

void FunctionEmitter::emit_cvt(const Inst& in) {
  const Type to = in.type(0), from = in.type(1);
  const bool to_float = ptx::is_float(to), from_float = ptx::is_float(from);
  if (in.has(Mod::kRs)) refuse(in, "this rounding is not implemented in this tier");
  if (in.has(Mod::kPack) ? emit_cvt_pack(in) : emit_packed_cvt(in)) return;
  const auto plain = [&](Type type) { return bits_of(type) <= 64 && type != Type::kF16x2 && type != Type::kBF16x2 &&
                                             type != Type::kF32x2 && type != Type::kE4M3x2 && type != Type::kE5M2x2; };
  if (to == Type::kNone || from == Type::kNone || !plain(to) || !plain(from) || in.operands.size() != 2) {
    refuse(in, "this conversion is not implemented in this tier");
  }
  if (from_float) {
    // To f16 the hardware does not flush, though .ftz may be written there.
    Value a = read_float(in.operands[1], from, in.has(Mod::kFtz) && from == Type::kF32 && to != Type::kF16);
    if (to_float) {
      Value raw = read(in.operands[1], bits_of(from));
      return write(in.operands[0], converted_nan(in, to, from, raw, float_to_float(in, to, from, a)));
    }
    return write(in.operands[0], float_to_int(in, to, from, a), ptx::is_signed(to));
  }
  Value a = read(in.operands[1], bits_of(from));
  if (!to_float) return write(in.operands[0], convert_int(in, to, from, a), ptx::is_signed(to));
  Value v = int_to_float(in, to, from, a);
  if (!in.has(Mod::kSat)) return write(in.operands[0], v);
  if (bits_of(to) == 16) return write(in.operands[0], float_to_half(saturate(half_to_float(v, to)), to));
  write(in.operands[0], saturate(b_.CreateBitCast(v, float_type(bits_of(to)))));
}

bool FunctionEmitter::emit_convert(const Inst& in) {
  if (in.op != Op::kCvt) return false;
  return emit_cvt(in), true;
}

}  // namespace pergola::device::cpu::jit
