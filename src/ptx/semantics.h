// What an instruction does with its operands: the one place that knows it for analyses, the verifier and both tiers
// of the CPU device.
#pragma once

#include <functional>
#include <initializer_list>
#include <vector>

#include "src/ptx/module.h"

namespace pergola::ptx {

bool has_any(const Instruction& instruction, std::initializer_list<Mod> mods);

enum class Role : std::uint8_t { kRead, kWrite, kReadWrite, kAddress, kTarget };

// How operand `index` (top level) is used. An address operand is kAddress: its registers are read; whether memory is
// read or written is memory_effect()'s. Labels, called functions and prototypes are kTarget. A pair or vector
// destination is kWrite as a whole.
Role role(const Instruction& instruction, std::size_t index);

// The type that operand `index` has in this instruction (ISA 9): of each element where it is a vector; kNone where
// the instruction gives it none (addresses, labels). E.g. mad.wide.s32 d,a,b,c: s64, s32, s32, s64;
// setp.lt.f32 p|q,a,b: pred, f32, f32; shl.b64 d,a,b: b64, b64, u32; cvt.rn.f32.s32: f32, s32.
Type operand_type(const Instruction& instruction, std::size_t index);

// The parts of a vector operand: the elements of {a, b}, the components of a vector register (.reg .v4 .f32 %v); of
// any other operand, itself.
std::vector<Operand> elements(const Operand& operand, const Function& function);

// Calls `visit(reg, is_written)` for every register the instruction names, guard included. A register both read and
// written is visited twice. Opaque instructions visit each of text_registers both ways.
void for_each_register(const Instruction& instruction,
                       const std::function<void(RegisterId, bool is_written)>& visit);

// Memory, as seen through the instruction's address operands.
struct MemoryEffect {
  bool reads = false;
  bool writes = false;
  bool is_atomic = false;   // atom, red, and what behaves as they do
  bool is_strong = false;   // volatile, relaxed, acquire, release, mmio: may synchronise
};
// For kOpaque: reads and writes. For bar, membar, fence: neither. A call has no address operands: neither, its callee's
// effects are the callee's. wgmma and tcgen05 also reach shared memory through descriptors, which are no addresses.
MemoryEffect memory_effect(const Instruction& instruction);

// Whether the special register tells of the block's cluster (ISA 10): where in it the block is, and how large it is.
bool tells_of_cluster(Special special);

bool is_terminator(const Instruction& instruction);  // bra, brx, ret, exit, trap: ends a basic block when unguarded
bool ends_thread(const Instruction& instruction);    // exit, trap

}  // namespace pergola::ptx
