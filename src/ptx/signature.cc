// Parameter layout (each parameter at the next multiple of its alignment, as the driver packs them) and shared memory.
#include "src/ptx/signature.h"

#include <array>
#include <unordered_map>
#include <unordered_set>

namespace pergola::ptx {
namespace {

// The shared variables that an entry reaches: by name, through functions it names, and through variables whose
// initialisers name functions or variables (tables of function pointers).
class SharedMemory {
 public:
  explicit SharedMemory(const Module& module) {
    for (const Item& item : module.items) {
      if (const auto* variable = std::get_if<Variable>(&item.node); variable != nullptr) {
        variables_.emplace(variable->name, variable);
      } else if (const auto* function = std::get_if<Function>(&item.node); function != nullptr) {
        const auto [it, fresh] = functions_.emplace(function->name, function);
        if (!fresh && function->has_body) it->second = function;
      }
    }
  }

  void visit(const Function& entry) {
    pending_functions_.push_back(&entry);
    seen_.insert(&entry);
    while (!pending_functions_.empty() || !pending_variables_.empty()) {
      if (!pending_variables_.empty()) {
        const Variable* variable = pending_variables_.back();
        pending_variables_.pop_back();
        for (const Initializer& value : variable->initializers) {
          if (value.kind != Initializer::Kind::kBits) visit_name(value.symbol);
        }
        continue;
      }
      const Function* function = pending_functions_.back();
      pending_functions_.pop_back();
      for (const Statement& statement : function->body) visit_statement(statement);
    }
  }

  // Bytes of everything sized, each at its alignment.
  std::uint64_t static_bytes() const {
    std::uint64_t bytes = 0;
    for (const Variable* variable : used_in_order_) {
      if (is_dynamic(*variable)) continue;
      const std::uint64_t align = variable->alignment_bytes();
      bytes = (bytes + align - 1) / align * align;
      const std::uint64_t size = variable->size_bytes();
      if (size > kMostBytes - bytes) return kMostBytes;
      bytes += size;
    }
    return bytes;
  }

  bool uses_dynamic() const {
    for (const Variable* variable : used_in_order_) {
      if (is_dynamic(*variable)) return true;
    }
    return false;
  }

  static constexpr std::uint64_t kMostBytes = std::uint64_t{1} << 31;

 private:
  static bool is_dynamic(const Variable& variable) {
    return variable.linkage == Linkage::kExtern || variable.size_bytes() == 0;
  }

  void visit_variable(const Variable* variable) {
    if (!seen_.insert(variable).second) return;
    if (variable->space == Space::kShared) used_in_order_.push_back(variable);
    if (!variable->initializers.empty()) pending_variables_.push_back(variable);
  }

  void visit_name(const std::string& name) {
    if (const auto it = variables_.find(name); it != variables_.end()) visit_variable(it->second);
    if (const auto it = functions_.find(name); it != functions_.end() && seen_.insert(it->second).second) {
      pending_functions_.push_back(it->second);
    }
  }

  void visit_operand(const Operand& operand) {
    if (operand.kind == Operand::Kind::kSymbol) visit_name(operand.name);
    for (const Operand& element : operand.elements) visit_operand(element);
  }

  void visit_statement(const Statement& statement) {
    if (const auto* variable = std::get_if<Variable>(&statement.node)) {
      visit_variable(variable);
    } else if (const auto* targets = std::get_if<CallTargets>(&statement.node)) {
      for (const std::string& name : targets->functions) visit_name(name);
    } else if (const Instruction* instruction = statement.instruction()) {
      for (const Operand& operand : instruction->operands) visit_operand(operand);
      if (!instruction->text.empty()) visit_text(instruction->text);
    }
  }

  // Every word of an opaque instruction may name a variable or a function.
  void visit_text(std::string_view text) {
    const auto is_word = [](char c) {
      return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '$' ||
             c == '%';
    };
    std::string word;
    for (std::size_t i = 0; i <= text.size(); ++i) {
      if (i < text.size() && is_word(text[i])) {
        word += text[i];
      } else if (!word.empty()) {
        visit_name(word);
        word.clear();
      }
    }
  }

  std::unordered_map<std::string, const Variable*> variables_;
  std::unordered_map<std::string, const Function*> functions_;
  std::unordered_set<const void*> seen_;  // functions and variables
  std::vector<const Function*> pending_functions_;
  std::vector<const Variable*> pending_variables_;
  std::vector<const Variable*> used_in_order_;
};

Result<Parameter> lay_out(const Module& module, const Function& entry, const Variable& variable,
                          std::uint64_t offset) {
  Parameter parameter;
  parameter.name = variable.name;
  parameter.type = variable.type;
  parameter.is_pointer = variable.is_pointer;
  parameter.align_bytes = variable.alignment_bytes();
  parameter.is_aggregate = !variable.extents.empty() || variable.vector > 1;
  const std::uint64_t size = variable.size_bytes();
  const std::uint64_t place = (offset + parameter.align_bytes - 1) / parameter.align_bytes * parameter.align_bytes;
  // 32,764 bytes is what the ISA allows (5.1.6.2).
  constexpr std::uint64_t kMostParameterBytes = 32764;
  if (variable.space != Space::kParam || size == 0 || size > kMostParameterBytes ||
      place + size > kMostParameterBytes) {
    return PERGOLA_ERROR(kParseError,
                         "{}:{}:{}: expected parameters of at most {} bytes in all, found '{}' of {} bytes at offset "
                         "{} of kernel '{}'",
                         module.source_name, variable.location.line, variable.location.column, kMostParameterBytes,
                         variable.name, size, place, entry.name);
  }
  parameter.offset_bytes = static_cast<std::uint32_t>(place);
  parameter.size_bytes = static_cast<std::uint32_t>(size);
  return parameter;
}

}  // namespace

Result<KernelSignature> signature(const Module& module, const Function& entry) {
  if (!entry.is_entry) {
    return PERGOLA_ERROR(kInvalidArgument, "'{}' is a .func of {}; only an .entry is a kernel.", entry.name,
                         module.source_name);
  }
  KernelSignature result;
  result.name = entry.name;
  result.max_threads = entry.max_threads;
  result.required_threads = entry.required_threads;
  result.required_cluster = entry.required_cluster;
  std::uint64_t bytes = 0;
  for (const Variable& variable : entry.parameters) {
    PERGOLA_ASSIGN(Parameter parameter, lay_out(module, entry, variable, bytes));
    bytes = std::uint64_t{parameter.offset_bytes} + parameter.size_bytes;
    result.parameters.push_back(std::move(parameter));
  }
  result.parameter_bytes = static_cast<std::uint32_t>(bytes);
  SharedMemory shared(module);
  shared.visit(entry);
  result.static_shared_bytes = static_cast<std::uint32_t>(shared.static_bytes());
  result.uses_dynamic_shared = shared.uses_dynamic();
  return result;
}

}  // namespace pergola::ptx
