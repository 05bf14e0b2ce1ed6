// Blocks of a launch that nobody would miss, as they write nothing: kernels are launched with grids of the largest size
// they meet, and blocks of what is not there return at once.
//
//   grid   x ─────────▶
//        y ┌─────────┬───┐
//        │ │ writes  │   │     the smallest grid from block 0 on that has all blocks that write; what a block reads
//        │ │         │   │     alone changes nothing
//        ▼ ├─────────┘   │
//          └─────────────┘
//
// A footprint shows at least what blocks write, so that a block without a write in it has none.
#pragma once

#include <array>
#include <cstdint>

#include "src/analysis/launch_footprint.h"
#include "src/base/result.h"
#include "src/ptx/module.h"

namespace pergola::analysis {

// Blocks along x, y, z, one at least each; the launch's own where its blocks may write anything or wait for each other.
std::array<std::uint32_t, 3> writing_grid(const LaunchFootprint& launch);

// Whether blocks of this kernel that write nothing may be left out: it does nothing that a footprint does not show
// (textures, clusters, system calls, traps), and cannot tell how many blocks there are. kUnsupported, with file and
// line where there is one. `entry` must be of `module`.
Status may_leave_blocks_out(const ptx::Module& module, const ptx::Function& entry);

}  // namespace pergola::analysis
