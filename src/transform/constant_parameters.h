// A kernel whose whole numbers among the parameters (sizes, strides, counts of loops) are constants of its code: where
// a launch has the same ones every time, as in a graph, the driver's compiler unrolls loops of known length, so that
// their loads are under way together, and divides by constants with products.
//
//   .entry k(.param .u64 x, .param .u32 n)      .entry k_constants(.param .u64 x, .param .u32 n)
//   ld.param.u32 %r1, [n];                      mov.u32 %r1, 200;
//
// What it leaves is the kernel's to the bit. The compiler may make one operation of a product and a sum that have no
// rounding of their own (`mul`, `add`, PTX ISA 9.7.3) where it sees both, and compute at compile time what a GPU
// approximates; it would do more of either where it knows more. So kernels with such a product, or an approximation,
// are refused: what is left (`fma.rn`, `div.rn`, sums, conversions) is rounded in one way, whoever computes it.
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

// Where among the launch's parameters (as the driver takes them, ptx::signature()) the code loads a whole number.
struct ParameterPlace {
  std::uint32_t offset_bytes = 0, size_bytes = 0;
  auto operator<=>(const ParameterPlace&) const = default;
};
struct ConstantParameter {
  ParameterPlace place;
  std::uint64_t value = 0;  // its bytes
  auto operator<=>(const ConstantParameter&) const = default;
};

// What the kernel is called then: profilers tell them apart.
inline std::string constant_kernel(std::string_view kernel) {
  return std::string(kernel) + "_constants";
}

// Of a kernel, ascending. Needs a module that the verifier has passed. kNotFound without such a kernel; kUnsupported,
// with file and line, where its results might be others in their last bits. Thread-compatible.
Result<std::vector<ParameterPlace>> constant_places(const ptx::Module& module, std::string_view kernel);

// What a launch with these parameters has there. Numbers of 8 bytes count below 2^32 alone: what is above is nearly
// always an address, which differs from array to array and makes nothing faster.
std::vector<ConstantParameter> constants_at(std::span<const ParameterPlace> places,
                                            std::span<const std::byte> parameters);

// Leaves `kernel` as the module's only entry, as constant_kernel(), with its parameters as they are and these of them
// as constants. The module, loaded, has variables of its own: the caller makes sure that nobody writes those that the
// kernel uses. kNotFound without such a kernel; kUnsupported where the module is compiled for a debugger. The module is
// unspecified then. Thread-compatible.
Status make_constant(ptx::Module& module, std::string_view kernel, std::span<const ConstantParameter> constants);

}  // namespace pergola::transform
