#include "tools/pergola/npy.h"

#include <charconv>
#include <limits>
#include <optional>

#include "src/base/plural.h"

namespace pergola::tool {
namespace {

using session::ElementType;

constexpr std::string_view kMagic = "\x93NUMPY";
constexpr std::size_t kMaxDimensions = 32;  // NumPy's own limit (64 since 2.0)

struct Dtype {
  std::string_view code;  // kind and size
  ElementType type;
};
constexpr Dtype kDtypes[] = {
    {"b1", ElementType::kBool}, {"i1", ElementType::kI8},  {"u1", ElementType::kU8},  {"i2", ElementType::kI16},
    {"u2", ElementType::kU16},  {"i4", ElementType::kI32}, {"u4", ElementType::kU32}, {"i8", ElementType::kI64},
    {"u8", ElementType::kU64},  {"f2", ElementType::kF16}, {"f4", ElementType::kF32}, {"f8", ElementType::kF64},
    {"c8", ElementType::kC64},  {"c16", ElementType::kC128},
};

std::uint32_t little_endian(std::string_view bytes) {
  std::uint32_t value = 0;
  for (std::size_t i = bytes.size(); i-- > 0;) value = value << 8 | static_cast<unsigned char>(bytes[i]);
  return value;
}

// The header: a Python dict of three known keys.
class HeaderParser {
 public:
  HeaderParser(std::string_view text, std::size_t start, std::string_view name)
      : text_(text), start_(start), name_(name) {}

  Status parse(NpyArray& array) {
    PERGOLA_TRY(expect('{'));
    while (!accept('}')) {
      PERGOLA_ASSIGN(const std::string_view key, quoted());
      PERGOLA_TRY(expect(':'));
      PERGOLA_TRY(value_of(key, array));
      if (!accept(',') && !next_is('}')) return wrong("',' or '}'");
    }
    skip_space();
    if (at_ != text_.size()) return wrong("the end of the header");
    if (!descr_) return missing("descr");
    if (!order_) return missing("fortran_order");
    if (!shape_) return missing("shape");
    if (fortran_order_ && array.shape.size() > 1)
      return PERGOLA_ERROR(kInvalidArgument, "'{}' is in Fortran order: save it with numpy.ascontiguousarray().", name_);
    return {};
  }

 private:
  Status value_of(std::string_view key, NpyArray& array) {
    if (key == "descr" && !descr_) {
      descr_ = true;
      skip_space();
      if (next_is('['))
        return PERGOLA_ERROR(kInvalidArgument, "'{}' has a structured data type, which is not supported.", name_);
      PERGOLA_ASSIGN(const std::string_view descr, quoted());
      return dtype(descr, array);
    }
    if (key == "fortran_order" && !order_) {
      order_ = true;
      if (accept_word("False")) return {};
      if (!accept_word("True")) return wrong("True or False");
      fortran_order_ = true;
      return {};
    }
    if (key == "shape" && !shape_) {
      shape_ = true;
      return shape(array);
    }
    return wrong("each of 'descr', 'fortran_order' and 'shape' once");
  }

  Status dtype(std::string_view descr, NpyArray& array) {
    const char order = descr.empty() ? '\0' : descr[0];
    const bool has_order = order == '<' || order == '>' || order == '|' || order == '=';
    const std::string_view code = has_order ? descr.substr(1) : descr;
    for (const Dtype& known : kDtypes) {
      if (known.code != code) continue;
      array.type = known.type;
      array.element_bytes = session::size_bytes(known.type);
      if (order == '>' && array.element_bytes > 1)
        return PERGOLA_ERROR(kInvalidArgument, "'{}' is big-endian ('{}'): save it in native byte order.", name_, descr);
      return {};
    }
    std::uint32_t bytes = 0;
    if (code.starts_with('V') && parse_whole(code.substr(1), bytes) && bytes > 0) {
      array.type = ElementType::kBytes;
      array.element_bytes = bytes;
      return {};
    }
    return PERGOLA_ERROR(kInvalidArgument, "'{}' has the data type '{}', which is not supported.", name_, descr);
  }

  Status shape(NpyArray& array) {
    PERGOLA_TRY(expect('('));
    while (!accept(')')) {
      skip_space();
      const std::size_t begin = at_;
      while (at_ < text_.size() && text_[at_] >= '0' && text_[at_] <= '9') ++at_;
      std::uint64_t extent = 0;
      if (!parse_whole(text_.substr(begin, at_ - begin), extent)) return wrong("an extent");
      accept('L');  // Python 2
      if (array.shape.size() == kMaxDimensions) return wrong("at most 32 dimensions");
      array.shape.push_back(extent);
      if (!accept(',') && !next_is(')')) return wrong("',' or ')'");
    }
    return {};
  }

  template <typename T>
  static bool parse_whole(std::string_view digits, T& value) {
    const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
    return !digits.empty() && error == std::errc() && end == digits.data() + digits.size();
  }

  Result<std::string_view> quoted() {
    skip_space();
    const char quote = at_ < text_.size() ? text_[at_] : '\0';
    if (quote != '\'' && quote != '"') return wrong("a quoted name").error();
    const std::size_t end = text_.find(quote, at_ + 1);
    if (end == std::string_view::npos) return wrong("a closing quote").error();
    const std::string_view inside = text_.substr(at_ + 1, end - at_ - 1);
    at_ = end + 1;
    return inside;
  }
  void skip_space() {
    while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\n' || text_[at_] == '\t')) ++at_;
  }
  bool next_is(char c) {
    skip_space();
    return at_ < text_.size() && text_[at_] == c;
  }
  bool accept(char c) {
    if (!next_is(c)) return false;
    ++at_;
    return true;
  }
  bool accept_word(std::string_view word) {
    skip_space();
    if (!text_.substr(at_).starts_with(word)) return false;
    at_ += word.size();
    return true;
  }
  Status expect(char c) { return accept(c) ? Status() : wrong(std::string_view(&c, 1)); }
  Status wrong(std::string_view expected) const {
    return PERGOLA_ERROR(kParseError, "'{}' is no valid .npy file: at byte {} of its header {} was expected.", name_,
                         start_ + at_, expected);
  }
  Status missing(std::string_view key) const {
    return PERGOLA_ERROR(kParseError, "'{}' is no valid .npy file: its header has no '{}'.", name_, key);
  }

  const std::string_view text_;
  const std::size_t start_;
  const std::string_view name_;
  std::size_t at_ = 0;
  bool descr_ = false, order_ = false, shape_ = false, fortran_order_ = false;
};

// The bytes that the shape asks for, or nothing where they do not fit 64 bits.
std::optional<std::uint64_t> size_of(const NpyArray& array) {
  std::uint64_t size = array.element_bytes;
  for (const std::uint64_t extent : array.shape) {
    if (extent == 0) return 0;
    if (size > std::numeric_limits<std::uint64_t>::max() / extent) return std::nullopt;
    size *= extent;
  }
  return size;
}

std::string descr_of(const NpyArray& array) {
  for (const Dtype& known : kDtypes)
    if (known.type == array.type) return fmt::format("{}{}", array.element_bytes == 1 ? '|' : '<', known.code);
  return fmt::format("{}V{}", array.type == ElementType::kBF16 ? '<' : '|', array.element_bytes);
}

}  // namespace

std::uint64_t NpyArray::count() const {
  std::uint64_t count = 1;
  for (const std::uint64_t extent : shape) count *= extent;
  return count;
}

Result<NpyArray> parse_npy(std::string_view bytes, std::string_view name) {
  constexpr std::size_t kVersionEnd = kMagic.size() + 2;
  if (!bytes.starts_with(kMagic) || bytes.size() < kVersionEnd)
    return PERGOLA_ERROR(kParseError, "'{}' is no .npy file: it does not begin with \\x93NUMPY and a version.", name);
  const auto major = static_cast<unsigned char>(bytes[6]), minor = static_cast<unsigned char>(bytes[7]);
  if (major < 1 || major > 3 || minor != 0)
    return PERGOLA_ERROR(kInvalidArgument, "'{}' has version {}.{} of the .npy format; 1.0, 2.0 and 3.0 are supported.",
                         name, major, minor);
  const std::size_t length_bytes = major == 1 ? 2 : 4;
  const std::size_t header_start = kVersionEnd + length_bytes;
  if (bytes.size() < header_start) return PERGOLA_ERROR(kParseError, "'{}' ends within its header.", name);
  const std::size_t header_bytes = little_endian(bytes.substr(kVersionEnd, length_bytes));
  if (bytes.size() - header_start < header_bytes)
    return PERGOLA_ERROR(kParseError, "'{}' ends within its header of {}.", name, plural(header_bytes, "byte"));

  NpyArray array;
  PERGOLA_TRY(HeaderParser(bytes.substr(header_start, header_bytes), header_start, name).parse(array));
  const std::string_view data = bytes.substr(header_start + header_bytes);
  const std::optional<std::uint64_t> size = size_of(array);
  if (!size || *size != data.size())
    return PERGOLA_ERROR(kParseError, "'{}' has {} of data where its shape asks for {}.", name,
                         plural(data.size(), "byte"), size ? std::to_string(*size) : "more than 2^64");
  array.data = data;
  return array;
}

std::string print_npy(const NpyArray& array) {
  std::string shape;
  for (const std::uint64_t extent : array.shape) shape += fmt::format("{}, ", extent);
  if (array.shape.size() > 1) shape.resize(shape.size() - 2);
  if (array.shape.size() == 1) shape.resize(shape.size() - 1);
  std::string header =
      fmt::format("{{'descr': '{}', 'fortran_order': False, 'shape': ({}), }}", descr_of(array), shape);
  const bool short_header = header.size() + 64 < 65536;
  const std::size_t prefix = kMagic.size() + 2 + (short_header ? 2 : 4);
  header.append(63 - (prefix + header.size()) % 64, ' ');
  header += '\n';

  std::string out(kMagic);
  out += short_header ? '\1' : '\2';
  out += '\0';
  for (std::size_t i = 0; i < (short_header ? 2u : 4u); ++i) out += static_cast<char>(header.size() >> (8 * i) & 0xff);
  return out + header + array.data;
}

}  // namespace pergola::tool
