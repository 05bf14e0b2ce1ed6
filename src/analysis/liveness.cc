#include "src/analysis/liveness.h"

#include <algorithm>
#include <bit>

#include "src/ptx/semantics.h"

namespace pergola::analysis {
namespace {

bool names_component(const ptx::Operand& operand) {
  if (operand.kind == ptx::Operand::Kind::kRegister) return operand.component >= 0;
  return std::any_of(operand.elements.begin(), operand.elements.end(), names_component);
}

class Walker {
 public:
  explicit Walker(const ptx::Function& function) : function_(function) {
    for (const ptx::Variable& result : function.results) {
      if (result.space != ptx::Space::kReg) continue;
      for (ptx::RegisterId id = 0; id < function.registers.size(); ++id) {
        if (function.registers[id].name == result.name) results_.push_back(id);
      }
    }
  }

  void step_back(std::uint32_t statement, RegisterSet& live) const {
    const ptx::Instruction& instruction = *function_.body[statement].instruction();
    if (overwrites_whole(instruction)) {
      ptx::for_each_register(instruction, [&](ptx::RegisterId id, bool is_written) {
        if (is_written) live.erase(id);
      });
    }
    ptx::for_each_register(instruction, [&](ptx::RegisterId id, bool is_written) {
      if (!is_written) live.insert(id);
    });
    if (instruction.op == ptx::Op::kRet) insert_results(live);
  }

  void insert_results(RegisterSet& live) const {
    for (const ptx::RegisterId id : results_) live.insert(id);
  }

 private:
  const ptx::Function& function_;
  std::vector<ptx::RegisterId> results_;
};

}  // namespace

bool overwrites_whole(const ptx::Instruction& instruction) {
  return !instruction.guard.present() && instruction.op != ptx::Op::kOpaque &&
         std::none_of(instruction.operands.begin(), instruction.operands.end(), names_component);
}

bool RegisterSet::merge(const RegisterSet& other) {
  bool changed = false;
  for (std::size_t i = 0; i < words_.size(); ++i) {
    const std::uint64_t merged = words_[i] | other.words_[i];
    changed |= merged != words_[i];
    words_[i] = merged;
  }
  return changed;
}

std::vector<ptx::RegisterId> RegisterSet::elements() const {
  std::vector<ptx::RegisterId> ids;
  for (std::size_t word = 0; word < words_.size(); ++word) {
    for (std::uint64_t rest = words_[word]; rest != 0; rest &= rest - 1) {
      ids.push_back(static_cast<ptx::RegisterId>(word * 64 + static_cast<std::size_t>(std::countr_zero(rest))));
    }
  }
  return ids;
}

std::size_t RegisterSet::size() const {
  std::size_t count = 0;
  for (const std::uint64_t word : words_) count += static_cast<std::size_t>(std::popcount(word));
  return count;
}

Liveness compute_liveness(const ptx::Function& function, const Cfg& cfg) {
  const Walker walker(function);
  const std::size_t count = cfg.blocks.size();
  Liveness liveness;
  liveness.live_in.assign(count, RegisterSet(function.registers.size()));
  liveness.live_out = liveness.live_in;

  std::vector<bool> pending(count, true);
  for (bool again = true; again;) {
    again = false;
    for (std::size_t block = count; block-- > 0;) {
      if (!pending[block]) continue;
      pending[block] = false;
      RegisterSet live(function.registers.size());
      for (const std::uint32_t next : cfg.blocks[block].successors) live.merge(liveness.live_in[next]);
      if (cfg.blocks[block].successors.empty()) walker.insert_results(live);
      liveness.live_out[block] = live;
      const auto& statements = cfg.blocks[block].statements;
      for (auto it = statements.rbegin(); it != statements.rend(); ++it) walker.step_back(*it, live);
      if (live == liveness.live_in[block]) continue;
      liveness.live_in[block] = std::move(live);
      for (const std::uint32_t previous : cfg.blocks[block].predecessors) {
        pending[previous] = true;
        again = true;
      }
    }
  }
  return liveness;
}

RegisterSet live_before(const ptx::Function& function, const Cfg& cfg, const Liveness& liveness, std::uint32_t index) {
  const Walker walker(function);
  for (std::size_t block = 0; block < cfg.blocks.size(); ++block) {
    const auto& statements = cfg.blocks[block].statements;
    if (statements.empty() || statements.back() < index) continue;
    RegisterSet live = liveness.live_out[block];
    for (auto it = statements.rbegin(); it != statements.rend() && *it >= index; ++it) walker.step_back(*it, live);
    return live;
  }
  return RegisterSet(function.registers.size());
}

}  // namespace pergola::analysis
