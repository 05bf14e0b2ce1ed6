#include "src/transform/fence_ranges.h"

#include <algorithm>

#include "src/ptx/semantics.h"

namespace pergola::transform {

using analysis::kNoLoop;
using analysis::kNoValue;
using analysis::SsaValue;
using ptx::Instruction;
using ptx::Operand;

FenceRanges::FenceRanges(const ptx::Function& function, const analysis::Cfg& cfg, std::uint32_t begin,
                         FenceNumbers& numbers)
    : function_(function),
      cfg_(cfg),
      ssa_(function, cfg),
      loops_(analysis::natural_loops(cfg)),
      numbers_(numbers),
      is_given_(function.registers.size()) {
  for (std::uint32_t s = 0; s < function.body.size(); ++s) {
    const Instruction* in = function.body[s].instruction();
    if (in == nullptr) continue;
    ptx::for_each_register(*in, [&](ptx::RegisterId id, bool is_written) {
      if (is_written) is_given_[id] = s < begin;
    });
  }
}

bool FenceRanges::is_in_loop(std::uint32_t statement) const {
  const std::uint32_t block = ssa_.block_of(statement);
  return std::any_of(loops_.loops.begin(), loops_.loops.end(),
                     [&](const analysis::NaturalLoop& loop) { return loop.contains[block]; });
}

FenceRanges::Range FenceRanges::operand(std::uint32_t statement, const Operand& operand) {
  return operand_at(statement, operand, ssa_.block_of(statement));
}

FenceRanges::Range FenceRanges::operand_at(std::uint32_t statement, const Operand& operand, std::uint32_t where) {
  switch (operand.kind) {
    case Operand::Kind::kInteger: {
      const auto number = static_cast<std::int64_t>(operand.bits);
      if (number > FenceNumbers::kMost || number < -FenceNumbers::kMost) return std::nullopt;
      return point(Affine::number(number));
    }
    case Operand::Kind::kSpecial: return operand.special == ptx::Special::kLaneid ? between(0, 31) : std::nullopt;
    case Operand::Kind::kRegister: {
      const ValueId id = value_of(statement, operand);
      return id == kNoValue ? std::nullopt : value(id, where);
    }
    default: return std::nullopt;
  }
}

FenceRanges::ValueId FenceRanges::value_of(std::uint32_t statement, const Operand& operand) const {
  if (operand.kind != Operand::Kind::kRegister || operand.component >= 0) return kNoValue;
  return ssa_.read(statement, operand.reg);
}

// The one instruction that has made what `statement` reads there; null where there are several, or it may not have.
const Instruction* FenceRanges::definition(std::uint32_t statement, const Operand& operand) const {
  const ValueId id = value_of(statement, operand);
  if (id == kNoValue || ssa_.value(id).kind != SsaValue::Kind::kWrite) return nullptr;
  const Instruction& in = instruction(ssa_.value(id).statement);
  return in.guard.present() ? nullptr : &in;
}

FenceRanges::Range FenceRanges::value(ValueId id, std::uint32_t where) {
  const auto key = std::pair(id, where);
  if (const auto found = known_.find(key); found != known_.end()) return found->second;
  if (++steps_ > kMostSteps || depth_ > kMostDepth) return std::nullopt;
  if (!open_.insert(key).second) {
    ++cuts_;
    return std::nullopt;
  }
  const unsigned cuts = cuts_;
  ++depth_;
  Range range = unnarrowed(id, where);
  if (range) range = narrowed(id, range, where);
  --depth_;
  open_.erase(key);
  // What has not been found because something else is being looked for may be found later.
  if (range || cuts == cuts_) known_.emplace(key, range);
  return range;
}

FenceRanges::Range FenceRanges::unnarrowed(ValueId id, std::uint32_t where) {
  const SsaValue& value = ssa_.value(id);
  const ptx::Register& declared = function_.registers[value.reg];
  const std::uint32_t bytes = ptx::size_bytes(declared.type);
  if (declared.vector != 1 || declared.type == ptx::Type::kPred || ptx::is_float(declared.type) ||
      (bytes != 4 && bytes != 8))
    return std::nullopt;
  if (is_given_[value.reg]) return point(numbers_.given(value.reg, declared));
  if (value.kind == SsaValue::Kind::kPhi)
    return loops_.loop_of_header[value.block] != kNoLoop ? carried(id) : join(value);
  if (!instruction(value.statement).guard.present()) return written(value, where);
  return value.old == kNoValue ? std::nullopt : hull(this->value(value.old, where), written(value, where));
}

// Each value of a phi is what it is at the end of the block that it comes from.
FenceRanges::Range FenceRanges::join(const SsaValue& phi) {
  const auto& from = cfg_.blocks[phi.block].predecessors;
  Range joined;
  bool is_first = true;
  for (std::size_t n = 0; n < from.size(); ++n) {
    if (phi.operands[n] == kNoValue) return std::nullopt;  // nobody has written it on that way: it may be anything
    const Range other = value(phi.operands[n], from[n]);
    joined = is_first ? other : hull(joined, other);
    is_first = false;
    if (!joined) return std::nullopt;
  }
  return joined;
}

}  // namespace pergola::transform
