#include "src/transform/kernel_parts.h"

#include <algorithm>

#include "src/base/check.h"
#include "src/ptx/printer.h"
#include "src/transform/inline_body.h"
#include "src/transform/newest_target.h"
#include "src/transform/reached_names.h"
#include "src/transform/rename_symbols.h"

namespace pergola::transform {
namespace {

using ptx::Function;
using ptx::Instruction;
using ptx::Op;
using ptx::Operand;
using ptx::Space;
using ptx::Special;
using ptx::Statement;
using ptx::Variable;

constexpr std::string_view kSharedOfParts = "pergola_shared_of_parts";

bool asks_for_shared_size(const Operand& operand) {
  if (operand.kind == Operand::Kind::kSpecial)
    return operand.special == Special::kDynamicSmemSize || operand.special == Special::kTotalSmemSize ||
           operand.special == Special::kAggrSmemSize;
  return std::any_of(operand.elements.begin(), operand.elements.end(), asks_for_shared_size);
}

// Names become others, at an offset.
struct Place {
  std::string name;
  std::int64_t offset = 0;
};
using Places = std::map<std::string, Place>;

void move_symbols(Operand& operand, const Places& places) {
  for (Operand& element : operand.elements) move_symbols(element, places);
  if (operand.kind != Operand::Kind::kSymbol) return;
  const auto place = places.find(operand.name);
  if (place == places.end()) return;
  operand.name = place->second.name;
  operand.offset += place->second.offset;
}

// [name+4] has its offset at the address.
void move_symbols(Instruction& in, const Places& places) {
  for (Operand& operand : in.operands) {
    move_symbols(operand, places);
    if (operand.kind != Operand::Kind::kAddress || operand.elements.empty()) continue;
    operand.offset += operand.elements[0].offset;
    operand.elements[0].offset = 0;
  }
}

Status check_part(const ptx::Module& module, std::string_view kernel, std::string_view verb) {
  for (const Function* function : module.functions()) {
    std::vector<std::string> shared;
    for (const Statement& statement : function->body) {
      const auto refuse = [&](std::string_view what, std::string_view why) {
        return PERGOLA_ERROR(kUnsupported, "{}:{}: kernel '{}' cannot be {}: `{}` {}.", module.source_name,
                             statement.location.line, kernel, verb, what, why);
      };
      if (const auto* variable = std::get_if<Variable>(&statement.node);
          variable != nullptr && variable->space == Space::kShared) {
        if (std::find(shared.begin(), shared.end(), variable->name) != shared.end())
          return refuse(variable->name, "is declared twice in one function");
        shared.push_back(variable->name);
      }
      const Instruction* const in = statement.instruction();
      if (in == nullptr) continue;
      if (in->op == Op::kOpaque) return refuse(in->text, "is not understood");
      if (std::any_of(in->operands.begin(), in->operands.end(), asks_for_shared_size))
        return refuse(ptx::print(*in, *function), "asks how much shared memory it has");
    }
  }
  return {};
}

// The static shared memory of one part as pieces of the whole's.
class SharedPieces {
 public:
  explicit SharedPieces(ptx::Module& module) : module_(module) {}

  // Of the module and of each function, which hides the module's.
  void place() {
    Places of_module;
    std::erase_if(module_.items, [&](const ptx::Item& item) {
      const auto* const variable = std::get_if<Variable>(&item.node);
      if (variable == nullptr || variable->space != Space::kShared || variable->linkage == ptx::Linkage::kExtern)
        return false;
      place(*variable, of_module);
      return true;
    });
    for (ptx::Item& item : module_.items) {
      auto* const function = std::get_if<Function>(&item.node);
      if (function == nullptr) continue;
      Places places = of_module;
      std::erase_if(function->body, [&](const Statement& statement) {
        const auto* const variable = std::get_if<Variable>(&statement.node);
        if (variable == nullptr || variable->space != Space::kShared) return false;
        place(*variable, places);
        return true;
      });
      for (Statement& statement : function->body)
        if (Instruction* const in = statement.instruction()) move_symbols(*in, places);
    }
  }
  std::uint64_t bytes() const { return bytes_; }
  std::uint32_t align() const { return align_; }

 private:
  void place(const Variable& variable, Places& places) {
    const std::uint32_t align = std::max<std::uint32_t>(variable.alignment_bytes(), 1);
    bytes_ = (bytes_ + align - 1) / align * align;
    align_ = std::max(align_, align);
    places[variable.name] = {std::string(kSharedOfParts), static_cast<std::int64_t>(bytes_)};
    bytes_ += variable.size_bytes();
  }

  ptx::Module& module_;
  std::uint64_t bytes_ = 0;
  std::uint32_t align_ = 16;
};

// Of limits: they hold where each part has one, the loosest.
template <typename Loosest>
void loosen(std::optional<std::uint32_t>& all, const std::optional<std::uint32_t>& own, Loosest loosest) {
  if (all && own)
    all = loosest(*all, *own);
  else
    all.reset();
}

}  // namespace

KernelOfParts::KernelOfParts(std::string_view name, std::string_view verb, const std::array<std::uint32_t, 3>& block)
    : verb_(verb) {
  entry_.is_entry = entry_.has_body = true;
  entry_.linkage = ptx::Linkage::kVisible;
  entry_.name = name;
  entry_.required_threads = block;
  module_.source_name = fmt::format("kernels {}", verb);
}

Status KernelOfParts::add(const KernelPart& made) {
  const std::string suffix = fmt::format("__{}", parts_.size());
  Part part{*made.module, std::string(made.kernel) + suffix, {}, 0, 16};
  leave_only_reached(part.module, std::string(made.kernel));
  PERGOLA_TRY(check_part(part.module, made.kernel, verb_));
  rename_symbols(part.module, suffix);
  SharedPieces shared(part.module);
  shared.place();
  part.shared_bytes = shared.bytes(), part.shared_align = shared.align();
  Function& function = *part.module.find_function(part.body);
  PERGOLA_CHECK(function.is_entry && function.parameters.size() == 1);
  part.parameter = function.parameters[0];
  const Places renamed{{part.parameter.name, {part.parameter.name + suffix, 0}}};
  part.parameter.name += suffix;
  for (Statement& statement : function.body) {
    Instruction* const in = statement.instruction();
    if (in == nullptr) continue;
    move_symbols(*in, renamed);
    if (in->op == Op::kExit) in->op = Op::kRet;  // to the end of its body
  }
  function.parameters.clear();
  function.is_entry = false;
  if (parts_.empty()) {
    module_.version_major = part.module.version_major, module_.version_minor = part.module.version_minor;
    module_.targets = part.module.targets;
    entry_.min_blocks_per_sm = function.min_blocks_per_sm, entry_.max_registers = function.max_registers;
  }
  take_newer_target(part.module, module_);
  loosen(entry_.min_blocks_per_sm, function.min_blocks_per_sm, [](auto a, auto b) { return std::min(a, b); });
  loosen(entry_.max_registers, function.max_registers, [](auto a, auto b) { return std::max(a, b); });
  entry_.parameters.push_back(part.parameter);
  parts_.push_back(std::move(part));
  return {};
}

Result<Statements> KernelOfParts::body(std::size_t part) {
  return inline_body(entry_, *parts_[part].module.find_function(parts_[part].body), fmt::format("$part_{}", part));
}

ptx::Module KernelOfParts::take() {
  add_shared();
  for (Part& part : parts_)
    for (ptx::Item& item : part.module.items) move(item, part);
  module_.items.push_back({std::move(entry_)});
  return std::move(module_);
}

void KernelOfParts::add_shared() {
  Variable shared;
  shared.space = Space::kShared;
  shared.type = ptx::Type::kB8;
  shared.name = kSharedOfParts;
  std::uint64_t bytes = 0;
  for (const Part& part : parts_) {
    bytes = std::max(bytes, part.shared_bytes);
    shared.align_bytes = std::max(shared.align_bytes, part.shared_align);
  }
  shared.extents = {bytes};
  if (bytes != 0) module_.items.push_back({std::move(shared)});
}

// What several parts declare and none of them defines is declared once: dynamic shared memory as the strictest does.
void KernelOfParts::move(ptx::Item& item, const Part& part) {
  std::string name;
  if (const auto* function = std::get_if<Function>(&item.node)) {
    if (function->name == part.body) return;
    if (!function->has_body) name = function->name;
  } else if (const auto* variable = std::get_if<Variable>(&item.node)) {
    if (variable->linkage == ptx::Linkage::kExtern) name = variable->name;
  }
  const auto known = name.empty() ? declared_.end() : declared_.find(name);
  if (known != declared_.end()) {
    auto* const before = std::get_if<Variable>(&module_.items[known->second].node);
    const auto* const again = std::get_if<Variable>(&item.node);
    if (before != nullptr && again != nullptr)
      before->align_bytes = std::max(before->alignment_bytes(), again->alignment_bytes());
    return;
  }
  if (!name.empty()) declared_[name] = module_.items.size();
  module_.items.push_back(std::move(item));
}

}  // namespace pergola::transform
