// PTX text -> tokens (ISA 4.2 to 4.5).
//
// Invariant: tokens are in textual order, do not overlap, and the last is always kEnd. Bytes that begin no token
// become a kBad token, so the lexer itself never fails; the parser reports where one is met.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "src/ptx/instruction.h"

namespace pergola::ptx {

struct Token {
  enum class Kind : std::uint8_t {
    kEnd,
    kIdentifier,  // add  %r1  $L__BB0_2  _
    kDotted,      // .global  .shared::cta  .2d  .x
    kInteger,     // 10  0x1FU  0b101  017
    kFloat,       // 1.5e3
    kF32,         // 0f3F800000
    kF64,         // 0d3FF0000000000000
    kString,      // "..."
    kPunctuation,  // one or two characters
    kBad,
  };
  Kind kind = Kind::kEnd;
  std::uint32_t offset = 0;
  std::uint32_t length = 0;
  std::uint32_t line = 1;    // both from 1; the column counts bytes
  std::uint32_t column = 1;

  Location location() const { return Location{line, column}; }
  std::uint32_t end() const { return offset + length; }
};

// `text` must be shorter than 4 GiB.
std::vector<Token> tokenize(std::string_view text);

// "'add'", "end of file", "byte 0x07" for messages; long tokens are cut.
std::string describe(std::string_view text, const Token& token);

}  // namespace pergola::ptx
