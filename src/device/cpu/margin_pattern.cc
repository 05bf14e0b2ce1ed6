#include "src/device/cpu/margin_pattern.h"

#include <fmt/format.h>

#include <array>
#include <cstdint>
#include <cstring>

#include "src/base/plural.h"

namespace pergola::device::cpu {
namespace {

// Bytes F5 at even addresses, FF at odd ones.
constexpr auto kPattern = [] {
  std::array<std::byte, 256 + 1> bytes{};
  for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = i % 2 == 0 ? std::byte{0xF5} : std::byte{0xFF};
  return bytes;
}();

const std::byte* pattern_at(const std::byte* address) {
  return &kPattern[reinterpret_cast<std::uintptr_t>(address) % 2];
}

struct Changed {
  std::size_t first, last;
};

// Which of `bytes` are no longer the pattern; some are not.
Changed changed(std::span<const std::byte> bytes) {
  const std::byte* pattern = pattern_at(bytes.data());
  const auto differs = [&](std::size_t i) { return bytes[i] != pattern[i]; };
  Changed found{0, bytes.size() - 1};
  while (!differs(found.first)) ++found.first;
  while (!differs(found.last)) --found.last;
  return found;
}

std::string from_to(std::size_t first, std::size_t last) {
  return first == last ? plural(first, "byte") : fmt::format("{} to {} bytes", first, last);
}

}  // namespace

void paint_margin(std::span<std::byte> margin) {
  std::memcpy(margin.data(), pattern_at(margin.data()), margin.size());
}

bool is_whole_margin(std::span<const std::byte> margin) {
  return std::memcmp(margin.data(), pattern_at(margin.data()), margin.size()) == 0;
}

std::string describe_change(std::span<const std::byte> margin) {
  const auto [first, last] = changed(margin);
  return fmt::format("bytes {} to {}", first, last);
}

std::string describe_margin_damage(const std::string& what, std::span<const std::byte> before,
                                   std::span<const std::byte> after) {
  if (!is_whole_margin(after)) {
    const auto [first, last] = changed(after);
    return fmt::format("{}, {} past its end", what, from_to(first, last));
  }
  if (is_whole_margin(before)) return {};
  const auto [first, last] = changed(before);
  return fmt::format("{}, {} before its start", what, from_to(before.size() - first, before.size() - last));
}

}  // namespace pergola::device::cpu
