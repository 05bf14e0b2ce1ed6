#include "tests/instruction_bits/operands.h"

#include <bit>
#include <cmath>

namespace pergola::instruction_bits {
namespace {

using Values = std::vector<std::uint64_t>;

struct Format {
  int exponent_bits, mantissa_bits;
  int bits() const { return 1 + exponent_bits + mantissa_bits; }
  std::uint64_t mantissa_mask() const { return (std::uint64_t{1} << mantissa_bits) - 1; }
  std::uint64_t exponent_mask() const { return (std::uint64_t{1} << exponent_bits) - 1; }
  std::uint64_t bias() const { return exponent_mask() >> 1; }
};
constexpr Format kHalf{5, 10}, kBrain{8, 7}, kSingle{8, 23}, kDouble{11, 52};

const Format* format_of(Kind kind) {
  switch (kind) {
    case Kind::kF16:
    case Kind::kF16x2: return &kHalf;
    case Kind::kBf16:
    case Kind::kBf16x2: return &kBrain;
    case Kind::kF32:
    case Kind::kF32x2: return &kSingle;
    case Kind::kF64: return &kDouble;
    default: return nullptr;
  }
}

bool is_pair(Kind kind) {
  return kind == Kind::kF16x2 || kind == Kind::kBf16x2 || kind == Kind::kF32x2 || kind == Kind::kPair16;
}

// Numbers that matter to a format itself, and, rounded into it, numbers that matter to conversions.
Values float_values(const Format& f) {
  const std::uint64_t one = std::uint64_t{1} << f.mantissa_bits, infinity = f.exponent_mask() << f.mantissa_bits;
  const std::uint64_t unit = f.bias() << f.mantissa_bits, quiet = one >> 1;
  Values values = {0, 1, 2, 3, one - 1, one >> 1, one, one + 1, 2 * one, 2 * one - 1,       // around the smallest normal
                   infinity - 1, infinity - 2, infinity - one, infinity,                     // the largest, infinity
                   infinity | quiet, infinity | quiet | 1, infinity | 1, infinity | (quiet - 1), infinity | (one - 1),  // NaNs
                   infinity | quiet | 0x15, infinity | 0x25,
                   unit, unit + 1, unit - 1, unit - one, unit + one, unit + (one >> 1), unit - (one >> 1)};
  // Small integers and halves (ties of every integral rounding), thirds.
  for (const double value : {1.5, 2.5, 3.5, 3.0, 4.0, 7.0, 10.0, 0.49999997, 0.75, 1.0 / 3, 255.5, 127.5, 32767.5, 65504.0,
                             65519.0, 65520.0, 448.0, 464.0, 57344.0, 61440.0, 100.0, 1e-5, 6e-8, 1e-40, 1e30,
                             2147483648.0, 4294967296.0, 9223372036854775808.0, 18446744073709551616.0, 1e-42, 3.0e-8}) {
    // The nearest number below in this format, by cutting the bits of the double.
    const auto bits = std::bit_cast<std::uint64_t>(value);
    const auto exponent = static_cast<std::int64_t>(bits >> 52) - 1023 + static_cast<std::int64_t>(f.bias());
    if (exponent <= 0 || exponent >= static_cast<std::int64_t>(f.exponent_mask())) continue;
    const std::uint64_t cut = (static_cast<std::uint64_t>(exponent) << f.mantissa_bits) |
                              ((bits & kDouble.mantissa_mask()) >> (52 - f.mantissa_bits));
    values.push_back(cut);
    values.push_back(cut + 1);
    values.push_back(cut - 1);
  }
  if (f.mantissa_bits > 10) {  // ties of a conversion to a narrower format, and their neighbours
    for (const Format& to : {kHalf, kBrain, kSingle}) {
      if (to.mantissa_bits >= f.mantissa_bits) continue;
      const std::uint64_t half_ulp = std::uint64_t{1} << (f.mantissa_bits - to.mantissa_bits - 1);
      for (const std::uint64_t tie : {unit + half_ulp, unit + 3 * half_ulp}) {
        values.insert(values.end(), {tie, tie + 1, tie - 1});
      }
      // Around the overflow and the smallest subnormal of the narrower format.
      const std::uint64_t top = ((f.bias() + to.bias()) << f.mantissa_bits) | (f.mantissa_mask() & ~(half_ulp - 1));
      const std::uint64_t bottom = (f.bias() - to.bias() - static_cast<std::uint64_t>(to.mantissa_bits)) << f.mantissa_bits;
      if (f.exponent_bits > to.exponent_bits) {
        values.insert(values.end(), {top, top - 1, top - half_ulp, bottom, bottom + 1, bottom + one, bottom + (one >> 1)});
      }
    }
  }
  const std::size_t positive = values.size();
  for (std::size_t n = 0; n < positive; ++n) values.push_back(values[n] | std::uint64_t{1} << (f.bits() - 1));
  return values;
}

Values integer_values(int bits) {
  const std::uint64_t mask = bits == 64 ? ~std::uint64_t{0} : (std::uint64_t{1} << bits) - 1;
  Values values = {0, 1, 2, 3, 7, 8, 10, 15, 16, 31, 32, 100, 127, 128, 255};
  for (int n = 7; n < bits; n += n < 16 ? 1 : 8) {
    const std::uint64_t power = std::uint64_t{1} << n;
    values.insert(values.end(), {power, power - 1, power + 1});
  }
  for (const int n : {15, 16, 23, 24, 31, 32, 52, 53, 62, 63}) {
    if (n >= bits) continue;
    const std::uint64_t power = std::uint64_t{1} << n;
    values.insert(values.end(), {power, power - 1, power + 1, power + (power >> 1)});
  }
  values.insert(values.end(), {0x5555555555555555u, 0xaaaaaaaaaaaaaaaau, 0x123456789abcdef0u, 0x00ff00ff00ff00ffu});
  const std::size_t positive = values.size();
  for (std::size_t n = 0; n < positive; ++n) values.push_back(~values[n]);
  for (std::uint64_t& value : values) value &= mask;
  return values;
}

std::uint64_t random_float(const Format& f, Random& random) {
  const std::uint64_t bits = random.next();
  const std::uint64_t sign = (bits >> 63) << (f.bits() - 1), mantissa = bits & f.mantissa_mask();
  switch (random.below(4)) {
    case 0: return (bits & ((std::uint64_t{1} << (f.bits() - 1)) - 1)) | sign;                       // any pattern
    case 1: return sign | ((f.bias() - 2 + random.below(5)) << f.mantissa_bits) | mantissa;          // near one
    case 2: {                                                                                         // an integer or half
      const std::uint64_t exponent = f.bias() + random.below(static_cast<std::uint64_t>(f.mantissa_bits));
      const std::uint64_t kept = exponent - f.bias() + 1;
      return sign | exponent << f.mantissa_bits |
             (mantissa & ~(f.mantissa_mask() >> std::min<std::uint64_t>(kept, static_cast<std::uint64_t>(f.mantissa_bits))));
    }
    default: return sign | random.below(3) << f.mantissa_bits | mantissa;                            // about to underflow
  }
}

std::uint64_t random_integer(int bits, Random& random) {
  const std::uint64_t mask = bits == 64 ? ~std::uint64_t{0} : (std::uint64_t{1} << bits) - 1;
  const std::uint64_t value = random.next() & mask;
  if (random.below(3) != 0) return value;
  const std::uint64_t narrow = value >> random.below(static_cast<std::uint64_t>(bits));
  return (random.below(2) != 0 ? narrow : ~narrow) & mask;
}

std::uint64_t combine(Kind kind, std::uint64_t low, std::uint64_t high) {
  return kind == Kind::kF32x2 ? low | high << 32 : (low & 0xffff) | (high & 0xffff) << 16;
}

// c close to -(a op b), so that the result of a sum or a fused multiply-add is mostly rounding.
void make_cancelling(std::string_view kinds, Case& values, Random& random) {
  const auto jitter = [&](std::uint64_t bits) { return bits + random.below(5) - 2; };
  if (kinds == "fff" || kinds == "ggg") {
    if (kinds[0] == 'f') {
      const float product = std::bit_cast<float>(static_cast<std::uint32_t>(values[0])) *
                            std::bit_cast<float>(static_cast<std::uint32_t>(values[1]));
      values[2] = jitter(std::bit_cast<std::uint32_t>(-product)) & 0xffffffffu;
    } else {
      values[2] = jitter(std::bit_cast<std::uint64_t>(-(std::bit_cast<double>(values[0]) * std::bit_cast<double>(values[1]))));
    }
  } else if (kinds.size() == 2 && kinds[0] == kinds[1] && format_of(static_cast<Kind>(kinds[0])) != nullptr) {
    const Format& f = *format_of(static_cast<Kind>(kinds[0]));
    const std::uint64_t mask = f.bits() == 64 ? ~std::uint64_t{0} : (std::uint64_t{1} << f.bits()) - 1;
    if (!is_pair(static_cast<Kind>(kinds[0]))) values[1] = jitter(values[0] ^ std::uint64_t{1} << (f.bits() - 1)) & mask;
  }
}

}  // namespace

Values special_values(Kind kind) {
  if (const Format* format = format_of(kind)) {
    const Values single = float_values(*format);
    if (!is_pair(kind)) return single;
    Values pairs;
    for (std::size_t n = 0; n < single.size(); ++n) pairs.push_back(combine(kind, single[n], single[(n * 7 + 3) % single.size()]));
    return pairs;
  }
  switch (kind) {
    case Kind::kInt16: return integer_values(16);
    case Kind::kInt32: return integer_values(32);
    case Kind::kInt64: return integer_values(64);
    case Kind::kPair16: {
      const Values single = integer_values(16);
      Values pairs;
      for (std::size_t n = 0; n < single.size(); ++n) pairs.push_back(combine(kind, single[n], single[(n * 7 + 3) % single.size()]));
      return pairs;
    }
    case Kind::kFp8x2: {
      Values pairs;
      for (std::uint64_t n = 0; n < 256; ++n) pairs.push_back(n << 8 | ((n * 7 + 3) & 0xff));
      return pairs;
    }
    case Kind::kCount:
      return {0, 1, 2, 7, 8, 15, 16, 17, 23, 24, 31, 32, 33, 47, 48, 63, 64, 65, 127, 128, 255, 256, 257, 0x7fffffff,
              0x80000000u, 0xffffffffu, 0xffff, 0x10020};
    default: return {0, 1};  // predicates
  }
}

std::uint64_t random_value(Kind kind, Random& random) {
  if (const Format* format = format_of(kind)) {
    const std::uint64_t low = random_float(*format, random);
    return is_pair(kind) ? combine(kind, low, random_float(*format, random)) : low;
  }
  switch (kind) {
    case Kind::kInt16: return random_integer(16, random);
    case Kind::kInt64: return random_integer(64, random);
    case Kind::kFp8x2: return random.next() & 0xffff;
    case Kind::kCount: return random.below(8) == 0 ? random.next() & 0xffffffffu : random.below(72);
    case Kind::kPredicate: return random.below(2);
    default: return random_integer(32, random);
  }
}

std::vector<Case> make_cases(std::string_view source_kinds, std::size_t count, std::uint64_t seed) {
  Random random(seed);
  const std::size_t sources = source_kinds.size();
  std::vector<Values> special;
  std::size_t combinations = 1;
  for (const char kind : source_kinds) {
    special.push_back(special_values(static_cast<Kind>(kind)));
    combinations = std::min(combinations * special.back().size(), std::size_t{1} << 40);
  }
  const bool all = combinations <= count / 2;
  const std::size_t from_special = all ? combinations : count / 2;
  std::vector<Case> cases;
  while (cases.size() < count) {
    const std::size_t at = cases.size();
    Case values{};
    std::size_t rest = at;
    for (std::size_t n = 0; n < sources; ++n) {
      const Values& list = special[n];
      const auto kind = static_cast<Kind>(source_kinds[n]);
      if (at < from_special && all) {
        values[n] = list[rest % list.size()];
        rest /= list.size();
      } else if (at < from_special || (at % 4 == 0 && random.below(2) == 0)) {
        values[n] = list[random.below(list.size())];
      } else {
        values[n] = random_value(kind, random);
      }
    }
    if (at >= from_special && at % 4 == 1) make_cancelling(source_kinds, values, random);
    cases.push_back(values);
  }
  return cases;
}

}  // namespace pergola::instruction_bits
