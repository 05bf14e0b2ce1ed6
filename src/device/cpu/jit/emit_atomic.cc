// atom, red and fences (PTX ISA 9.7.13). Scopes narrow nothing here: every host thread sees the same memory.
#include "src/device/cpu/jit/emitter.h"

namespace pergola::device::cpu::jit {

using llvm::AtomicOrdering;
using llvm::AtomicRMWInst;
using ptx::Mod;
using ptx::Op;
using ptx::Type;
using Value = llvm::Value*;

void FunctionEmitter::emit_fence(const Inst& in) {
  // membar is fence.sc on everything since sm_70 (ISA 9.7.13.4).
  const bool weaker = in.op == Op::kFence && !in.has(Mod::kSc);
  b_.CreateFence(weaker ? AtomicOrdering::AcquireRelease : AtomicOrdering::SequentiallyConsistent);
}

bool FunctionEmitter::emit_atomic(const Inst& in) {
  if (in.op != Op::kAtom && in.op != Op::kRed) return false;
  if (in.has(Mod::kAsync) || in.vector_width() != 1) refuse(in, "this form of atomic is not implemented in this tier");
  const Type type = in.type();
  const unsigned bits = bits_of(type);
  const bool returns = in.op == Op::kAtom;
  const std::size_t first = returns ? 1 : 0;
  if (bits != 16 && bits != 32 && bits != 64) refuse(in, "atomics of this width are not implemented in this tier");
  AtomicOrdering ordering = AtomicOrdering::Monotonic;
  if (in.has(Mod::kAcquire)) ordering = AtomicOrdering::Acquire;
  if (in.has(Mod::kRelease)) ordering = AtomicOrdering::Release;
  if (in.has(Mod::kAcqRel)) ordering = AtomicOrdering::AcquireRelease;
  Value pointer = address(in, in.operands[first], in.space(), bits / 8);
  const ptx::Operand& b = in.operands.at(first + 1);
  const llvm::Align align(bits / 8);
  const auto done = [&](Value old) {
    if (returns) write(in.operands[0], old, ptx::is_signed(type));
    return true;
  };
  if (in.has(Mod::kCas)) {
    const AtomicOrdering failure = AtomicOrdering(llvm::AtomicCmpXchgInst::getStrongestFailureOrdering(ordering));
    Value pair = b_.CreateAtomicCmpXchg(pointer, read(b, bits), read(in.operands.at(first + 2), bits), align, ordering,
                                        failure);
    return done(b_.CreateExtractValue(pair, 0));
  }
  if (ptx::is_float(type) && in.has(Mod::kAdd)) {
    const char* name = nullptr;
    switch (type) {
      case Type::kF32: name = "pergola_jit_atomic_add_f32"; break;
      case Type::kF64: name = "pergola_jit_atomic_add_f64"; break;
      case Type::kF16: name = "pergola_jit_atomic_add_f16"; break;
      case Type::kF16x2: name = "pergola_jit_atomic_add_f16x2"; break;
      case Type::kBF16: name = "pergola_jit_atomic_add_bf16"; break;
      case Type::kBF16x2: name = "pergola_jit_atomic_add_bf16x2"; break;
      default: refuse(in, "atomics of this type are not implemented in this tier");
    }
    return done(b_.CreateTrunc(call_runtime(name, i(64), {pointer, resize(read(b, bits), 64)}), i(bits)));
  }
  if (bits == 16) refuse(in, "atomics of this width are not implemented in this tier");
  const bool sign = ptx::is_signed(type);
  AtomicRMWInst::BinOp operation;
  if (in.has(Mod::kAdd)) {
    operation = AtomicRMWInst::Add;
  } else if (in.has(Mod::kExch)) {
    operation = AtomicRMWInst::Xchg;
  } else if (in.has(Mod::kMin)) {
    operation = sign ? AtomicRMWInst::Min : AtomicRMWInst::UMin;
  } else if (in.has(Mod::kMax)) {
    operation = sign ? AtomicRMWInst::Max : AtomicRMWInst::UMax;
  } else if (in.has(Mod::kInc)) {
    operation = AtomicRMWInst::UIncWrap;
  } else if (in.has(Mod::kDec)) {
    operation = AtomicRMWInst::UDecWrap;
  } else if (in.has(Mod::kAnd)) {
    operation = AtomicRMWInst::And;
  } else if (in.has(Mod::kOr)) {
    operation = AtomicRMWInst::Or;
  } else if (in.has(Mod::kXor)) {
    operation = AtomicRMWInst::Xor;
  } else {
    refuse(in, "it names no operation that is implemented in this tier");
  }
  return done(b_.CreateAtomicRMW(operation, pointer, read(b, bits), align, ordering));
}

}  // namespace pergola::device::cpu::jit
