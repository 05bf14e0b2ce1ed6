// What a register may hold, as far as pointers go: the domain of the dataflow behind pointer_modes.
//
// A value is a set of *alternatives* (phi, select, memory cells). Each alternative is a sum of contributions, and each
// contribution says where it comes from (its base) and what has been done to it:
//
//   exact    the pointer itself, with coefficient one: p, p + 4*i, a select between p and q
//   lone     beside exact: in some alternative no other base is exact. Of a select p and q are, of p + q neither
//   mangled  a pointer that went through other arithmetic: p ^ k, p - q, (p << 16) >> 16, two halves put together
//   hashed   something from memory that went through and/or/xor; as mangled, until it is scaled
//   scaled   multiplied by two or more, or shifted left: n * 4. No pointer any more, and nothing that turns back into
//            one but a right shift or a large factor (its inverse), which make it mangled
//   piece    at most 32 bits of it: a loaded int, the low half of a pointer
//   strided  a piece that was multiplied by two or more: 4 * i
//
// Where may such a value point? To every exact, mangled and hashed base. The others count only in an alternative that
// has no exact base: `x + 4 * n` is into x, whatever n is, since the C rule is that arithmetic on a pointer stays in
// its array; but `4 * n` alone may be anything n was made from. The base kUnknown stands for what came out of memory
// that is not tracked: it may be any address, so a pointer that may be based on it is universal.
//
// Why integers out of memory are taken as integers only when they show it: `table[i] + n` (a loaded pointer plus a
// scalar parameter) and `x + offset[i]` look the same, so a loaded 64-bit value added to a base is universal, also
// after a right shift, a division or a conversion (`(tagged[i] >> 16) + n`); one that was scaled to elements or has 32
// bits is an index. Two pieces put together (pack, shift left by 16 or more) are an address again.
//
// An alternative without any base is a null (the constant 0) or another number. A null is not followed, so a pointer
// that may be one is only *nullable*; then what is added to it may be the address instead: `(c ? x : 0) + (c ? 0 : q)`,
// and what is scaled out of a 64-bit value counts as one.
//
//   merge (phi, memory)  the union of alternatives; monotone, so the fixpoint is least whatever the order
//   bottom               not computed yet: an operation with a bottom operand gives bottom
//   top                  more than kMaxParts bases: anything, including every local object; absorbs all
#pragma once

#include <boost/container/small_vector.hpp>
#include <cstdint>
#include <limits>
#include <optional>
#include <span>

namespace pergola::analysis {

struct Base {
  enum class Kind : std::uint8_t {
    kUnknown,    // index: none
    kParameter,  // index: into the table of (parameter, offset) places
    kVariable,   // index: of a module .global or .const variable
    kShared,     // any shared memory
    kObject,     // index: of a stack object or call parameter, whose content is tracked
    kFunction,   // index: of a function of the module
    kFresh,      // memory the kernel itself allocated
  };
  Kind kind = Kind::kUnknown;
  std::uint32_t index = 0;
  auto operator<=>(const Base&) const = default;
};

inline constexpr std::int64_t kAnyOffset = std::numeric_limits<std::int64_t>::min();

struct Contribution {
  enum How : std::uint8_t { kExact = 1, kMangled = 2, kHashed = 4, kScaled = 8, kPiece = 16, kStrided = 32, kLone = 64 };
  static constexpr std::uint8_t kAddress = kExact | kMangled | kHashed;

  Base base;
  std::uint8_t how = 0;           // a set: alternatives may differ
  std::int64_t offset = 0;        // kObject only: bytes from its start, kAnyOffset where not constant
  std::uint32_t origin = 0;       // kUnknown only: who brought it in, for the reason; no part of the value

  bool is_only_exact() const { return (how & ~kLone) == kExact; }
};

class Value {
 public:
  static constexpr std::size_t kMaxParts = 64;

  Value() = default;  // bottom
  static Value integer();
  static Value null();  // the constant 0, or what nobody wrote
  static Value exact(Base base, std::int64_t offset = 0);
  static Value piece(Base base);
  // What a load of `bytes` from untracked memory gives: an address where it has eight bytes or more, else a piece.
  static Value loaded(std::uint32_t bytes, std::uint32_t origin);
  static Value top(std::uint32_t origin);

  bool is_bottom() const { return !defined_; }
  bool is_top() const { return top_; }
  bool has_exact() const;
  // One alternative is a bare number other than a null.
  bool may_be_number() const { return plain_; }
  // One alternative is made of bases, but has none that is exact: bits of pointers, put together by arithmetic.
  bool may_be_composed() const { return loose_; }
  // At most 32 bits wide, as far as it is known.
  bool is_narrow() const;
  std::span<const Contribution> parts() const { return {parts_.data(), parts_.size()}; }
  // The bases this value may point at; empty for a bare integer.
  boost::container::small_vector<Contribution, 4> targets() const;
  // A null in a pointer is never followed: forgets that alternative, but for what may be added to it.
  void assume_not_null() {
    nullable_ |= null_;
    null_ = false;
  }

  // Joins `other` in; true where this changed.
  bool merge(const Value& other);

  friend Value add(const Value& a, const Value& b, std::optional<std::uint64_t> b_constant);
  friend Value subtract(const Value& a, const Value& b, std::optional<std::uint64_t> b_constant);
  // a * factor, or a times something unknown where there is no factor; `bits` is the result's width.
  friend Value scale(const Value& a, std::optional<std::uint64_t> factor, unsigned bits);
  friend Value shift_right(const Value& a, std::optional<std::uint64_t> amount);
  friend Value mask(const Value& a, std::uint64_t constant);

  // a ? b : c and the like is merge; these are for the rest. Each takes all operands of the instruction.
  enum class Mix : std::uint8_t {
    kBitwise,   // and, or, xor
    kOther,     // anything that is not told apart
    kQuotient,  // div, rem, integer to float
    kFloat,     // float arithmetic: a parameter that was not mangled before is a number afterwards
  };
  friend Value mix(std::span<const Value> operands, Mix kind);
  friend Value truncate(const Value& a);                       // to 32 bits or less
  friend Value pack(std::span<const Value> elements, unsigned bits);  // {lo, hi}: first element lowest
  // What an overlapping but different access of a tracked cell sees.
  friend Value fragment(const Value& a, std::uint32_t stored_bytes, std::uint32_t loaded_bytes);

 private:
  template <typename Change>
  Value mapped(Change change) const;
  bool insert(const Contribution& part);
  bool is_bare() const { return plain_ || null_; }
  bool may_lack_exact() const { return plain_ || null_ || nullable_ || loose_; }
  void follow_scaled();
  void forget_offsets();
  void collapse();

  boost::container::small_vector<Contribution, 2> parts_;  // sorted by base
  bool defined_ = false;
  bool top_ = false;
  bool null_ = false;      // one alternative is the constant 0
  bool nullable_ = false;  // what is added to this may have been added to a null instead
  bool plain_ = false;     // one alternative is another bare integer
  bool loose_ = false;     // one alternative has contributions but no exact base
};

Value add(const Value& a, const Value& b, std::optional<std::uint64_t> b_constant);
Value subtract(const Value& a, const Value& b, std::optional<std::uint64_t> b_constant);
Value scale(const Value& a, std::optional<std::uint64_t> factor, unsigned bits);
Value shift_right(const Value& a, std::optional<std::uint64_t> amount);
Value mask(const Value& a, std::uint64_t constant);
Value mix(std::span<const Value> operands, Value::Mix kind);
Value truncate(const Value& a);
Value pack(std::span<const Value> elements, unsigned bits);
Value fragment(const Value& a, std::uint32_t stored_bytes, std::uint32_t loaded_bytes);

}  // namespace pergola::analysis
