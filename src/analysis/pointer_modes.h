// Which memory a kernel reads and writes through each of its pointer parameters (GrCUDA's `const` annotations,
// paper 003 IV-D, here found in the PTX instead of declared).
//
// Soundness before precision: an access whose base is not one of known parameters and module variables is *universal*,
// and then every array must be taken as read or written by the kernel. Where an address is one of several (select,
// loop, a table of pointers), each of them has the access. Each answer keeps its reason.
//
// What is presumed, as the C++ compiler presumes it: `x + offset` stays in the array that x points into, whatever
// integer the offset is. pointer_value.h has the rules for what is an integer, pointer_exposure.h those for a kernel
// that looks at the bits of its pointers.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "src/base/result.h"
#include "src/ptx/module.h"

namespace pergola::analysis {

enum class AccessMode : std::uint8_t { kNeither = 0, kRead = 1, kWrite = 2, kReadWrite = 3 };
constexpr AccessMode operator|(AccessMode a, AccessMode b) {
  return static_cast<AccessMode>(static_cast<std::uint8_t>(a) | static_cast<std::uint8_t>(b));
}
std::string_view to_string(AccessMode mode);  // "neither" "read" "write" "read+write"

// One place in the parameter buffer that is used as a pointer: a .u64 parameter (offset 0) or a field of a struct.
struct PointerParameter {
  std::uint32_t parameter = 0;     // index into the signature
  std::uint32_t offset_bytes = 0;  // inside that parameter
  AccessMode mode = AccessMode::kNeither;
  // Some access may be based on this place and on no other. Where the argument is a number and no array, that number is
  // then an address, and the caller must take the access as universal; else it may be an offset: `x + n`.
  bool is_sole = false;
  // "written by `st.global.f32 [%rd7], %f4;` at saxpy.ptx:42:3": the first access of each kind.
  std::string reason;
  // What of `mode` is sure, where all else is the worst that may be: an instruction that is understood has an address
  // that is this pointer, and nothing else, whichever way it is reached. "`st.global.f32 [%rd7], %f4;` at
  // saxpy.ptx:42:3"; "" where nothing is sure.
  std::string surely_read, surely_written;
  // Of such accesses the first one of floats and the first one of doubles (float_access.h).
  std::string surely_f32, surely_f64;
  // Whatever may be accessed from here, sure or not, moves `.f32` or `.b32` alone, or `.f64` or `.b64`.
  bool is_all_f32 = false, is_all_f64 = false;
};

// Accesses whose address may be the sum of some of these and of nothing else: `x + n`. One that is given an array has
// another for an offset; where none is, or where two others are numbers, 0 too, the numbers may be the address.
struct SummedParameters {
  std::vector<std::uint32_t> parameters;  // indices into the signature, ascending; two or more
  bool has_other_base = false;            // a module variable, or memory of the kernel's own, as well
  AccessMode mode = AccessMode::kNeither;
  // As PointerParameter's, of an address that is one of these or a sum of them, whichever.
  std::string surely_read, surely_written;
};

// Of such a sum of so many parameters, of which `pointers` are given arrays: whether the others may be the address by
// themselves, two of them together or where there is nothing else. One may be 0.
constexpr bool others_may_be_address(std::size_t parameters, std::size_t pointers, bool has_other_base) {
  return (pointers == 0 && !has_other_base) || parameters - pointers > 1;
}

struct VariableAccess {  // a module-scope .global or .const variable the kernel touches
  std::string name;
  AccessMode mode = AccessMode::kNeither;
  std::string reason;
};

struct PointerModes {
  // Parameters are numbered as in the kernel's .param list. Sorted by (parameter, offset). Every 8-byte scalar parameter
  // has an entry (kNeither where it is never dereferenced); fields of structs have one where they are used as a pointer.
  std::vector<PointerParameter> parameters;
  std::vector<SummedParameters> sums;  // by parameters, each list once
  std::vector<VariableAccess> variables;
  AccessMode universal = AccessMode::kNeither;  // accesses that may be to anything
  std::string universal_reason;
  // The part of `universal` at addresses that are numbers in the text: no argument can be what they access.
  AccessMode absolute = AccessMode::kNeither;
  std::string absolute_reason;
};

// `entry` must be a defined .entry of `module`. Follows calls into device functions of the module.
Result<PointerModes> pointer_modes(const ptx::Module& module, const ptx::Function& entry);

}  // namespace pergola::analysis
