// What the printer's two files share.
#pragma once

#include <string>

#include "src/ptx/module.h"

namespace pergola::ptx {

// "@%p1 add.s32 %r1, %r2, 4;"
void append_instruction(std::string& out, const Instruction& instruction, const Function& function);

}  // namespace pergola::ptx
