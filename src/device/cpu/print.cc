#include "src/device/cpu/print.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstring>

namespace pergola::device::cpu {
namespace {

constexpr std::size_t kFlushBytes = 64 * 1024;
constexpr int kMaxWidth = 64 * 1024;       // a wider field is cut to this: a kernel may not take the host's memory
constexpr int kMaxPrecision = 4 * 1024;
constexpr std::size_t kMaxFormatBytes = 1024 * 1024;

enum class Length : std::uint8_t { kInt, kChar, kShort, kLong };  // kLong: everything of 8 bytes

// One conversion, taken apart. "%-08.3lld": flags "-0", width 8, precision 3, kLong, 'd'.
struct Conversion {
  std::string flags;
  int width = 0;
  int precision = -1;
  bool width_from_argument = false, precision_from_argument = false;
  Length length = Length::kInt;
  char letter = 0;
};

// Reads a conversion that starts after '%' at `at`; moves `at` behind it. False where it is none.
bool parse_conversion(std::string_view text, std::size_t& at, Conversion& out) {
  const auto peek = [&] { return at < text.size() ? text[at] : '\0'; };
  const auto number = [&](int limit) {
    int value = 0;
    for (; peek() >= '0' && peek() <= '9'; ++at) value = std::min(limit, value * 10 + (peek() - '0'));
    return value;
  };
  for (; at < text.size() && std::string_view("-+ #0").find(peek()) != std::string_view::npos; ++at) {
    if (out.flags.find(peek()) == std::string::npos) out.flags += peek();
  }
  if (peek() == '*') {
    out.width_from_argument = true;
    ++at;
  } else {
    out.width = number(kMaxWidth);
  }
  if (peek() == '.') {
    ++at;
    if (peek() == '*') {
      out.precision_from_argument = true;
      ++at;
    } else {
      out.precision = number(kMaxPrecision);
    }
  }
  if (peek() == 'h') {
    out.length = Length::kShort;
    if (++at < text.size() && peek() == 'h') {
      out.length = Length::kChar;
      ++at;
    }
  } else {
    for (; at < text.size() && std::string_view("lqjztL").find(peek()) != std::string_view::npos; ++at) {
      out.length = Length::kLong;
    }
  }
  out.letter = peek();
  if (out.letter == '\0' || std::string_view("diuoxXcspfFeEgGaA%").find(out.letter) == std::string_view::npos) {
    return false;
  }
  ++at;
  return true;
}

// The packed argument buffer, read in order.
class Arguments {
 public:
  Arguments(const MemoryReader& read, std::uint64_t address) : read_(read), next_(address) {}

  // The next 4 or 8 bytes; 0 where they cannot be read, and ok() is then false.
  std::uint64_t take(std::size_t size_bytes) {
    next_ = (next_ + size_bytes - 1) / size_bytes * size_bytes;
    std::array<std::byte, 8> bytes{};
    if (!read_(next_, std::span(bytes).first(size_bytes))) ok_ = false;
    next_ += size_bytes;
    std::uint64_t value = 0;
    if (ok_) std::memcpy(&value, bytes.data(), sizeof value);
    ++taken_;
    return value;
  }
  std::int32_t take_int() { return static_cast<std::int32_t>(take(4)); }
  bool ok() const { return ok_; }
  int taken() const { return taken_; }

 private:
  const MemoryReader& read_;
  std::uint64_t next_;
  bool ok_ = true;
  int taken_ = 0;
};

// snprintf with a specification that rebuild() made, for one value.
template <typename T>
std::string host_format(const std::string& specification, int width, int precision, T value) {
  const int length = std::snprintf(nullptr, 0, specification.c_str(), width, precision, value);
  if (length <= 0) return {};
  std::string text(static_cast<std::size_t>(length) + 1, '\0');
  std::snprintf(text.data(), text.size(), specification.c_str(), width, precision, value);
  text.resize(static_cast<std::size_t>(length));
  return text;
}

// Only flags, '*' width and precision, a length of ours and one known letter: nothing of the kernel's own text.
std::string rebuild(const Conversion& conversion, const char* length) {
  return fmt::format("%{}*.*{}{}", conversion.flags, length, conversion.letter);
}

std::string format_integer(const Conversion& c, std::uint64_t raw) {
  const std::string specification = rebuild(c, "ll");
  const bool is_signed = c.letter == 'd' || c.letter == 'i';
  long long value = static_cast<long long>(raw);
  switch (c.length) {
    case Length::kChar:
      value = is_signed ? static_cast<long long>(static_cast<std::int8_t>(raw)) : static_cast<std::uint8_t>(raw);
      break;
    case Length::kShort:
      value = is_signed ? static_cast<long long>(static_cast<std::int16_t>(raw)) : static_cast<std::uint16_t>(raw);
      break;
    case Length::kInt:
      value = is_signed ? static_cast<long long>(static_cast<std::int32_t>(raw)) : static_cast<std::uint32_t>(raw);
      break;
    case Length::kLong: break;
  }
  return host_format(specification, c.width, c.precision, value);
}

std::string pad(std::string text, const Conversion& c) {
  const auto width = static_cast<std::size_t>(c.width);
  if (text.size() >= width) return text;
  const bool left = c.flags.find('-') != std::string::npos;
  text.insert(left ? text.size() : 0, width - text.size(), ' ');
  return text;
}

std::string format_string(const MemoryReader& read, const Conversion& c, std::uint64_t address) {
  if (address == 0) return pad("(null)", c);
  const std::size_t most = c.precision >= 0 ? static_cast<std::size_t>(c.precision) : kMaxFormatBytes;
  std::optional<std::string> text = read_c_string(read, address, most);
  return pad(text ? std::move(*text) : fmt::format("(unreadable string at {:#x})", address), c);
}

std::string format_one(const MemoryReader& read, Conversion c, Arguments& arguments) {
  if (c.width_from_argument) {
    const std::int32_t width = arguments.take_int();
    if (width < 0) c.flags += '-';  // C17 7.21.6.1: a negative width is the flag '-' and its absolute value
    c.width = static_cast<int>(std::min<std::int64_t>(kMaxWidth, width < 0 ? -std::int64_t{width} : width));
  }
  if (c.precision_from_argument) c.precision = std::min(kMaxPrecision, arguments.take_int());
  switch (c.letter) {
    case 'c': return pad(std::string(1, static_cast<char>(arguments.take_int())), c);
    case 's': return format_string(read, c, arguments.take(8));
    case 'p': return pad(fmt::format("{:#x}", arguments.take(8)), c);
    case 'd': case 'i': case 'u': case 'o': case 'x': case 'X':
      return format_integer(c, arguments.take(c.length == Length::kLong ? 8 : 4));
    default: {  // f F e E g G a A
      const std::uint64_t raw = arguments.take(8);
      double value = 0;
      std::memcpy(&value, &raw, sizeof value);
      return host_format(rebuild(c, ""), c.width, c.precision, value);
    }
  }
}

}  // namespace

MemoryReader memory_map_reader(const MemoryMap& memory) {
  return [&memory](std::uint64_t address, std::span<std::byte> destination) {
    if (!memory.find(address, destination.size())) return false;
    std::memcpy(destination.data(), reinterpret_cast<const void*>(address), destination.size());
    return true;
  };
}

std::optional<std::string> read_c_string(const MemoryReader& read, std::uint64_t address, std::size_t max_bytes) {
  std::string text;
  std::byte byte{};
  while (text.size() < max_bytes) {
    if (!read(address + text.size(), {&byte, 1})) return std::nullopt;
    if (byte == std::byte{0}) break;
    text += static_cast<char>(byte);
  }
  return text;
}

FormattedPrint format_print(const MemoryReader& read, std::uint64_t format, std::uint64_t arguments_address) {
  if (format == 0) return {"", -1};
  const std::optional<std::string> text = read_c_string(read, format, kMaxFormatBytes);
  if (!text) return {"", -1};
  FormattedPrint out;
  Arguments arguments(read, arguments_address);
  for (std::size_t at = 0; at < text->size();) {
    const std::size_t percent = std::min(text->find('%', at), text->size());
    out.text.append(*text, at, percent - at);
    at = percent;
    if (at == text->size()) break;
    ++at;
    Conversion conversion;
    if (!parse_conversion(*text, at, conversion)) {
      out.text.append(*text, percent, at - percent);
      continue;
    }
    if (conversion.letter == '%') {
      out.text += '%';
      continue;
    }
    std::string piece = format_one(read, conversion, arguments);
    out.text += arguments.ok() ? piece : std::string("(unreadable argument)");
    if (!arguments.ok()) break;
  }
  out.result = arguments.taken();
  return out;
}

void PrintOutput::write(std::string_view text) {
  if (text.empty()) return;
  const std::scoped_lock lock(mutex_);
  if (sink_) {
    sink_(text);
    return;
  }
  std::fwrite(text.data(), 1, text.size(), stdout);
  std::fflush(stdout);
}

int PrintBuffer::vprintf(const MemoryReader& read, std::uint64_t format, std::uint64_t arguments) {
  const FormattedPrint formatted = format_print(read, format, arguments);
  append(formatted.text);
  return formatted.result;
}

void PrintBuffer::append(std::string_view text) {
  std::string full;
  {
    const std::scoped_lock lock(mutex_);
    text_ += text;
    if (text_.size() < kFlushBytes) return;
    full.swap(text_);
  }
  output_->write(full);
}

void PrintBuffer::flush() {
  std::string rest;
  {
    const std::scoped_lock lock(mutex_);
    rest.swap(text_);
  }
  output_->write(rest);
}

}  // namespace pergola::device::cpu
