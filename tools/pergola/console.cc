#include "tools/pergola/console.h"

#include <unistd.h>

#include <chrono>
#include <cstdio>

namespace pergola::tool {

ExitCode exit_code_of(Code code) {
  switch (code) {
    case Code::kOk: return kExitOk;
    case Code::kInvalidArgument:
    case Code::kNotFound:
    case Code::kParseError:
    case Code::kCompileError:
    case Code::kFailedPrecondition:
    case Code::kIo: return kExitInput;
    case Code::kUnavailable: return kExitUnavailable;
    case Code::kDeviceFault:
    case Code::kDeviceLost:
    case Code::kSkipped:
    case Code::kCallFailed:
    case Code::kTimeout: return kExitFault;
    case Code::kUnsupported: return kExitUnsupported;
    case Code::kResourceExhausted: return kExitResources;
    case Code::kInternal: return kExitInternal;
  }
  return kExitInternal;
}

Console::~Console() {
  if (json_output_ != nullptr) std::fclose(json_output_);
}

void Console::keep_output_for_json() {
  std::fflush(stdout);
  const int kept = ::dup(STDOUT_FILENO);
  if (kept < 0) return;
  json_output_ = ::fdopen(kept, "w");
  if (json_output_ == nullptr) {
    ::close(kept);
  } else {
    ::dup2(STDERR_FILENO, STDOUT_FILENO);
  }
}

// Text from files may be no UTF-8; a machine still gets valid JSON.
void Console::print(const nlohmann::ordered_json& value) const {
  std::FILE* out = json_output_ != nullptr ? json_output_ : stdout;
  fmt::print(out, "{}\n", value.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace));
  std::fflush(out);
}

void Console::result(const nlohmann::ordered_json& value, std::string_view text) const {
  if (json) return print(value);
  fmt::print("{}", text);
  std::fflush(stdout);
}

void Console::fail(const Status& status, ExitCode code) {
  exit_code = code;
  if (json) {
    print({{"error", {{"code", code_name(status.code())}, {"message", status.message()}}}, {"exit_code", exit_code}});
  }
  fmt::print(stderr, "pergola: {}: {}\n", code_name(status.code()), status.message());
}

Progress::Progress(std::string what) : what_(std::move(what)), thread_([this] { run(); }) {}

Progress::~Progress() {
  {
    const std::lock_guard lock(mutex_);
    stopped_ = true;
  }
  stop_.notify_all();
  thread_.join();
}

void Progress::run() {
  const auto start = std::chrono::steady_clock::now();
  const bool terminal = ::isatty(STDERR_FILENO) != 0;
  std::unique_lock lock(mutex_);
  auto next = start + std::chrono::seconds(2);
  bool shown = false;
  while (!stop_.wait_until(lock, next, [this] { return stopped_; })) {
    const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(std::chrono::steady_clock::now() - start);
    if (terminal) fmt::print(stderr, "\rpergola: {}, {} s ", what_, seconds.count());
    else if (!shown) fmt::print(stderr, "pergola: {} ...\n", what_);
    std::fflush(stderr);
    shown = true;
    next += std::chrono::seconds(1);
  }
  if (shown && terminal) fmt::print(stderr, "\n");
}

}  // namespace pergola::tool
