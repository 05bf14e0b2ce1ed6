// The reader of case headers; the form is in case_file.h.
#include "tests/ptx_cases/case_file.h"

#include <charconv>
#include <cmath>
#include <cstring>
#include <limits>
#include <optional>
#include <sstream>

#include "src/base/file.h"

namespace pergola::ptx_cases {
namespace {

std::string trim(std::string_view text) {
  const std::size_t begin = text.find_first_not_of(" \t\r");
  if (begin == std::string_view::npos) return {};
  return std::string(text.substr(begin, text.find_last_not_of(" \t\r") - begin + 1));
}

std::optional<std::uint64_t> parse_integer(std::string_view text) {
  const bool negative = text.starts_with('-');
  if (negative) text.remove_prefix(1);
  int base = 10;
  if (text.starts_with("0x")) {
    base = 16;
    text.remove_prefix(2);
  }
  std::uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value, base);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return negative ? ~value + 1 : value;
}

// The bits of one value of a type.
std::optional<std::uint64_t> parse_value(const std::string& type, const std::string& text) {
  if (type[0] != 'f' || type == "f16" || text.starts_with("0x")) return parse_integer(text);
  double value = 0;
  if (text == "nan") {
    value = std::numeric_limits<double>::quiet_NaN();
  } else {
    std::istringstream stream(text);
    if (text == "inf" || text == "-inf")
      value = text == "inf" ? HUGE_VAL : -HUGE_VAL;
    else if (!(stream >> value) || !stream.eof())
      return std::nullopt;
  }
  std::uint64_t bits = 0;
  if (type == "f64") {
    std::memcpy(&bits, &value, 8);
  } else {
    if (std::isnan(value)) return 0x7fffffffu;
    const auto narrow = static_cast<float>(value);
    std::memcpy(&bits, &narrow, 4);
  }
  return bits;
}

void append(std::vector<std::byte>& bytes, std::uint64_t bits, std::size_t size) {
  for (std::size_t n = 0; n < size; ++n) bytes.push_back(static_cast<std::byte>(bits >> (8 * n)));
}

// VALUES into bytes; `count` is for iota and 0 where unknown.
bool parse_values(const std::string& type, const std::string& text, std::size_t count, std::vector<std::byte>& bytes) {
  const std::size_t size = type_bytes(type);
  if (text == "iota") {
    for (std::size_t n = 0; n < count; ++n) {
      auto bits = parse_value(type, std::to_string(n));
      if (!bits) return false;
      append(bytes, *bits, size);
    }
    return count != 0;
  }
  std::istringstream stream(text);
  std::string item;
  while (std::getline(stream, item, ',')) {
    item = trim(item);
    if (item.empty()) continue;
    std::uint64_t times = 1;
    if (const std::size_t star = item.find('*'); star != std::string::npos) {
      const auto parsed = parse_integer(trim(item.substr(star + 1)));
      if (!parsed || *parsed > (1u << 20)) return false;
      times = *parsed;
      item = trim(item.substr(0, star));
    }
    const auto bits = parse_value(type, item);
    if (!bits) return false;
    for (std::uint64_t n = 0; n < times; ++n) append(bytes, *bits, size);
  }
  return true;
}

class Reader {
 public:
  Reader(std::string text, std::string path) {
    case_.text = std::move(text);
    case_.path = std::move(path);
    case_.config.block = {32, 1, 1};
  }

  Result<Case> run() {
    std::istringstream lines(case_.text);
    std::string line;
    while (std::getline(lines, line)) {
      ++line_;
      if (!line.starts_with("//")) {
        if (trim(line).empty()) continue;
        break;  // the code begins
      }
      PERGOLA_TRY(read_line(trim(std::string_view(line).substr(2))));
    }
    if (case_.expectations.empty() && case_.fault.empty()) return wrong("an expectation");
    return std::move(case_);
  }

 private:
  Error wrong(std::string_view expected) const {
    return PERGOLA_ERROR(kParseError, "{}:{}: expected {} in the header of the case.", case_.path, line_, expected);
  }

  Status read_line(const std::string& line) {
    const std::size_t colon = line.find(':');
    if (colon == std::string::npos) return {};
    std::istringstream head(line.substr(0, colon));
    std::string key, name, more;
    head >> key >> name >> more;
    const std::string rest = trim(line.substr(colon + 1));
    if (key == "kernel") case_.kernel = rest;
    if (key == "grid") return read_dim(rest, case_.config.grid);
    if (key == "block") return read_dim(rest, case_.config.block);
    if (key == "shared") case_.config.dynamic_shared_bytes = static_cast<std::uint32_t>(parse_integer(rest).value_or(0));
    if (key == "expect-fault") case_.fault = rest;
    if (key == "needs" && rest.starts_with("sm_"))
      case_.needs_sm = static_cast<std::uint32_t>(parse_integer(rest.substr(3)).value_or(0));
    if (key == "buffer") return read_buffer(name, rest);
    if (key == "arg") return read_argument(rest);
    if (key == "expect") return read_expectation(name, more, rest);
    return {};
  }

  Status read_dim(const std::string& text, device::Dim3& dim) {
    std::istringstream stream(text);
    if (!(stream >> dim.x >> dim.y >> dim.z)) return wrong("three extents");
    return {};
  }

  Status read_buffer(const std::string& name, const std::string& rest) {
    const std::size_t open = rest.find('['), close = rest.find(']'), equals = rest.find('=');
    if (open == std::string::npos || close == std::string::npos || equals == std::string::npos)
      return wrong("TYPE[COUNT] = CONTENT");
    const std::string type = trim(rest.substr(0, open)), content = trim(rest.substr(equals + 1));
    const auto count = parse_integer(trim(rest.substr(open + 1, close - open - 1)));
    const std::size_t size = type_bytes(type);
    if (size == 0 || !count || *count > (1u << 24)) return wrong("a type and a count");
    BufferSpec buffer{name, {}};
    if (content.starts_with("random")) {
      const auto seed = parse_integer(trim(content.substr(6))).value_or(0);
      for (std::uint64_t n = 0; n < *count; ++n) append(buffer.initial, random_word(seed, n), size);
    } else if (content != "zero" && !parse_values(type, content, *count, buffer.initial)) {
      return wrong("zero, iota, random SEED, or values");
    }
    buffer.initial.resize(*count * size);
    case_.buffers.push_back(std::move(buffer));
    return {};
  }

  Status read_argument(const std::string& rest) {
    std::istringstream stream(rest);
    std::string first, values;
    stream >> first;
    std::getline(stream, values);
    Argument argument;
    if (trim(values).empty()) {
      argument.buffer = first;
    } else {
      if (type_bytes(first) == 0) return wrong("a type");
      if (!parse_values(first, values, 0, argument.value)) return wrong("values");
    }
    case_.arguments.push_back(std::move(argument));
    return {};
  }

  Status read_expectation(const std::string& name, const std::string& more, const std::string& rest) {
    Expectation expectation;
    expectation.buffer = name;
    if (more.starts_with('@')) expectation.first = parse_integer(more.substr(1)).value_or(0);
    if (more.starts_with('~')) expectation.tolerance = std::stod(more.substr(1));
    const std::size_t space = rest.find(' ');
    if (space == std::string::npos) return wrong("TYPE VALUES");
    expectation.type = rest.substr(0, space);
    const std::size_t size = type_bytes(expectation.type);
    const BufferSpec* buffer = nullptr;
    for (const BufferSpec& candidate : case_.buffers)
      if (candidate.name == name) buffer = &candidate;
    if (size == 0 || buffer == nullptr) return wrong("a buffer and a type");
    if (!parse_values(expectation.type, trim(rest.substr(space)), buffer->initial.size() / size, expectation.values))
      return wrong("values");
    if (expectation.first * size + expectation.values.size() > buffer->initial.size())
      return wrong("no more values than the buffer has");
    case_.expectations.push_back(std::move(expectation));
    return {};
  }

  Case case_;
  int line_ = 0;
};

}  // namespace

std::size_t type_bytes(std::string_view type) {
  if (type.size() < 2) return 0;
  const auto bits = parse_integer(type.substr(1));
  if (!bits || std::string_view("usbf").find(type[0]) == std::string_view::npos) return 0;
  return *bits == 8 || *bits == 16 || *bits == 32 || *bits == 64 ? *bits / 8 : 0;
}

std::uint64_t random_word(std::uint64_t seed, std::uint64_t index) {
  std::uint64_t z = (seed + 1) * 0x9e3779b97f4a7c15u + index * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  return z ^ (z >> 31);
}

Result<Case> parse_case(std::string text, std::string path) { return Reader(std::move(text), std::move(path)).run(); }

Result<Case> read_case(const std::string& path) {
  PERGOLA_ASSIGN(std::string text, read_file(path));
  return parse_case(std::move(text), path);
}

}  // namespace pergola::ptx_cases
