// Which memory a kernel reads and writes through each of its pointer parameters (GrCUDA's `const` annotations,
// paper 003 IV-D, here found in the PTX instead of declared).
//
// Soundness before precision: an access that is not provably based on exactly one parameter or module variable is
// *universal*, and then every array must be taken as read or written by the kernel. Each answer keeps its reason.
#pragma once

#include <cstdint>
#include <string>
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
  std::string reason;              // "written by st.global.f32 at saxpy.ptx:42:3", the first access of each kind
};

struct VariableAccess {  // a module-scope .global or .const variable the kernel touches
  std::string name;
  AccessMode mode = AccessMode::kNeither;
  std::string reason;
};

struct PointerModes {
  // Sorted by (parameter, offset). Every 8-byte scalar parameter has an entry (kNeither where it is never
  // dereferenced); fields of structs have one where they are used as a pointer.
  std::vector<PointerParameter> parameters;
  std::vector<VariableAccess> variables;
  AccessMode universal = AccessMode::kNeither;  // accesses that may be to anything
  std::string universal_reason;
};

// `entry` must be a defined .entry of `module`. Follows calls into device functions of the module.
Result<PointerModes> pointer_modes(const ptx::Module& module, const ptx::Function& entry);

}  // namespace pergola::analysis
