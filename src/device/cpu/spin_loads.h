// Loops that wait for what another thread writes, through a load that the memory model calls weak:
//
//   WAIT: ld.global.u32 %r1, [%rd1];  setp.eq.s32 %p1, %r1, 0;  @%p1 bra WAIT;
//
// Nothing obliges an implementation to load again, and a compiler that does not hangs; GPUs do load again, and programs
// count on it. So here such a load becomes volatile: it is done each turn, and the loop is one that waits (other
// threads run meanwhile, the watchdog sees it).
//
// Which loops: natural ones, without a barrier of the block, each of whose exits depends on nothing that the loop
// itself changes, and one at least on a load (global, shared or generic) whose address stays the same and where the
// loop does not store. Such a loop ends at once or by another's doing. Loops that count, or walk through memory, end by
// themselves and are left alone; so are loops in control flow that cannot be followed.
#pragma once

#include <cstddef>

#include "src/ptx/module.h"

namespace pergola::device::cpu {

// `module` is verified. How many loads have become volatile.
std::size_t look_again_in_spin_loops(ptx::Module& module);

}  // namespace pergola::device::cpu
