// Checks a Module against the rules of the ISA that later stages rely on: registers and labels exist, operand counts
// and kinds fit the opcode, register classes and widths fit the instruction's types, targets of branches and calls
// are there, scopes nest. Run by tests after every pass, and on everything that is loaded.
#pragma once

#include "src/base/result.h"
#include "src/ptx/module.h"

namespace pergola::ptx {

// The first violation as kParseError with file:line:column, or success. Opaque instructions are not judged.
Status verify(const Module& module);

}  // namespace pergola::ptx
