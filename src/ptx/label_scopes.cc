#include "src/ptx/label_scopes.h"

#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

namespace pergola::ptx {
namespace {

// `S` is a Statement or a const one.
template <typename S>
auto name_of(S& statement) -> decltype(&std::get<Label>(statement.node).name) {
  if (auto* label = std::get_if<Label>(&statement.node)) return &label->name;
  if (auto* branches = std::get_if<BranchTargets>(&statement.node)) return &branches->name;
  if (auto* calls = std::get_if<CallTargets>(&statement.node)) return &calls->name;
  if (auto* prototype = std::get_if<CallPrototype>(&statement.node)) return &prototype->name;
  return nullptr;
}

bool any_twice(const Function& function) {
  std::unordered_set<std::string_view> seen;
  for (const Statement& statement : function.body)
    if (const std::string* name = name_of(statement); name != nullptr && !seen.insert(*name).second) return true;
  return false;
}

class LabelScopes {
 public:
  // Every label gets its name before any is looked for: branches may be before them.
  explicit LabelScopes(Function& function) {
    for (Statement& statement : function.body)
      if (const std::string* name = name_of(statement)) taken_.insert(*name);
    std::unordered_set<std::string> met;
    walk(function, [&](Statement& statement) {
      const std::string* name = name_of(statement);
      if (name == nullptr || scopes_[current_].names.contains(*name)) return;
      scopes_[current_].names.emplace(*name, met.insert(*name).second ? *name : another(*name));
    });
  }

  void rename(Function& function) {
    walk(function, [&](Statement& statement) {
      if (std::string* name = name_of(statement)) *name = scopes_[current_].names.at(*name);
      if (auto* targets = std::get_if<BranchTargets>(&statement.node))
        for (std::string& label : targets->labels) rename_use(label);
      if (Instruction* instruction = statement.instruction())
        for (Operand& operand : instruction->operands)
          if (operand.kind == Operand::Kind::kLabel) rename_use(operand.name);
    });
  }

 private:
  struct Scope {
    std::size_t parent = 0;
    std::unordered_map<std::string, std::string> names;  // as written, and from now on
  };

  // Scopes are numbered in the order in which they are opened, in each walk alike.
  template <typename Visit>
  void walk(Function& function, Visit&& visit) {
    current_ = 0;
    std::size_t opened = 0;
    if (scopes_.empty()) scopes_.emplace_back();
    for (Statement& statement : function.body) {
      if (std::holds_alternative<ScopeBegin>(statement.node)) {
        if (++opened == scopes_.size()) scopes_.push_back({current_, {}});
        current_ = opened;
      } else if (std::holds_alternative<ScopeEnd>(statement.node)) {
        current_ = scopes_[current_].parent;
      } else {
        visit(statement);
      }
    }
  }

  // The innermost one that is seen from here; none: the verifier says so.
  void rename_use(std::string& name) const {
    for (std::size_t scope = current_;; scope = scopes_[scope].parent) {
      if (const auto found = scopes_[scope].names.find(name); found != scopes_[scope].names.end()) {
        name = found->second;
        return;
      }
      if (scope == 0) return;
    }
  }

  std::string another(const std::string& name) {
    std::uint32_t& count = counts_[name];
    while (true) {
      std::string made = name + "_" + std::to_string(++count);
      if (taken_.insert(made).second) return made;
    }
  }

  std::vector<Scope> scopes_;  // the body itself first
  std::size_t current_ = 0;
  std::unordered_set<std::string> taken_;
  std::unordered_map<std::string, std::uint32_t> counts_;
};

}  // namespace

std::string* label_name(Statement& statement) {
  return name_of(statement);
}
const std::string* label_name(const Statement& statement) {
  return name_of(statement);
}

void tell_labels_apart(Function& function) {
  if (any_twice(function)) LabelScopes(function).rename(function);
}

}  // namespace pergola::ptx
