// The command lines of `pergola doctor` and `pergola version`.
#include <pergola/pergola.h>

#include "tools/pergola/commands.h"
#include "tools/pergola/doctor.h"

namespace pergola::tool {

void add_doctor_command(CLI::App& app, Console& console) {
  CLI::App* command = app.add_subcommand("doctor", "Say what this machine has, what is missing, and the mend");
  command->footer(
      "Examples:\n"
      "  pergola doctor\n"
      "  PERGOLA_DEVICE=cuda:1 pergola doctor && ./program\n"
      "  pergola doctor --json | jq .findings\n"
      "Exit codes: 0 where some device runs kernels (where PERGOLA_DEVICE is set: that one), else 3.");
  command->add_flag("--json", console.json, "One JSON object on standard output");
  command->callback([&console] {
    const Diagnosis diagnosis = [] {
      const Progress progress("looking at the machine");
      return diagnose();
    }();
    if (const Status told = console.result(to_json(diagnosis), to_text(diagnosis)); !told.ok())
      console.fail(told);
    else if (!diagnosis.can_run)
      console.exit_code = kExitUnavailable;
  });
}

void add_version_command(CLI::App& app, Console& console) {
  CLI::App* command = app.add_subcommand("version", "Print the version");
  command->footer("Examples:\n  pergola version\n  pergola version --json | jq -r .version");
  command->add_flag("--json", console.json, "One JSON object on standard output");
  command->callback([&console] {
    constexpr unsigned kMajor = PERGOLA_API_VERSION >> 16, kMinor = PERGOLA_API_VERSION & 0xffff;
    const Status told =
        console.result({{"version", PERGOLA_VERSION}, {"api", fmt::format("{}.{}", kMajor, kMinor)}},
                       fmt::format("pergola {} (C interface {}.{})\n", PERGOLA_VERSION, kMajor, kMinor));
    if (!told.ok()) console.fail(told);
  });
}

}  // namespace pergola::tool
