// The command line of `pergola` as a whole: its commands, help, the version, and words that are none of them.
#pragma once

#include <string>
#include <vector>

#include "tools/pergola/console.h"

namespace pergola::tool {

// Runs what `words` (without the program's name) ask for, and gives the exit code; it is console.exit_code too.
int run_command_line(const std::vector<std::string>& words, Console& console);

}  // namespace pergola::tool
