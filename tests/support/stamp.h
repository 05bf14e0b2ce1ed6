// What a report says of its run: when, and of which commit.
#pragma once

#include <cstdlib>
#include <ctime>
#include <string>

namespace pergola::test_support {

// 2026-01-31T12:00:00Z
inline std::string now_utc() {
  const std::time_t now = std::time(nullptr);
  std::tm parts{};
  gmtime_r(&now, &parts);
  char text[32];
  std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &parts);
  return text;
}

// $PERGOLA_COMMIT, set by whoever runs a built program away from its checkout; else "unknown".
inline std::string commit() {
  const char* commit = std::getenv("PERGOLA_COMMIT");
  return commit == nullptr ? "unknown" : commit;
}

}  // namespace pergola::test_support
