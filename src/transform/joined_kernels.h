// Merged launches of several kernels in one: a kernel whose blocks lie in one row, and are of whichever part they are
// the blocks of. Parts are kernels of merged_launches.h in a row, whose headers have the first blocks within the whole.
//
//   .entry a_merged(.param ... a_launches[])           .entry pergola_joined(.param ... a_launches__0[],
//   .entry b_merged(.param ... b_launches[])                                 .param ... b_launches__1[])
//                                                        %ctaid.x before the first block of b?   bra part 0
//                                                        part 1: { body of b }  ret
//                                                        part 0: { body of a }  ret
//
// A block runs one part, but has the registers and the shared memory of the part with most (kernel_parts.h), which may
// leave fewer blocks room at once: the caller looks.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string_view>

#include "src/base/result.h"
#include "src/ptx/module.h"
#include "src/transform/kernel_parts.h"

namespace pergola::transform {

inline constexpr std::string_view kJoinedKernel = "pergola_joined";

// The module of the kernel for blocks of that shape; its parameters are the parts' arrays in order, each aligned as it
// is in its own kernel. `parts` are flat. kUnsupported, with file and line, where a part asks how much shared memory it
// has, or holds an instruction that is not understood. Thread-safe.
Result<ptx::Module> join_kernels(std::span<const KernelPart> parts, const std::array<std::uint32_t, 3>& block);

}  // namespace pergola::transform
