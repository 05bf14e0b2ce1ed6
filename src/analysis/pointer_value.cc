#include "src/analysis/pointer_value.h"

#include <algorithm>
#include <bit>

namespace pergola::analysis {
namespace {

using How = Contribution::How;

constexpr std::uint8_t kAll = How::kExact | How::kMangled | How::kHashed | How::kScaled | How::kPiece;

// From here on a shift left may build the upper part of an address (they have 47 bits and more).
constexpr unsigned kComposingShift = 16;

constexpr bool unknown(const Contribution& part) {
  return part.base.kind == Base::Kind::kUnknown;
}

// A number below this leads from no allocation to another, whatever pointers it was made of.
constexpr std::uint64_t kFewBits = 0xff;

// Moves the bits of `how` that are in `from` to `to`.
constexpr std::uint8_t turn(std::uint8_t how, std::uint8_t from, std::uint8_t to) {
  return static_cast<std::uint8_t>((how & from) != 0 ? (how & ~from) | to : how);
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

Value Value::exact(Base base, std::int64_t offset) {
  Value value;
  value.defined_ = true;
  value.parts_.push_back({base, How::kExact, base.kind == Base::Kind::kObject ? offset : 0, 0});
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
  bool changed = !defined_ || (other.plain_ && !plain_) || (other.loose_ && !loose_);
  defined_ = true;
  plain_ |= other.plain_;
  loose_ |= other.loose_;
  for (const Contribution& part : other.parts_) changed |= insert(part);
  if (parts_.size() > kMaxParts) collapse();
  return changed;
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
    const std::uint8_t how = change(part);
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
    for (Contribution& part : sum.parts_) {
      if (part.base.kind != Base::Kind::kObject || part.offset == kAnyOffset) continue;
      part.offset = static_cast<std::int64_t>(static_cast<std::uint64_t>(part.offset) + *b_constant);
    }
    return sum;
  }
  sum.forget_offsets();
  Value other = b;
  other.forget_offsets();
  for (const Contribution& part : other.parts_) {
    // n*3 - n*2 is n again: what is scaled on both sides may not be ignored. (Two loads are two different n.)
    for (Contribution& mine : sum.parts_) {
      if (mine.base == part.base && !unknown(part) && (mine.how & part.how & How::kScaled) != 0) {
        mine.how |= How::kMangled;
      }
    }
    sum.insert(part);
  }
  sum.loose_ = (a.loose_ && (b.loose_ || b.plain_)) || (b.loose_ && a.plain_);
  sum.plain_ = a.plain_ && b.plain_;
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
  if (factor && *factor == 0) return Value::integer();
  const bool negates = factor && *factor == ~std::uint64_t{0};
  const std::uint64_t magnitude = factor ? std::min(*factor, std::uint64_t{0} - *factor) : 0;
  const bool composes = bits > 32 && std::has_single_bit(magnitude) && magnitude >> kComposingShift != 0;
  return a.mapped([&](const Contribution& part) {
    std::uint8_t how = part.how;
    if (negates) return turn(how, How::kExact | How::kHashed, How::kMangled);
    if (composes) how = turn(how, How::kScaled | How::kPiece | How::kHashed, How::kMangled);
    // A parameter costs nothing to name, so a product with a run-time number still names it.
    if (!factor && !unknown(part)) return turn(how, How::kExact, How::kMangled);
    return turn(how, How::kExact | How::kHashed, How::kScaled);
  });
}

Value shift_right(const Value& a, std::optional<std::uint64_t> amount) {
  if (a.is_bottom() || (amount && *amount == 0)) return a;
  return a.mapped([&](const Contribution& part) {
    if (unknown(part) && amount && *amount >= kComposingShift) return static_cast<std::uint8_t>(How::kPiece);
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
      if (unknown(part) && (kind == Value::Mix::kQuotient || kind == Value::Mix::kFloat)) {
        part.how = How::kPiece;
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
    result.plain_ &= operand.plain_;
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
    return turn(part.how, How::kExact | How::kScaled, How::kPiece);
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
    result.plain_ &= element.plain_;
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
    return mixed.mapped([](const Contribution& part) { return turn(part.how, How::kPiece, How::kMangled); });
  }
  return a.mapped([](const Contribution&) { return static_cast<std::uint8_t>(How::kMangled); });
}

}  // namespace pergola::analysis
