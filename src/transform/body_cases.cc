#include "src/transform/body_cases.h"

#include <algorithm>
#include <set>

#include "src/abi/task_inbox.h"
#include "src/transform/body_editor.h"
#include "src/transform/fence_accesses.h"
#include "src/transform/inline_body.h"
#include "src/transform/newest_target.h"
#include "src/transform/rename_symbols.h"
#include "src/transform/task_rewriter.h"

namespace pergola::transform {
namespace {

bool calls_marker(const ptx::Statement& statement) {
  const ptx::Instruction* in = statement.instruction();
  return in != nullptr && in->op == ptx::Op::kCall &&
         std::any_of(in->operands.begin(), in->operands.end(),
                     [](const ptx::Operand& operand) { return operand.name == kBodyMarker; });
}

std::string case_label(std::size_t n) {
  return fmt::format("$pergola_case_{}", n);
}

// What stands in place of the marker: a branch by the body's number to the bodies, one after the other.
Result<Statements> cases(ptx::Function& kernel, std::span<const ptx::Function> bodies) {
  ptx::RegisterId number = 0;
  while (kernel.registers.at(number).name != kBodyNumber) ++number;
  BodyEditor editor(kernel);
  const BodyEditor::Argument arguments[] = {{kBodyNumber, ptx::Type::kB32, ptx::Operand::make_register(number)}};
  std::string branch = "$pergola_cases: .branchtargets ";
  for (std::size_t n = 0; n < bodies.size(); ++n) branch += (n == 0 ? "" : ", ") + case_label(n);
  branch += fmt::format(";\nbrx.idx {}, $pergola_cases;\n", kBodyNumber);
  Statements out;
  const auto add = [&](const Statements& part) { out.insert(out.end(), part.begin(), part.end()); };
  if (bodies.size() > 1) {
    PERGOLA_ASSIGN(const auto head, editor.statements(branch, arguments));
    add(head);
  }
  for (std::size_t n = 0; n < bodies.size(); ++n) {
    if (bodies.size() > 1) out.push_back({ptx::Label{case_label(n)}, {}});
    PERGOLA_ASSIGN(const auto body, inline_body(kernel, bodies[n], fmt::format("$body_{}", n)));
    add(body);
    if (n + 1 == bodies.size()) continue;
    PERGOLA_ASSIGN(const auto over, editor.statements("bra $pergola_cases_end;\n"));
    add(over);
  }
  out.push_back({ptx::Label{"$pergola_cases_end"}, {}});
  return out;
}

// The items that bodies bring with them; the bodies themselves go into `functions`.
class Linked {
 public:
  void add(const TaskBody& body, std::size_t n, ptx::Module& into) {
    ptx::Module module = body.module;
    const std::string suffix = fmt::format("__{}", n);
    rename_symbols(module, suffix);
    take_newer_target(module, into);
    for (ptx::Item& item : module.items) {
      if (auto* function = std::get_if<ptx::Function>(&item.node)) {
        if (function->name == body.function + suffix && function->has_body) {
          functions.push_back(std::move(*function));
          continue;
        }
        if (!function->has_body && !declared_.insert(function->name).second) continue;
      } else if (auto* variable = std::get_if<ptx::Variable>(&item.node)) {
        if (variable->linkage == ptx::Linkage::kExtern && !declared_.insert(variable->name).second) continue;
      }
      items.push_back(std::move(item));
    }
  }

  std::vector<ptx::Function> functions;
  std::vector<ptx::Item> items;

 private:
  // The kernel has them.
  std::set<std::string> declared_{kTaskSlotsName, kFenceTableName, abi::kTaskSpawnFunction};
};

}  // namespace

Status put_bodies(ptx::Module& module, std::string_view kernel, std::span<const TaskBody* const> bodies) {
  Linked linked;
  for (std::size_t n = 0; n < bodies.size(); ++n) linked.add(*bodies[n], n, module);
  ptx::Function* const entry = module.find_function(kernel);
  if (entry == nullptr)
    return PERGOLA_ERROR(kNotFound, "{} defines no kernel '{}' to put bodies into.", module.source_name, kernel);
  Statements made;
  for (ptx::Statement& statement : entry->body) {
    if (!calls_marker(statement)) {
      made.push_back(std::move(statement));
      continue;
    }
    PERGOLA_ASSIGN(const auto branch, cases(*entry, linked.functions));
    made.insert(made.end(), branch.begin(), branch.end());
  }
  entry->body = std::move(made);
  std::erase_if(module.items, [](const ptx::Item& item) {
    const auto* function = std::get_if<ptx::Function>(&item.node);
    return function != nullptr && function->name == kBodyMarker;
  });
  const auto first = std::find_if(module.items.begin(), module.items.end(), [](const ptx::Item& item) {
    const auto* function = std::get_if<ptx::Function>(&item.node);
    return function != nullptr && function->is_entry;
  });
  module.items.insert(first, std::make_move_iterator(linked.items.begin()),
                      std::make_move_iterator(linked.items.end()));
  return {};
}

}  // namespace pergola::transform
