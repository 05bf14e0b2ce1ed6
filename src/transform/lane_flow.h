// Where the lanes of a warp part for good, and whether those that stay still go the same way.
//
// A kernel's thread exits, and the hardware then counts it out of every barrier, shuffle and vote. A task's lane only
// returns: those that go on must know that it is gone. Most kernels say so at one place that all their lanes pass,
//
//     if (i >= n) return;          a leaving branch: from one side no collective can be reached, from the other one can
//     ... __syncthreads() ...
//
// where one vote gives the lanes that stay. That is so for each leaving branch whose way there depends on no other
// branch but on uniform ones (all lanes that are left decide alike) and on leaving ones. A kernel with a leaving branch
// inside code that only some of the lanes run, while the others go on to collectives, is *ragged*: it needs a record in
// memory.
//
// Uniform is what follows from parameters, constants, and the block's place and size: what all lanes that have not left
// have computed in the same way. A collective is what several lanes do together: barriers, shuffles, votes, and calls
// of functions that have any.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>

#include "src/base/result.h"
#include "src/ptx/module.h"

namespace pergola::transform {

enum class Together : std::uint8_t { kNo, kWarp, kBlock };  // does nothing together, with its warp, with its block

struct LaneFlow {
  // Guarded `bra` statements at which lanes leave: true where the lanes that take the branch stay.
  std::map<std::uint32_t, bool> leaving;
  // Every thread of the block comes to the same barriers: none leaves before the last, and the ways there are uniform.
  bool every_lane_arrives = true;
  bool is_ragged = false;
  ptx::Location ragged_at;
};

// `function` must end each thread's way at its end: no `ret` or `exit`. `together` says it of a statement's
// instruction.
Result<LaneFlow> lane_flow(const ptx::Function& function,
                           const std::function<Together(const ptx::Instruction&)>& together);

}  // namespace pergola::transform
