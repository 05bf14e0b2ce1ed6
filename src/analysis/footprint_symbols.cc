#include "src/analysis/footprint_symbols.h"

#include <fmt/format.h>

#include <algorithm>

namespace pergola::analysis {
namespace {

constexpr int kMaxExpressionDepth = 2000;  // of expressions in expressions; deeper ones are unknown

Interval range_of(ptx::Type type) {
  const std::uint32_t bits = 8 * ptx::size_bytes(type);
  if (bits == 0 || bits >= 64) return {};
  if (ptx::is_signed(type)) return {-(std::int64_t{1} << (bits - 1)), (std::int64_t{1} << (bits - 1)) - 1};
  return {0, (std::int64_t{1} << bits) - 1};
}

}  // namespace

FootprintSymbols::FootprintSymbols(const KernelFootprints::Kernel& kernel, const LaunchValues& values)
    : kernel_(kernel), values_(values) {
  for (std::uint32_t axis = 0; axis < 3; ++axis) {
    thread_[axis] = terms_.add({.kind = Term::Kind::kThread, .index = axis, .range = {0, values.block[axis] - 1}});
    block_[axis] = terms_.add({.kind = Term::Kind::kBlock,
                               .index = axis,
                               .range = {0, values.grid[axis] - 1},
                               .is_by_block = values.grid[axis] > 1});
  }
  memo_.resize(kernel.ssa->size());
  conditions_.resize(kernel.cfg.blocks.size());
  loop_state_.resize(kernel.loops.loops.size());
}

bool FootprintSymbols::has_bound(std::uint32_t loop) const {
  return loop_state_[loop] == 2;
}

std::string FootprintSymbols::place(std::uint32_t statement) const {
  const ptx::Statement& at = kernel_.function->body[statement];
  return fmt::format("{}:{}", kernel_.module->source_name, at.location.line);
}

std::optional<std::string> FootprintSymbols::origin_of(std::initializer_list<const Affine*> values) const {
  for (const Affine* value : values)
    if (const Term* unknown = terms_.find_unknown(*value)) return unknown->reason;
  return std::nullopt;
}

std::optional<std::string> FootprintSymbols::origin_of(std::uint32_t statement,
                                                       const ptx::Instruction& instruction) const {
  for (std::size_t i = 1; i < instruction.operands.size(); ++i) {
    const ptx::Operand& operand = instruction.operands[i];
    if (operand.kind != ptx::Operand::Kind::kRegister || operand.component >= 0) continue;
    const ValueId id = kernel_.ssa->read(statement, operand.reg);
    if (id == kNoValue || !memo_[id]) continue;
    if (auto reason = origin_of({&*memo_[id]})) return reason;
  }
  return std::nullopt;
}

TermId FootprintSymbols::base_of(AllocationId allocation, std::uint64_t bytes) {
  const auto found = base_terms_.find(allocation);
  if (found != base_terms_.end()) return found->second;
  const TermId id = terms_.add({.kind = Term::Kind::kBase, .index = static_cast<std::uint32_t>(bases_.size())});
  bases_.push_back({allocation, bytes});
  base_terms_.emplace(allocation, id);
  return id;
}

Affine FootprintSymbols::operand(std::uint32_t statement, const ptx::Operand& operand) {
  using Kind = ptx::Operand::Kind;
  switch (operand.kind) {
    case Kind::kRegister: {
      if (operand.component >= 0) return terms_.unknown({}, fmt::format("part of a vector at {}", place(statement)));
      const ValueId id = kernel_.ssa->read(statement, operand.reg);
      if (id == kNoValue) return terms_.unknown({}, fmt::format("not written before {}", place(statement)));
      return value(id);
    }
    case Kind::kInteger: return Affine::number(static_cast<std::int64_t>(operand.bits));
    case Kind::kSpecial: return special(operand);
    case Kind::kSymbol: return symbol(operand);
    default: return terms_.unknown({}, fmt::format("an operand at {}", place(statement)));
  }
}

Affine FootprintSymbols::value(ValueId id) {
  if (memo_[id]) return *memo_[id];
  const SsaValue& value = kernel_.ssa->value(id);
  if (depth_ >= kMaxExpressionDepth) return unknown_of(value.reg, value.statement, "too long an expression");
  ++depth_;
  if (value.kind == SsaValue::Kind::kPhi && kernel_.loops.loop_of_header[value.block] != kNoLoop) {
    resolve_loop(value.block);
    if (!memo_[id])
      remember(id, unknown_of(value.reg,
                              kernel_.cfg.blocks[value.block].statements.empty()
                                  ? 0
                                  : kernel_.cfg.blocks[value.block].statements[0],
                              "carried by a loop"));
  } else {
    remember(id, compute(id));
  }
  --depth_;
  return *memo_[id];
}

Affine FootprintSymbols::compute(ValueId id) {
  const SsaValue value = kernel_.ssa->value(id);
  if (value.kind == SsaValue::Kind::kPhi) return join(id, value);
  if (!is_integer(value.reg)) return unknown_of(value.reg, value.statement, "no whole number");
  Affine written = instruction_value(value.statement, value.reg);
  if (!kernel_.function->body[value.statement].instruction()->guard.present()) return written;
  const std::string reason = fmt::format("written under a guard at {}", place(value.statement));
  if (value.old == kNoValue) return written;  // the other way nobody wrote it
  return either(this->value(value.old), written, id, reason);
}

Affine FootprintSymbols::join(ValueId id, const SsaValue& phi) {
  const auto& statements = kernel_.cfg.blocks[phi.block].statements;
  const std::uint32_t statement = statements.empty() ? 0 : statements[0];
  if (!is_integer(phi.reg)) return unknown_of(phi.reg, statement, "no whole number");
  std::optional<Affine> joined;
  for (const ValueId operand : phi.operands) {
    if (operand == kNoValue) continue;  // nobody wrote it on that way
    const Affine other = value(operand);
    joined = joined ? either(*joined, other, id, fmt::format("one of several values at {}", place(statement))) : other;
  }
  return joined ? *joined : unknown_of(phi.reg, statement, "never written");
}

// Bases stay outside: base + (a or b), as a term with no bounds has no part in a choice.
Affine FootprintSymbols::either(const Affine& a, const Affine& b, ValueId chooser, const std::string& reason) {
  if (a == b) return a;
  Affine bases, of_b;
  for (const Affine* side : {&a, &b}) {
    for (const Affine::Part& part : side->parts) {
      const Term::Kind kind = terms_[part.term].kind;
      if (kind == Term::Kind::kBase || kind == Term::Kind::kElsewhere)
        (side == &a ? bases : of_b).parts.push_back(part);
    }
  }
  const auto is_elsewhere = [&](const Affine& of) {
    return of.parts.size() == 1 && of.parts[0].coefficient == 1 &&
           terms_[of.parts[0].term].kind == Term::Kind::kElsewhere;
  };
  if (!(bases == of_b) && is_elsewhere(bases) && is_elsewhere(of_b))
    return Affine::term(terms_.add({.kind = Term::Kind::kElsewhere}));
  if (!(bases == of_b)) return terms_.unknown({}, reason);
  const auto rest_a = sum(a, bases, -1), rest_b = sum(b, bases, -1);
  const auto chosen = rest_a && rest_b ? sum(bases, terms_.either(*rest_a, *rest_b, chooser)) : std::nullopt;
  return chosen ? *chosen : terms_.unknown({}, reason);
}

void FootprintSymbols::remember(ValueId id, Affine value) {
  memo_[id] = std::move(value);
  undo_.push_back({false, id});
}

void FootprintSymbols::undo_to(std::size_t mark) {
  while (undo_.size() > mark) {
    const Undo last = undo_.back();
    undo_.pop_back();
    if (last.is_condition) {
      conditions_[last.id].reset();
    } else {
      memo_[last.id].reset();
    }
  }
}

bool FootprintSymbols::is_integer(ptx::RegisterId reg) const {
  const ptx::Register& declared = kernel_.function->registers[reg];
  return declared.vector == 1 && declared.type != ptx::Type::kPred && !ptx::is_float(declared.type) &&
         ptx::size_bytes(declared.type) <= 8;
}

Affine FootprintSymbols::unknown_of(ptx::Type type, std::uint32_t statement, std::string_view why) {
  return terms_.unknown(range_of(type), fmt::format("{} at {}", why, place(statement)));
}

// As an unsigned number: a residue may be taken as any of them.
Affine FootprintSymbols::unknown_of(ptx::RegisterId reg, std::uint32_t statement, std::string_view why) {
  const std::uint32_t bytes = ptx::size_bytes(kernel_.function->registers[reg].type);
  const Interval all = bytes == 0 || bytes >= 8 ? Interval{} : Interval{0, (std::int64_t{1} << (8 * bytes)) - 1};
  return terms_.unknown(all, fmt::format("{} at {}", why, place(statement)));
}

// Whether base + rest is a number as it is. Allocations are taken to lie at 2^33 or higher (what a signed index of 32
// bits reaches back in words) and below 2^62; an address that is only compared may be any distance from its array.
bool FootprintSymbols::is_address(const Affine& value, std::uint32_t statement) {
  constexpr Interval kReach{-(std::int64_t{1} << 33), std::int64_t{1} << 62};
  const auto base = std::ranges::find_if(
      value.parts, [&](const Affine::Part& part) { return terms_[part.term].kind == Term::Kind::kBase; });
  if (base == value.parts.end() || base->coefficient != 1) return false;
  const auto rest = sum(value, Affine::term(base->term), -1);
  if (!rest) return false;
  return terms_.range(*rest).is_within(kReach) ||
         terms_.range(*rest, conditions(kernel_.ssa->block_of(statement))).is_within(kReach);
}

// A term is a number by itself. One of two residues is, where they say nothing of it: with an end on one side alone a
// residue has come round there.
bool FootprintSymbols::is_one_term(const Affine& value) const {
  if (value.parts.size() != 1 || value.parts[0].coefficient != 1 || value.constant != 0) return false;
  const Term& term = terms_[value.parts[0].term];
  return term.kind != Term::Kind::kEither || (term.range == Interval{} && !term.is_by_block);
}

Affine FootprintSymbols::as_number(const Affine& value, ptx::Type type, std::uint32_t statement) {
  if (optimism_ > 0) return value;
  const auto may_wrap = [&] { return origin_of({&value}).value_or(fmt::format("may wrap at {}", place(statement))); };
  const std::uint32_t bits = 8 * ptx::size_bytes(type);
  if (bits >= 64) {
    // Else, what has bounds, or is unknown as a whole.
    if (is_address(value, statement)) return value;
    if (is_one_term(value) && ptx::is_signed(type)) return value;
    Interval range = terms_.range(value);
    if (!range.is_bounded() || (range.low < 0 && !ptx::is_signed(type))) {
      range = terms_.range(value, conditions(kernel_.ssa->block_of(statement)));
    }
    if (range.is_bounded() && (range.low >= 0 || ptx::is_signed(type))) return value;
    return terms_.unknown(range_of(type), may_wrap());
  }
  const Interval wanted = range_of(type);
  Interval range = terms_.range(value);
  if (range.is_within(wanted)) return value;
  if (!range.is_bounded() || !intersection(range, wanted).is_empty()) {
    range = terms_.range(value, conditions(kernel_.ssa->block_of(statement)));
    if (range.is_within(wanted)) return value;
  }
  if (range.is_bounded()) {  // all of it a whole number of turns away
    const std::int64_t turns = floor_div(range.low - wanted.low, std::int64_t{1} << bits);
    const auto moved =
        turns < (1 << 20) && turns > -(1 << 20) ? sum(value, Affine::number(1), -(turns << bits)) : std::nullopt;
    if (moved && terms_.range(*moved).is_within(wanted)) return *moved;
  }
  return terms_.unknown(wanted, may_wrap());
}

}  // namespace pergola::analysis
