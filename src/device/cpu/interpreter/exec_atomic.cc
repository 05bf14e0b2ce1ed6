// atom and red (ISA 9.7.13.4 and 9.7.13.5), and fences.
//
// Every operation is a compare-and-swap loop on the unsigned word of its size. Orders are at least what the
// instruction asks: the host's locked instructions are sequentially consistent.
#include <algorithm>
#include <atomic>

#include "src/device/cpu/atomic128.h"
#include "src/device/cpu/interpreter/decoder.h"
#include "src/device/cpu/interpreter/exec.h"
#include "src/device/cpu/interpreter/pick.h"

namespace pergola::device::cpu::interp {
namespace {

using ptx::Mod;
using ptx::Op;
using ptx::Type;

enum Operation : std::uint8_t { kAnd, kOr, kXor, kExch, kCas, kAdd, kInc, kDec, kMin, kMax };

std::uint16_t add_half(std::uint16_t a, std::uint16_t b, FloatFormat format) {
  return static_cast<std::uint16_t>(round_double(
      add_to_odd(widen(a, format), widen(b, format), Rounding::kNearestEven), format, Rounding::kNearestEven));
}
std::uint16_t extreme_half(std::uint16_t a, std::uint16_t b, FloatFormat format, bool max) {
  const double value = min_max(widen(a, format), widen(b, format), max, false);
  return static_cast<std::uint16_t>(round_double(value, format, Rounding::kNearestEven));
}
std::uint32_t half_operation(std::uint8_t op, Type type, std::uint32_t a, std::uint32_t b) {
  const FloatFormat format = type == Type::kBF16 || type == Type::kBF16x2 ? kBf16Format : kF16Format;
  std::uint32_t result = 0;
  for (int by = 0; by < static_cast<int>(8 * ptx::size_bytes(type)); by += 16) {
    const auto x = static_cast<std::uint16_t>(a >> by), y = static_cast<std::uint16_t>(b >> by);
    const std::uint16_t one = op == kAdd ? add_half(x, y, format) : extreme_half(x, y, format, op == kMax);
    result |= std::uint32_t{one} << by;
  }
  return result;
}

// f32 additions in global memory flush subnormals, in shared memory they do not (ISA 9.7.13.4).
float add_floats(float a, float b, bool flushes) {
  if (!flushes) return add_f32(a, b, Rounding::kNearestEven);
  return flush(add_f32(flush(a), flush(b), Rounding::kNearestEven));
}

template <typename U>
U new_value(std::uint8_t op, Type type, U old, U b, U c, bool shared) {
  using S = std::make_signed_t<U>;
  const bool is_signed = ptx::is_signed(type);
  switch (op) {
    case kAnd: return old & b;
    case kOr: return old | b;
    case kXor: return old ^ b;
    case kExch: return b;
    case kCas: return old == b ? c : old;
    case kInc: return old >= b ? U{0} : static_cast<U>(old + 1);
    case kDec: return old == 0 || old > b ? b : static_cast<U>(old - 1);
    case kMin:
    case kMax: {
      if (ptx::is_float(type)) return static_cast<U>(half_operation(op, type, static_cast<std::uint32_t>(old), static_cast<std::uint32_t>(b)));
      const bool less = is_signed ? static_cast<S>(b) < static_cast<S>(old) : b < old;
      return less == (op == kMin) ? b : old;
    }
    default: break;
  }
  if (type == Type::kF32) return static_cast<U>(to_cell(add_floats(from_cell<float>(old), from_cell<float>(b), !shared)));
  if (type == Type::kF64) return static_cast<U>(to_cell(from_cell<double>(old) + from_cell<double>(b)));
  if (ptx::is_float(type)) return static_cast<U>(half_operation(op, type, static_cast<std::uint32_t>(old), static_cast<std::uint32_t>(b)));
  return static_cast<U>(old + b);
}

// mode the operation, mode2 the type; src: address, b, c. width > 1: vectors, their cells in extra (dst then b).
template <typename U>
struct Atomic {
  static void run(Machine& m, Thread& t, const Inst& i) {
    const std::uint64_t address = cell(t, i.src[0]) + i.imm;
    std::byte* p = m.resolve(t, i, i.region, address, sizeof(U) * i.width, true);
    if (p == nullptr) return;
    const bool shared = m.in_shared(p);
    m.note_strong_read(t, i, p);
    for (int n = 0; n < i.width; ++n) {
      const std::int32_t from = i.width == 1 ? i.src[1] : t.function->extra[i.extra + i.width + n];
      const std::int32_t to = i.width == 1 ? i.dst : t.function->extra[i.extra + n];
      const auto b = static_cast<U>(cell(t, from));
      const U c = i.src[2] != kNoCell ? static_cast<U>(cell(t, i.src[2])) : U{0};
      U* word = reinterpret_cast<U*>(p) + n;
      U old = __atomic_load_n(word, __ATOMIC_RELAXED);
      U fresh = new_value<U>(i.mode, static_cast<Type>(i.mode2), old, b, c, shared);
      while (!__atomic_compare_exchange_n(word, &old, fresh, false, __ATOMIC_SEQ_CST, __ATOMIC_RELAXED))
        fresh = new_value<U>(i.mode, static_cast<Type>(i.mode2), old, b, c, shared);
      if (fresh != old) m.note_write();
      if (to != kNoCell) t.regs[to] = old;
    }
  }
};

// exch (mode kExch) and cas of .b128: cells come in pairs.
void atomic_128(Machine& m, Thread& t, const Inst& i) {
  std::byte* p = m.resolve(t, i, i.region, cell(t, i.src[0]) + i.imm, 16, true);
  if (p == nullptr) return;
  if (reinterpret_cast<std::uintptr_t>(p) % 16 != 0) {
    m.fault(t, i, "accesses 16 bytes at an address that is no multiple of 16");
    return;
  }
  m.note_strong_read(t, i, p);
  m.note_write();
  auto* word = reinterpret_cast<unsigned __int128*>(p);
  const auto value = [&](int n) {
    return static_cast<unsigned __int128>(cell(t, i.src[n] + 1)) << 64 | cell(t, i.src[n]);
  };
  const unsigned __int128 old = i.mode == kExch ? exchange_128(word, value(1)) : compare_exchange_128(word, value(1), value(2));
  if (i.dst == kNoCell) return;
  t.regs[i.dst] = static_cast<std::uint64_t>(old);
  t.regs[i.dst + 1] = static_cast<std::uint64_t>(old >> 64);
}

void fence(Machine& m, Thread& t, const Inst& i) {
  if (m.shared_check() != nullptr) m.shared_check()->fence(m.number_of(t));
#if defined(PERGOLA_TSAN)
  // ThreadSanitizer does not know fences; every access here is atomic, so one on a word of its own stands for it.
  static std::atomic<int> word{0};
  word.fetch_add(i.mode, std::memory_order_seq_cst);
#else
  std::atomic_thread_fence(i.mode != 0 ? std::memory_order_seq_cst : std::memory_order_acq_rel);
#endif
}

std::optional<Operation> take_operation(ModReader& mods) {
  constexpr std::pair<Mod, Operation> kOperations[] = {
      {Mod::kAnd, kAnd}, {Mod::kOr, kOr},   {Mod::kXor, kXor}, {Mod::kExch, kExch}, {Mod::kCas, kCas},
      {Mod::kAdd, kAdd}, {Mod::kInc, kInc}, {Mod::kDec, kDec}, {Mod::kMin, kMin},   {Mod::kMax, kMax}};
  for (const auto& [mod, operation] : kOperations)
    if (mods.take(mod)) return operation;
  return std::nullopt;
}

void take_scope(ModReader& mods) {
  for (Mod mod : {Mod::kCta, Mod::kCluster, Mod::kGpu, Mod::kSys}) mods.take(mod);
}

bool valid(Operation op, Type type) {
  const std::uint32_t bytes = ptx::size_bytes(type);
  if (ptx::is_float(type)) {
    const bool half = bytes == 2 || type == Type::kF16x2 || type == Type::kBF16x2;
    if (op == kAdd) return type == Type::kF32 || type == Type::kF64 || half;
    return (op == kMin || op == kMax) && half;
  }
  if (op == kInc || op == kDec) return type == Type::kU32;
  if (bytes == 2) return op == kCas || op == kExch;
  if (bytes == 16) return op == kCas || op == kExch;
  return bytes == 4 || bytes == 8;
}

// An operand of 128 bits is a register: it has two cells.
bool is_wide_register(const ptx::Operand& o) { return o.kind == ptx::Operand::Kind::kRegister; }

Decoded decode_atom(Decoder& d, const ptx::Instruction& i) {
  const bool returns = i.op == Op::kAtom;
  ModReader mods(i);
  for (Mod mod : {Mod::kRelaxed, Mod::kAcquire, Mod::kRelease, Mod::kAcqRel, Mod::kNoftz}) mods.take(mod);
  take_scope(mods);
  const bool policy = mods.take(Mod::kL2CacheHint) || mods.take(Mod::kL1CacheHint);
  const auto space = mods.take_space().value_or(ptx::Space::kNone);
  const auto operation = take_operation(mods);
  const int width = i.vector_width();
  mods.take(Mod::kV2);
  mods.take(Mod::kV4);
  mods.take(Mod::kV8);
  const Type type = mods.take_type();
  if (!operation || !mods.empty() || !valid(*operation, type)) return d.unsupported(i);
  std::size_t at = returns ? 1 : 0;
  const std::size_t wanted = at + (*operation == kCas ? 3 : 2) + (policy ? 1 : 0);
  if (i.operands.size() != wanted) return d.unsupported(i);
  PERGOLA_ASSIGN(const Decoder::Address address, d.address(i, i.operands[at++], space));
  if (address.region == Region::kFrame || address.region == Region::kLocal || address.region == Region::kConst ||
      address.region == Region::kEntryParam)
    return d.unsupported(i);
  std::vector<std::int32_t> destinations, values;
  if (width > 1) {
    for (int n = 0; n < width; ++n) {
      const bool fits = i.operands[at].elements.size() == static_cast<std::size_t>(width) &&
                        (!returns || i.operands[0].elements.size() == static_cast<std::size_t>(width));
      if (!fits) return d.unsupported(i);
      destinations.push_back(returns ? d.write_cell(i.operands[0].elements[n]) : kNoCell);
      values.push_back(d.read(i.operands[at].elements[n], type));
    }
  }
  const bool wide = ptx::size_bytes(type) == 16;
  for (std::size_t n = at; wide && n < i.operands.size() - (policy ? 1 : 0); ++n)
    if (!is_wide_register(i.operands[n]) || width != 1) return d.unsupported(i, "its operands are no registers of 128 bits");
  if (wide && (!returns || !is_wide_register(i.operands[0]))) return d.unsupported(i, "its result is no register of 128 bits");
  const std::int32_t b = width > 1 ? kNoCell : d.read(i.operands[at], type);
  const std::int32_t c = *operation == kCas ? d.read(i.operands[at + 1], type) : kNoCell;
  const std::int32_t dst = returns && width == 1 ? d.write_cell(i.operands[0]) : kNoCell;
  const LaneFn fn = wide ? atomic_128 : pick_bits<Atomic>(ptx::size_bytes(type));
  if (fn == nullptr) return d.unsupported(i);
  Inst& inst = d.emit(fn);
  inst.dst = dst;
  inst.src[0] = address.base;
  inst.src[1] = b;
  inst.src[2] = c;
  inst.imm = address.offset;
  inst.region = address.region;
  inst.mode = *operation;
  inst.mode2 = static_cast<std::uint8_t>(type);
  inst.width = static_cast<std::uint8_t>(width);
  inst.extra = static_cast<std::uint32_t>(d.code().extra.size());
  d.code().extra.insert(d.code().extra.end(), destinations.begin(), destinations.end());
  d.code().extra.insert(d.code().extra.end(), values.begin(), values.end());
  return true;
}

}  // namespace

Decoded decode_atomic(Decoder& d, const ptx::Instruction& i) {
  if (i.op == Op::kAtom || i.op == Op::kRed) return decode_atom(d, i);
  if (i.op != Op::kFence && i.op != Op::kMembar) return false;
  // Proxy fences order the generic proxy with others; here there is one.
  d.emit(fence).mode = i.op == Op::kMembar || i.has(Mod::kSc) ? 1 : 0;
  return true;
}

}  // namespace pergola::device::cpu::interp
