// Fences: a body asks, before it reaches global memory, whether the address is memory, and leaves the access out where
// it is not; so a wild access or a trap is its task's failure and not the device's (docs/decisions/0020-fences.md).
//
//   ld.global.u32 %r1, [%rd1];   ──▶   the granule's entry in the table (abi/task_fence.h) == the address's tag?
//                                      @no bra cold;  ld.global.u32 %r1, [%rd1];      cold, behind the body's end:
//                                                                                     note the fault in the warp's slot
//   trap;                        ──▶   note it, leave
//
// Behind the note a lane of the kernel leaves where nobody counts on it any more: where no barrier, shuffle or vote can
// be reached, and in ragged kernels. Elsewhere, and in device functions, it goes on without the access: what it would
// have loaded is zero. Such a warp's results are garbage, which is what its task's failure says.
//
// Where one check at the kernel's begin can stand for those in loops, there is a copy of the body without them, which
// runs where that check passes (fence_hoist.h). Device functions have one version.
//
// Fenced are ld, ldu, st, atom, red and cp.async with an address in a register or a number, of .global and generic.
// Not fenced: variables by name; .shared, .local, .const; cp.async that may copy less than it says; wmma.load, .store.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "src/base/result.h"
#include "src/ptx/module.h"
#include "src/transform/task_plan.h"

namespace pergola::transform {

inline constexpr char kFenceTableName[] = "pergola_fence_table";  // .shared .u64: the table's address

// Before lane_flow: each `trap` of the kernel stands alone behind a branch, so that the lanes that go to it are seen to
// leave. With `asserts` a call of __assertfail is one too: a trap behind the call.
void part_traps(ptx::Function& kernel, bool asserts);

// Of a function as rewrite_for_task() leaves it. `sites` gets what may fault in it; faults name the index. `end` is the
// label that returning lanes of a kernel go to; null of a device function, whose traps stay.
struct FenceTarget {
  const ptx::Module& module;  // for the names of source files and the strings of asserts
  const FenceConfig& config;
  const char* end = nullptr;
  bool may_always_leave = false;  // the kernel is ragged
  std::function<Together(const ptx::Instruction&)> together;
};
Status fence_accesses(ptx::Function& function, const FenceTarget& target, std::vector<FenceSite>& sites,
                      FenceCounts& counts);

}  // namespace pergola::transform
