#include "src/transform/rename_symbols.h"

#include <algorithm>
#include <set>
#include <string>

namespace pergola::transform {
namespace {

using Names = std::set<std::string, std::less<>>;

Names defined_by(const ptx::Module& module) {
  Names names;
  for (const ptx::Item& item : module.items) {
    if (const auto* function = std::get_if<ptx::Function>(&item.node)) {
      if (function->has_body) names.insert(function->name);
    } else if (const auto* variable = std::get_if<ptx::Variable>(&item.node)) {
      if (variable->linkage != ptx::Linkage::kExtern) names.insert(variable->name);
    }
  }
  return names;
}

void rename(ptx::Operand& operand, const Names& names, std::string_view suffix) {
  if (operand.kind == ptx::Operand::Kind::kSymbol && names.contains(operand.name)) operand.name += suffix;
  for (ptx::Operand& element : operand.elements) rename(element, names, suffix);
}

void rename(ptx::Variable& variable, const Names& names, std::string_view suffix) {
  for (ptx::Initializer& value : variable.initializers)
    if (names.contains(value.symbol)) value.symbol += suffix;
}

void rename(ptx::Function& function, Names names, std::string_view suffix) {
  // A variable of the function hides the module's.
  for (const ptx::Variable& parameter : function.parameters) names.erase(parameter.name);
  for (const ptx::Statement& statement : function.body)
    if (const auto* variable = std::get_if<ptx::Variable>(&statement.node)) names.erase(variable->name);
  std::erase_if(function.body, [](const ptx::Statement& statement) {
    return std::holds_alternative<ptx::LocDirective>(statement.node);
  });
  for (ptx::Statement& statement : function.body) {
    if (ptx::Instruction* in = statement.instruction()) {
      for (ptx::Operand& operand : in->operands) rename(operand, names, suffix);
    } else if (auto* targets = std::get_if<ptx::CallTargets>(&statement.node)) {
      for (std::string& target : targets->functions)
        if (names.contains(target)) target += suffix;
    } else if (auto* variable = std::get_if<ptx::Variable>(&statement.node)) {
      rename(*variable, names, suffix);
    }
  }
}

}  // namespace

void rename_symbols(ptx::Module& module, std::string_view suffix) {
  const Names names = defined_by(module);
  std::erase_if(module.items, [](const ptx::Item& item) {
    const auto* verbatim = std::get_if<ptx::Verbatim>(&item.node);
    return verbatim != nullptr && verbatim->text.starts_with(".file");
  });
  module.files.clear();
  for (ptx::Item& item : module.items) {
    if (auto* variable = std::get_if<ptx::Variable>(&item.node)) {
      rename(*variable, names, suffix);
      if (names.contains(variable->name)) variable->name += suffix;
    } else if (auto* function = std::get_if<ptx::Function>(&item.node)) {
      rename(*function, names, suffix);
      if (names.contains(function->name)) function->name += suffix;
    }
  }
}

}  // namespace pergola::transform
