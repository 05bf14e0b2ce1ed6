// Numbers that a body works out at its begin, before any of its accesses: sums over registers of 64 bits, as PTX that
// computes them once, each with bounds that are known when the body is made (fence_hoist.h).
//
// Every number lies within 3 * 2^61 of zero, which a product of 32 bits does, and so does every part of every sum that
// is written: arithmetic of 64 bits is arithmetic of whole numbers here. What could be larger is no number (nullopt).
#pragma once

#include <algorithm>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "src/analysis/affine.h"
#include "src/ptx/module.h"

namespace pergola::transform {

using analysis::Affine;
using analysis::Interval;
using Number = std::optional<Affine>;

// What divides every value of an expression; 0: it is 0.
std::int64_t divisor_of(const Affine& a);

class FenceNumbers {
 public:
  static constexpr std::int64_t kMost = std::int64_t{3} << 61;
  // Addresses and whole numbers of 64 bits that are given are less than that, or the body is not known (require()).
  static constexpr std::int64_t kMostGiven = std::int64_t{1} << 49;

  // The register as the body has it at its begin; one of 32 bits as a signed number.
  Number given(ptx::RegisterId id, const ptx::Register& declared);
  // What lies in the parameter block: `load` is an instruction of the body that goes by a given register.
  Number loaded(const ptx::Instruction& load);

  Number sum(const Affine& a, const Affine& b, std::int64_t factor = 1) const;
  Number scaled(const Affine& a, std::int64_t factor) const { return sum({}, a, factor); }
  Number product(const Affine& a, const Affine& b);
  Number least(const Affine& a, const Affine& b) { return extreme("min", a, b); }
  Number greatest(const Affine& a, const Affine& b) { return extreme("max", a, b); }
  Number shifted_right(const Affine& a, std::uint32_t by);  // rounded down
  Number masked(const Affine& a, std::int64_t mask);
  // Of numbers in 0 .. 2^32 - 1, a divisor above 0: require() says so. `rest`: what is left over.
  Number quotient(const Affine& a, const Affine& b, bool rest = false);

  // The body is known only where this is at least 0. False: it never is.
  bool require(const Affine& a);
  // The same number as a term of its own, where its parts may be much larger than it is required to be: sums of them
  // would not do.
  Affine settled(const Affine& a);
  bool is_settled(const Affine& a) const;
  // ... and where that is a multiple of `of`, a power of two.
  bool require_multiple(const Affine& a, std::int64_t of);

  // Between which numbers it lies where the body is known: what has been required counts.
  Interval range(const Affine& a) const;
  // Whether a >= b whatever the numbers are; false: it is not known.
  bool is_at_least(const Affine& a, const Affine& b) const;
  bool is_pointer(analysis::TermId term) const { return terms_[term].is_pointer; }

  // What has been written so far: text that computes into registers which it declares, and combines what is required
  // into %pergola_fence_known. `name` of a number is a register of the text or a literal.
  std::string name(const Affine& a);
  void write(std::string_view text) { text_ += text; }
  std::string fresh(std::string_view type = "b64");  // another register of the text
  std::string text() const;
  std::vector<std::pair<std::string, ptx::RegisterId>> arguments() const;  // registers of the function that it names
  std::size_t instructions() const { return static_cast<std::size_t>(std::count(text_.begin(), text_.end(), ';')); }

 private:
  struct Term {
    std::string name;
    Interval range;
    bool is_pointer = false;
    enum class Kind : std::uint8_t { kOther, kLeast, kGreatest } kind = Kind::kOther;
    Affine a, b;  // of the last two, what it is the least or the greatest of
  };
  Number extreme(const char* which, const Affine& a, const Affine& b);
  // A term for `text`, which has {} in place of the register that it writes.
  Affine term(const std::string& text, const Interval& range, bool is_pointer = false);
  Affine widened(const std::string& name, ptx::Type type, const Interval& range);
  std::string argument(ptx::RegisterId id);
  bool is_small(const Affine& a) const;
  std::int64_t lowest(const Affine& a, int depth) const;

  std::vector<Term> terms_;
  std::vector<std::pair<std::string, ptx::RegisterId>> arguments_;
  std::map<std::string, analysis::TermId> of_text_;
  std::map<std::string, std::string> of_sum_;
  std::map<std::string, bool> required_;
  std::map<std::string, Interval> bounds_;  // that are required, of sums without their constants
  std::string text_, declared_;
  unsigned registers_ = 0;
};

}  // namespace pergola::transform
