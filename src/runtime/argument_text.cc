#include "src/runtime/argument_text.h"

#include <bit>

#include "src/base/plural.h"
#include "src/runtime/local_array.h"

namespace pergola::runtime {
namespace {

constexpr std::size_t kMostCharacters = 200;

std::string number_text(const session::Number& number) {
  using Type = session::ElementType;
  const std::uint32_t bits = 8 * session::size_bytes(number.type);
  const std::uint64_t value = bits >= 64 ? number.bits : number.bits & ((std::uint64_t{1} << bits) - 1);
  const std::string_view type = session::to_string(number.type);
  switch (number.type) {
    case Type::kF32: return fmt::format("{} {}", type, std::bit_cast<float>(static_cast<std::uint32_t>(value)));
    case Type::kF64: return fmt::format("{} {}", type, std::bit_cast<double>(value));
    case Type::kF16:
    case Type::kBF16: return fmt::format("{} bits {:#06x}", type, value);
    case Type::kI8:
    case Type::kI16:
    case Type::kI32:
    case Type::kI64: return fmt::format("{} {}", type, static_cast<std::int64_t>(value << (64 - bits)) >> (64 - bits));
    default: return fmt::format("{} {}", type, value);
  }
}

struct ToText {
  std::string operator()(const session::Number& number) const { return number_text(number); }
  std::string operator()(const session::ArrayArgument& argument) const {
    const std::uint64_t id = argument.array->number();
    return argument.offset_bytes == 0 ? fmt::format("array {}", id)
                                      : fmt::format("array {} + {}", id, plural(argument.offset_bytes, "byte"));
  }
  std::string operator()(const session::AddressArgument& argument) const {
    return argument.address == 0 ? "null" : fmt::format("address {:#x}", argument.address);
  }
  std::string operator()(const session::BytesArgument& argument) const {
    return "struct of " + plural(argument.bytes.size(), "byte");
  }
  std::string operator()(const session::TextureArgument&) const { return "texture"; }
};

}  // namespace

std::string argument_text(std::span<const session::Argument> arguments) {
  std::string text;
  for (const session::Argument& argument : arguments) {
    if (text.size() > kMostCharacters) return text + ", ...";
    text += (text.empty() ? "" : ", ") + std::visit(ToText{}, argument);
  }
  return text;
}

}  // namespace pergola::runtime
