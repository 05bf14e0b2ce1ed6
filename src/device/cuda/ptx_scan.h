// What the rewritings of PTX text for the driver's compiler share: finding an instruction's operands in the text.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace pergola::device::cuda {

// Without the white space around it.
std::string_view trimmed(std::string_view text);

// A decimal or 0x literal, nothing else: no sign, no octal.
std::optional<std::uint32_t> immediate(std::string_view text);

}  // namespace pergola::device::cuda
