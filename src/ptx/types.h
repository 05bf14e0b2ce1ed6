// Types and state spaces of PTX (ISA 5.1 and 5.2).
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace pergola::ptx {

enum class Type : std::uint8_t {
  kNone,
#define PERGOLA_PTX_TYPE(name, spelling, bytes, class) k##name,
#include "src/ptx/types.def"
#undef PERGOLA_PTX_TYPE
};

enum class TypeClass : std::uint8_t { kNone, kBits, kUnsigned, kSigned, kFloat, kPredicate, kOpaque };

// kNone is generic addressing in an instruction.
enum class Space : std::uint8_t { kNone, kReg, kConst, kGlobal, kLocal, kParam, kShared, kTex };

std::string_view spelling(Type type);  // "f32", without the dot; "" for kNone
std::uint32_t size_bytes(Type type);
TypeClass class_of(Type type);
std::optional<Type> parse_type(std::string_view spelling);

inline bool is_float(Type type) { return class_of(type) == TypeClass::kFloat; }
inline bool is_signed(Type type) { return class_of(type) == TypeClass::kSigned; }

std::string_view spelling(Space space);  // "global"; "" for kNone

}  // namespace pergola::ptx
