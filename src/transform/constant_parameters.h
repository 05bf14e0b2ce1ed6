// A kernel whose whole numbers among the parameters (sizes, strides, counts of loops) are constants of its code: where
// a launch has the same ones every time, as in a graph, the driver's compiler unrolls loops of known length, so that
// their loads are under way together, and divides by constants with products.
//
//   .entry k(.param .u64 x, .param .u32 n)      .entry k_constants(.param .u64 x, .param .u32 n)
//   ld.param.u32 %r1, [n];                      mov.u32 %r1, 200;
//
// What it leaves is the kernel's to the bit. The compiler may make one operation of a product and a sum (`mul`, `add`
// without a rounding of their own, PTX ISA 9.7.3) where it sees both, and compute at compile time what a GPU would
// approximate. So a kernel is refused where it would see more of either than before: a product that is used behind its
// block of instructions, as the next turn of a loop does, and a product or an approximation of what depends on no data.
#pragma once

#include <compare>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "src/base/result.h"
#include "src/ptx/module.h"

namespace pergola::transform {

// A whole number that the code loads from the launch's parameters.
struct ConstantParameter {
  std::uint32_t offset_bytes = 0, size_bytes = 0;  // in the parameters
  std::uint64_t value = 0;                         // its bytes
  auto operator<=>(const ConstantParameter&) const = default;
};

// What the kernel is called then: profilers tell them apart.
inline std::string constant_kernel(std::string_view kernel) {
  return std::string(kernel) + "_constants";
}

// Those of a launch with these parameters (as the driver takes them, ptx::signature()), by offset. Numbers of 8 bytes
// count below 2^32 alone: above they are addresses, which differ from array to array and make nothing faster. Needs a
// module that the verifier has passed. kNotFound without such a kernel; kUnsupported, with file and line, where its
// results might be others in their last bits. Thread-compatible.
Result<std::vector<ConstantParameter>> constant_parameters(const ptx::Module& module, std::string_view kernel,
                                                           std::span<const std::byte> parameters);

// Leaves `kernel` as the module's only entry, as constant_kernel(), with its parameters as they are and these of them
// as constants. The module, loaded, has variables of its own: the caller makes sure that nobody writes those that the
// kernel uses. kNotFound without such a kernel. The module is unspecified then. Thread-compatible.
Status make_constant(ptx::Module& module, std::string_view kernel, std::span<const ConstantParameter> constants);

}  // namespace pergola::transform
