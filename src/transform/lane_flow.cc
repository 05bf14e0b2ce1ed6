// Optimistic: every register is uniform until an instruction shows otherwise, which may make more branches divergent,
// which may make more registers differ; sets only grow, so it ends.
#include "src/transform/lane_flow.h"

#include <algorithm>
#include <vector>

#include "src/analysis/cfg.h"
#include "src/ptx/semantics.h"

namespace pergola::transform {
namespace {

using ptx::Instruction;
using ptx::Mod;
using ptx::Op;
using ptx::Operand;
using ptx::Special;

constexpr std::uint32_t kNone = ~0u;

bool differs_by_thread(const Operand& operand) {
  if (operand.kind == Operand::Kind::kSpecial) {
    switch (operand.special) {
      case Special::kNtid:
      case Special::kCtaid:
      case Special::kNctaid:
      case Special::kGridid:
      case Special::kNwarpid:
      case Special::kTotalSmemSize:
      case Special::kDynamicSmemSize: return false;
      default: return true;
    }
  }
  return std::any_of(operand.elements.begin(), operand.elements.end(), differs_by_thread);
}

// Whether equal inputs give equal results, in all threads and at any time.
bool is_function_of_operands(const Instruction& in) {
  switch (in.op) {
    case Op::kOpaque:
    case Op::kCall:
    case Op::kAtom:
    case Op::kShfl:
    case Op::kVote:
    case Op::kMatch:
    case Op::kRedux:
    case Op::kElect:
    case Op::kActivemask:
    case Op::kAddc:  // and the carry
    case Op::kSubc:
    case Op::kMadc:
    case Op::kAlloca:
    case Op::kStacksave:
    case Op::kMbarrier: return false;
    // One result for all threads of a barrier of the whole block.
    case Op::kBar:
    case Op::kBarrier: return in.has(Mod::kRed) && in.operands.size() == 3;
    // Parameters and constant data stay as they are; a call's results do not.
    case Op::kLd: {
      if (in.space() == ptx::Space::kConst) return true;
      const Operand& base = in.operands.at(1).elements.at(0);
      return in.space() == ptx::Space::kParam && base.kind == Operand::Kind::kSymbol;
    }
    default: return !ptx::memory_effect(in).reads;
  }
}

class Flow {
 public:
  Flow(const ptx::Function& function, analysis::Cfg cfg, const std::function<Together(const Instruction&)>& together)
      : function_(function), cfg_(std::move(cfg)), differs_(function.registers.size(), false) {
    const std::size_t count = cfg_.blocks.size();
    reaches_.assign(count, false);
    has_barrier_.assign(count, false);
    std::vector<bool> reaches_barrier(count, false);
    for (std::size_t b = 0; b < count; ++b) {
      for (const std::uint32_t s : cfg_.blocks[b].statements) {
        const Together with = together(*function.body[s].instruction());
        if (with != Together::kNo) reaches_[b] = true;
        if (with == Together::kBlock) has_barrier_[b] = true;
      }
    }
    for (const ptx::Variable& variable : function.parameters) parameters_.push_back(variable.name);
    for (const ptx::Statement& statement : function.body)  // a call's own variable may hide one
      if (const auto* variable = std::get_if<ptx::Variable>(&statement.node)) std::erase(parameters_, variable->name);
    close_backwards(reaches_);
    find_dependences();
  }

  LaneFlow run() {
    LaneFlow flow;
    if (!all_ways_end()) {
      flow.is_ragged = std::find(reaches_.begin(), reaches_.end(), true) != reaches_.end();
      flow.ragged_at = function_.location;
      flow.every_lane_arrives = false;
      return flow;
    }
    while (step()) {
    }
    const std::vector<bool> parted = depending([&](std::uint32_t b) { return diverges(b) && every_side_goes_on(b); });
    const std::vector<bool> chosen = depending([&](std::uint32_t b) { return diverges(b); });
    for (std::uint32_t b = 0; b < cfg_.blocks.size(); ++b) {
      judge(b, parted[b], flow);
      if (has_barrier_[b] && chosen[b]) flow.every_lane_arrives = false;
    }
    return flow;
  }

 private:
  void close_backwards(std::vector<bool>& set) const {
    for (bool changed = true; changed;) {
      changed = false;
      for (std::size_t b = cfg_.blocks.size(); b-- > 0;) {
        if (set[b]) continue;
        const auto& next = cfg_.blocks[b].successors;
        if (std::any_of(next.begin(), next.end(), [&](std::uint32_t n) { return set[n]; })) set[b] = changed = true;
      }
    }
  }

  // Whether from every block some end can be reached: else post-dominance says nothing of it.
  bool all_ways_end() const {
    std::vector<bool> ends(cfg_.blocks.size(), false);
    for (std::size_t b = 0; b < ends.size(); ++b) ends[b] = cfg_.blocks[b].successors.empty();
    close_backwards(ends);
    return std::all_of(cfg_.reverse_post_order.begin(), cfg_.reverse_post_order.end(),
                       [&](std::uint32_t b) { return ends[b]; });
  }

  // Ferrante, Ottenstein and Warren: on which branches each block is control dependent.
  void find_dependences() {
    depends_.resize(cfg_.blocks.size());
    for (std::uint32_t b = 0; b < cfg_.blocks.size(); ++b) {
      if (cfg_.blocks[b].successors.size() < 2) continue;
      const std::uint32_t stop = cfg_.immediate_post_dominator[b];
      for (std::uint32_t at : cfg_.blocks[b].successors)
        for (; at != stop && at != kNone; at = cfg_.immediate_post_dominator[at]) depends_[at].push_back(b);
    }
  }

  // The blocks that depend, through others too, on a branch that `counts`.
  std::vector<bool> depending(const std::function<bool(std::uint32_t)>& counts) const {
    std::vector<bool> set(cfg_.blocks.size(), false);
    for (bool changed = true; changed;) {
      changed = false;
      for (std::size_t b = 0; b < set.size(); ++b) {
        if (set[b]) continue;
        const auto& on = depends_[b];
        if (std::any_of(on.begin(), on.end(), [&](std::uint32_t x) { return set[x] || counts(x); }))
          set[b] = changed = true;
      }
    }
    return set;
  }

  const Instruction* last(std::uint32_t block) const {
    const auto& statements = cfg_.blocks[block].statements;
    return statements.empty() ? nullptr : function_.body[statements.back()].instruction();
  }

  bool diverges(std::uint32_t block) const {
    const Instruction* branch = last(block);
    if (cfg_.blocks[block].successors.size() < 2 || branch == nullptr) return false;
    if (branch->guard.present() && differs_[branch->guard.predicate]) return true;
    return branch->op == Op::kBrx && reads_what_differs(*branch);
  }

  bool every_side_goes_on(std::uint32_t block) const {
    const auto& next = cfg_.blocks[block].successors;
    return std::all_of(next.begin(), next.end(), [&](std::uint32_t n) { return reaches_[n]; });
  }

  bool some_side_goes_on(std::uint32_t block) const {
    const auto& next = cfg_.blocks[block].successors;
    return std::any_of(next.begin(), next.end(), [&](std::uint32_t n) { return reaches_[n]; });
  }

  bool reads_what_differs(const Instruction& in) const {
    bool found = false;
    ptx::for_each_register(in, [&](ptx::RegisterId id, bool is_written) { found |= !is_written && differs_[id]; });
    return found || std::any_of(in.operands.begin(), in.operands.end(), differs_by_thread);
  }

  bool is_parameter(const Instruction& in) const {
    if (in.op != Op::kLd || in.space() != ptx::Space::kParam) return true;
    return std::find(parameters_.begin(), parameters_.end(), in.operands.at(1).elements.at(0).name) !=
           parameters_.end();
  }

  bool step() {
    const std::vector<bool> parted = depending([&](std::uint32_t b) { return diverges(b) && every_side_goes_on(b); });
    bool changed = false;
    for (std::uint32_t b = 0; b < cfg_.blocks.size(); ++b) {
      for (const std::uint32_t s : cfg_.blocks[b].statements) {
        const Instruction& in = *function_.body[s].instruction();
        if (!parted[b] && is_function_of_operands(in) && is_parameter(in) && !reads_what_differs(in)) continue;
        ptx::for_each_register(in, [&](ptx::RegisterId id, bool is_written) {
          if (!is_written || differs_[id]) return;
          differs_[id] = true;
          changed = true;
        });
      }
    }
    return changed;
  }

  // Notes what the branch at the end of a block means for the lanes.
  void judge(std::uint32_t block, bool is_parted, LaneFlow& flow) const {
    if (!diverges(block) || every_side_goes_on(block) || !some_side_goes_on(block)) return;
    const std::uint32_t statement = cfg_.blocks[block].statements.back();
    const Instruction& branch = *last(block);
    const auto ragged = [&] {
      flow.is_ragged = true;
      flow.ragged_at = function_.body[statement].location;
    };
    if (branch.op != Op::kBra || is_parted) return ragged();
    flow.leaving[statement] = reaches_[cfg_.block_of_label.at(branch.operands.at(0).name)];
  }

  const ptx::Function& function_;
  const analysis::Cfg cfg_;
  std::vector<bool> differs_;                        // by register
  std::vector<bool> reaches_, has_barrier_;          // by block
  std::vector<std::vector<std::uint32_t>> depends_;  // by block: the blocks whose branches decide on it
  std::vector<std::string> parameters_;
};

}  // namespace

Result<LaneFlow> lane_flow(const ptx::Function& function, const std::function<Together(const Instruction&)>& together) {
  PERGOLA_ASSIGN(analysis::Cfg cfg, analysis::build_cfg(function));
  return Flow(function, std::move(cfg), together).run();
}

}  // namespace pergola::transform
