#include "src/transform/parameter_names.h"

#include <algorithm>

namespace pergola::transform {
namespace {

bool is_word(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '$' || c == '%';
}

bool mentions_word(std::string_view text, std::string_view word) {
  for (std::size_t at = text.find(word); at != std::string_view::npos; at = text.find(word, at + 1)) {
    const bool begins = at == 0 || !is_word(text[at - 1]);
    if (begins && (at + word.size() == text.size() || !is_word(text[at + word.size()]))) return true;
  }
  return false;
}

}  // namespace

ParameterNames::ParameterNames(const ptx::KernelSignature& signature) {
  for (const ptx::Parameter& parameter : signature.parameters) offsets_[parameter.name] = parameter.offset_bytes;
}

void ParameterNames::pass(const ptx::Statement& statement) {
  if (std::holds_alternative<ptx::ScopeBegin>(statement.node))
    hidden_.emplace_back();
  else if (std::holds_alternative<ptx::ScopeEnd>(statement.node))
    hidden_.pop_back();
  else if (const auto* variable = std::get_if<ptx::Variable>(&statement.node))
    hidden_.back().push_back(variable->name);
}

const std::uint32_t* ParameterNames::offset(const std::string& name) const {
  for (const auto& scope : hidden_)
    if (std::find(scope.begin(), scope.end(), name) != scope.end()) return nullptr;
  const auto found = offsets_.find(name);
  return found == offsets_.end() ? nullptr : &found->second;
}

bool ParameterNames::is_in(const ptx::Operand& operand) const {
  if (operand.kind == ptx::Operand::Kind::kSymbol && offset(operand.name) != nullptr) return true;
  return std::any_of(operand.elements.begin(), operand.elements.end(),
                     [&](const ptx::Operand& element) { return is_in(element); });
}

bool ParameterNames::is_in(const ptx::Instruction& instruction) const {
  return std::any_of(instruction.operands.begin(), instruction.operands.end(),
                     [&](const ptx::Operand& operand) { return is_in(operand); });
}

bool ParameterNames::is_in_text(std::string_view text) const {
  return text.find(".param") != std::string_view::npos ||
         std::any_of(offsets_.begin(), offsets_.end(),
                     [&](const auto& parameter) { return mentions_word(text, parameter.first); });
}

}  // namespace pergola::transform
