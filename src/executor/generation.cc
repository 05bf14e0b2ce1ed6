#include "src/executor/generation.h"

#include <algorithm>
#include <set>

#include "src/abi/task_ring.h"
#include "src/executor/resident_ptx.h"
#include "src/ptx/parser.h"
#include "src/ptx/printer.h"
#include "src/transform/body_editor.h"
#include "src/transform/inline_body.h"
#include "src/transform/rename_symbols.h"

namespace pergola::executor {
namespace {

constexpr std::string_view kMarker = "pergola_run_body", kSlots = "pergola_task_slots", kNumber = "%pergola_body";

bool calls_marker(const ptx::Statement& statement) {
  const ptx::Instruction* in = statement.instruction();
  return in != nullptr && in->op == ptx::Op::kCall &&
         std::any_of(in->operands.begin(), in->operands.end(),
                     [](const ptx::Operand& operand) { return operand.name == kMarker; });
}

std::string case_label(std::size_t n) {
  return fmt::format("$pergola_case_{}", n);
}

// What stands in place of the marker: a branch by the body's number to the bodies, one after the other.
Result<transform::Statements> cases(ptx::Function& executor, std::span<const ptx::Function> bodies) {
  ptx::RegisterId number = 0;
  while (executor.registers.at(number).name != kNumber) ++number;
  transform::BodyEditor editor(executor);
  const transform::BodyEditor::Argument arguments[] = {{kNumber, ptx::Type::kB32, ptx::Operand::make_register(number)}};
  std::string branch = "$pergola_cases: .branchtargets ";
  for (std::size_t n = 0; n < bodies.size(); ++n) branch += (n == 0 ? "" : ", ") + case_label(n);
  branch += fmt::format(";\nbrx.idx {}, $pergola_cases;\n", kNumber);
  transform::Statements out;
  const auto add = [&](const transform::Statements& part) { out.insert(out.end(), part.begin(), part.end()); };
  if (bodies.size() > 1) {
    PERGOLA_ASSIGN(const auto head, editor.statements(branch, arguments));
    add(head);
  }
  for (std::size_t n = 0; n < bodies.size(); ++n) {
    if (bodies.size() > 1) out.push_back({ptx::Label{case_label(n)}, {}});
    PERGOLA_ASSIGN(const auto body, transform::inline_body(executor, bodies[n], fmt::format("$body_{}", n)));
    add(body);
    if (n + 1 == bodies.size()) continue;
    PERGOLA_ASSIGN(const auto over, editor.statements("bra $pergola_cases_end;\n"));
    add(over);
  }
  out.push_back({ptx::Label{"$pergola_cases_end"}, {}});
  return out;
}

unsigned arch_number(std::string_view target) {
  unsigned number = 0;
  for (const char c : target.substr(target.find('_') + 1))
    if (c >= '0' && c <= '9') number = number * 10 + static_cast<unsigned>(c - '0');
  return number;
}

// The items that bodies bring with them; the bodies themselves go into `functions`.
class Linked {
 public:
  void add(const transform::TaskBody& body, std::size_t n, ptx::Module& into) {
    ptx::Module module = body.module;
    const std::string suffix = fmt::format("__{}", n);
    transform::rename_symbols(module, suffix);
    if (std::pair(module.version_major, module.version_minor) > std::pair(into.version_major, into.version_minor)) {
      into.version_major = module.version_major;
      into.version_minor = module.version_minor;
    }
    if (!module.targets.empty()) {
      const std::string& own = module.targets[0];
      const bool newer = arch_number(own) > arch_number(into.targets[0]);
      if (newer || (arch_number(own) == arch_number(into.targets[0]) && own.size() > into.targets[0].size()))
        into.targets[0] = own;
    }
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
  std::set<std::string> declared_{std::string(kSlots)};
};

}  // namespace

transform::TaskConfig task_config(std::uint32_t parameter_bytes, std::uint32_t most_shared_bytes) {
  transform::TaskConfig config;
  config.most_shared_bytes = most_shared_bytes;
  config.parameters = parameter_bytes <= abi::kRecordParameterBytes ? ptx::Space::kShared : ptx::Space::kGlobal;
  return config;
}

Result<std::string> generation_text(std::span<const transform::TaskBody> bodies, std::uint32_t blocks_per_sm) {
  PERGOLA_ASSIGN(ptx::Module module, ptx::parse(resident_ptx(), "the executor"));
  Linked linked;
  for (std::size_t n = 0; n < bodies.size(); ++n) linked.add(bodies[n], n, module);
  ptx::Function& executor = *module.find_function(kExecutorKernel);
  executor.min_blocks_per_sm = blocks_per_sm;
  transform::Statements made;
  for (ptx::Statement& statement : executor.body) {
    if (!calls_marker(statement)) {
      made.push_back(std::move(statement));
      continue;
    }
    PERGOLA_ASSIGN(const auto branch, cases(executor, linked.functions));
    made.insert(made.end(), branch.begin(), branch.end());
  }
  executor.body = std::move(made);
  std::erase_if(module.items, [](const ptx::Item& item) {
    const auto* function = std::get_if<ptx::Function>(&item.node);
    return function != nullptr && function->name == kMarker;
  });
  const auto entry = std::find_if(module.items.begin(), module.items.end(), [](const ptx::Item& item) {
    const auto* function = std::get_if<ptx::Function>(&item.node);
    return function != nullptr && function->is_entry;
  });
  module.items.insert(entry, std::make_move_iterator(linked.items.begin()),
                      std::make_move_iterator(linked.items.end()));
  return ptx::print(module);
}

}  // namespace pergola::executor
