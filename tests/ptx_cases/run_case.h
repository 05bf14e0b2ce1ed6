// Runs a case on a device and holds what it left against what it should.
#pragma once

#include <vector>

#include "src/device/device.h"
#include "tests/ptx_cases/case_file.h"

namespace pergola::ptx_cases {

// What a launch left in each buffer, in the case's order.
using Memory = std::vector<std::vector<std::byte>>;

// How the kernel is launched: as it is written; with its parameters in memory (transform/parameter_block.h); as the
// last of three launches that are one (transform/merged_launches.h), with memory of their own, in a grid as large as
// theirs or a larger one, or in a row; with several blocks in one of the device's (transform/packed_blocks.h); with its
// whole numbers as constants (transform/constant_parameters.h).
enum class Form : std::uint8_t {
  kAsWritten,
  kInABlock,
  kMerged,
  kMergedInALargerGrid,
  kMergedInARow,
  kPacked,
  kConstants
};

// As one of several launches that are one.
bool is_merged(Form form);

// Parses, loads and launches. Errors are those of the stage that failed.
Result<Memory> run_case(device::Device& device, const Case& test, Form form = Form::kAsWritten);

// Success, or kInternal with the first differences; for a case that expects a fault, `run`, which was in `form`, must
// have failed with it.
Status check_case(const Case& test, const Result<Memory>& run, Form form = Form::kAsWritten);

}  // namespace pergola::ptx_cases
