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
// " at blur.cu:77 (ld.global.u32)": of the first instruction on a line of the PTX; without the instruction where there is
// none, empty for line 0.
std::string place_of_line(const ptx::Module& module, std::uint32_t line);

}  // namespace pergola::device::cpu
