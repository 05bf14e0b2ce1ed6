// Keeps the driver's compiler from fusing a multiplication and an addition that PTX has as two instructions.
//
// `mul.f32` and `add.f32` without a rounding modifier round to nearest, and the ISA lets the compiler contract them
// into one fma, which rounds once (9.7.3). The bits then depend on the compiler. With `.rn` written out it may not,
// and the GPU gives what the interpreter gives. The driver has no option for it (CU_JIT_FMA is for LTO only; ptxas has
// --fmad=false), so the text is changed. NVRTC, nvcc and clang contract before they write PTX: their fma stay fma.
#pragma once

#include <string>
#include <string_view>

namespace pergola::device::cuda {

// The text with `.rn` added to add, sub and mul of .f16, .f16x2, .bf16, .bf16x2, .f32, .f32x2 and .f64 that have no
// rounding modifier, outside comments and strings. Every other byte, line numbers included, stays.
std::string with_exact_rounding(std::string_view ptx);

}  // namespace pergola::device::cuda
