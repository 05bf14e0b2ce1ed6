// What the rewritings of PTX text for the driver's compiler share: finding an instruction's operands in the text, and
// putting others in their place.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace pergola::device::cuda {

// Without the white space around it.
std::string_view trimmed(std::string_view text);

// A decimal or 0x literal, nothing else: no sign, no octal.
std::optional<std::uint32_t> immediate(std::string_view text);

// What stands between the commas, or before the end, of one instruction.
struct ScannedOperand {
  std::string_view whole;   // as in the text, white space included
  std::string_view text;    // trimmed
  std::string replacement;  // empty: the operand stays
};

// Of "d, a, b": three. `text` is what stands between the opcode and the semicolon.
std::vector<ScannedOperand> operands_of(std::string_view text);

// The text with the operands of each instruction that begins with `mnemonic` replaced as `edit` sets them. Every other
// byte, line numbers included, stays.
std::string rewrite_instructions(std::string_view ptx, std::string_view mnemonic,
                                 const std::function<void(std::span<ScannedOperand>)>& edit);

}  // namespace pergola::device::cuda
