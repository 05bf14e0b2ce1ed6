// main() of a benchmark: --small and --report PATH beside options of its own, failures as messages.
#pragma once

#include <CLI/CLI.hpp>
#include <functional>
#include <string>

#include "report.h"

namespace bench {

struct Options {
  bool small = false;  // sizes and runs that only show that the benchmark works
  std::string report;  // PATH of PATH.json and PATH.md, or empty
};

// Reads the command line by `app`, to which --small and --report are added, calls `body` and writes its report.
// What main() returns: 0 where every result was right, 1 where one was wrong or something failed, 2 for a wrong
// command line.
int run_main(CLI::App& app, int argc, char** argv, const std::function<Report(const Options&)>& body);

}  // namespace bench
