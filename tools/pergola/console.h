// How every command of `pergola` speaks: results on standard output, as text or (--json) as one JSON object; errors and
// progress on standard error; and the exit codes.
#pragma once

#include <condition_variable>
#include <mutex>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <thread>

#include "src/base/result.h"

namespace pergola::tool {

// docs/cli.md lists them for users: append, never renumber.
enum ExitCode : int {
  kExitOk = 0,
  kExitUsage = 1,        // the command line is wrong
  kExitInput = 2,        // a file is missing or malformed, a compiler refused it, an argument does not fit
  kExitUnavailable = 3,  // a device, driver or compiler is not there
  kExitFault = 4,        // the kernel failed while running, or --timeout was over
  kExitUnsupported = 5,  // understood, and this device or version cannot do it
  kExitResources = 6,    // out of memory, shared memory, ...
  kExitInternal = 70,    // a bug of Pergola
};
ExitCode exit_code_of(Code code);

// Thread-compatible.
class Console {
 public:
  bool json = false;   // --json
  int exit_code = kExitOk;

  // The command's result: `text` for people, `value` for machines.
  void result(const nlohmann::ordered_json& value, std::string_view text) const;
  // Reports it and sets the exit code.
  void fail(const Status& status);
};

// What takes long says so: from 2 seconds on a line on standard error, renewed each second on a terminal.
class Progress {
 public:
  explicit Progress(std::string what);
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

 private:
  void run();

  const std::string what_;
  std::mutex mutex_;
  std::condition_variable stop_;
  bool stopped_ = false;  // guarded by mutex_
  std::thread thread_;
};

}  // namespace pergola::tool
