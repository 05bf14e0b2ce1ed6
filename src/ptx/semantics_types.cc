// The type of each operand of each instruction (ISA 9.7), as one switch over the opcode.
#include <algorithm>

#include "src/ptx/semantics.h"

namespace pergola::ptx {
namespace {

Type widened(Type type) {
  switch (type) {
    case Type::kU16: return Type::kU32;
    case Type::kS16: return Type::kS32;
    case Type::kU32: return Type::kU64;
    case Type::kS32: return Type::kS64;
    default: return type;
  }
}

// Operands that .L2::cache_hint adds stand last.
bool is_cache_policy(const Instruction& instruction, std::size_t index) {
  return instruction.has(Mod::kL2CacheHint) && index + 1 == instruction.operands.size() && index > 0;
}

// The register of a matrix fragment: halves and bytes come packed by four bytes.
Type fragment_type(Mod mod) {
  const Type type = type_of(mod);
  switch (type) {
    case Type::kF64:
    case Type::kF32:
    case Type::kS32: return type;
    default: return Type::kB32;
  }
}

bool is_fragment_mod(Mod mod) {
  switch (mod) {
    case Mod::kU4:
    case Mod::kS4:
    case Mod::kB1:
    case Mod::kE4m3:
    case Mod::kE5m2:
    case Mod::kE2m1:
    case Mod::kE2m3:
    case Mod::kE3m2: return true;
    default: return type_of(mod) != Type::kNone;
  }
}

// mma...dtype.atype.btype.ctype {d}, {a}, {b}, {c}; wmma.mma of halves names d and c alone.
Type mma_type(const Instruction& instruction, std::size_t index) {
  Mod types[8];
  std::size_t count = 0;
  for (const Mod mod : instruction.mods) {
    if (is_fragment_mod(mod) && count < std::size(types)) types[count++] = mod;
  }
  if (count == 2) return index == 0 ? fragment_type(types[0]) : index == 3 ? fragment_type(types[1]) : Type::kB32;
  if (index < 4 && index < count) return fragment_type(types[index]);
  return index == 4 ? Type::kB32 : Type::kNone;  // sparse metadata
}

Type wmma_type(const Instruction& instruction, std::size_t index) {
  if (instruction.has(Mod::kMma)) return mma_type(instruction, index);
  const std::size_t data = instruction.has(Mod::kStore) ? 1 : 0;
  if (index == data) {
    for (const Mod mod : instruction.mods) {
      if (is_fragment_mod(mod)) return fragment_type(mod);
    }
  }
  return index == 2 ? Type::kU32 : Type::kNone;  // stride
}

Type wgmma_type(const Instruction& instruction, std::size_t index) {
  if (!instruction.has(Mod::kMmaAsync)) return Type::kNone;
  const Operand::Kind kind = instruction.operands[index].kind;
  if (index == 0) {
    const auto type = std::find_if(instruction.mods.begin(), instruction.mods.end(), is_fragment_mod);
    return type == instruction.mods.end() ? Type::kNone : fragment_type(*type);
  }
  if (index == 1) return kind == Operand::Kind::kVector ? Type::kB32 : Type::kB64;  // fragment or descriptor
  if (index == 2) return Type::kB64;
  // Sparse forms have metadata and its selector before the predicate.
  const bool sparse = instruction.has(Mod::kSp) || instruction.has(Mod::kSpOrderedMetadata);
  if (sparse && index == 3) return Type::kB32;
  return index == (sparse ? 5u : 3u) ? Type::kPred : Type::kNone;
}

Type cvt_type(const Instruction& instruction, std::size_t index) {
  const Type to = instruction.type(0), from = instruction.type(1), third = instruction.type(2);
  const std::size_t count = instruction.operands.size();
  if (instruction.has(Mod::kPack)) {  // cvt.pack.sat.u8.s32.b32 d, a, b, c
    return index == 0 || index == 3 ? Type::kB32 : from;
  }
  if (index == 0) return to;
  if (instruction.has(Mod::kRs) && index + 1 == count) return Type::kB32;            // random bits
  if (instruction.has(Mod::kScaledN2Ue8m0) && index + 1 == count) return Type::kB16;  // scale factors
  return third != Type::kNone ? third : from;
}

Type atomic_type(const Instruction& instruction, std::size_t index) {
  return is_cache_policy(instruction, index) ? Type::kB64 : instruction.type(0);
}

Type barrier_type(const Instruction& instruction, std::size_t index) {
  if (instruction.has(Mod::kWarp)) return Type::kB32;  // member mask
  if (!instruction.has(Mod::kRed)) return Type::kU32;
  if (index == 0) return instruction.has(Mod::kPopc) ? Type::kU32 : Type::kPred;
  return index + 1 == instruction.operands.size() ? Type::kPred : Type::kU32;
}

Type mbarrier_type(const Instruction& instruction, std::size_t index) {
  const bool waits = instruction.has(Mod::kTestWait) || instruction.has(Mod::kTryWait);
  if (waits) {
    if (index == 0) return Type::kPred;
    if (index == 2 && !instruction.has(Mod::kParity)) return Type::kB64;
    return Type::kU32;
  }
  if (instruction.has(Mod::kPendingCount)) return index == 0 ? Type::kU32 : Type::kB64;
  const bool state = index == 0;  // [address] is never asked for
  return state ? Type::kB64 : Type::kU32;
}

// cp.async [d], [s], size {, source size or predicate} {, policy}; cp.async.bulk... {, mask} {, policy}
Type cp_type(const Instruction& instruction, std::size_t index) {
  if (is_cache_policy(instruction, index)) return Type::kB64;
  if (!instruction.has(Mod::kBulk)) {
    const Operand& operand = instruction.operands[index];
    // The fourth operand is a size or, as a predicate, says to ignore the source.
    return index == 3 && operand.kind == Operand::Kind::kRegister ? Type::kNone : Type::kU32;
  }
  if (instruction.has(Mod::kWaitGroup)) return Type::kU32;
  if (instruction.has(Mod::kTensor)) return Type::kB16;  // im2col offsets, multicast mask
  const bool size = index == (instruction.has(Mod::kPrefetch) ? 1u : 2u);
  return size ? Type::kU32 : Type::kB16;
}

Type tcgen05_type(const Instruction& instruction, std::size_t index) {
  if (instruction.has(Mod::kLd) || instruction.has(Mod::kSt)) {
    return instruction.operands[index].kind == Operand::Kind::kVector ||
                   index == (instruction.has(Mod::kSt) ? 1u : 0u)
               ? Type::kB32
               : Type::kNone;
  }
  if (instruction.has(Mod::kAlloc)) return Type::kU32;
  if (instruction.has(Mod::kDealloc)) return index == 0 ? Type::kB32 : Type::kU32;
  if (instruction.has(Mod::kCp)) return Type::kB64;
  if (instruction.has(Mod::kCommit)) return Type::kB16;
  return Type::kNone;  // mma: descriptors, masks and predicates by form
}

Type texture_type(const Instruction& instruction, std::size_t index) {
  const Op op = instruction.op;
  const bool typed = index == 0 || op == Op::kTxq || op == Op::kSust || op == Op::kSured;
  return typed ? instruction.type(0) : Type::kNone;  // lod, gradients, offsets, depth: by geometry
}

// add, sub, fma with one more type: f32 result and addend, narrow factors.
Type mixed_type(const Instruction& instruction, std::size_t index) {
  const Type narrow = instruction.type(1);
  if (narrow == Type::kNone) return instruction.type(0);
  const bool factor = index == 1 || (instruction.op == Op::kFma && index == 2);
  return factor ? narrow : instruction.type(0);
}

Type dot_type(const Instruction& instruction, std::size_t index) {
  const Type a = instruction.type(0), b = instruction.type(1);
  if (index == 1) return a;
  if (index == 2) return b;
  return is_signed(a) || is_signed(b) ? Type::kS32 : Type::kU32;
}

Type warp_type(const Instruction& instruction, std::size_t index) {
  switch (instruction.op) {
    case Op::kVote:
      if (index == 0) return instruction.has(Mod::kBallot) ? Type::kB32 : Type::kPred;
      return index == 1 ? Type::kPred : Type::kB32;
    case Op::kMatch: return index == 1 ? instruction.type(0) : Type::kB32;
    case Op::kRedux: return index == 2 ? Type::kB32 : instruction.type(0);
    case Op::kShfl: return index < 2 ? Type::kB32 : Type::kU32;
    default: return Type::kB32;  // activemask, elect
  }
}

Type bit_field_type(const Instruction& instruction, std::size_t index) {
  const Type type = instruction.type(0);
  switch (instruction.op) {
    case Op::kShl:
    case Op::kShr:
    case Op::kBfe:
    case Op::kSzext: return index < 2 ? type : Type::kU32;
    case Op::kBfi: return index < 3 ? type : Type::kU32;
    case Op::kShf: return index < 3 ? Type::kB32 : Type::kU32;
    case Op::kBfind:
    case Op::kPopc:
    case Op::kClz: return index == 0 ? Type::kU32 : type;
    case Op::kBmsk: return index == 0 ? Type::kB32 : Type::kU32;
    case Op::kFns: return index == 3 ? Type::kS32 : Type::kB32;
    case Op::kLop3: return index < 4 ? Type::kB32 : index == 4 ? Type::kU32 : Type::kPred;
    default: return Type::kB32;  // prmt
  }
}

Type comparison_type(const Instruction& instruction, std::size_t index) {
  switch (instruction.op) {
    case Op::kSetp: return index == 0 || index == 3 ? Type::kPred : instruction.type(0);
    case Op::kSet: return index == 0 ? instruction.type(0) : index == 3 ? Type::kPred : instruction.type(1);
    case Op::kSelp: return index == 3 ? Type::kPred : instruction.type(0);
    case Op::kSlct: return index == 3 ? instruction.type(1) : instruction.type(0);
    default: return index == 0 ? Type::kPred : instruction.type(0);  // testp
  }
}

Type policy_type(const Instruction& instruction, std::size_t index) {
  if (index == 0) return Type::kB64;
  if (instruction.has(Mod::kRange)) return Type::kU32;
  return instruction.has(Mod::kCvt) ? Type::kB64 : Type::kF32;
}

Type cancel_type(const Instruction& instruction, std::size_t index) {
  if (index == 1) return Type::kB128;
  return instruction.type(0);
}

}  // namespace

Type operand_type(const Instruction& instruction, std::size_t index) {
  if (index >= instruction.operands.size()) return Type::kNone;
  const Operand::Kind kind = instruction.operands[index].kind;
  if (kind == Operand::Kind::kAddress || kind == Operand::Kind::kLabel) return Type::kNone;
  switch (instruction.op) {
    case Op::kOpaque:
    case Op::kBra:
    case Op::kCall:
    case Op::kRet:
    case Op::kExit:
    case Op::kTrap:
    case Op::kBrkpt:
    case Op::kMembar:
    case Op::kGriddepcontrol:
    case Op::kPrefetch:
    case Op::kPrefetchu: return Type::kNone;
    case Op::kMul:
    case Op::kMad: {
      const bool wide = instruction.has(Mod::kWide) && (index == 0 || index == 3);
      return wide ? widened(instruction.type(0)) : instruction.type(0);
    }
    case Op::kAdd:
    case Op::kSub:
    case Op::kFma: return mixed_type(instruction, index);
    case Op::kShl:
    case Op::kShr:
    case Op::kShf:
    case Op::kBfe:
    case Op::kBfi:
    case Op::kBfind:
    case Op::kSzext:
    case Op::kPopc:
    case Op::kClz:
    case Op::kBmsk:
    case Op::kFns:
    case Op::kLop3:
    case Op::kPrmt: return bit_field_type(instruction, index);
    case Op::kSetp:
    case Op::kSet:
    case Op::kSelp:
    case Op::kSlct:
    case Op::kTestp: return comparison_type(instruction, index);
    case Op::kDp2a:
    case Op::kDp4a: return dot_type(instruction, index);
    case Op::kCvt: return cvt_type(instruction, index);
    case Op::kLd:
    case Op::kLdu:
    case Op::kSt:
    case Op::kAtom:
    case Op::kRed:
    case Op::kMultimem: return atomic_type(instruction, index);
    case Op::kMapa: return index == 2 ? Type::kU32 : instruction.type(0);
    case Op::kGetctarank: return index == 0 ? Type::kU32 : instruction.type(0);
    case Op::kIsspacep:
    case Op::kIstypep: return index == 0 ? Type::kPred : Type::kNone;
    case Op::kBrx:
    case Op::kNanosleep:
    case Op::kPmevent:
    case Op::kSetmaxnreg:
    case Op::kApplypriority:
    case Op::kDiscard:
    case Op::kFence: return Type::kU32;
    case Op::kBar:
    case Op::kBarrier: return barrier_type(instruction, index);
    case Op::kVote:
    case Op::kMatch:
    case Op::kRedux:
    case Op::kShfl:
    case Op::kActivemask:
    case Op::kElect: return warp_type(instruction, index);
    case Op::kTex:
    case Op::kTld4:
    case Op::kTxq:
    case Op::kSuq:
    case Op::kSuld:
    case Op::kSust:
    case Op::kSured: return texture_type(instruction, index);
    case Op::kMbarrier: return mbarrier_type(instruction, index);
    case Op::kCp: return cp_type(instruction, index);
    case Op::kCreatepolicy: return policy_type(instruction, index);
    case Op::kLdmatrix:
    case Op::kStmatrix:
    case Op::kMovmatrix: return Type::kB32;
    case Op::kMma: return mma_type(instruction, index);
    case Op::kWmma: return wmma_type(instruction, index);
    case Op::kWgmma: return wgmma_type(instruction, index);
    case Op::kTcgen05: return tcgen05_type(instruction, index);
    case Op::kClusterlaunchcontrol: return cancel_type(instruction, index);
    case Op::kTensormap: return instruction.type(0);
    case Op::kAlloca: return index == 2 ? Type::kU32 : instruction.type(0);
    default: return instruction.type(0);
  }
}

}  // namespace pergola::ptx
