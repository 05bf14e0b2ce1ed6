// A kernel whose parameters lie in memory instead of in its launch, so that they can change while the launch is part of
// an instantiated graph: one copy brings new ones, and no node is touched (docs/decisions/0010).
//
//   .entry k(.param .u64 x, .param .f32 a)      .entry k(.param .u64 k_block)
//                                               ld.param.u64 %block, [k_block];  cvta to .global
//   ld.param.f32 %f1, [a];                      ld.global.f32 %f1, [%block+8];
//
// The block has the layout of the parameters it replaces (ptx::signature() of the kernel before the pass): their
// offsets, KernelSignature::parameter_bytes of them, at an address aligned as the strictest of them.
#pragma once

#include <string_view>

#include "src/base/result.h"
#include "src/ptx/module.h"

namespace pergola::transform {

// Leaves `kernel` as the module's only entry, and gives it the address of its block as its one parameter, a .u64.
// Parameters of calls and of functions stay as they are. Needs a module that the verifier has passed, and leaves one.
//
// The result, loaded, is a module of its own: its variables are not those of the module it was made of. Whoever calls
// this makes sure that nobody writes those that the kernel uses.
//
// kNotFound without such a kernel; kUnsupported, with file and line, where a parameter is used in a way that has no
// equivalent in memory: by an instruction that is not understood, as anything but a value to load or an address to
// take, and where the code asks which space an address is of or hands it to a tensor copy. The module is unspecified
// then. (PTX ISA 7.1, kernel parameters; 5.1.6, .param)
Status to_parameter_block(ptx::Module& module, std::string_view kernel);

}  // namespace pergola::transform
