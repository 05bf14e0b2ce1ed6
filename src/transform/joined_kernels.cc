#include "src/transform/joined_kernels.h"

#include <algorithm>
#include <map>
#include <optional>

#include "src/base/check.h"
#include "src/ptx/printer.h"
#include "src/transform/body_editor.h"
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

constexpr std::string_view kSharedMemory = "pergola_joined_shared";

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

// One part, made ready: its static shared memory is a piece of the whole's, its names are its own.
class PartOfJoined {
 public:
  PartOfJoined(const JoinedPart& part, std::size_t number)
      : module_(*part.module), kernel_(part.kernel), suffix_(fmt::format("__{}", number)) {}

  Status prepare() {
    leave_only_reached(module_, kernel_);
    PERGOLA_TRY(check());
    rename_symbols(module_, suffix_);
    place_shared();
    Function& entry = *module_.find_function(kernel_ + suffix_);
    PERGOLA_CHECK(entry.is_entry && entry.parameters.size() == 1);
    parameter_ = entry.parameters[0];
    const Places renamed{{parameter_.name, {parameter_.name + suffix_, 0}}};
    parameter_.name += suffix_;
    for (Statement& statement : entry.body) {
      Instruction* const in = statement.instruction();
      if (in == nullptr) continue;
      move_symbols(*in, renamed);
      if (in->op == Op::kExit) in->op = Op::kRet;  // to the end of its body, behind which threads end
    }
    entry.parameters.clear();
    entry.is_entry = false;
    return {};
  }

  ptx::Module& module() { return module_; }
  bool is_body(const Function& function) const { return function.name == kernel_ + suffix_; }
  const Function& body() const { return *module_.find_function(kernel_ + suffix_); }
  const Variable& parameter() const { return parameter_; }
  std::uint64_t shared_bytes() const { return shared_bytes_; }
  std::uint32_t shared_align() const { return shared_align_; }

 private:
  Status check() const {
    for (const Function* function : module_.functions()) {
      std::vector<std::string> shared;
      for (const Statement& statement : function->body) {
        const auto refuse = [&](std::string_view what, std::string_view why) {
          return PERGOLA_ERROR(kUnsupported, "{}:{}: kernel '{}' cannot be joined with others: `{}` {}.",
                               module_.source_name, statement.location.line, kernel_, what, why);
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

  void place(const Variable& variable, Places& places) {
    const std::uint32_t align = std::max<std::uint32_t>(variable.alignment_bytes(), 1);
    shared_bytes_ = (shared_bytes_ + align - 1) / align * align;
    shared_align_ = std::max(shared_align_, align);
    places[variable.name] = {std::string(kSharedMemory), static_cast<std::int64_t>(shared_bytes_)};
    shared_bytes_ += variable.size_bytes();
  }

  // Of the module and of each function, which hides the module's.
  void place_shared() {
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

  ptx::Module module_;
  const std::string kernel_, suffix_;
  Variable parameter_;
  std::uint64_t shared_bytes_ = 0;
  std::uint32_t shared_align_ = 16;
};

class KernelJoiner {
 public:
  explicit KernelJoiner(const std::array<std::uint32_t, 3>& block) { entry_.required_threads = block; }

  Status add(const JoinedPart& joined) {
    parts_.emplace_back(joined, parts_.size());
    PartOfJoined& part = parts_.back();
    PERGOLA_TRY(part.prepare());
    if (parts_.size() == 1) {
      module_.version_major = part.module().version_major, module_.version_minor = part.module().version_minor;
      module_.targets = part.module().targets;
      module_.source_name = "joined kernels";
      min_blocks_ = part.body().min_blocks_per_sm, max_registers_ = part.body().max_registers;
    }
    take_newer_target(part.module(), module_);
    // Limits hold where each part has one: the loosest.
    limit(min_blocks_, part.body().min_blocks_per_sm, [](auto a, auto b) { return std::min(a, b); });
    limit(max_registers_, part.body().max_registers, [](auto a, auto b) { return std::max(a, b); });
    entry_.parameters.push_back(part.parameter());
    return {};
  }

  Result<ptx::Module> run() {
    entry_.is_entry = entry_.has_body = true;
    entry_.linkage = ptx::Linkage::kVisible;
    entry_.name = kJoinedKernel;
    entry_.min_blocks_per_sm = min_blocks_, entry_.max_registers = max_registers_;
    PERGOLA_TRY(write_body());
    add_shared();
    for (PartOfJoined& part : parts_)
      for (ptx::Item& item : part.module().items) move(item, part);
    module_.items.push_back({std::move(entry_)});
    return std::move(module_);
  }

 private:
  template <typename Loosest>
  static void limit(std::optional<std::uint32_t>& all, const std::optional<std::uint32_t>& own, Loosest loosest) {
    if (all && own)
      all = loosest(*all, *own);
    else
      all.reset();
  }

  static std::string label(std::size_t part) { return fmt::format("$pergola_part_{}", part); }

  Status write_body() {
    BodyEditor editor(entry_);
    std::string choice = ".reg .b32 %block, %first; .reg .pred %p;\nmov.u32 %block, %ctaid.x;\n";
    for (std::size_t n = 1; n < parts_.size(); ++n)
      choice += fmt::format("ld.param.u32 %first, [{}+12];\nsetp.lt.u32 %p, %block, %first;\n@%p bra {};\n",
                            parts_[n].parameter().name, label(n - 1));
    choice += fmt::format("bra {};\n", label(parts_.size() - 1));
    PERGOLA_ASSIGN(entry_.body, editor.statements(choice));
    for (std::size_t n = 0; n < parts_.size(); ++n) {
      entry_.body.push_back({ptx::Label{label(n)}, {}});
      PERGOLA_ASSIGN(const Statements body, inline_body(entry_, parts_[n].body(), fmt::format("$part_{}", n)));
      entry_.body.insert(entry_.body.end(), body.begin(), body.end());
      PERGOLA_ASSIGN(const Statements end, editor.statements("ret;\n"));
      entry_.body.insert(entry_.body.end(), end.begin(), end.end());
    }
    return {};
  }

  void add_shared() {
    Variable shared;
    shared.space = Space::kShared;
    shared.type = ptx::Type::kB8;
    shared.name = kSharedMemory;
    std::uint64_t bytes = 0;
    for (const PartOfJoined& part : parts_) {
      bytes = std::max(bytes, part.shared_bytes());
      shared.align_bytes = std::max(shared.align_bytes, part.shared_align());
    }
    shared.extents = {bytes};
    if (bytes != 0) module_.items.push_back({std::move(shared)});
  }

  // What several parts declare and none of them defines is declared once: dynamic shared memory as the strictest does.
  void move(ptx::Item& item, const PartOfJoined& part) {
    std::string name;
    if (const auto* function = std::get_if<Function>(&item.node)) {
      if (part.is_body(*function)) return;
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

  ptx::Module module_;
  Function entry_;
  std::vector<PartOfJoined> parts_;
  std::optional<std::uint32_t> min_blocks_, max_registers_;
  std::map<std::string, std::size_t> declared_;  // item of module_ by name
};

}  // namespace

Result<ptx::Module> join_kernels(std::span<const JoinedPart> parts, const std::array<std::uint32_t, 3>& block) {
  PERGOLA_CHECK(!parts.empty());
  KernelJoiner joiner(block);
  for (const JoinedPart& part : parts) PERGOLA_TRY(joiner.add(part));
  return joiner.run();
}

}  // namespace pergola::transform
