// The log: spdlog behind four macros, so that no header pulls it in.
//
// PERGOLA_LOG=debug|info|warn|error|off sets the level (default warn); lines go to standard error. Thread-safe.
#pragma once

#include <fmt/format.h>

#include <string>

namespace pergola {

enum class LogLevel { kDebug, kInfo, kWarn, kError };
void log_message(LogLevel level, const std::string& message);
bool log_enabled(LogLevel level);

}  // namespace pergola

#define PERGOLA_LOG_(level, ...)                                               \
  do {                                                                         \
    if (::pergola::log_enabled(level)) ::pergola::log_message(level, ::fmt::format(__VA_ARGS__)); \
  } while (false)
#define PERGOLA_DEBUG(...) PERGOLA_LOG_(::pergola::LogLevel::kDebug, __VA_ARGS__)
#define PERGOLA_INFO(...) PERGOLA_LOG_(::pergola::LogLevel::kInfo, __VA_ARGS__)
#define PERGOLA_WARN(...) PERGOLA_LOG_(::pergola::LogLevel::kWarn, __VA_ARGS__)
