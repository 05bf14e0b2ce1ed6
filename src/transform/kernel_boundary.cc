#include "src/transform/kernel_boundary.h"

#include <algorithm>
#include <set>

#include "src/analysis/call_graph.h"
#include "src/ptx/semantics.h"
#include "src/transform/body_editor.h"

namespace pergola::transform {
namespace {

using ptx::Instruction;
using ptx::Mod;
using ptx::Op;

Status append_fence(Statements& to, BodyEditor& editor, const Instruction* end, std::string_view scope) {
  if (end == nullptr || !end->guard.present()) {
    PERGOLA_ASSIGN(Statements fence, editor.statements(fmt::format("fence.acq_rel.{};\n", scope)));
    to.insert(to.end(), fence.begin(), fence.end());
    return {};
  }
  ptx::Operand guard = ptx::Operand::make_register(end->guard.predicate);
  guard.negated = end->guard.negated;
  const BodyEditor::Argument arguments[] = {{"%guard", ptx::Type::kPred, guard}};
  PERGOLA_ASSIGN(Statements fence, editor.statements(fmt::format("@!%guard bra $pergola_goes_on_#;\nfence.acq_rel.{};\n"
                                                                 "$pergola_goes_on_#:\n",
                                                                 scope),
                                                     arguments));
  to.insert(to.end(), fence.begin(), fence.end());
  return {};
}

}  // namespace

const ptx::Function* find_kernel(const ptx::Module& module, std::string_view kernel) {
  const ptx::Function* const found = module.find_function(kernel);
  return found != nullptr && found->is_entry && found->has_body ? found : nullptr;
}

std::size_t make_loads_coherent(ptx::Function& function, std::span<const std::uint32_t> constant_lines) {
  std::size_t count = 0;
  for (ptx::Statement& statement : function.body) {
    Instruction* in = statement.instruction();
    if (in == nullptr) continue;
    if (std::binary_search(constant_lines.begin(), constant_lines.end(), statement.location.line)) continue;
    if (in->op == Op::kLdu) {
      in->op = Op::kLd;
      ++count;
    } else if (in->op == Op::kLd && in->has(Mod::kNc)) {
      in->mods.erase(std::remove(in->mods.begin(), in->mods.end(), Mod::kNc), in->mods.end());
      ++count;
    }
  }
  return count;
}

Status make_kernel_loads_coherent(ptx::Module& module, std::string_view kernel,
                                  std::span<const std::uint32_t> constant_lines) {
  const ptx::Function* entry = find_kernel(module, kernel);
  if (entry == nullptr)
    return PERGOLA_ERROR(kNotFound, "{} defines no kernel '{}'; only an .entry begins with a launch.",
                         module.source_name, kernel);
  const analysis::CallGraph graph = analysis::call_graph(module, *entry);
  std::set<std::string> names;
  for (const analysis::CallGraph::Node& node : graph.nodes) {
    for (const ptx::Statement& statement : node.function->body)
      if (const Instruction* in = statement.instruction(); in != nullptr && in->op == Op::kOpaque)
        return PERGOLA_ERROR(
            kUnsupported,
            "{}:{}:{}: `{}` is not understood, so it is not known whether kernel '{}' presumes its data "
            "constant there. Launch it as it is.",
            module.source_name, statement.location.line, statement.location.column, in->text, entry->name);
    names.insert(node.function->name);
  }
  for (ptx::Item& item : module.items)
    if (auto* function = std::get_if<ptx::Function>(&item.node); function != nullptr && names.contains(function->name))
      make_loads_coherent(*function, constant_lines);
  return {};
}

Status leave_only_kernel(ptx::Module& module, std::string_view kernel) {
  if (std::find(module.targets.begin(), module.targets.end(), "debug") != module.targets.end())
    return PERGOLA_ERROR(kUnsupported,
                         "'{}' is compiled for a debugger, which its kernels are to be left as they are for.",
                         module.source_name);
  if (find_kernel(module, kernel) == nullptr)
    return PERGOLA_ERROR(kNotFound, "No kernel '{}' is in '{}'.", kernel, module.source_name);
  std::erase_if(module.items, [&](const ptx::Item& item) {
    if (const auto* verbatim = std::get_if<ptx::Verbatim>(&item.node)) return verbatim->text.starts_with(".section");
    const auto* function = std::get_if<ptx::Function>(&item.node);
    return function != nullptr && function->is_entry && (function->name != kernel || !function->has_body);
  });
  for (ptx::Item& item : module.items)
    if (auto* function = std::get_if<ptx::Function>(&item.node))
      for (ptx::Statement& statement : function->body)
        if (auto* location = std::get_if<ptx::LocDirective>(&statement.node)) location->rest.clear();
  return {};
}

Status kernel_boundary(ptx::Module& module, std::string_view kernel, BoundaryScope scope) {
  PERGOLA_TRY(make_kernel_loads_coherent(module, kernel));
  ptx::Function* entry = module.find_function(kernel);
  const std::string_view where = scope == BoundaryScope::kGpu ? "gpu" : "sys";
  BodyEditor editor(*entry);
  Statements body;
  PERGOLA_TRY(append_fence(body, editor, nullptr, where));
  for (ptx::Statement& statement : entry->body) {
    const Instruction* in = statement.instruction();
    if (in != nullptr && (in->op == Op::kRet || in->op == Op::kExit))
      PERGOLA_TRY(append_fence(body, editor, in, where));
    body.push_back(std::move(statement));
  }
  const Instruction* last = body.back().instruction();
  if (last == nullptr || !ptx::is_terminator(*last) || last->guard.present())
    PERGOLA_TRY(append_fence(body, editor, nullptr, where));
  entry->body = std::move(body);
  return {};
}

}  // namespace pergola::transform
