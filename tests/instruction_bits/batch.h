// Runs instructions of equal operand kinds in one kernel: each thread loads one case, executes every instruction of the
// batch on it and stores every result, so that a device compiles one kernel for many instructions.
//
//   in:  case n at n * 32 bytes, source k at 8 k        out: result of instruction j on case n at (j * cases + n) * 8
//
// A result is the destination's bits, zero-extended; a predicate 0 or 1, a pair of predicates p | q << 1.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "src/device/device.h"
#include "tests/instruction_bits/operands.h"

namespace pergola::instruction_bits {

// PTX with one entry, "batch"(in, out, cases), for .target sm_<sm>.
std::string batch_text(std::span<const Instruction> batch, int sm);

struct Results {
  Status status;                       // why there are none: the device refuses the instruction
  std::vector<std::uint64_t> values;   // one a case
};

// One Results an instruction, in order. A batch that the device refuses is halved until the refused ones stand alone.
std::vector<Results> run_batch(device::Device& device, std::span<const Instruction> batch, std::span<const Case> cases);

}  // namespace pergola::instruction_bits
