// The module of a task: the kernel and what it reaches, each function rewritten with one plan.
#include "src/transform/entry_to_task.h"

#include <algorithm>

#include "src/abi/task_inbox.h"
#include "src/analysis/call_graph.h"
#include "src/analysis/cfg.h"
#include "src/ptx/semantics.h"
#include "src/transform/fence_accesses.h"
#include "src/transform/kernel_boundary.h"
#include "src/transform/lane_flow.h"
#include "src/transform/reached_names.h"
#include "src/transform/task_plan.h"
#include "src/transform/task_refusals.h"
#include "src/transform/task_rewriter.h"

namespace pergola::transform {
namespace {

using ptx::Instruction;
using ptx::Operand;

int arch_of(std::string_view target) {
  int arch = 0;
  for (const char c : target.substr(std::min<std::size_t>(target.size(), 3)))
    if (c >= '0' && c <= '9') arch = arch * 10 + (c - '0');
  return arch;
}

ptx::Variable slots_variable() {
  ptx::Variable slots;
  slots.space = ptx::Space::kShared;
  slots.linkage = ptx::Linkage::kExtern;
  slots.type = ptx::Type::kB8;
  slots.align_bytes = alignof(abi::TaskSlot);
  slots.name = kTaskSlotsName;
  slots.extents = {32 * sizeof(abi::TaskSlot)};
  return slots;
}

ptx::Variable fence_table_variable() {
  ptx::Variable table;
  table.space = ptx::Space::kShared;
  table.linkage = ptx::Linkage::kExtern;
  table.type = ptx::Type::kB8;
  table.align_bytes = 8;
  table.name = kFenceTableName;
  table.extents = {8};
  return table;
}

// What malloc() in kernels gives is memory that the host knows nothing of.
bool allocates(const analysis::CallGraph& graph) {
  for (const analysis::CallGraph::Node& node : graph.nodes)
    for (const ptx::Statement& statement : node.function->body)
      if (const Instruction* in = statement.instruction(); in != nullptr && in->op == ptx::Op::kCall)
        for (const Operand& operand : in->operands)
          if (operand.name == "malloc" || operand.name == "free") return true;
  return false;
}

void make_func(ptx::Function& function, const std::string& name) {
  function.is_entry = false;
  function.linkage = ptx::Linkage::kNone;
  function.name = name;
  function.parameters.clear();
  function.max_threads.reset();
  function.required_threads.reset();
  function.min_blocks_per_sm.reset();
  function.max_registers.reset();
  function.directives.clear();
}

// A function of the body, fenced where that is wanted; `flow` is the kernel's, null of a device function.
Result<ptx::Function> make_body(const ptx::Module& module, const ptx::Function& function, const TaskPlan& plan,
                                const LaneFlow* flow, TaskBody& body) {
  PERGOLA_ASSIGN(ptx::Function made, rewrite_for_task(function, plan, flow));
  make_loads_coherent(made, plan.config.constant_lines);
  if (!plan.config.fences) return made;
  const FenceTarget target{module, *plan.config.fences, flow == nullptr ? nullptr : kEndLabel, plan.is_ragged,
                           [&plan](const Instruction& in) { return plan.together_at(in); }};
  PERGOLA_TRY(fence_accesses(made, target, body.fences, body.fence_counts));
  return made;
}

// Items in the order of the text, so that what is declared before its use stays so.
Result<ptx::Module> build_module(const ptx::Module& module, const TaskPlan& plan, const ReachedNames& reached,
                                 const LaneFlow& flow, const ptx::Function& ended, TaskBody& task) {
  const std::string& name = task.function;
  ptx::Module out;
  out.source_name = module.source_name;
  out.address_size = module.address_size;
  out.files = module.files;
  const bool older = std::pair(module.version_major, module.version_minor) < std::pair(8u, 0u);
  out.version_major = older ? 8 : module.version_major;
  out.version_minor = older ? 0 : module.version_minor;
  const std::string own = module.targets.empty() ? "" : module.targets[0];
  out.targets = {arch_of(own) < arch_of(plan.config.target) ? plan.config.target
                                                            : own};  // no `debug`: its sections are left out
  out.items.push_back({slots_variable()});
  if (plan.config.fences) out.items.push_back({fence_table_variable()});
  for (const ptx::Item& item : module.items) {
    if (!reached.needs(item)) continue;
    if (const auto* variable = std::get_if<ptx::Variable>(&item.node)) {
      if (variable->space != ptx::Space::kShared) out.items.push_back(item);
    } else if (const auto* function = std::get_if<ptx::Function>(&item.node)) {
      if (function == plan.entry) {
        PERGOLA_ASSIGN(ptx::Function body, make_body(module, ended, plan, &flow, task));
        make_func(body, name);
        out.items.push_back({std::move(body)});
      } else if (!function->is_entry) {
        if (!function->has_body) {
          out.items.push_back(item);
          continue;
        }
        PERGOLA_ASSIGN(ptx::Function body, make_body(module, *function, plan, nullptr, task));
        out.items.push_back({std::move(body)});
      }
    } else if (const auto* verbatim = std::get_if<ptx::Verbatim>(&item.node)) {
      // Debug sections name labels and functions that are gone.
      if (!verbatim->text.starts_with(".section")) out.items.push_back(item);
    }
  }
  return out;
}

// Whether some warp may wait for another: strong or atomic accesses anywhere, and a loop anywhere.
Result<bool> may_wait(const analysis::CallGraph& graph) {
  bool strong = false, loops = graph.is_recursive;
  for (const analysis::CallGraph::Node& node : graph.nodes) {
    for (const ptx::Statement& statement : node.function->body) {
      if (const Instruction* in = statement.instruction()) {
        const ptx::MemoryEffect effect = ptx::memory_effect(*in);
        strong |= effect.is_strong || effect.is_atomic;
      }
    }
    if (!node.function->has_body) continue;
    PERGOLA_ASSIGN(const analysis::Cfg cfg, analysis::build_cfg(*node.function));
    std::vector<std::uint32_t> position(cfg.blocks.size(), 0);
    for (std::uint32_t i = 0; i < cfg.reverse_post_order.size(); ++i) position[cfg.reverse_post_order[i]] = i;
    for (const std::uint32_t b : cfg.reverse_post_order)
      for (const std::uint32_t next : cfg.blocks[b].successors) loops |= position[next] <= position[b];
  }
  return strong && loops;
}

// `ends_asserts`: a failed assert ends its lane, which may make the kernel ragged, and then refused.
Result<TaskBody> make_task(const ptx::Module& module, std::string_view kernel, const TaskConfig& config,
                           bool ends_asserts) {
  const ptx::Function* entry = find_kernel(module, kernel);
  if (entry == nullptr)
    return PERGOLA_ERROR(kNotFound, "{} defines no kernel '{}'; only an .entry can become a task.", module.source_name,
                         kernel);
  if (arch_of(config.target) < 80)
    return PERGOLA_ERROR(kInvalidArgument,
                         "A task's module is made for sm_80 or newer, which mbarriers need; '{}' is not.",
                         config.target);
  const analysis::CallGraph graph = analysis::call_graph(module, *entry);
  PERGOLA_TRY(refuse_as_task(module, *entry, graph, config));
  const ReachedNames reached(module, *entry);
  PERGOLA_ASSIGN(TaskPlan plan, make_task_plan(module, *entry, graph, reached, config));

  if (allocates(graph)) plan.config.fences.reset();
  ptx::Function ended = *entry;
  if (plan.config.fences) part_traps(ended, ends_asserts);
  end_at_label(ended);
  PERGOLA_ASSIGN(const LaneFlow flow, lane_flow(ended, [&](const Instruction& in) { return plan.together_at(in); }));
  plan.is_ragged = flow.is_ragged;
  const bool nameable = flow.every_lane_arrives && !flow.is_ragged && !plan.barriers_by_register &&
                        !plan.callees_have_barriers && !config.is_one_warp;
  plan.named_barriers = nameable && plan.kinds.size() < 16 ? static_cast<std::uint32_t>(plan.kinds.size()) : 0;

  TaskBody body;
  body.kernel = entry->name;
  body.function = "pergola_task_" + entry->name;
  PERGOLA_ASSIGN(body.module, build_module(module, plan, reached, flow, ended, body));
  body.parameter_bytes = plan.signature.parameter_bytes;
  body.static_shared_bytes = plan.static_shared_bytes;
  body.dynamic_shared_offset = plan.dynamic_shared_offset;
  body.shared_align_bytes = plan.shared_align_bytes;
  body.uses_dynamic_shared = plan.uses_dynamic_shared;
  if (!config.is_one_warp) body.barriers = plan.kinds;
  body.named_barriers = plan.named_barriers;
  body.is_ragged = plan.is_ragged;
  body.required_threads = entry->required_threads;
  body.max_threads = entry->max_threads;
  PERGOLA_ASSIGN(const bool waits, may_wait(graph));
  body.spawns = std::any_of(graph.nodes.begin(), graph.nodes.end(),
                            [](const auto& node) { return node.function->name == abi::kTaskSpawnFunction; });
  body.needs_block =
      waits || !plan.kinds.empty() || !plan.shared.empty() || plan.static_shared_bytes != 0 || plan.uses_dynamic_shared;
  return body;
}

}  // namespace

Result<TaskBody> entry_to_task(const ptx::Module& module, std::string_view kernel, const TaskConfig& config) {
  Result<TaskBody> body = make_task(module, kernel, config, true);
  if (body.ok() || body.code() != Code::kUnsupported || !config.fences) return body;
  return make_task(module, kernel, config, false);
}

Status check_registers(const TaskBody& body, const TaskRegisters& registers) {
  if (registers.used <= registers.allowed) return {};
  return PERGOLA_ERROR(
      kUnsupported,
      "Kernel '{}' cannot be a task of this executor: it wants {} registers a thread, the executor has {}, and held to "
      "them it would spill {} bytes. Use an executor with more registers a thread, or launch it as an ordinary kernel.",
      body.kernel, registers.used, registers.allowed, registers.spilled_bytes);
}

}  // namespace pergola::transform
