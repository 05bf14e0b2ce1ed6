// tex, tld4 and txq through texture objects (ISA 9.7.10). Textures by reference (.texref variables), layers and cubes are
// refused by name. Every texture has one level, so a level or gradients choose nothing, as on a GPU.
#include "src/device/cpu/cpu_texture.h"
#include "src/device/cpu/memory_map.h"
#include "src/device/cpu/interpreter/decoder.h"
#include "src/device/cpu/interpreter/exec.h"
#include "src/ptx/semantics.h"

namespace pergola::device::cpu::interp {
namespace {

using ptx::Mod;
using ptx::Op;
using ptx::Type;

const TextureImage* find(Machine& m, Thread& t, const Inst& i) {
  const std::uint64_t handle = cell(t, i.src[0]);
  const TextureImage* image = m.launch().memory->textures.find(handle);
  if (image == nullptr) m.fault(t, i, fmt::format("reads texture {:#x}, which is none of this device", handle));
  return image;
}

// mode: dimensions. mode2: 1 integer coordinates. imm: 1 + the component of tld4, 0 for tex. src 1..3: the coordinates.
// extra: the four destinations.
void run_tex(Machine& m, Thread& t, const Inst& i) {
  const TextureImage* image = find(m, t, i);
  if (image == nullptr) return;
  std::array<std::uint32_t, 3> coordinates{};
  for (int n = 0; n < i.mode; ++n) coordinates[static_cast<std::size_t>(n)] = source<std::uint32_t>(t, i, n + 1);
  const auto values = read_texture(*image, {i.mode, i.mode2 != 0, static_cast<int>(i.imm) - 1}, coordinates);
  for (std::uint32_t n = 0; n < 4; ++n) t.regs[t.function->extra[i.extra + n]] = values[n];
}

void run_txq(Machine& m, Thread& t, const Inst& i) {  // mode: which extent
  if (const TextureImage* image = find(m, t, i)) t.regs[i.dst] = texture_extent(*image, i.mode);
}

std::uint8_t take_dimensions(ModReader& mods) {
  if (mods.take(Mod::kDim1d)) return 1;
  if (mods.take(Mod::kDim2d)) return 2;
  return mods.take(Mod::kDim3d) ? 3 : 0;
}

// The handle of [handle, {x, y}]: a register. A name is a texture by reference.
bool is_object(const ptx::Operand& address) {
  return address.kind == ptx::Operand::Kind::kAddress && !address.elements.empty() && address.offset == 0 &&
         address.elements[0].kind == ptx::Operand::Kind::kRegister;
}

Decoded decode_tex(Decoder& d, const ptx::Instruction& i) {
  ModReader mods(i);
  const std::uint8_t dimensions = take_dimensions(mods);
  const bool four = mods.take(Mod::kV4);
  const std::size_t more = level_operands(i);  // operands that choose a level
  const bool chooses = mods.take(Mod::kBase) || mods.take(Mod::kLevel) || mods.take(Mod::kGrad);
  std::uint64_t component = 0;
  if (i.op == Op::kTld4) {
    constexpr Mod kComponents[] = {Mod::kR, Mod::kG, Mod::kB, Mod::kA};
    for (std::uint64_t n = 0; n < 4; ++n)
      if (mods.take(kComponents[n])) component = n + 1;
  }
  const Type result = mods.take_type(), coordinate = mods.take_type();
  const bool gathers = i.op == Op::kTld4;
  const bool known = dimensions != 0 && four && ptx::size_bytes(result) == 4 && (!gathers || (dimensions == 2 && component != 0 && !chooses)) &&
                     (coordinate == Type::kF32 || (coordinate == Type::kS32 && !gathers));
  if (!known || !mods.empty() || i.operands.size() != 2 + more) return d.unsupported(i);
  const ptx::Operand& address = i.operands[1];
  if (!is_object(address)) return d.unsupported(i, "it reads a texture by reference; pass a texture object");
  if (address.elements.size() != 2) return d.unsupported(i);
  const std::vector<ptx::Operand> to = ptx::elements(i.operands[0], d.function());
  const std::vector<ptx::Operand> at = ptx::elements(address.elements[1], d.function());
  if (to.size() != 4 || at.size() < dimensions) return d.unsupported(i);
  const std::int32_t handle = d.read(address.elements[0], Type::kB64);
  std::int32_t sources[3] = {kNoCell, kNoCell, kNoCell};
  for (std::uint8_t n = 0; n < dimensions; ++n) sources[n] = d.read(at[n], coordinate);
  std::vector<std::int32_t> cells;
  for (const ptx::Operand& one : to) cells.push_back(d.write_cell(one));
  Inst& inst = d.emit(run_tex);
  inst.src[0] = handle;
  for (int n = 0; n < 3; ++n) inst.src[n + 1] = sources[n];
  inst.mode = dimensions;
  inst.mode2 = coordinate == Type::kS32;
  inst.imm = component;
  inst.extra = static_cast<std::uint32_t>(d.code().extra.size());
  d.code().extra.insert(d.code().extra.end(), cells.begin(), cells.end());
  return true;
}

Decoded decode_txq(Decoder& d, const ptx::Instruction& i) {
  ModReader mods(i);
  std::uint8_t which = 3;
  if (mods.take(Mod::kWidth)) which = 0;
  else if (mods.take(Mod::kHeight)) which = 1;
  else if (mods.take(Mod::kDepth)) which = 2;
  const Type type = mods.take_type();
  if (which == 3 || type != Type::kB32 || !mods.empty() || i.operands.size() != 2) return d.unsupported(i);
  if (!is_object(i.operands[1])) return d.unsupported(i, "it asks a texture by reference; pass a texture object");
  const std::int32_t handle = d.read(i.operands[1].elements[0], Type::kB64), dst = d.write_cell(i.operands[0]);
  Inst& inst = d.emit(run_txq);
  inst.src[0] = handle;
  inst.dst = dst;
  inst.mode = which;
  return true;
}

}  // namespace

Decoded decode_texture(Decoder& d, const ptx::Instruction& i) {
  if (i.op == Op::kTex || i.op == Op::kTld4) return decode_tex(d, i);
  if (i.op == Op::kTxq) return decode_txq(d, i);
  return false;
}

}  // namespace pergola::device::cpu::interp
