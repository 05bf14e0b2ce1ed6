#include "src/base/end_grace.h"

#include "src/base/environment.h"

namespace pergola {

Result<std::chrono::milliseconds> end_grace_from_environment() {
  constexpr std::uint32_t kMostMs = 1'000'000'000;
  PERGOLA_ASSIGN(const auto ms, number_setting("PERGOLA_END_GRACE_MS", 1, kMostMs, "milliseconds"));
  return ms ? std::chrono::milliseconds(*ms) : kEndGrace;
}

}  // namespace pergola
