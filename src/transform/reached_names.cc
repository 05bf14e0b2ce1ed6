#include "src/transform/reached_names.h"

#include <algorithm>
#include <map>
#include <vector>

#include "src/analysis/call_graph.h"
#include "src/base/check.h"

namespace pergola::transform {
namespace {

using ptx::Function;
using ptx::Instruction;
using ptx::Operand;
using ptx::Variable;

std::vector<std::string_view> words_of(std::string_view text) {
  const auto is_word = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '$' ||
           c == '%';
  };
  std::vector<std::string_view> words;
  for (std::size_t at = 0; at < text.size();) {
    std::size_t end = at;
    while (end < text.size() && is_word(text[end])) ++end;
    if (end > at) words.push_back(text.substr(at, end - at));
    at = end + 1;
  }
  return words;
}

// The two names of `.alias f, g;`; of any other item none.
std::vector<std::string_view> names_of_alias(const ptx::Item& item) {
  const auto* const verbatim = std::get_if<ptx::Verbatim>(&item.node);
  if (verbatim == nullptr || !verbatim->text.starts_with(".alias")) return {};
  std::vector<std::string_view> names = words_of(verbatim->text);
  names.erase(names.begin());
  return names;
}

class Walk {
 public:
  Walk(const ptx::Module& module, std::set<std::string, std::less<>>& names) : module_(module), names_(names) {
    for (const ptx::Item& item : module.items) {
      if (const auto* const variable = std::get_if<Variable>(&item.node))
        items_[variable->name].push_back(&item);
      else if (const auto* const function = std::get_if<Function>(&item.node))
        items_[function->name].push_back(&item);
      else
        for (const std::string_view name : names_of_alias(item)) items_[name].push_back(&item);
    }
  }

  void run(const Function& root) {
    add(root.name);
    while (!pending_.empty()) {
      const std::string name = std::move(pending_.back());
      pending_.pop_back();
      const auto found = items_.find(name);
      if (found == items_.end()) continue;
      for (const ptx::Item* const item : found->second) visit(*item);
    }
  }

 private:
  void add(std::string_view name) {
    if (names_.emplace(name).second) pending_.emplace_back(name);
  }

  void add_words(std::string_view text) {
    for (const std::string_view word : words_of(text)) add(word);
  }

  void visit(const ptx::Item& item) {
    if (const auto* const variable = std::get_if<Variable>(&item.node))
      visit(*variable);
    else if (const auto* const function = std::get_if<Function>(&item.node))
      visit(*function);
    else
      for (const std::string_view name : names_of_alias(item)) add(name);
  }

  void visit(const Variable& variable) {
    for (const ptx::Initializer& value : variable.initializers)
      if (value.kind != ptx::Initializer::Kind::kBits) add(value.symbol);
  }

  void visit(const Function& function) {
    for (const ptx::Statement& statement : function.body) {
      if (const Instruction* const in = statement.instruction()) {
        for (const Operand& operand : in->operands) visit(operand);
        add_words(in->text);
      } else if (const auto* const targets = std::get_if<ptx::CallTargets>(&statement.node)) {
        for (const std::string& target : targets->functions) add(target);
      } else if (const auto* const variable = std::get_if<Variable>(&statement.node)) {
        visit(*variable);
      } else if (const auto* const verbatim = std::get_if<ptx::Verbatim>(&statement.node)) {
        add_words(verbatim->text);
      }
    }
    // What it may call by an address.
    const analysis::CallGraph graph = analysis::call_graph(module_, function);
    for (const std::uint32_t callee : graph.nodes[0].callees) add(graph.nodes[callee].function->name);
  }

  void visit(const Operand& operand) {
    if (operand.kind == Operand::Kind::kSymbol) add(operand.name);
    for (const Operand& element : operand.elements) visit(element);
  }

  const ptx::Module& module_;
  std::set<std::string, std::less<>>& names_;
  std::map<std::string_view, std::vector<const ptx::Item*>> items_;  // what declares or defines a name
  std::vector<std::string> pending_;                                 // names to be looked at, each once
};

}  // namespace

ReachedNames::ReachedNames(const ptx::Module& module, const Function& root) {
  Walk(module, names_).run(root);
}

bool ReachedNames::needs(const ptx::Item& item) const {
  if (const auto* const variable = std::get_if<Variable>(&item.node)) return contains(variable->name);
  if (const auto* const function = std::get_if<Function>(&item.node)) return contains(function->name);
  const std::vector<std::string_view> names = names_of_alias(item);
  return std::all_of(names.begin(), names.end(), [&](const std::string_view name) { return contains(name); });
}

void leave_only_reached(ptx::Module& module, std::string_view root) {
  const Function* const function = module.find_function(root);
  PERGOLA_CHECK(function != nullptr);
  const ReachedNames reached(module, *function);
  std::erase_if(module.items, [&](const ptx::Item& item) { return !reached.needs(item); });
}

}  // namespace pergola::transform
