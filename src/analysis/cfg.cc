#include "src/analysis/cfg.h"

#include <algorithm>
#include <utility>

#include "src/ptx/semantics.h"

namespace pergola::analysis {
namespace {

using ptx::Instruction;
using ptx::Op;

constexpr std::uint32_t kNone = ~0u;

// Cuts the body into blocks. A label starts a block unless the current one is still empty, a terminator ends it,
// guarded or not. A body that ends in a label or a guarded terminator gets an empty last block: the implicit return.
struct Cutter {
  Cfg& cfg;
  const ptx::Function& function;
  std::unordered_map<std::string, const ptx::BranchTargets*> tables;
  bool ended = false;

  std::uint32_t current() {
    if (ended) {
      cfg.blocks.emplace_back();
      ended = false;
    }
    return static_cast<std::uint32_t>(cfg.blocks.size() - 1);
  }

  void run() {
    cfg.blocks.emplace_back();
    for (std::uint32_t index = 0; index < function.body.size(); ++index) {
      const ptx::Statement& statement = function.body[index];
      if (const auto* label = std::get_if<ptx::Label>(&statement.node)) {
        if (!cfg.blocks[current()].statements.empty()) ended = true;
        cfg.block_of_label[label->name] = current();
      } else if (const auto* table = std::get_if<ptx::BranchTargets>(&statement.node)) {
        tables[table->name] = table;
      } else if (const Instruction* instruction = statement.instruction()) {
        cfg.blocks[current()].statements.push_back(index);
        ended = ptx::is_terminator(*instruction);
      }
    }
    if (const Instruction* last = terminator(cfg.blocks.back()); last != nullptr && last->guard.present()) current();
  }

  const Instruction* terminator(const BasicBlock& block) const {
    if (block.statements.empty()) return nullptr;
    const Instruction* last = function.body[block.statements.back()].instruction();
    return ptx::is_terminator(*last) ? last : nullptr;
  }
};

Error no_such_label(const ptx::Statement& statement, const std::string& name) {
  return PERGOLA_ERROR(kParseError, "{}:{}: The branch goes to '{}', and no label of this function has that name.",
                       statement.location.line, statement.location.column, name);
}

// The labels a branch may go to.
Status collect_targets(const Cutter& cutter, const ptx::Statement& statement, std::vector<std::string>& names) {
  const Instruction& branch = *statement.instruction();
  if (branch.op == Op::kBra) {
    if (!branch.operands.empty()) names.push_back(branch.operands[0].name);
    return {};
  }
  if (branch.op != Op::kBrx) return {};
  if (branch.operands.size() < 2) return no_such_label(statement, "");
  const auto table = cutter.tables.find(branch.operands[1].name);
  if (table == cutter.tables.end()) return no_such_label(statement, branch.operands[1].name);
  names = table->second->labels;
  return {};
}

Status connect(const Cutter& cutter, Cfg& cfg) {
  const auto count = static_cast<std::uint32_t>(cfg.blocks.size());
  for (std::uint32_t block = 0; block < count; ++block) {
    auto& successors = cfg.blocks[block].successors;
    const Instruction* last = cutter.terminator(cfg.blocks[block]);
    if (last != nullptr) {
      const ptx::Statement& statement = cutter.function.body[cfg.blocks[block].statements.back()];
      std::vector<std::string> names;
      PERGOLA_TRY(collect_targets(cutter, statement, names));
      for (const std::string& name : names) {
        const auto found = cfg.block_of_label.find(name);
        if (found == cfg.block_of_label.end()) return no_such_label(statement, name);
        successors.push_back(found->second);
      }
    }
    if ((last == nullptr || last->guard.present()) && block + 1 < count) successors.push_back(block + 1);
    std::sort(successors.begin(), successors.end());
    successors.erase(std::unique(successors.begin(), successors.end()), successors.end());
  }
  for (std::uint32_t block = 0; block < count; ++block) {
    for (const std::uint32_t next : cfg.blocks[block].successors) cfg.blocks[next].predecessors.push_back(block);
  }
  return {};
}

using Edges = std::vector<std::vector<std::uint32_t>>;

// Depth first without recursion: bodies of any depth are accepted.
std::vector<std::uint32_t> reverse_post_order(const Edges& edges, std::uint32_t root) {
  std::vector<std::uint32_t> order;
  std::vector<bool> seen(edges.size(), false);
  std::vector<std::pair<std::uint32_t, std::size_t>> stack{{root, 0}};
  seen[root] = true;
  while (!stack.empty()) {
    auto& [node, next] = stack.back();
    if (next == edges[node].size()) {
      order.push_back(node);
      stack.pop_back();
      continue;
    }
    const std::uint32_t successor = edges[node][next++];
    if (!seen[successor]) {
      seen[successor] = true;
      stack.emplace_back(successor, 0);
    }
  }
  std::reverse(order.begin(), order.end());
  return order;
}

// Cooper, Harvey and Kennedy, "A Simple, Fast Dominance Algorithm". kNone for what the root does not reach.
std::vector<std::uint32_t> dominators(const Edges& predecessors, const std::vector<std::uint32_t>& order) {
  std::vector<std::uint32_t> idom(predecessors.size(), kNone), position(predecessors.size(), kNone);
  for (std::uint32_t i = 0; i < order.size(); ++i) position[order[i]] = i;
  idom[order[0]] = order[0];
  for (bool changed = true; changed;) {
    changed = false;
    for (std::size_t i = 1; i < order.size(); ++i) {
      std::uint32_t best = kNone;
      for (std::uint32_t candidate : predecessors[order[i]]) {
        if (idom[candidate] == kNone) continue;
        if (best == kNone) {
          best = candidate;
          continue;
        }
        while (candidate != best) {
          while (position[candidate] > position[best]) candidate = idom[candidate];
          while (position[best] > position[candidate]) best = idom[best];
        }
      }
      if (idom[order[i]] != best) {
        idom[order[i]] = best;
        changed = true;
      }
    }
  }
  return idom;
}

void find_dominators(Cfg& cfg) {
  const auto count = static_cast<std::uint32_t>(cfg.blocks.size());
  Edges forward(count), backward(count);
  for (std::uint32_t block = 0; block < count; ++block) {
    forward[block] = cfg.blocks[block].successors;
    backward[block] = cfg.blocks[block].predecessors;
  }
  cfg.reverse_post_order = reverse_post_order(forward, 0);
  cfg.immediate_dominator = dominators(backward, cfg.reverse_post_order);

  // Backwards from a virtual exit, numbered `count`.
  forward.emplace_back();
  backward.emplace_back();
  for (std::uint32_t block = 0; block < count; ++block) {
    if (!forward[block].empty()) continue;
    forward[block].push_back(count);
    backward[count].push_back(block);
  }
  cfg.immediate_post_dominator = dominators(forward, reverse_post_order(backward, count));
  cfg.immediate_post_dominator.pop_back();
  for (std::uint32_t& block : cfg.immediate_post_dominator) {
    if (block == count) block = kNone;
  }
}

}  // namespace

Result<Cfg> build_cfg(const ptx::Function& function) {
  Cfg cfg;
  Cutter cutter{cfg, function, {}};
  cutter.run();
  PERGOLA_TRY(connect(cutter, cfg));
  find_dominators(cfg);
  return cfg;
}

}  // namespace pergola::analysis
