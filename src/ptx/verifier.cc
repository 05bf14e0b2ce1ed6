// Names, labels and scopes of a module and of each body; operands are judged by verifier_operands.cc.
#include "src/ptx/verifier.h"

#include <set>
#include <unordered_map>
#include <unordered_set>

#include "src/base/plural.h"
#include "src/ptx/label_scopes.h"
#include "src/ptx/verifier_impl.h"

namespace pergola::ptx {
namespace {

struct Names {
  std::unordered_map<std::string_view, const Function*> functions;
  std::unordered_set<std::string_view> variables;
};

class BodyVerifier {
 public:
  BodyVerifier(const Module& module, const Names& names, const Function& function)
      : module_(module), names_(names), function_(function) {}

  Status run() {
    for (const auto* list : {&function_.results, &function_.parameters}) {
      for (const Variable& variable : *list) {
        // A .reg parameter is a register; only .param names are symbols.
        PERGOLA_TRY(declare(variable, function_.location));
      }
    }
    PERGOLA_TRY(collect_labels());
    scope_ = 0;
    std::size_t next_scope = 1;
    for (const Statement& statement : function_.body) {
      if (std::holds_alternative<ScopeBegin>(statement.node)) {
        undo_marks_.push_back(undo_.size());
        scope_ = next_scope++;
      } else if (std::holds_alternative<ScopeEnd>(statement.node)) {
        close_scope();
      } else {
        PERGOLA_TRY(check(statement));
      }
    }
    return {};
  }

 private:
  struct Scope {
    std::size_t parent = 0;
    std::unordered_map<std::string_view, const Statement*> labels;
    std::set<std::string_view> registers;          // declared here by name
    std::set<std::string_view> register_prefixes;  // declared here as ranges
  };

  template <typename... Args>
  Error wrong(Location location, fmt::format_string<Args...> format, Args&&... args) const {
    return PERGOLA_ERROR(kParseError, "{}:{}:{}: {}", module_.source_name, location.line, location.column,
                         fmt::format(format, std::forward<Args>(args)...));
  }

  // Labels may be used before they stand, so they are gathered first.
  Status collect_labels() {
    scopes_.emplace_back();
    std::size_t current = 0;
    std::size_t depth = 0;
    for (const Statement& statement : function_.body) {
      std::string_view name;
      if (std::holds_alternative<ScopeBegin>(statement.node)) {
        scopes_.push_back(Scope{current, {}, {}});
        current = scopes_.size() - 1;
        ++depth;
      } else if (std::holds_alternative<ScopeEnd>(statement.node)) {
        if (depth-- == 0) return wrong(statement.location, "expected a '{{' for each '}}', found one '}}' more");
        current = scopes_[current].parent;
      } else if (const std::string* label = label_name(statement)) {
        name = *label;
      }
      if (!name.empty() && !scopes_[current].labels.emplace(name, &statement).second) {
        return wrong(statement.location, "expected a label once in its scope, found '{}' again", name);
      }
    }
    if (depth != 0) return wrong(function_.location, "expected a '}}' for each '{{' of '{}'", function_.name);
    return {};
  }

  const Statement* find_label(std::string_view name) const {
    for (std::size_t scope = scope_;; scope = scopes_[scope].parent) {
      const auto it = scopes_[scope].labels.find(name);
      if (it != scopes_[scope].labels.end()) return it->second;
      if (scope == 0) return nullptr;
    }
  }

  void close_scope() {
    const std::size_t mark = undo_marks_.back();
    undo_marks_.pop_back();
    for (; undo_.size() > mark; undo_.pop_back()) variables_[undo_.back()].pop_back();
    scope_ = scopes_[scope_].parent;
  }

  Status declare(const Variable& variable, Location location) {
    auto& places = variables_[variable.name];
    if (!places.empty() && places.back().scope == scope_) {
      return wrong(location, "expected a variable once in its scope, found '{}' again", variable.name);
    }
    places.push_back({scope_, &variable});
    undo_.push_back(variable.name);
    return {};
  }

  bool is_variable(std::string_view name) const {
    const auto it = variables_.find(name);
    return (it != variables_.end() && !it->second.empty()) || names_.variables.contains(name);
  }

  Status check(const Statement& statement) {
    if (const Instruction* instruction = statement.instruction()) return check_instruction(*instruction);
    if (const auto* variable = std::get_if<Variable>(&statement.node)) return declare(*variable, statement.location);
    if (const auto* declaration = std::get_if<RegisterDecl>(&statement.node)) {
      return check_registers(*declaration, statement.location);
    }
    if (const auto* targets = std::get_if<BranchTargets>(&statement.node)) {
      for (const std::string& name : targets->labels) {
        if (find_code_label(name) == nullptr) {
          return wrong(statement.location, "expected a label of this function, found '{}'", name);
        }
      }
    } else if (const auto* calls = std::get_if<CallTargets>(&statement.node)) {
      for (const std::string& name : calls->functions) {
        if (!names_.functions.contains(name)) {
          return wrong(statement.location, "expected a function of this module, found '{}'", name);
        }
      }
    }
    return {};
  }

  const Statement* find_code_label(std::string_view name) const {
    const Statement* statement = find_label(name);
    return statement != nullptr && std::holds_alternative<Label>(statement->node) ? statement : nullptr;
  }

  Status check_registers(const RegisterDecl& declaration, Location location) {
    const std::size_t count = function_.registers.size();
    if (declaration.first > count || declaration.count > count - declaration.first ||
        (!declaration.parameterized && declaration.count != 1)) {
      return wrong(location, "expected registers {} and {} more to be of the function, which has {}", declaration.first,
                   declaration.count, count);
    }
    // %q<4> declares %q0 to %q3: a register %q may stand beside it.
    const std::string_view name =
        declaration.parameterized ? declaration.prefix : function_.registers[declaration.first].name;
    auto& known = declaration.parameterized ? scopes_[scope_].register_prefixes : scopes_[scope_].registers;
    if (!known.insert(name).second) {
      return wrong(location, "expected a register once in its scope, found '{}' again", name);
    }
    return {};
  }

  // ---- Instructions

  Status check_instruction(const Instruction& instruction) {
    const Location location = instruction.location;
    for (const RegisterId id : instruction.text_registers) {
      if (id >= function_.registers.size()) return wrong(location, "expected a register's number, found {}", id);
    }
    if (instruction.guard.present()) {
      const RegisterId id = instruction.guard.predicate;
      if (id >= function_.registers.size()) return wrong(location, "expected a register's number, found {}", id);
      const Register& guard = function_.registers[id];
      if (guard.type != Type::kPred) {
        return wrong(location, "expected a predicate after '@', found '{}' of type .{}", guard.name,
                     spelling(guard.type));
      }
    }
    for (const Operand& operand : instruction.operands) PERGOLA_TRY(check_names(operand, location));
    if (const auto message = check_operands(instruction, function_)) return wrong(location, "{}", *message);
    if (instruction.op == Op::kCall) return check_call(instruction);
    return check_targets(instruction);
  }

  Status check_names(const Operand& operand, Location location) {
    switch (operand.kind) {
      case Operand::Kind::kRegister:
        if (operand.reg >= function_.registers.size()) {
          return wrong(location, "expected a register's number, found {}", operand.reg);
        }
        break;
      case Operand::Kind::kSpecial:
        if (operand.special == Special::kOther && !operand.name.starts_with("%pm") &&
            !operand.name.starts_with("%reserved_smem_offset_")) {
          return wrong(location, "expected a declared register, found '{}'", operand.name);
        }
        break;
      case Operand::Kind::kSymbol:
        if (!is_variable(operand.name) && !names_.functions.contains(operand.name)) {
          return wrong(location, "expected a declared register, variable or function, found '{}'", operand.name);
        }
        break;
      default: break;
    }
    for (const Operand& element : operand.elements) PERGOLA_TRY(check_names(element, location));
    return {};
  }

  Status check_targets(const Instruction& instruction) {
    for (const Operand& operand : instruction.operands) {
      if (operand.kind != Operand::Kind::kLabel) continue;
      const Statement* target = find_label(operand.name);
      const bool table = instruction.op == Op::kBrx;
      if (target != nullptr &&
          (table ? std::holds_alternative<BranchTargets>(target->node) : std::holds_alternative<Label>(target->node))) {
        continue;
      }
      return wrong(instruction.location, "expected {} of this function, found '{}'",
                   table ? "a .branchtargets list" : "a label", operand.name);
    }
    return {};
  }

  Status check_call(const Instruction& call) {
    std::size_t place = 0;
    std::size_t results = 0, arguments = 0;
    const auto& operands = call.operands;
    const auto is_tuple = [&](std::size_t i) {
      return i < operands.size() && operands[i].kind == Operand::Kind::kTuple;
    };
    const Operand* given = nullptr;
    if (is_tuple(place)) results = operands[place++].elements.size();
    if (place >= operands.size()) return wrong(call.location, "expected a function to call, found none");
    const Operand& callee = operands[place++];
    if (is_tuple(place)) {
      given = &operands[place++];
      arguments = given->elements.size();
    }
    for (std::size_t i = place; i < operands.size(); ++i) {
      const Statement* target = operands[i].kind == Operand::Kind::kLabel ? find_label(operands[i].name) : nullptr;
      const bool known = target != nullptr && !std::holds_alternative<Label>(target->node) &&
                         !std::holds_alternative<BranchTargets>(target->node);
      if (!known) return wrong(call.location, "expected a prototype or a list of call targets as the last operand");
    }
    if (callee.kind == Operand::Kind::kRegister) {
      if (place == operands.size()) {
        return wrong(call.location, "expected a prototype after an indirect call's arguments, found none");
      }
      return {};
    }
    const auto it = names_.functions.find(callee.name);
    if (callee.kind != Operand::Kind::kSymbol || it == names_.functions.end()) {
      return wrong(call.location, "expected a function or a register to call, found '{}'", callee.name);
    }
    PERGOLA_TRY(check_arity(call, *it->second, results, arguments));
    return given == nullptr ? Status() : check_sizes(call, *it->second, *given);
  }

  // Variables in .param are as long as the parameters that they are for.
  Status check_sizes(const Instruction& call, const Function& callee, const Operand& given) {
    for (std::size_t i = 0; i < given.elements.size() && i < callee.parameters.size(); ++i) {
      const auto found = variables_.find(given.elements[i].name);
      if (given.elements[i].kind != Operand::Kind::kSymbol || found == variables_.end() || found->second.empty())
        continue;
      const Variable& variable = *found->second.back().variable;
      const Variable& parameter = callee.parameters[i];
      if (variable.space != ptx::Space::kParam || parameter.size_bytes() == 0) continue;
      if (variable.size_bytes() != parameter.size_bytes())
        return wrong(call.location, "expected an argument of {} for '{}' of '{}', found '{}' of {}",
                     plural(parameter.size_bytes(), "byte"), parameter.name, callee.name, variable.name,
                     variable.size_bytes());
    }
    return {};
  }

  Status check_arity(const Instruction& call, const Function& callee, std::size_t results, std::size_t arguments) {
    const bool variadic = !callee.parameters.empty() && callee.parameters.back().size_bytes() == 0;
    const std::size_t expected = callee.parameters.size();
    if (results != callee.results.size()) {
      return wrong(call.location, "expected {} of '{}', found {}", plural(callee.results.size(), "result"), callee.name,
                   results);
    }
    if (variadic ? arguments + 1 < expected : arguments != expected) {
      return wrong(call.location, "expected {} for '{}', found {}", plural(expected, "argument"), callee.name,
                   arguments);
    }
    return {};
  }

  const Module& module_;
  const Names& names_;
  const Function& function_;
  std::vector<Scope> scopes_;  // [0] is the body
  std::size_t scope_ = 0;
  struct Declared {
    std::size_t scope = 0;
    const Variable* variable = nullptr;
  };
  std::unordered_map<std::string_view, std::vector<Declared>> variables_;  // by name, those of open scopes
  std::vector<std::string_view> undo_;
  std::vector<std::size_t> undo_marks_;
};

Error duplicate(const Module& module, Location location, std::string_view name) {
  return PERGOLA_ERROR(kParseError, "{}:{}:{}: expected one definition of each name, found '{}' again",
                       module.source_name, location.line, location.column, name);
}

// Words of a verbatim item: the names of samplers with named fields, aliases.
void add_words(std::string_view text, Names& names) {
  std::size_t start = 0;
  const auto is_word = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '$';
  };
  for (std::size_t i = 0; i <= text.size(); ++i) {
    if (i < text.size() && is_word(text[i])) continue;
    if (i > start) names.variables.insert(text.substr(start, i - start));
    start = i + 1;
  }
}

Status gather(const Module& module, Names& names) {
  std::unordered_set<std::string_view> defined;
  for (const Item& item : module.items) {
    if (const auto* variable = std::get_if<Variable>(&item.node)) {
      const bool repeatable = variable->linkage == Linkage::kExtern || variable->linkage == Linkage::kCommon ||
                              variable->linkage == Linkage::kWeak;
      if (!repeatable && !defined.insert(variable->name).second) {
        return duplicate(module, variable->location, variable->name);
      }
      names.variables.insert(variable->name);
    } else if (const auto* function = std::get_if<Function>(&item.node)) {
      if (function->has_body && !defined.insert(function->name).second) {
        return duplicate(module, function->location, function->name);
      }
      const auto [it, fresh] = names.functions.emplace(function->name, function);
      if (!fresh && function->has_body) it->second = function;
    } else if (const auto* verbatim = std::get_if<Verbatim>(&item.node)) {
      if (verbatim->text.starts_with('.') && !verbatim->text.starts_with(".section")) add_words(verbatim->text, names);
    }
  }
  return {};
}

}  // namespace

Status verify(const Module& module) {
  Names names;
  PERGOLA_TRY(gather(module, names));
  for (const Item& item : module.items) {
    const auto* function = std::get_if<Function>(&item.node);
    if (function != nullptr && function->has_body) PERGOLA_TRY(BodyVerifier(module, names, *function).run());
  }
  return {};
}

}  // namespace pergola::ptx
