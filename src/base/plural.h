// Numbers of things in texts that people read: "1 launch", "2 launches".
#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <string>
#include <string_view>

namespace pergola {

// The number and what it counts: `one` of it, else `many`; with what follows where that differs too ("is", "are").
inline std::string plural(std::uint64_t count, std::string_view one, std::string_view many) {
  return fmt::format("{} {}", count, count == 1 ? one : many);
}

// The same by the rule: "bytes", "launches", "copies".
inline std::string plural(std::uint64_t count, std::string_view one) {
  if (count == 1) return fmt::format("1 {}", one);
  if (one.ends_with("ch")) return fmt::format("{} {}es", count, one);
  if (one.ends_with("py")) return fmt::format("{} {}ies", count, one.substr(0, one.size() - 1));
  return fmt::format("{} {}s", count, one);
}

// The same for fmt::format(), which writes it where the text is made: for texts that mostly are not.
struct Plural {
  std::uint64_t count = 0;
  std::string_view one;
};

}  // namespace pergola

template <>
struct fmt::formatter<pergola::Plural> : fmt::formatter<std::string_view> {
  template <typename Context>
  auto format(const pergola::Plural& of, Context& context) const {
    return fmt::formatter<std::string_view>::format(pergola::plural(of.count, of.one), context);
  }
};
