#include "src/device/cpu/spin_loads.h"

#include <algorithm>
#include <optional>
#include <set>
#include <unordered_map>
#include <vector>

#include "src/analysis/cfg.h"
#include "src/analysis/natural_loops.h"
#include "src/analysis/ssa.h"
#include "src/ptx/semantics.h"

namespace pergola::device::cpu {
namespace {

using analysis::SsaValue;
using analysis::ValueId;
using ptx::Instruction;
using ptx::Mod;
using ptx::Op;
using ptx::Operand;
using ptx::Space;

// Of a value as the loop sees it: the same each turn, what others may write, or changed by the loop. In this order:
// what depends on several is the last of them.
enum class Nature : std::uint8_t { kSame, kLook, kChanges };

bool is_block_barrier(const Instruction& in) {
  return (in.op == Op::kBar || in.op == Op::kBarrier) && !in.has(Mod::kWarp);
}

bool may_be_weak_look(const Instruction& in) {
  const Space space = in.space();
  const bool reached = space == Space::kGlobal || space == Space::kShared || space == Space::kNone;
  return in.op == Op::kLd && reached && !in.has(Mod::kNc);
}

bool is_strong(const Instruction& in) {
  return in.has(Mod::kVolatile) || in.has(Mod::kRelaxed) || in.has(Mod::kAcquire) || in.has(Mod::kMmio);
}

const Operand* address_of(const Instruction& in) {
  const auto found = std::find_if(in.operands.begin(), in.operands.end(),
                                  [](const Operand& operand) { return operand.kind == Operand::Kind::kAddress; });
  return found == in.operands.end() || found->elements.size() != 1 ? nullptr : &*found;
}

bool names_clock(const Instruction& in) {
  return std::any_of(in.operands.begin(), in.operands.end(), [](const Operand& operand) {
    if (operand.kind != Operand::Kind::kSpecial) return false;
    switch (operand.special) {
      case ptx::Special::kClock:
      case ptx::Special::kClockHi:
      case ptx::Special::kClock64:
      case ptx::Special::kGlobaltimer:
      case ptx::Special::kGlobaltimerLo:
      case ptx::Special::kGlobaltimerHi: return true;
      default: return false;
    }
  });
}

class LoopOfFunction {
 public:
  LoopOfFunction(const ptx::Function& function, const analysis::Cfg& cfg, const analysis::Ssa& ssa,
                 const analysis::NaturalLoop& loop)
      : function_(function), cfg_(cfg), ssa_(ssa), loop_(loop) {}

  // The weak loads on which the loop's end waits; none where it ends by itself.
  std::set<std::uint32_t> weak_looks() {
    std::vector<std::uint32_t> exits;
    for (std::uint32_t block = 0; block < cfg_.blocks.size(); ++block) {
      if (!loop_.contains[block]) continue;
      for (const std::uint32_t statement : cfg_.blocks[block].statements) {
        const Instruction& in = instruction(statement);
        if (in.op == Op::kOpaque || is_block_barrier(in)) return {};
        calls_ = calls_ || in.op == Op::kCall;
        if (leaves(block, in)) exits.push_back(statement);
      }
    }
    Nature all = Nature::kSame;
    for (const std::uint32_t exit : exits) all = std::max(all, of_reads(exit));
    if (all != Nature::kLook) return {};
    for (const std::uint32_t look : looks_) {
      if (is_stored_to(look)) return {};
    }
    return std::move(looks_);
  }

 private:
  const Instruction& instruction(std::uint32_t statement) const { return *function_.body[statement].instruction(); }
  bool inside(std::uint32_t block) const { return loop_.contains[block]; }

  // Whether `in`, of `block`, may leave the loop and need not.
  bool leaves(std::uint32_t block, const Instruction& in) const {
    switch (in.op) {
      case Op::kExit:
      case Op::kRet:
      case Op::kTrap: return in.guard.present();
      case Op::kBra:
      case Op::kBrx: {
        const auto& successors = cfg_.blocks[block].successors;
        return std::any_of(successors.begin(), successors.end(), [&](std::uint32_t to) { return !inside(to); });
      }
      default: return false;
    }
  }

  Nature of_reads(std::uint32_t statement) {
    Nature nature = Nature::kSame;
    ptx::for_each_register(instruction(statement), [&](ptx::RegisterId reg, bool is_written) {
      if (!is_written) nature = std::max(nature, of(ssa_.read(statement, reg)));
    });
    return nature;
  }

  Nature of(ValueId id) {
    if (id == analysis::kNoValue || !inside(ssa_.value(id).block)) return Nature::kSame;
    const auto [known, is_new] = natures_.emplace(id, Nature::kChanges);  // what depends on itself changes
    if (!is_new) return known->second;
    const Nature nature =
        ssa_.value(id).kind == SsaValue::Kind::kPhi ? of_phi(ssa_.value(id)) : of_write(ssa_.value(id));
    return natures_[id] = nature;
  }

  Nature of_phi(const SsaValue& value) {
    Nature nature = Nature::kSame;
    for (const ValueId operand : value.operands) nature = std::max(nature, of(operand));
    return nature;
  }

  Nature of_write(const SsaValue& value) {
    const Instruction& in = instruction(value.statement);
    Nature nature = std::max(of_reads(value.statement), of(value.old));
    if (names_clock(in)) nature = std::max(nature, Nature::kLook);
    switch (in.op) {
      case Op::kCall: return Nature::kChanges;
      case Op::kLd: break;
      case Op::kAtom: return std::max(nature, Nature::kLook);
      default: return nature;
    }
    if (in.space() == Space::kParam || in.space() == Space::kLocal)
      return calls_ || in.space() == Space::kLocal ? Nature::kChanges : nature;
    if (nature != Nature::kSame || !may_be_weak_look(in)) return nature;
    if (!is_strong(in)) looks_.insert(value.statement);
    return Nature::kLook;
  }

  // Does the loop store where `look` loads: through the same value, at the same offset?
  bool is_stored_to(std::uint32_t look) const {
    const Operand* const from = address_of(instruction(look));
    if (from == nullptr) return true;
    for (std::uint32_t block = 0; block < cfg_.blocks.size(); ++block) {
      if (!inside(block)) continue;
      for (const std::uint32_t statement : cfg_.blocks[block].statements) {
        const Instruction& in = instruction(statement);
        if (in.op != Op::kSt && in.op != Op::kAtom && in.op != Op::kRed) continue;
        const Operand* const to = address_of(in);
        if (to == nullptr || to->offset != from->offset) continue;
        const Operand &a = to->elements[0], &b = from->elements[0];
        if (a.kind != b.kind) continue;
        if (a.kind == Operand::Kind::kRegister ? ssa_.read(statement, a.reg) == ssa_.read(look, b.reg)
                                               : a.name == b.name && a.offset == b.offset)
          return true;
      }
    }
    return false;
  }

  const ptx::Function& function_;
  const analysis::Cfg& cfg_;
  const analysis::Ssa& ssa_;
  const analysis::NaturalLoop& loop_;
  bool calls_ = false;
  std::unordered_map<ValueId, Nature> natures_;
  std::set<std::uint32_t> looks_;
};

std::set<std::uint32_t> weak_looks(const ptx::Function& function) {
  const bool has_any = std::any_of(function.body.begin(), function.body.end(), [](const ptx::Statement& statement) {
    const Instruction* in = statement.instruction();
    return in != nullptr && may_be_weak_look(*in) && !is_strong(*in);
  });
  if (!has_any) return {};
  const Result<analysis::Cfg> cfg = analysis::build_cfg(function);
  if (!cfg.ok()) return {};  // told of by whoever compiles it
  const analysis::NaturalLoops loops = analysis::natural_loops(*cfg);
  if (loops.loops.empty()) return {};
  const analysis::Ssa ssa(function, *cfg);
  std::set<std::uint32_t> found;
  for (const analysis::NaturalLoop& loop : loops.loops)
    found.merge(LoopOfFunction(function, *cfg, ssa, loop).weak_looks());
  return found;
}

}  // namespace

std::size_t look_again_in_spin_loops(ptx::Module& module) {
  std::size_t count = 0;
  for (ptx::Item& item : module.items) {
    auto* const function = std::get_if<ptx::Function>(&item.node);
    if (function == nullptr || !function->has_body) continue;
    for (const std::uint32_t statement : weak_looks(*function)) {
      Instruction& in = *function->body[statement].instruction();
      in.mods.erase(std::remove(in.mods.begin(), in.mods.end(), Mod::kWeak), in.mods.end());
      in.mods.insert(in.mods.begin(), Mod::kVolatile);
      ++count;
    }
  }
  return count;
}

}  // namespace pergola::device::cpu
