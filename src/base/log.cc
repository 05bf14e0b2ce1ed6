#include "src/base/log.h"

#include <spdlog/sinks/stdout_color_sinks.h>
#include <spdlog/spdlog.h>

#include <string_view>

#include "src/base/environment.h"

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
    const auto level = choice_setting("PERGOLA_LOG", {"debug", "info", "warn", "error", "off"});
    constexpr spdlog::level::level_enum kLevels[] = {spdlog::level::debug, spdlog::level::info, spdlog::level::warn,
                                                     spdlog::level::err, spdlog::level::off};
    made->set_level(level.ok() && *level ? kLevels[**level] : spdlog::level::warn);
    if (!level.ok()) made->warn("{} It is taken as 'warn'.", level.message());
    return made;
  }();
  return *instance;
}

}  // namespace

bool log_enabled(LogLevel level) { return logger().should_log(to_spdlog(level)); }
void log_message(LogLevel level, const std::string& message) { logger().log(to_spdlog(level), message); }

}  // namespace pergola
