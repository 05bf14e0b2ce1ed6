// `pergola compile`: CUDA C++ to PTX, on standard output or into a file.
#include <filesystem>

#include "src/base/file.h"
#include "src/source/source.h"
#include "tools/pergola/commands.h"

namespace pergola::tool {
namespace {

struct CompileOptions {
  std::string file, output, arch, compiler = "auto";
  std::vector<std::string> include_dirs, defines, flags;
  bool no_cache = false;
};

bool is_same_file(const std::string& a, const std::string& b) {
  std::error_code error;
  return std::filesystem::is_regular_file(a, error) && std::filesystem::equivalent(a, b, error);
}

Status compile(const CompileOptions& options, Console& console) {
  PERGOLA_ASSIGN(const bool to_standard_output, console.is_output(options.output));
  if (is_same_file(options.file, options.output))
    return PERGOLA_ERROR(kInvalidArgument, "'{}' is the source, which --output would replace: name another file.",
                         options.output);
  PERGOLA_ASSIGN(source::SourceRequest request, source::load_file(options.file));
  request.include_dirs = options.include_dirs;
  request.defines = options.defines;
  request.options = options.flags;
  request.use_cache = !options.no_cache;
  if (!options.arch.empty()) request.arch = options.arch;
  if (options.compiler == "nvrtc") request.compiler = source::Compiler::kNvrtc;
  if (options.compiler == "clang") request.compiler = source::Compiler::kClang;
  Result<source::CompiledSource> result = [&] {
    const Progress progress(fmt::format("compiling {}", options.file));
    return source::compile(request);
  }();
  if (!result.ok()) return result.status();
  const source::CompiledSource& compiled = *result;
  if (!compiled.log.empty()) fmt::print(stderr, "{}{}", compiled.log, compiled.log.ends_with('\n') ? "" : "\n");

  nlohmann::ordered_json json = {{"file", options.file},
                                 {"compiler", source::to_string(compiled.compiler)},
                                 {"compiler_version", compiled.compiler_version},
                                 {"cache_hit", compiled.cache_hit},
                                 {"log", compiled.log}};
  if (options.output.empty()) {
    json["ptx"] = compiled.ptx;
    return console.result(json, compiled.ptx);
  }
  PERGOLA_TRY(write_named_file(options.output, compiled.ptx));
  json["output"] = options.output;
  const std::string text = fmt::format("{} -> {} ({} bytes, {}{})\n", options.file, options.output, compiled.ptx.size(),
                                       compiled.compiler_version.empty() ? "PTX already" : compiled.compiler_version,
                                       compiled.cache_hit ? ", from the cache" : "");
  return console.result_beside(to_standard_output, json, text);
}

}  // namespace

void add_compile_command(CLI::App& app, Console& console) {
  CLI::App* command = app.add_subcommand("compile", "Compile CUDA C++ to PTX");
  auto options = std::make_shared<CompileOptions>();
  command->footer(
      "Examples:\n"
      "  pergola compile saxpy.cu\n"
      "  pergola compile saxpy.cu -o saxpy.ptx --arch sm_90 -D N=4 -I include\n"
      "  pergola compile saxpy.cu --compiler clang");
  command->add_option("file", options->file, "CUDA C++")->required();
  command->add_option("--output,-o", options->output, "Where the PTX goes; else standard output");
  command->add_option("--arch", options->arch, "sm_75, compute_90, sm_90a, ...");
  command->add_option("--compiler", options->compiler, "Which one")->check(CLI::IsMember({"auto", "nvrtc", "clang"}));
  command->add_option("--include,-I", options->include_dirs, "A folder of headers")->allow_extra_args(false);
  command->add_option("--define,-D", options->defines, "A macro: N=4")->allow_extra_args(false);
  command->add_option("--flag", options->flags, "For the compiler as it is: --flag=--use_fast_math")
      ->allow_extra_args(false);
  command->add_flag("--no-cache", options->no_cache, "Neither read nor write the cache on disk");
  command->add_flag("--json", console.json, "One JSON object on standard output");
  command->callback([options, &console] {
    const Status status = compile(*options, console);
    if (!status.ok()) console.fail(status);
  });
}

}  // namespace pergola::tool
