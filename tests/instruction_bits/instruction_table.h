// Every arithmetic, conversion, comparison and bit instruction of PTX ISA 9.0 that works on registers alone, one entry a
// spelling. Rows with {a,b} alternatives stand in instruction_table.cc; conversions are enumerated by type pair.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace pergola::instruction_bits {

// What a register of an instruction holds: its PTX type class, and which values are worth giving it.
enum class Kind : char {
  kInt16 = 'h',
  kInt32 = 'r',
  kInt64 = 'd',
  kPair16 = 'W',   // two 16-bit integers in 32 bits
  kF16 = 'e',
  kF16x2 = 'E',
  kBf16 = 'b',
  kBf16x2 = 'B',
  kF32 = 'f',
  kF32x2 = 'F',    // in 64 bits
  kF64 = 'g',
  kFp8x2 = 'y',    // two 8-bit floats in 16 bits
  kCount = 's',    // 32 bits: a shift, a position, a length
  kPredicate = 'p',
  kPredicatePair = 'q',  // a destination p|q
};

struct Instruction {
  std::string spelling;   // for reports: "lop3.b32 0xca"
  // PTX with $0 for the destination and $1.. for the sources; several instructions where a carry passes between them.
  std::string text;
  std::string kinds;      // Kind of destination and sources
  int minimum_sm = 90;
  bool approximate = false;  // judged by distance in units of the last place, not by bits
};

// {a,b}c{d,} -> acd, ac, bcd, bc
std::vector<std::string> expand(std::string_view pattern);

std::vector<Instruction> all_instructions();

// The rows as they are written, conversions one a pair of types: for people to read.
std::vector<std::string> arithmetic_patterns();

}  // namespace pergola::instruction_bits
