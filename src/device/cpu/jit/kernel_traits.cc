#include "src/device/cpu/jit/kernel_traits.h"

#include <algorithm>
#include <functional>
#include <set>

#include "src/base/result.h"
#include "src/ptx/semantics.h"

namespace pergola::device::cpu::jit {
namespace {

using ptx::Instruction;
using ptx::Mod;
using ptx::Op;
using ptx::Operand;
using ptx::Special;

bool names_clock(const Operand& operand) {
  if (operand.kind == Operand::Kind::kSpecial) {
    switch (operand.special) {
      case Special::kClock: case Special::kClockHi: case Special::kClock64: case Special::kGlobaltimer:
      case Special::kGlobaltimerLo: case Special::kGlobaltimerHi: return true;
      default: return false;
    }
  }
  return std::any_of(operand.elements.begin(), operand.elements.end(), names_clock);
}

// Registers that some instruction of the function reads.
std::vector<bool> read_registers(const ptx::Function& function) {
  std::vector<bool> read(function.registers.size(), false);
  for (const ptx::Statement& statement : function.body) {
    const Instruction* in = statement.instruction();
    if (in == nullptr) continue;
    if (in->guard.present()) read[in->guard.predicate] = true;
    ptx::for_each_register(*in, [&](ptx::RegisterId reg, bool written) { read[reg] = read[reg] || !written; });
  }
  return read;
}

// Compilers give an atomic a result that nobody reads; then nobody can wait for it.
bool has_used_result(const Instruction& in, const std::vector<bool>& read) {
  if (in.op != Op::kAtom || in.operands.empty() || in.operands[0].kind == Operand::Kind::kSink) return false;
  return in.operands[0].kind != Operand::Kind::kRegister || read[in.operands[0].reg];
}

// Could a thread go round a loop with this instruction until another thread has done something?
bool may_spin_on(const Instruction& in, const std::vector<bool>& read) {
  switch (in.op) {
    case Op::kLd:
      return in.has(Mod::kVolatile) || in.has(Mod::kRelaxed) || in.has(Mod::kAcquire) || in.has(Mod::kMmio);
    case Op::kAtom: return has_used_result(in, read);
    // A fence in a loop makes even weak loads look again.
    case Op::kFence: case Op::kMembar: return true;
    case Op::kNanosleep: case Op::kMbarrier: return true;
    default: return std::any_of(in.operands.begin(), in.operands.end(), names_clock);
  }
}

// Does a thread wait here for others, whatever surrounds it?
bool waits(const Instruction& in) {
  switch (in.op) {
    case Op::kBar: case Op::kBarrier: case Op::kShfl: case Op::kVote: case Op::kMatch: case Op::kRedux:
    case Op::kActivemask: case Op::kElect: case Op::kNanosleep: case Op::kMbarrier: return true;
    default: return false;
  }
}

bool is_warp_operation(const Instruction& in) {
  switch (in.op) {
    case Op::kShfl: case Op::kVote: case Op::kMatch: case Op::kRedux: case Op::kActivemask: case Op::kElect: return true;
    case Op::kBar: case Op::kBarrier: return in.has(Mod::kWarp);
    default: return false;
  }
}

GroupWaits group_waits(const Instruction& in) {
  if ((in.op != Op::kBar && in.op != Op::kBarrier) || in.has(Mod::kWarp)) return GroupWaits::kNever;
  const std::size_t first = in.has(Mod::kRed) ? 1 : 0, last = in.operands.size() - first;  // around number and count
  const bool numbered = first < last && (in.operands[first].kind != Operand::Kind::kInteger || in.operands[first].bits != 0);
  const bool plain = !numbered && first + 1 >= last && !in.has(Mod::kArrive);
  return plain ? GroupWaits::kResumed : GroupWaits::kFibers;
}

struct Facts {  // of one function alone, then with its callees
  bool waits = false, spins = false, hands_out_stack = false;
  std::string reason;
  std::set<std::string> callees;
};

std::vector<std::string> branch_labels(const ptx::Function& function, const Instruction& in) {
  std::vector<std::string> labels;
  if (in.op != Op::kBra && in.op != Op::kBrx) return labels;
  for (const Operand& operand : in.operands) {
    if (operand.kind != Operand::Kind::kLabel && operand.kind != Operand::Kind::kSymbol) continue;
    labels.push_back(operand.name);
    for (const ptx::Statement& statement : function.body) {
      const auto* table = std::get_if<ptx::BranchTargets>(&statement.node);
      if (table != nullptr && table->name == operand.name) {
        labels.insert(labels.end(), table->labels.begin(), table->labels.end());
      }
    }
  }
  return labels;
}

class Walk {
 public:
  Walk(const ptx::Module& module, const std::vector<std::string>& address_taken)
      : module_(module), address_taken_(address_taken) {}

  KernelTraits run(const std::vector<const ptx::Function*>& roots) {
    for (const ptx::Function* root : roots) visit(*root);
    spread();
    for (const ptx::Function* function : traits_.reachable) find_yields(*function);
    for (auto& [name, facts] : facts_) {
      if (facts.waits && !traits_.needs_fibers) {
        traits_.needs_fibers = true;
        traits_.reason = facts.reason;
      }
    }
    return std::move(traits_);
  }

 private:
  void visit(const ptx::Function& function) {
    if (!function.has_body || facts_.contains(function.name)) return;
    traits_.reachable.push_back(&function);
    Facts facts;
    const std::vector<bool> read = read_registers(function);
    for (const ptx::Statement& statement : function.body) {
      if (const auto* variable = std::get_if<ptx::Variable>(&statement.node)) {
        if (variable->space == ptx::Space::kLocal) traits_.local_bytes += variable->size_bytes() + 16;
      }
      const Instruction* in = statement.instruction();
      if (in == nullptr) continue;
      const bool hands_out_stack = in->op == Op::kAlloca || in->op == Op::kStacksave || in->op == Op::kStackrestore;
      if (hands_out_stack && !facts.hands_out_stack) traits_.local_bytes += kAllocaBytes;
      facts.hands_out_stack |= hands_out_stack;
      const bool leaves = in->op == Op::kExit && !function.is_entry;
      if ((waits(*in) || leaves) && !facts.waits) {
        facts.waits = true;
        facts.reason = fmt::format("{} at line {}", ptx::spelling(in->op), statement.location.line);
      }
      facts.spins |= may_spin_on(*in, read);
      traits_.needs_warps |= is_warp_operation(*in);
      traits_.group_waits = std::max(traits_.group_waits, group_waits(*in));
      if (in->op != Op::kCall) continue;
      if (const Operand* callee = called_function(*in)) {
        facts.callees.insert(callee->name);
      } else {
        traits_.calls_indirectly = true;
        facts.callees.insert(address_taken_.begin(), address_taken_.end());
      }
    }
    const std::set<std::string> callees = facts.callees;
    facts_.emplace(function.name, std::move(facts));
    for (const std::string& name : callees) {
      if (const ptx::Function* callee = module_.find_function(name)) visit(*callee);
    }
  }

  // What callees do, callers do; and who reaches itself is recursive.
  void spread() {
    for (bool changed = true; changed;) {
      changed = false;
      for (auto& [name, facts] : facts_) {
        std::set<std::string> more;
        for (const std::string& callee : facts.callees) {
          const auto it = facts_.find(callee);
          if (it == facts_.end()) continue;
          if (it->second.spins && !facts.spins) facts.spins = changed = true;
          if (it->second.waits && !facts.waits) {
            facts.waits = changed = true;
            facts.reason = it->second.reason;
          }
          more.insert(it->second.callees.begin(), it->second.callees.end());
        }
        const std::size_t before = facts.callees.size();
        facts.callees.merge(more);
        changed |= facts.callees.size() != before;
      }
    }
    for (const auto& [name, facts] : facts_) traits_.recursive |= facts.callees.contains(name);
  }

  void find_yields(const ptx::Function& function) {
    std::unordered_map<std::string, std::size_t> label_index;
    std::vector<std::size_t> spins_before(function.body.size() + 1, 0);
    const std::vector<bool> read = read_registers(function);
    for (std::size_t n = 0; n < function.body.size(); ++n) {
      const ptx::Statement& statement = function.body[n];
      if (const auto* label = std::get_if<ptx::Label>(&statement.node)) label_index[label->name] = n;
      const Instruction* in = statement.instruction();
      spins_before[n + 1] = spins_before[n] + (in != nullptr && spins(*in, read) ? 1 : 0);
    }
    for (std::size_t n = 0; n < function.body.size(); ++n) {
      const Instruction* in = function.body[n].instruction();
      if (in == nullptr) continue;
      for (const std::string& label : branch_labels(function, *in)) {
        const auto target = label_index.find(label);
        if (target == label_index.end() || target->second > n) continue;
        if (spins_before[n + 1] == spins_before[target->second]) continue;
        traits_.yields[function.name].insert(n);
        Facts& facts = facts_[function.name];
        if (!facts.waits) facts.reason = fmt::format("a loop that may spin at line {}", function.body[n].location.line);
        facts.waits = true;
      }
    }
  }

  bool spins(const Instruction& in, const std::vector<bool>& read) const {
    if (may_spin_on(in, read)) return true;
    if (in.op != Op::kCall) return false;
    const auto any = [&](const std::string& name) {
      const auto it = facts_.find(name);
      return it != facts_.end() && it->second.spins;
    };
    if (const Operand* callee = called_function(in)) return any(callee->name);
    return std::any_of(address_taken_.begin(), address_taken_.end(), any);
  }

  const ptx::Module& module_;
  const std::vector<std::string>& address_taken_;
  KernelTraits traits_;
  std::unordered_map<std::string, Facts> facts_;
};

void collect_symbols(const Operand& operand, std::set<std::string>& names) {
  if (operand.kind == Operand::Kind::kSymbol) names.insert(operand.name);
  for (const Operand& element : operand.elements) collect_symbols(element, names);
}

}  // namespace

const Operand* called_function(const Instruction& call) {
  for (const Operand& operand : call.operands) {
    if (operand.kind == Operand::Kind::kTuple) continue;
    const bool named = operand.kind == Operand::Kind::kSymbol || operand.kind == Operand::Kind::kLabel;
    return named ? &operand : nullptr;
  }
  return nullptr;
}

std::vector<std::string> address_taken_functions(const ptx::Module& module) {
  std::set<std::string> names;
  for (const ptx::Item& item : module.items) {
    if (const auto* variable = std::get_if<ptx::Variable>(&item.node)) {
      for (const ptx::Initializer& value : variable->initializers) names.insert(value.symbol);
    }
    const auto* function = std::get_if<ptx::Function>(&item.node);
    if (function == nullptr) continue;
    for (const ptx::Statement& statement : function->body) {
      const Instruction* in = statement.instruction();
      if (in == nullptr || in->op == Op::kCall) continue;
      for (const Operand& operand : in->operands) collect_symbols(operand, names);
    }
  }
  std::vector<std::string> taken;
  for (const ptx::Function* function : module.functions()) {
    if (function->has_body && !function->is_entry && names.contains(function->name)) taken.push_back(function->name);
  }
  return taken;
}

KernelTraits kernel_traits(const ptx::Module& module, const std::vector<const ptx::Function*>& roots,
                           const std::vector<std::string>& address_taken) {
  return Walk(module, address_taken).run(roots);
}

}  // namespace pergola::device::cpu::jit
