#include "src/analysis/pointer_value.h"

#include <algorithm>
#include <bit>

namespace pergola::analysis {
namespace {

using How = Contribution::How;

constexpr std::uint8_t kAll = How::kExact | How::kMangled | How::kHashed | How::kScaled | How::kPiece | How::kStrided;

// From here on a shift left may build the upper part of an address (they have 47 bits and more), and a shift right
// may take a tag off one.
constexpr unsigned kComposingShift = 16;

constexpr bool unknown(const Contribution& part) {
  return part.base.kind == Base::Kind::kUnknown;
}

// A number below this leads from no allocation to another, whatever pointers it was made of.
constexpr std::uint64_t kFewBits = 0xff;

// What is not exact is not lone.
constexpr std::uint8_t settled(std::uint8_t how) {
  return static_cast<std::uint8_t>((how & How::kExact) != 0 ? how : how & ~How::kLone);
}

// Moves the bits of `how` that are in `from` to `to`.
constexpr std::uint8_t turn(std::uint8_t how, std::uint8_t from, std::uint8_t to) {
  return settled(static_cast<std::uint8_t>((how & from) != 0 ? (how & ~from) | to : how));
}

// Shared memory's addresses fit 32 bits, so cutting one to 32 bits leaves it whole.
constexpr bool is_short(const Contribution& part) {
  return part.base.kind == Base::Kind::kShared;
}

}  // namespace

Value Value::integer() {
  Value value;
  value.defined_ = value.plain_ = true;
  return value;
}

Value Value::null() {
  Value value;
  value.defined_ = value.null_ = true;
  return value;
}

Value Value::exact(Base base, std::int64_t offset) {
  Value value;
  value.defined_ = true;
  value.parts_.push_back({base, How::kExact | How::kLone, base.kind == Base::Kind::kObject ? offset : 0, 0});
  return value;
}

Value Value::piece(Base base) {
  Value value = exact(base);
  value.parts_[0].how = How::kPiece;
  value.loose_ = true;
  return value;
}

Value Value::loaded(std::uint32_t bytes, std::uint32_t origin) {
  Value value = bytes >= 8 ? exact(Base{}) : piece(Base{});
  value.parts_[0].origin = origin;
  return value;
}

Value Value::top(std::uint32_t origin) {
  Value value = loaded(8, origin);
  value.collapse();
  return value;
}

void Value::collapse() {
  std::uint32_t origin = 0;
  for (const Contribution& part : parts_) {
    if (unknown(part)) origin = part.origin;
  }
  parts_.clear();
  parts_.push_back({Base{}, kAll, 0, origin});
  defined_ = top_ = plain_ = loose_ = true;
}

bool Value::is_narrow() const {
  return defined_ && !parts_.empty() &&
         std::all_of(parts_.begin(), parts_.end(), [](const Contribution& p) { return p.how == How::kPiece; });
}

bool Value::has_exact() const {
  return std::any_of(parts_.begin(), parts_.end(), [](const Contribution& p) { return (p.how & How::kExact) != 0; });
}

boost::container::small_vector<Contribution, 4> Value::targets() const {
  boost::container::small_vector<Contribution, 4> result;
  for (const Contribution& part : parts_) {
    if ((part.how & Contribution::kAddress) != 0 || loose_) result.push_back(part);
  }
  return result;
}

bool Value::insert(const Contribution& part) {
  const auto at = std::lower_bound(parts_.begin(), parts_.end(), part,
                                   [](const Contribution& a, const Contribution& b) { return a.base < b.base; });
  if (at == parts_.end() || at->base != part.base) {
    parts_.insert(at, part);
    return true;
  }
  const std::uint8_t how = at->how | part.how;
  const std::int64_t offset = at->offset == part.offset ? part.offset : kAnyOffset;
  const bool changed = how != at->how || offset != at->offset;
  at->how = how;
  at->offset = offset;
  return changed;
}

bool Value::merge(const Value& other) {
  if (other.is_bottom() || top_) return false;
  if (other.top_) {
    *this = other;
    return true;
  }
  bool changed = !defined_ || (other.plain_ && !plain_) || (other.loose_ && !loose_) || (other.null_ && !null_) ||
                 (other.nullable_ && !nullable_);
  defined_ = true;
  null_ |= other.null_;
  nullable_ |= other.nullable_;
  plain_ |= other.plain_;
  loose_ |= other.loose_;
  for (const Contribution& part : other.parts_) changed |= insert(part);
  if (parts_.size() > kMaxParts) collapse();
  return changed;
}

// What is scaled is an index no more, since what it is added to may be a null.
void Value::follow_scaled() {
  for (Contribution& part : parts_) {
    if ((part.how & How::kScaled) != 0) part.how |= unknown(part) ? How::kHashed : How::kMangled;
  }
}

void Value::forget_offsets() {
  for (Contribution& part : parts_) {
    if (part.base.kind == Base::Kind::kObject) part.offset = kAnyOffset;
  }
}

// The value with each contribution's `how` replaced by change(part); alternatives keep their shape as far as exact
// bases survive.
template <typename Change>
Value Value::mapped(Change change) const {
  if (top_) return *this;
  Value value = *this;
  for (Contribution& part : value.parts_) {
    const std::uint8_t how = settled(change(part));
    if ((part.how & How::kExact) != 0 && (how & How::kExact) == 0) value.loose_ = true;
    if (part.base.kind == Base::Kind::kObject && (how & ~How::kExact) != 0) part.offset = kAnyOffset;
    part.how = how;
  }
  return value;
}

Value add(const Value& a, const Value& b, std::optional<std::uint64_t> b_constant) {
  if (a.is_bottom() || b.is_bottom()) return {};
  if (a.is_top()) return a;
  if (b.is_top()) return b;
  Value sum = a;
  if (b_constant && b.parts_.empty()) {
    if (*b_constant != 0 && sum.null_) {
      sum.null_ = false;
      sum.plain_ = true;
    }
    for (Contribution& part : sum.parts_) {
      if (part.base.kind != Base::Kind::kObject || part.offset == kAnyOffset) continue;
      part.offset = static_cast<std::int64_t>(static_cast<std::uint64_t>(part.offset) + *b_constant);
    }
    return sum;
  }
  sum.forget_offsets();
  Value other = b;
  other.forget_offsets();
  const auto keep_lone_beside = [](Value& one, const Value& beside) {
    if (beside.may_lack_exact()) return;
    for (Contribution& part : one.parts_) part.how &= static_cast<std::uint8_t>(~How::kLone);
  };
  keep_lone_beside(sum, b);
  keep_lone_beside(other, a);
  if (a.nullable_) other.follow_scaled();
  if (b.nullable_) sum.follow_scaled();
  for (const Contribution& part : other.parts_) {
    // n*3 - n*2 is n again: what is scaled on both sides may not be ignored. (Two loads are two different n.)
    for (Contribution& mine : sum.parts_) {
      if (mine.base == part.base && !unknown(part) && (mine.how & part.how & How::kScaled) != 0) {
        mine.how |= How::kMangled;
      }
    }
    sum.insert(part);
  }
  sum.loose_ = (a.loose_ && (b.loose_ || b.is_bare())) || (b.loose_ && a.is_bare());
  sum.plain_ = (a.plain_ && b.is_bare()) || (a.is_bare() && b.plain_);
  sum.null_ = a.null_ && b.null_;
  sum.nullable_ = a.nullable_ || b.nullable_;
  if (sum.parts_.size() > Value::kMaxParts) sum.collapse();
  return sum;
}

Value subtract(const Value& a, const Value& b, std::optional<std::uint64_t> b_constant) {
  if (b_constant && b.parts_.empty()) return add(a, b, std::uint64_t{0} - *b_constant);
  // Difference of pointers: an integer that carries one to the other, so both stay where it may point.
  const bool difference = b.has_exact();
  Value left = a, right = b;
  if (difference) {
    left = a.mapped([](const Contribution& part) {
      return static_cast<std::uint8_t>(part.how | ((part.how & How::kExact) != 0 ? How::kMangled : 0));
    });
  }
  right = b.mapped([](const Contribution& part) { return turn(part.how, How::kExact | How::kHashed, How::kMangled); });
  return add(left, right, std::nullopt);
}

Value scale(const Value& a, std::optional<std::uint64_t> factor, unsigned bits) {
  if (a.is_bottom() || (factor && *factor == 1)) return a;
  if (factor && *factor == 0) return Value::null();
  const bool negates = factor && *factor == ~std::uint64_t{0};
  const std::uint64_t magnitude = factor ? std::min(*factor, std::uint64_t{0} - *factor) : 0;
  const bool is_large = bits > 32 && magnitude >> kComposingShift != 0;
  const bool composes = is_large && std::has_single_bit(magnitude);
  return a.mapped([&](const Contribution& part) {
    std::uint8_t how = part.how;
    if (negates) return turn(how, How::kExact | How::kHashed, How::kMangled);
    // A parameter costs nothing to name, so a product with a run-time number still names it, and one with a number
    // that may take an earlier factor back.
    if (composes || (is_large && !unknown(part))) {
      how = turn(how, How::kScaled | How::kPiece | How::kStrided | How::kHashed, How::kMangled);
    }
    if (!factor && !unknown(part)) return turn(how, How::kExact, How::kMangled);
    const std::uint8_t pieces = how & (How::kPiece | How::kStrided);
    how = turn(how & ~pieces, How::kExact | How::kHashed, How::kScaled);
    // 32 bits times a large number that is no power of two: a hash, or the upper half of an address.
    return static_cast<std::uint8_t>(how | (pieces == 0 ? 0 : is_large ? How::kHashed : How::kStrided));
  });
}

Value shift_right(const Value& a, std::optional<std::uint64_t> amount) {
  if (a.is_bottom() || (amount && *amount == 0)) return a;
  return a.mapped([&](const Contribution& part) {
    if (unknown(part) && amount && *amount >= 32) return static_cast<std::uint8_t>(How::kPiece);
    if (unknown(part) && amount && *amount >= kComposingShift) {
      return turn(part.how, How::kExact | How::kMangled | How::kScaled, How::kHashed);
    }
    return turn(part.how, How::kExact | How::kHashed | How::kScaled, How::kMangled);
  });
}

Value mask(const Value& a, std::uint64_t constant) {
  if (a.is_bottom()) return a;
  constexpr std::uint64_t kPointerBits = 0x00007fffffff0000;  // what alignment and untagging leave alone
  if ((constant & kPointerBits) == kPointerBits) {
    Value aligned = a;
    if (!aligned.is_top()) aligned.forget_offsets();
    return aligned;
  }
  if (constant <= kFewBits) {
    return a.mapped([](const Contribution&) { return static_cast<std::uint8_t>(How::kPiece); });
  }
  if (constant <= 0xffffffffu) return truncate(a);
  const Value operands[] = {a};
  return mix(operands, Value::Mix::kBitwise);
}

Value mix(std::span<const Value> operands, Value::Mix kind) {
  Value result = Value::integer();
  for (const Value& operand : operands) {
    if (operand.is_bottom()) return {};
  }
  for (const Value& operand : operands) {
    if (operand.is_top()) return operand;
    for (Contribution part : operand.parts_) {
      if (unknown(part) && kind == Value::Mix::kQuotient) {
        part.how = turn(part.how, How::kExact | How::kMangled | How::kScaled, How::kHashed);
      } else if (unknown(part) && kind == Value::Mix::kFloat) {
        part.how = How::kHashed;  // a piece of a double is wider than it was
      } else if (kind == Value::Mix::kFloat) {
        part.how = turn(part.how, How::kExact | How::kScaled, How::kPiece);
      } else if (kind == Value::Mix::kBitwise) {
        part.how = turn(part.how, How::kExact, unknown(part) ? How::kHashed : How::kMangled);
      } else {
        part.how = turn(part.how, How::kExact | How::kHashed | How::kScaled, How::kMangled);
      }
      if (part.base.kind == Base::Kind::kObject) part.offset = kAnyOffset;
      result.insert(part);
    }
    result.plain_ &= operand.is_bare();
  }
  result.loose_ = !result.parts_.empty();
  if (result.parts_.size() > Value::kMaxParts) result.collapse();
  return result;
}

Value truncate(const Value& a) {
  if (a.is_bottom()) return a;
  return a.mapped([](const Contribution& part) {
    if (is_short(part)) return part.how;
    if (unknown(part)) return static_cast<std::uint8_t>(How::kPiece);
    return turn(part.how, How::kExact | How::kScaled | How::kStrided, How::kPiece);
  });
}

Value pack(std::span<const Value> elements, unsigned bits) {
  Value result = Value::integer();
  bool upper = false;  // whether anything but a bare integer stands above the lowest element
  for (std::size_t i = 0; i < elements.size(); ++i) {
    if (elements[i].is_bottom()) return {};
    if (elements[i].is_top()) return elements[i];
    upper |= i > 0 && !elements[i].parts_.empty();
  }
  for (const Value& element : elements) {
    for (Contribution part : element.parts_) {
      if (bits > 32 && upper) part.how = How::kMangled;
      if (bits > 64) part.how = How::kMangled;
      if (part.base.kind == Base::Kind::kObject) part.offset = kAnyOffset;
      result.insert(part);
    }
    result.plain_ &= element.is_bare();
  }
  result.loose_ = !result.parts_.empty();
  if (result.parts_.size() > Value::kMaxParts) result.collapse();
  return result;
}

Value fragment(const Value& a, std::uint32_t stored_bytes, std::uint32_t loaded_bytes) {
  if (a.is_bottom()) return a;
  if (loaded_bytes <= 4) return truncate(a);
  if (stored_bytes == loaded_bytes) {
    const Value operands[] = {a};
    const Value mixed = mix(operands, Value::Mix::kOther);
    return mixed.mapped(
        [](const Contribution& part) { return turn(part.how, How::kPiece | How::kStrided, How::kMangled); });
  }
  return a.mapped([](const Contribution&) { return static_cast<std::uint8_t>(How::kMangled); });
}

}  // namespace pergola::analysis
