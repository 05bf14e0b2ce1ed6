// The unknowns of address expressions, for one kernel at one launch's values.
//
// Launch values are numbers here (paper 001, III-B: "known at kernel-launch-time"); what is left are a thread's and a
// block's index, how often a loop has come round, and what arithmetic or memory makes of them. Each term has bounds
// that hold in the whole launch; for a given block, tighter ones follow from its definition.
#pragma once

#include <boost/container/small_vector.hpp>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "src/analysis/affine.h"
#include "src/analysis/launch_footprint.h"
#include "src/base/function_ref.h"

namespace pergola::analysis {

struct Term {
  enum class Kind : std::uint8_t {
    kThread,     // %tid of axis `index`
    kBlock,      // %ctaid of axis `index`
    kIteration,  // how often the header of loop `index` has run since the loop was entered, less one
    kBase,       // where allocation `index` lies: no bounds
    kElsewhere,  // an address in shared, local or parameter memory: no bounds
    kUnknown,    // `reason` says whence; whatever its bounds allow
    kMin,
    kMax,       // of a and b
    kEither,    // a or b, as the value `index` of the function chose
    kQuotient,  // a / divisor, rounded down
    kProduct,   // a * b
    kAnd,
    kOr,
    kXor,        // of a, which is not negative, and the number `divisor`, bit by bit
    kRemainder,  // what a quotient leaves over, in place of a thread index (footprint_accesses.h)
  };
  Kind kind = Kind::kUnknown;
  std::uint32_t index = 0;
  std::int64_t divisor = 1;
  Affine a, b;
  Interval range;            // in the whole launch
  Interval range_of_a;       // kAnd kOr kXor: in the whole launch
  bool is_by_block = false;  // tighter bounds follow from the block's index
  std::string reason;
};

// At iteration k - 1 of the loop `stay` <= 0 held where iteration k came to be.
struct IterationBound {
  TermId iteration = 0;
  Affine stay;
};

class FootprintTerms {
 public:
  TermId add(Term term);
  const Term& operator[](TermId id) const { return terms_[id]; }
  Term& at(TermId id) { return terms_[id]; }
  std::size_t size() const { return terms_.size(); }

  // Found again where there is one already.
  Affine quotient(const Affine& a, std::int64_t divisor);
  Affine combined(Term::Kind kind, const Affine& a, const Affine& b);  // kMin kMax kProduct
  // kAnd kOr kXor of `a` and a number of 0 to 2^61 - 1, also where they are residues modulo 2^bits and the number is
  // less than that. nullopt where `a` has no bounds, or far ones.
  std::optional<Affine> with_bits(Term::Kind kind, const Affine& a, std::int64_t number);
  // Two choices between the same two are not the same choice: `chooser` tells them apart.
  Affine either(const Affine& a, const Affine& b, std::uint32_t chooser);
  Affine unknown(Interval range, std::string reason);

  // Bounds in the whole launch, where every one of `constraints` (each at most 0) holds.
  Interval range(const Affine& a) const;
  Interval range(const Affine& a, std::span<const Affine> constraints) const;
  bool depends_on_block(const Affine& a) const;
  // The first unknown term in `a`, also as an operand of another term; nullptr where there is none.
  const Term* find_unknown(const Affine& a) const;
  // The first term in `a` that is found, also as an operand of one whose operands are looked at. Each is visited once:
  // terms are a graph, in which there may be exponentially many ways to one.
  enum class Visit : std::uint8_t { kFound, kPass, kOperands };
  const Term* find_if(const Affine& a, FunctionRef<Visit(const Term&)> visit) const;

 private:
  Affine combined(Term::Kind kind, const Affine& a, const Affine& b, std::uint32_t index);
  std::int64_t upper(const Affine& a, std::span<const Affine> constraints, int depth) const;

  std::vector<Term> terms_;
};

// Bounds of terms in one block. Not thread-safe; made once for a launch, and moved from block to block.
class BlockRanges {
 public:
  BlockRanges(const FootprintTerms& terms, std::span<const IterationBound> bounds) : terms_(terms), bounds_(bounds) {
    known_.resize(terms.size());
    ranges_.resize(terms.size());
  }
  void enter(const std::uint32_t (&block)[3]);
  const Interval& of(TermId id);
  Interval of(const Affine& a);

 private:
  Interval compute(TermId id);

  const FootprintTerms& terms_;
  std::span<const IterationBound> bounds_;
  std::uint32_t block_[3] = {0, 0, 0};
  std::uint32_t visit_ = 0;
  std::vector<std::uint32_t> known_;  // the visit at which ranges_ was found
  std::vector<Interval> ranges_;
};

}  // namespace pergola::analysis
