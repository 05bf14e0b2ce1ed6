// `pergola analyze`: what PTX tells of a file's kernels, and why.
#include <map>
#include <optional>

#include "src/analysis/resources.h"
#include "src/base/plural.h"
#include "src/device/cpu/cpu_device.h"
#include "src/device/cpu/interpreter/interpreter.h"
#include "src/ptx/parser.h"
#include "src/ptx/signature.h"
#include "src/ptx/verifier.h"
#include "src/runtime/describe.h"
#include "src/runtime/load.h"
#include "src/session/arguments.h"
#include "src/session/kernel_names.h"
#include "src/source/source.h"
#include "tools/pergola/analyze_blocks.h"
#include "tools/pergola/commands.h"

namespace pergola::tool {
namespace {

using Json = nlohmann::ordered_json;

struct AnalyzeOptions {
  std::string file, kernel, svg, device;
  std::vector<std::string> flags, launches;
  std::optional<std::uint32_t> blocks;
};

struct Report {
  Json json;
  std::string text;
};

Json parameter_json(const session::ParameterInfo& parameter) {
  return {{"name", parameter.name},
          {"type", parameter.type_name},
          {"kind", session::to_string(parameter.kind)},
          {"offset_bytes", parameter.offset_bytes},
          {"size_bytes", parameter.size_bytes},
          {"align_bytes", parameter.align_bytes},
          {"access", session::to_string(parameter.access)},
          {"reason", parameter.reason},
          {"is_sole_base", parameter.is_sole_base}};
}

void add_variables(const session::KernelInfo& kernel, Json& json, std::string& text) {
  json = Json::array();
  for (const session::VariableInfo& variable : kernel.variables) {
    json.push_back(
        {{"name", variable.name}, {"access", session::to_string(variable.access)}, {"reason", variable.reason}});
    text += fmt::format("  variable {}: {}: {}\n", variable.name, session::to_string(variable.access), variable.reason);
  }
}

// A bare .u64 that is all there is to an address: the caller may give a number, and then nobody knows whose it is.
void add_sole_bases(const session::KernelInfo& kernel, std::string& text) {
  std::vector<std::string> names;
  for (const session::ParameterInfo& parameter : kernel.parameters) {
    if (parameter.is_sole_base && parameter.kind != session::ParameterKind::kPointer) names.push_back(parameter.name);
  }
  if (names.empty()) return;
  text += fmt::format("  if a number is given for {}, any array may be accessed that way\n", fmt::join(names, " or "));
}

// What the kernel and all that it calls use, a line for what there is.
void add_resources(const analysis::Resources& uses, Json& json, std::string& text) {
  json = {{"static_shared_bytes", uses.static_shared_bytes},
          {"local_bytes", uses.local_bytes},
          {"virtual_registers",
           {{"predicate", uses.predicates},
            {"b16", uses.registers_16},
            {"b32", uses.registers_32},
            {"b64", uses.registers_64},
            {"b128", uses.registers_128}}},
          {"barriers", uses.barriers},
          {"has_dynamic_barrier", uses.has_dynamic_barrier},
          {"call_depth", uses.call_depth},
          {"externals", uses.externals},
          {"opaque", uses.opaque}};
  text += fmt::format("  local memory {}; virtual registers: {} of 32 bits, {} of 64, {} of 16, {}\n",
                      plural(uses.local_bytes, "byte"), uses.registers_32, uses.registers_64, uses.registers_16,
                      plural(uses.predicates, "predicate"));
  std::vector<std::string> found;
  const auto note = [&](const char* key, bool is, const char* words) {
    json[key] = is;
    if (is) found.emplace_back(words);
  };
  if (!uses.barriers.empty()) found.push_back(fmt::format("barriers {}", fmt::join(uses.barriers, ", ")));
  if (uses.has_dynamic_barrier) found.emplace_back("barriers by register");
  note("uses_cluster_barrier", uses.uses_cluster_barrier, "cluster barriers");
  note("uses_atomics", uses.uses_atomics, "atomics");
  note("uses_warp_operations", uses.uses_warp_operations, "warp operations");
  note("uses_grid_sync", uses.uses_grid_sync, "grid synchronisation");
  note("uses_printf", uses.uses_printf, "printf");
  note("uses_heap", uses.uses_heap, "malloc");
  note("uses_textures", uses.uses_textures, "textures");
  note("uses_async_copies", uses.uses_async_copies, "asynchronous copies");
  note("is_recursive", uses.is_recursive, "recursion");
  note("has_indirect_calls", uses.has_indirect_calls, "indirect calls");
  if (!found.empty()) text += fmt::format("  uses {}\n", fmt::join(found, ", "));
  if (!uses.externals.empty())
    text += fmt::format("  calls what is not defined here: {}\n", fmt::join(uses.externals, ", "));
  for (const std::string& line : uses.opaque) text += fmt::format("  not understood: {}\n", line);
}

void add_kernel(const session::KernelInfo& kernel, const std::string& plain, const analysis::Resources& uses,
                const std::string& refusal, Report& report) {
  Json parameters = Json::array();
  report.text += plain.empty() ? fmt::format("{}\n", kernel.name) : fmt::format("{} ({})\n", plain, kernel.name);
  for (const session::ParameterInfo& parameter : kernel.parameters) {
    parameters.push_back(parameter_json(parameter));
    const bool pointer = !parameter.reason.empty() || parameter.kind == session::ParameterKind::kPointer;
    report.text += fmt::format("  {:<24} {:<5} {:>9} at {:<4} {}\n", parameter.name, parameter.type_name,
                               plural(parameter.size_bytes, "byte"), parameter.offset_bytes,
                               pointer ? fmt::format("{}: {}", session::to_string(parameter.access), parameter.reason)
                                       : session::expectation(parameter));
  }
  report.text += fmt::format("  static shared memory {}{}", plural(kernel.static_shared_bytes, "byte"),
                             kernel.uses_dynamic_shared ? ", and dynamic" : "");
  if (kernel.required_threads)
    report.text += fmt::format("; blocks of exactly {} threads", fmt::join(*kernel.required_threads, " x "));
  else if (kernel.max_threads_per_block != 0)
    report.text += fmt::format("; at most {} a block", plural(kernel.max_threads_per_block, "thread"));
  report.text += "\n";
  if (kernel.universal_access != session::Access::kNone)
    report.text += fmt::format("  any array may be accessed ({}): {}\n", session::to_string(kernel.universal_access),
                               kernel.universal_reason);
  add_sole_bases(kernel, report.text);
  if (!refusal.empty()) report.text += fmt::format("  refused by the CPU device: {}\n", refusal);
  Json json = {{"name", kernel.name},
               {"plain_name", plain},
               {"cpu_refusal", refusal},
               {"parameters", std::move(parameters)},
               {"parameter_bytes", kernel.parameter_bytes},
               {"static_shared_bytes", kernel.static_shared_bytes},
               {"uses_dynamic_shared", kernel.uses_dynamic_shared},
               {"max_threads_per_block", kernel.max_threads_per_block},
               {"universal_access", session::to_string(kernel.universal_access)},
               {"universal_reason", kernel.universal_reason}};
  add_variables(kernel, json["variables"], report.text);
  if (kernel.required_threads) json["required_threads"] = *kernel.required_threads;
  add_resources(uses, json["resources"], report.text);
  report.json["kernels"].push_back(std::move(json));
}

// Why the CPU device runs a kernel not, by name. Its interpreter is asked, which compiles nothing.
std::map<std::string, std::string> cpu_refusals(const ptx::Module& module, std::string_view text) {
  std::map<std::string, std::string> refusals;
  device::cpu::CpuOptions options;
  options.sms = 1;
  const auto device = device::cpu::create_cpu_device(options, device::cpu::create_interpreter());
  if (!device) return refusals;
  const auto loaded = (*device)->load({&module, text, module.source_name});
  for (const ptx::Function* entry : module.entries()) {
    const Status status = loaded ? (*loaded)->kernel(entry->name).status() : loaded.status();
    if (!status.ok()) refusals[entry->name] = status.message();
  }
  return refusals;
}

Result<source::CompiledSource> compile(const AnalyzeOptions& options) {
  PERGOLA_ASSIGN(source::SourceRequest request, source::load_file(options.file));
  request.options = options.flags;
  const Progress progress(fmt::format("compiling {}", options.file));
  return source::compile(request);
}

Status analyze(const AnalyzeOptions& options, Console& console) {
  PERGOLA_ASSIGN(const source::CompiledSource compiled, compile(options));
  PERGOLA_ASSIGN(const ptx::Module module, ptx::parse(compiled.ptx, runtime::ptx_name(compiled)));
  PERGOLA_TRY(ptx::verify(module));
  if (!options.launches.empty() && !options.kernel.empty())
    return PERGOLA_ERROR(kInvalidArgument, "--launch names its kernel: leave --kernel {} away", options.kernel);
  if (!options.launches.empty()) {
    BlocksQuestion question{options.launches, options.svg, options.device, {}};
    if (options.blocks) question.told = {*options.blocks, *options.blocks};
    return analyze_blocks(module, compiled.ptx, question, console);
  }
  if (!options.svg.empty())
    return PERGOLA_ERROR(kInvalidArgument, "--svg draws the relation of two launches; give --launch twice");
  std::vector<const ptx::Function*> entries = module.entries();
  std::erase_if(entries, [](const ptx::Function* entry) { return !entry->has_body; });
  if (entries.empty())
    return PERGOLA_ERROR(kNotFound, "'{}' has no kernels: these are its __global__ functions, in PTX .entry",
                         options.file);
  std::vector<session::KernelName> names;
  for (const ptx::Function* entry : entries) {
    names.push_back({entry->name, ""});
    for (const source::KernelAlias& alias : compiled.kernel_aliases)
      if (alias.ptx_name == entry->name) names.back().plain = alias.plain;
  }
  std::size_t begin = 0, end = entries.size();
  if (!options.kernel.empty()) {
    PERGOLA_ASSIGN(begin, session::find_kernel(names, options.kernel, options.file));
    end = begin + 1;
  }
  const std::map<std::string, std::string> refusals = cpu_refusals(module, compiled.ptx);
  const auto refusal = [&](const std::string& name) {
    const auto found = refusals.find(name);
    return found == refusals.end() ? std::string() : found->second;
  };
  Report report;
  report.json = {{"file", options.file},
                 {"ptx_version", fmt::format("{}.{}", module.version_major, module.version_minor)},
                 {"targets", module.targets},
                 {"kernels", Json::array()}};
  for (std::size_t i = begin; i < end; ++i) {
    PERGOLA_ASSIGN(const ptx::KernelSignature signature, ptx::signature(module, *entries[i]));
    PERGOLA_ASSIGN(const analysis::Resources uses, analysis::resources(module, *entries[i]));
    add_kernel(runtime::describe(module, *entries[i], signature, {}), names[i].plain, uses, refusal(entries[i]->name),
               report);
  }
  return console.result(report.json, report.text);
}

}  // namespace

void add_analyze_command(CLI::App& app, Console& console) {
  CLI::App* command =
      app.add_subcommand("analyze", "Say what the PTX tells of kernels: parameters, accesses, resources");
  auto options = std::make_shared<AnalyzeOptions>();
  command->footer(
      "Examples:\n"
      "  pergola analyze saxpy.cu\n"
      "  pergola analyze kernels.ptx --kernel blur --json\n"
      "What each block reads and writes, and which blocks of a second launch wait for which of a first:\n"
      "  pergola analyze k.cu --launch 'blur[64, 256](x:64K, y:64K, 16384)' --launch 'sum[64, 256](y, z:256)' --svg "
      "blocks.svg");
  command->add_option("file", options->file, "CUDA C++ or PTX")->required();
  command->add_option("--kernel,-k", options->kernel, "Only this one");
  auto* launch =
      command
          ->add_option("--launch,-l", options->launches, "Once or twice: kernel[grid, block](array:bytes, number, ...)")
          ->allow_extra_args(false);
  command->add_option("--blocks", options->blocks, "Of how many blocks to tell; else of 4, and with --json of 4096")
      ->needs(launch);
  command->add_option("--device,-d", options->device, "Whose limits count: cuda, cuda:N; else, of no GPU, an H200's")
      ->needs(launch);
  command->add_option("--svg", options->svg, "Draw which blocks wait for which")
      ->type_name("PATH")
      ->check([](const std::string& path) { return std::string(path.empty() ? "a file's path is wanted" : ""); });
  command->add_option("--flag", options->flags, "For the compiler: --flag=-DN=4")->allow_extra_args(false);
  command->add_flag("--json", console.json, "One JSON object on standard output");
  command->callback([options, &console] {
    const Status status = analyze(*options, console);
    if (!status.ok()) console.fail(status);
  });
}

}  // namespace pergola::tool
