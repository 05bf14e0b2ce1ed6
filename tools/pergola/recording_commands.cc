// `pergola trace`, `pergola explain`, `pergola history` and `pergola tuning`: what recordings tell
// (docs/observability.md).
#include <filesystem>

#include "src/base/file.h"
#include "src/base/plural.h"
#include "src/ptx/parser.h"
#include "src/ptx/verifier.h"
#include "src/runtime/devices.h"
#include "src/runtime/load.h"
#include "src/scheduler/explain.h"
#include "src/scheduler/history.h"
#include "src/scheduler/metrics.h"
#include "src/scheduler/task_timeline.h"
#include "src/scheduler/trace_file.h"
#include "src/scheduler/tuning.h"
#include "src/source/source.h"
#include "tools/pergola/commands.h"
#include "tools/pergola/explain_blocks.h"
#include "tools/pergola/timeline_svg.h"

namespace pergola::tool {
namespace {

using Json = nlohmann::ordered_json;
using scheduler::History;
using scheduler::SerialRun;
using scheduler::Slice;
using scheduler::Timeline;
using scheduler::Tuning;

struct TraceOptions {
  std::string file, serial, history, svg;
  bool overlap = false;
};

Result<Timeline> read_trace(const std::string& file) {
  PERGOLA_ASSIGN(const std::string text, read_file(file));
  return scheduler::parse_trace(text, file);
}

// The bound beside the time that was measured (paper 003, Figure 9).
Status add_bound(const TraceOptions& options, const Timeline& timeline, double span_ns, Json& json, std::string& text) {
  std::optional<SerialRun> run;
  History history;
  if (!options.serial.empty()) {
    PERGOLA_ASSIGN(const Timeline serial, read_trace(options.serial));
    PERGOLA_ASSIGN(run, SerialRun::from(serial));
  }
  if (!options.history.empty()) {
    PERGOLA_ASSIGN(const std::string bytes, read_file(options.history));
    PERGOLA_ASSIGN(history, History::parse(bytes, options.history));
  }
  const auto serial = [&](const Slice& slice) -> std::optional<double> {
    if (run) return (*run)(slice);
    const auto size = scheduler::SizeClass::of(slice.detail.threads(), slice.bytes);
    const auto known = history.estimate(timeline.device, slice.name, size);
    if (slice.detail.threads() == 0 || !known || known->classes_away != 0) return std::nullopt;
    return known->times.min_ns;
  };
  const scheduler::CriticalPath path = critical_path(timeline, serial);
  const double ratio = path.length_ns > 0 ? span_ns / path.length_ns : 0;
  json["critical_path_ns"] = path.length_ns;
  json["critical_path"] = path.ids;
  json["time_over_bound"] = ratio;
  json["unknown"] = path.unknown;
  text += fmt::format(
      "without contention at least {:.1f} us: the critical path, {}; the run took {:.2f} times that "
      "({:.0f} "
      "% of the bound's speed)\n",
      path.length_ns * 1e-3, plural(path.ids.size(), "computation"), ratio, ratio > 0 ? 100 / ratio : 0);
  if (!path.unknown.empty())
    text += fmt::format("  not known by themselves, and so as long as here: {}\n", fmt::join(path.unknown, ", "));
  return {};
}

Json tasks_json(const Timeline& timeline) {
  const scheduler::TaskSummary tasks = scheduler::summarize_tasks(timeline);
  Json kernels = Json::array();
  for (const scheduler::TaskTimes& kernel : tasks.kernels)
    kernels.push_back({{"name", kernel.kernel},
                       {"count", kernel.count},
                       {"median_ns", kernel.median_ns},
                       {"p99_ns", kernel.p99_ns},
                       {"min_ns", kernel.min_ns},
                       {"max_ns", kernel.max_ns}});
  return {{"count", tasks.count},     {"dropped", timeline.dropped_tasks}, {"places", tasks.places},
          {"span_ns", tasks.span_ns}, {"busy_ns", tasks.busy_ns},          {"at_once", tasks.at_once},
          {"kernels", kernels}};
}

Status trace(const TraceOptions& options, Console& console) {
  PERGOLA_ASSIGN(const Timeline timeline, read_trace(options.file));
  const scheduler::Overlap found = scheduler::overlap(timeline);
  Json json = {{"device", timeline.device},
               {"policy", timeline.policy},
               {"computations", timeline.slices.size()},
               {"dropped", timeline.dropped},
               {"without_time", timeline.without_time},
               {"span_ns", found.span_ns},
               {"computation_ns", found.computation_ns},
               {"transfer_ns", found.transfer_ns}};
  std::string text = fmt::format("{}: {} in {:.1f} us; {:.1f} us of computation, {:.1f} us of transfers\n",
                                 timeline.device, plural(timeline.slices.size(), "computation"), found.span_ns * 1e-3,
                                 found.computation_ns * 1e-3, found.transfer_ns * 1e-3);
  if (timeline.dropped != 0) text += plural(timeline.dropped, "older one was dropped\n", "older ones were dropped\n");
  if (timeline.without_time != 0)
    text += plural(timeline.without_time, "has no time: it failed, was skipped, or had not ended\n",
                   "have no time: they failed, were skipped, or had not ended\n");
  text += scheduler::explain_tasks(timeline);
  if (!timeline.tasks.empty()) json["tasks"] = tasks_json(timeline);
  if (options.overlap) {
    json["overlap"] = {{"ct", found.ct}, {"tc", found.tc}, {"cc", found.cc}, {"tot", found.tot}};
    text += fmt::format(
        "CT  {:5.1f} %  of computation overlaps with transfers\n"
        "TC  {:5.1f} %  of transfers overlaps with computation\n"
        "CC  {:5.1f} %  of computation overlaps with other computation\n"
        "TOT {:5.1f} %  of all overlaps with anything else\n",
        100 * found.ct, 100 * found.tc, 100 * found.cc, 100 * found.tot);
    if (options.serial.empty() && options.history.empty())
      text += "with --serial or --history also: the distance to the bound without contention\n";
  }
  if (!options.serial.empty() || !options.history.empty())
    PERGOLA_TRY(add_bound(options, timeline, found.span_ns, json, text));
  PERGOLA_ASSIGN(const bool to_standard_output, console.is_output(options.svg));
  if (!options.svg.empty()) {
    PERGOLA_TRY(write_named_file(options.svg, timeline_svg(timeline)));
    text += fmt::format("{} is written\n", options.svg);
  }
  return console.result_beside(to_standard_output, json, text);
}

struct ExplainOptions {
  std::string file, device;
  std::vector<std::string> launches, flags;
};

Status explain_launches(const ExplainOptions& options, Console& console) {
  PERGOLA_ASSIGN(source::SourceRequest request, source::load_file(options.file));
  request.options = options.flags;
  const auto compiled = [&] {
    const Progress progress(fmt::format("compiling {}", options.file));
    return source::compile(request);
  }();
  PERGOLA_TRY(compiled.status());
  PERGOLA_ASSIGN(const ptx::Module module, ptx::parse(compiled->ptx, runtime::ptx_name(*compiled)));
  PERGOLA_TRY(ptx::verify(module));
  PERGOLA_ASSIGN(const device::DevicePtr device, runtime::open_device(options.device));
  return explain_blocks(module, compiled->ptx, options.launches, device, console);
}

Status explain(const ExplainOptions& options, Console& console) {
  if (!options.launches.empty()) return explain_launches(options, console);
  const std::string extension = std::filesystem::path(options.file).extension().string();
  if (extension == ".cu" || extension == ".ptx")
    return PERGOLA_ERROR(kInvalidArgument, "'{}' has kernels: give --launch twice; traces end in .json", options.file);
  PERGOLA_ASSIGN(const Timeline timeline, read_trace(options.file));
  const std::string text = scheduler::explain(timeline);
  return console.result({{"text", text}, {"graphs", Json::parse(scheduler::print_graphs(timeline.graphs))}}, text);
}

// A History or a Tuning.
template <typename Kept>
Status show(const std::string& file, Console& console) {
  PERGOLA_ASSIGN(const std::string bytes, read_file(file));
  PERGOLA_ASSIGN(const Kept read, Kept::parse(bytes, file));
  return console.result(Json::parse(read.print()), read.table());
}

void finish(const Status& status, Console& console) {
  if (!status.ok()) console.fail(status);
}

}  // namespace

void add_trace_command(CLI::App& app, Console& console) {
  CLI::App* command =
      app.add_subcommand("trace", "Say how much of a recorded run overlapped, and how good it could be");
  auto options = std::make_shared<TraceOptions>();
  command->footer(
      "Traces come from PERGOLA_TRACE=FILE or a session's trace(); ui.perfetto.dev opens them too.\n"
      "Examples:\n"
      "  PERGOLA_TRACE=run.json ./program && pergola trace --overlap run.json\n"
      "  PERGOLA_TRACE=serial.json PERGOLA_SCHEDULER=execution=sync ./program\n"
      "  pergola trace --overlap run.json --serial serial.json --svg run.svg");
  command->add_option("file", options->file, "A trace")->required();
  command->add_flag("--overlap", options->overlap, "How much of computation and transfers overlaps: CT, TC, CC, TOT");
  auto* serial = command->add_option("--serial", options->serial,
                                     "A trace of the same program with execution=sync: the distance to the bound");
  command->add_option("--history", options->history, "The same with the least times of a history")->excludes(serial);
  command->add_option("--svg", options->svg, "Write the timeline there as a picture");
  command->add_flag("--json", console.json, "One JSON object on standard output");
  command->callback([options, &console] { finish(trace(*options, console), console); });
}

void add_explain_command(CLI::App& app, Console& console) {
  CLI::App* command = app.add_subcommand(
      "explain", "Say why each piece of a recorded run went where it did, and what became graphs; or of two launches");
  auto options = std::make_shared<ExplainOptions>();
  command->footer(
      "Examples:\n"
      "  PERGOLA_TRACE=run.json ./program && pergola explain run.json\n"
      "What two launches read and write, which blocks wait for which, and how a graph of the two would be made:\n"
      "  pergola explain k.cu --launch 'blur[64, 256](x:64K, y:64K, 16384)' --launch 'sum[64, 256](y, z:256)'");
  command->add_option("file", options->file, "A trace; with --launch, CUDA C++ or PTX")->required();
  auto* launch =
      command->add_option("--launch,-l", options->launches, "Twice: kernel[grid, block](array:bytes, number, ...)")
          ->allow_extra_args(false);
  command->add_option("--device,-d", options->device, "Whose limits count: cuda, cuda:N; else, of no GPU, an H200's")
      ->needs(launch);
  command->add_option("--flag", options->flags, "For the compiler: --flag=-DN=4")
      ->allow_extra_args(false)
      ->needs(launch);
  command->add_flag("--json", console.json, "One JSON object on standard output");
  command->callback([options, &console] { finish(explain(*options, console), console); });
}

void add_history_command(CLI::App& app, Console& console) {
  CLI::App* command = app.add_subcommand("history", "Show how long kernels took, by size");
  auto file = std::make_shared<std::string>();
  command->footer("Example:\n  PERGOLA_HISTORY=kernels.json ./program && pergola history kernels.json");
  command->add_option("file", *file, "A history")->required();
  command->add_flag("--json", console.json, "One JSON object on standard output");
  command->callback([file, &console] { finish(show<History>(*file, console), console); });
}

void add_tuning_command(CLI::App& app, Console& console) {
  CLI::App* command = app.add_subcommand("tuning", "Show in which way graphs of recurring launches ran fastest");
  auto file = std::make_shared<std::string>();
  command->footer("Example:\n  PERGOLA_TUNING=tuning.json ./program && pergola tuning tuning.json");
  command->add_option("file", *file, "A tuning")->required();
  command->add_flag("--json", console.json, "One JSON object on standard output");
  command->callback([file, &console] { finish(show<Tuning>(*file, console), console); });
}

}  // namespace pergola::tool
