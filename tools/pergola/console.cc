#include "tools/pergola/console.h"

#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstring>

namespace pergola::tool {

namespace {

bool is_null_device(const struct stat& file) {
  struct stat null{};
  return ::stat("/dev/null", &null) == 0 && S_ISCHR(file.st_mode) && file.st_rdev == null.st_rdev;
}

}  // namespace

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
  std::fflush(output_);
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
Status Console::print(const nlohmann::ordered_json& value) const {
  return text(value.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n");
}

// What a kernel's printf could not write before counts too.
Status Console::text(std::string_view text) const {
  std::FILE* out = json_output_ != nullptr ? json_output_ : output_;
  errno = 0;
  if (std::fwrite(text.data(), 1, text.size(), out) == text.size() && std::fflush(out) == 0 && std::ferror(out) == 0)
    return {};
  return PERGOLA_ERROR(kIo, "Standard output cannot be written{}{}.", errno != 0 ? ": " : "",
                       errno != 0 ? std::strerror(errno) : "");
}

Status Console::result(const nlohmann::ordered_json& value, std::string_view words) const {
  return json ? print(value) : text(words);
}

Result<bool> Console::is_output(const std::string& path) const {
  struct stat file{}, output{};
  const int kept = ::fileno(json_output_ != nullptr ? json_output_ : output_);
  // With --json standard output's number is standard error's (keep_output_for_json).
  const bool by_name = path == "/dev/stdout" || path == "/dev/fd/1" || path == "/proc/self/fd/1";
  const bool is_same = !path.empty() && ::stat(path.c_str(), &file) == 0 && ::fstat(kept, &output) == 0 &&
                       file.st_dev == output.st_dev && file.st_ino == output.st_ino && !is_null_device(output);
  if (json && (by_name || is_same))
    return PERGOLA_ERROR(kInvalidArgument, "'{}' is standard output, where --json writes too: name a file.", path);
  return by_name || is_same;
}

Status Console::result_beside(bool wrote_output, const nlohmann::ordered_json& value, std::string_view words) const {
  if (json || !wrote_output) return result(value, words);
  (void)std::fwrite(words.data(), 1, words.size(), errors_);
  return {};
}

void Console::fail(const Status& status, ExitCode code) {
  exit_code = code;
  const bool told = json && print({{"error", {{"code", code_name(status.code())}, {"message", status.message()}}},
                                   {"exit_code", exit_code}})
                                .ok();
  if (told) return;
  const std::string line = fmt::format("pergola: {}: {}\n", code_name(status.code()), status.message());
  (void)std::fwrite(line.data(), 1, line.size(), errors_);  // nowhere is left to say that this fails
  std::fflush(errors_);
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
    if (terminal)
      fmt::print(stderr, "\rpergola: {}, {} s ", what_, seconds.count());
    else if (!shown)
      fmt::print(stderr, "pergola: {} ...\n", what_);
    std::fflush(stderr);
    shown = true;
    next += std::chrono::seconds(1);
  }
  if (shown && terminal) fmt::print(stderr, "\n");
}

}  // namespace pergola::tool
