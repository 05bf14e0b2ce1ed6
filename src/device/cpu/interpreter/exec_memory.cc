// Loads and stores of every space (ISA 9.7.9), prefetches and the like, which do nothing here.
//
// Memory that other threads may reach is accessed by relaxed atomics of the element's size at least, so kernels that
// race have no undefined behaviour on the host; a thread's own stack and its parameters are plain bytes.
#include <cstring>

#include "src/device/cpu/interpreter/decoder.h"
#include "src/device/cpu/interpreter/exec.h"
#include "src/device/cpu/interpreter/pick.h"
#include "src/ptx/semantics.h"

namespace pergola::device::cpu::interp {
namespace {

using ptx::Mod;
using ptx::Op;
using ptx::Space;
using ptx::Type;

bool is_private(Region region) {
  return region == Region::kFrame || region == Region::kLocal || region == Region::kEntryParam;
}

std::byte* locate(Machine& m, Thread& t, const Inst& i, std::uint32_t size, bool write) {
  return m.resolve(t, i, i.region, cell(t, i.src[0]) + i.imm, size, write);
}

// mode: bits of the element where it is signed, else 0. mode2: 1 where elements take two cells (b128).
template <typename T>
struct Load {
  static void run(Machine& m, Thread& t, const Inst& i) {
    const std::byte* p = locate(m, t, i, sizeof(T) * i.width, false);
    if (p == nullptr) return;
    if ((i.flags & kVolatile) != 0) m.note_strong_read(t, i, p);
    const int order = (i.flags & kAcquire) != 0 ? __ATOMIC_ACQUIRE : __ATOMIC_RELAXED;
    for (int n = 0; n < i.width; ++n, p += sizeof(T)) {
      T value;
      if (is_private(i.region))
        std::memcpy(&value, p, sizeof(T));
      else
        value = order == __ATOMIC_ACQUIRE ? __atomic_load_n(reinterpret_cast<const T*>(p), __ATOMIC_ACQUIRE)
                                          : __atomic_load_n(reinterpret_cast<const T*>(p), __ATOMIC_RELAXED);
      std::uint64_t bits = value;
      if (i.mode != 0) bits = static_cast<std::uint64_t>(static_cast<std::int64_t>(static_cast<std::make_signed_t<T>>(value)));
      const std::int32_t dst = t.function->extra[i.extra + n];
      t.regs[dst] = bits & static_cast<std::uint64_t>(t.constants[~i.src[1]]);
    }
  }
};

template <typename T>
struct Store {
  static void run(Machine& m, Thread& t, const Inst& i) {
    std::byte* p = locate(m, t, i, sizeof(T) * i.width, true);
    if (p == nullptr) return;
    const bool own = is_private(i.region);
    if (!own) m.note_write();
    for (int n = 0; n < i.width; ++n, p += sizeof(T)) {
      const auto value = static_cast<T>(cell(t, t.function->extra[i.extra + n]));
      if (own)
        std::memcpy(p, &value, sizeof(T));
      else if ((i.flags & kRelease) != 0)
        __atomic_store_n(reinterpret_cast<T*>(p), value, __ATOMIC_RELEASE);
      else
        __atomic_store_n(reinterpret_cast<T*>(p), value, __ATOMIC_RELAXED);
    }
  }
};

void zero(Machine&, Thread& t, const Inst& i) { t.regs[i.dst] = 0; }

// Modifiers that change no result: scopes (the host is one coherent domain), caching, prefetch sizes.
void take_hints(ModReader& mods) {
  constexpr Mod kHints[] = {Mod::kCta, Mod::kCluster, Mod::kGpu, Mod::kSys, Mod::kNc, Mod::kUnified, Mod::kCa, Mod::kCg,
                            Mod::kCs, Mod::kLu, Mod::kCv, Mod::kWb, Mod::kWt, Mod::kL1EvictNormal,
                            Mod::kL1EvictUnchanged, Mod::kL1EvictFirst, Mod::kL1EvictLast, Mod::kL1NoAllocate,
                            Mod::kL264B, Mod::kL2128B, Mod::kL2256B, Mod::kL2EvictLast, Mod::kL2EvictNormal,
                            Mod::kL2EvictFirst, Mod::kWeak};
  for (Mod hint : kHints) mods.take(hint);
}

Decoded decode_access(Decoder& d, const ptx::Instruction& i) {
  const bool load = i.op != Op::kSt;
  ModReader mods(i);
  std::uint16_t flags = 0;
  if (mods.take(Mod::kVolatile) || mods.take(Mod::kRelaxed)) flags |= kVolatile;
  if (mods.take(Mod::kMmio)) flags |= kVolatile;
  if (mods.take(Mod::kAcquire)) flags |= kVolatile | kAcquire;
  if (mods.take(Mod::kRelease)) flags |= kVolatile | kRelease;
  take_hints(mods);
  const bool policy = mods.take(Mod::kL2CacheHint) || mods.take(Mod::kL1CacheHint);
  const Space space = mods.take_space().value_or(Space::kNone);
  std::uint32_t width = static_cast<std::uint32_t>(i.vector_width());
  mods.take(Mod::kV2);
  mods.take(Mod::kV4);
  mods.take(Mod::kV8);
  const Type type = mods.take_type();
  const std::uint32_t bytes = ptx::size_bytes(type);
  if (!mods.empty() || i.operands.size() != (policy ? 3u : 2u) || bytes == 0) return d.unsupported(i);
  const ptx::Operand& value = i.operands[load ? 0 : 1];
  PERGOLA_ASSIGN(const Decoder::Address address, d.address(i, i.operands[load ? 1 : 0], space));
  if (!load && (address.region == Region::kEntryParam || space == Space::kConst)) return d.unsupported(i);

  const std::vector<ptx::Operand> elements = ptx::elements(value, d.function());
  if (elements.size() != width) return d.unsupported(i);
  std::vector<std::int32_t> cells;
  std::uint64_t mask = ~std::uint64_t{0};
  for (const ptx::Operand& element : elements) {
    const std::int32_t index = load ? d.write_cell(element) : d.read(element, type);
    cells.push_back(index);
    if (bytes == 16) cells.push_back(index >= 0 ? index + 1 : d.constant(0));
    if (load && element.kind == ptx::Operand::Kind::kRegister && ptx::size_bytes(d.register_type(element.reg)) < 8)
      mask = (std::uint64_t{1} << (8 * ptx::size_bytes(d.register_type(element.reg)))) - 1;
  }
  const std::uint32_t each = bytes == 16 ? 8 : bytes;
  const LaneFn fn = load ? pick_bits<Load>(each) : pick_bits<Store>(each);
  if (fn == nullptr || cells.size() > 16) return d.unsupported(i);
  const std::int32_t mask_index = d.constant(mask);
  Inst& inst = d.emit(fn);
  inst.src[0] = address.base;
  inst.src[1] = mask_index;
  inst.imm = address.offset;
  inst.region = address.region;
  inst.width = static_cast<std::uint8_t>(cells.size());
  inst.mode = ptx::is_signed(type);
  inst.flags = flags;
  inst.extra = static_cast<std::uint32_t>(d.code().extra.size());
  d.code().extra.insert(d.code().extra.end(), cells.begin(), cells.end());
  return true;
}

}  // namespace

Decoded decode_memory(Decoder& d, const ptx::Instruction& i) {
  switch (i.op) {
    case Op::kLd:
    case Op::kLdu:
    case Op::kSt: return decode_access(d, i);
    // Hints. discard allows any content, the old one too.
    case Op::kPrefetch:
    case Op::kPrefetchu:
    case Op::kApplypriority:
    case Op::kDiscard: d.emit(nothing); return true;
    case Op::kCreatepolicy: {
      if (i.operands.empty()) return d.unsupported(i);
      const std::int32_t dst = d.write_cell(i.operands[0]);
      d.emit(zero).dst = dst;
      return true;
    }
    default: return false;
  }
}

}  // namespace pergola::device::cpu::interp
