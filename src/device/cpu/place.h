// How messages name an instruction and where it stands; shared by the tiers.
#pragma once

#include <cstdint>
#include <string>

#include "src/ptx/module.h"

namespace pergola::device::cpu {

// "st.global.f32".
std::string spell(const ptx::Instruction& i);
// "saxpy.ptx:42", or file and line of the source where .loc gave them.
std::string where(const ptx::Module& module, const ptx::Instruction& i);
// "saxpy.ptx:42:3", or "saxpy.cu:7 (<PTX of saxpy.cu>:42:3)": for what is refused.
std::string where_with_ptx(const ptx::Module& module, const ptx::Instruction& i);

// A line of the PTX, 0 where it is not known, and which of the instructions on it, from 1 (0: the first).
struct PtxPlace {
  std::uint32_t line = 0, number = 0;
};
// Null where there is none.
const ptx::Instruction* instruction_at(const ptx::Module& module, PtxPlace place);
// " at blur.cu:77 (ld.global.u32)"; without the instruction where there is none, empty for line 0.
std::string describe_place(const ptx::Module& module, PtxPlace place);
// Whether two instructions may be one of the source's: compilers unroll loops and copy what is in them, and .loc tells.
bool are_of_one_line(const ptx::Instruction& a, const ptx::Instruction& b);
// Bytes that one thread's load, store, atomic or asynchronous copy touches; 0 of anything else.
std::uint32_t access_bytes(const ptx::Instruction& i);

}  // namespace pergola::device::cpu
