// A program run to its end, its output captured. No shell: arguments are handed over one by one.
#pragma once

#include <chrono>
#include <string>
#include <vector>

#include "src/base/result.h"

namespace pergola::source {

struct ChildResult {
  int exit_code = 0;   // 128 + signal where one ended it
  std::string output;  // standard output and error together, the first MiB
};

// Runs arguments[0] (a path) with nothing on its standard input, in a process group of its own, with `environment`
// ("NAME=value") as its environment. kTimeout after `limit`, when the whole group has been killed; kUnavailable where
// it cannot be started. Thread-safe.
Result<ChildResult> run_child(const std::vector<std::string>& arguments, const std::vector<std::string>& environment,
                              std::chrono::milliseconds limit);

}  // namespace pergola::source
