#include "src/analysis/pointer_exposure.h"

#include <algorithm>

#include "src/analysis/memory_operands.h"
#include "src/ptx/semantics.h"

namespace pergola::analysis {
namespace {

using ptx::Instruction;
using ptx::Mod;
using ptx::Op;
using Kind = Base::Kind;

// Of what came from memory, 32 bits are a number (pointer_value.h).
bool has_bits(const Value& value) {
  const auto parts = value.parts();
  return std::any_of(parts.begin(), parts.end(), [](const Contribution& part) {
    if (part.base.kind == Kind::kUnknown) return (part.how & Contribution::kAddress) != 0;
    return part.base.kind == Kind::kParameter || part.base.kind == Kind::kVariable;
  });
}

// A pointer, with what is added to it, or nothing of a pointer at all.
bool is_plain(const Value& value) {
  const auto parts = value.parts();
  return !value.may_be_composed() && std::all_of(parts.begin(), parts.end(), [](const Contribution& part) {
    return (part.how & (Contribution::kMangled | Contribution::kHashed)) == 0;
  });
}

bool compares_pointers(const Instruction& instruction, std::span<const Value> values) {
  if (!std::all_of(values.begin(), values.end(), is_plain)) return false;
  if (instruction.has(Mod::kEq) || instruction.has(Mod::kNe)) return true;
  return std::all_of(values.begin(), values.end(), [](const Value& value) { return value.has_exact(); });
}

}  // namespace

bool exposes_bits(const PointerFlow& flow, PointerFlow::Site site) {
  const Instruction& instruction = flow.facts(site.instance).instruction(site.statement);
  const auto operand = [&](std::size_t index) {
    return index < instruction.operands.size() ? flow.value(site, instruction.operands[index]) : Value();
  };
  std::vector<Value> read;
  for (std::size_t i = 0; i < instruction.operands.size(); ++i) {
    const ptx::Role role = ptx::role(instruction, i);
    if (role == ptx::Role::kRead || role == ptx::Role::kReadWrite) read.push_back(operand(i));
  }
  const bool any = std::any_of(read.begin(), read.end(), has_bits);
  switch (instruction.op) {
    case Op::kSetp:
    case Op::kSet: return any && !compares_pointers(instruction, read);
    case Op::kTestp:
    case Op::kVote:
    case Op::kMatch:
    case Op::kPopc:
    case Op::kClz:
    case Op::kBfind:
    case Op::kFns:
    case Op::kBmsk:
    case Op::kBrx: return any;
    case Op::kSlct: return has_bits(operand(3));
    case Op::kShr: return has_bits(operand(2));  // the amount
    case Op::kLd: {  // a table on the stack, at an index
      for (const MemoryOperand& access : memory_operands(instruction)) {
        const Value address = operand(access.operand);
        const auto parts = address.parts();
        const bool is_tracked = std::any_of(parts.begin(), parts.end(), [](const Contribution& part) {
          return part.base.kind == Kind::kObject;
        });
        if (is_tracked && has_bits(address)) return true;
      }
      return false;
    }
    default: return any && instruction.has(Mod::kCc);  // the carry
  }
}

}  // namespace pergola::analysis
