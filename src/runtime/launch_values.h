// A launch as the analysis of footprints asks for it, but for what lies in memory: its pointers and variables.
#pragma once

#include <cstddef>
#include <span>

#include "src/analysis/footprints.h"
#include "src/device/types.h"

namespace pergola::runtime {

inline analysis::LaunchValues launch_values(const device::LaunchConfig& config, std::span<const std::byte> parameters) {
  analysis::LaunchValues values;
  const device::Dim3 &grid = config.grid, &block = config.block;
  values.grid[0] = grid.x, values.grid[1] = grid.y, values.grid[2] = grid.z;
  values.block[0] = block.x, values.block[1] = block.y, values.block[2] = block.z;
  values.parameters.assign(parameters.begin(), parameters.end());
  return values;
}

}  // namespace pergola::runtime
