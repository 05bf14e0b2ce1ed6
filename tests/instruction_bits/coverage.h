// Which instructions each tier of the CPU device takes, found by loading each of them, and the page that says so
// (docs/instructions.md).
#pragma once

#include <string>
#include <vector>

#include "src/device/device.h"
#include "tests/instruction_bits/coverage_table.h"

namespace pergola::instruction_bits {

// One spelling of a row, as PTX without ';'.
std::vector<std::string> spellings_of(const CoverageRow& row);

// A module with one entry, "k", that holds these instructions among declarations they can refer to.
std::string frame_text(const std::vector<std::string>& instructions, const std::string& target);

struct Coverage {
  const CoverageRow* row = nullptr;
  std::vector<std::string> spellings;
  std::vector<Status> verdicts;  // one a spelling: whether the device loads it
};

std::vector<Coverage> coverage_of(device::Device& device);

// The page, from the coverage of the interpreter and of the JIT.
std::string coverage_page(const std::vector<Coverage>& interpreter, const std::vector<Coverage>& jit);

}  // namespace pergola::instruction_bits
