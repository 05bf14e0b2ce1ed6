// The values of a kernel's registers as expressions over FootprintTerms, at one launch's values.
//
// A value is an expression that equals the register modulo 2^(its bits). as_number() turns it into one that equals the
// number which an instruction reads there, if that can be proved.
//
// Loops: a phi at a header that grows by the same number each time round is `first + step * iteration`. This is assumed
// (with no proof that nothing wraps), the number of iterations is derived from the exits, and then all of it is worked
// out again with the bounds so found: where it comes out as assumed, it holds by induction over the iterations; where
// not, the phi is unknown or the loop without bound.
#pragma once

#include <initializer_list>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "src/analysis/footprint_terms.h"
#include "src/analysis/footprints.h"
#include "src/analysis/natural_loops.h"
#include "src/analysis/ssa.h"
#include "src/ptx/signature.h"

namespace pergola::analysis {

struct KernelFootprints::Kernel {
  const ptx::Module* module = nullptr;
  const ptx::Function* entry = nullptr;     // of the module
  const ptx::Function* function = nullptr;  // the entry, or `inlined`
  ptx::Function inlined;                    // the entry with what it calls (inlined_calls.h), where it calls anything
  std::vector<bool> is_called;              // by statement of `inlined`
  Cfg cfg;
  std::unique_ptr<Ssa> ssa;
  NaturalLoops loops;
  ptx::KernelSignature signature;
  std::vector<std::uint32_t> accesses;  // statements that may access global memory, in reverse post-order
  std::string call_reason;              // a call that is not followed: footprints are pointer_modes()'; "" where none
};

using Constraints = std::vector<Affine>;  // each is at most 0

class FootprintSymbols {
 public:
  FootprintSymbols(const KernelFootprints::Kernel& kernel, const LaunchValues& values);

  // The value of `operand` as `statement` reads it, modulo 2^bits of the operand's register.
  Affine operand(std::uint32_t statement, const ptx::Operand& operand);
  // What holds whenever `statement` is executed, its guard included.
  Constraints conditions_at(std::uint32_t statement);

  FootprintTerms& terms() { return terms_; }
  std::span<const IterationBound> iteration_bounds() const { return bounds_; }
  // A loop of which no bound is known.
  bool has_bound(std::uint32_t loop) const;
  struct Base {
    AllocationId allocation = 0;
    std::uint64_t bytes = 0;
  };
  const std::vector<Base>& bases() const { return bases_; }  // by Term::index of a kBase

 private:
  struct Undo {
    bool is_condition;
    std::uint32_t id;
  };
  struct Candidate {
    ValueId phi;
    Affine first;
    std::int64_t step = 0;
    bool is_inductive = false;
  };

  // footprint_symbols.cc
  Affine value(ValueId id);
  Affine compute(ValueId id);
  Affine join(ValueId id, const SsaValue& phi);
  // What the value `chooser` is, of which no more is known than that it is one of the two.
  Affine either(const Affine& a, const Affine& b, ValueId chooser, const std::string& reason);
  void remember(ValueId id, Affine value);
  std::size_t mark() const { return undo_.size(); }
  void undo_to(std::size_t mark);
  bool is_one_term(const Affine& value) const;
  bool is_address(const Affine& value, std::uint32_t statement);
  Affine as_number(const Affine& value, ptx::Type type, std::uint32_t statement);
  Affine unknown_of(ptx::RegisterId reg, std::uint32_t statement, std::string_view why);
  Affine unknown_of(ptx::Type type, std::uint32_t statement, std::string_view why);
  std::string place(std::uint32_t statement) const;
  // Why one of them is unknown, as that is why what is made of it is; nullopt where each is known, or has no value yet.
  std::optional<std::string> origin_of(std::initializer_list<const Affine*> values) const;
  std::optional<std::string> origin_of(std::uint32_t statement, const ptx::Instruction& instruction) const;
  TermId base_of(AllocationId allocation, std::uint64_t bytes);

  // footprint_instructions.cc
  Affine instruction_value(std::uint32_t statement, ptx::RegisterId reg);
  std::optional<Affine> arithmetic(std::uint32_t statement, const ptx::Instruction& instruction, ValueId result);
  std::optional<Affine> multiply(std::uint32_t statement, const ptx::Instruction& instruction);
  std::optional<Affine> multiply_24(std::uint32_t statement, const ptx::Instruction& instruction);
  std::optional<Affine> times(const Affine& a, const Affine& b);
  std::optional<Affine> shift_right(std::uint32_t statement, const ptx::Instruction& instruction);
  std::optional<Affine> divide(std::uint32_t statement, const ptx::Instruction& instruction);
  std::optional<Affine> bitwise(std::uint32_t statement, const ptx::Instruction& instruction);
  std::optional<Affine> with_number(bool is_or, const Affine& a, std::int64_t number, std::uint32_t bits);
  std::optional<Affine> convert(std::uint32_t statement, const ptx::Instruction& instruction);
  std::optional<Affine> extreme(std::uint32_t statement, const ptx::Instruction& instruction);
  Affine loaded(std::uint32_t statement, const ptx::Instruction& instruction, ptx::RegisterId reg);
  std::optional<Affine> parameter_at(std::uint64_t offset, ptx::Type type);
  Affine special(const ptx::Operand& operand);
  Affine symbol(const ptx::Operand& operand);
  Affine converted_address(const Affine& address, bool is_to);

  // footprint_conditions.cc
  const Constraints& conditions(std::uint32_t block);
  // Adds what holds where the predicate is `holds`. In a loop's stay condition `iteration` is the loop's.
  void imply(ValueId predicate, bool holds, Constraints& into, std::optional<TermId> iteration = {});
  void imply_each(ValueId predicate, bool holds, Constraints& into, std::optional<TermId> iteration);
  void compare(std::uint32_t statement, const ptx::Instruction& instruction, bool holds, Constraints& into,
               std::optional<TermId> iteration);
  void stays_unequal(const Affine& difference, TermId iteration, std::uint32_t block, Constraints& into);
  bool is_invariant(const Affine& value, const NaturalLoop& loop) const;
  void edge(std::uint32_t from, std::uint32_t to, Constraints& into, std::optional<TermId> iteration = {});

  // footprint_loops.cc
  void resolve_loop(std::uint32_t header);
  std::vector<Candidate> candidates(const NaturalLoop& loop);
  void assume(const std::vector<Candidate>& candidates, TermId iteration);
  TermId iteration_of(std::uint32_t loop, std::int64_t last);
  bool find_steps(const NaturalLoop& loop, std::vector<Candidate>& candidates);
  bool confirm(const NaturalLoop& loop, std::vector<Candidate>& candidates, TermId iteration);
  std::int64_t last_iteration(const NaturalLoop& loop, TermId iteration, Constraints& stays);
  bool is_integer(ptx::RegisterId reg) const;

  const KernelFootprints::Kernel& kernel_;
  const LaunchValues& values_;
  FootprintTerms terms_;
  TermId thread_[3] = {}, block_[3] = {};
  std::map<std::string, TermId, std::less<>> elsewhere_of_;  // by variable
  std::map<std::pair<TermId, bool>, TermId> converted_;      // by term, and whether it was converted to the space
  std::vector<Base> bases_;
  std::unordered_map<AllocationId, TermId> base_terms_;
  std::vector<std::optional<Affine>> memo_;             // by value
  std::vector<std::optional<Constraints>> conditions_;  // by block
  std::vector<Undo> undo_;                              // what was remembered, in order
  std::vector<IterationBound> bounds_;
  std::vector<char> loop_state_;  // by loop: 0 not met, 1 without bound, 2 with one
  int optimism_ = 0;              // above 0: numbers are taken not to wrap
  int depth_ = 0;                 // of value()
  int resolved_ = 0;              // loops, each as often as that has been done
  int implied_ = 0;               // predicates looked at for one condition
};

}  // namespace pergola::analysis
