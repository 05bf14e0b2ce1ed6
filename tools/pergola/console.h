// How every command of `pergola` speaks: results on standard output, as text or (--json) as one JSON object; errors,
// where they are no JSON, and progress on standard error; and the exit codes.
#pragma once

#include <condition_variable>
#include <cstdio>
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
  kExitUsage = 1,  // the command line is wrong
  kExitInput = 2,  // a file is missing, malformed or cannot be written, a compiler refused it, an argument does not fit
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
  // What is said goes to these, which outlive it.
  explicit Console(std::FILE* output = stdout, std::FILE* errors = stderr) : output_(output), errors_(errors) {}
  ~Console();
  Console(const Console&) = delete;
  Console& operator=(const Console&) = delete;

  // Keeps standard output for the one JSON object: whatever else is written there from now on, by a kernel's printf
  // for one, goes to standard error. Called once, before anything is written.
  void keep_output_for_json();

  bool json = false;  // --json
  int exit_code = kExitOk;

  // The command's result: `text` for people, `value` for machines. kIo where standard output cannot be written: the
  // disk is full, or it was closed.
  Status result(const nlohmann::ordered_json& value, std::string_view text) const;
  // Whether `file`, which a command is about to write, is standard output, by whatever name; kInvalidArgument where
  // that is for the JSON. Asked before, as a file that it was sent to is replaced.
  Result<bool> is_output(const std::string& file) const;
  // The same as result(), where the command has written to standard output already: for people on standard error.
  Status result_beside(bool wrote_output, const nlohmann::ordered_json& value, std::string_view text) const;
  // What is text in any case: --help.
  Status text(std::string_view text) const;
  // Reports it, once, and sets the exit code: the status's own, or the one given.
  void fail(const Status& status) { fail(status, exit_code_of(status.code())); }
  void fail(const Status& status, ExitCode code);

 private:
  Status print(const nlohmann::ordered_json& value) const;
  std::FILE* output_;
  std::FILE* errors_;
  std::FILE* json_output_ = nullptr;  // owned; null: it is output_
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
