// Between which numbers the values of a body lie, as numbers that can be worked out at its begin (fence_numbers.h): for
// checking all addresses of an access at once (fence_hoist.h).
//
// A range is of whole numbers that equal the register modulo 2^(its bits), as in footprint_symbols.h; where an
// instruction reads the register as a signed or unsigned number (a widening, a comparison, a shift to the right, a
// division) the range must lie within the type, which is required of the body where it is not known. So a body that is
// found known has no index that wraps, and one that wraps is not known.
//
// A range holds for a value whenever a given block is executed: conditions on the way to the block narrow it. One
// without numbers (lowest above highest) says that the block is not executed.
//
// Loops: a phi that grows by steps of one sign is first + step * (how often the loop has come round), which follows
// from an exit that every round passes. That numbers do not wrap meanwhile is required too.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <vector>

#include "src/analysis/natural_loops.h"
#include "src/analysis/ssa.h"
#include "src/transform/fence_numbers.h"

namespace pergola::transform {

struct FenceRange {
  Affine low, high;
  // Every value is `anchor` and a multiple of `stride`; 0: it is the anchor.
  Affine anchor;
  std::int64_t stride = 0;
  // The same number each time; where the ends are others too, the block may not be executed.
  bool is_one() const { return stride == 0; }
  bool is_point() const { return is_one() && low == high; }
};

class FenceRanges {
 public:
  // `begin`: the statement before which the numbers are worked out; registers that are not written behind it are given.
  FenceRanges(const ptx::Function& function, const analysis::Cfg& cfg, std::uint32_t begin, FenceNumbers& numbers);

  using Range = std::optional<FenceRange>;
  // Of an operand of `statement`, whenever that is executed.
  Range operand(std::uint32_t statement, const ptx::Operand& operand);
  // No further range is found: the function is too long for what it is worth.
  bool is_spent() const { return steps_ > kMostSteps; }
  bool is_in_loop(std::uint32_t statement) const;
  bool is_reducible() const { return loops_.is_reducible; }

 private:
  using ValueId = analysis::ValueId;
  // A comparison that has come out as `holds` wherever a block is executed.
  struct Fact {
    std::uint32_t statement = 0;
    bool holds = false;
  };
  enum class Relation : std::uint8_t { kLess, kLessEqual, kUnequal, kGreaterEqual, kGreater, kOther };
  struct Comparison {
    Relation relation = Relation::kOther;
    ptx::Type type = ptx::Type::kNone;
  };
  // A value of a loop: that of a phi of its header in the same round, and `more`.
  struct FromPhi {
    ValueId phi = analysis::kNoValue;
    FenceRange more;
  };
  static constexpr unsigned kMostSteps = 20'000, kMostDepth = 200;

  // fence_ranges.cc
  Range operand_at(std::uint32_t statement, const ptx::Operand& operand, std::uint32_t where);
  Range value(ValueId id, std::uint32_t where);
  Range unnarrowed(ValueId id, std::uint32_t where);
  Range join(const analysis::SsaValue& phi);
  const ptx::Instruction& instruction(std::uint32_t statement) const {
    return *function_.body[statement].instruction();
  }
  const ptx::Instruction* definition(std::uint32_t statement, const ptx::Operand& operand) const;
  ValueId value_of(std::uint32_t statement, const ptx::Operand& operand) const;

  // fence_range_rules.cc: what each instruction makes of ranges
  Range written(const analysis::SsaValue& value, std::uint32_t where);
  Range multiplied(std::uint32_t statement, std::uint32_t where);
  Range divided(std::uint32_t statement, std::uint32_t where);
  Range quotient(std::uint32_t statement, std::uint32_t where, bool rest);
  Range bits(std::uint32_t statement, std::uint32_t where);
  Range masked(const Range& a, std::int64_t mask);
  Range set_bits(const Range& a, std::int64_t mask);
  Range converted(std::uint32_t statement, std::uint32_t where);
  Range subtracted(std::uint32_t statement, std::uint32_t where);
  Range remainder_by_hand(std::uint32_t statement, std::uint32_t where);
  Range load(std::uint32_t statement);
  Range as_number(const Range& range, ptx::Type type);
  static Range point(const Number& number);
  Range sum(const Range& a, const Range& b, std::int64_t factor = 1) const;
  Range times(const Range& a, const Range& b);
  Range hull(const Range& a, const Range& b);
  static Range between(std::int64_t low, std::int64_t high);

  // fence_range_facts.cc: what branches say
  const std::vector<Fact>& facts(std::uint32_t block);
  void imply(std::uint32_t statement, ptx::RegisterId predicate, bool holds, std::vector<Fact>& into, int depth = 0);
  void edge(std::uint32_t from, std::uint32_t to, std::vector<Fact>& into);
  static Comparison comparison(const ptx::Instruction& in, bool holds);
  static Relation mirrored(Relation relation);
  Range narrowed(ValueId id, Range range, std::uint32_t where);
  void narrow(FenceRange& range, Relation relation, const FenceRange& by);

  // fence_range_loops.cc
  // A loop goes on after a round while first + (rounds before) * step + more `relation` limit, of `phi`.
  struct Exit {
    Relation relation = Relation::kOther;
    FenceRange first, step, more, limit;
    ValueId phi = analysis::kNoValue;
    ptx::Type type = ptx::Type::kNone;
  };
  Range carried(ValueId phi);
  Range carried_unless_known(ValueId phi);
  std::optional<FromPhi> from_phi(ValueId id, const analysis::NaturalLoop& loop, int depth = 0);
  Range first_of(const analysis::SsaValue& phi, const analysis::NaturalLoop& loop);
  Range step_of(ValueId phi, const analysis::NaturalLoop& loop);
  std::vector<Fact> stays(const analysis::NaturalLoop& loop);
  std::optional<Exit> exit_of(const Fact& fact, const analysis::NaturalLoop& loop);
  bool require_exact(const Exit& exit);
  Number rounds(std::uint32_t loop);
  Number rounds_by(const Fact& fact, const analysis::NaturalLoop& loop);
  Number rounds_until_equal(const Exit& exit);
  Number last_by_exit(ValueId phi, const analysis::NaturalLoop& loop, const FenceRange& first, bool grows);

  const ptx::Function& function_;
  const analysis::Cfg& cfg_;
  analysis::Ssa ssa_;
  analysis::NaturalLoops loops_;
  FenceNumbers& numbers_;
  std::vector<bool> is_given_;  // by register
  std::map<std::pair<ValueId, std::uint32_t>, Range> known_;
  std::set<std::pair<ValueId, std::uint32_t>> open_;  // being looked for
  std::map<std::uint32_t, std::vector<Fact>> facts_;  // by block
  std::map<ValueId, Range> carried_, steps_of_;
  std::set<ValueId> open_phis_, open_steps_;
  std::map<std::uint32_t, Number> rounds_;  // by loop
  std::set<std::uint32_t> open_loops_;
  unsigned steps_ = 0, depth_ = 0;
  unsigned cuts_ = 0;  // how often what was looked for was being looked for already
};

}  // namespace pergola::transform
