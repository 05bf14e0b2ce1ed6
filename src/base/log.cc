#include "src/base/log.h"

#include <spdlog/sinks/stdout_color_sinks.h>
#include <spdlog/spdlog.h>

#include <cstdlib>
#include <string_view>

namespace pergola {
namespace {

spdlog::level::level_enum to_spdlog(LogLevel level) {
  switch (level) {
    case LogLevel::kDebug: return spdlog::level::debug;
    case LogLevel::kInfo: return spdlog::level::info;
    case LogLevel::kWarn: return spdlog::level::warn;
    case LogLevel::kError: return spdlog::level::err;
  }
  return spdlog::level::err;
}

spdlog::logger& logger() {
  // Never destroyed: static destructors that end queues may still log.
  static spdlog::logger* const instance = [] {
    auto* const made = new spdlog::logger("pergola", std::make_shared<spdlog::sinks::stderr_color_sink_mt>());
    made->set_pattern("%Y-%m-%d %H:%M:%S.%e %n %^%l%$: %v");
    const char* level = std::getenv("PERGOLA_LOG");
    made->set_level(level == nullptr ? spdlog::level::warn : spdlog::level::from_str(level));
    return made;
  }();
  return *instance;
}

}  // namespace

bool log_enabled(LogLevel level) { return logger().should_log(to_spdlog(level)); }
void log_message(LogLevel level, const std::string& message) { logger().log(to_spdlog(level), message); }

}  // namespace pergola
