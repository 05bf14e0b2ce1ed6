// A kernel of small blocks whose threads know nothing of each other, with several of its blocks in one of the device's.
// A multiprocessor has room for 32 blocks, whatever they have in them, and starts one in some hundred cycles: blocks of
// 16 threads leave three quarters of its warps, and half of each other, empty.
//
//   .entry k(.param .u64 x)          .entry k_packed(.param .u64 x, .param .align 4 .b8 k_blocks[12])   grid.x, .y, .z
//                                      number = %ctaid.x * shape.blocks + %tid.x / threads    of the launch's own block
//                                      leaves where that is none
//   mov.u32 %r1, %ctaid.y;             mov.u32 %r1, %pergola_packed_ctaid_y;                  number, taken apart
//   mov.u32 %r2, %tid.x;               mov.u32 %r2, %pergola_packed_tid_x;                    %tid.x % threads,
//   likewise
//
// What a block is besides its threads' numbers there is none of: kernels with barriers, shared memory, operations of
// warps, or registers that tell of a warp stay as they are.
#pragma once

#include <compare>
#include <cstdint>
#include <string>
#include <string_view>

#include "src/base/result.h"
#include "src/ptx/module.h"

namespace pergola::transform {

struct PackedShape {
  std::uint32_t x = 1, y = 1, z = 1;  // threads of a block of the kernel
  std::uint32_t blocks = 1;           // of these in one of the device's

  std::uint32_t threads() const { return x * y * z; }
  auto operator<=>(const PackedShape&) const = default;
};

// What the kernel is called then: profilers tell them apart.
inline std::string packed_kernel(std::string_view kernel) {
  return std::string(kernel) + "_packed";
}

// Leaves `kernel` as the module's only entry, as packed_kernel(), with its grid as one parameter more, the last. It is
// launched in blocks of shape.threads() * shape.blocks threads along x, as many as hold the grid's. Needs a module that
// the verifier has passed, and leaves one. The module, loaded, has variables of its own: the caller makes sure that
// nobody writes those that the kernel uses.
//
// kNotFound without such a kernel; kUnsupported, with file and line where there is one, where a block is more than its
// threads' numbers. The module is unspecified then. Thread-compatible.
Status pack_blocks(ptx::Module& module, std::string_view kernel, const PackedShape& shape);

}  // namespace pergola::transform
