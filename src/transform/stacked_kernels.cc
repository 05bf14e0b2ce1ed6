#include "src/transform/stacked_kernels.h"

#include <algorithm>
#include <map>
#include <string>

#include "src/analysis/call_graph.h"
#include "src/base/check.h"
#include "src/ptx/printer.h"
#include "src/transform/kernel_boundary.h"
#include "src/transform/kernel_parts.h"
#include "src/transform/lane_flow.h"
#include "src/transform/task_plan.h"

namespace pergola::transform {
namespace {

using ptx::Function;
using ptx::Instruction;
using ptx::Mod;
using ptx::Op;

// What may still go on in shared memory, or in the block's name, when the last statement has been executed.
std::string_view why_not_over(const Instruction& in) {
  switch (in.op) {
    case Op::kCp: return in.has(Mod::kAsync) ? "may leave a copy under way" : "";
    case Op::kMbarrier: return "leaves an mbarrier in shared memory that is another's then";
    case Op::kSetmaxnreg: return "changes how many registers its warps have";
    case Op::kTcgen05:
    case Op::kWgmma: return "may leave a product under way";
    case Op::kSt:
    case Op::kRed: return in.has(Mod::kAsync) ? "may be under way when its thread goes on" : "";
    case Op::kOpaque: return "is not understood";
    case Op::kBar:
    case Op::kBarrier: return in.has(Mod::kArrive) ? "may leave its barrier half full" : "";
    default: return {};
  }
}

// Memory that the async proxy reaches is ordered with other accesses of it by a launch's begin, and not by a barrier.
std::string_view why_not_behind(const Instruction& in) {
  const bool is_async = (in.op == Op::kCp && in.has(Mod::kBulk)) || in.op == Op::kWgmma || in.op == Op::kTcgen05 ||
                        in.op == Op::kTensormap;
  return is_async ? "reaches memory by way of the async proxy" : "";
}

Status can_be_behind(const ptx::Module& module, std::string_view kernel) {
  for (const Function* function : module.functions())
    for (const ptx::Statement& statement : function->body)
      if (const Instruction* const in = statement.instruction(); in != nullptr && !why_not_behind(*in).empty())
        return PERGOLA_ERROR(kUnsupported, "{}:{}: kernel '{}' cannot be stacked on others: `{}` {}.",
                             module.source_name, statement.location.line, kernel, ptx::print(*in, *function),
                             why_not_behind(*in));
  return {};
}

class Following {
 public:
  Following(const ptx::Module& module, const Function& entry)
      : module_(module), entry_(entry), calls_(analysis::call_graph(module, entry)) {}

  Status run() {
    for (const analysis::CallGraph::Node& node : calls_.nodes) PERGOLA_TRY(look_at(node));
    for (bool changed = true; changed;) {
      changed = false;
      for (const analysis::CallGraph::Node& node : calls_.nodes)
        for (const std::uint32_t callee : node.callees)
          if (meets_[calls_.nodes[callee].function->name] && !meets_[node.function->name])
            meets_[node.function->name] = changed = true;
    }
    for (const analysis::CallGraph::Node& node : calls_.nodes)
      if (meets_[node.function->name]) PERGOLA_TRY(all_meet(*node.function));
    return {};
  }

 private:
  Error refuse(const ptx::Location& location, std::string_view why) const {
    return PERGOLA_ERROR(kUnsupported, "{}:{}: no launch can be stacked on kernel '{}': {}.", module_.source_name,
                         location.line, entry_.name, why);
  }

  Status look_at(const analysis::CallGraph::Node& node) {
    const Function& function = *node.function;
    if (node.calls_unknown) return refuse(function.location, "it calls what is not known");
    bool& meets = meets_[function.name];
    for (const ptx::Statement& statement : function.body) {
      const Instruction* const in = statement.instruction();
      if (in == nullptr) continue;
      std::string_view why = why_not_over(*in);
      if (why.empty() && in->op == Op::kExit && &function != &entry_) why = "ends a thread within a function";
      if (!why.empty())
        return refuse(statement.location,
                      fmt::format("`{}` {}", in->op == Op::kOpaque ? in->text : ptx::print(*in, function), why));
      meets = meets || own_together(*in) != Together::kNo;
    }
    return {};
  }

  bool meets_at(const Instruction& in) {
    if (in.op != Op::kCall) return own_together(in) != Together::kNo;
    for (const ptx::Operand& operand : in.operands)
      if (operand.kind == ptx::Operand::Kind::kSymbol)
        if (const auto known = meets_.find(operand.name); known != meets_.end()) return known->second;
    return std::any_of(meets_.begin(), meets_.end(), [](const auto& known) { return known.second; });
  }

  // With the end of each thread's way at the end of the function, as it is in a stack.
  Status all_meet(const Function& function) {
    Function ended = function;
    // What a function is called with may be another value in each thread.
    if (&function != &entry_) {
      const auto is_register = [](const ptx::Variable& parameter) { return parameter.space != ptx::Space::kParam; };
      if (std::any_of(function.parameters.begin(), function.parameters.end(), is_register))
        return refuse(function.location, "threads meet in a function that is given registers");
      ended.parameters.clear();
    }
    const std::string end = "$pergola_end_of_part";
    for (ptx::Statement& statement : ended.body) {
      Instruction* const in = statement.instruction();
      if (in == nullptr) continue;
      if (in->guard.present() && meets_at(*in))
        return refuse(statement.location, fmt::format("some threads may pass `{}` by", ptx::print(*in, function)));
      if (in->op != Op::kRet && in->op != Op::kExit) continue;
      in->op = Op::kBra;
      in->mods.clear();
      in->operands.assign(1, ptx::Operand::make_label(end));
    }
    ended.body.push_back({ptx::Label{end}, {}});
    PERGOLA_ASSIGN(const LaneFlow flow, lane_flow(ended, [&](const Instruction& in) {
                     return meets_at(in) ? Together::kBlock : Together::kNo;
                   }));
    if (flow.every_lane_arrives) return {};
    return refuse(function.location,
                  fmt::format("some threads of '{}' may end, or go another way, where others meet at a barrier or "
                              "within a warp",
                              function.name));
  }

  const ptx::Module& module_;
  const Function& entry_;
  const analysis::CallGraph calls_;
  std::map<std::string, bool> meets_;  // by function: whether its threads do something together, in it or below
};

}  // namespace

Status can_be_followed(const ptx::Module& module, std::string_view kernel) {
  const Function* const entry = module.find_function(kernel);
  if (entry == nullptr || !entry->is_entry || !entry->has_body)
    return PERGOLA_ERROR(kNotFound, "No kernel '{}' is in '{}'.", kernel, module.source_name);
  return Following(module, *entry).run();
}

Result<ptx::Module> stack_kernels(std::span<const StackedPart> parts, const std::array<std::uint32_t, 3>& block) {
  PERGOLA_CHECK(!parts.empty());
  KernelOfParts whole(kStackedKernel, "stacked on others", block);
  for (const StackedPart& part : parts) {
    ptx::Module module = *part.module;
    if (whole.count() != 0) PERGOLA_TRY(can_be_behind(module, part.kernel));
    PERGOLA_TRY(make_kernel_loads_coherent(module, part.kernel, part.constant_lines));
    PERGOLA_TRY(whole.add({&module, part.kernel}));
  }
  ptx::Function& entry = whole.entry();
  BodyEditor editor(entry);
  for (std::size_t n = 0; n < parts.size(); ++n) {
    PERGOLA_ASSIGN(const Statements body, whole.body(n));
    entry.body.insert(entry.body.end(), body.begin(), body.end());
    PERGOLA_ASSIGN(const Statements end, editor.statements(n + 1 == parts.size() ? "ret;\n" : "bar.sync 0;\n"));
    entry.body.insert(entry.body.end(), end.begin(), end.end());
  }
  return whole.take();
}

}  // namespace pergola::transform
