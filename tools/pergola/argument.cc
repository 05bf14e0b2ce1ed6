#include "tools/pergola/argument.h"

#include <bit>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <optional>

#include "src/base/file.h"
#include "src/base/plural.h"
#include "tools/pergola/half.h"

namespace pergola::tool {
namespace {

using session::ElementType;
using session::Number;

constexpr std::size_t kMaxFileBytes = std::size_t{1} << 36;

Status refuse(std::string_view text, std::string_view why) {
  return PERGOLA_ERROR(kInvalidArgument, "The argument '{}' {}. `pergola run --help` shows what arguments look like.",
                       text, why);
}

std::string_view take_until(std::string_view& rest, char separator) {
  const std::size_t at = rest.find(separator);
  const std::string_view head = rest.substr(0, at);
  rest = at == std::string_view::npos ? std::string_view() : rest.substr(at + 1);
  return head;
}

bool is_float(ElementType type) {
  return type == ElementType::kF16 || type == ElementType::kBF16 || type == ElementType::kF32 ||
         type == ElementType::kF64;
}

bool is_signed_integer(ElementType type) {
  return type == ElementType::kI8 || type == ElementType::kI16 || type == ElementType::kI32 ||
         type == ElementType::kI64;
}

template <typename T>
bool whole(std::string_view text, T& value, int base) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value, base);
  return !text.empty() && error == std::errc() && end == text.data() + text.size();
}

Result<Number> parse_integer(ElementType type, std::string_view text, std::string_view typed) {
  const unsigned bits = session::size_bytes(type) * 8;
  const bool negative = text.starts_with('-');
  std::string_view digits = negative ? text.substr(1) : text;
  const bool hex = digits.starts_with("0x") || digits.starts_with("0X");
  if (hex) digits.remove_prefix(2);
  std::uint64_t magnitude = 0;
  if (!whole(digits, magnitude, hex ? 16 : 10)) return refuse(typed, "is no integer").error();
  const std::uint64_t all = bits == 64 ? ~std::uint64_t{0} : (std::uint64_t{1} << bits) - 1;
  const std::uint64_t half = std::uint64_t{1} << (bits - 1);
  // Hexadecimal gives bits: i32:0xffffffff is -1.
  const std::uint64_t most = is_signed_integer(type) && !hex ? (negative ? half : half - 1) : (negative ? 0 : all);
  if (magnitude > most) return refuse(typed, fmt::format("does not fit {}", session::to_string(type))).error();
  return Number{type, (negative ? 0 - magnitude : magnitude) & all};
}

std::uint64_t float_bits(ElementType type, double value) {
  switch (type) {
    case ElementType::kF16: return float_to_half(static_cast<float>(value));
    case ElementType::kBF16: return float_to_bfloat16(static_cast<float>(value));
    case ElementType::kF32: return std::bit_cast<std::uint32_t>(static_cast<float>(value));
    default: return std::bit_cast<std::uint64_t>(value);
  }
}

// Whether rounding a number that was meant to be finite gives infinity: from halfway between the largest value of the
// type and the next power of two on. Halves are rounded twice (float_bits()), and either time counts.
bool overflows(ElementType type, double value) {
  if (type == ElementType::kF64) return std::isinf(value);
  const double limit = type == ElementType::kF16 ? 65520 : type == ElementType::kBF16 ? 0x1.ffp127 : 0x1.ffffffp127;
  return std::fabs(value) >= limit || static_cast<double>(std::fabs(static_cast<float>(value))) >= limit;
}

Result<Number> parse_float(ElementType type, std::string_view text, std::string_view typed) {
  const std::uint32_t bytes = session::size_bytes(type);
  const bool exact =
      text.starts_with("0f") || text.starts_with("0d") || text.starts_with("0F") || text.starts_with("0D");
  if (exact) {
    std::uint64_t bits = 0;
    if (text.size() != 2 + 2 * bytes || !whole(text.substr(2), bits, 16))
      return refuse(typed,
                    fmt::format("does not give {} hexadecimal digits for {}", 2 * bytes, session::to_string(type)))
          .error();
    return Number{type, bits};
  }
  const std::string copy(text);
  char* end = nullptr;
  const double value = std::strtod(copy.c_str(), &end);
  if (copy.empty() || end != copy.c_str() + copy.size()) return refuse(typed, "is no number").error();
  // An infinity is meant where it is written: inf, infinity. What has digits and is too large was meant to be finite.
  const bool is_finite = copy.find_first_of("0123456789") != std::string::npos && !std::isnan(value);
  if (is_finite && overflows(type, value))
    return refuse(typed,
                  fmt::format("does not fit {}: it is too large, and inf is written as inf", session::to_string(type)))
        .error();
  return Number{type, float_bits(type, value)};
}

Result<std::vector<std::uint64_t>> parse_shape(std::string_view text, std::string_view typed) {
  std::vector<std::uint64_t> shape;
  std::uint64_t count = 1;
  if (text.ends_with('x')) return refuse(typed, "ends in the middle of a shape").error();
  for (std::string_view rest = text; !rest.empty() || shape.empty();) {
    std::uint64_t extent = 0;
    if (!whole(take_until(rest, 'x'), extent, 10)) return refuse(typed, "has no count or shape like 64x32").error();
    if (extent != 0 && count > (std::uint64_t{1} << 40) / extent)
      return refuse(typed, "is more elements than any device holds").error();
    count *= extent;
    shape.push_back(extent);
  }
  return shape;
}

Result<ElementType> parse_type(std::string_view text, std::string_view whole_text) {
  const std::optional<ElementType> type = session::parse_element_type(text);
  if (!type || *type == ElementType::kBytes)
    return refuse(whole_text, fmt::format("names no type '{}': i8 u8 i16 u16 i32 u32 i64 u64 f16 bf16 f32 f64 c64 c128 "
                                          "bool",
                                          text))
        .error();
  return *type;
}

Result<NpyArray> raw_array(ElementType type, const std::string& file) {
  NpyArray array;
  PERGOLA_ASSIGN(array.data, read_file(file, kMaxFileBytes));
  array.type = type;
  array.element_bytes = session::size_bytes(type);
  if (array.data.size() % array.element_bytes != 0)
    return PERGOLA_ERROR(kInvalidArgument, "'{}' has {}, which is no number of elements of type {}.", file,
                         plural(array.data.size(), "byte"), session::to_string(type));
  array.shape = {array.data.size() / array.element_bytes};
  return array;
}

// Up to which each whole number has a value of its own.
std::uint64_t most_whole(ElementType type) {
  const int bits = type == ElementType::kF16    ? 11
                   : type == ElementType::kBF16 ? 8
                   : type == ElementType::kF32  ? 24
                                                : 53;
  return std::uint64_t{1} << bits;
}

Result<NpyArray> made_array(std::string_view how, std::string_view rest, std::string_view text) {
  NpyArray array;
  PERGOLA_ASSIGN(array.type, parse_type(take_until(rest, ':'), text));
  PERGOLA_ASSIGN(array.shape, parse_shape(take_until(rest, ':'), text));
  array.element_bytes = session::size_bytes(array.type);
  const std::uint64_t count = array.count();
  if (count > kMaxFileBytes / array.element_bytes)
    return PERGOLA_ERROR(kResourceExhausted,
                         "The argument '{}' is {} elements of {} bytes; at most {} GiB are made here.", text, count,
                         array.element_bytes, kMaxFileBytes >> 30);
  if (how == "zeros") {
    if (!rest.empty()) return refuse(text, "has more than a type and a count").error();
    array.data.assign(count * array.element_bytes, '\0');
    return array;
  }
  if (how == "iota" && !rest.empty()) return refuse(text, "has more than a type and a count").error();
  if (array.type == ElementType::kC64 || array.type == ElementType::kC128)
    return refuse(text, "makes complex numbers, which only zeros: and files can").error();
  Number value{array.type, 0};
  if (how == "fill") {
    PERGOLA_ASSIGN(value, parse_number(array.type, rest, text));
  }
  if (how == "iota" && count != 0) {
    const std::string last = fmt::format("{}", count - 1);
    const bool holds = array.type == ElementType::kBool ? count <= 2
                       : is_float(array.type)           ? count - 1 <= most_whole(array.type)
                                                        : parse_integer(array.type, last, text).ok();
    if (!holds)
      return refuse(text, fmt::format("counts to {}, which {} does not hold", last, session::to_string(array.type)))
          .error();
  }
  array.data.resize(count * array.element_bytes);
  for (std::uint64_t i = 0; i < count; ++i) {
    const std::uint64_t bits = how == "fill"          ? value.bits
                               : is_float(array.type) ? float_bits(array.type, static_cast<double>(i))
                                                      : i;
    std::memcpy(array.data.data() + i * array.element_bytes, &bits, array.element_bytes);
  }
  return array;
}

Result<std::string> from_hex(std::string_view digits, std::string_view text) {
  std::string bytes;
  for (std::size_t i = 0; i < digits.size(); i += 2) {
    unsigned value = 0;
    if (i + 2 > digits.size() || !whole(digits.substr(i, 2), value, 16))
      return refuse(text, "has no whole bytes of two hexadecimal digits").error();
    bytes += static_cast<char>(value);
  }
  return bytes;
}

}  // namespace

Result<Number> parse_number(ElementType type, std::string_view text, std::string_view typed) {
  if (type == ElementType::kBool) {
    if (text == "true" || text == "1") return Number{type, 1};
    if (text == "false" || text == "0") return Number{type, 0};
    return refuse(typed, "is neither true nor false").error();
  }
  return is_float(type) ? parse_float(type, text, typed) : parse_integer(type, text, typed);
}

Result<ArgumentSpec> parse_argument(std::string_view text) {
  if (text == "null") return ArgumentSpec(NullSpec{});
  std::string_view source = text;
  std::string output;
  const std::size_t arrow = text.find('>');
  if (arrow != std::string_view::npos) {
    source = text.substr(0, arrow);
    output = text.substr(arrow + 1);
    if (output.empty()) return refuse(text, "names no file after '>'").error();
  }
  const auto array = [&](Result<NpyArray> contents) -> Result<ArgumentSpec> {
    if (!contents.ok()) return contents.status();
    return ArgumentSpec(ArraySpec{std::move(*contents), output});
  };
  if (source.starts_with('@')) {
    const std::string file(source.substr(1));
    PERGOLA_ASSIGN(const std::string bytes, read_file(file, kMaxFileBytes));
    return array(parse_npy(bytes, file));
  }
  std::string_view rest = source;
  const std::string_view head = take_until(rest, ':');
  if (head == "raw") {
    PERGOLA_ASSIGN(const ElementType type, parse_type(take_until(rest, ':'), text));
    return array(raw_array(type, std::string(rest)));
  }
  if (head == "zeros" || head == "fill" || head == "iota") return array(made_array(head, rest, text));
  if (arrow != std::string_view::npos) return refuse(text, "has '>FILE' and is no array").error();
  if (head == "hex") {
    PERGOLA_ASSIGN(std::string bytes, from_hex(rest, text));
    return ArgumentSpec(StructSpec{std::move(bytes)});
  }
  if (head == "bytes") {
    PERGOLA_ASSIGN(std::string bytes, read_file(std::string(rest), 1 << 16));
    return ArgumentSpec(StructSpec{std::move(bytes)});
  }
  if (head == "same") {
    SameSpec same;
    if (!whole(rest, same.argument, 10)) return refuse(text, "names no earlier argument by its number").error();
    return ArgumentSpec(same);
  }
  PERGOLA_ASSIGN(const ElementType type, parse_type(head, text));
  if (type == ElementType::kC64 || type == ElementType::kC128)
    return refuse(text, "is a complex number, which no parameter takes: give its bytes by hex:").error();
  PERGOLA_ASSIGN(const Number number, parse_number(type, rest, text));
  return ArgumentSpec(number);
}

Result<ArgumentSpec> parse_buffer(std::string_view text) {
  std::string_view rest = text;
  std::string_view in = take_until(rest, ':');
  ArraySpec spec;
  if (in == "zero") {
    std::uint64_t bytes = 0;
    if (!whole(take_until(rest, ':'), bytes, 10) || bytes > (std::uint64_t{1} << 40))
      return PERGOLA_ERROR(kInvalidArgument, "The buffer '{}' should be zero:BYTES[:OUT].", text);
    spec.contents.type = ElementType::kU8;
    spec.contents.shape = {bytes};
    spec.contents.data.assign(bytes, '\0');
  } else {
    PERGOLA_ASSIGN(spec.contents, raw_array(ElementType::kU8, std::string(in)));
  }
  spec.output = rest;
  return ArgumentSpec(std::move(spec));
}

std::string print_element(ElementType type, std::string_view bytes) {
  std::uint64_t bits = 0;
  std::memcpy(&bits, bytes.data(), std::min<std::size_t>(bytes.size(), sizeof bits));
  switch (type) {
    case ElementType::kI8: return std::to_string(static_cast<std::int8_t>(bits));
    case ElementType::kI16: return std::to_string(static_cast<std::int16_t>(bits));
    case ElementType::kI32: return std::to_string(static_cast<std::int32_t>(bits));
    case ElementType::kI64: return std::to_string(static_cast<std::int64_t>(bits));
    case ElementType::kF16: return fmt::format("{}", half_to_float(static_cast<std::uint16_t>(bits)));
    case ElementType::kBF16: return fmt::format("{}", bfloat16_to_float(static_cast<std::uint16_t>(bits)));
    case ElementType::kF32: return fmt::format("{}", std::bit_cast<float>(static_cast<std::uint32_t>(bits)));
    case ElementType::kF64: return fmt::format("{}", std::bit_cast<double>(bits));
    case ElementType::kC64:
      return fmt::format("{}{:+}j", std::bit_cast<float>(static_cast<std::uint32_t>(bits)),
                         std::bit_cast<float>(static_cast<std::uint32_t>(bits >> 32)));
    case ElementType::kBool: return bits != 0 ? "true" : "false";
    case ElementType::kU8:
    case ElementType::kU16:
    case ElementType::kU32:
    case ElementType::kU64: return std::to_string(bits);
    case ElementType::kC128:
    case ElementType::kBytes: break;
  }
  std::string hex;
  for (const char byte : bytes) hex += fmt::format("{:02x}", static_cast<unsigned char>(byte));
  return hex;
}

Result<device::Dim3> parse_extents(std::string_view text, std::string_view what) {
  std::uint32_t extents[3] = {1, 1, 1};
  std::size_t n = 0;
  for (std::string_view rest = text; n == 0 || !rest.empty(); ++n)
    if (n == 3 || text.ends_with(',') || !whole(take_until(rest, ','), extents[n], 10) || extents[n] == 0)
      return PERGOLA_ERROR(kInvalidArgument, "The {} '{}' should be X, X,Y or X,Y,Z of 1 and more.", what, text);
  return device::Dim3{extents[0], extents[1], extents[2]};
}

}  // namespace pergola::tool
