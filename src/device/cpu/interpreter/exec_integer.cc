// Integer arithmetic (ISA 9.7.1) and the carry chains (ISA 9.7.2).
//
// Quotient and remainder of a division by zero are all ones, as on the hardware. All overflow wraps.
#include <algorithm>
#include <functional>
#include <limits>
#include <type_traits>

#include "src/device/cpu/interpreter/decoder.h"
#include "src/device/cpu/interpreter/exec.h"
#include "src/device/cpu/interpreter/pick.h"

namespace pergola::device::cpu::interp {
namespace {

using ptx::Mod;
using ptx::Op;
using ptx::Type;

template <typename T>
using Unsigned = std::make_unsigned_t<T>;
// Wide enough that 16-bit operands are not promoted to a signed int.
template <typename T>
using Wrap = std::conditional_t<(sizeof(T) < 4), std::uint32_t, Unsigned<T>>;
template <typename T>
using Double = std::conditional_t<
    sizeof(T) == 8, std::conditional_t<std::is_signed_v<T>, __int128, unsigned __int128>,
    std::conditional_t<sizeof(T) == 4, std::conditional_t<std::is_signed_v<T>, std::int64_t, std::uint64_t>,
                       std::conditional_t<std::is_signed_v<T>, std::int32_t, std::uint32_t>>>;

// Op<T>::apply(a, b): a binary operation without state.
template <template <typename> class Operation>
struct Binary {
  template <typename T>
  struct Handler {
    static void run(Machine&, Thread& t, const Inst& i) {
      write<T>(t, i.dst, Operation<T>::apply(source<T>(t, i, 0), source<T>(t, i, 1)));
    }
  };
};

template <typename T>
struct Add {
  static T apply(T a, T b) { return static_cast<T>(Wrap<T>(a) + Wrap<T>(b)); }
};
template <typename T>
struct Sub {
  static T apply(T a, T b) { return static_cast<T>(Wrap<T>(a) - Wrap<T>(b)); }
};
template <typename T>
struct MulLo {
  static T apply(T a, T b) { return static_cast<T>(Wrap<T>(a) * Wrap<T>(b)); }
};
template <typename T>
struct MulHi {
  static T apply(T a, T b) { return static_cast<T>((Double<T>(a) * Double<T>(b)) >> (8 * sizeof(T))); }
};
template <typename T>
struct Div {
  static T apply(T a, T b) {
    if (b == 0) return static_cast<T>(~Unsigned<T>{0});
    if constexpr (std::is_signed_v<T>) {
      if (b == -1) return Sub<T>::apply(0, a);
    }
    return static_cast<T>(a / b);
  }
};
template <typename T>
struct Rem {
  static T apply(T a, T b) {
    if (b == 0) return static_cast<T>(~Unsigned<T>{0});
    if constexpr (std::is_signed_v<T>) {
      if (b == -1) return 0;
    }
    return static_cast<T>(a % b);
  }
};
template <typename T>
struct Min {
  static T apply(T a, T b) { return b < a ? b : a; }
};
template <typename T>
struct Max {
  static T apply(T a, T b) { return a < b ? b : a; }
};

// .relu: a negative result is 0. Of signed types alone.
template <template <typename> class Operation>
struct Relu {
  template <typename T>
  struct Of {
    static T apply(T a, T b) { return std::max<T>(Operation<T>::apply(a, b), 0); }
  };
};

template <typename T>
struct MulWide {
  static void run(Machine&, Thread& t, const Inst& i) {
    write<Double<T>>(t, i.dst, Double<T>(source<T>(t, i, 0)) * Double<T>(source<T>(t, i, 1)));
  }
};
template <typename T>
struct MadWide {
  static void run(Machine&, Thread& t, const Inst& i) {
    using W = Double<T>;
    write<W>(t, i.dst, Add<W>::apply(W(source<T>(t, i, 0)) * W(source<T>(t, i, 1)), source<W>(t, i, 2)));
  }
};
template <typename T>
struct MadLo {
  static void run(Machine&, Thread& t, const Inst& i) {
    write<T>(t, i.dst,
             Add<T>::apply(MulLo<T>::apply(source<T>(t, i, 0), source<T>(t, i, 1)), source<T>(t, i, 2)));
  }
};
template <typename T>
struct MadHi {
  static void run(Machine&, Thread& t, const Inst& i) {
    write<T>(t, i.dst,
             Add<T>::apply(MulHi<T>::apply(source<T>(t, i, 0), source<T>(t, i, 1)), source<T>(t, i, 2)));
  }
};
template <typename T>
struct Abs {
  static void run(Machine&, Thread& t, const Inst& i) {
    T a = source<T>(t, i, 0);
    write<T>(t, i.dst, a < 0 ? Sub<T>::apply(0, a) : a);
  }
};
template <typename T>
struct Neg {
  static void run(Machine&, Thread& t, const Inst& i) { write<T>(t, i.dst, Sub<T>::apply(0, source<T>(t, i, 0))); }
};
template <typename T>
struct Sad {
  static void run(Machine&, Thread& t, const Inst& i) {
    T a = source<T>(t, i, 0), b = source<T>(t, i, 1);
    T difference = a < b ? Sub<T>::apply(b, a) : Sub<T>::apply(a, b);
    write<T>(t, i.dst, Add<T>::apply(source<T>(t, i, 2), difference));
  }
};

std::int32_t clamp32(std::int64_t value) {
  if (value > INT32_MAX) return INT32_MAX;
  return value < INT32_MIN ? INT32_MIN : static_cast<std::int32_t>(value);
}
void add_sat(Machine&, Thread& t, const Inst& i) {
  write(t, i.dst, clamp32(std::int64_t{source<std::int32_t>(t, i, 0)} + source<std::int32_t>(t, i, 1)));
}
void sub_sat(Machine&, Thread& t, const Inst& i) {
  write(t, i.dst, clamp32(std::int64_t{source<std::int32_t>(t, i, 0)} - source<std::int32_t>(t, i, 1)));
}
void mad_hi_sat(Machine&, Thread& t, const Inst& i) {
  std::int64_t high = (std::int64_t{source<std::int32_t>(t, i, 0)} * source<std::int32_t>(t, i, 1)) >> 32;
  write(t, i.dst, clamp32(high + source<std::int32_t>(t, i, 2)));
}

// Carry chains. mode: 1 reads CC.CF; kCarryOut writes it.
template <typename T>
struct AddCarry {
  static void run(Machine&, Thread& t, const Inst& i) {
    using U = Unsigned<T>;
    const U a = source<U>(t, i, 0), b = source<U>(t, i, 1), in = i.mode != 0 ? t.carry : 0;
    const unsigned __int128 sum = static_cast<unsigned __int128>(a) + b + in;
    write<U>(t, i.dst, static_cast<U>(sum));
    if ((i.flags & kCarryOut) != 0) t.carry = (sum >> (8 * sizeof(T))) != 0;
  }
};
// The hardware adds the complement: CC.CF after sub.cc is 1 where nothing was borrowed, and subc takes 1 away where it is 0.
// ISA 9.7.2.3 says borrow; chains of sub.cc and subc cannot tell, addc after sub.cc can (seen on an H200).
template <typename T>
struct SubCarry {
  static void run(Machine&, Thread& t, const Inst& i) {
    using U = Unsigned<T>;
    const U a = source<U>(t, i, 0), b = source<U>(t, i, 1);
    const std::uint32_t in = i.mode != 0 ? t.carry : 1;
    const unsigned __int128 sum = static_cast<unsigned __int128>(a) + static_cast<U>(~b) + in;
    write<U>(t, i.dst, static_cast<U>(sum));
    if ((i.flags & kCarryOut) != 0) t.carry = (sum >> (8 * sizeof(T))) != 0;
  }
};
template <typename T>
struct MadCarry {  // mode2: 1 takes the high half
  static void run(Machine&, Thread& t, const Inst& i) {
    using U = Unsigned<T>;
    const T a = source<T>(t, i, 0), b = source<T>(t, i, 1);
    const U product = static_cast<U>(i.mode2 != 0 ? MulHi<T>::apply(a, b) : MulLo<T>::apply(a, b));
    const U c = source<U>(t, i, 2), in = i.mode != 0 ? t.carry : 0;
    const unsigned __int128 sum = static_cast<unsigned __int128>(product) + c + in;
    write<U>(t, i.dst, static_cast<U>(sum));
    if ((i.flags & kCarryOut) != 0) t.carry = (sum >> (8 * sizeof(T))) != 0;
  }
};

// mul24, mad24: the low 24 bits of each operand; mode 0 gives bits 31..0 of the 48-bit product, 1 bits 47..16.
template <typename T>
T product24(const Inst& i, T a, T b) {
  using W = Double<T>;
  const auto low24 = [](T x) { return static_cast<T>(static_cast<T>(static_cast<std::uint32_t>(x) << 8) >> 8); };
  const W product = W(low24(a)) * W(low24(b));
  return static_cast<T>(i.mode == 0 ? product : product >> 16);
}
template <typename T>
struct Mul24 {
  static void run(Machine&, Thread& t, const Inst& i) {
    write<T>(t, i.dst, product24<T>(i, source<T>(t, i, 0), source<T>(t, i, 1)));
  }
};
template <typename T>
struct Mad24 {
  static void run(Machine&, Thread& t, const Inst& i) {
    write<T>(t, i.dst, Add<T>::apply(product24<T>(i, source<T>(t, i, 0), source<T>(t, i, 1)), source<T>(t, i, 2)));
  }
};
void mad24_hi_sat(Machine&, Thread& t, const Inst& i) {
  const auto product = product24<std::int32_t>(i, source<std::int32_t>(t, i, 0), source<std::int32_t>(t, i, 1));
  write(t, i.dst, clamp32(std::int64_t{product} + source<std::int32_t>(t, i, 2)));
}

// Two 16-bit lanes in 32 bits.
template <template <typename> class Operation>
struct Packed {
  template <typename T>
  static void run(Machine&, Thread& t, const Inst& i) {
    const std::uint32_t a = source<std::uint32_t>(t, i, 0), b = source<std::uint32_t>(t, i, 1);
    const auto low = static_cast<std::uint16_t>(Operation<T>::apply(static_cast<T>(a), static_cast<T>(b)));
    const auto high = static_cast<std::uint16_t>(Operation<T>::apply(static_cast<T>(a >> 16), static_cast<T>(b >> 16)));
    write<std::uint32_t>(t, i.dst, low | std::uint32_t{high} << 16);
  }
  static LaneFn pick(Type type) { return type == Type::kS16x2 ? &run<std::int16_t> : &run<std::uint16_t>; }
};

// mode: bit 0 a is signed, bit 1 b is signed. dp2a: mode2 1 takes b's high bytes.
std::int64_t element(std::uint32_t word, int index, int bits, bool is_signed) {
  const std::uint32_t raw = (word >> (index * bits)) & ((1u << bits) - 1);
  if (!is_signed || (raw >> (bits - 1)) == 0) return raw;
  return static_cast<std::int64_t>(raw) - (std::int64_t{1} << bits);
}
void dp4a(Machine&, Thread& t, const Inst& i) {
  const auto a = source<std::uint32_t>(t, i, 0), b = source<std::uint32_t>(t, i, 1);
  std::uint64_t sum = source<std::uint32_t>(t, i, 2);
  for (int n = 0; n < 4; ++n)
    sum += static_cast<std::uint64_t>(element(a, n, 8, (i.mode & 1) != 0) * element(b, n, 8, (i.mode & 2) != 0));
  write(t, i.dst, static_cast<std::uint32_t>(sum));
}
void dp2a(Machine&, Thread& t, const Inst& i) {
  const auto a = source<std::uint32_t>(t, i, 0), b = source<std::uint32_t>(t, i, 1);
  std::uint64_t sum = source<std::uint32_t>(t, i, 2);
  for (int n = 0; n < 2; ++n)
    sum += static_cast<std::uint64_t>(element(a, n, 16, (i.mode & 1) != 0) *
                                      element(b, n + 2 * i.mode2, 8, (i.mode & 2) != 0));
  write(t, i.dst, static_cast<std::uint32_t>(sum));
}

// SIMD video: mode's bits are kASigned to kAccumulate, mode2 the lanes. Exact in each lane, then clamped where .sat asks
// for it; .add sums the lanes and c, else the lanes are cut to their width.
enum : std::uint8_t { kASigned = 1, kBSigned = 2, kSignedRange = 4, kClamp = 8, kAccumulate = 16 };
template <typename Operation>
void video(Machine&, Thread& t, const Inst& i) {
  const auto a = source<std::uint32_t>(t, i, 0), b = source<std::uint32_t>(t, i, 1);
  const int bits = 32 / i.mode2;
  const std::int64_t range = std::int64_t{1} << bits;
  const std::int64_t least = (i.mode & kSignedRange) != 0 ? -range / 2 : 0, most = least + range - 1;
  std::uint32_t sum = source<std::uint32_t>(t, i, 2), packed = 0;
  for (int n = 0; n < i.mode2; ++n) {
    std::int64_t v = Operation::apply(element(a, n, bits, (i.mode & kASigned) != 0), element(b, n, bits, (i.mode & kBSigned) != 0));
    if ((i.mode & kClamp) != 0) v = std::clamp(v, least, most);
    sum += static_cast<std::uint32_t>(v);
    packed |= (static_cast<std::uint32_t>(v) & static_cast<std::uint32_t>(range - 1)) << (n * bits);
  }
  write(t, i.dst, (i.mode & kAccumulate) != 0 ? sum : packed);
}
struct Average {  // halves away from negative infinity, but for a negative sum
  static std::int64_t apply(std::int64_t a, std::int64_t b) { return a + b >= 0 ? (a + b + 1) >> 1 : (a + b) >> 1; }
};
struct Distance {
  static std::int64_t apply(std::int64_t a, std::int64_t b) { return a < b ? b - a : a - b; }
};
template <typename Predicate>
struct Holds {
  static std::int64_t apply(std::int64_t a, std::int64_t b) { return Predicate{}(a, b) ? 1 : 0; }
};

struct Choice {
  LaneFn fn = nullptr;
  std::uint8_t mode = 0, mode2 = 0;
  std::uint16_t flags = 0;
};

Choice choose_add_sub(Op op, ModReader& mods, Type type) {
  const bool carry_out = mods.take(Mod::kCc), saturating = mods.take(Mod::kSat);
  const bool add = op == Op::kAdd || op == Op::kAddc;
  const bool carry_in = op == Op::kAddc || op == Op::kSubc;
  Choice c;
  if (type == Type::kU16x2 || type == Type::kS16x2) {
    if (!carry_out && !saturating && op == Op::kAdd) c.fn = Packed<Add>::pick(type);
    return c;
  }
  if (saturating) {
    if (type == Type::kS32 && !carry_out && !carry_in) c.fn = add ? add_sat : sub_sat;
    return c;
  }
  if (carry_in || carry_out) {
    c.mode = carry_in;
    c.flags = carry_out ? kCarryOut : 0;
    c.fn = add ? pick_integer<AddCarry>(type) : pick_integer<SubCarry>(type);
    return c;
  }
  c.fn = add ? pick_integer<Binary<Add>::Handler>(type) : pick_integer<Binary<Sub>::Handler>(type);
  return c;
}

Choice choose_multiply(Op op, ModReader& mods, Type type) {
  const bool lo = mods.take(Mod::kLo), hi = mods.take(Mod::kHi), wide = mods.take(Mod::kWide);
  const bool saturating = mods.take(Mod::kSat), carry_out = mods.take(Mod::kCc);
  Choice c;
  if (int{lo} + int{hi} + int{wide} != 1) return c;
  if (op == Op::kMadc || carry_out) {
    if (wide || saturating || op == Op::kMul) return c;
    c.mode = op == Op::kMadc;
    c.mode2 = hi;
    c.flags = carry_out ? kCarryOut : 0;
    c.fn = pick_integer<MadCarry>(type);
    return c;
  }
  if (saturating) {
    if (op == Op::kMad && hi && type == Type::kS32) c.fn = mad_hi_sat;
    return c;
  }
  if (wide) {
    if (ptx::size_bytes(type) <= 4) {
      switch (type) {
        case Type::kU16: c.fn = op == Op::kMul ? MulWide<std::uint16_t>::run : MadWide<std::uint16_t>::run; break;
        case Type::kS16: c.fn = op == Op::kMul ? MulWide<std::int16_t>::run : MadWide<std::int16_t>::run; break;
        case Type::kU32: c.fn = op == Op::kMul ? MulWide<std::uint32_t>::run : MadWide<std::uint32_t>::run; break;
        case Type::kS32: c.fn = op == Op::kMul ? MulWide<std::int32_t>::run : MadWide<std::int32_t>::run; break;
        default: break;
      }
    }
    return c;
  }
  if (op == Op::kMul)
    c.fn = lo ? pick_integer<Binary<MulLo>::Handler>(type) : pick_integer<Binary<MulHi>::Handler>(type);
  else
    c.fn = lo ? pick_integer<MadLo>(type) : pick_integer<MadHi>(type);
  return c;
}

Choice choose_24(Op op, ModReader& mods, Type type) {
  Choice c;
  const bool hi = mods.take(Mod::kHi);
  if (!hi && !mods.take(Mod::kLo)) return c;
  c.mode = hi;
  const bool is_signed = type == Type::kS32;
  if (mods.take(Mod::kSat)) {
    if (op == Op::kMad24 && hi && is_signed) c.fn = mad24_hi_sat;
    return c;
  }
  if (op == Op::kMul24)
    c.fn = is_signed ? Mul24<std::int32_t>::run : Mul24<std::uint32_t>::run;
  else
    c.fn = is_signed ? Mad24<std::int32_t>::run : Mad24<std::uint32_t>::run;
  return c;
}

Choice choose_dot(const ptx::Instruction& i, ModReader& mods) {
  Choice c;
  const Type b = mods.take_type();
  c.mode = static_cast<std::uint8_t>((i.type() == Type::kS32 ? 1 : 0) | (b == Type::kS32 ? 2 : 0));
  if (i.op == Op::kDp4a) {
    c.fn = dp4a;
  } else {
    c.mode2 = mods.take(Mod::kHi);
    if (c.mode2 != 0 || mods.take(Mod::kLo)) c.fn = dp2a;
  }
  return c;
}

LaneFn video_function(Op op, ModReader& mods) {
  switch (op) {
    case Op::kVadd2: case Op::kVadd4: return video<Add<std::int64_t>>;
    case Op::kVsub2: case Op::kVsub4: return video<Sub<std::int64_t>>;
    case Op::kVavrg2: case Op::kVavrg4: return video<Average>;
    case Op::kVabsdiff2: case Op::kVabsdiff4: return video<Distance>;
    case Op::kVmin2: case Op::kVmin4: return video<Min<std::int64_t>>;
    case Op::kVmax2: case Op::kVmax4: return video<Max<std::int64_t>>;
    default: break;  // vset
  }
  if (mods.take(Mod::kEq)) return video<Holds<std::equal_to<>>>;
  if (mods.take(Mod::kNe)) return video<Holds<std::not_equal_to<>>>;
  if (mods.take(Mod::kLt)) return video<Holds<std::less<>>>;
  if (mods.take(Mod::kLe)) return video<Holds<std::less_equal<>>>;
  if (mods.take(Mod::kGt)) return video<Holds<std::greater<>>>;
  return mods.take(Mod::kGe) ? video<Holds<std::greater_equal<>>> : nullptr;
}

Choice choose_video(Op op, ModReader& mods, Type first) {
  const bool sets = op == Op::kVset2 || op == Op::kVset4;
  const Type a = sets ? first : mods.take_type(), b = mods.take_type();
  Choice c;
  c.mode2 = static_cast<std::uint8_t>(ptx::video_lanes(op));
  if (ptx::is_signed(a)) c.mode |= kASigned;
  if (ptx::is_signed(b)) c.mode |= kBSigned;
  if (!sets && ptx::is_signed(first)) c.mode |= kSignedRange;
  if (mods.take(Mod::kAdd)) c.mode |= kAccumulate;
  if (!sets && mods.take(Mod::kSat)) c.mode |= kClamp;
  if (b != Type::kNone) c.fn = video_function(op, mods);
  return c;
}

Choice choose_min_max(Op op, ModReader& mods, Type type) {
  Choice c;
  const bool packed = type == Type::kU16x2 || type == Type::kS16x2;
  if (mods.take(Mod::kRelu)) {
    const bool min = op == Op::kMin;
    if (type == Type::kS32) {
      c.fn = min ? Binary<Relu<Min>::Of>::Handler<std::int32_t>::run : Binary<Relu<Max>::Of>::Handler<std::int32_t>::run;
    } else if (type == Type::kS16x2) {
      c.fn = min ? Packed<Relu<Min>::Of>::pick(type) : Packed<Relu<Max>::Of>::pick(type);
    }
    return c;
  }
  if (op == Op::kMin)
    c.fn = packed ? Packed<Min>::pick(type) : pick_integer<Binary<Min>::Handler>(type);
  else
    c.fn = packed ? Packed<Max>::pick(type) : pick_integer<Binary<Max>::Handler>(type);
  return c;
}

bool is_integer_op(Op op) {
  switch (op) {
    case Op::kAdd: case Op::kSub: case Op::kMul: case Op::kMad: case Op::kDiv: case Op::kRem: case Op::kAddc:
    case Op::kSubc: case Op::kMadc: case Op::kMul24: case Op::kMad24: case Op::kSad: case Op::kAbs: case Op::kNeg:
    case Op::kMin: case Op::kMax: case Op::kDp4a: case Op::kDp2a: return true;
    default: return ptx::video_lanes(op) != 0;
  }
}

}  // namespace

Decoded decode_integer(Decoder& d, const ptx::Instruction& i) {
  if (!is_integer_op(i.op) || ptx::is_float(i.type())) return false;
  ModReader mods(i);
  const Type type = mods.take_type();
  Choice c;
  switch (i.op) {
    case Op::kAdd: case Op::kSub: case Op::kAddc: case Op::kSubc: c = choose_add_sub(i.op, mods, type); break;
    case Op::kMul: case Op::kMad: case Op::kMadc: c = choose_multiply(i.op, mods, type); break;
    case Op::kMul24: case Op::kMad24: c = choose_24(i.op, mods, type); break;
    case Op::kDp4a: case Op::kDp2a: c = choose_dot(i, mods); break;
    case Op::kMin: case Op::kMax: c = choose_min_max(i.op, mods, type); break;
    case Op::kDiv: c.fn = pick_integer<Binary<Div>::Handler>(type); break;
    case Op::kRem: c.fn = pick_integer<Binary<Rem>::Handler>(type); break;
    case Op::kSad: c.fn = pick_integer<Sad>(type); break;
    case Op::kAbs: c.fn = pick_integer<Abs>(type); break;
    case Op::kNeg: c.fn = pick_integer<Neg>(type); break;
    default: c = choose_video(i.op, mods, type); break;
  }
  if (c.fn == nullptr || !mods.empty() || i.operands.size() < 2 || i.operands.size() > 4) return d.unsupported(i);
  std::int32_t sources[3] = {kNoCell, kNoCell, kNoCell};
  for (std::size_t n = 1; n < i.operands.size(); ++n) sources[n - 1] = d.read(i.operands[n], type);
  const std::int32_t dst = d.write_cell(i.operands[0]);
  Inst& inst = d.emit(c.fn);
  inst.dst = dst;
  for (int n = 0; n < 3; ++n) inst.src[n] = sources[n];
  inst.mode = c.mode;
  inst.mode2 = c.mode2;
  inst.flags = c.flags;
  return true;
}

}  // namespace pergola::device::cpu::interp
