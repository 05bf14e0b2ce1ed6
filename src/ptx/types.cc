#include "src/ptx/types.h"

namespace pergola::ptx {
namespace {

struct TypeRow {
  std::string_view spelling;
  std::uint32_t bytes;
  TypeClass type_class;
};

constexpr TypeRow kTypes[] = {
    {"", 0, TypeClass::kNone},
#define PERGOLA_PTX_TYPE(name, spelling, bytes, class) {spelling, bytes, TypeClass::class},
#include "src/ptx/types.def"
#undef PERGOLA_PTX_TYPE
};

}  // namespace

std::string_view spelling(Type type) { return kTypes[static_cast<int>(type)].spelling; }
std::uint32_t size_bytes(Type type) { return kTypes[static_cast<int>(type)].bytes; }
TypeClass class_of(Type type) { return kTypes[static_cast<int>(type)].type_class; }

std::optional<Type> parse_type(std::string_view text) {
  for (std::size_t i = 1; i < std::size(kTypes); ++i) {
    if (kTypes[i].spelling == text) return static_cast<Type>(i);
  }
  return std::nullopt;
}

std::string_view spelling(Space space) {
  switch (space) {
    case Space::kNone: return "";
    case Space::kReg: return "reg";
    case Space::kConst: return "const";
    case Space::kGlobal: return "global";
    case Space::kLocal: return "local";
    case Space::kParam: return "param";
    case Space::kShared: return "shared";
    case Space::kTex: return "tex";
  }
  return "";
}

}  // namespace pergola::ptx
