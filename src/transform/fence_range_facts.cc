// What is known of a value where a block is executed: comparisons that conditional branches on the way there have made.
#include <algorithm>

#include "src/ptx/semantics.h"
#include "src/transform/fence_ranges.h"

namespace pergola::transform {
namespace {

using ptx::Instruction;
using ptx::Mod;
using ptx::Op;
using ptx::Operand;
using ptx::Type;

constexpr int kMostPredicates = 24;     // of predicates made of predicates
constexpr std::size_t kMostFacts = 24;  // further ones are left out: they would only narrow

}  // namespace

const std::vector<FenceRanges::Fact>& FenceRanges::facts(std::uint32_t block) {
  if (const auto found = facts_.find(block); found != facts_.end()) return found->second;
  std::vector<std::uint32_t> way;  // blocks on every way there, from the last
  for (std::uint32_t at = block; !facts_.contains(at);) {
    way.push_back(at);
    const std::uint32_t above = cfg_.immediate_dominator[at];
    if (above == at || above == ~0u) break;
    at = above;
  }
  for (; !way.empty(); way.pop_back()) {
    const std::uint32_t at = way.back(), above = cfg_.immediate_dominator[at];
    std::vector<Fact> found;
    if (above != at && above != ~0u) {
      found = facts_.at(above);
      if (cfg_.blocks[at].predecessors.size() == 1) edge(above, at, found);
    }
    facts_.emplace(at, std::move(found));
  }
  return facts_.at(block);
}

void FenceRanges::edge(std::uint32_t from, std::uint32_t to, std::vector<Fact>& into) {
  const auto& statements = cfg_.blocks[from].statements;
  const auto& successors = cfg_.blocks[from].successors;
  if (statements.empty() || successors.size() != 2 || successors[0] == successors[1]) return;
  const Instruction& branch = instruction(statements.back());
  if (branch.op != Op::kBra || !branch.guard.present() || branch.operands.empty()) return;
  const auto target = cfg_.block_of_label.find(branch.operands[0].name);
  if (target == cfg_.block_of_label.end()) return;
  imply(statements.back(), branch.guard.predicate, (target->second == to) != branch.guard.negated, into);
}

// What follows where the predicate that `statement` reads is `holds`.
void FenceRanges::imply(std::uint32_t statement, ptx::RegisterId predicate, bool holds, std::vector<Fact>& into,
                        int depth) {
  const ValueId id = ssa_.read(statement, predicate);
  if (id == analysis::kNoValue || depth > kMostPredicates || into.size() >= kMostFacts) return;
  const analysis::SsaValue& value = ssa_.value(id);
  if (value.kind != analysis::SsaValue::Kind::kWrite) return;
  const Instruction& in = instruction(value.statement);
  if (in.guard.present()) return;
  const auto each = [&](bool operand_holds) {
    for (std::size_t n = 1; n < in.operands.size(); ++n)
      if (in.operands[n].kind == Operand::Kind::kRegister)
        imply(value.statement, in.operands[n].reg, operand_holds != in.operands[n].negated, into, depth + 1);
  };
  switch (in.op) {
    case Op::kMov: return each(holds);
    case Op::kNot: return each(!holds);
    case Op::kAnd:
      if (holds) each(true);
      return;
    case Op::kOr:
      if (!holds) each(false);
      return;
    case Op::kSetp:
      if (in.operands.size() == 3 && in.operands[0].kind == Operand::Kind::kRegister && !in.operands[0].negated)
        into.push_back({value.statement, holds});
      return;
    default: return;
  }
}

FenceRanges::Comparison FenceRanges::comparison(const Instruction& in, bool holds) {
  Comparison found;
  const Type type = in.type();
  if (ptx::is_float(type) || (ptx::size_bytes(type) != 4 && ptx::size_bytes(type) != 8)) return found;
  found.type = type;
  for (const Mod mod : in.mods) {
    switch (mod) {
      case Mod::kLt:
      case Mod::kLo: found.relation = holds ? Relation::kLess : Relation::kGreaterEqual; break;
      case Mod::kLe:
      case Mod::kLs: found.relation = holds ? Relation::kLessEqual : Relation::kGreater; break;
      case Mod::kGe:
      case Mod::kHs: found.relation = holds ? Relation::kGreaterEqual : Relation::kLess; break;
      case Mod::kGt:
      case Mod::kHi: found.relation = holds ? Relation::kGreater : Relation::kLessEqual; break;
      case Mod::kNe: found.relation = holds ? Relation::kUnequal : Relation::kOther; break;
      case Mod::kEq: found.relation = holds ? Relation::kOther : Relation::kUnequal; break;
      case Mod::kAnd:
      case Mod::kOr:
      case Mod::kXor: return {};
      default: break;
    }
  }
  return found;
}

FenceRanges::Relation FenceRanges::mirrored(Relation relation) {
  switch (relation) {
    case Relation::kLess: return Relation::kGreater;
    case Relation::kLessEqual: return Relation::kGreaterEqual;
    case Relation::kGreaterEqual: return Relation::kLessEqual;
    case Relation::kGreater: return Relation::kLess;
    default: return relation;
  }
}

// By the comparisons whose one side is this very value. A comparison without a sign says something of numbers that are
// not negative alone.
FenceRanges::Range FenceRanges::narrowed(ValueId id, Range range, std::uint32_t where) {
  for (const Fact& fact : std::vector<Fact>(facts(where))) {
    const Instruction& in = instruction(fact.statement);
    Comparison found = comparison(in, fact.holds);
    if (found.relation == Relation::kOther) continue;
    const bool is_first = value_of(fact.statement, in.operands[1]) == id;
    if (!is_first && value_of(fact.statement, in.operands[2]) != id) continue;
    if (!is_first) found.relation = mirrored(found.relation);
    if (!ptx::is_signed(found.type) && numbers_.range(range->low).low < 0) continue;
    const std::uint32_t made = ssa_.block_of(fact.statement);
    const Range other = as_number(operand_at(fact.statement, in.operands[is_first ? 2 : 1], made), found.type);
    // What varies itself would only make the ends longer.
    if (!other || !other->is_point() || !as_number(range, found.type)) continue;
    narrow(*range, found.relation, *other);
  }
  return range;
}

void FenceRanges::narrow(FenceRange& range, Relation relation, const FenceRange& by) {
  const auto set = [](Affine& end, const Number& to) {
    if (to) end = *to;
  };
  const auto below = [&](const Affine& limit, std::int64_t more) {
    if (const Number moved = numbers_.sum(limit, Affine::number(more)))
      set(range.high, numbers_.least(range.high, *moved));
  };
  const auto above = [&](const Affine& limit, std::int64_t more) {
    if (const Number moved = numbers_.sum(limit, Affine::number(more)))
      set(range.low, numbers_.greatest(range.low, *moved));
  };
  switch (relation) {
    case Relation::kLess: return below(by.high, -1);
    case Relation::kLessEqual: return below(by.high, 0);
    case Relation::kGreaterEqual: return above(by.low, 0);
    case Relation::kGreater: return above(by.low, 1);
    case Relation::kUnequal:
      if (!by.low.is_number() || !(by.low == by.high)) return;
      if (numbers_.range(range.low).low >= by.low.constant) return above(by.low, 1);
      if (numbers_.range(range.high).high <= by.low.constant) return below(by.low, -1);
      return;
    default: return;
  }
}

}  // namespace pergola::transform
