#include "src/transform/fence_roots.h"

#include "src/ptx/semantics.h"

namespace pergola::transform {

using ptx::Instruction;
using ptx::Op;
using ptx::Operand;
using ptx::RegisterId;

FenceRoots::FenceRoots(const ptx::Function& function) {
  for (const ptx::Statement& statement : function.body) {
    const Instruction* in = statement.instruction();
    if (in == nullptr) continue;
    ptx::for_each_register(*in, [&](RegisterId id, bool is_written) {
      if (is_written) definitions_[id].push_back(in);
    });
  }
}

RegisterId FenceRoots::root(RegisterId address) {
  const Found found = find(address);
  return found.kind == Found::Kind::kRoot ? found.root : address;
}

FenceRoots::Found FenceRoots::find(RegisterId address) {
  if (const auto known = found_.find(address); known != found_.end())
    return known->second ? *known->second : Found{Found::Kind::kItself};
  found_[address] = std::nullopt;
  Found all{Found::Kind::kItself};
  for (const Instruction* in : definitions_[address]) {
    const Found one = of_definition(address, *in);
    if (one.kind == Found::Kind::kItself) continue;  // p += stride
    if (all.kind == Found::Kind::kItself)
      all = one;
    else if (all.kind != one.kind || all.root != one.root)
      all = {Found::Kind::kRoot, address};  // several, or only in part an address
  }
  if (all.kind == Found::Kind::kItself) all = {};
  found_[address] = all;
  return all;
}

FenceRoots::Found FenceRoots::of_operand(const Operand& operand) {
  return operand.kind == Operand::Kind::kRegister && operand.component < 0 ? find(operand.reg) : Found{};
}

FenceRoots::Found FenceRoots::of_definition(RegisterId address, const Instruction& in) {
  switch (in.op) {
    case Op::kMov:
      if (in.operands.size() == 2 && in.operands[1].kind == Operand::Kind::kSymbol)
        return {Found::Kind::kRoot, address};
      [[fallthrough]];
    case Op::kCvta: return in.operands.size() == 2 ? of_operand(in.operands[1]) : Found{};
    case Op::kSub: return of_operand(in.operands.at(1));
    case Op::kMad: return of_operand(in.operands.at(3));
    case Op::kAdd: {
      const Found first = of_operand(in.operands.at(1)), second = of_operand(in.operands.at(2));
      if (second.kind == Found::Kind::kNone) return first;
      if (first.kind == Found::Kind::kNone) return second;
      return first.kind == second.kind && first.root == second.root ? first : Found{Found::Kind::kRoot, address};
    }
    case Op::kLd:
    case Op::kLdu: {
      const bool is_64_bits = ptx::size_bytes(in.type()) == 8;
      return is_64_bits ? Found{Found::Kind::kRoot, address} : Found{};
    }
    default: return {};
  }
}

}  // namespace pergola::transform
