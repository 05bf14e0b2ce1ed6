#include "src/analysis/inlined_calls.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>
#include <set>

#include "src/analysis/call_graph.h"
#include "src/analysis/memory_operands.h"
#include "src/base/plural.h"

namespace pergola::analysis {
namespace {

using ptx::Function;
using ptx::Instruction;
using ptx::Mod;
using ptx::Op;
using ptx::Operand;
using ptx::RegisterId;
using ptx::Space;
using ptx::Statement;

// They reach memory of their own, or none: what clang's PTX calls for functions such as a sine.
bool is_harmless(const std::string& name) {
  return name == "vprintf" || name == "__assertfail" || name.starts_with("__pergola_");
}

// Why a function that is called, with all that it calls, may touch global memory; "" where it cannot.
std::string find_global(const ptx::Module& module, const Function& called) {
  for (const CallGraph::Node& node : call_graph(module, called).nodes) {
    if (node.calls_unknown) return fmt::format("{} calls a function that is not known", node.function->name);
    if (is_harmless(node.function->name)) continue;
    if (!node.function->has_body) return fmt::format("{} is called and not defined here", node.function->name);
    if (touches_global(*node.function)) return fmt::format("{} is called and accesses memory", node.function->name);
  }
  return "";
}

struct Call {
  const Operand* target = nullptr;
  const Operand *results = nullptr, *arguments = nullptr;  // tuples; null: none
  bool is_direct = false;
};
Call call_of(const Instruction& instruction) {
  Call call;
  for (const Operand& operand : instruction.operands) {
    if (operand.kind == Operand::Kind::kTuple) {
      (call.target == nullptr ? call.results : call.arguments) = &operand;
    } else if (call.target == nullptr) {
      call.target = &operand;
    }
  }
  call.is_direct = call.target != nullptr && call.target->kind == Operand::Kind::kSymbol;
  return call;
}

class Inliner {
 public:
  Inliner(const ptx::Module& module, const Function& entry) : module_(module), entry_(entry) {
    result_.function = entry;
    result_.function.body.clear();
  }

  InlinedCalls run() {
    Frame frame{.function = &entry_, .prefix = "", .base = 0, .names = {{}}};
    copy(frame, 0);
    return std::move(result_);
  }

  const std::set<std::string>& parameters() const { return parameters_; }

 private:
  // A function that is being copied: what its names are in the copy, scope by scope.
  struct Frame {
    const Function* function = nullptr;
    std::string prefix;
    RegisterId base = 0;
    std::vector<std::map<std::string, Operand>> names;
  };

  void add(Statement statement, int depth) {
    result_.function.body.push_back(std::move(statement));
    result_.is_called.push_back(depth > 0);
  }

  void copy(Frame& frame, int depth) {
    path_.push_back(frame.function);
    for (const Statement& original : frame.function->body) {
      if (std::holds_alternative<ptx::ScopeBegin>(original.node)) {
        frame.names.emplace_back();
      } else if (std::holds_alternative<ptx::ScopeEnd>(original.node)) {
        if (frame.names.size() > 1) frame.names.pop_back();
      } else if (const Instruction* call = original.instruction(); call != nullptr && call->op == Op::kCall) {
        copy_call(frame, original, depth);
      } else {
        Statement statement = original;
        if (rename(frame, statement, depth)) add(std::move(statement), depth);
      }
    }
    path_.pop_back();
  }

  // False: it is left out.
  bool rename(Frame& frame, Statement& statement, int depth) {
    if (auto* variable = std::get_if<ptx::Variable>(&statement.node)) {
      const bool is_parameter = variable->space == Space::kParam;
      std::string name =
          depth == 0 && !is_parameter ? variable->name : fmt::format("{}{}${}", frame.prefix, variable->name, ++names_);
      frame.names.back()[variable->name] = Operand::make_symbol(name);
      if (is_parameter) parameters_.insert(name);
      variable->name = std::move(name);
      return true;
    }
    if (auto* label = std::get_if<ptx::Label>(&statement.node)) label->name = frame.prefix + label->name;
    if (auto* targets = std::get_if<ptx::BranchTargets>(&statement.node)) {
      targets->name = frame.prefix + targets->name;
      for (std::string& label : targets->labels) label = frame.prefix + label;
    }
    Instruction* in = statement.instruction();
    if (in == nullptr)
      return std::holds_alternative<ptx::Label>(statement.node) ||
             std::holds_alternative<ptx::BranchTargets>(statement.node);
    rename(frame, *in);
    if (in->op == Op::kRet && depth > 0) {
      in->op = Op::kBra;
      in->mods.clear();
      in->operands = {Operand::make_label(frame.prefix + "$returned")};
    }
    return true;
  }

  static void rename(const Frame& frame, Instruction& in) {
    if (in.guard.present()) in.guard.predicate += frame.base;
    for (RegisterId& reg : in.text_registers) reg += frame.base;
    for (Operand& operand : in.operands) rename(frame, operand);
  }

  static void rename(const Frame& frame, Operand& operand) {
    if (operand.kind == Operand::Kind::kRegister) operand.reg += frame.base;
    if (operand.kind == Operand::Kind::kLabel) operand.name = frame.prefix + operand.name;
    for (Operand& element : operand.elements) rename(frame, element);
    if (operand.kind != Operand::Kind::kSymbol) return;
    for (auto scope = frame.names.rbegin(); scope != frame.names.rend(); ++scope) {
      const auto found = scope->find(operand.name);
      if (found == scope->end()) continue;
      const std::int64_t offset = operand.offset;
      operand = found->second;
      operand.offset += offset;
      return;
    }
  }

  void copy_call(Frame& frame, const Statement& original, int depth) {
    Statement statement = original;
    Instruction& in = *statement.instruction();
    rename(frame, in);
    const Call call = call_of(in);
    const Function* called = call.is_direct ? module_.find_function(call.target->name) : nullptr;
    std::string refusal = why_not(frame, call, called, depth);
    if (!refusal.empty()) {
      const bool is_safe = called != nullptr && (is_harmless(called->name) || find_global(module_, *called).empty());
      if (!is_safe && result_.reason.empty()) result_.reason = std::move(refusal);
      return add(std::move(statement), depth);
    }
    Frame inner{.function = called,
                .prefix = fmt::format("{}{}${}$", frame.prefix, called->name, ++names_),
                .base = static_cast<RegisterId>(result_.function.registers.size()),
                .names = {{}}};
    auto& registers = result_.function.registers;
    registers.insert(registers.end(), called->registers.begin(), called->registers.end());
    bind(called->results, call.results, inner);
    bind(called->parameters, call.arguments, inner);
    if (in.guard.present()) {
      Statement skip = original;
      Instruction& branch = *skip.instruction();
      branch.op = Op::kBra;
      branch.mods.clear();
      branch.guard = in.guard;
      branch.guard.negated = !in.guard.negated;
      branch.operands = {Operand::make_label(inner.prefix + "$returned")};
      add(std::move(skip), depth);
    }
    copy(inner, depth + 1);
    add({ptx::Label{inner.prefix + "$returned"}, original.location}, depth + 1);
  }

  // "" where the call can be followed.
  std::string why_not(const Frame& frame, const Call& call, const Function* called, int depth) const {
    if (called == nullptr) return fmt::format("{} calls a function that is not known", frame.function->name);
    const std::string& name = called->name;
    if (!called->has_body) return fmt::format("{} is called and not defined here", name);
    if (std::ranges::find(path_, called) != path_.end()) return fmt::format("{} calls itself", name);
    if (depth >= kMaxCallDepth) return fmt::format("{} is called {} calls deep", name, depth + 1);
    if (result_.function.body.size() + called->body.size() > kMaxInlinedStatements)
      return fmt::format("{} is called, and more than {} statements would be followed", name, kMaxInlinedStatements);
    const std::size_t results = call.results == nullptr ? 0 : call.results->elements.size(),
                      arguments = call.arguments == nullptr ? 0 : call.arguments->elements.size();
    if (results != called->results.size() || arguments != called->parameters.size())
      return fmt::format("{} is called with {} and has {}", name, plural(arguments, "argument"),
                         called->parameters.size());
    // What a callee stores into a register of its caller would be no write that an analysis sees.
    const auto is_memory = [](const Operand& actual) { return actual.kind == Operand::Kind::kSymbol; };
    if (results != 0 && !std::ranges::all_of(call.results->elements, is_memory))
      return fmt::format("{} is called and gives its result in a register", name);
    const auto is_plain = [](const ptx::Variable& formal) { return formal.space == Space::kParam; };
    if (!std::ranges::all_of(called->results, is_plain) || !std::ranges::all_of(called->parameters, is_plain))
      return fmt::format("{} is called with arguments in registers", name);
    const bool is_opaque = std::ranges::any_of(called->body, [](const Statement& statement) {
      return statement.instruction() != nullptr && statement.instruction()->op == Op::kOpaque;
    });
    return is_opaque ? fmt::format("{} is called and holds an instruction that is not understood", name) : "";
  }

  // What is passed is the memory, or the register, that the callee knows by its own name.
  static void bind(const std::vector<ptx::Variable>& formals, const Operand* actuals, Frame& frame) {
    for (std::size_t i = 0; i < formals.size(); ++i) frame.names.back()[formals[i].name] = actuals->elements[i];
  }

  const ptx::Module& module_;
  const Function& entry_;
  InlinedCalls result_;
  std::vector<const Function*> path_;
  std::set<std::string> parameters_;
  std::uint32_t names_ = 0;
};

// Bytes of .param memory that are passed from one function to another.
struct Slot {
  std::string name;
  std::int64_t offset = 0;
  std::uint32_t bytes = 0;
  auto operator<=>(const Slot&) const = default;
};

// Makes moves of stores to and loads from such memory, where all of them agree on the bytes.
class Passing {
 public:
  Passing(InlinedCalls& inlined, const std::set<std::string>& parameters)
      : function_(inlined.function), parameters_(parameters) {}

  void run() {
    for (const Statement& statement : function_.body) {
      const Instruction* in = statement.instruction();
      if (in == nullptr) continue;
      const auto slot = slot_of(*in);
      for (std::size_t i = 0; i < in->operands.size(); ++i) {
        if (!slot || i != address_of(*in)) note_other(in->operands[i]);
      }
      if (slot) note(*slot);
    }
    for (Statement& statement : function_.body) {
      Instruction* in = statement.instruction();
      const auto slot = in == nullptr ? std::nullopt : slot_of(*in);
      if (!slot || spoiled_.contains(slot->name)) continue;
      const RegisterId reg = register_of(*slot, in->type());
      const Operand value = in->operands[1 - address_of(*in)];
      const bool is_store = in->op == Op::kSt;
      const ptx::Type type = in->type();
      const Mod mod = *std::ranges::find_if(in->mods, [&](Mod one) { return ptx::type_of(one) == type; });
      in->op = Op::kMov;
      in->mods = {mod};
      in->operands = {is_store ? Operand::make_register(reg) : value, is_store ? value : Operand::make_register(reg)};
    }
  }

 private:
  static std::size_t address_of(const Instruction& in) { return in.op == Op::kSt ? 0 : 1; }

  // Of st.param and ld.param of one number that fills its register.
  std::optional<Slot> slot_of(const Instruction& in) const {
    if ((in.op != Op::kSt && in.op != Op::kLd) || in.space() != Space::kParam || in.operands.size() != 2)
      return std::nullopt;
    const Operand &address = in.operands[address_of(in)], &value = in.operands[1 - address_of(in)];
    if (address.kind != Operand::Kind::kAddress || address.elements.size() != 1 || in.vector_width() != 1)
      return std::nullopt;
    const Operand& base = address.elements[0];
    if (base.kind != Operand::Kind::kSymbol || !parameters_.contains(base.name)) return std::nullopt;
    const std::uint32_t bytes = ptx::size_bytes(in.type());
    const bool is_register = value.kind == Operand::Kind::kRegister && value.component < 0;
    if (is_register && ptx::size_bytes(function_.registers[value.reg].type) != bytes) return std::nullopt;
    if (!is_register && (in.op == Op::kLd || value.kind != Operand::Kind::kInteger)) return std::nullopt;
    if (bytes != 4 && bytes != 8) return std::nullopt;
    return Slot{base.name, base.offset + address.offset, bytes};
  }

  void note(const Slot& slot) {
    for (const Slot& other : slots_[slot.name]) {
      if (other == slot) return;
      if (slot.offset < other.offset + other.bytes && other.offset < slot.offset + slot.bytes)
        spoiled_.insert(slot.name);
    }
    slots_[slot.name].push_back(slot);
  }

  // Any other mention may be an access to all of it.
  void note_other(const Operand& operand) {
    if (operand.kind == Operand::Kind::kSymbol && parameters_.contains(operand.name)) spoiled_.insert(operand.name);
    for (const Operand& element : operand.elements) note_other(element);
  }

  RegisterId register_of(const Slot& slot, ptx::Type type) {
    const auto [found, is_new] = registers_.try_emplace(slot, static_cast<RegisterId>(function_.registers.size()));
    if (is_new) function_.registers.push_back({fmt::format("{}+{}", slot.name, slot.offset), type, 1});
    return found->second;
  }

  Function& function_;
  const std::set<std::string>& parameters_;
  std::map<std::string, std::vector<Slot>> slots_;
  std::set<std::string> spoiled_;
  std::map<Slot, RegisterId> registers_;
};

}  // namespace

bool touches_global(const Function& function) {
  return std::ranges::any_of(function.body, [](const Statement& statement) {
    const Instruction* instruction = statement.instruction();
    return instruction != nullptr &&
           std::ranges::any_of(memory_operands(*instruction), [](const MemoryOperand& memory) {
             return memory.space == Space::kGlobal || memory.space == Space::kNone || memory.space == Space::kTex;
           });
  });
}

InlinedCalls inline_calls(const ptx::Module& module, const Function& entry) {
  Inliner inliner(module, entry);
  InlinedCalls result = inliner.run();
  Passing(result, inliner.parameters()).run();
  return result;
}

}  // namespace pergola::analysis
