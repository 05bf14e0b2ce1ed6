#include "src/base/environment.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <string>

namespace pergola {

std::optional<std::string_view> setting(const char* name) {
  const char* const text = std::getenv(name);
  if (text == nullptr || *text == '\0') return std::nullopt;
  return text;
}

Result<std::optional<std::uint64_t>> number_setting(const char* name, std::uint64_t least, std::uint64_t most,
                                                    std::string_view unit) {
  const std::optional<std::string_view> text = setting(name);
  if (!text) return std::optional<std::uint64_t>();
  std::uint64_t value = 0;
  const char* const end = text->data() + text->size();
  const auto [rest, error] = std::from_chars(text->data(), end, value);
  if (error != std::errc() || rest != end || value < least || value > most)
    return PERGOLA_ERROR(kInvalidArgument, "{} is '{}'; it can be a number {}{}from {} to {}.", name, *text,
                         unit.empty() ? "" : "of ", unit.empty() ? "" : fmt::format("{} ", unit), least, most);
  return std::optional(value);
}

Result<std::optional<std::size_t>> choice_setting(const char* name, std::initializer_list<std::string_view> choices) {
  const std::optional<std::string_view> text = setting(name);
  if (!text) return std::optional<std::size_t>();
  const auto found = std::find(choices.begin(), choices.end(), *text);
  if (found != choices.end()) return std::optional(static_cast<std::size_t>(found - choices.begin()));
  std::string all;
  for (const std::string_view& choice : choices) {
    if (!all.empty()) all += &choice == choices.end() - 1 ? " or " : ", ";
    all += fmt::format("'{}'", choice);
  }
  return PERGOLA_ERROR(kInvalidArgument, "{} is '{}'; it can be {}.", name, *text, all);
}

}  // namespace pergola
