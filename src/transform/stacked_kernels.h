// Launches that follow each other block by block become one launch: a kernel each of whose blocks runs its own block of
// every one of them. For launches with grids alike, where a block needs nothing of those before it but what the blocks
// of its own number have made.
//
//   launch 0   0 1 2 3          .entry pergola_stacked(.param ... a_launches__0[], .param ... b_launches__1[])
//              │ │ │ │            part 0: { body of a }
//   launch 1   0 1 2 3            bar.sync 0
//                                 part 1: { body of b }
//                                 ret
//
// Nobody waits for another block, so the grid need not fit the device. What part 1 reads of part 0's is behind a
// barrier of the block they share (PTX ISA 9.7.13.1: it orders memory accesses among those that take part), and its
// loads are coherent, as ld.global.nc presumes data that is constant as long as the kernel runs.
//
// A thread that would have ended waits for its block instead, so what a kernel does together, at barriers or within a
// warp, must be done by all of its threads: lane_flow.h says whether it is. The last part may be any kernel.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "src/base/result.h"
#include "src/ptx/module.h"

namespace pergola::transform {

inline constexpr std::string_view kStackedKernel = "pergola_stacked";

struct StackedPart {
  const ptx::Module* module = nullptr;  // by merge_launches() of one launch; borrowed for the call
  std::string_view kernel;              // its entry: merged_kernel()
  // Lines of its text that load what no part writes, ascending.
  std::vector<std::uint32_t> constant_lines{};
};

// Whether other parts can come after this kernel of a module that the verifier accepts: kUnsupported, with file and
// line, where its threads may end before others have met, at a barrier or within a warp, or some may pass that by;
// where a function that it calls ends threads, or it calls one that is not known; and where it may leave copies or
// arrivals under way. Thread-safe.
Status can_be_followed(const ptx::Module& module, std::string_view kernel);

// The module of the kernel for blocks of that shape; its parameters are the parts' arrays in order, each aligned as it
// is in its own kernel. All parts but the last can_be_followed(). kUnsupported as join_kernels(), and where a part
// behind another reaches memory by way of the async proxy. Thread-safe.
Result<ptx::Module> stack_kernels(std::span<const StackedPart> parts, const std::array<std::uint32_t, 3>& block);

}  // namespace pergola::transform
