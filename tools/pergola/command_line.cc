#include "tools/pergola/command_line.h"

#include <algorithm>
#include <exception>
#include <sstream>
#include <system_error>
#include <utility>

#include "src/base/thread_shortage.h"
#include "tools/pergola/commands.h"
#include "tools/pergola/words.h"

namespace pergola::tool {
namespace {

constexpr const char* kFooter =
    "Environment:\n"
    "  PERGOLA_DEVICE=cpu|cuda:N|null        where kernels run; else the first GPU with a working driver, else cpu\n"
    "  PERGOLA_CPU_ENGINE=auto|vector|jit|interpreter\n"
    "  PERGOLA_TRACE=FILE  PERGOLA_HISTORY=FILE  record what runs: `pergola trace --help`\n"
    "  PERGOLA_TUNING=FILE                   which way of a graph was fastest, kept for the next run\n"
    "  PERGOLA_CACHE_DIR=FOLDER  PERGOLA_LOG=debug|info|warn|error|off\n"
    "`pergola COMMAND --help` and `pergola help COMMAND` show examples.";

std::vector<std::string> command_names(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::App* command : app.get_subcommands([](const CLI::App*) { return true; }))
    names.push_back(command->get_name());
  return names;
}

// Ok where it is one.
Status check_command(const CLI::App& app, const std::string& word) {
  const std::vector<std::string> names = command_names(app);
  const std::optional<std::string> nearest = nearest_name(word, names);
  if (nearest == word) return {};
  return PERGOLA_ERROR(kInvalidArgument,
                       "There is no command '{}'{} The commands are {}; `pergola --help` says what they do.", word,
                       nearest ? fmt::format("; did you mean '{}'?", *nearest) : ".", fmt::join(names, ", "));
}

// `--version` and `help [COMMAND]` as the words that do the same; refuses what stands where a command should and is
// none.
Result<std::vector<std::string>> understood(const CLI::App& app, std::vector<std::string> words) {
  const auto command =
      std::find_if(words.begin(), words.end(), [](const std::string& word) { return !word.starts_with('-'); });
  for (auto word = words.begin(); word != command; ++word) {
    if (*word == "--help" || *word == "-h") return std::vector<std::string>{"--help"};
    if (*word == "--version") {
      *word = "version";
      return words;
    }
    return PERGOLA_ERROR(kInvalidArgument,
                         "'{}' comes before a command, where only --help and --version have a meaning: "
                         "write `pergola COMMAND {}`.",
                         *word, *word);
  }
  if (command == words.end()) return words;
  PERGOLA_TRY(check_command(app, *command));
  if (*command != "help") return words;
  std::vector<std::string> asked(command + 1, words.end());
  std::erase(asked, "--json");
  if (asked.size() > 1)
    return PERGOLA_ERROR(kInvalidArgument, "`pergola help` takes one command; '{}' is a word too many.", asked[1]);
  if (!asked.empty() && !asked[0].starts_with('-')) PERGOLA_TRY(check_command(app, asked[0]));
  if (!asked.empty() && asked[0] == "help") asked.clear();
  if (asked.empty() || asked[0] != "--help") asked.emplace_back("--help");
  return asked;
}

void add_commands(CLI::App& app, Console& console) {
  app.name("pergola");
  app.require_subcommand(1);
  app.footer(kFooter);
  app.add_flag("--version")->description("Print the version");
  add_run_command(app, console);
  add_compile_command(app, console);
  add_analyze_command(app, console);
  add_doctor_command(app, console);
  add_trace_command(app, console);
  add_explain_command(app, console);
  add_history_command(app, console);
  add_tuning_command(app, console);
  add_version_command(app, console);
  app.add_subcommand("help", "Show a command's help: help COMMAND");
}

// Help is no error; what else CLI11 throws says what of the command line is wrong.
void answer(const CLI::App& app, const CLI::ParseError& error, Console& console) {
  std::ostringstream help, ignored;
  if (app.exit(error, help, ignored) == 0) {
    if (const Status told = console.text(help.str()); !told.ok()) console.fail(told);
    return;
  }
  console.fail(PERGOLA_ERROR(kInvalidArgument, "{}{}", error.what(),
                             console.json ? "" : "\nRun with --help for more information."),
               kExitUsage);
}

}  // namespace

int run_command_line(const std::vector<std::string>& words, Console& console) {
  // A command line may be wrong before its --json is read.
  console.json = std::find(words.begin(), words.end(), "--json") != words.end();
  CLI::App app{"Pergola runs GPU kernels: on an NVIDIA GPU, or without one on the CPU."};
  add_commands(app, console);
  Result<std::vector<std::string>> known = understood(app, words);
  if (!known.ok()) {
    console.fail(known.status(), kExitUsage);
    return console.exit_code;
  }
  try {
    std::vector<std::string> reversed(known->rbegin(), known->rend());  // as CLI11 takes them
    app.parse(std::move(reversed));
  } catch (const CLI::ParseError& error) {
    answer(app, error, console);
  } catch (const std::bad_alloc&) {
    console.fail(PERGOLA_ERROR(kResourceExhausted, "The host is out of memory."));
  } catch (const std::system_error& error) {
    console.fail(error_of(error));
  } catch (const std::exception& error) {
    console.fail(PERGOLA_ERROR(kInternal, "{}", error.what()));
  }
  return console.exit_code;
}

}  // namespace pergola::tool
