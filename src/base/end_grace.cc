#include "src/base/end_grace.h"

#include <charconv>
#include <cstdint>
#include <cstdlib>
#include <string_view>

namespace pergola {

Result<std::chrono::milliseconds> end_grace_from_environment() {
  constexpr std::uint32_t kMostMs = 1'000'000'000;
  const char* given = std::getenv("PERGOLA_END_GRACE_MS");
  if (given == nullptr || *given == '\0') return kEndGrace;
  const std::string_view text(given);
  std::uint32_t ms = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), ms);
  if (error != std::errc() || end != text.data() + text.size() || ms == 0 || ms > kMostMs)
    return PERGOLA_ERROR(kInvalidArgument,
                         "PERGOLA_END_GRACE_MS is '{}'; it can be a number of milliseconds from 1 to {}.", text,
                         kMostMs);
  return std::chrono::milliseconds(ms);
}

}  // namespace pergola
