// Comparison and selection (ISA 9.7.6): setp, set, selp, slct.
#include <cmath>

#include "src/device/cpu/interpreter/decoder.h"
#include "src/device/cpu/interpreter/exec.h"

namespace pergola::device::cpu::interp {
namespace {

using ptx::Mod;
using ptx::Op;
using ptx::Type;

enum Compare : std::uint8_t { kEq, kNe, kLt, kLe, kGt, kGe, kEqu, kNeu, kLtu, kLeu, kGtu, kGeu, kNum, kIsNan };
enum Bool : std::uint8_t { kNoBool, kBoolAnd, kBoolOr, kBoolXor };

// Inst of this family: mode the comparison, mode2 the boolean operator, src[2] its operand,
// imm: for set the value of "true", width: 2 for a pair of 16-bit floats.

template <typename T>
bool compare(std::uint8_t op, T a, T b) {
  bool unordered = false;
  if constexpr (std::is_floating_point_v<T>) unordered = std::isnan(a) || std::isnan(b);
  switch (op) {
    case kEq: return !unordered && a == b;
    case kNe: return !unordered && a != b;
    case kLt: return !unordered && a < b;
    case kLe: return !unordered && a <= b;
    case kGt: return !unordered && a > b;
    case kGe: return !unordered && a >= b;
    case kEqu: return unordered || a == b;
    case kNeu: return unordered || a != b;
    case kLtu: return unordered || a < b;
    case kLeu: return unordered || a <= b;
    case kGtu: return unordered || a > b;
    case kGeu: return unordered || a >= b;
    case kNum: return !unordered;
    default: return unordered;
  }
}

bool combine(std::uint8_t op, bool value, bool c) {
  switch (op) {
    case kBoolAnd: return value && c;
    case kBoolOr: return value || c;
    case kBoolXor: return value != c;
    default: return value;
  }
}

template <typename T>
struct Value {
  static T get(const Thread& t, const Inst& i, int n, int) {
    T value = source<T>(t, i, n);
    if constexpr (std::is_same_v<T, float>) {
      if ((i.flags & kFtz) != 0) value = flush(value);
    }
    return value;
  }
};
struct Half {};
struct Bfloat {};
double widen_operand(const Thread& t, const Inst& i, int n, int element, FloatFormat format) {
  const auto bits = static_cast<std::uint16_t>(cell(t, i.src[n]) >> (16 * element));
  const double value = widen(bits, format);
  const double smallest = format.exponent_bits == 5 ? 0x1p-14 : 0x1p-126;
  return (i.flags & kFtz) != 0 && std::fabs(value) < smallest ? std::copysign(0.0, value) : value;
}
template <>
struct Value<Half> {
  static double get(const Thread& t, const Inst& i, int n, int element) {
    return widen_operand(t, i, n, element, kF16Format);
  }
};
template <>
struct Value<Bfloat> {
  static double get(const Thread& t, const Inst& i, int n, int element) {
    return widen_operand(t, i, n, element, kBf16Format);
  }
};

template <typename T>
void setp(Machine&, Thread& t, const Inst& i) {
  const bool c = i.mode2 == kNoBool || cell(t, i.src[2]) != 0;
  const bool first = compare(i.mode, Value<T>::get(t, i, 0, 0), Value<T>::get(t, i, 1, 0));
  // A pair of halves gives p for the low one and q for the high one; else q is the opposite comparison.
  const bool second = i.width == 2 ? compare(i.mode, Value<T>::get(t, i, 0, 1), Value<T>::get(t, i, 1, 1)) : !first;
  t.regs[i.dst] = combine(i.mode2, first, c) ? 1 : 0;
  if (i.dst2 != kNoCell) t.regs[i.dst2] = combine(i.mode2, second, c) ? 1 : 0;
}

template <typename T>
void set(Machine&, Thread& t, const Inst& i) {
  const bool c = i.mode2 == kNoBool || cell(t, i.src[2]) != 0;
  std::uint64_t result = 0;
  for (int element = 0; element < i.width; ++element)
    if (combine(i.mode2, compare(i.mode, Value<T>::get(t, i, 0, element), Value<T>::get(t, i, 1, element)), c))
      result |= i.imm << (16 * element);
  t.regs[i.dst] = result;
}

void selp(Machine&, Thread& t, const Inst& i) { t.regs[i.dst] = cell(t, cell(t, i.src[2]) != 0 ? i.src[0] : i.src[1]); }
void selp_128(Machine&, Thread& t, const Inst& i) {
  const std::int32_t from = cell(t, i.src[2]) != 0 ? i.src[0] : i.src[1];
  const std::uint64_t low = cell(t, from), high = cell(t, from + 1);
  t.regs[i.dst] = low;
  t.regs[i.dst + 1] = high;
}
void slct_s32(Machine&, Thread& t, const Inst& i) {
  t.regs[i.dst] = cell(t, source<std::int32_t>(t, i, 2) >= 0 ? i.src[0] : i.src[1]);
}
void slct_f32(Machine&, Thread& t, const Inst& i) {
  float c = source<float>(t, i, 2);
  if ((i.flags & kFtz) != 0) c = flush(c);
  t.regs[i.dst] = cell(t, c >= 0.0f ? i.src[0] : i.src[1]);  // -0 counts as >= 0, NaN does not
}

struct Pair {
  LaneFn setp = nullptr, set = nullptr;
};
template <typename T>
Pair both() {
  return {&setp<T>, &set<T>};
}
Pair handlers(Type type) {
  switch (type) {
    case Type::kB16: case Type::kU16: return both<std::uint16_t>();
    case Type::kS16: return both<std::int16_t>();
    case Type::kB32: case Type::kU32: return both<std::uint32_t>();
    case Type::kS32: return both<std::int32_t>();
    case Type::kB64: case Type::kU64: return both<std::uint64_t>();
    case Type::kS64: return both<std::int64_t>();
    case Type::kF32: return both<float>();
    case Type::kF64: return both<double>();
    case Type::kF16: case Type::kF16x2: return both<Half>();
    case Type::kBF16: case Type::kBF16x2: return both<Bfloat>();
    default: return {};
  }
}

std::optional<std::uint8_t> take_compare(ModReader& mods) {
  constexpr std::pair<Mod, Compare> kOps[] = {
      {Mod::kEq, kEq},   {Mod::kNe, kNe},   {Mod::kLt, kLt},   {Mod::kLe, kLe},   {Mod::kGt, kGt},   {Mod::kGe, kGe},
      {Mod::kLo, kLt},   {Mod::kLs, kLe},   {Mod::kHi, kGt},   {Mod::kHs, kGe},   {Mod::kEqu, kEqu}, {Mod::kNeu, kNeu},
      {Mod::kLtu, kLtu}, {Mod::kLeu, kLeu}, {Mod::kGtu, kGtu}, {Mod::kGeu, kGeu}, {Mod::kNum, kNum}, {Mod::kNan, kIsNan}};
  for (const auto& [mod, compare_op] : kOps)
    if (mods.take(mod)) return compare_op;
  return std::nullopt;
}

std::uint8_t take_bool(ModReader& mods) {
  if (mods.take(Mod::kAnd)) return kBoolAnd;
  if (mods.take(Mod::kOr)) return kBoolOr;
  return mods.take(Mod::kXor) ? kBoolXor : kNoBool;
}

// What `set` gives for true in this destination type; 0 where it cannot.
std::uint64_t true_value(Type type) {
  switch (type) {
    case Type::kU32: case Type::kS32: return 0xffffffffu;
    case Type::kU16: case Type::kS16: return 0xffffu;
    case Type::kF32: return 0x3f800000u;
    case Type::kF16: case Type::kF16x2: return 0x3c00u;
    case Type::kBF16: case Type::kBF16x2: return 0x3f80u;
    default: return 0;
  }
}

Decoded decode_set(Decoder& d, const ptx::Instruction& i) {
  ModReader mods(i);
  const bool predicate = i.op == Op::kSetp;
  const auto operation = take_compare(mods);
  const std::uint8_t boolean = take_bool(mods);
  std::uint64_t truth = 0;
  Type result = Type::kPred;
  if (!predicate) {
    result = mods.take_type();
    truth = true_value(result);
    if (truth == 0) return d.unsupported(i);
  }
  const Type type = mods.take_type();
  const std::uint16_t flags = mods.take(Mod::kFtz) ? kFtz : 0;
  const LaneFn fn = predicate ? handlers(type).setp : handlers(type).set;
  const std::size_t operands = boolean != kNoBool ? 4 : 3;
  if (fn == nullptr || !operation || !mods.empty() || i.operands.size() != operands) return d.unsupported(i);
  const bool pair = type == Type::kF16x2 || type == Type::kBF16x2;
  if (pair && (result == Type::kU32 || result == Type::kS32)) truth = 0xffff;
  const std::int32_t a = d.read(i.operands[1], type), b = d.read(i.operands[2], type);
  const std::int32_t c = boolean != kNoBool ? d.read_predicate(i.operands[3]) : kNoCell;
  const ptx::Operand& destination = i.operands[0];
  const bool two = destination.kind == ptx::Operand::Kind::kPair;
  const std::int32_t dst = d.write_cell(two ? destination.elements[0] : destination);
  const std::int32_t dst2 = two ? d.write_cell(destination.elements[1]) : kNoCell;
  Inst& inst = d.emit(fn);
  inst.dst = dst;
  inst.dst2 = dst2;
  inst.src[0] = a;
  inst.src[1] = b;
  inst.src[2] = c;
  inst.mode = *operation;
  inst.mode2 = boolean;
  inst.imm = truth;
  inst.flags = flags;
  inst.width = pair ? 2 : 1;
  return true;
}

}  // namespace

Decoded decode_compare(Decoder& d, const ptx::Instruction& i) {
  if (i.op == Op::kSetp || i.op == Op::kSet) return decode_set(d, i);
  if (i.op != Op::kSelp && i.op != Op::kSlct) return false;
  ModReader mods(i);
  const Type type = mods.take_type();
  LaneFn fn = ptx::size_bytes(type) > 8 ? selp_128 : selp;
  Type selector = Type::kPred;
  std::uint16_t flags = 0;
  if (i.op == Op::kSlct) {
    selector = mods.take_type();
    if (mods.take(Mod::kFtz)) flags = kFtz;
    if (selector != Type::kS32 && selector != Type::kF32) return d.unsupported(i);
    fn = selector == Type::kS32 ? slct_s32 : slct_f32;
  }
  if (!mods.empty() || i.operands.size() != 4) return d.unsupported(i);
  const std::int32_t a = d.read(i.operands[1], type), b = d.read(i.operands[2], type);
  const std::int32_t c = d.read(i.operands[3], selector);
  const std::int32_t dst = d.write_cell(i.operands[0]);
  Inst& inst = d.emit(fn);
  inst.dst = dst;
  inst.src[0] = a;
  inst.src[1] = b;
  inst.src[2] = c;
  inst.flags = flags;
  return true;
}

}  // namespace pergola::device::cpu::interp
