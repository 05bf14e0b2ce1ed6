#include "src/analysis/memory_operands.h"

#include "src/ptx/semantics.h"

namespace pergola::analysis {
namespace {

using ptx::Instruction;
using ptx::Mod;
using ptx::Op;
using ptx::Space;
using Operands = boost::container::small_vector<MemoryOperand, 2>;

boost::container::small_vector<std::size_t, 3> addresses(const Instruction& instruction) {
  boost::container::small_vector<std::size_t, 3> found;
  for (std::size_t i = 0; i < instruction.operands.size(); ++i) {
    if (instruction.operands[i].kind == ptx::Operand::Kind::kAddress) found.push_back(i);
  }
  return found;
}

// cp.async.ca.shared.global [dst], [src], 16;  cp.async.bulk.shared::cluster.global.… [dst], [src], size, [mbar];
// cp.async.bulk.tensor… [dst], [map, {…}], [mbar]: through a descriptor.
Operands copy_operands(const Instruction& instruction) {
  boost::container::small_vector<Space, 3> spaces;
  for (const Mod mod : instruction.mods) {
    if (const auto space = ptx::space_of(mod)) spaces.push_back(*space);
  }
  const auto at = addresses(instruction);
  if (at.empty() || instruction.has(Mod::kPrefetch) || instruction.has(Mod::kMbarrier)) return {};
  if (instruction.has(Mod::kTensor)) return {{MemoryOperand::kNowhere, Space::kNone, true, true}};
  if (at.size() >= 2 && spaces.size() >= 2) {
    return {{at[0], spaces[0], instruction.has(Mod::kReduce), true}, {at[1], spaces[1], true, false}};
  }
  Operands all;
  for (const std::size_t index : at) all.push_back({index, Space::kNone, true, true, false});
  return all;
}

Operands opaque_operands(const Instruction& instruction) {
  const bool touches = instruction.text.find('[') != std::string::npos || instruction.text.starts_with("call");
  if (!touches) return {};
  return {{MemoryOperand::kNowhere, Space::kNone, true, true}};
}

}  // namespace

Operands memory_operands(const Instruction& instruction) {
  switch (instruction.op) {
    case Op::kOpaque: return opaque_operands(instruction);
    case Op::kCp: return copy_operands(instruction);
    case Op::kTex:
    case Op::kTld4:
    case Op::kSuld: return {{MemoryOperand::kNowhere, Space::kTex, true, false}};
    case Op::kSust: return {{MemoryOperand::kNowhere, Space::kTex, false, true}};
    case Op::kSured: return {{MemoryOperand::kNowhere, Space::kTex, true, true}};
    // Hints, queries, and what only works on shared memory.
    case Op::kPrefetch:
    case Op::kPrefetchu:
    case Op::kApplypriority:
    case Op::kCreatepolicy:
    case Op::kTxq:
    case Op::kSuq:
    case Op::kMbarrier:
    case Op::kLdmatrix:
    case Op::kStmatrix:
    case Op::kWgmma:
    case Op::kTcgen05:
    case Op::kClusterlaunchcontrol:
    case Op::kFence:
    case Op::kMapa:
    case Op::kGetctarank:
    case Op::kCall: return {};
    default: break;
  }
  const auto at = addresses(instruction);
  if (at.empty()) return {};
  ptx::MemoryEffect effect = ptx::memory_effect(instruction);
  bool is_sure = true;
  switch (instruction.op) {
    case Op::kLd:
    case Op::kLdu: effect.reads = true; break;
    case Op::kSt:
    case Op::kDiscard: effect.writes = true; break;
    case Op::kAtom:
    case Op::kRed: effect.reads = effect.writes = true; break;
    default:
      is_sure = instruction.op == Op::kWmma && effect.reads != effect.writes;
      if (!effect.reads && !effect.writes) effect.reads = effect.writes = true;
  }
  Operands all;
  for (const std::size_t index : at) all.push_back({index, instruction.space(), effect.reads, effect.writes, is_sure});
  return all;
}

}  // namespace pergola::analysis
