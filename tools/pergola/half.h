// binary16 and bfloat16 to and from float, rounded to nearest, ties to even; for files and the command line.
#pragma once

#include <cstdint>

namespace pergola::tool {

std::uint16_t float_to_half(float value);
float half_to_float(std::uint16_t bits);
std::uint16_t float_to_bfloat16(float value);
float bfloat16_to_float(std::uint16_t bits);

}  // namespace pergola::tool
