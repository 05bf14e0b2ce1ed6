// Runs a case on a device and holds what it left against what it should.
#pragma once

#include <vector>

#include "src/device/device.h"
#include "tests/ptx_cases/case_file.h"

namespace pergola::ptx_cases {

// What a launch left in each buffer, in the case's order.
using Memory = std::vector<std::vector<std::byte>>;

// Where the kernel finds its parameters: as it is written, or in memory (transform/parameter_block.h).
enum class Parameters : std::uint8_t { kAsWritten, kInABlock };

// Parses, loads and launches. Errors are those of the stage that failed.
Result<Memory> run_case(device::Device& device, const Case& test, Parameters where = Parameters::kAsWritten);

// Success, or kInternal with the first differences; for a case that expects a fault, `run` must have failed with it.
Status check_case(const Case& test, const Result<Memory>& run);

}  // namespace pergola::ptx_cases
