// Values that sessions speak of: element types, arguments, what is known of a kernel.
//
// Invariant: the enumerators equal those of include/pergola/pergola.h (src/capi checks it): append, never renumber.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "src/base/result.h"
#include "src/device/types.h"
#include "src/ptx/types.h"

namespace pergola::session {

class Array;
class Texture;

enum class ElementType : std::int32_t {
  kBytes = 0,  // of a struct; its size is told beside
  kI8 = 1,
  kU8 = 2,
  kI16 = 3,
  kU16 = 4,
  kI32 = 5,
  kU32 = 6,
  kI64 = 7,
  kU64 = 8,
  kF16 = 9,
  kBF16 = 10,
  kF32 = 11,
  kF64 = 12,
  kC64 = 13,
  kC128 = 14,
  kBool = 15,
};
std::uint32_t size_bytes(ElementType type);      // 1 for kBytes
std::string_view to_string(ElementType type);    // "i32", "f32", "bytes"
std::optional<ElementType> parse_element_type(std::string_view text);  // of to_string()'s words
bool is_valid(ElementType type);                 // for a number that came from outside
// What an element has where a caller says `given` (0: the usual): free for kBytes alone. kInvalidArgument otherwise.
Result<std::uint32_t> element_bytes_of(ElementType type, std::uint32_t given);

// How memory is used. kUnknown: not analysed, taken as kReadWrite.
enum class Access : std::int32_t { kNone = 0, kRead = 1, kWrite = 2, kReadWrite = 3, kUnknown = 4 };
std::string_view to_string(Access access);  // "none" "read" "write" "read+write" "unknown"

// What a parameter's PTX declaration tells. A .u64 may be an integer or a pointer.
enum class ParameterKind : std::int32_t { kInteger = 0, kFloat = 1, kBits = 2, kPointer = 3, kStruct = 4 };
std::string_view to_string(ParameterKind kind);

// What a signature says of a pointer (signature.h). The values are those of Access.
enum class Direction : std::int32_t { kNone = 0, kIn = 1, kOut = 2, kInOut = 3 };
std::string_view to_string(Direction direction);  // "" "in" "out" "inout"

struct ParameterInfo {
  std::string name;  // as in the PTX
  ptx::Type type = ptx::Type::kNone;
  std::string type_name;  // its spelling, "u64"
  ParameterKind kind = ParameterKind::kBits;
  std::uint32_t offset_bytes = 0, size_bytes = 0, align_bytes = 1;
  std::uint32_t pointer_align_bytes = 1;  // what a declared pointer promises of its address
  Access access = Access::kUnknown;
  std::string reason;
  // Some access may be based on this parameter alone: a number given for it is an address then, of any array.
  bool is_sole_base = false;
  // The instruction that reads or writes through this pointer beyond doubt; "" where the PTX leaves a doubt.
  std::string surely_read, surely_written;
  std::string surely_f32, surely_f64;  // one of them that moves floats, and one that moves doubles
  bool is_all_f32 = false, is_all_f64 = false;  // and no access that may be through it moves anything else
  // The instruction by which all is known to be floats, or doubles; "" where it is not.
  std::string_view all_f32() const { return is_all_f32 ? std::string_view(surely_f32) : std::string_view(); }
  std::string_view all_f64() const { return is_all_f64 ? std::string_view(surely_f64) : std::string_view(); }
  // Of the signature that the kernel was taken with, "x: in pointer float"; "" without one.
  std::string declaration;
  Direction direction = Direction::kNone;
  std::optional<ElementType> declared_type;  // of a number, or of the elements pointed at
};

// A module variable that a kernel touches by name.
struct VariableInfo {
  std::string name;  // as in the PTX
  Access access = Access::kUnknown;
  std::string reason;
};

// Parameters whose sum, or one of which, is the address of some access (analysis::SummedParameters).
struct SummedParameters {
  std::vector<std::uint32_t> parameters;  // ascending, two or more
  bool has_other_base = false;
  Access access = Access::kNone;
  std::string surely_read, surely_written;
};

// What a caller may know of a kernel. Immutable.
struct KernelInfo {
  std::string name;  // as in the PTX
  std::vector<ParameterInfo> parameters;
  std::uint32_t parameter_bytes = 0;
  std::uint32_t static_shared_bytes = 0;
  bool uses_dynamic_shared = false;
  std::uint32_t registers_per_thread = 0, local_bytes_per_thread = 0, max_threads_per_block = 0;
  std::optional<std::array<std::uint32_t, 3>> required_threads;  // .reqntid
  Access universal_access = Access::kUnknown;  // accesses that may be to any array
  std::string universal_reason;
  Access absolute_access = Access::kNone;  // the part of it at addresses that are numbers in the PTX
  std::string absolute_reason;
  std::vector<VariableInfo> variables;
  std::vector<SummedParameters> sums;
};

// One argument as its caller gives it.
struct Number {
  ElementType type = ElementType::kI32;  // not kBytes, kC64, kC128
  std::uint64_t bits = 0;                // little-endian: the low size_bytes(type) bytes count
};
struct ArrayArgument {
  std::shared_ptr<Array> array;
  std::uint64_t offset_bytes = 0;  // where the pointer starts
  std::uint64_t size_bytes = 0;    // how much of the array is meant from there; 0: nobody says. A hint
};
struct AddressArgument {
  device::DeviceAddress address = 0;
};
struct TextureArgument {
  std::shared_ptr<Texture> texture;
};
struct BytesArgument {
  std::span<const std::byte> bytes;  // borrowed for the call
};
using Argument = std::variant<Number, ArrayArgument, AddressArgument, BytesArgument, TextureArgument>;

}  // namespace pergola::session
