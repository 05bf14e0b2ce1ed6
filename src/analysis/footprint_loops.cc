// Registers that loops carry, and how often loops come round. footprint_symbols.h has the argument.
#include <algorithm>

#include "src/analysis/footprint_symbols.h"

namespace pergola::analysis {
namespace {

constexpr int kMaxRounds = 16;  // of confirming; each gives up a candidate or the bound
// Of resolving in all: each round of a loop resolves those in it anew, which of many within each other is 2^depth
// times.
constexpr int kMaxResolved = 1500;

bool is_latch(const NaturalLoop& loop, std::uint32_t block) {
  return std::ranges::find(loop.latches, block) != loop.latches.end();
}

}  // namespace

void FootprintSymbols::resolve_loop(std::uint32_t header) {
  const std::uint32_t number = kernel_.loops.loop_of_header[header];
  const NaturalLoop& loop = kernel_.loops.loops[number];
  if (++resolved_ > kMaxResolved) {  // what it carries is unknown
    loop_state_[number] = 1;
    return;
  }
  std::vector<Candidate> all = candidates(loop);
  // The first values may have asked for this loop on the way, where they come from a loop around it.
  if (all.empty() || memo_[all.front().phi]) return;
  TermId iteration = iteration_of(number, Interval::kHighest);
  const std::size_t start = mark();

  ++optimism_;
  find_steps(loop, all);
  undo_to(start);
  assume(all, iteration);
  Constraints stays;
  terms_.at(iteration).range.high = last_iteration(loop, iteration, stays);
  undo_to(start);
  --optimism_;

  for (int round = 0; round < kMaxRounds; ++round) {
    assume(all, iteration);
    stays.clear();
    const bool is_confirmed = confirm(loop, all, iteration);
    const std::int64_t last = last_iteration(loop, iteration, stays);
    bool has_end = last <= terms_[iteration].range.high;  // else the assumed end does not follow from itself
    if (is_confirmed && has_end) break;
    undo_to(start);
    if (round == kMaxRounds - 2) {  // nothing is left to rely on
      for (Candidate& candidate : all) candidate.is_inductive = false;
      has_end = false;
    }
    // Another term: quotients and products of this one have the bounds that followed from the assumed end.
    if (!has_end) iteration = iteration_of(number, Interval::kHighest);
  }
  const bool has_bound = terms_[iteration].range.has_high();
  loop_state_[number] = has_bound ? 2 : 1;
  if (!has_bound) return;
  for (Affine& stay : stays) {
    terms_.at(iteration).is_by_block |= terms_.depends_on_block(stay);
    bounds_.push_back({iteration, std::move(stay)});
  }
}

TermId FootprintSymbols::iteration_of(std::uint32_t loop, std::int64_t last) {
  return terms_.add({.kind = Term::Kind::kIteration, .index = loop, .range = {0, last}});
}

std::vector<FootprintSymbols::Candidate> FootprintSymbols::candidates(const NaturalLoop& loop) {
  std::vector<Candidate> found;
  const auto& predecessors = kernel_.cfg.blocks[loop.header].predecessors;
  for (const ValueId phi : kernel_.ssa->phis(loop.header)) {
    const SsaValue& value = kernel_.ssa->value(phi);
    if (!is_integer(value.reg)) continue;
    Candidate candidate{.phi = phi, .first = {}};
    int entries = 0;
    for (std::size_t i = 0; i < predecessors.size(); ++i) {
      if (is_latch(loop, predecessors[i]) || value.operands[i] == kNoValue) continue;
      const Affine first = this->value(value.operands[i]);
      candidate.is_inductive = entries == 0 || (candidate.is_inductive && first == candidate.first);
      candidate.first = first;
      ++entries;
    }
    found.push_back(std::move(candidate));
  }
  return found;
}

void FootprintSymbols::assume(const std::vector<Candidate>& candidates, TermId iteration) {
  for (const Candidate& candidate : candidates) {
    const auto value =
        candidate.is_inductive ? sum(candidate.first, Affine::term(iteration), candidate.step) : std::nullopt;
    const SsaValue& phi = kernel_.ssa->value(candidate.phi);
    const auto& statements = kernel_.cfg.blocks[phi.block].statements;
    remember(candidate.phi,
             value ? *value : unknown_of(phi.reg, statements.empty() ? 0 : statements[0], "carried by a loop"));
  }
}

bool FootprintSymbols::find_steps(const NaturalLoop& loop, std::vector<Candidate>& candidates) {
  std::vector<TermId> terms;
  for (const Candidate& candidate : candidates) {
    terms.push_back(terms_.add({.kind = Term::Kind::kUnknown, .reason = "carried by a loop"}));
    remember(candidate.phi, Affine::term(terms.back()));
  }
  const auto& predecessors = kernel_.cfg.blocks[loop.header].predecessors;
  for (std::size_t c = 0; c < candidates.size(); ++c) {
    Candidate& candidate = candidates[c];
    const SsaValue& phi = kernel_.ssa->value(candidate.phi);
    bool is_first = true;
    for (std::size_t i = 0; i < predecessors.size() && candidate.is_inductive; ++i) {
      if (!is_latch(loop, predecessors[i])) continue;
      const auto step =
          phi.operands[i] == kNoValue ? std::nullopt : sum(value(phi.operands[i]), Affine::term(terms[c]), -1);
      candidate.is_inductive = step && step->is_number() && (is_first || step->constant == candidate.step);
      if (step) candidate.step = step->constant;
      is_first = false;
    }
  }
  return true;
}

// Whether each candidate comes round as assumed; those that do not are candidates no more.
bool FootprintSymbols::confirm(const NaturalLoop& loop, std::vector<Candidate>& candidates, TermId iteration) {
  bool all_hold = true;
  const auto& predecessors = kernel_.cfg.blocks[loop.header].predecessors;
  for (Candidate& candidate : candidates) {
    if (!candidate.is_inductive) continue;
    const SsaValue& phi = kernel_.ssa->value(candidate.phi);
    const auto here = sum(candidate.first, Affine::term(iteration), candidate.step);
    const auto next = here ? sum(*here, Affine::number(1), candidate.step) : std::nullopt;
    for (std::size_t i = 0; i < predecessors.size(); ++i) {
      if (!is_latch(loop, predecessors[i])) continue;
      if (next && phi.operands[i] != kNoValue && value(phi.operands[i]) == *next) continue;
      candidate.is_inductive = false;
      all_hold = false;
    }
  }
  return all_hold;
}

// The greatest number of the header's last run that the exits allow: an exit that every iteration passes was not taken
// in iteration k - 1 where there is an iteration k. kHighest where none says so.
std::int64_t FootprintSymbols::last_iteration(const NaturalLoop& loop, TermId iteration, Constraints& stays) {
  std::int64_t last = Interval::kHighest;
  for (std::uint32_t block = 0; block < kernel_.cfg.blocks.size(); ++block) {
    if (!loop.contains[block]) continue;
    const auto& successors = kernel_.cfg.blocks[block].successors;
    if (successors.size() != 2 || loop.contains[successors[0]] == loop.contains[successors[1]]) continue;
    if (!std::ranges::all_of(loop.latches, [&](std::uint32_t latch) { return dominates(kernel_.cfg, block, latch); }))
      continue;
    Constraints found;
    edge(block, loop.contains[successors[0]] ? successors[0] : successors[1], found, iteration);
    for (Affine& stay : found) {
      const std::int64_t step = stay.coefficient(iteration);
      if (step <= 0) continue;
      const auto rest = sum(stay, Affine::term(iteration), -step);
      const Interval range = rest ? terms_.range(*rest) : Interval{};
      if (!range.has_low()) continue;
      last = std::min(last, std::max<std::int64_t>(0, floor_div(-range.low, step) + 1));
      stays.push_back(std::move(stay));
    }
  }
  return last;
}

}  // namespace pergola::analysis
