// mbarrier (ISA 9.7.13.15) and cp.async (ISA 9.7.9.25).
//
// An mbarrier object is one 64-bit word of shared memory, opaque to kernels. Ours:
//
//   63   61 60          40 39         20 19          0
//   | phase | tx count, s. | expected   | pending     |
//
// The phase is complete when pending and tx count are both 0; then the phase number moves on and pending is expected
// again. A state, as mbarrier.arrive returns it, is the word before the arrival: its phase has completed when the
// word's phase number is another one. cp.async copies at once, so its groups are always complete.
#include <cstring>

#include "src/base/plural.h"
#include "src/device/cpu/interpreter/decoder.h"
#include "src/device/cpu/interpreter/exec.h"

namespace pergola::device::cpu::interp {
namespace {

using ptx::Mod;
using ptx::Op;
using ptx::Type;

constexpr std::uint32_t kMaxCount = (1u << 20) - 1;

struct BarrierWord {
  std::uint32_t pending = 0, expected = 0;
  std::int32_t tx = 0;
  std::uint32_t phase = 0;

  static BarrierWord decode(std::uint64_t word) {
    BarrierWord b;
    b.pending = word & kMaxCount;
    b.expected = word >> 20 & kMaxCount;
    const auto raw = static_cast<std::int32_t>(word >> 40 & 0x1fffff);
    b.tx = raw >= 0x100000 ? raw - 0x200000 : raw;
    b.phase = static_cast<std::uint32_t>(word >> 61);
    return b;
  }
  std::uint64_t encode() const {
    return pending | std::uint64_t{expected} << 20 | (static_cast<std::uint64_t>(tx) & 0x1fffff) << 40 |
           std::uint64_t{phase} << 61;
  }
  void settle() {
    if (pending != 0 || tx != 0) return;
    phase = (phase + 1) & 7;
    pending = expected;
  }
};

// Inst: mode the action, src: address, count (or state, or parity), transaction bytes; dst the state or predicate.
enum Action : std::uint8_t { kInit, kInval, kArrive, kArriveDrop, kExpectTx, kCompleteTx, kTestState, kTestParity };

bool apply(Machine& m, Thread& t, const Inst& i, BarrierWord& b, std::uint32_t count) {
  const std::uint32_t bytes = i.src[2] != kNoCell ? source<std::uint32_t>(t, i, 2) : 0;
  switch (i.mode) {
    case kInit:
      if (count == 0 || count > kMaxCount) {
        m.fault(t, i, fmt::format("initialises an mbarrier with a count of {}; it is 1 to {}", count, kMaxCount));
        return false;
      }
      b = {count, count, 0, 0};
      return true;
    case kInval: b = {}; return true;
    case kExpectTx: b.tx += static_cast<std::int32_t>(bytes); return true;
    case kCompleteTx:
      b.tx -= static_cast<std::int32_t>(bytes);
      b.settle();
      return true;
    default: break;
  }
  if (count > b.pending) {
    m.fault(t, i, fmt::format("arrives {} at an mbarrier that awaits {}", plural(count, "time"), b.pending));
    return false;
  }
  b.tx += static_cast<std::int32_t>(bytes);
  b.pending -= count;
  if (i.mode == kArriveDrop) b.expected -= std::min(count, b.expected);
  b.settle();
  return true;
}

void run_mbarrier(Machine& m, Thread& t, const Inst& i) {
  std::byte* p = m.resolve(t, i, i.region, cell(t, i.src[0]) + i.imm, 8, true);
  if (p == nullptr) return;
  auto* word = reinterpret_cast<std::uint64_t*>(p);
  const std::uint32_t count = i.src[1] != kNoCell ? source<std::uint32_t>(t, i, 1) : 1;
  std::uint64_t old = __atomic_load_n(word, __ATOMIC_ACQUIRE);
  std::uint64_t fresh = old;
  do {
    BarrierWord b = BarrierWord::decode(old);
    if (!apply(m, t, i, b, count)) return;
    fresh = b.encode();
  } while (!__atomic_compare_exchange_n(word, &old, fresh, false, __ATOMIC_SEQ_CST, __ATOMIC_ACQUIRE));
  m.note_write();
  if (i.dst != kNoCell) t.regs[i.dst] = old;
}

// test_wait, try_wait: whether the phase of a state, or the one of a parity, has completed. Where it has not, the
// thread lets others go first: try_wait may suspend.
void test_phase(Machine& m, Thread& t, const Inst& i) {
  const std::byte* p = m.resolve(t, i, i.region, cell(t, i.src[0]) + i.imm, 8, false);
  if (p == nullptr) return;
  const BarrierWord b = BarrierWord::decode(__atomic_load_n(reinterpret_cast<const std::uint64_t*>(p), __ATOMIC_ACQUIRE));
  m.note_strong_read(t, i, p);
  bool done;
  if (i.mode == kTestParity)
    done = (b.phase & 1) != (source<std::uint32_t>(t, i, 1) & 1);
  else
    done = b.phase != BarrierWord::decode(cell(t, i.src[1])).phase;
  t.regs[i.dst] = done ? 1 : 0;
}

void pending_count(Machine&, Thread& t, const Inst& i) {
  t.regs[i.dst] = BarrierWord::decode(cell(t, i.src[0])).pending;
}

// cp.async: src the destination and source addresses and the bytes really read, imm the size, extra the two offsets'
// constants. The rest of the destination is zero.
void copy_async(Machine& m, Thread& t, const Inst& i) {
  const auto size = static_cast<std::uint32_t>(i.imm);
  std::uint32_t take = i.src[2] != kNoCell ? source<std::uint32_t>(t, i, 2) : size;
  if (i.mode == 1) take = take != 0 ? 0 : size;  // an ignore-src predicate
  take = std::min(take, size);
  std::byte* to = m.resolve(t, i, Region::kShared, cell(t, i.src[0]), size, true);
  if (to == nullptr) return;
  const std::byte* from = take == 0 ? nullptr : m.resolve(t, i, Region::kGlobal, cell(t, i.src[1]), size, false);
  if (take != 0 && from == nullptr) return;
  m.note_write();
  for (std::uint32_t n = 0; n < size; n += 4) {
    std::uint32_t value = 0;
    if (n < take) value = __atomic_load_n(reinterpret_cast<const std::uint32_t*>(from + n), __ATOMIC_RELAXED);
    if (take > n && take - n < 4) value &= (1u << (8 * (take - n))) - 1;
    __atomic_store_n(reinterpret_cast<std::uint32_t*>(to + n), value, __ATOMIC_RELAXED);
  }
}

void add_offset(Machine&, Thread& t, const Inst& i) { t.regs[i.dst] = cell(t, i.src[0]) + i.imm; }

std::int32_t whole_address(Decoder& d, const Decoder::Address& address) {
  const std::int32_t result = d.temporary();
  Inst& inst = d.emit_unguarded(add_offset);
  inst.dst = result;
  inst.src[0] = address.base;
  inst.imm = address.offset;
  return result;
}

// cp.async.mbarrier.arrive: the copies are done, so it arrives at once; without .noinc the pending count first goes up
// by the arrival that follows.
Decoded decode_copies_done(Decoder& d, const ptx::Instruction& i, ModReader& mods) {
  const bool arrives = mods.take(Mod::kArrive), counted = mods.take(Mod::kNoinc);
  const auto space = mods.take_space().value_or(ptx::Space::kNone);
  const Type type = mods.take_type();
  if (!arrives || type != Type::kB64 || !mods.empty() || i.operands.size() != 1) return d.unsupported(i);
  PERGOLA_ASSIGN(const Decoder::Address address, d.address(i, i.operands[0], space));
  if (address.region != Region::kShared && address.region != Region::kGeneric) return d.unsupported(i);
  Inst& inst = d.emit(counted ? run_mbarrier : nothing);
  inst.src[0] = address.base;
  inst.imm = address.offset;
  inst.region = address.region;
  inst.mode = kArrive;
  return true;
}

Decoded decode_copy(Decoder& d, const ptx::Instruction& i) {
  ModReader mods(i);
  if (!mods.take(Mod::kAsync)) return d.unsupported(i);
  if (mods.take(Mod::kCommitGroup) || mods.take(Mod::kWaitGroup) || mods.take(Mod::kWaitAll)) {
    if (!mods.empty()) return d.unsupported(i);
    d.emit(nothing);
    return true;
  }
  if (mods.take(Mod::kMbarrier)) return decode_copies_done(d, i, mods);
  for (Mod hint : {Mod::kCa, Mod::kCg, Mod::kL264B, Mod::kL2128B, Mod::kL2256B}) mods.take(hint);
  const bool policy = mods.take(Mod::kL2CacheHint);
  const auto to = mods.take_space(), from = mods.take_space();
  std::size_t operands = i.operands.size() - (policy ? 1 : 0);
  if (to != ptx::Space::kShared || from != ptx::Space::kGlobal || !mods.empty() || operands < 3 || operands > 4 ||
      i.operands[2].kind != ptx::Operand::Kind::kInteger)
    return d.unsupported(i);
  const std::uint64_t size = i.operands[2].bits;
  if (size != 4 && size != 8 && size != 16) return d.unsupported(i);
  PERGOLA_ASSIGN(const Decoder::Address destination, d.address(i, i.operands[0], ptx::Space::kShared));
  PERGOLA_ASSIGN(const Decoder::Address origin, d.address(i, i.operands[1], ptx::Space::kGlobal));
  const bool ignores = operands == 4 && i.operands[3].kind == ptx::Operand::Kind::kRegister &&
                       d.register_type(i.operands[3].reg) == Type::kPred;
  const std::int32_t take = operands == 4 ? d.read(i.operands[3], ignores ? Type::kPred : Type::kU32) : kNoCell;
  const std::int32_t a = whole_address(d, destination), b = whole_address(d, origin);
  Inst& inst = d.emit(copy_async);
  inst.src[0] = a;
  inst.src[1] = b;
  inst.src[2] = take;
  inst.imm = size;
  inst.mode = ignores;
  return true;
}

std::optional<Action> take_action(ModReader& mods) {
  constexpr std::pair<Mod, Action> kActions[] = {{Mod::kInit, kInit},         {Mod::kInval, kInval},
                                                 {Mod::kArriveDrop, kArriveDrop}, {Mod::kArrive, kArrive},
                                                 {Mod::kCompleteTx, kCompleteTx}, {Mod::kTestWait, kTestState},
                                                 {Mod::kTryWait, kTestState}};
  for (const auto& [mod, action] : kActions)
    if (mods.take(mod)) return action;
  return std::nullopt;
}

void take_order(ModReader& mods) {
  for (Mod mod : {Mod::kAcquire, Mod::kRelease, Mod::kRelaxed, Mod::kCta, Mod::kCluster, Mod::kNoComplete}) mods.take(mod);
}

Decoded decode_pending(Decoder& d, const ptx::Instruction& i) {
  if (i.operands.size() != 2) return d.unsupported(i);
  const std::int32_t state = d.read(i.operands[1], Type::kB64), dst = d.write_cell(i.operands[0]);
  Inst& inst = d.emit(pending_count);
  inst.dst = dst;
  inst.src[0] = state;
  return true;
}

// Operands by action: init a, n; inval a; expect_tx, complete_tx a, bytes; arrive [state,] a [, count or bytes];
// test_wait, try_wait p, a, state or parity [, time].
Decoded decode_mbarrier(Decoder& d, const ptx::Instruction& i) {
  ModReader mods(i);
  if (mods.take(Mod::kPendingCount)) return decode_pending(d, i);
  const bool expects = mods.take(Mod::kExpectTx);
  auto action = take_action(mods);
  if (!action && expects) action = kExpectTx;
  take_order(mods);
  const bool parity = mods.take(Mod::kParity);
  const auto space = mods.take_space().value_or(ptx::Space::kNone);
  const Type type = mods.take_type();
  if (!action || !mods.empty() || type != Type::kB64 || i.operands.empty()) return d.unsupported(i);
  const bool tests = *action == kTestState;
  if (tests && parity) action = kTestParity;
  std::size_t at = i.operands[0].kind == ptx::Operand::Kind::kAddress ? 0 : 1;
  if (i.operands.size() <= at || (tests && i.operands.size() < at + 2)) return d.unsupported(i);
  const std::int32_t dst = at == 1 ? d.write_cell(i.operands[0]) : kNoCell;
  PERGOLA_ASSIGN(const Decoder::Address address, d.address(i, i.operands[at], space));
  if (address.region != Region::kShared && address.region != Region::kGeneric) return d.unsupported(i);
  std::int32_t second = kNoCell, bytes = kNoCell;
  const bool counts_bytes = expects || *action == kCompleteTx;
  if (at + 1 < i.operands.size())
    (counts_bytes ? bytes : second) = d.read(i.operands[at + 1], tests && !parity ? Type::kB64 : Type::kU32);
  Inst& inst = d.emit(tests ? test_phase : run_mbarrier);
  inst.dst = dst;
  inst.src[0] = address.base;
  inst.src[1] = second;
  inst.src[2] = bytes;
  inst.imm = address.offset;
  inst.region = address.region;
  inst.mode = *action;
  return true;
}

}  // namespace

Decoded decode_async(Decoder& d, const ptx::Instruction& i) {
  if (i.op == Op::kCp) return decode_copy(d, i);
  if (i.op == Op::kMbarrier) return decode_mbarrier(d, i);
  return false;
}

}  // namespace pergola::device::cpu::interp
