// Launches of one kernel that need nothing of each other become one launch, whose blocks are those of all of them. A
// node of a graph that starts beside others, or joins them, costs a microsecond or two; a block of a larger grid next
// to nothing.
//
//   .entry k(.param .u64 x)            .entry k_merged(.param .align 8 .b8 k_launches[n * 8])     one for each launch
//                                        %element = k_launches + 8 * %ctaid.z
//   ld.param.u64 %rd1, [x];              ld.param.u64 %rd1, [%element];
//   mov.u32 %r1, %ctaid.x;               mov.u32 %r1, %ctaid.x;                             the launch's own
//   mov.u32 %r2, %ctaid.z;               mov.u32 %r2, 0;                                    grids have one layer
//
// The grid is as wide and as high as the largest of the launches' grids, and their layers lie one behind the other:
//
//   grids       3 x 2    3 x 2    2 x 2          merged    3 x 2 x 3        z = 0   1   2
//                                                          blocks outside of   ###  ###  ##.
//                                                          their own leave:    ###  ###  ##.
//
// Grids that differ more are laid out flat, in one row, and a block looks for its launch by their first blocks:
//
//   grids       3        5        2              merged    10               ###|#####|##
//
// Parameters stay in .param, which a GPU reads as constants with an index (PTX ISA 5.1.6.1). Blocks start in the order
// of the launches, as far as devices start blocks in order. Nothing else of a launch can be seen in its blocks:
// launches that may run at once could have shared the device before.
#pragma once

#include <compare>
#include <cstdint>
#include <string>
#include <string_view>

#include "src/base/result.h"
#include "src/ptx/module.h"
#include "src/ptx/signature.h"

namespace pergola::transform {

struct MergedShape {
  std::uint32_t launches = 2;  // that the array has room for; 1: the kernel as it is, to be a part (stacked_kernels.h)
  // Some grid has several layers: each launch has as many as the one with most.
  bool deep = false;
  // Grids differ: blocks outside of their launch's own leave at once.
  bool bounded = false;
  // Blocks lie in one row, launch by launch; `launches` is a power of two then. With `deep` some grid is more than a
  // row, and a block's index is split by division.
  bool flat = false;

  bool is_alone() const { return launches == 1 && !has_header(); }
  bool has_header() const { return deep || bounded || flat; }
  auto operator<=>(const MergedShape&) const = default;
};

// The begin of an element of the array where the shape has headers; a launch's parameters follow, laid out as for a
// launch.
struct MergedHeader {
  std::uint32_t grid_x = 1, grid_y = 1, grid_z = 1;  // the launch's own
  // Layers of each launch in the merged grid; where it is flat, the launch's first block: ascending, and of elements
  // that no launch has kNoLaunch.
  std::uint32_t place = 1;
  static constexpr std::uint32_t kNoLaunch = ~std::uint32_t{0};
};

struct MergedLayout {
  std::uint32_t align_bytes = 1, parameters_offset = 0, stride_bytes = 0;
};
// Of the array of merged launches of a kernel with that signature.
MergedLayout merged_layout(const ptx::KernelSignature& signature, const MergedShape& shape);

// What the kernel is called once its launches are merged: profilers tell them apart.
inline std::string merged_kernel(std::string_view kernel) {
  return std::string(kernel) + "_merged";
}

// Leaves `kernel` as the module's only entry, as merged_kernel(), with the array as its one parameter. Needs a module
// that the verifier has passed, and leaves one. The module, loaded, has variables of its own: the caller makes sure
// that nobody writes those that the kernel uses.
//
// kNotFound without such a kernel; kUnsupported, with file and line, where blocks could tell, or an instruction is not
// understood that may: with griddepcontrol, grid-wide barriers, clusters, %gridid, parameters that are used otherwise
// than by loading them or taking their address, and functions that ask for what only the kernel can be told. The module
// is unspecified then. Thread-compatible.
Status merge_launches(ptx::Module& module, std::string_view kernel, const MergedShape& shape);

}  // namespace pergola::transform
