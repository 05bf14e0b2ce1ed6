// mov, with packing and unpacking, special registers, and addresses: cvta, isspacep, alloca (ISA 9.7.9, 10).
#include <chrono>

#include "src/device/cpu/interpreter/decoder.h"
#include "src/device/cpu/interpreter/exec.h"
#include "src/ptx/semantics.h"

namespace pergola::device::cpu::interp {
namespace {

using ptx::Mod;
using ptx::Op;
using ptx::Special;
using ptx::Type;
using OperandKind = ptx::Operand::Kind;

void move(Machine&, Thread& t, const Inst& i) { t.regs[i.dst] = cell(t, i.src[0]) & i.imm; }
void move_128(Machine&, Thread& t, const Inst& i) {
  const std::uint64_t low = cell(t, i.src[0]), high = cell(t, i.src[0] + 1);
  t.regs[i.dst] = low;
  t.regs[i.dst + 1] = high;
}

// width elements of imm bits each, at extra, form the value; the first is the lowest.
void pack(Machine&, Thread& t, const Inst& i) {
  unsigned __int128 value = 0;
  for (int n = 0; n < i.width; ++n) {
    const std::uint64_t part = cell(t, t.function->extra[i.extra + n]) & (~std::uint64_t{0} >> (64 - i.imm));
    value |= static_cast<unsigned __int128>(part) << (n * i.imm);
  }
  t.regs[i.dst] = static_cast<std::uint64_t>(value);
  if (i.width * i.imm == 128) t.regs[i.dst + 1] = static_cast<std::uint64_t>(value >> 64);
}
void unpack(Machine&, Thread& t, const Inst& i) {
  unsigned __int128 value = cell(t, i.src[0]);
  if (i.width * i.imm == 128) value |= static_cast<unsigned __int128>(cell(t, i.src[0] + 1)) << 64;
  for (int n = 0; n < i.width; ++n)
    t.regs[t.function->extra[i.extra + n]] =
        static_cast<std::uint64_t>(value >> (n * i.imm)) & (~std::uint64_t{0} >> (64 - i.imm));
}

// cvta: region says the space.
std::uint64_t window(Machine& m, const Thread& t, Region region) {
  if (region == Region::kShared) return reinterpret_cast<std::uintptr_t>(m.block().shared_base);
  if (region == Region::kLocal) return reinterpret_cast<std::uintptr_t>(t.stack);
  return 0;
}
void to_generic(Machine& m, Thread& t, const Inst& i) {
  t.regs[i.dst] = (cell(t, i.src[0]) + window(m, t, i.region)) & i.imm;
}
void from_generic(Machine& m, Thread& t, const Inst& i) {
  t.regs[i.dst] = (cell(t, i.src[0]) - window(m, t, i.region)) & i.imm;
}

void is_space(Machine& m, Thread& t, const Inst& i) {
  const std::uint64_t address = cell(t, i.src[0]);
  auto inside = [address](const void* base, std::uint64_t size) {
    return address - reinterpret_cast<std::uintptr_t>(base) < size;
  };
  const bool shared = inside(m.block().shared_base, m.block().shared_bytes);
  const bool local = inside(t.stack, m.stack_bytes());
  const bool param = inside(m.launch().parameters.data(), m.launch().parameters.size());
  const auto& constants = m.module().constants;
  const bool constant = std::any_of(constants.begin(), constants.end(), [&](const GlobalPlacement& one) {
    return inside(one.address, one.size_bytes);
  });
  bool result = false;
  switch (i.region) {
    case Region::kShared: result = shared; break;
    case Region::kLocal: result = local; break;
    case Region::kEntryParam: result = param; break;
    case Region::kConst: result = constant; break;
    default: result = !shared && !local && !param && !constant; break;
  }
  write(t, i.dst, result);
}

void stack_save(Machine&, Thread& t, const Inst& i) { t.regs[i.dst] = t.stack_top; }
void stack_restore(Machine& m, Thread& t, const Inst& i) {
  const std::uint64_t top = cell(t, i.src[0]);
  if (top < t.frame || top > m.stack_bytes())
    m.fault(t, i, "restores a stack pointer that it did not save");
  else
    t.stack_top = static_cast<std::uint32_t>(top);
}
void allocate(Machine& m, Thread& t, const Inst& i) {  // src[0] the size, imm the alignment
  const std::uint64_t size = cell(t, i.src[0]);
  const std::uint64_t begin = (t.stack_top + i.imm - 1) / i.imm * i.imm;
  if (size > m.stack_bytes() || begin + size > m.stack_bytes()) {
    m.fault(t, i, fmt::format("asks for {} bytes of its stack of {} bytes", size, m.stack_bytes()));
    return;
  }
  t.stack_top = static_cast<std::uint32_t>((begin + size + 15) / 16 * 16);
  t.regs[i.dst] = begin;
}

std::uint64_t now_ns() {
  return static_cast<std::uint64_t>(
      std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::system_clock::now().time_since_epoch()).count());
}

std::uint32_t component(const Dim3& d, int n) { return n == 0 ? d.x : n == 1 ? d.y : n == 2 ? d.z : 0; }

template <int kComponent>
struct Vector {
  static void tid(Machine&, Thread& t, const Inst& i) { t.regs[i.dst] = component(t.tid, kComponent); }
  static void ntid(Machine& m, Thread& t, const Inst& i) {
    t.regs[i.dst] = component(m.launch().config.block, kComponent);
  }
  static void ctaid(Machine& m, Thread& t, const Inst& i) { t.regs[i.dst] = component(m.block().index, kComponent); }
  static void nctaid(Machine& m, Thread& t, const Inst& i) {
    t.regs[i.dst] = component(m.launch().config.grid, kComponent);
  }
  static void one(Machine&, Thread& t, const Inst& i) { t.regs[i.dst] = kComponent < 3 ? 1 : 0; }
  static LaneFn of(Special special) {
    switch (special) {
      case Special::kTid: return tid;
      case Special::kNtid: return ntid;
      case Special::kCtaid: return ctaid;
      case Special::kNctaid: return nctaid;
      // Without clusters a launch is one implicit cluster a block.
      case Special::kClusterid: return ctaid;
      case Special::kNclusterid: return nctaid;
      case Special::kClusterNctaid: return one;
      case Special::kClusterCtaid: return [](Machine&, Thread& t, const Inst& i) { t.regs[i.dst] = 0; };
      default: return nullptr;
    }
  }
};

#define PERGOLA_READ(expression) \
  [](Machine& m, Thread& t, const Inst& i) { static_cast<void>(m); t.regs[i.dst] = static_cast<std::uint64_t>(expression); }

LaneFn scalar_reader(Special special) {
  switch (special) {
    case Special::kLaneid: return PERGOLA_READ(t.lane);
    case Special::kWarpid: return PERGOLA_READ(t.warp);
    case Special::kNwarpid: return PERGOLA_READ(m.warp_count());
    case Special::kSmid: return PERGOLA_READ(m.block().sm);
    case Special::kNsmid: return PERGOLA_READ(m.launch().sm_count);
    case Special::kGridid: return PERGOLA_READ(m.launch().grid_id);
    case Special::kIsExplicitCluster:
    case Special::kClusterCtarank:
    case Special::kCurrentGraphExec: return PERGOLA_READ(0);
    case Special::kClusterNctarank: return PERGOLA_READ(1);
    case Special::kLanemaskEq: return PERGOLA_READ(bit(t.lane));
    case Special::kLanemaskLt: return PERGOLA_READ(bit(t.lane) - 1);
    case Special::kLanemaskLe: return PERGOLA_READ(bit(t.lane) | (bit(t.lane) - 1));
    case Special::kLanemaskGt: return PERGOLA_READ(LaneMask(~(bit(t.lane) | (bit(t.lane) - 1))));
    case Special::kLanemaskGe: return PERGOLA_READ(LaneMask(~(bit(t.lane) - 1)));
    case Special::kClock: return PERGOLA_READ(static_cast<std::uint32_t>(m.instructions()));
    case Special::kClockHi: return PERGOLA_READ(m.instructions() >> 32);
    case Special::kClock64: return PERGOLA_READ(m.instructions());
    case Special::kGlobaltimer: return PERGOLA_READ(now_ns());
    case Special::kGlobaltimerLo: return PERGOLA_READ(static_cast<std::uint32_t>(now_ns()));
    case Special::kGlobaltimerHi: return PERGOLA_READ(now_ns() >> 32);
    case Special::kReservedSmemOffset: return PERGOLA_READ(0);
    case Special::kTotalSmemSize:
    case Special::kAggrSmemSize: return PERGOLA_READ(m.block().shared_bytes);
    case Special::kDynamicSmemSize: return PERGOLA_READ(m.launch().config.dynamic_shared_bytes);
    default: return nullptr;
  }
}
#undef PERGOLA_READ

std::uint64_t mask_of(Type type) {
  if (type == Type::kPred) return 1;
  const std::uint32_t bytes = ptx::size_bytes(type);
  return bytes >= 8 ? ~std::uint64_t{0} : (std::uint64_t{1} << (8 * bytes)) - 1;
}

Decoded decode_vector_move(Decoder& d, const ptx::Instruction& i, Type type, bool packs) {
  const ptx::Operand& vector = i.operands[packs ? 1 : 0];
  const std::size_t count = vector.elements.size();
  const std::uint32_t bits = 8 * ptx::size_bytes(type);
  if ((count != 2 && count != 4 && count != 8) || bits % count != 0) return d.unsupported(i);
  const std::uint32_t each = bits / static_cast<std::uint32_t>(count);
  std::vector<std::int32_t> cells;
  for (const ptx::Operand& element : vector.elements)
    cells.push_back(packs ? d.read(element, Type::kB64) : d.write_cell(element));
  const std::int32_t other = packs ? d.write_cell(i.operands[0]) : d.read(i.operands[1], type);
  Inst& inst = d.emit(packs ? pack : unpack);
  (packs ? inst.dst : inst.src[0]) = other;
  inst.width = static_cast<std::uint8_t>(count);
  inst.imm = each;
  inst.extra = static_cast<std::uint32_t>(d.code().extra.size());
  d.code().extra.insert(d.code().extra.end(), cells.begin(), cells.end());
  return true;
}

// mov.v4 of vector registers or {a, b, c, d}: all are read before any is written.
Decoded decode_whole_vector_move(Decoder& d, const ptx::Instruction& i, Type type) {
  const std::vector<ptx::Operand> to = ptx::elements(i.operands[0], d.function()), from = ptx::elements(i.operands[1], d.function());
  if (to.size() != from.size() || to.size() != static_cast<std::size_t>(i.vector_width()) || ptx::size_bytes(type) > 8)
    return d.unsupported(i);
  const auto emit_move = [&](std::int32_t dst, std::int32_t src) {
    Inst& inst = d.emit(move);
    inst.src[0] = src;
    inst.dst = dst;
    inst.imm = mask_of(type);
  };
  const std::int32_t between = d.temporary(static_cast<std::uint32_t>(from.size()));
  for (std::size_t n = 0; n < from.size(); ++n) emit_move(between + static_cast<std::int32_t>(n), d.read(from[n], type));
  for (std::size_t n = 0; n < to.size(); ++n) emit_move(d.write_cell(to[n]), between + static_cast<std::int32_t>(n));
  return true;
}

Decoded decode_mov(Decoder& d, const ptx::Instruction& i) {
  ModReader mods(i);
  mods.take(Mod::kV2);
  mods.take(Mod::kV4);
  const Type type = mods.take_type();
  if (!mods.empty() || i.operands.size() != 2) return d.unsupported(i);
  if (i.vector_width() != 1) return decode_whole_vector_move(d, i, type);
  const bool packs = i.operands[1].kind == OperandKind::kVector;
  if (packs || i.operands[0].kind == OperandKind::kVector) return decode_vector_move(d, i, type, packs);
  const std::int32_t a = d.read(i.operands[1], type);
  const std::int32_t dst = d.write_cell(i.operands[0]);
  Inst& inst = d.emit(ptx::size_bytes(type) > 8 ? move_128 : move);
  inst.src[0] = a;
  inst.dst = dst;
  inst.imm = mask_of(type);
  return true;
}

std::optional<Region> region_of(ptx::Space space) {
  switch (space) {
    case ptx::Space::kGlobal: return Region::kGlobal;
    case ptx::Space::kConst: return Region::kConst;
    case ptx::Space::kShared: return Region::kShared;
    case ptx::Space::kLocal: return Region::kLocal;
    case ptx::Space::kParam: return Region::kEntryParam;
    default: return std::nullopt;
  }
}

Decoded decode_address_conversion(Decoder& d, const ptx::Instruction& i) {
  ModReader mods(i);
  const bool to = mods.take(Mod::kTo);
  const auto space = mods.take_space();
  const Type type = i.op == Op::kCvta ? mods.take_type() : Type::kB64;
  const auto region = space ? region_of(*space) : std::nullopt;
  if (!region || !mods.empty() || i.operands.size() != 2) return d.unsupported(i);
  const std::int32_t a = d.read(i.operands[1], Type::kB64);
  const std::int32_t dst = d.write_cell(i.operands[0]);
  Inst& inst = d.emit(i.op == Op::kIsspacep ? is_space : to ? from_generic : to_generic);
  inst.src[0] = a;
  inst.dst = dst;
  inst.region = *region;
  inst.imm = mask_of(type);
  return true;
}

Decoded decode_stack(Decoder& d, const ptx::Instruction& i) {
  ModReader mods(i);
  mods.take_type();
  if (!mods.empty() || i.operands.empty()) return d.unsupported(i);
  if (i.op == Op::kStacksave) {
    const std::int32_t dst = d.write_cell(i.operands[0]);
    d.emit(stack_save).dst = dst;
    return true;
  }
  if (i.op == Op::kStackrestore) {
    const std::int32_t a = d.read(i.operands[0], Type::kB64);
    d.emit(stack_restore).src[0] = a;
    return true;
  }
  std::uint64_t align = 8;
  if (i.operands.size() == 3) align = i.operands[2].bits;
  if (i.operands.size() < 2 || align == 0 || (align & (align - 1)) != 0 || align > 4096) return d.unsupported(i);
  d.code().allocates_stack = true;
  const std::int32_t size = d.read(i.operands[1], Type::kB64);
  const std::int32_t dst = d.write_cell(i.operands[0]);
  Inst& inst = d.emit(allocate);
  inst.src[0] = size;
  inst.dst = dst;
  inst.imm = align;
  return true;
}

}  // namespace

LaneFn special_reader(Special special, int component_index) {
  if (special == Special::kEnvreg) {  // of the driver's 32 those that grid-wide barriers read
    if (component_index == 1) return [](Machine& m, Thread& t, const Inst& i) { t.regs[i.dst] = m.launch().grid_workspace >> 32; };
    if (component_index == 2)
      return [](Machine& m, Thread& t, const Inst& i) { t.regs[i.dst] = static_cast<std::uint32_t>(m.launch().grid_workspace); };
    return nullptr;
  }
  switch (component_index) {
    case 0: return Vector<0>::of(special);
    case 1: return Vector<1>::of(special);
    case 2: return Vector<2>::of(special);
    case 3: return Vector<3>::of(special);
    default: return scalar_reader(special);
  }
}

Decoded decode_move(Decoder& d, const ptx::Instruction& i) {
  switch (i.op) {
    case Op::kMov: return decode_mov(d, i);
    case Op::kCvta:
    case Op::kIsspacep: return decode_address_conversion(d, i);
    case Op::kAlloca:
    case Op::kStacksave:
    case Op::kStackrestore: return decode_stack(d, i);
    default: return false;
  }
}

}  // namespace pergola::device::cpu::interp
