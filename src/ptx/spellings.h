// Which modifiers an instruction may have: the forms of PTX ISA 9.0 for every opcode that computes on registers alone, on any
// target. Held against ptxas by tests/instruction_bits, in both directions.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "src/ptx/instruction.h"

namespace pergola::ptx {

// {a,b}c{d,} -> acd, ac, bcd, bc; alternatives nest.
std::vector<std::string> expand_spellings(std::string_view pattern);

// The parts of a pattern between separators that stand outside of braces: of "a{b,c},d" at ',' two.
std::vector<std::string> split_spelling(std::string_view pattern, char separator);

// The patterns of all forms, for tests.
std::vector<std::string> spelling_patterns();

// Empty where the form is one of the ISA's, or the opcode is not of the table. Types count in their order, other modifiers
// in any, as with ptxas. Thread-safe.
std::optional<std::string> check_spelling(const Instruction& instruction);

}  // namespace pergola::ptx
