// What the printer's two files share.
#pragma once

#include <fmt/format.h>

#include <iterator>
#include <string>

#include "src/ptx/module.h"

namespace pergola::ptx {

// "+8"; nothing for 0
inline void append_offset(std::string& out, std::int64_t offset) {
  if (offset != 0) fmt::format_to(std::back_inserter(out), "+{}", offset);
}
// "@%p1 add.s32 %r1, %r2, 4;"
void append_instruction(std::string& out, const Instruction& instruction, const Function& function);

}  // namespace pergola::ptx
