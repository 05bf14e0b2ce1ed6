#include "src/analysis/pointer_function.h"

#include <memory>

#include "src/ptx/semantics.h"

namespace pergola::analysis {
namespace {

using ptx::Mod;
using ptx::Op;
using ptx::Operand;

LocalObject object_of(const ptx::Variable& variable, bool is_formal) {
  const bool is_scalar = variable.extents.empty() && variable.vector == 1;
  return {variable.name, variable.size_bytes(), variable.type, is_scalar, is_formal};
}

}  // namespace

Result<FunctionFacts> FunctionFacts::of(const ptx::Function& function) {
  FunctionFacts facts;
  facts.function = &function;
  PERGOLA_ASSIGN(facts.cfg, build_cfg(function));
  for (const std::uint32_t block : facts.cfg.reverse_post_order) {
    const auto& statements = facts.cfg.blocks[block].statements;
    facts.statements.insert(facts.statements.end(), statements.begin(), statements.end());
  }
  facts.definitions = std::make_unique<ReachingDefinitions>(function, facts.cfg);
  facts.add_formals();
  facts.find_scopes();
  facts.find_constants();
  return facts;
}

void FunctionFacts::add_formals() {
  scopes_.emplace_back();
  const auto add = [&](const std::vector<ptx::Variable>& variables, std::vector<std::uint32_t>& object,
                       std::vector<std::uint32_t>& reg) {
    for (const ptx::Variable& variable : variables) {
      object.push_back(kNoStatement);
      reg.push_back(kNoStatement);
      if (variable.space == ptx::Space::kReg) {
        for (ptx::RegisterId id = 0; id < function->registers.size(); ++id) {
          if (function->registers[id].name == variable.name) {
            reg.back() = id;
            break;
          }
        }
        continue;
      }
      object.back() = static_cast<std::uint32_t>(objects.size());
      scopes_[0].objects[variable.name] = object.back();
      objects.push_back(object_of(variable, true));
    }
  };
  add(function->parameters, parameter_object, parameter_register);
  add(function->results, result_object, result_register);
}

void FunctionFacts::find_scopes() {
  scope_of_statement_.assign(function->body.size(), 0);
  std::uint32_t scope = 0;
  for (std::uint32_t index = 0; index < function->body.size(); ++index) {
    const ptx::Statement& statement = function->body[index];
    if (std::holds_alternative<ptx::ScopeBegin>(statement.node)) {
      scopes_.push_back({scope, {}});
      scope = static_cast<std::uint32_t>(scopes_.size() - 1);
    } else if (std::holds_alternative<ptx::ScopeEnd>(statement.node)) {
      if (scopes_[scope].parent != kNoStatement) scope = scopes_[scope].parent;
    } else if (const auto* variable = std::get_if<ptx::Variable>(&statement.node)) {
      const bool tracked = variable->space == ptx::Space::kLocal || variable->space == ptx::Space::kParam;
      const bool shared = variable->space == ptx::Space::kShared;
      scopes_[scope].objects[variable->name] = tracked  ? static_cast<std::uint32_t>(objects.size())
                                               : shared ? kSharedName
                                                        : kOtherName;
      if (tracked) objects.push_back(object_of(*variable, false));
    } else if (const auto* targets = std::get_if<ptx::CallTargets>(&statement.node)) {
      call_targets[targets->name] = targets;
    } else if (statement.instruction() != nullptr && statement.instruction()->op == Op::kAlloca) {
      alloca_object[index] = static_cast<std::uint32_t>(objects.size());
      objects.push_back({"alloca", 0, ptx::Type::kB8, false, false});
    }
    scope_of_statement_[index] = scope;
  }
}

std::uint32_t FunctionFacts::find_object(std::string_view name, std::uint32_t statement) const {
  const std::string key(name);
  for (std::uint32_t scope = scope_of_statement_[statement]; scope != kNoStatement; scope = scopes_[scope].parent) {
    const auto found = scopes_[scope].objects.find(key);
    if (found != scopes_[scope].objects.end()) return found->second;
  }
  return kNoStatement;
}

std::optional<std::uint64_t> FunctionFacts::constant(const Operand& operand) const {
  if (operand.kind == Operand::Kind::kInteger) return operand.bits;
  if (operand.kind == Operand::Kind::kRegister && operand.component < 0) return constants[operand.reg];
  return std::nullopt;
}

// One pass in textual order: definitions stand before their uses in what compilers emit, and a constant that is
// missed costs precision only.
void FunctionFacts::find_constants() {
  constants.assign(function->registers.size(), std::nullopt);
  for (const std::uint32_t statement : statements) {
    const ptx::Instruction& i = instruction(statement);
    if (i.guard.present() || i.operands.empty() || i.operands[0].kind != Operand::Kind::kRegister) continue;
    const ptx::RegisterId reg = i.operands[0].reg;
    if (i.operands[0].component >= 0 || function->registers[reg].vector != 1) continue;
    if (!definitions->is_single(reg) || definitions->definition(statement, reg) == kNoStatement) continue;
    constants[reg] = fold(i);
  }
}

// Values are kept as the text writes them, sign-extended; only what needs no wrapping is folded.
std::optional<std::uint64_t> FunctionFacts::fold(const ptx::Instruction& i) const {
  const auto get = [&](std::size_t index) {
    return index < i.operands.size() ? constant(i.operands[index]) : std::nullopt;
  };
  const ptx::Type type = i.type();
  if (ptx::class_of(type) == ptx::TypeClass::kFloat || ptx::class_of(type) == ptx::TypeClass::kPredicate) {
    return std::nullopt;
  }
  const auto a = get(1), b = get(2);
  constexpr std::uint64_t kSmall = std::uint64_t{1} << 31;  // no operation below wraps in 32 bits by surprise
  if (i.op == Op::kMov && a) return a;
  if (i.op == Op::kCvt && a && *a < kSmall && !ptx::is_float(i.type(1)) && ptx::size_bytes(type) >= 4) return a;
  if (!a || !b || *a >= kSmall || *b >= kSmall || ptx::size_bytes(type) < 8) return std::nullopt;
  if (i.op == Op::kAdd) return *a + *b;
  if (i.op == Op::kMul && i.has(Mod::kLo)) return *a * *b;
  if (i.op == Op::kShl && *b < 32) return *a << *b;
  return std::nullopt;
}

}  // namespace pergola::analysis
