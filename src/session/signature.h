// Signatures: what a caller says of a kernel's parameters, against what its PTX says.
//
// Nothing need be declared, for the PTX is analysed (analysis/pointer_modes.h). But an analysis gives its worst answer
// where it cannot follow a pointer, and the caller may know better. The languages are GrCUDA's (paper 003, IV-A): NIDL,
//
//   saxpy(x: in pointer float, y: inout pointer float, n: sint32, a: float)
//
// with or without the kernel's name and the parameters', and the NFI of Truffle, `const pointer, pointer, sint32,
// float`. Here they are one language:
//
//   signature  ::=  ["cxx"] [name] "(" [list] ")" [":" "void"]  |  list
//   list       ::=  parameter { "," parameter }
//   parameter  ::=  [name ":"] [direction] "pointer" [type | "void"] ["const"]  |  [name ":"] ["const"] type ["const"]
//   direction  ::=  "in" | "input" | "const"  |  "out" | "output"  |  "inout"
//   type       ::=  "bool" | "char" | "sint8" | "uint8" | ... | "half" | "float" | "double"
//
// Invariant: a signature is believed where the PTX leaves a doubt, and refused where it leaves none.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "src/base/result.h"
#include "src/session/types.h"

namespace pergola::session {

struct DeclaredParameter {
  std::string name;  // "" where it has none
  bool is_pointer = false;
  Direction direction = Direction::kNone;  // of a pointer
  std::optional<ElementType> type;         // of a number, always; of a pointer's elements, where it is said
  bool operator==(const DeclaredParameter&) const = default;
};

struct Signature {
  std::string kernel;  // "" where it names none; template arguments and namespaces as they were written
  std::vector<DeclaredParameter> parameters;
  bool operator==(const Signature&) const = default;
};

// kParseError names the column (counted from 1; in text of several lines, the line too) and what should stand there.
Result<Signature> parse_signature(std::string_view text);

// "x: in pointer float", as parse_signature() reads it back.
std::string to_string(const DeclaredParameter& parameter);
std::string to_string(const Signature& signature);

// What is known of the kernel once the signature is believed. A pointer with a direction is used so; a number is none
// but a number, and no array may be given for it. Where there are pointers and each has a direction, accesses that
// could not be traced are to what they point at: the kernel is no longer universal, but for addresses that are numbers
// in its PTX. kInvalidArgument where the PTX says otherwise: another number of parameters, another size or kind, a
// write through an `in`, a read through an `out`, a number that is an address; each with the instruction and the mend.
// The kernel's name is the caller's to check.
Result<KernelInfo> apply_signature(const KernelInfo& kernel, const Signature& signature);

}  // namespace pergola::session
