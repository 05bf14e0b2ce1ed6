#include "src/analysis/resources.h"

#include <algorithm>

#include "src/analysis/call_graph.h"
#include "src/ptx/semantics.h"
#include "src/ptx/signature.h"

namespace pergola::analysis {
namespace {

using ptx::Instruction;
using ptx::Mod;
using ptx::Op;
using ptx::Operand;

bool names_envreg(const Operand& operand) {
  if (operand.kind == Operand::Kind::kSpecial && operand.special == ptx::Special::kEnvreg) return true;
  return std::any_of(operand.elements.begin(), operand.elements.end(), names_envreg);
}

void count_registers(const ptx::Function& function, Resources& result) {
  for (const ptx::Register& reg : function.registers) {
    const std::uint32_t count = reg.vector;
    if (reg.type == ptx::Type::kPred) {
      result.predicates += count;
      continue;
    }
    switch (ptx::size_bytes(reg.type)) {
      case 1:
      case 2: result.registers_16 += count; break;
      case 4: result.registers_32 += count; break;
      case 16: result.registers_128 += count; break;
      default: result.registers_64 += count;
    }
  }
}

void note_barrier(const Instruction& instruction, Resources& result) {
  if (instruction.has(Mod::kCluster)) {
    result.uses_cluster_barrier = true;
    return;
  }
  if (instruction.has(Mod::kWarp)) {  // bar.warp.sync
    result.uses_warp_operations = true;
    return;
  }
  // bar.red writes its first operand; the id comes next.
  for (std::size_t i = 0; i < instruction.operands.size(); ++i) {
    if (ptx::role(instruction, i) == ptx::Role::kWrite) continue;
    const Operand& id = instruction.operands[i];
    if (id.kind == Operand::Kind::kInteger) {
      result.barriers.insert(static_cast<std::uint32_t>(id.bits));
    } else {
      result.has_dynamic_barrier = true;
    }
    return;
  }
}

void note_instruction(const Instruction& instruction, Resources& result) {
  switch (instruction.op) {
    case Op::kBar:
    case Op::kBarrier: note_barrier(instruction, result); break;
    case Op::kShfl:
    case Op::kVote:
    case Op::kMatch:
    case Op::kRedux:
    case Op::kElect:
    case Op::kActivemask:
    case Op::kMma:
    case Op::kWmma:
    case Op::kWgmma:
    case Op::kLdmatrix:
    case Op::kStmatrix:
    case Op::kMovmatrix:
    case Op::kTcgen05: result.uses_warp_operations = true; break;
    case Op::kTex:
    case Op::kTld4:
    case Op::kTxq:
    case Op::kSuld:
    case Op::kSust:
    case Op::kSured:
    case Op::kSuq: result.uses_textures = true; break;
    case Op::kCp: result.uses_async_copies = true; break;
    default: break;
  }
  result.uses_atomics |= ptx::memory_effect(instruction).is_atomic;
  result.uses_grid_sync |= std::any_of(instruction.operands.begin(), instruction.operands.end(), names_envreg);
}

std::uint64_t local_bytes(const ptx::Function& function) {
  std::uint64_t bytes = 0;
  for (const ptx::Statement& statement : function.body) {
    const auto* variable = std::get_if<ptx::Variable>(&statement.node);
    if (variable != nullptr && variable->space == ptx::Space::kLocal) bytes += variable->size_bytes();
  }
  return bytes;
}

// The largest sum of local bytes on a path from the root that meets no function twice: depth first, without recursion,
// where a node that is being visited adds nothing.
std::uint64_t deepest_local_bytes(const CallGraph& graph) {
  const std::size_t count = graph.nodes.size();
  std::vector<std::uint64_t> total(count, 0), below(count, 0);
  std::vector<bool> seen(count, false);
  std::vector<std::pair<std::uint32_t, std::size_t>> path{{0, 0}};
  seen[0] = true;
  while (!path.empty()) {
    auto& [node, next] = path.back();
    if (next < graph.nodes[node].callees.size()) {
      const std::uint32_t callee = graph.nodes[node].callees[next++];
      below[node] = std::max(below[node], total[callee]);
      if (seen[callee]) continue;
      seen[callee] = true;
      path.emplace_back(callee, 0);
      continue;
    }
    const std::uint32_t finished = node;
    total[finished] = below[finished] + local_bytes(*graph.nodes[finished].function);
    path.pop_back();
    if (!path.empty()) below[path.back().first] = std::max(below[path.back().first], total[finished]);
  }
  return total[0];
}

}  // namespace

bool is_launched_in_clusters(const ptx::Function& entry) {
  return entry.required_cluster || entry.max_cluster_rank ||
         std::any_of(entry.directives.begin(), entry.directives.end(),
                     [](const std::string& text) { return text.find("cluster") != std::string::npos; });
}

Result<Resources> resources(const ptx::Module& module, const ptx::Function& entry) {
  PERGOLA_ASSIGN(const ptx::KernelSignature signature, ptx::signature(module, entry));
  Resources result;
  result.static_shared_bytes = signature.static_shared_bytes;
  result.uses_dynamic_shared = signature.uses_dynamic_shared;
  count_registers(entry, result);

  const CallGraph graph = call_graph(module, entry);
  result.call_depth = graph.depth;
  result.is_recursive = graph.is_recursive;
  result.local_bytes = deepest_local_bytes(graph);
  for (const CallGraph::Node& node : graph.nodes) {
    result.has_indirect_calls |= node.calls_unknown;
    const ptx::Function& function = *node.function;
    if (!function.has_body && !function.is_entry) result.externals.push_back(function.name);
    result.uses_printf |= function.name == "vprintf";
    result.uses_heap |= function.name == "malloc";
    for (const ptx::Statement& statement : function.body) {
      const Instruction* instruction = statement.instruction();
      if (instruction == nullptr) continue;
      if (instruction->op == Op::kOpaque) {
        result.opaque.push_back(fmt::format("{}:{}:{}: {}", module.source_name, statement.location.line,
                                            statement.location.column, instruction->text));
      } else {
        note_instruction(*instruction, result);
      }
    }
  }
  std::sort(result.externals.begin(), result.externals.end());
  return result;
}

}  // namespace pergola::analysis
