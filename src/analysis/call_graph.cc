#include "src/analysis/call_graph.h"

#include <algorithm>
#include <map>
#include <set>

namespace pergola::analysis {
namespace {

using ptx::Function;
using ptx::Operand;

void collect_symbols(const Operand& operand, std::set<std::string>& names) {
  if (operand.kind == Operand::Kind::kSymbol) names.insert(operand.name);
  for (const Operand& element : operand.elements) collect_symbols(element, names);
}

// The function operand of a call, and the label after it; either may be absent.
std::pair<const Operand*, const Operand*> target_of(const ptx::Instruction& call) {
  const Operand* target = nullptr;
  const Operand* list = nullptr;
  for (const Operand& operand : call.operands) {
    if (operand.kind == Operand::Kind::kTuple) continue;
    (target == nullptr ? target : list) = &operand;
  }
  return {target, list};
}

std::set<std::string> addresses_taken(const ptx::Module& module) {
  std::set<std::string> names;
  for (const ptx::Item& item : module.items) {
    if (const auto* variable = std::get_if<ptx::Variable>(&item.node)) {
      for (const ptx::Initializer& value : variable->initializers) names.insert(value.symbol);
    } else if (const auto* function = std::get_if<Function>(&item.node)) {
      for (const ptx::Statement& statement : function->body) {
        const ptx::Instruction* instruction = statement.instruction();
        if (instruction == nullptr || instruction->op == ptx::Op::kCall) continue;
        for (const Operand& operand : instruction->operands) collect_symbols(operand, names);
      }
    }
  }
  return names;
}

class Builder {
 public:
  explicit Builder(const ptx::Module& module) : module_(module) {}

  CallGraph build(const Function& root) {
    node_of(&root);
    for (std::uint32_t next = 0; next < graph_.nodes.size(); ++next) visit(next);
    measure();
    return std::move(graph_);
  }

 private:
  std::uint32_t node_of(const Function* function) {
    const auto [it, is_new] = index_.try_emplace(function, graph_.nodes.size());
    if (is_new) graph_.nodes.push_back({function, {}, false});
    return it->second;
  }

  void visit(std::uint32_t id) {
    const Function& function = *graph_.nodes[id].function;
    std::map<std::string, const ptx::CallTargets*> lists;
    std::set<std::uint32_t> callees;
    bool unknown = false;
    const auto add = [&](const std::string& name) {
      const Function* callee = module_.find_function(name);
      if (callee != nullptr) callees.insert(node_of(callee));
      return callee != nullptr;
    };
    for (const ptx::Statement& statement : function.body) {
      if (const auto* list = std::get_if<ptx::CallTargets>(&statement.node)) lists[list->name] = list;
    }
    for (const ptx::Statement& statement : function.body) {
      const ptx::Instruction* instruction = statement.instruction();
      if (instruction == nullptr || instruction->op != ptx::Op::kCall) continue;
      const auto [target, list] = target_of(*instruction);
      if (target != nullptr && target->kind == Operand::Kind::kSymbol) {
        unknown |= !add(target->name);
      } else if (list != nullptr && lists.contains(list->name)) {
        for (const std::string& name : lists[list->name]->functions) unknown |= !add(name);
      } else {
        unknown = true;
        if (taken_.empty()) taken_ = addresses_taken(module_);
        for (const std::string& name : taken_) add(name);
      }
    }
    graph_.nodes[id].callees.assign(callees.begin(), callees.end());
    graph_.nodes[id].calls_unknown = unknown;
  }

  // Depth first without recursion; an edge to a node that is on the path closes a cycle.
  void measure() {
    enum class Mark : std::uint8_t { kNew, kOnPath, kDone };
    std::vector<Mark> marks(graph_.nodes.size(), Mark::kNew);
    std::vector<std::uint32_t> depths(graph_.nodes.size(), 0);
    std::vector<std::pair<std::uint32_t, std::size_t>> path{{0, 0}};
    marks[0] = Mark::kOnPath;
    while (!path.empty()) {
      auto& [node, next] = path.back();
      const auto& callees = graph_.nodes[node].callees;
      if (next == callees.size()) {
        const std::uint32_t depth = depths[node];
        marks[node] = Mark::kDone;
        path.pop_back();
        if (!path.empty()) depths[path.back().first] = std::max(depths[path.back().first], depth + 1);
        continue;
      }
      const std::uint32_t callee = callees[next++];
      if (marks[callee] == Mark::kOnPath) graph_.is_recursive = true;
      if (marks[callee] == Mark::kDone) depths[node] = std::max(depths[node], depths[callee] + 1);
      if (marks[callee] != Mark::kNew) continue;
      marks[callee] = Mark::kOnPath;
      path.emplace_back(callee, 0);
    }
    graph_.depth = depths[0];
  }

  const ptx::Module& module_;
  CallGraph graph_;
  std::map<const Function*, std::uint32_t> index_;
  std::set<std::string> taken_;
};

}  // namespace

CallGraph call_graph(const ptx::Module& module, const ptx::Function& root) {
  return Builder(module).build(root);
}

}  // namespace pergola::analysis
