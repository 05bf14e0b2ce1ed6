// The commands of `pergola`: each adds itself to the command line and runs when it is chosen.
#pragma once

#include <CLI/CLI.hpp>

#include "tools/pergola/console.h"

namespace pergola::tool {

// `console` outlives `app`. A command leaves its exit code there.
void add_run_command(CLI::App& app, Console& console);
void add_compile_command(CLI::App& app, Console& console);
void add_analyze_command(CLI::App& app, Console& console);
void add_doctor_command(CLI::App& app, Console& console);
void add_trace_command(CLI::App& app, Console& console);
void add_explain_command(CLI::App& app, Console& console);
void add_history_command(CLI::App& app, Console& console);
void add_tuning_command(CLI::App& app, Console& console);
void add_version_command(CLI::App& app, Console& console);

}  // namespace pergola::tool
