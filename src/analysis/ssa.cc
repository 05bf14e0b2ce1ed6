#include "src/analysis/ssa.h"

#include <algorithm>

#include "src/ptx/semantics.h"

namespace pergola::analysis {
namespace {

constexpr std::uint32_t kUnreachable = ~0u;

std::vector<std::vector<std::uint32_t>> dominance_frontiers(const Cfg& cfg) {
  std::vector<std::vector<std::uint32_t>> frontier(cfg.blocks.size());
  for (const std::uint32_t block : cfg.reverse_post_order) {
    const auto& predecessors = cfg.blocks[block].predecessors;
    if (predecessors.size() < 2 && block != 0) continue;
    for (std::uint32_t runner : predecessors) {
      if (cfg.immediate_dominator[runner] == kUnreachable) continue;
      // The entry is its own dominator: where a loop leads back to it, the walk ends there all the same.
      while (runner != cfg.immediate_dominator[block] || (block == 0 && runner != 0)) {
        if (std::ranges::find(frontier[runner], block) == frontier[runner].end()) frontier[runner].push_back(block);
        if (runner == 0) break;
        runner = cfg.immediate_dominator[runner];
      }
      if (block == 0 && std::ranges::find(frontier[0], 0u) == frontier[0].end()) frontier[0].push_back(0);
    }
  }
  return frontier;
}

}  // namespace

class Ssa::Builder {
  struct Access {
    boost::container::small_vector<ptx::RegisterId, 3> reads, writes;
  };

 public:
  Builder(const ptx::Function& function, const Cfg& cfg, Ssa& ssa) : function_(function), cfg_(cfg), ssa_(ssa) {}

  void run() {
    ssa_.reads_.resize(function_.body.size());
    ssa_.writes_.resize(function_.body.size());
    ssa_.phis_.resize(cfg_.blocks.size());
    ssa_.block_of_statement_.assign(function_.body.size(), kUnreachable);
    accesses_.resize(function_.body.size());
    current_.assign(function_.registers.size(), kNoValue);
    children_.resize(cfg_.blocks.size());
    collect();
    place_phis();
    for (const std::uint32_t block : cfg_.reverse_post_order) {
      if (block != 0) children_[cfg_.immediate_dominator[block]].push_back(block);
    }
    rename();
  }

 private:
  void collect() {
    defining_.resize(function_.registers.size());
    is_global_.assign(function_.registers.size(), false);
    std::vector<std::uint32_t> written_in(function_.registers.size(), kUnreachable);
    for (const std::uint32_t block : cfg_.reverse_post_order) {
      for (const std::uint32_t statement : cfg_.blocks[block].statements) {
        ssa_.block_of_statement_[statement] = block;
        const ptx::Instruction& instruction = *function_.body[statement].instruction();
        ptx::for_each_register(instruction, [&](ptx::RegisterId reg, bool is_written) {
          (is_written ? accesses_[statement].writes : accesses_[statement].reads).push_back(reg);
        });
        for (const ptx::RegisterId reg : accesses_[statement].reads) {
          if (written_in[reg] != block) is_global_[reg] = true;
        }
        for (const ptx::RegisterId reg : accesses_[statement].writes) {
          if (instruction.guard.present() && written_in[reg] != block) is_global_[reg] = true;
          written_in[reg] = block;
          if (defining_[reg].empty() || defining_[reg].back() != block) defining_[reg].push_back(block);
        }
      }
    }
  }

  void place_phis() {
    const auto frontier = dominance_frontiers(cfg_);
    std::vector<std::uint32_t> has_phi(cfg_.blocks.size(), kUnreachable);
    for (ptx::RegisterId reg = 0; reg < defining_.size(); ++reg) {
      if (!is_global_[reg] || defining_[reg].empty()) continue;
      std::vector<std::uint32_t> work = defining_[reg];
      while (!work.empty()) {
        const std::uint32_t from = work.back();
        work.pop_back();
        for (const std::uint32_t block : frontier[from]) {
          if (has_phi[block] == reg) continue;
          has_phi[block] = reg;
          SsaValue phi{.kind = SsaValue::Kind::kPhi, .reg = reg, .block = block};
          phi.operands.assign(cfg_.blocks[block].predecessors.size(), kNoValue);
          ssa_.phis_[block].push_back(add(std::move(phi)));
          work.push_back(block);
        }
      }
    }
  }

  // The dominator tree, without recursion: a block is entered, and left when its children are done.
  void rename() {
    struct Frame {
      std::uint32_t block;
      std::size_t next_child = 0;
      std::vector<std::pair<ptx::RegisterId, ValueId>> undo = {};
    };
    std::vector<Frame> stack;
    stack.push_back({0});
    enter(0, stack.back().undo);
    while (!stack.empty()) {
      Frame& frame = stack.back();
      if (frame.next_child < children_[frame.block].size()) {
        const std::uint32_t child = children_[frame.block][frame.next_child++];
        stack.push_back({child});
        enter(child, stack.back().undo);
        continue;
      }
      for (auto it = frame.undo.rbegin(); it != frame.undo.rend(); ++it) current_[it->first] = it->second;
      stack.pop_back();
    }
  }

  void enter(std::uint32_t block, std::vector<std::pair<ptx::RegisterId, ValueId>>& undo) {
    const auto set = [&](ptx::RegisterId reg, ValueId id) {
      undo.emplace_back(reg, current_[reg]);
      current_[reg] = id;
    };
    for (const ValueId phi : ssa_.phis_[block]) set(ssa_.values_[phi].reg, phi);
    for (const std::uint32_t statement : cfg_.blocks[block].statements) {
      for (const ptx::RegisterId reg : accesses_[statement].reads)
        ssa_.reads_[statement].emplace_back(reg, current_[reg]);
      const bool guarded = function_.body[statement].instruction()->guard.present();
      for (const ptx::RegisterId reg : accesses_[statement].writes) {
        const ValueId id =
            add({.reg = reg, .block = block, .statement = statement, .old = guarded ? current_[reg] : kNoValue});
        ssa_.writes_[statement].emplace_back(reg, id);
        set(reg, id);
      }
    }
    for (const std::uint32_t successor : cfg_.blocks[block].successors) {
      const auto& predecessors = cfg_.blocks[successor].predecessors;
      for (std::size_t i = 0; i < predecessors.size(); ++i) {
        if (predecessors[i] != block) continue;
        for (const ValueId phi : ssa_.phis_[successor]) {
          ssa_.values_[phi].operands[i] = current_[ssa_.values_[phi].reg];
        }
      }
    }
  }

  ValueId add(SsaValue value) {
    ssa_.values_.push_back(std::move(value));
    return static_cast<ValueId>(ssa_.values_.size() - 1);
  }

  const ptx::Function& function_;
  const Cfg& cfg_;
  Ssa& ssa_;
  std::vector<Access> accesses_;                      // by statement
  std::vector<std::vector<std::uint32_t>> defining_;  // by register: the blocks that write it
  std::vector<bool> is_global_;                       // by register: read outside the block that writes it
  std::vector<std::vector<std::uint32_t>> children_;  // of the dominator tree
  std::vector<ValueId> current_;                      // by register
};

Ssa::Ssa(const ptx::Function& function, const Cfg& cfg) {
  Builder(function, cfg, *this).run();
}

}  // namespace pergola::analysis
