// Keeps the driver's compiler from inserting too few bits.
//
// `bfi.b32 d, a, b, 9, 32` with an immediate position and length inserts bits 9..31 (ISA 9.7.1.20). The compiler of
// driver 580 masks an immediate length with 31 instead, so that 32 inserts nothing; in registers it is right. A length
// cut to what fits above the position means the same and is compiled right.
#pragma once

#include <string>
#include <string_view>

namespace pergola::device::cuda {

// The text with the immediate length of every `bfi.b32` cut to 32 - position where the position is an immediate
// below 32. Every other byte, line numbers included, stays.
std::string with_field_lengths_in_range(std::string_view ptx);

}  // namespace pergola::device::cuda
