// shared_layout() of block.h: which .shared variables a kernel needs, and where each lies in a block's shared memory.
//
//   0            static_bytes   dynamic_offset            static_bytes + dynamic bytes of the launch
//   | a | b | …  |  (padding)   | every unsized .extern … |
#include <algorithm>
#include <cctype>
#include <map>
#include <set>
#include <vector>

#include "src/device/cpu/block.h"
#include "src/device/cpu/reserved_shared.h"

namespace pergola::device::cpu {
namespace {

std::string where(const ptx::Module& module, const ptx::Location& location) {
  return fmt::format("{}:{}:{}", module.source_name, location.line, location.column);
}

// Calls visit(name) for every symbol in an operand, nested ones too.
template <typename F>
void for_each_symbol(const ptx::Operand& operand, F&& visit) {
  if (operand.kind == ptx::Operand::Kind::kSymbol || operand.kind == ptx::Operand::Kind::kLabel) visit(operand.name);
  if (names_reserved_shared(operand)) visit(operand.name);
  for (const ptx::Operand& element : operand.elements) for_each_symbol(element, visit);
}

// Calls visit(name) for every identifier in text that was not understood: each may be a symbol.
template <typename F>
void for_each_identifier(std::string_view text, F&& visit) {
  const auto is_part = [](char c) { return std::isalnum(static_cast<unsigned char>(c)) || c == '_' || c == '$' || c == '%'; };
  for (std::size_t at = 0; at < text.size();) {
    std::size_t end = at;
    while (end < text.size() && is_part(text[end])) ++end;
    if (end > at) visit(std::string(text.substr(at, end - at)));
    at = end + 1;
  }
}

// What one function names: other functions it calls, or whose address it takes, and variables.
struct Mentions {
  std::set<std::string> symbols;  // every symbol that stands in its body
  bool calls_anything = false;    // an indirect call without targets
};

Mentions mentions_of(const ptx::Function& function) {
  Mentions out;
  const auto note = [&](const std::string& name) { out.symbols.insert(name); };
  std::map<std::string, const ptx::CallTargets*> targets;
  for (const ptx::Statement& statement : function.body) {
    if (const auto* list = std::get_if<ptx::CallTargets>(&statement.node)) {
      targets.emplace(list->name, list);
      for (const std::string& name : list->functions) note(name);
    }
  }
  for (const ptx::Statement& statement : function.body) {
    const ptx::Instruction* instruction = statement.instruction();
    if (instruction == nullptr) continue;
    if (instruction->op == ptx::Op::kOpaque) for_each_identifier(instruction->text, note);
    bool has_targets = false, through_register = false;
    for (const ptx::Operand& operand : instruction->operands) {
      for_each_symbol(operand, note);
      has_targets = has_targets || targets.contains(operand.name);
      through_register = through_register || operand.kind == ptx::Operand::Kind::kRegister;
    }
    if (instruction->op == ptx::Op::kCall && through_register && !has_targets) out.calls_anything = true;
  }
  return out;
}

// Functions whose address some body or initialiser holds. A direct call's target is counted too: it is sound.
std::set<std::string> address_taken(const ptx::Module& module, const std::map<std::string, Mentions>& mentions) {
  std::set<std::string> out;
  for (const auto& [name, of] : mentions) out.insert(of.symbols.begin(), of.symbols.end());
  for (const ptx::Item& item : module.items) {
    const auto* variable = std::get_if<ptx::Variable>(&item.node);
    if (variable == nullptr) continue;
    for (const ptx::Initializer& initializer : variable->initializers) out.insert(initializer.symbol);
  }
  return out;
}

// The names of `entry` and every function it can reach, with all that they mention.
struct Reached {
  std::set<std::string> functions;
  std::set<std::string> symbols;
};

Reached reach(const ptx::Module& module, const ptx::Function& entry) {
  std::map<std::string, Mentions> mentions;
  for (const ptx::Function* function : module.functions()) {
    if (function->has_body) mentions.emplace(function->name, mentions_of(*function));
  }
  Reached out;
  std::vector<std::string> work{entry.name};
  while (!work.empty()) {
    const std::string name = std::move(work.back());
    work.pop_back();
    const auto found = mentions.find(name);
    if (found == mentions.end() || !out.functions.insert(name).second) continue;
    const Mentions& of = found->second;
    out.symbols.insert(of.symbols.begin(), of.symbols.end());
    // A mentioned function counts as reached whether it is called or its address is taken.
    work.insert(work.end(), of.symbols.begin(), of.symbols.end());
    if (of.calls_anything) {
      const std::set<std::string> any = address_taken(module, mentions);
      work.insert(work.end(), any.begin(), any.end());
    }
  }
  return out;
}

// Puts variables one after another; unsized .extern ones wait for the end.
class Placer {
 public:
  explicit Placer(const ptx::Module& module) : module_(module) {}

  Status place(const ptx::Variable& variable, std::string name) {
    const std::uint32_t alignment = std::max<std::uint32_t>(1, variable.alignment_bytes());
    const std::uint64_t size = variable.size_bytes();
    const bool is_extern = variable.linkage == ptx::Linkage::kExtern;
    if (size == 0 && is_extern) {
      dynamic_align_ = std::max(dynamic_align_, alignment);
      dynamic_.push_back(std::move(name));
      return {};
    }
    if (is_extern) {
      return PERGOLA_ERROR(kUnsupported, "{}: the .extern .shared variable '{}' has a size; only an unsized one, the "
                           "dynamic shared memory, can be given to a kernel.",
                           where(module_, variable.location), variable.name);
    }
    const std::uint64_t offset = (end_ + alignment - 1) / alignment * alignment;
    if (size > kMostBytes || offset + size > kMostBytes) {
      return PERGOLA_ERROR(kResourceExhausted, "{}: .shared variable '{}' of {} bytes makes more than 2 GiB.",
                           where(module_, variable.location), variable.name, size);
    }
    out_.slots.push_back({std::move(name), static_cast<std::uint32_t>(offset)});
    end_ = offset + size;
    return {};
  }

  SharedLayout finish() && {
    out_.static_bytes = static_cast<std::uint32_t>(end_);
    out_.dynamic_offset = (out_.static_bytes + dynamic_align_ - 1) / dynamic_align_ * dynamic_align_;
    for (std::string& name : dynamic_) out_.slots.push_back({std::move(name), out_.dynamic_offset});
    return std::move(out_);
  }

 private:
  static constexpr std::uint64_t kMostBytes = std::uint64_t{1} << 31;
  const ptx::Module& module_;
  SharedLayout out_;
  std::uint64_t end_ = 0;
  std::uint32_t dynamic_align_ = 16;
  std::vector<std::string> dynamic_;
};

}  // namespace

Result<SharedLayout> shared_layout(const ptx::Module& module, const ptx::Function& entry) {
  const Reached reached = reach(module, entry);
  Placer placer(module);
  for (const ptx::Item& item : module.items) {
    if (const auto* variable = std::get_if<ptx::Variable>(&item.node)) {
      if (variable->space != ptx::Space::kShared || !reached.symbols.contains(variable->name)) continue;
      PERGOLA_TRY(placer.place(*variable, variable->name));
      continue;
    }
    const auto* function = std::get_if<ptx::Function>(&item.node);
    if (function == nullptr || !function->has_body || !reached.functions.contains(function->name)) continue;
    std::set<std::string> seen;
    for (const ptx::Statement& statement : function->body) {
      const auto* variable = std::get_if<ptx::Variable>(&statement.node);
      if (variable == nullptr || variable->space != ptx::Space::kShared) continue;
      if (!seen.insert(variable->name).second) {
        return PERGOLA_ERROR(kUnsupported, "{}: function '{}' declares two .shared variables named '{}'.",
                             where(module, statement.location), function->name, variable->name);
      }
      PERGOLA_TRY(placer.place(*variable, function->name + "/" + variable->name));
    }
  }
  if (reached.symbols.contains(std::string(kReservedSharedSlot))) {
    ptx::Variable reserved;
    reserved.space = ptx::Space::kShared;
    reserved.type = ptx::Type::kB8;
    reserved.extents = {kReservedSharedBytes};
    reserved.align_bytes = 16;
    PERGOLA_TRY(placer.place(reserved, std::string(kReservedSharedSlot)));
  }
  return std::move(placer).finish();
}

}  // namespace pergola::device::cpu
