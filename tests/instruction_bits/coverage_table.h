// The instructions of PTX ISA 9.0 that do more than compute on registers: moves, memory, atomics, barriers, warp
// operations, textures, control, and the families that the CPU device refuses. What only computes is in
// instruction_table.h. Each row is PTX that ptxas takes in the frame of coverage.cc; it is loaded, not run.
#pragma once

#include <span>

namespace pergola::instruction_bits {

struct CoverageRow {
  const char* section;
  const char* pattern;     // one instruction with <a|b> alternatives; the registers are coverage.cc's, $T one of its type
  const char* target = "sm_90";
};

std::span<const CoverageRow> coverage_rows();

}  // namespace pergola::instruction_bits
