#include "tools/pergola/launch_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cstring>
#include <span>

#include "src/base/plural.h"
#include "src/device/types.h"

namespace pergola::tool {
namespace {

// No address has more bits than this; the analysis counts in signed numbers of 64.
constexpr std::uint64_t kMostArrayBytes = std::uint64_t{1} << 48;
constexpr std::uint64_t kMostSharedBytes = std::uint64_t{227} << 10;  // of a block, on any GPU

bool is_name(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_' || c == '$' || c == '.';
}

class Parser {
 public:
  explicit Parser(std::string_view text) : text_(text) {}

  Result<LaunchText> run() {
    LaunchText launch;
    launch.kernel = name();
    if (launch.kernel.empty()) return wrong("a kernel's name");
    if (!take('[')) return wrong("`[grid, block]`");
    if (!dimensions(launch.grid)) return wrong("a grid such as 4, 4x2 or (4,2,1)");
    if (!take(',')) return wrong("`, block]`");
    if (!dimensions(launch.block)) return wrong("a block such as 256 or 16x16");
    if (take(',') && !bytes(launch.shared_bytes)) return wrong("the bytes of dynamic shared memory, such as 4K");
    if (!take(']')) return wrong("`]`");
    if (!take('(')) return wrong("`(arguments)`");
    if (!take(')')) {
      do {
        LaunchText::Argument argument;
        if (!this->argument(argument)) return wrong("an array such as x:4096, or a number");
        launch.arguments.push_back(std::move(argument));
      } while (take(','));
      if (!take(')')) return wrong("`,` or `)`");
    }
    skip();
    if (at_ != text_.size()) return wrong("the end");
    return launch;
  }

 private:
  Error wrong(std::string_view wanted) {
    skip();
    return PERGOLA_ERROR(kInvalidArgument,
                         "{} is wanted at character {} of the launch '{}'; write it as add[4, 256](x:4096, 1024)",
                         wanted, at_ + 1, text_);
  }
  void skip() {
    while (at_ < text_.size() && text_[at_] == ' ') ++at_;
  }
  bool take(char c) {
    skip();
    if (at_ >= text_.size() || text_[at_] != c) return false;
    ++at_;
    return true;
  }
  std::string name() {
    skip();
    const std::size_t begin = at_;
    while (at_ < text_.size() && is_name(text_[at_])) ++at_;
    return std::string(text_.substr(begin, at_ - begin));
  }
  template <typename Number>
  bool number(Number& value) {
    skip();
    const auto [end, error] = std::from_chars(text_.data() + at_, text_.data() + text_.size(), value);
    if (error != std::errc()) return false;
    at_ = static_cast<std::size_t>(end - text_.data());
    return true;
  }
  bool dimensions(std::uint32_t (&sizes)[3]) {
    const bool is_tuple = take('(');
    for (int axis = 0; axis < 3; ++axis) {
      if (!number(sizes[axis])) return false;
      if (!(axis < 2 && take(is_tuple ? ',' : 'x'))) break;
    }
    return !is_tuple || take(')');
  }
  bool argument(LaunchText::Argument& argument) {
    skip();
    if (at_ >= text_.size()) return false;
    if (std::isalpha(static_cast<unsigned char>(text_[at_])) == 0 && text_[at_] != '_') {
      const std::size_t begin = at_;
      while (at_ < text_.size() && (is_name(text_[at_]) || text_[at_] == '-' || text_[at_] == '+')) ++at_;
      argument.number = text_.substr(begin, at_ - begin);
      return !argument.number.empty();
    }
    argument.array = name();
    for (bool has_offset = false;;) {  // a size and an offset, in either order
      if (!argument.bytes && take(':')) {
        std::uint64_t bytes = 0;
        if (!this->bytes(bytes)) return false;
        argument.bytes = bytes;
      } else if (!has_offset && take('+')) {
        has_offset = true;
        if (!bytes(argument.offset_bytes)) return false;
      } else {
        return true;
      }
    }
  }
  // 4096, 4K, 1M, 2G, 1T: what has more than 64 bits is the most there is, which is too much for whoever asks.
  bool bytes(std::uint64_t& value) {
    skip();
    const auto [end, error] = std::from_chars(text_.data() + at_, text_.data() + text_.size(), value);
    if (error == std::errc::invalid_argument) return false;
    if (error == std::errc::result_out_of_range) value = ~std::uint64_t{0};
    at_ = static_cast<std::size_t>(end - text_.data());
    for (const auto& [unit, shift] : {std::pair('K', 10), std::pair('M', 20), std::pair('G', 30), std::pair('T', 40)}) {
      if (!take(unit)) continue;
      value = value >> (64 - shift) != 0 ? ~std::uint64_t{0} : value << shift;
      break;
    }
    return at_ >= text_.size() || !is_name(text_[at_]);
  }

  std::string_view text_;
  std::size_t at_ = 0;
};

template <typename Number>
bool store_number(const std::string& text, std::span<std::byte> into) {
  Number value{};
  const char* begin = text.data() + (text.starts_with('+') ? 1 : 0);
  const auto [end, error] = std::from_chars(begin, text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return false;
  std::memcpy(into.data(), &value, sizeof value);
  return true;
}

bool store(const std::string& text, ptx::Type type, std::span<std::byte> into) {
  if (type == ptx::Type::kF32) return store_number<float>(text, into);
  if (type == ptx::Type::kF64) return store_number<double>(text, into);
  if (ptx::is_float(type)) return false;
  std::int64_t value = 0;
  std::byte bytes[8];
  if (into.size() > 8 || !store_number<std::int64_t>(text, bytes)) return false;
  std::memcpy(&value, bytes, 8);
  std::memcpy(into.data(), bytes, into.size());
  const auto bits = static_cast<unsigned>(8 * into.size());
  return bits == 64 || (value >= -(std::int64_t{1} << (bits - 1)) && value < (std::int64_t{1} << bits));
}

}  // namespace

Result<LaunchText> parse_launch(std::string_view text) {
  return Parser(text).run();
}

std::string_view ArrayNames::name(analysis::AllocationId number) const {
  for (const auto& [name, array] : arrays) {
    if (array.number == number) return name;
  }
  return "a variable of the module";
}

Result<analysis::LaunchValues> launch_values(const LaunchText& launch, const ptx::KernelSignature& signature,
                                             ArrayNames& arrays) {
  if (launch.arguments.size() != signature.parameters.size()) {
    return PERGOLA_ERROR(kInvalidArgument, "'{}' has {}, and its launch gives {}", launch.kernel,
                         plural(signature.parameters.size(), "parameter"), launch.arguments.size());
  }
  if (launch.shared_bytes > kMostSharedBytes)
    return PERGOLA_ERROR(kInvalidArgument, "no device gives a block of '{}' {} bytes of shared memory: at most {}",
                         launch.kernel, launch.shared_bytes, kMostSharedBytes);
  const device::DeviceInfo most;
  const std::uint32_t most_grid[3] = {most.max_grid.x, most.max_grid.y, most.max_grid.z};
  const std::uint32_t most_block[3] = {most.max_block.x, most.max_block.y, most.max_block.z};
  std::uint64_t threads = 1;
  for (int axis = 0; axis < 3; ++axis) {
    threads *= std::min(launch.block[axis], most_block[axis]);
    if (launch.grid[axis] >= 1 && launch.grid[axis] <= most_grid[axis] && launch.block[axis] >= 1 &&
        launch.block[axis] <= most_block[axis] && threads <= most.max_threads_per_block)
      continue;
    return PERGOLA_ERROR(
        kInvalidArgument,
        "no device has '{}' in a grid of {}x{}x{} blocks of {}x{}x{} threads: at most {}x{}x{} blocks, "
        "and {}x{}x{} threads, {} in all",
        launch.kernel, launch.grid[0], launch.grid[1], launch.grid[2], launch.block[0], launch.block[1],
        launch.block[2], most_grid[0], most_grid[1], most_grid[2], most_block[0], most_block[1], most_block[2],
        most.max_threads_per_block);
  }
  analysis::LaunchValues values;
  std::copy_n(launch.grid, 3, values.grid);
  std::copy_n(launch.block, 3, values.block);
  values.parameters.resize(signature.parameter_bytes);
  for (std::size_t i = 0; i < launch.arguments.size(); ++i) {
    const ptx::Parameter& parameter = signature.parameters[i];
    const LaunchText::Argument& argument = launch.arguments[i];
    if (argument.array.empty()) {
      const std::span<std::byte> place(values.parameters.data() + parameter.offset_bytes, parameter.size_bytes);
      if (!parameter.is_aggregate && store(argument.number, parameter.type, place)) continue;
      return PERGOLA_ERROR(kInvalidArgument, "'{}' is no value of parameter {} of '{}', which is .{}", argument.number,
                           i, launch.kernel, ptx::spelling(parameter.type));
    }
    const auto found = arrays.arrays.find(argument.array);
    if (found == arrays.arrays.end() && !argument.bytes) {
      return PERGOLA_ERROR(kInvalidArgument, "the array '{}' has no size; write {}:BYTES where it is first named",
                           argument.array, argument.array);
    }
    if (argument.bytes.value_or(0) > kMostArrayBytes) {
      return PERGOLA_ERROR(kInvalidArgument, "the array '{}' has {} bytes; an array has at most 256T, which is {}",
                           argument.array, *argument.bytes, kMostArrayBytes);
    }
    if (found != arrays.arrays.end() && argument.bytes && *argument.bytes != found->second.bytes) {
      return PERGOLA_ERROR(kInvalidArgument, "the array '{}' has {} in one place and {} in another", argument.array,
                           plural(found->second.bytes, "byte"), *argument.bytes);
    }
    if (parameter.size_bytes != 8 || parameter.is_aggregate) {
      return PERGOLA_ERROR(kInvalidArgument, "parameter {} of '{}' has {} and takes no array", i, launch.kernel,
                           plural(parameter.size_bytes, "byte"));
    }
    const auto number = static_cast<analysis::AllocationId>(arrays.arrays.size());
    const auto& array =
        arrays.arrays.try_emplace(argument.array, ArrayNames::Array{number, argument.bytes.value_or(0)}).first->second;
    if (argument.offset_bytes > array.bytes)
      return PERGOLA_ERROR(kInvalidArgument, "'{}+{}' is behind the array, which has {}: the offset is in bytes",
                           argument.array, argument.offset_bytes, plural(array.bytes, "byte"));
    values.pointers.push_back(
        {parameter.offset_bytes, array.number, static_cast<std::int64_t>(argument.offset_bytes), array.bytes});
  }
  return values;
}

}  // namespace pergola::tool
