#include "tests/corpus/run_line.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <sstream>

#include "tests/support/random.h"

namespace pergola::corpus {
namespace {

std::uint64_t seed_of(std::string_view kernel, std::size_t place) {
  std::uint64_t h = 0xcbf29ce484222325u + place;  // FNV-1a
  for (const char c : kernel) h = (h ^ static_cast<unsigned char>(c)) * 0x100000001b3u;
  return h;
}

bool is_float(std::string_view type) {
  return type[0] == 'f';
}

// `number` as an element of `type`, little-endian.
void append(std::vector<std::byte>& bytes, std::string_view type, double number, std::uint64_t integer) {
  std::byte raw[8] = {};
  if (type == "f32") {
    const auto value = static_cast<float>(number);
    std::memcpy(raw, &value, 4);
  } else if (type == "f64") {
    std::memcpy(raw, &number, 8);
  } else {
    std::memcpy(raw, &integer, 8);
  }
  bytes.insert(bytes.end(), raw, raw + element_bytes(type));
}

bool parse_number(const std::string& text, double& number, std::uint64_t& integer) {
  char* end = nullptr;
  number = std::strtod(text.c_str(), &end);
  integer = static_cast<std::uint64_t>(static_cast<std::int64_t>(number));
  return !text.empty() && *end == '\0';
}

// The bytes of f32[64]<10 and its like; false where `text` is none.
bool parse_array(const std::string& text, std::uint64_t seed, RunArgument& argument) {
  const std::size_t open = text.find('['), close = text.find(']');
  if (open == std::string::npos || close == std::string::npos) return false;
  argument.is_array = true;
  argument.type = text.substr(0, open);
  const std::string rest = text.substr(close + 1);
  std::size_t count = 0;
  const std::string digits = text.substr(open + 1, close - open - 1);
  if (std::from_chars(digits.data(), digits.data() + digits.size(), count).ec != std::errc()) return false;
  if (element_bytes(argument.type) == 0 || count == 0 || count > (1u << 24)) return false;
  double number = 0;
  std::uint64_t integer = 0;
  const bool iota = rest.starts_with("=iota"), below = rest.starts_with("<");
  const std::string value = iota ? rest.substr(5) : rest.empty() ? "" : rest.substr(1);
  if (!value.empty() && !parse_number(value, number, integer)) return false;
  if (below && integer == 0) return false;
  const std::uint64_t step = value.empty() ? 1 : integer;
  test_support::Random random(seed);
  for (std::size_t i = 0; i < count; ++i) {
    const std::uint64_t bits = random.next();
    if (iota) {
      append(argument.bytes, argument.type, static_cast<double>(i * step), i * step);
    } else if (below) {
      append(argument.bytes, argument.type, static_cast<double>(bits % integer), bits % integer);
    } else if (!rest.empty()) {
      append(argument.bytes, argument.type, number, integer);
    } else {
      append(argument.bytes, argument.type, std::ldexp(static_cast<double>(bits >> 11), -51) - 2.0, bits);
    }
  }
  return true;
}

// struct{i32:1,f64:2.5}
bool parse_struct(const std::string& text, RunArgument& argument) {
  if (!text.starts_with("struct{") || text.back() != '}') return false;
  std::istringstream fields(text.substr(7, text.size() - 8));
  std::size_t alignment = 1;
  for (std::string field; std::getline(fields, field, ',');) {
    const std::size_t colon = field.find(':');
    if (colon == std::string::npos) return false;
    const std::string type = field.substr(0, colon);
    const std::size_t size = element_bytes(type);
    double number = 0;
    std::uint64_t integer = 0;
    if (size == 0 || !parse_number(field.substr(colon + 1), number, integer)) return false;
    while (argument.bytes.size() % size != 0) argument.bytes.push_back(std::byte{0});
    append(argument.bytes, type, number, integer);
    alignment = std::max(alignment, size);
  }
  while (argument.bytes.size() % alignment != 0) argument.bytes.push_back(std::byte{0});
  return !argument.bytes.empty();
}

bool parse_value(std::string text, RunArgument& argument) {
  std::string type = text.find('.') == std::string::npos ? "i32" : "f64";
  if (text.ends_with('u')) type = "u32";
  if (text.ends_with('L')) type = "i64";
  if (text.ends_with('f')) type = "f32";
  if (type == "u32" || type == "i64" || type == "f32") text.pop_back();
  double number = 0;
  std::uint64_t integer = 0;
  if (!parse_number(text, number, integer)) return false;
  append(argument.bytes, type, number, integer);
  return true;
}

bool parse_dim(const std::string& text, device::Dim3& dim) {
  std::uint32_t* const values[] = {&dim.x, &dim.y, &dim.z};
  std::istringstream parts(text);
  std::size_t count = 0;
  for (std::string part; std::getline(parts, part, ','); ++count) {
    if (count == 3 || std::from_chars(part.data(), part.data() + part.size(), *values[count]).ec != std::errc())
      return false;
  }
  return count > 0;
}

bool parse_line(const std::string& text, RunLine& line) {
  std::istringstream words(text);
  if (!(words >> line.kernel)) return false;
  for (std::string word; words >> word && word != ":";) {
    const std::string value = word.substr(std::min(word.find('=') + 1, word.size()));
    double number = 0;
    std::uint64_t integer = 0;
    if (word.starts_with("grid=")) {
      if (!parse_dim(value, line.config.grid)) return false;
    } else if (word.starts_with("block=")) {
      if (!parse_dim(value, line.config.block)) return false;
    } else if (word.starts_with("smem=")) {
      if (!parse_number(value, number, integer)) return false;
      line.config.dynamic_shared_bytes = static_cast<std::uint32_t>(integer);
    } else if (word == "cooperative") {
      line.config.cooperative = true;
    } else if (word.starts_with("tol=")) {
      if (!parse_number(value, line.tolerance, integer)) return false;
    } else {
      return false;
    }
  }
  for (std::string word; words >> word;) {
    RunArgument argument;
    const std::uint64_t seed = seed_of(line.kernel, line.arguments.size());
    if (!parse_array(word, seed, argument)) {
      argument = {};
      if (!parse_struct(word, argument) && !(argument = {}, parse_value(word, argument))) return false;
    }
    line.arguments.push_back(std::move(argument));
  }
  return true;
}

template <typename T>
T load(const std::vector<std::byte>& bytes, std::size_t at) {
  T value;
  std::memcpy(&value, bytes.data() + at, sizeof value);
  return value;
}

}  // namespace

std::size_t element_bytes(std::string_view type) {
  if (type == "i8" || type == "u8") return 1;
  if (type == "i16" || type == "u16") return 2;
  if (type == "i32" || type == "u32" || type == "f32") return 4;
  if (type == "i64" || type == "u64" || type == "f64") return 8;
  return 0;
}

Result<std::vector<RunLine>> parse_run_lines(std::string_view source, std::string_view name) {
  constexpr std::string_view kMark = "//! run ";
  std::vector<RunLine> lines;
  std::istringstream text{std::string(source)};
  int number = 0;
  for (std::string line; std::getline(text, line);) {
    ++number;
    if (!line.starts_with(kMark)) continue;
    RunLine parsed;
    if (!parse_line(line.substr(kMark.size()), parsed))
      return PERGOLA_ERROR(kParseError, "{}:{}:1: expected a run line (run_line.h), found '{}'.", name, number, line);
    lines.push_back(std::move(parsed));
  }
  return lines;
}

std::string difference(std::string_view type, const std::vector<std::byte>& a, const std::vector<std::byte>& b,
                       double tolerance) {
  const std::size_t size = element_bytes(type);
  for (std::size_t at = 0; at + size <= a.size(); at += size) {
    if (std::equal(a.begin() + static_cast<std::ptrdiff_t>(at), a.begin() + static_cast<std::ptrdiff_t>(at + size),
                   b.begin() + static_cast<std::ptrdiff_t>(at)))
      continue;
    if (!is_float(type)) {
      std::uint64_t x = 0, y = 0;
      std::memcpy(&x, a.data() + at, size);
      std::memcpy(&y, b.data() + at, size);
      return fmt::format("element {}: {:#x} and {:#x}", at / size, x, y);
    }
    const double x = size == 4 ? load<float>(a, at) : load<double>(a, at);
    const double y = size == 4 ? load<float>(b, at) : load<double>(b, at);
    if (std::isnan(x) && std::isnan(y)) continue;
    if (std::fabs(x - y) <= tolerance * std::max(1.0, std::fabs(x))) continue;
    return fmt::format("element {}: {:.17g} and {:.17g}", at / size, x, y);
  }
  return "";
}

}  // namespace pergola::corpus
