// The command line of `pergola run`.
#include <unistd.h>

#include <charconv>
#include <cstdlib>
#include <limits>
#include <map>

#include "src/base/file.h"
#include "tools/pergola/commands.h"
#include "tools/pergola/run.h"

namespace pergola::tool {
namespace {

constexpr const char* kArgumentHelp = R"(
Arguments, in the kernel's order, one --arg each (or --buffer, --scalar):
  i32:5 u64:0xff f32:1.5 f32:0f3FC00000 f16:1 bool:true   a number; types i8 u8 i16 u16 i32 u32 i64 u64 f16 bf16 f32 f64
  null                                                    a null pointer
  hex:00ff0102, bytes:FILE                                a struct by value
  @x.npy, raw:f32:x.bin                                   an array from a file
  zeros:f32:1024, fill:f32:64x64:1.5, iota:i32:1024       an array made here, by count or shape
  same:2                                                  the array of argument 2 (counted from 0) again
An array with '>FILE' behind it is written there after the run: .npy where FILE ends so, else raw bytes.

Examples:
  pergola run saxpy.cu --for-each 1000 --arg f32:2 --arg fill:f32:1000:1 --arg 'zeros:f32:1000>y.npy' --arg i32:1000
  pergola run blur.cu --kernel blur --grid 32,32 --block 16,16 --arg @photo.npy --arg 'zeros:f32:512x512>out.npy'
  pergola run --ptx case.ptx --entry test --grid 1 --block 32 --buffer in.bin --buffer zero:128:out.bin --scalar u32:5

Exit codes: 0 done; 1 wrong command line; 2 a file, the source or an argument was refused; 3 no such device or compiler;
4 the kernel failed or --timeout was over; 5 the device cannot run it; 6 out of memory; 70 a bug.)";

// A number of seconds that a clock can count: not negative, not nan, not beyond a hundred years.
const CLI::Validator kSeconds(
    [](std::string& text) -> std::string {
      char* end = nullptr;
      const double seconds = std::strtod(text.c_str(), &end);
      if (!text.empty() && *end == '\0' && seconds >= 0 && seconds <= 3.2e9) return {};
      return fmt::format("'{}' should be a number of seconds from 0 to 3.2e9", text);
    },
    "SECONDS");

// A whole number in decimal, or as 0x...: CLI11 alone takes -4 for 2^64 - 4, 010 for 8, and what is too large for the
// most.
template <typename T>
CLI::Validator whole_number(T least = 0, T most = std::numeric_limits<T>::max()) {
  return {[least, most](std::string& text) -> std::string {
            const bool hex = text.starts_with("0x") || text.starts_with("0X");
            const char* const begin = text.data() + (hex ? 2 : 0);
            const char* const end = text.data() + text.size();
            T value = 0;
            const auto [rest, error] = std::from_chars(begin, end, value, hex ? 16 : 10);
            if (begin == end || error != std::errc() || rest != end || value < least || value > most)
              return fmt::format("'{}' should be a whole number from {} to {}", text, least, most);
            text = fmt::format("{}", value);
            return {};
          },
          ""};
}

struct RunOptions {
  RunRequest request;
  std::string ptx, entry;
  std::vector<std::string> arguments, buffers, scalars;
};

// --arg, --buffer and --scalar in the order in which they were given.
Result<std::vector<ArgumentSpec>> in_order(const CLI::App& command, const RunOptions& options) {
  std::vector<ArgumentSpec> specs;
  std::map<const CLI::Option*, std::size_t> next;
  for (const CLI::Option* option : command.parse_order()) {
    const std::string name = option->get_name();
    const std::vector<std::string>* texts = name == "--arg"      ? &options.arguments
                                            : name == "--buffer" ? &options.buffers
                                            : name == "--scalar" ? &options.scalars
                                                                 : nullptr;
    if (texts == nullptr) continue;
    const std::size_t index = next[option]++;
    if (index >= texts->size()) continue;
    Result<ArgumentSpec> spec = name == "--buffer" ? parse_buffer((*texts)[index]) : parse_argument((*texts)[index]);
    if (!spec.ok()) return spec.status();
    if (name == "--scalar" && !std::holds_alternative<session::Number>(*spec))
      return PERGOLA_ERROR(kInvalidArgument, "--scalar takes a number like u32:5; it is '{}'.", (*texts)[index]);
    specs.push_back(std::move(*spec));
  }
  return specs;
}

Status run(const CLI::App& command, RunOptions& options, Console& console) {
  RunRequest& request = options.request;
  if (!options.ptx.empty()) {
    request.file = options.ptx;
    request.load.language = session::Language::kPtx;
  }
  if (!options.entry.empty()) request.kernel = options.entry;
  PERGOLA_ASSIGN(request.arguments, in_order(command, options));
  bool to_standard_output = false;
  for (const ArgumentSpec& argument : request.arguments)
    if (const auto* array = std::get_if<ArraySpec>(&argument); array != nullptr && !array->output.empty()) {
      PERGOLA_ASSIGN(const bool is_output, console.is_output(array->output));
      to_standard_output = to_standard_output || is_output;
    }
  PERGOLA_ASSIGN(const RunReport report, run_kernel(request));
  return console.result_beside(to_standard_output, report.json, report.text);
}

}  // namespace

void add_run_command(CLI::App& app, Console& console) {
  CLI::App* command = app.add_subcommand("run", "Run one kernel of a .cu or .ptx file");
  auto options = std::make_shared<RunOptions>();
  RunRequest& request = options->request;
  command->footer(kArgumentHelp);
  auto* file = command->add_option("file", request.file, "CUDA C++ or PTX");
  auto* ptx = command->add_option("--ptx", options->ptx, "A PTX file, whatever its name and beginning")->excludes(file);
  auto* kernel = command->add_option("--kernel,-k", request.kernel, "Its name; not needed where there is only one");
  command->add_option("--entry", options->entry, "The same as --kernel")->excludes(kernel);
  auto* grid = command->add_option("--grid,-g", request.grid, "Blocks: X[,Y[,Z]]");
  auto* block = command->add_option("--block,-b", request.block, "Threads of a block: X[,Y[,Z]]");
  auto* for_each =
      command->add_option("--for-each,-n", request.for_each, "At least so many threads, instead of a shape")
          ->transform(whole_number<std::uint64_t>());
  for_each->excludes(grid)->excludes(block);
  command->add_option("--shared", request.shared_bytes, "Dynamic shared memory in bytes")
      ->transform(whole_number<std::uint32_t>());
  command->add_flag("--cooperative", request.cooperative, "All blocks resident at once, or refused");
  command->add_flag("--check", request.check,
                    "On the CPU device, where races and uninitialised reads of shared memory fail too");
  const auto repeated = [command](const char* name, std::vector<std::string>& values, const char* help) {
    return command->add_option(name, values, help)->allow_extra_args(false)->type_name("ARGUMENT");
  };
  repeated("--arg,-a", options->arguments, "The next argument (below)");
  repeated("--buffer", options->buffers, "The next argument: raw bytes, IN[:OUT] or zero:BYTES[:OUT]");
  repeated("--scalar", options->scalars, "The next argument: a number, u32:5");
  command->add_option("--device,-d", request.device, "cpu, cuda:N, null; else what PERGOLA_DEVICE says");
  command->add_option("--repeat", request.repeat, "Launch so many times")
      ->transform(whole_number<std::uint32_t>(1, 1000000));
  command->add_option("--timeout", request.timeout_seconds, "Give up after so many seconds")->check(kSeconds);
  command->add_option("--show", request.show, "Print the first so many elements of each array")
      ->transform(whole_number<std::uint32_t>());
  command->add_option("--flag", request.load.compiler_flags, "For the compiler: --flag=-DN=4")->allow_extra_args(false);
  command->add_flag("--json", console.json, "One JSON object on standard output");
  command->callback([command, options, &console, file, ptx, grid, block, for_each] {
    if (file->count() + ptx->count() == 0) throw CLI::RequiredError("A FILE, or --ptx FILE,");
    if (for_each->count() == 0 && (grid->count() == 0 || block->count() == 0)) {
      // Of two mistakes the name is the first.
      const std::string& named = ptx->count() != 0 ? options->ptx : options->request.file;
      if (const Result<std::string> text = read_file(named); !text.ok()) return console.fail(text.status());
      throw CLI::RequiredError("--grid and --block, or --for-each,");
    }
    const Status status = run(*command, *options, console);
    if (status.ok()) return;
    console.fail(status);
    // A kernel that does not end would keep the process; nothing of ours is left to write.
    if (status.code() == Code::kTimeout) ::_exit(console.exit_code);
  });
}

}  // namespace pergola::tool
