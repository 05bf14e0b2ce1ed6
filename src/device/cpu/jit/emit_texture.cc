// tex, tld4 and txq through texture objects (PTX ISA 9.7.10): each is a call of the run time, which knows the texels.
#include "src/device/cpu/cpu_texture.h"
#include "src/device/cpu/jit/emitter.h"
#include "src/device/cpu/jit/runtime_calls.h"

namespace pergola::device::cpu::jit {

using ptx::Mod;
using ptx::Op;
using ptx::Operand;
using ptx::Type;
using Value = llvm::Value*;

namespace {

std::uint32_t dimensions_of(const ptx::Instruction& in) {
  return in.has(Mod::kDim1d) ? 1 : in.has(Mod::kDim2d) ? 2 : in.has(Mod::kDim3d) ? 3 : 0;
}

}  // namespace

bool FunctionEmitter::emit_texture(const Inst& in) {
  if (in.op != Op::kTex && in.op != Op::kTld4 && in.op != Op::kTxq) return false;
  if (in.operands.size() != 2 + level_operands(in) || in.operands[1].kind != Operand::Kind::kAddress) refuse(in, "this form is not implemented in this tier");
  const std::vector<Operand>& parts = in.operands[1].elements;
  if (parts.empty() || parts[0].kind != Operand::Kind::kRegister) refuse(in, "it reads a texture by reference; pass a texture object");
  Value handle = read(parts[0], 64);
  if (in.op == Op::kTxq) {
    const std::uint32_t which = in.has(Mod::kWidth) ? 0 : in.has(Mod::kHeight) ? 1 : in.has(Mod::kDepth) ? 2 : 3;
    if (which == 3) refuse(in, "this query is not implemented in this tier");
    Value v = call_runtime("pergola_jit_texture_extent", i(32), {thread_, handle, k(32, which), k(32, in.location.line)});
    return write(in.operands[0], v), true;
  }
  const bool gathers = in.op == Op::kTld4;
  const std::uint32_t dimensions = dimensions_of(in);
  const Type result = in.type(0), coordinate = in.type(1);
  std::uint32_t index = 0;  // 1 + the component of tld4
  constexpr Mod kComponents[] = {Mod::kR, Mod::kG, Mod::kB, Mod::kA};
  for (std::uint32_t n = 0; n < 4; ++n) index = gathers && in.has(kComponents[n]) ? n + 1 : index;
  const bool chooses = !gathers && (in.has(Mod::kBase) || in.has(Mod::kLevel) || in.has(Mod::kGrad));  // a level, of one
  const std::size_t known_mods = gathers || chooses ? 5 : 4;  // geometry, .v4, two types, and the component of tld4
  const bool known = dimensions != 0 && in.vector_width() == 4 && bits_of(result) == 32 && in.mods.size() == known_mods &&
                     (!gathers || (dimensions == 2 && index != 0)) &&
                     (coordinate == Type::kF32 || (coordinate == Type::kS32 && !gathers));
  const std::vector<Operand> to = ptx::elements(in.operands[0], f_);
  const std::vector<Operand> at = parts.size() == 2 ? ptx::elements(parts[1], f_) : std::vector<Operand>();
  if (!known || to.size() != 4 || at.size() < dimensions) refuse(in, "this form is not implemented in this tier");
  Value coordinates = entry_alloca(llvm::ArrayType::get(i(32), 3), "coordinates", 4);
  Value texel = entry_alloca(llvm::ArrayType::get(i(32), 4), "texel", 4);
  for (std::uint32_t n = 0; n < dimensions; ++n) {
    Value v = coordinate == Type::kF32 ? to_bits(read_float(at[n], Type::kF32)) : read(at[n], 32);
    b_.CreateStore(v, b_.CreateConstGEP1_64(i(8), coordinates, 4 * std::uint64_t{n}));
  }
  const std::uint32_t form = dimensions | (coordinate == Type::kS32 ? kTextureInteger : 0) | index << kTextureGatherShift;
  call_runtime("pergola_jit_texture", b_.getVoidTy(), {thread_, handle, k(32, form), coordinates, texel, k(32, in.location.line)});
  for (std::uint64_t n = 0; n < 4; ++n) write(to[n], b_.CreateLoad(i(32), b_.CreateConstGEP1_64(i(8), texel, 4 * n)));
  return true;
}

}  // namespace pergola::device::cpu::jit
