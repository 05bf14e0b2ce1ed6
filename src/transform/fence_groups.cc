#include "src/transform/fence_groups.h"

#include <algorithm>
#include <optional>

#include "src/ptx/semantics.h"

namespace pergola::transform {
namespace {

using ptx::Instruction;
using ptx::Mod;
using ptx::Op;
using ptx::Operand;

// The slot, the parameter block and what else the rewriter reads are memory.
bool is_own(const Operand& base, const ptx::Function& function) {
  return base.kind == Operand::Kind::kRegister && function.registers[base.reg].name.starts_with("%pergola_");
}

std::optional<FencedAccess> fenced(const Instruction& in) {
  FencedAccess access;
  access.operand = in.op == Op::kSt || in.op == Op::kRed ? 0 : 1;
  switch (in.op) {
    case Op::kLd:
    case Op::kLdu: access.kind = FenceSite::Kind::kRead; break;
    case Op::kSt: access.kind = FenceSite::Kind::kWrite; break;
    case Op::kAtom:
    case Op::kRed: access.kind = FenceSite::Kind::kAtomic; break;
    case Op::kCp:
      if (!in.has(Mod::kAsync) || in.operands.size() != 3 || in.operands[2].kind != Operand::Kind::kInteger)
        return std::nullopt;
      access.bytes = static_cast<std::uint32_t>(in.operands[2].bits);
      access.is_weak = false;  // leaves its destination as it is
      return access;
    default: return std::nullopt;
  }
  if (in.space() != ptx::Space::kGlobal && in.space() != ptx::Space::kNone) return std::nullopt;
  access.bytes = ptx::size_bytes(in.type()) * static_cast<std::uint32_t>(in.vector_width());
  const ptx::MemoryEffect effect = ptx::memory_effect(in);
  access.is_weak = !effect.is_strong && !effect.is_atomic;
  return access;
}

class Groups {
 public:
  Groups(const ptx::Function& function, const analysis::Cfg& cfg, bool merges, const std::vector<bool>& may_leave)
      : function_(function), cfg_(cfg), merges_(merges), may_leave_(may_leave), of_block_(cfg.blocks.size()) {}

  std::vector<FenceGroup> run() {
    for (std::uint32_t block = 0; block < cfg_.blocks.size(); ++block) group(block);
    if (merges_) drop_known();
    std::erase_if(groups_, [](const FenceGroup& one) { return one.accesses.empty(); });
    return std::move(groups_);
  }

 private:
  void group(std::uint32_t block) {
    std::vector<std::size_t> open;  // groups that may still grow
    for (const std::uint32_t s : cfg_.blocks[block].statements) {
      const Instruction& in = *function_.body[s].instruction();
      if (std::optional<FencedAccess> access = fenced(in)) {
        access->statement = s;
        add(*access, in, block, open);
      }
      if (in.op == Op::kCall || in.op == Op::kOpaque) open.clear();
      ptx::for_each_register(in, [&](ptx::RegisterId id, bool is_written) {
        if (is_written) std::erase_if(open, [&](std::size_t n) { return depends_on(groups_[n], id); });
      });
    }
  }

  static bool depends_on(const FenceGroup& group, ptx::RegisterId id) {
    return (group.base.kind == Operand::Kind::kRegister && group.base.reg == id) || group.guard.predicate == id;
  }

  void add(FencedAccess access, const Instruction& in, std::uint32_t block, std::vector<std::size_t>& open) {
    const Operand& address = in.operands.at(access.operand);
    if (address.kind != Operand::Kind::kAddress || address.elements.size() != 1 || access.bytes == 0) return;
    const Operand& base = address.elements[0];
    const bool is_register = base.kind == Operand::Kind::kRegister && base.component < 0 &&
                             ptx::size_bytes(function_.registers[base.reg].type) == 8;
    if ((!is_register && base.kind != Operand::Kind::kInteger) || is_own(base, function_)) return;
    access.offset = address.offset;
    const bool is_generic = in.op != Op::kCp && in.space() == ptx::Space::kNone;
    if (merges_ && access.is_weak && is_register)
      for (const std::size_t n : open)
        if (join(groups_[n], access, base, in.guard, is_generic)) return;
    FenceGroup fresh;
    fresh.accesses = {access};
    fresh.base = base;
    fresh.guard = in.guard;
    fresh.is_generic = is_generic;
    fresh.may_leave = may_leave_[block];
    fresh.begin = fresh.aligned = access.offset;
    fresh.end = access.offset + access.bytes;
    fresh.align = access.bytes;
    if (access.is_weak) open.push_back(groups_.size());
    of_block_[block].push_back(groups_.size());
    groups_.push_back(std::move(fresh));
  }

  static bool join(FenceGroup& group, const FencedAccess& access, const Operand& base, const ptx::Guard& guard,
                   bool is_generic) {
    if (group.base.reg != base.reg || group.guard != guard || group.is_generic != is_generic) return false;
    const std::int64_t begin = std::min(group.begin, access.offset),
                       end = std::max(group.end, access.offset + access.bytes);
    if (end - begin > kMostFencedSpan) return false;
    // What is aligned to the greater of the two at one place is aligned to the other at its own, or the two disagree.
    if ((access.offset - group.aligned) % std::min(access.bytes, group.align) != 0) return false;
    if (access.bytes > group.align) {
      for (const FencedAccess& other : group.accesses)
        if ((other.offset - access.offset) % other.bytes != 0) return false;
      group.align = access.bytes;
      group.aligned = access.offset;
    } else if (access.bytes == group.align && access.offset < group.aligned) {
      group.aligned = access.offset;
    }
    group.begin = begin;
    group.end = end;
    group.accesses.push_back(access);
    return true;
  }

  // ---- What is known where: which groups have been checked on every way, their registers unchanged.

  static bool covers(const FenceGroup& known, const FenceGroup& group) {
    return known.base.kind == Operand::Kind::kRegister && known.base == group.base && !known.guard.present() &&
           known.may_leave && group.may_leave && known.is_generic == group.is_generic && known.begin <= group.begin &&
           group.end <= known.end && group.align <= known.align && (group.aligned - known.aligned) % group.align == 0;
  }

  // Of groups with a register for a base: those that a write of the register makes unknown, and those of one base.
  void index_registers() {
    depending_.assign(function_.registers.size(), {});
    of_base_.assign(function_.registers.size(), {});
    for (std::size_t n = 0; n < groups_.size(); ++n) {
      const FenceGroup& group = groups_[n];
      if (group.guard.present()) depending_[group.guard.predicate].push_back(n);
      if (group.base.kind != Operand::Kind::kRegister) continue;
      depending_[group.base.reg].push_back(n);
      of_base_[group.base.reg].push_back(n);
    }
  }

  // Goes through a block with what is known at its begin; what is known at its end.
  std::vector<bool> through(std::uint32_t block, std::vector<bool> known, bool drops) {
    std::size_t next = 0;
    const auto& own = of_block_[block];
    for (const std::uint32_t s : cfg_.blocks[block].statements) {
      for (; next < own.size() && first_[own[next]] == s; ++next) {
        FenceGroup& group = groups_[own[next]];
        if (drops && group.base.kind == Operand::Kind::kRegister)
          for (const std::size_t n : of_base_[group.base.reg])
            if (known[n] && n != own[next] && covers(groups_[n], group)) {
              group.accesses.clear();
              break;
            }
        if (!group.accesses.empty()) known[own[next]] = true;
      }
      const Instruction& in = *function_.body[s].instruction();
      ptx::for_each_register(in, [&](ptx::RegisterId id, bool is_written) {
        if (!is_written) return;
        for (const std::size_t n : depending_[id]) known[n] = false;
      });
    }
    return known;
  }

  void drop_known() {
    index_registers();
    first_.clear();
    for (const FenceGroup& group : groups_) first_.push_back(group.accesses.front().statement);
    std::vector<std::vector<bool>> at_end(cfg_.blocks.size(), std::vector<bool>(groups_.size(), true));
    const auto at_begin = [&](std::uint32_t block) {
      std::vector<bool> known(groups_.size(), block != 0);
      for (const std::uint32_t from : cfg_.blocks[block].predecessors)
        for (std::size_t n = 0; n < known.size(); ++n) known[n] = known[n] && at_end[from][n];
      return known;
    };
    for (bool changed = true; changed;) {
      changed = false;
      for (const std::uint32_t block : cfg_.reverse_post_order) {
        std::vector<bool> end = through(block, at_begin(block), false);
        if (end == at_end[block]) continue;
        at_end[block] = std::move(end);
        changed = true;
      }
    }
    // One is dropped for another that is kept or dropped for a third which covers both.
    for (const std::uint32_t block : cfg_.reverse_post_order) through(block, at_begin(block), true);
  }

  const ptx::Function& function_;
  const analysis::Cfg& cfg_;
  const bool merges_;
  const std::vector<bool>& may_leave_;
  std::vector<FenceGroup> groups_;
  std::vector<std::vector<std::size_t>> of_block_;
  std::vector<std::vector<std::size_t>> depending_, of_base_;  // groups, by register
  std::vector<std::uint32_t> first_;                           // by group: the statement that its check stands before
};

}  // namespace

bool FenceGroup::writes() const {
  return std::any_of(accesses.begin(), accesses.end(),
                     [](const FencedAccess& access) { return access.kind != FenceSite::Kind::kRead; });
}

std::vector<FenceGroup> fence_groups(const ptx::Function& function, const analysis::Cfg& cfg, bool merges,
                                     const std::vector<bool>& may_leave) {
  return Groups(function, cfg, merges, may_leave).run();
}

}  // namespace pergola::transform
