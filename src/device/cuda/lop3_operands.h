// Keeps the driver's compiler from folding a lop3 that names one register twice.
//
// `lop3.b32 t, a, b, a, 69; xor.b32 d, a, t;` has t = ~a and so d = all ones (ISA 9.7.8.6). The compiler of driver 580
// (and ptxas 13.0) merges the two into a table in which a = b = 1 gives 0. With the repeated operand replaced by 0 and
// the table folded accordingly it is compiled right.
#pragma once

#include <string>
#include <string_view>

namespace pergola::device::cuda {

// The text with the later of two equal register operands of every `lop3.b32` replaced by 0, and the table changed to
// match. Every other byte, line numbers included, stays.
std::string with_distinct_lop3_operands(std::string_view ptx);

}  // namespace pergola::device::cuda
