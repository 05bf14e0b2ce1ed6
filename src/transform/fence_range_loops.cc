// Values that loops carry, and how often loops come round (fence_ranges.h).
#include <algorithm>
#include <bit>
#include <cstdlib>
#include <numeric>

#include "src/ptx/semantics.h"
#include "src/transform/fence_ranges.h"

namespace pergola::transform {
namespace {

using analysis::NaturalLoop;
using analysis::SsaValue;
using ptx::Instruction;
using ptx::Mod;
using ptx::Op;
using ptx::Operand;

constexpr int kMostLinks = 64;  // from a value back to the phi that it grows from

bool is_latch(const NaturalLoop& loop, std::uint32_t block) {
  return std::find(loop.latches.begin(), loop.latches.end(), block) != loop.latches.end();
}

}  // namespace

// ---- First values and steps

FenceRanges::Range FenceRanges::first_of(const SsaValue& phi, const NaturalLoop& loop) {
  const auto& from = cfg_.blocks[phi.block].predecessors;
  Range first;
  bool is_first = true;
  for (std::size_t n = 0; n < from.size(); ++n) {
    if (is_latch(loop, from[n])) continue;
    if (phi.operands[n] == analysis::kNoValue) return std::nullopt;
    const Range one = value(phi.operands[n], from[n]);
    first = is_first ? one : hull(first, one);
    is_first = false;
    if (!first) return std::nullopt;
  }
  return first;
}

// The phi of the loop's header that `id` is a sum with, in the same round.
std::optional<FenceRanges::FromPhi> FenceRanges::from_phi(ValueId id, const NaturalLoop& loop, int depth) {
  if (id == analysis::kNoValue || depth > kMostLinks || ++steps_ > kMostSteps) return std::nullopt;
  const SsaValue& value = ssa_.value(id);
  if (!loop.contains[value.block] || is_given_[value.reg]) return std::nullopt;
  if (value.kind == SsaValue::Kind::kPhi) {
    if (value.block == loop.header) return FromPhi{id, *point(Affine::number(0))};
    if (loops_.loop_of_header[value.block] != analysis::kNoLoop) return std::nullopt;
    std::optional<FromPhi> all;
    for (const ValueId operand : value.operands) {
      const auto one = from_phi(operand, loop, depth + 1);
      if (!one || (all && all->phi != one->phi)) return std::nullopt;
      const Range more = all ? hull(all->more, one->more) : Range(one->more);
      if (!more) return std::nullopt;
      all = FromPhi{one->phi, *more};
    }
    return all;
  }
  const std::uint32_t s = value.statement;
  const Instruction& in = instruction(s);
  if (in.guard.present() || in.has(Mod::kSat) || in.has(Mod::kCc) || in.operands.size() < 2 ||
      in.operands[0].kind != Operand::Kind::kRegister || ptx::is_float(in.type()))
    return std::nullopt;
  const auto plus = [&](std::size_t base, std::size_t more, std::int64_t factor) -> std::optional<FromPhi> {
    auto found = from_phi(value_of(s, in.operands[base]), loop, depth + 1);
    if (!found) return std::nullopt;
    const Range sum_of = sum(found->more, operand_at(s, in.operands[more], value.block), factor);
    if (!sum_of) return std::nullopt;
    return FromPhi{found->phi, *sum_of};
  };
  switch (in.op) {
    case Op::kMov: return from_phi(value_of(s, in.operands[1]), loop, depth + 1);
    case Op::kAdd: {
      auto found = plus(1, 2, 1);
      return found ? found : plus(2, 1, 1);
    }
    case Op::kSub: return plus(1, 2, -1);
    case Op::kCvt: {  // the lower half of what has been widened
      const Instruction* widens = definition(s, in.operands[1]);
      if (ptx::size_bytes(in.type(0)) != 4 || ptx::size_bytes(in.type(1)) != 8 || ptx::is_float(in.type(1)) ||
          widens == nullptr || widens->op != Op::kCvt || ptx::size_bytes(widens->type(0)) != 8 ||
          ptx::size_bytes(widens->type(1)) != 4 || ptx::is_float(widens->type(0)) || ptx::is_float(widens->type(1)))
        return std::nullopt;
      const std::uint32_t at = ssa_.value(value_of(s, in.operands[1])).statement;
      return from_phi(value_of(at, widens->operands[1]), loop, depth + 1);
    }
    default: return std::nullopt;
  }
}

FenceRanges::Range FenceRanges::step_of(ValueId phi, const NaturalLoop& loop) {
  if (const auto found = steps_of_.find(phi); found != steps_of_.end()) return found->second;
  if (!open_steps_.insert(phi).second) {
    ++cuts_;
    return std::nullopt;
  }
  const unsigned cuts = cuts_;
  const SsaValue& value = ssa_.value(phi);
  const auto& from = cfg_.blocks[value.block].predecessors;
  Range step;
  bool is_first = true;
  for (std::size_t n = 0; n < from.size(); ++n) {
    if (!is_latch(loop, from[n])) continue;
    const auto next = from_phi(value.operands[n], loop);
    const Range one = next && next->phi == phi ? Range(next->more) : std::nullopt;
    step = is_first ? one : hull(step, one);
    is_first = false;
    if (!step) break;
  }
  open_steps_.erase(phi);
  if (step || cuts == cuts_) steps_of_.emplace(phi, step);
  return step;
}

// ---- Exits

// What holds at the end of each round after which there is another one.
std::vector<FenceRanges::Fact> FenceRanges::stays(const NaturalLoop& loop) {
  std::vector<Fact> found;
  for (std::uint32_t block = 0; block < cfg_.blocks.size(); ++block) {
    if (!loop.contains[block]) continue;
    const auto& successors = cfg_.blocks[block].successors;
    if (successors.size() != 2 || loop.contains[successors[0]] == loop.contains[successors[1]]) continue;
    if (!std::all_of(loop.latches.begin(), loop.latches.end(),
                     [&](std::uint32_t latch) { return analysis::dominates(cfg_, block, latch); }))
      continue;
    edge(block, loop.contains[successors[0]] ? successors[0] : successors[1], found);
  }
  return found;
}

std::optional<FenceRanges::Exit> FenceRanges::exit_of(const Fact& fact, const NaturalLoop& loop) {
  const Instruction& in = instruction(fact.statement);
  const Comparison compared = comparison(in, fact.holds);
  if (compared.relation == Relation::kOther) return std::nullopt;
  for (const std::size_t n : {1, 2}) {
    const auto found = from_phi(value_of(fact.statement, in.operands[n]), loop);
    if (!found) continue;
    const Range limit = operand_at(fact.statement, in.operands[3 - n], ssa_.block_of(fact.statement));
    const Range first = first_of(ssa_.value(found->phi), loop), step = step_of(found->phi, loop);
    if (!limit || !first || !step) continue;
    return Exit{n == 1 ? compared.relation : mirrored(compared.relation),
                *first,
                *step,
                found->more,
                *limit,
                found->phi,
                compared.type};
  }
  return std::nullopt;
}

// That what the exit compares are numbers as they are reckoned here, in every round: each lies between the first and
// one step past the limit. Of steps of one sign.
bool FenceRanges::require_exact(const Exit& exit) {
  const bool grows = exit.relation == Relation::kLess || exit.relation == Relation::kLessEqual;
  const Range first = sum(exit.first, exit.more);
  Range past = sum(sum(exit.limit, exit.step), exit.more);
  past = sum(past, exit.more, -1);
  if (!first || !past || !as_number(exit.limit, exit.type)) return false;
  const Range all = hull(first, FenceRange{grows ? first->low : past->low, grows ? past->high : first->high, {}, 1});
  return as_number(all, exit.type).has_value();
}

// ---- How often loops come round

// How often the header is come back to at most.
Number FenceRanges::rounds(std::uint32_t number) {
  if (const auto found = rounds_.find(number); found != rounds_.end()) return found->second;
  if (!open_loops_.insert(number).second) {
    ++cuts_;
    return std::nullopt;
  }
  const unsigned cuts = cuts_;
  Number found;
  const NaturalLoop& loop = loops_.loops[number];
  for (const Fact& fact : stays(loop)) {
    found = rounds_by(fact, loop);
    if (found) break;
  }
  open_loops_.erase(number);
  if (found || cuts == cuts_) rounds_.emplace(number, found);
  return found;
}

Number FenceRanges::rounds_by(const Fact& fact, const NaturalLoop& loop) {
  std::optional<Exit> exit = exit_of(fact, loop);
  if (!exit) return std::nullopt;
  if (exit->relation == Relation::kUnequal) return rounds_until_equal(*exit);
  const bool grows = exit->relation == Relation::kLess || exit->relation == Relation::kLessEqual;
  const std::int64_t strict = exit->relation == Relation::kLess || exit->relation == Relation::kGreater ? 1 : 0;
  // As one that grows: what lies between the first number and the limit, in steps of the least size.
  const Number step = grows ? Number(exit->step.low) : numbers_.scaled(exit->step.high, -1);
  const Number start =
      grows ? numbers_.sum(exit->first.low, exit->more.low) : numbers_.sum(exit->first.high, exit->more.high);
  if (!step || !start) return std::nullopt;
  const Number way = grows ? numbers_.sum(exit->limit.high, *start, -1) : numbers_.sum(*start, exit->limit.low, -1);
  const Number all = way ? numbers_.sum(*way, *step) : std::nullopt;
  const Number least = numbers_.sum(*step, Affine::number(1), -1);
  if (!all || !least || !numbers_.require(*least) || !require_exact(*exit)) return std::nullopt;
  const Number more = numbers_.sum(*all, Affine::number(strict), -1);
  const Number above = more ? numbers_.greatest(*more, {}) : std::nullopt;
  if (!above) return std::nullopt;
  const std::int64_t most = (std::int64_t{1} << 32) - 1;
  for (const Affine* one : {&*above, &*step}) {
    const Number below = numbers_.sum(Affine::number(most), *one, -1);
    if (!below || !numbers_.require(*below)) return std::nullopt;
  }
  return numbers_.quotient(*above, *step);
}

// Steps of one size that meet the limit, which stays where it is: then the loop ends, or has before.
Number FenceRanges::rounds_until_equal(const Exit& exit) {
  if (!exit.step.is_point() || !exit.step.low.is_number() || exit.step.low.constant == 0 || !exit.more.is_point() ||
      !exit.limit.is_point())
    return std::nullopt;
  const std::int64_t step = exit.step.low.constant, size = std::abs(step);
  if (size > (1 << 30)) return std::nullopt;
  const Range start = sum(exit.first, exit.more);
  const Range way = step > 0 ? sum(exit.limit, start, -1) : sum(start, exit.limit, -1);
  if (!way || !numbers_.require(way->low)) return std::nullopt;
  if (size != 1) {
    if (!way->is_point()) return std::nullopt;
    if (way->low.is_number()
            ? way->low.constant % size != 0
            : !std::has_single_bit(static_cast<std::uint64_t>(size)) || !numbers_.require_multiple(way->low, size))
      return std::nullopt;
  }
  if (way->high.is_number()) return Affine::number(std::max<std::int64_t>(way->high.constant, 0) / size);
  const Number most = numbers_.greatest(way->high, {});
  return most ? numbers_.shifted_right(*most,
                                       static_cast<std::uint32_t>(std::countr_zero(static_cast<std::uint64_t>(size))))
              : std::nullopt;
}

// The farthest that a phi gets which an exit compares with a limit.
Number FenceRanges::last_by_exit(ValueId phi, const NaturalLoop& loop, const FenceRange& first, bool grows) {
  for (const Fact& fact : stays(loop)) {
    const std::optional<Exit> exit = exit_of(fact, loop);
    if (!exit || exit->phi != phi) continue;
    const bool is_of_growing = exit->relation == Relation::kLess || exit->relation == Relation::kLessEqual;
    const bool is_of_shrinking = exit->relation == Relation::kGreater || exit->relation == Relation::kGreaterEqual;
    if (grows ? !is_of_growing : !is_of_shrinking) continue;
    const bool is_strict = exit->relation == Relation::kLess || exit->relation == Relation::kGreater;
    const Range past = sum(sum(exit->limit, exit->step), exit->more, -1);
    if (!past || !require_exact(*exit)) continue;
    const Number last = numbers_.sum(grows ? past->high : past->low, Affine::number(is_strict ? 1 : 0), grows ? -1 : 1);
    if (!last) continue;
    return grows ? numbers_.greatest(first.high, *last) : numbers_.least(first.low, *last);
  }
  return std::nullopt;
}

FenceRanges::Range FenceRanges::carried(ValueId phi) {
  if (const auto found = carried_.find(phi); found != carried_.end()) return found->second;
  if (!open_phis_.insert(phi).second) {
    ++cuts_;
    return std::nullopt;
  }
  const unsigned cuts = cuts_;
  const Range range = carried_unless_known(phi);
  open_phis_.erase(phi);
  if (range || cuts == cuts_) carried_.emplace(phi, range);
  return range;
}

FenceRanges::Range FenceRanges::carried_unless_known(ValueId phi) {
  const SsaValue& value = ssa_.value(phi);
  const std::uint32_t number = loops_.loop_of_header[value.block];
  const NaturalLoop& loop = loops_.loops[number];
  Range first = first_of(value, loop);
  const Range step = step_of(phi, loop);
  if (!first || !step) return std::nullopt;
  FenceRange range{first->low, first->high, first->anchor,
                   std::gcd(std::gcd(first->stride, step->stride), divisor_of(step->anchor))};
  const bool grows = numbers_.range(step->low).low >= 0, shrinks = numbers_.range(step->high).high <= 0;
  if (grows && shrinks) return first;
  Number last = grows || shrinks ? last_by_exit(phi, loop, *first, grows) : std::nullopt;
  if (last) {
    (grows ? range.high : range.low) = *last;
    return range;
  }
  const Number count = rounds(number);
  const Number low = count && !grows ? numbers_.product(step->low, *count) : Number(Affine{});
  const Number high = count && !shrinks ? numbers_.product(step->high, *count) : Number(Affine{});
  if (!count || !low || !high) return std::nullopt;
  const Number down = numbers_.least(*low, {}), up = numbers_.greatest(*high, {});
  const Number lowest = down ? numbers_.sum(first->low, *down) : std::nullopt;
  const Number highest = up ? numbers_.sum(first->high, *up) : std::nullopt;
  if (!lowest || !highest) return std::nullopt;
  range.low = *lowest;
  range.high = *highest;
  return range;
}

}  // namespace pergola::transform
