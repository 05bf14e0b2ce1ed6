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

// A register that is written once holds one kind of number.
Type type_by_use(const ptx::Function& function, const ReachingDefinitions& definitions, ptx::RegisterId reg) {
  if (const Type declared = function.registers[reg].type; is_f32_or_f64(declared)) return declared;
  if (!definitions.is_single(reg)) return Type::kNone;
  for (const ptx::Statement& statement : function.body) {
    const Instruction* const i = statement.instruction();
    if (i == nullptr || !is_arithmetic(i->op) || !is_f32_or_f64(i->type())) continue;
    const auto is_it = [&](const Operand& operand) {
      return operand.kind == Operand::Kind::kRegister && operand.component < 0 && operand.reg == reg;
    };
    if (std::ranges::any_of(i->operands, is_it)) return i->type();
  }
  return Type::kNone;
}

}  // namespace

Type float_type_of(const ptx::Function& function, const ReachingDefinitions& definitions, const Instruction& access) {
  if (is_f32_or_f64(access.type())) return access.type();
  const bool moves = access.op == Op::kLd || access.op == Op::kLdu || access.op == Op::kSt;
  if (!moves || (access.type() != Type::kB32 && access.type() != Type::kB64)) return Type::kNone;
  const Type of_that_size = access.type() == Type::kB32 ? Type::kF32 : Type::kF64;
  const auto is_of = [&](const Operand& operand) {
    return operand.kind == Operand::Kind::kRegister && operand.component < 0 &&
           type_by_use(function, definitions, operand.reg) == of_that_size;
  };
  for (const Operand& operand : access.operands) {
    if (is_of(operand)) return of_that_size;
    if (operand.kind == Operand::Kind::kVector && std::ranges::any_of(operand.elements, is_of)) return of_that_size;
  }
  return Type::kNone;
}

}  // namespace pergola::analysis
