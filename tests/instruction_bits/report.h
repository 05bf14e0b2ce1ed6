// What a run found, as JSON and as a table in Markdown (bench/reports).
#pragma once

#include <string>
#include <vector>

#include "tests/instruction_bits/compare.h"

namespace pergola::instruction_bits {

struct Run {
  std::string device, reference, driver;  // DeviceInfo::name of both; driver of a GPU, or "none"
  std::string command;
  std::size_t cases = 0;
  std::uint64_t seed = 0;
  std::vector<Comparison> rows;
};

// Writes PATH.json and PATH.md.
Status write_report(const Run& run, const std::string& path);

// One line: how many instructions agree, differ, are refused.
std::string summary(const Run& run);

}  // namespace pergola::instruction_bits
