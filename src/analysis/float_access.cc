#include "src/analysis/float_access.h"

#include <algorithm>

namespace pergola::analysis {
namespace {

using ptx::Instruction;
using ptx::Op;
using ptx::Operand;
using ptx::Type;

// All of whose registers are numbers of the one type that it names.
bool is_arithmetic(Op op) {
  constexpr Op kOps[] = {Op::kAdd, Op::kSub, Op::kMul, Op::kFma, Op::kDiv,  Op::kNeg, Op::kAbs, Op::kMin,
                         Op::kMax, Op::kRcp, Op::kSin, Op::kCos, Op::kSqrt, Op::kEx2, Op::kLg2, Op::kRsqrt};
  return std::ranges::find(kOps, op) != std::end(kOps);
}

bool is_f32_or_f64(Type type) {
  return type == Type::kF32 || type == Type::kF64;
}

bool is_register(const Operand& operand) {
  return operand.kind == Operand::Kind::kRegister && operand.component < 0;
}

}  // namespace

FloatAccesses::FloatAccesses(const ptx::Function& function, const ReachingDefinitions& definitions)
    : by_use_(function.registers.size(), Type::kNone) {
  for (const ptx::Statement& statement : function.body) {
    const Instruction* const i = statement.instruction();
    if (i == nullptr || !is_arithmetic(i->op) || !is_f32_or_f64(i->type())) continue;
    for (const Operand& operand : i->operands)  // a register that is written once holds one kind of number
      if (is_register(operand) && definitions.is_single(operand.reg)) by_use_[operand.reg] = i->type();
  }
}

Type FloatAccesses::type_of(const Instruction& access) const {
  if ((access.op == Op::kAtom || access.op == Op::kRed) && access.has(ptx::Mod::kAdd) && is_f32_or_f64(access.type()))
    return access.type();
  const bool moves = access.op == Op::kLd || access.op == Op::kLdu || access.op == Op::kSt;
  const Type type = access.type();
  const bool may_be_f32 = type == Type::kB32 || type == Type::kF32,
             may_be_f64 = type == Type::kB64 || type == Type::kF64;
  if (!moves || by_use_.empty() || (!may_be_f32 && !may_be_f64)) return Type::kNone;
  const Type wanted = may_be_f32 ? Type::kF32 : Type::kF64;
  const auto is_used_so = [&](const Operand& operand) {
    return is_register(operand) && by_use_[operand.reg] == wanted;
  };
  for (const Operand& operand : access.operands)
    if (is_used_so(operand) ||
        (operand.kind == Operand::Kind::kVector && std::ranges::any_of(operand.elements, is_used_so)))
      return wanted;
  return Type::kNone;
}

}  // namespace pergola::analysis
