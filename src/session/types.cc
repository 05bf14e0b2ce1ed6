#include "src/session/types.h"

#include <algorithm>
#include <array>

#include "src/base/plural.h"

namespace pergola::session {
namespace {

struct TypeRow {
  ElementType type;
  std::string_view name;
  std::uint32_t bytes;
};
constexpr TypeRow kTypes[] = {
    {ElementType::kBytes, "bytes", 1}, {ElementType::kI8, "i8", 1},     {ElementType::kU8, "u8", 1},
    {ElementType::kI16, "i16", 2},     {ElementType::kU16, "u16", 2},   {ElementType::kI32, "i32", 4},
    {ElementType::kU32, "u32", 4},     {ElementType::kI64, "i64", 8},   {ElementType::kU64, "u64", 8},
    {ElementType::kF16, "f16", 2},     {ElementType::kBF16, "bf16", 2}, {ElementType::kF32, "f32", 4},
    {ElementType::kF64, "f64", 8},     {ElementType::kC64, "c64", 8},   {ElementType::kC128, "c128", 16},
    {ElementType::kBool, "bool", 1},
};

}  // namespace

// Of every argument of every launch, so without a walk over the rows.
std::uint32_t size_bytes(ElementType type) {
  constexpr std::size_t kMost =
      1 + static_cast<std::size_t>(std::ranges::max_element(kTypes, {}, [](const TypeRow& row) {
                                     return static_cast<std::size_t>(row.type);
                                   })->type);
  static constexpr auto kBytes = [] {
    std::array<std::uint32_t, kMost> bytes{};
    for (const TypeRow& row : kTypes) bytes[static_cast<std::size_t>(row.type)] = row.bytes;
    return bytes;
  }();
  const auto index = static_cast<std::size_t>(type);
  return index < kMost ? kBytes[index] : 0;
}

std::string_view to_string(ElementType type) {
  for (const TypeRow& row : kTypes)
    if (row.type == type) return row.name;
  return "unknown";
}

std::optional<ElementType> parse_element_type(std::string_view text) {
  for (const TypeRow& row : kTypes)
    if (row.name == text) return row.type;
  return std::nullopt;
}

bool is_valid(ElementType type) {
  return size_bytes(type) != 0;
}

Result<std::uint32_t> element_bytes_of(ElementType type, std::uint32_t given) {
  if (!is_valid(type))
    return PERGOLA_ERROR(kInvalidArgument, "{} is no element type.", static_cast<std::int32_t>(type));
  if (type == ElementType::kBytes) return given == 0 ? 1 : given;
  if (given != 0 && given != size_bytes(type))
    return PERGOLA_ERROR(kInvalidArgument, "An element of type {} has {}, not {}.", to_string(type),
                         plural(size_bytes(type), "byte"), given);
  return size_bytes(type);
}

std::string_view to_string(Access access) {
  switch (access) {
    case Access::kNone: return "none";
    case Access::kRead: return "read";
    case Access::kWrite: return "write";
    case Access::kReadWrite: return "read+write";
    case Access::kUnknown: return "unknown";
  }
  return "unknown";
}

std::string_view to_string(Direction direction) {
  switch (direction) {
    case Direction::kNone: return "";
    case Direction::kIn: return "in";
    case Direction::kOut: return "out";
    case Direction::kInOut: return "inout";
  }
  return "";
}

std::string_view to_string(ParameterKind kind) {
  switch (kind) {
    case ParameterKind::kInteger: return "integer";
    case ParameterKind::kFloat: return "float";
    case ParameterKind::kBits: return "bits";
    case ParameterKind::kPointer: return "pointer";
    case ParameterKind::kStruct: return "struct";
  }
  return "unknown";
}

}  // namespace pergola::session
