// A kernel whose blocks wait for blocks of earlier launches, one by one, instead of for the launches (paper 001, III-D,
// in code: the dependency list is in memory, the parent counters are words that blocks poll). It can be launched while
// those still run: as a programmatic dependent of the launch before it (PTX ISA 9.7.13.13, griddepcontrol).
//
//   .entry k(.param .u64 x)          .entry k(.param .u64 x, .param .align 8 .b8 k_links[32])     abi/block_links.h
//                                      griddepcontrol.launch_dependents        the next launch may take free room now:
//                                                                               left out of large grids, where it costs
//                                      parents' counters polled, each by a thread; barrier
//   body                               body; ret, exit ──▶ bra to the end
//                                      fence, and the block's counter grows by the threads that end here
//                                      one thread of the launch: griddepcontrol.wait
//   ret                                ret
//
// A launch that waits for all of the one before it has griddepcontrol.wait after its first instruction and nothing
// else.
//
// No deadlock, wherever launches of a chain start in order and each has this form: `launch_dependents` is a block's
// first instruction, so that a block of a later launch starts only once every block of all launches before it has
// started or ended (launches of a chain are each other's programmatic dependents, and the first of them of nobody). A
// block waits for blocks of earlier launches alone; so of all blocks that have not ended those of the earliest launch
// wait for nobody.
// The end of a launch is the end of those before it too: the last instruction of one of its blocks waits for that. So
// who waits for the last launch (an event, a copy) waits for the chain.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "src/base/result.h"
#include "src/ptx/module.h"

namespace pergola::transform {

struct BlockSignalOptions {
  // The next launch may start once all blocks of this one have; else when they have ended. On an H200 letting it costs
  // 0.28 ns a block.
  bool triggers = true;
  // All of the launch before this one, and so of all before that, is waited for.
  bool waits_for_all = false;
  // Blocks have lists of parents.
  bool has_parents = false;
  // Later blocks wait for blocks of this launch.
  bool signals = false;
  // With `triggers`: not before the launch before this one has ended. Bounds how many run at once.
  bool limits = false;
  // It is started before the one before it has ended, whose end its own must not precede.
  bool starts_early = false;
  // Lines of the module's text whose loads may stay non-coherent (ld.global.nc): nobody writes what they read while the
  // chain runs. Ascending.
  std::vector<std::uint32_t> constant_lines;

  bool has_links() const { return has_parents || signals; }
  auto operator<=>(const BlockSignalOptions&) const = default;
};

// Leaves `kernel` as the module's only entry, with the links as its last parameter where options.has_links(). Needs a
// module that the verifier has passed, and leaves one. The module, loaded, has variables of its own: the caller makes
// sure that nobody writes those that the kernel uses.
//
// kNotFound without such a kernel; kUnsupported, with file and line, where an instruction is not understood, a function
// that it calls may end the thread, or the kernel has griddepcontrol of its own or is part of a cluster. The module is
// unspecified then. Thread-compatible.
Status add_block_signals(ptx::Module& module, std::string_view kernel, const BlockSignalOptions& options);

}  // namespace pergola::transform
