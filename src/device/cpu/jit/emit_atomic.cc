// atom, red and fences (PTX ISA 9.7.13). Scopes narrow nothing here: every host thread sees the same memory.
#include <optional>

#include "src/device/cpu/jit/emitter.h"
#include "src/device/cpu/jit/runtime_calls.h"
#include "src/device/cpu/jit/thread_context.h"

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

namespace {

AtomicOrdering ordering_of(const ptx::Instruction& in) {
  if (in.has(Mod::kAcquire)) return AtomicOrdering::Acquire;
  if (in.has(Mod::kRelease)) return AtomicOrdering::Release;
  return in.has(Mod::kAcqRel) ? AtomicOrdering::AcquireRelease : AtomicOrdering::Monotonic;
}

std::optional<AtomicRMWInst::BinOp> operation_of(const ptx::Instruction& in, bool sign) {
  if (in.has(Mod::kAdd)) return AtomicRMWInst::Add;
  if (in.has(Mod::kExch)) return AtomicRMWInst::Xchg;
  if (in.has(Mod::kMin)) return sign ? AtomicRMWInst::Min : AtomicRMWInst::UMin;
  if (in.has(Mod::kMax)) return sign ? AtomicRMWInst::Max : AtomicRMWInst::UMax;
  if (in.has(Mod::kInc)) return AtomicRMWInst::UIncWrap;
  if (in.has(Mod::kDec)) return AtomicRMWInst::UDecWrap;
  if (in.has(Mod::kAnd)) return AtomicRMWInst::And;
  if (in.has(Mod::kOr)) return AtomicRMWInst::Or;
  if (in.has(Mod::kXor)) return AtomicRMWInst::Xor;
  return std::nullopt;
}

const char* half_function(Type type) {
  switch (type) {
    case Type::kF16: return "pergola_jit_atomic_f16";
    case Type::kF16x2: return "pergola_jit_atomic_f16x2";
    case Type::kBF16: return "pergola_jit_atomic_bf16";
    case Type::kBF16x2: return "pergola_jit_atomic_bf16x2";
    default: return nullptr;
  }
}

}  // namespace

// A float in memory: add, and for 16-bit types min and max. Gives the old bits.
Value FunctionEmitter::atomic_float(const Inst& in, Type type, Value pointer, Value operand) {
  const unsigned bits = bits_of(type);
  Value wide = resize(operand, 64);
  if (const char* name = half_function(type)) {
    const std::uint32_t operation = in.has(Mod::kMin) ? kHalfMin : in.has(Mod::kMax) ? kHalfMax : kHalfAdd;
    return b_.CreateTrunc(call_runtime(name, i(64), {pointer, wide, k(32, operation)}), i(bits));
  }
  if (!in.has(Mod::kAdd)) refuse(in, "of floats of this width only additions are implemented");
  Value flushes = k(32, in.space() == ptx::Space::kShared ? 0 : 1);
  if (in.space() == ptx::Space::kNone) {
    Value offset = b_.CreateSub(b_.CreatePtrToInt(pointer, i(64)),
                                field(block_, offsetof(BlockContext, shared_base), i(64), "shared"));
    Value size = b_.CreateZExt(field(block_, offsetof(BlockContext, shared_bytes), i(32), "shared_bytes"), i(64));
    flushes = b_.CreateZExt(b_.CreateICmpUGE(offset, size), i(32));
  }
  const char* name = type == Type::kF32 ? "pergola_jit_atomic_add_f32" : "pergola_jit_atomic_add_f64";
  return b_.CreateTrunc(call_runtime(name, i(64), {pointer, wide, flushes}), i(bits));
}

// One element; gives its old bits.
Value FunctionEmitter::atomic_element(const Inst& in, Value pointer, const ptx::Operand& b, const ptx::Operand* c) {
  const Type type = in.type();
  const unsigned bits = bits_of(type);
  const llvm::Align align(bits / 8);
  const AtomicOrdering ordering = ordering_of(in);
  if (in.has(Mod::kCas)) {
    if (c == nullptr) refuse(in, "it has no new value");
    const AtomicOrdering failure = llvm::AtomicCmpXchgInst::getStrongestFailureOrdering(ordering);
    return b_.CreateExtractValue(b_.CreateAtomicCmpXchg(pointer, read(b, bits), read(*c, bits), align, ordering, failure), 0);
  }
  const bool exchanges = in.has(Mod::kExch);
  if (ptx::is_float(type) && !exchanges) return atomic_float(in, type, pointer, read(b, bits));
  const auto operation = operation_of(in, ptx::is_signed(type));
  if (!operation || (bits == 16 && !exchanges)) refuse(in, "the operation is not implemented in this tier");
  return b_.CreateAtomicRMW(*operation, pointer, read(b, bits), align, ordering);
}

// exch and cas of .b128: in the run time, as LLVM's own would need a library where the processor is not known to have it.
void FunctionEmitter::emit_atomic_128(const Inst& in) {
  const bool cas = in.has(Mod::kCas);
  if (in.op != Op::kAtom || (!cas && !in.has(Mod::kExch))) refuse(in, "the operation is not implemented in this tier");
  Value pointer = address(in, in.operands[1], in.space(), 16);
  Value words = entry_alloca(llvm::ArrayType::get(i(128), 2), "b128", 16);
  Value first = read(in.operands.at(2), 128);
  b_.CreateStore(first, words);  // what is expected, then the new value; the old one comes back in the first
  b_.CreateStore(cas ? read(in.operands.at(3), 128) : first, b_.CreateConstGEP1_64(i(8), words, 16));
  call_runtime("pergola_jit_atomic_b128", b_.getVoidTy(), {thread_, pointer, words, k(32, cas ? 1 : 0), k(32, in.location.line)});
  write(in.operands[0], b_.CreateLoad(i(128), words));
}

bool FunctionEmitter::emit_atomic(const Inst& in) {
  if (in.op != Op::kAtom && in.op != Op::kRed) return false;
  if (in.space() == ptx::Space::kConst) refuse(in, "constant memory is read-only");
  const unsigned bits = bits_of(in.type());
  if (bits == 128 && !in.has(Mod::kAsync)) return emit_atomic_128(in), true;
  if (in.has(Mod::kAsync) || (bits != 16 && bits != 32 && bits != 64)) {
    refuse(in, "this form of atomic is not implemented in this tier");
  }
  const bool returns = in.op == Op::kAtom;
  const std::size_t first = returns ? 1 : 0;
  const auto width = static_cast<unsigned>(in.vector_width());
  Value base = address(in, in.operands[first], in.space(), std::uint64_t{bits / 8} * width);
  if (returns) note_look(in, base);
  const ptx::Operand& b = in.operands.at(first + 1);
  const ptx::Operand* c = in.operands.size() > first + 2 ? &in.operands[first + 2] : nullptr;
  const bool sign = ptx::is_signed(in.type());
  if (width == 1) {
    Value old = atomic_element(in, base, b, c);
    if (returns) write(in.operands[0], old, sign);
    return true;
  }
  if (b.elements.size() != width || (returns && in.operands[0].elements.size() != width)) {
    refuse(in, "its operands are not vectors of its width");
  }
  std::vector<Value> old;
  for (unsigned n = 0; n < width; ++n) {
    old.push_back(atomic_element(in, b_.CreateConstGEP1_64(i(8), base, std::uint64_t{n} * bits / 8), b.elements[n], nullptr));
  }
  for (unsigned n = 0; returns && n < width; ++n) write(in.operands[0].elements[n], old[n], sign);
  return true;
}

}  // namespace pergola::device::cpu::jit
