// What conditional branches and guards say of the values behind them.
#include <algorithm>
#include <utility>

#include "src/analysis/footprint_symbols.h"
#include "src/ptx/semantics.h"

namespace pergola::analysis {
namespace {

using ptx::Instruction;
using ptx::Mod;
using ptx::Op;
using ptx::Operand;

constexpr int kMaxPredicates = 64;          // that one is made of
constexpr std::size_t kMaxConditions = 24;  // further ones are left out: they would only narrow

enum class Relation : std::uint8_t { kLess, kLessEqual, kEqual, kUnequal, kGreaterEqual, kGreater, kOther };

Relation relation_of(const Instruction& instruction) {
  for (const Mod mod : instruction.mods) {
    switch (mod) {
      case Mod::kLt:
      case Mod::kLo: return Relation::kLess;
      case Mod::kLe:
      case Mod::kLs: return Relation::kLessEqual;
      case Mod::kEq: return Relation::kEqual;
      case Mod::kNe: return Relation::kUnequal;
      case Mod::kGe:
      case Mod::kHs: return Relation::kGreaterEqual;
      case Mod::kGt:
      case Mod::kHi: return Relation::kGreater;
      default: break;
    }
  }
  return Relation::kOther;
}

Relation inverse(Relation relation) {
  switch (relation) {
    case Relation::kLess: return Relation::kGreaterEqual;
    case Relation::kLessEqual: return Relation::kGreater;
    case Relation::kEqual: return Relation::kUnequal;
    case Relation::kUnequal: return Relation::kEqual;
    case Relation::kGreaterEqual: return Relation::kLess;
    case Relation::kGreater: return Relation::kLessEqual;
    default: return Relation::kOther;
  }
}

// a + offset <= 0, where it can be written so.
void at_most_zero(const std::optional<Affine>& a, std::int64_t offset, Constraints& into) {
  if (!a) return;
  if (auto moved = sum(*a, Affine::number(1), offset)) into.push_back(std::move(*moved));
}

}  // namespace

const Constraints& FootprintSymbols::conditions(std::uint32_t block) {
  if (conditions_[block]) return *conditions_[block];
  Constraints found;
  const std::uint32_t above = kernel_.cfg.immediate_dominator[block];
  if (block != 0 && above != ~0u) {
    found = conditions(above);
    const auto& predecessors = kernel_.cfg.blocks[block].predecessors;
    if (predecessors.size() == 1 && found.size() < kMaxConditions) edge(above, block, found);
  }
  conditions_[block] = std::move(found);
  undo_.push_back({true, block});
  return *conditions_[block];
}

Constraints FootprintSymbols::conditions_at(std::uint32_t statement) {
  Constraints found = conditions(kernel_.ssa->block_of(statement));
  const ptx::Guard& guard = kernel_.function->body[statement].instruction()->guard;
  if (guard.present()) imply(kernel_.ssa->read(statement, guard.predicate), !guard.negated, found);
  return found;
}

void FootprintSymbols::edge(std::uint32_t from, std::uint32_t to, Constraints& into, std::optional<TermId> iteration) {
  const auto& statements = kernel_.cfg.blocks[from].statements;
  const auto& successors = kernel_.cfg.blocks[from].successors;
  if (statements.empty()) return;
  const std::uint32_t last = statements.back();
  const Instruction& branch = *kernel_.function->body[last].instruction();
  const bool ends = branch.op == Op::kRet || ptx::ends_thread(branch);
  if (ends && branch.guard.present())  // who goes on has not returned
    return imply(kernel_.ssa->read(last, branch.guard.predicate), branch.guard.negated, into, iteration);
  if (successors.size() != 2 || successors[0] == successors[1]) return;
  if (branch.op != Op::kBra || !branch.guard.present() || branch.operands.empty()) return;
  const auto target = kernel_.cfg.block_of_label.find(branch.operands[0].name);
  if (target == kernel_.cfg.block_of_label.end()) return;
  const bool is_taken = target->second == to;
  imply(kernel_.ssa->read(last, branch.guard.predicate), is_taken != branch.guard.negated, into, iteration);
}

void FootprintSymbols::imply(ValueId predicate, bool holds, Constraints& into, std::optional<TermId> iteration) {
  const int outer = std::exchange(implied_, 0);  // of a condition whose numbers come from a loop with others
  imply_each(predicate, holds, into, iteration);
  implied_ = outer;
}

void FootprintSymbols::imply_each(ValueId predicate, bool holds, Constraints& into, std::optional<TermId> iteration) {
  if (predicate == kNoValue || ++implied_ > kMaxPredicates || into.size() >= kMaxConditions) return;
  const SsaValue& value = kernel_.ssa->value(predicate);
  if (value.kind != SsaValue::Kind::kWrite) return;
  const Instruction& instruction = *kernel_.function->body[value.statement].instruction();
  if (instruction.guard.present()) return;
  const auto& operands = instruction.operands;
  const auto both = [&](bool each) {
    for (std::size_t i = 1; i < 3 && i < operands.size(); ++i) {
      if (operands[i].kind != Operand::Kind::kRegister) continue;
      imply_each(kernel_.ssa->read(value.statement, operands[i].reg), each != operands[i].negated, into, iteration);
    }
  };
  switch (instruction.op) {
    case Op::kMov:
    case Op::kNot:
      if (operands.size() == 2 && operands[1].kind == Operand::Kind::kRegister) {
        imply_each(kernel_.ssa->read(value.statement, operands[1].reg),
                   (holds != (instruction.op == Op::kNot)) != operands[1].negated, into, iteration);
      }
      return;
    case Op::kAnd:
      if (holds) both(true);
      return;
    case Op::kOr:
      if (!holds) both(false);
      return;
    case Op::kSetp: break;
    default: return;
  }
  // p or q of `setp p|q, a, b`: q has the other comparison, and the same third predicate.
  bool is_first = operands[0].kind == Operand::Kind::kRegister;
  if (operands[0].kind == Operand::Kind::kPair) is_first = operands[0].elements[0].reg == value.reg;
  const bool with_and = instruction.has(Mod::kAnd), with_or = instruction.has(Mod::kOr);
  if (instruction.has(Mod::kXor)) return;
  if (with_and || with_or) {
    if (holds != with_and || operands.size() < 4) return;  // neither half is known
    if (operands[3].kind == Operand::Kind::kRegister) {
      imply_each(kernel_.ssa->read(value.statement, operands[3].reg), holds != operands[3].negated, into, iteration);
    }
  }
  compare(value.statement, instruction, holds == is_first, into, iteration);
}

void FootprintSymbols::compare(std::uint32_t statement, const Instruction& instruction, bool holds, Constraints& into,
                               std::optional<TermId> iteration) {
  ptx::Type type = instruction.type();
  if (ptx::is_float(type) || instruction.operands.size() < 3) return;
  Relation relation = relation_of(instruction);
  if (relation == Relation::kOther) return;
  if (!holds) relation = inverse(relation);
  const bool is_order = relation != Relation::kEqual && relation != Relation::kUnequal;
  const auto number = [&](std::size_t i, ptx::Type as) {
    return as_number(operand(statement, instruction.operands[i]), as, statement);
  };
  // Equality is the same for signed and unsigned numbers: whichever can be told.
  if (!is_order && ptx::size_bytes(type) == 4) type = ptx::Type::kS32;
  if (!is_order && ptx::size_bytes(type) == 8) type = ptx::Type::kS64;
  const auto difference = sum(number(1, type), number(2, type), -1);
  if (!difference) return;
  const auto negative = scaled(*difference, -1);
  switch (relation) {
    case Relation::kLess: return at_most_zero(difference, 1, into);
    case Relation::kLessEqual: return at_most_zero(difference, 0, into);
    case Relation::kGreaterEqual: return at_most_zero(negative, 0, into);
    case Relation::kGreater: return at_most_zero(negative, 1, into);
    case Relation::kEqual: at_most_zero(difference, 0, into); return at_most_zero(negative, 0, into);
    case Relation::kUnequal: {
      if (iteration && difference->coefficient(*iteration) != 0) {
        return stays_unequal(*difference, *iteration, kernel_.ssa->block_of(statement), into);
      }
      const Interval range = terms_.range(*difference, into);
      if (range.has_low() && range.low >= 0) return at_most_zero(negative, 1, into);
      if (range.has_high() && range.high <= 0) return at_most_zero(difference, 1, into);
      return;
    }
    default: return;
  }
}

// Whether a value is the same in every iteration of the loop. An unknown is not: it may be loaded anew.
bool FootprintSymbols::is_invariant(const Affine& value, const NaturalLoop& loop) const {
  using Visit = FootprintTerms::Visit;
  const Term* const varies = terms_.find_if(value, [&](const Term& term) {
    switch (term.kind) {
      case Term::Kind::kThread:
      case Term::Kind::kBlock:
      case Term::Kind::kBase: return Visit::kPass;
      case Term::Kind::kElsewhere:
      case Term::Kind::kUnknown: return Visit::kFound;
      case Term::Kind::kIteration: {
        const NaturalLoop& other = kernel_.loops.loops[term.index];
        return other.header != loop.header && other.contains[loop.header] ? Visit::kPass : Visit::kFound;
      }
      case Term::Kind::kEither:  // chosen anew where the choice is in the loop
        if (loop.contains[kernel_.ssa->value(term.index).block]) return Visit::kFound;
        [[fallthrough]];
      default: return Visit::kOperands;
    }
  });
  return varies == nullptr;
}

// A loop that goes on while a + step * iteration != 0 ends where that is 0, if it is met: at iteration -a / step.
void FootprintSymbols::stays_unequal(const Affine& difference, TermId iteration, std::uint32_t block,
                                     Constraints& into) {
  const std::int64_t step = difference.coefficient(iteration);
  const auto rest = sum(difference, Affine::term(iteration), -step);
  if (!rest || !is_invariant(*rest, kernel_.loops.loops[terms_[iteration].index])) return;
  const auto negative = scaled(*rest, step > 0 ? -1 : 1);
  const auto end = negative ? divided(*negative, step > 0 ? step : -step) : std::nullopt;
  if (!end) return;
  const Interval range = optimism_ > 0 ? Interval::point(0) : terms_.range(*end, conditions(block));
  if (!range.has_low() || range.low < 0) return;
  at_most_zero(sum(Affine::term(iteration), *end, -1), 1, into);
}

}  // namespace pergola::analysis
