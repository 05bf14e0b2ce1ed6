#include "src/transform/task_plan.h"

#include <algorithm>

#include "src/analysis/resources.h"
#include "src/ptx/semantics.h"

namespace pergola::transform {
namespace {

using ptx::Instruction;
using ptx::Mod;
using ptx::Op;
using ptx::Operand;

std::uint64_t aligned(std::uint64_t offset, std::uint64_t alignment) {
  return (offset + alignment - 1) / alignment * alignment;
}

bool is_dynamic(const ptx::Variable& variable) {
  return variable.linkage == ptx::Linkage::kExtern || variable.size_bytes() == 0;
}

// Static arrays in the order of the text, module variables first; dynamic ones all begin behind them, as in a launch.
class SharedLayout {
 public:
  SharedLayout(TaskPlan& plan, const analysis::CallGraph& graph, const ReachedNames& reached)
      : plan_(plan), graph_(graph), reached_(reached) {}

  Status run() {
    for (const ptx::Item& item : plan_.module->items) {
      const auto* variable = std::get_if<ptx::Variable>(&item.node);
      if (variable != nullptr && variable->space == ptx::Space::kShared && reached_.contains(variable->name))
        PERGOLA_TRY(place(*variable, plan_.shared));
    }
    for (const analysis::CallGraph::Node& node : graph_.nodes) {
      auto& own = plan_.shared_of_function[node.function->name];
      for (const ptx::Statement& statement : node.function->body) {
        const auto* variable = std::get_if<ptx::Variable>(&statement.node);
        if (variable == nullptr || variable->space != ptx::Space::kShared) continue;
        if (plan_.shared.contains(variable->name))
          return refuse(variable->location,
                        fmt::format("its shared array '{}' hides one of the module's of that name", variable->name));
        PERGOLA_TRY(place(*variable, own));
      }
    }
    return finish();
  }

 private:
  Status place(const ptx::Variable& variable, std::map<std::string, std::uint32_t, std::less<>>& places) {
    const std::uint32_t alignment = variable.alignment_bytes();
    most_ = std::max(most_, alignment);
    if (alignment > plan_.config.most_shared_alignment)
      return refuse(variable.location,
                    fmt::format("its shared array '{}' is aligned to {} bytes, and the executor's allocations "
                                "to {} at most",
                                variable.name, alignment, plan_.config.most_shared_alignment));
    if (is_dynamic(variable)) {
      plan_.uses_dynamic_shared = true;
      dynamic_.emplace_back(&places, variable.name);
      dynamic_alignment_ = std::max(dynamic_alignment_, alignment);
      return {};
    }
    const std::uint64_t offset = aligned(bytes_, alignment);
    if (!places.emplace(variable.name, static_cast<std::uint32_t>(offset)).second)
      return refuse(variable.location,
                    fmt::format("it declares two shared arrays '{}' in one function", variable.name));
    bytes_ = offset + std::min<std::uint64_t>(variable.size_bytes(), std::uint64_t{1} << 31);
    if (bytes_ > plan_.config.most_shared_bytes) return too_large();
    return {};
  }

  Error too_large() const {
    return refuse(plan_.entry->location,
                  fmt::format("its static shared arrays take {} bytes, and a block of a task has {} at most", bytes_,
                              plan_.config.most_shared_bytes));
  }

  Status finish() {
    plan_.static_shared_bytes = static_cast<std::uint32_t>(bytes_);
    plan_.dynamic_shared_offset = static_cast<std::uint32_t>(aligned(bytes_, dynamic_alignment_));
    plan_.shared_align_bytes = most_;
    for (auto& [places, name] : dynamic_) places->emplace(name, plan_.dynamic_shared_offset);
    return {};
  }

  Error refuse(ptx::Location location, std::string_view why) const {
    return PERGOLA_ERROR(kUnsupported, "{}:{}:{}: Kernel '{}' cannot be a task: {}. Launch it as an ordinary kernel.",
                         plan_.module->source_name, location.line, location.column, plan_.entry->name, why);
  }

  TaskPlan& plan_;
  const analysis::CallGraph& graph_;
  const ReachedNames& reached_;
  std::uint64_t bytes_ = 0;
  std::uint32_t most_ = 1, dynamic_alignment_ = 16;
  std::vector<std::pair<std::map<std::string, std::uint32_t, std::less<>>*, std::string>> dynamic_;
};

void find_barriers(TaskPlan& plan, const analysis::CallGraph& graph) {
  std::map<std::uint32_t, bool> plain;      // id: all its uses are bar.sync without a count
  std::map<std::uint32_t, bool> uncounted;  // id: some use has no count
  bool any_uncounted = false;
  for (const analysis::CallGraph::Node& node : graph.nodes) {
    for (const ptx::Statement& statement : node.function->body) {
      const Instruction* in = statement.instruction();
      if (in == nullptr || !is_block_barrier(*in)) continue;
      if (node.function != plan.entry) plan.callees_have_barriers = true;
      const BarrierUse use = take_apart(*in);
      any_uncounted |= !use.count.has_value();
      if (use.id.kind != Operand::Kind::kInteger) {
        plan.barriers_by_register = true;
        continue;
      }
      const auto id = static_cast<std::uint32_t>(use.id.bits);
      const bool is_plain = use.form == BarrierUse::Form::kSync && !use.count;
      const auto [it, fresh] = plain.emplace(id, is_plain);
      if (!fresh) it->second = it->second && is_plain;
      uncounted[id] |= !use.count.has_value();
    }
  }
  if (plan.barriers_by_register) {
    const std::uint32_t last = plain.empty() ? 15 : std::max<std::uint32_t>(15, plain.rbegin()->first);
    for (std::uint32_t id = 0; id <= last; ++id) plan.barriers[id] = id;
    plan.kinds.assign(last + 1, TaskBarrierKind::kWord);
    plan.without_count.assign(last + 1, any_uncounted);
    return;
  }
  for (const auto& [id, is_plain] : plain) {
    plan.barriers[id] = static_cast<std::uint32_t>(plan.kinds.size());
    plan.kinds.push_back(is_plain ? TaskBarrierKind::kMbarrier : TaskBarrierKind::kWord);
    plan.without_count.push_back(uncounted[id]);
  }
}

// What each function does together, its callees included; an indirect call may be of any of them.
void find_together(TaskPlan& plan, const analysis::CallGraph& graph) {
  for (const analysis::CallGraph::Node& node : graph.nodes) {
    Together most = Together::kNo;
    for (const ptx::Statement& statement : node.function->body)
      if (const Instruction* in = statement.instruction()) most = std::max(most, own_together(*in));
    plan.together[node.function->name] = most;
    if (node.function == plan.entry) continue;
    plan.together_indirect = std::max(plan.together_indirect, most);
    plan.callees_meet |= most != Together::kNo;
  }
  for (bool changed = true; changed;) {
    changed = false;
    for (const analysis::CallGraph::Node& node : graph.nodes) {
      Together& most = plan.together[node.function->name];
      for (const std::uint32_t callee : node.callees) {
        const Together theirs = plan.together[graph.nodes[callee].function->name];
        if (theirs > most) most = theirs, changed = true;
      }
    }
  }
}

}  // namespace

bool is_block_barrier(const Instruction& in) {
  return (in.op == Op::kBar || in.op == Op::kBarrier) && !in.has(Mod::kWarp) && !in.has(Mod::kCluster);
}

Together own_together(const Instruction& in) {
  switch (in.op) {
    case Op::kBar:
    case Op::kBarrier: return in.has(Mod::kWarp) ? Together::kWarp : Together::kBlock;
    case Op::kShfl:
    case Op::kVote:
    case Op::kMatch:
    case Op::kRedux:
    case Op::kElect:
    case Op::kMma:
    case Op::kWmma:
    case Op::kLdmatrix:
    case Op::kStmatrix:
    case Op::kMovmatrix: return Together::kWarp;
    default: return Together::kNo;
  }
}

BarrierUse take_apart(const Instruction& in) {
  BarrierUse use;
  use.is_aligned = in.op == Op::kBar || in.has(Mod::kAligned);
  std::size_t at = 0, end = in.operands.size();
  if (in.has(Mod::kArrive)) {
    use.form = BarrierUse::Form::kArrive;
  } else if (in.has(Mod::kRed)) {
    using OfUse = BarrierUse::Form;
    use.form = in.has(Mod::kPopc) ? OfUse::kPopc : in.has(Mod::kAnd) ? OfUse::kAnd : OfUse::kOr;
    use.result = in.operands.at(at++);
    use.predicate = in.operands.at(--end);
  }
  use.id = in.operands.at(at++);
  if (at < end) use.count = in.operands[at];
  return use;
}

Together TaskPlan::together_at(const Instruction& in) const {
  if (in.op != Op::kCall) return own_together(in);
  for (const Operand& operand : in.operands) {
    if (operand.kind != Operand::Kind::kSymbol) continue;
    const auto found = together.find(operand.name);
    return found == together.end() ? Together::kNo : found->second;  // declared functions are the system's
  }
  return together_indirect;
}

Result<TaskPlan> make_task_plan(const ptx::Module& module, const ptx::Function& entry, const analysis::CallGraph& graph,
                                const ReachedNames& reached, const TaskConfig& config) {
  TaskPlan plan;
  plan.config = config;
  plan.module = &module;
  plan.entry = &entry;
  PERGOLA_ASSIGN(plan.signature, ptx::signature(module, entry));
  PERGOLA_TRY(SharedLayout(plan, graph, reached).run());
  find_barriers(plan, graph);
  find_together(plan, graph);
  PERGOLA_ASSIGN(const analysis::Resources uses, analysis::resources(module, entry));
  plan.copies_asynchronously = uses.uses_async_copies;
  return plan;
}

}  // namespace pergola::transform
