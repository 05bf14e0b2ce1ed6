#include "src/device/cpu/blocks/block_weights.h"

#include <algorithm>

namespace pergola::device::cpu::blocks {
namespace {

using ptx::Mod;
using ptx::Op;
using ptx::Type;

bool is_double(Type type) {
  return type == Type::kF64;
}
bool is_64_bits(Type type) {
  return type == Type::kS64 || type == Type::kU64 || type == Type::kB64 || type == Type::kF64;
}

InstructionClass class_of_division(const ptx::Instruction& i) {
  const Type type = i.type();
  if (is_double(type)) return InstructionClass::kDoubleDivide;
  if (is_float(type)) {
    return i.has(Mod::kApprox) || i.has(Mod::kFull) ? InstructionClass::kSpecial : InstructionClass::kDivide;
  }
  return is_64_bits(type) ? InstructionClass::kWideDivide : InstructionClass::kIntegerDivide;
}

InstructionClass class_of_product(const ptx::Instruction& i) {
  const Type type = i.type();
  if (is_double(type)) return InstructionClass::kDouble;
  if (is_float(type)) return InstructionClass::kSimple;
  return is_64_bits(type) ? InstructionClass::kWideMultiply : InstructionClass::kMultiply;
}

}  // namespace

InstructionClass class_of(const ptx::Instruction& i) {
  switch (i.op) {
    case Op::kLd:
    case Op::kLdu:
    case Op::kSt:
    case Op::kAtom:
    case Op::kRed:
    case Op::kCp:
    case Op::kLdmatrix:
    case Op::kTex:
    case Op::kTld4: return InstructionClass::kMemory;
    case Op::kBar:
    case Op::kBarrier: return InstructionClass::kBarrier;
    case Op::kDiv:
    case Op::kRem:
    case Op::kSqrt:
    case Op::kRcp:
    case Op::kRsqrt: return class_of_division(i);
    case Op::kMul:
    case Op::kMad:
    case Op::kMadc:
    case Op::kMul24:
    case Op::kMad24:
    case Op::kFma: return class_of_product(i);
    case Op::kSin:
    case Op::kCos:
    case Op::kEx2:
    case Op::kLg2:
    case Op::kTanh:
    case Op::kShfl:
    case Op::kVote:
    case Op::kMatch:
    case Op::kActivemask:
    case Op::kPopc:
    case Op::kClz:
    case Op::kBfind:
    case Op::kBrev: return InstructionClass::kSpecial;
    case Op::kCvt:
      if (is_double(i.type(0)) || is_double(i.type(1))) return InstructionClass::kDouble;
      return is_float(i.type(0)) || is_float(i.type(1)) ? InstructionClass::kSpecial : InstructionClass::kSimple;
    case Op::kShl:
    case Op::kShr:
    case Op::kShf:
    case Op::kBfe:
    case Op::kBfi: return is_64_bits(i.type()) ? InstructionClass::kWide : InstructionClass::kShift;
    case Op::kMov:
    case Op::kCvta:
    case Op::kBra: return InstructionClass::kSimple;
    default: break;
  }
  if (is_double(i.type())) return InstructionClass::kDouble;
  return is_64_bits(i.type()) ? InstructionClass::kWide : InstructionClass::kSimple;
}

InstructionWeight weight_of(InstructionClass kind) {
  switch (kind) {
    case InstructionClass::kSimple: return {1, 6};
    case InstructionClass::kShift: return {2, 6};
    case InstructionClass::kWide: return {2, 12};
    case InstructionClass::kMultiply: return {3, 18};
    case InstructionClass::kWideMultiply: return {10, 60};
    case InstructionClass::kSpecial: return {4, 24};
    case InstructionClass::kDivide: return {10, 60};
    case InstructionClass::kIntegerDivide: return {20, 120};
    case InstructionClass::kWideDivide: return {80, 480};
    case InstructionClass::kDouble: return {32, 48};
    case InstructionClass::kDoubleDivide: return {320, 480};
    case InstructionClass::kMemory: return {1, 0};
    case InstructionClass::kBarrier: return {1, 0};
  }
  return {1, 6};
}

BlockCost cost_of(const BlockWork& work, IssueOrder order) {
  std::uint64_t issued = 0, busiest = 0;
  for (const std::uint64_t cycles : work.issue_cycles) issued += cycles, busiest = std::max(busiest, cycles);
  const std::uint64_t chain = work.chain_cycles[static_cast<std::size_t>(order)];
  const auto cycles = static_cast<double>(std::max({chain, busiest, work.port_cycles, std::uint64_t{1}}));
  const double share =
      std::max(static_cast<double>(issued) / kSchedulers, static_cast<double>(work.port_cycles)) / cycles;
  return {cycles / kClockGhz, std::min(share, 1.0)};
}

}  // namespace pergola::device::cpu::blocks
