// The program `pergola`: its commands are in the folder above.
#include <algorithm>
#include <exception>
#include <string_view>

#include "tools/pergola/commands.h"

int main(int argc, char** argv) {
  using namespace pergola::tool;
  CLI::App app{"Pergola runs GPU kernels: on an NVIDIA GPU, or without one on the CPU."};
  app.name("pergola");
  app.require_subcommand(1);
  app.footer(
      "Environment:\n"
      "  PERGOLA_DEVICE=cpu|cuda:N|null        where kernels run; else the first GPU with a working driver, else cpu\n"
      "  PERGOLA_CPU_ENGINE=auto|vector|jit|interpreter\n"
      "  PERGOLA_TRACE=FILE  PERGOLA_HISTORY=FILE  record what runs: `pergola trace --help`\n"
      "  PERGOLA_CACHE_DIR=FOLDER  PERGOLA_LOG=debug|info|warn|error|off\n"
      "`pergola COMMAND --help` shows examples.");
  Console console;
  add_run_command(app, console);
  add_compile_command(app, console);
  add_analyze_command(app, console);
  add_doctor_command(app, console);
  add_trace_command(app, console);
  add_explain_command(app, console);
  add_history_command(app, console);
  add_version_command(app, console);
  const bool wants_json = std::find(argv, argv + argc, std::string_view("--json")) != argv + argc;
  if (wants_json) console.keep_output_for_json();
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    if (app.exit(error) == 0) return kExitOk;  // --help is no error
    if (wants_json) {
      console.json = true;
      console.fail(PERGOLA_ERROR(kInvalidArgument, "{}", error.what()), kExitUsage);
    }
    return kExitUsage;
  } catch (const std::bad_alloc&) {
    console.fail(PERGOLA_ERROR(kResourceExhausted, "The host is out of memory."));
  } catch (const std::exception& error) {
    console.fail(PERGOLA_ERROR(kInternal, "{}", error.what()));
  }
  return console.exit_code;
}
