// What each instruction does to the values of registers and tracked memory: the transfer function of pointer_flow.h.
#include <algorithm>

#include "src/analysis/memory_operands.h"
#include "src/analysis/pointer_flow.h"
#include "src/ptx/semantics.h"

namespace pergola::analysis {
namespace {

using ptx::Instruction;
using ptx::Mod;
using ptx::Op;
using ptx::Operand;
using ptx::Space;

const Operand* address_of(const Instruction& instruction) {
  for (const Operand& operand : instruction.operands) {
    if (operand.kind == Operand::Kind::kAddress) return &operand;
  }
  return nullptr;
}

bool makes_number(Op op) {
  switch (op) {
    case Op::kSetp:
    case Op::kSet:
    case Op::kTestp:
    case Op::kIsspacep:
    case Op::kIstypep:
    case Op::kVote:
    case Op::kMatch:
    case Op::kActivemask:
    case Op::kElect:
    case Op::kPopc:
    case Op::kClz:
    case Op::kBfind:
    case Op::kFns:
    case Op::kBmsk:
    case Op::kTxq:
    case Op::kSuq:
    case Op::kStacksave:
    case Op::kGetctarank:
    case Op::kCreatepolicy:
    case Op::kMbarrier:
    case Op::kClusterlaunchcontrol:
    case Op::kBar:
    case Op::kBarrier: return true;
    default: return false;
  }
}

}  // namespace

Status PointerFlow::evaluate(Site site) {
  const Instruction& instruction = facts(site.instance).instruction(site.statement);
  switch (instruction.op) {
    case Op::kCall: return evaluate_call(site);
    case Op::kOpaque: evaluate_opaque(site, instruction); return {};
    case Op::kLd:
    case Op::kLdu: evaluate_load(site, instruction); return {};
    case Op::kSt: evaluate_store(site, instruction); return {};
    case Op::kAtom:
    case Op::kRed: evaluate_atomic(site, instruction); return {};
    case Op::kMov: evaluate_move(site, instruction); return {};
    default: break;
  }
  Value result;
  const auto memory = memory_operands(instruction);
  if (makes_number(instruction.op)) {
    result = Value::integer();
  } else if (!memory.empty() || address_of(instruction) != nullptr) {
    result = Value::loaded(8, origin_of(site));
    for (const MemoryOperand& access : memory) {
      if (!access.writes || access.operand == MemoryOperand::kNowhere) continue;
      store(value(site, instruction.operands[access.operand]), access.space, kAnyOffset, 8, result);
    }
  } else {
    result = arithmetic(site, instruction);
  }
  for (std::size_t i = 0; i < instruction.operands.size(); ++i) {
    const ptx::Role role = ptx::role(instruction, i);
    if (role == ptx::Role::kWrite || role == ptx::Role::kReadWrite) assign(site, instruction.operands[i], result);
  }
  return {};
}

void PointerFlow::evaluate_opaque(Site site, const Instruction& instruction) {
  const FunctionFacts& function = facts(site.instance);
  for (const ptx::RegisterId reg : instruction.text_registers) escape(value(site, Operand::make_register(reg)));
  for (std::uint32_t i = 0; i < function.objects.size(); ++i) {
    if (instruction.text.find(function.objects[i].name) == std::string::npos) continue;
    escape(Value::exact({Base::Kind::kObject, instances_[site.instance].first_object + i}));
  }
  const Value anything = Value::loaded(8, origin_of(site));
  if (!memory_operands(instruction).empty()) store(anything, Space::kNone, 0, 8, anything);
  for (const ptx::RegisterId reg : instruction.text_registers) assign(site, Operand::make_register(reg), anything);
}

void PointerFlow::evaluate_load(Site site, const Instruction& instruction) {
  const Operand* from = address_of(instruction);
  if (from == nullptr || instruction.operands.empty()) return;
  const Value address = value(site, *from);
  const ptx::Type type = instruction.type();
  const Operand& to = instruction.operands[0];
  if (to.kind != Operand::Kind::kVector) return assign(site, to, load(site, address, instruction.space(), 0, type));
  for (std::size_t i = 0; i < to.elements.size(); ++i) {
    const auto offset = static_cast<std::int64_t>(i * ptx::size_bytes(type));
    assign(site, to.elements[i], load(site, address, instruction.space(), offset, type));
  }
}

void PointerFlow::evaluate_store(Site site, const Instruction& instruction) {
  const Operand* to = address_of(instruction);
  if (to == nullptr || instruction.operands.size() < 2) return;
  const Value address = value(site, *to);
  const std::uint32_t bytes = std::max(1u, ptx::size_bytes(instruction.type()));
  const Operand& from = instruction.operands[1];
  if (from.kind != Operand::Kind::kVector) {
    return store(address, instruction.space(), 0, bytes, value(site, from));
  }
  for (std::size_t i = 0; i < from.elements.size(); ++i) {
    store(address, instruction.space(), static_cast<std::int64_t>(i * bytes), bytes, value(site, from.elements[i]));
  }
}

// The old value comes back; an operand, or something made of it and the old value, is put there.
void PointerFlow::evaluate_atomic(Site site, const Instruction& instruction) {
  const Operand* at = address_of(instruction);
  if (at == nullptr) return;
  const Value address = value(site, *at);
  const Value old = load(site, address, instruction.space(), 0, instruction.type());
  const std::uint32_t bytes = std::max(1u, ptx::size_bytes(instruction.type()));
  for (std::size_t i = 0; i < instruction.operands.size(); ++i) {
    const Operand& operand = instruction.operands[i];
    const ptx::Role role = ptx::role(instruction, i);
    if (role == ptx::Role::kWrite) {
      assign(site, operand, old);
    } else if (role == ptx::Role::kRead) {
      const Value both[] = {old, value(site, operand)};
      store(address, instruction.space(), 0, bytes, both[1]);
      store(address, instruction.space(), 0, bytes, mix(both, Value::Mix::kOther));
    }
  }
}

void PointerFlow::evaluate_move(Site site, const Instruction& instruction) {
  if (instruction.operands.size() < 2) return;
  const Operand& to = instruction.operands[0];
  const Operand& from = instruction.operands[1];
  const unsigned bits = ptx::size_bytes(instruction.type()) * 8;
  if (from.kind == Operand::Kind::kVector && to.kind != Operand::Kind::kVector) {
    std::vector<Value> elements;
    for (const Operand& element : from.elements) elements.push_back(value(site, element));
    return assign(site, to, pack(elements, bits));
  }
  if (to.kind != Operand::Kind::kVector) return assign(site, to, value(site, from));
  const Value whole[] = {value(site, from)};
  for (const Operand& element : to.elements) {
    const bool is_short = bits / std::max<std::size_t>(1, to.elements.size()) <= 32;
    assign(site, element, is_short ? truncate(whole[0]) : mix(whole, Value::Mix::kOther));
  }
}

Value PointerFlow::mixed(Site site, const Instruction& instruction, Value::Mix kind) const {
  std::vector<Value> operands;
  for (std::size_t i = 0; i < instruction.operands.size(); ++i) {
    const ptx::Role role = ptx::role(instruction, i);
    if (role != ptx::Role::kRead && role != ptx::Role::kReadWrite) continue;
    operands.push_back(value(site, instruction.operands[i]));
  }
  return mix(operands, kind);
}

Value PointerFlow::convert(Site site, const Instruction& instruction) const {
  const ptx::Type to = instruction.type(0), from = instruction.type(1);
  if (instruction.operands.size() != 2 || from == ptx::Type::kNone || ptx::is_float(from)) {
    return mixed(site, instruction, Value::Mix::kFloat);
  }
  if (ptx::is_float(to)) return mixed(site, instruction, Value::Mix::kQuotient);
  const Value source = value(site, instruction.operands[1]);
  return ptx::size_bytes(to) <= 4 || ptx::size_bytes(from) <= 4 ? truncate(source) : source;
}

Value PointerFlow::product(Site site, const Instruction& instruction) const {
  const FunctionFacts& function = facts(site.instance);
  const Operand& left = instruction.operands[1];
  const Operand& right = instruction.operands[2];
  const unsigned bits = ptx::size_bytes(instruction.type()) * (instruction.has(Mod::kWide) ? 16 : 8);
  if (const auto factor = function.constant(right)) return scale(value(site, left), factor, bits);
  if (const auto factor = function.constant(left)) return scale(value(site, right), factor, bits);
  return add(scale(value(site, left), std::nullopt, bits), scale(value(site, right), std::nullopt, bits), std::nullopt);
}

Value PointerFlow::sum(Site site, const Instruction& instruction, bool subtracts) const {
  const FunctionFacts& function = facts(site.instance);
  const Operand& left = instruction.operands[1];
  const Operand& right = instruction.operands[2];
  const Value a = value(site, left), b = value(site, right);
  if (subtracts) return subtract(a, b, function.constant(right));
  if (const auto constant = function.constant(left)) return add(b, a, constant);
  return add(a, b, function.constant(right));
}

Value PointerFlow::arithmetic(Site site, const Instruction& instruction) const {
  const FunctionFacts& function = facts(site.instance);
  const auto& operands = instruction.operands;
  const auto operand = [&](std::size_t index) { return value(site, operands[index]); };
  const ptx::Type type = instruction.type();
  const unsigned bits = ptx::size_bytes(type) * 8;
  if (instruction.op == Op::kCvt) return convert(site, instruction);
  if (operands.size() < 2) return mixed(site, instruction, Value::Mix::kOther);
  switch (instruction.op) {
    case Op::kCvta: {
      const Value pointer = operand(1);
      const bool to_shared = instruction.space() == Space::kShared && !pointer.is_bottom() && !pointer.has_exact();
      return to_shared ? Value::exact({Base::Kind::kShared, 0}) : pointer;
    }
    case Op::kMapa: return operand(1);
    case Op::kAlloca: {
      const auto found = function.alloca_object.find(site.statement);
      return Value::exact({Base::Kind::kObject, instances_[site.instance].first_object + found->second});
    }
    default: break;
  }
  if (operands.size() < 3) {
    if (instruction.op == Op::kNot || instruction.op == Op::kCnot)
      return mixed(site, instruction, Value::Mix::kBitwise);
    return mixed(site, instruction, ptx::is_float(type) ? Value::Mix::kFloat : Value::Mix::kOther);
  }
  switch (instruction.op) {
    case Op::kSelp:
    case Op::kSlct:
    case Op::kMin:
    case Op::kMax: {
      Value either = operand(1);
      either.merge(operand(2));
      return either;
    }
    default: break;
  }
  if (ptx::is_float(type)) return mixed(site, instruction, Value::Mix::kFloat);
  switch (instruction.op) {
    case Op::kAdd:
    case Op::kAddc: return sum(site, instruction, false);
    case Op::kSub:
    case Op::kSubc: return sum(site, instruction, true);
    case Op::kMul:
    case Op::kMad:
    case Op::kMadc: {
      if (instruction.has(Mod::kHi)) return mixed(site, instruction, Value::Mix::kOther);
      const Value multiplied = product(site, instruction);
      return operands.size() < 4 ? multiplied : add(multiplied, operand(3), function.constant(operands[3]));
    }
    case Op::kShl: {
      const auto amount = function.constant(operands[2]);
      if (amount) return scale(operand(1), *amount < 64 ? std::uint64_t{1} << *amount : 0, bits);
      return scale(mixed(site, instruction, Value::Mix::kOther), std::uint64_t{1} << 16, bits);
    }
    case Op::kShr: return shift_right(operand(1), function.constant(operands[2]));
    case Op::kAnd:
      if (const auto constant = function.constant(operands[2])) return mask(operand(1), *constant);
      if (const auto constant = function.constant(operands[1])) return mask(operand(2), *constant);
      return mixed(site, instruction, Value::Mix::kBitwise);
    case Op::kOr: return add(operand(1), operand(2), std::nullopt);  // disjoint bits, in what compilers emit
    case Op::kXor:
    case Op::kLop3:
    case Op::kPrmt: return mixed(site, instruction, Value::Mix::kBitwise);
    case Op::kDiv: return mixed(site, instruction, Value::Mix::kQuotient);
    case Op::kRem: {
      const auto divisor = function.constant(operands[2]);
      const bool is_small = divisor ? *divisor <= std::uint64_t{1} << 32 : operand(2).is_narrow();
      const Value rest = mixed(site, instruction, Value::Mix::kQuotient);
      return is_small ? truncate(rest) : rest;
    }
    case Op::kBfi: return scale(mixed(site, instruction, Value::Mix::kOther), std::uint64_t{1} << 16, bits);
    default: return mixed(site, instruction, Value::Mix::kOther);
  }
}

}  // namespace pergola::analysis
