// The eighteen programs in every form, on a GPU: streams and graphs by hand, Pergola with blocks that wait for blocks
// (each lowering forced) and as it chooses. Launches only: memory is on the device before a run, and as it was at
// first.
#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include <cmath>
#include <functional>
#include <map>

#include "bench/blocks/forms/device_launches_form.h"
#include "bench/blocks/forms/driver_forms.h"
#include "bench/blocks/forms/megakernel_form.h"
#include "bench/blocks/forms/programmatic.h"
#include "bench/blocks/forms/session_form.h"
#include "bench/support/main.h"
#include "src/device/cuda/cuda_device.h"
#include "src/ptx/parser.h"
#include "src/ptx/printer.h"
#include "src/runtime/devices.h"
#include "src/source/source.h"

namespace {

using namespace pergola::bench::blocks;
using pergola::Result;
using pergola::device::DevicePtr;

template <typename T>
T value_of(Result<T> result) {
  if (!result.ok()) throw std::runtime_error(result.message());
  return std::move(result).value();
}
void must(const pergola::Status& status) {
  if (!status.ok()) throw std::runtime_error(status.message());
}

// A graph of the device layer.
class GraphForm : public Form {
 public:
  GraphForm(std::string its_name, pergola::device::Device& device, ProgramOnDevice& loaded,
            pergola::device::GraphSpec spec)
      : loaded_(loaded) {
    name = std::move(its_name);
    const auto start = std::chrono::steady_clock::now();
    graph_ = value_of(device.instantiate(std::move(spec)));
    instantiate_ms = bench::ms_since(start);
  }
  void reset() override { must(loaded_.reset()); }
  std::string check() override { return value_of(loaded_.check()); }
  void run() override {
    must(graph_->launch(loaded_.queue()));
    must(loaded_.queue().synchronize());
  }

 private:
  ProgramOnDevice& loaded_;
  std::unique_ptr<pergola::device::ExecutableGraph> graph_;
};

struct Settings {
  std::string only, forms;
  int runs = 30;
  std::vector<double> waves;
  bool no_paper = false, explain = false, degrees = false;
};

// Until its graphs are made and the ways of each are tried.
constexpr int kSessionWarmUps = 40;

class Suite {
 public:
  Suite(DevicePtr device, const Settings& settings, bench::Report& report)
      : device_(std::move(device)), settings_(settings), report_(report) {}

  // Of the largest launch's kernel and block at the paper's size.
  std::uint32_t blocks_at_once(const ProgramFactory& factory) const {
    const Program program = factory.make(Size::paper());
    const auto largest = std::max_element(program.launches.begin(), program.launches.end(),
                                          [](const auto& a, const auto& b) { return a.grid.count() < b.grid.count(); });
    const auto [ptx, module] = compiled(program);
    const auto loaded = value_of(device_->load({&module, ptx, program.source_file}));
    const pergola::device::Kernel* const kernel = value_of(loaded->kernel(largest->kernel));
    return value_of(kernel->max_resident_blocks_per_sm(static_cast<std::uint32_t>(largest->block.count()),
                                                       largest->shared_bytes)) *
           device_->info().sm_count;
  }

  void run(const Program& program, const std::string& size_name) {
    const auto [ptx, module] = compiled(program);
    times_.clear();
    if (on_gpu()) run_beneath_sessions(program, size_name, ptx, module);
    for (const auto& [form_name, policies] :
         {std::pair("pergola", "graphs=always"), std::pair("pergola-launches", "graphs=off"),
          std::pair("pergola-plain", "graphs=always,blocks=off")}) {
      if (!wanted(form_name) || (size_name != "paper" && form_name == std::string_view("pergola-plain"))) continue;
      SessionForm form(form_name, program, on_gpu() ? "cuda" : "cpu", policies);
      form.warm_ups = on_gpu() ? kSessionWarmUps : 1;
      measure(program, size_name, form, {});
      if (settings_.explain) fmt::print(stderr, "{} {}: {}\n", program.name, form_name, form.graphs());
    }
    if (on_gpu()) summarise(program, size_name);
  }

 private:
  bool on_gpu() const { return device_->info().kind == pergola::device::DeviceKind::kCuda; }

  void run_beneath_sessions(const Program& program, const std::string& size_name, const std::string& ptx,
                            const pergola::ptx::Module& module) {
    auto loaded = value_of(ProgramOnDevice::make(device_, program, ptx));
    const bench::Gpu gpu(ptx);
    for (const auto style :
         {DriverStyle::kStream, DriverStyle::kStreams, DriverStyle::kGraph, DriverStyle::kGraphStreams})
      if (const auto form = driver_form(gpu, program, module, loaded, style))
        measure(program, size_name, *form,
                style == DriverStyle::kGraph
                    ? nlohmann::json{{"launches_alone_ms", launches_alone_ms(program, module, loaded)}}
                    : nlohmann::json::object());
    run_programmatic(program, size_name, ptx, module, loaded);
    if (const auto wavefront = wavefront_of(program)) run_by_hand(program, size_name, *wavefront, gpu, loaded);
    for (const auto& [form_name, options] : lowerings()) {
      if (!wanted(form_name)) continue;
      const auto start = std::chrono::steady_clock::now();
      auto lowered = value_of(loaded.lowered(options));
      const double lower_ms = bench::ms_since(start);
      std::size_t all = 0, plain = 0, parents = 0;
      std::string reason;
      for (std::size_t i = 0; i < lowered.steps.size(); ++i) {
        all += lowered.steps[i].waits_for_all;
        plain += !lowered.plain_reasons[i].empty();
        parents += lowered.steps[i].parents.size();
        if (reason.empty())
          reason = lowered.plain_reasons[i].empty() ? lowered.steps[i].reason : lowered.plain_reasons[i];
      }
      nlohmann::json params = {{"wait_for_all", all},
                               {"plain", plain},
                               {"parents", parents},
                               {"lower_ms", lower_ms},
                               {"memory_kb", lowered.memory_bytes / 1024}};
      if (!reason.empty()) params["first_reason"] = reason;
      GraphForm form(form_name, *device_, loaded, std::move(lowered.spec));
      measure(program, size_name, form, params);
    }
    run_trimmed_and_packed(program, size_name, loaded);
    using pergola::runtime::FusedOptions;
    for (const auto& [form_name, options] :
         {std::pair("pergola-fused", FusedOptions{}),
          std::pair("pergola-fused-block", FusedOptions{.blocks = 1, .most_warps = 32}),
          std::pair("pergola-columns", FusedOptions::in_columns())})
      if (wanted(form_name)) run_fused(program, size_name, loaded, form_name, options);
    for (const auto& [form_name, of_kernels] :
         {std::pair("pergola-merged", false), std::pair("pergola-merged-kernels", true)})
      if (wanted(form_name)) run_merged(program, size_name, loaded, form_name, of_kernels);
    if (wanted("pergola-constants")) run_constants(program, size_name, loaded);
    if (wanted("pergola-stacked")) run_stacked(program, size_name, loaded);
    if (wanted("pergola-merged-early")) run_merged_early(program, size_name, loaded);
  }

  void run_programmatic(const Program& program, const std::string& size_name, const std::string& ptx,
                        const pergola::ptx::Module& module, ProgramOnDevice& loaded) {
    if (!wanted("graph-programmatic")) return;
    const bench::Gpu gpu(programmatic_kernels(ptx));
    measure(program, size_name, *driver_form(gpu, program, module, loaded, DriverStyle::kProgrammatic), {});
  }

  // What a hand would make of a wavefront (section IV-D).
  void run_by_hand(const Program& program, const std::string& size_name, const Wavefront& wavefront,
                   const bench::Gpu& gpu, ProgramOnDevice& loaded) {
    if (wanted("megakernel")) measure(program, size_name, *megakernel_form(*device_, program, wavefront, loaded), {});
    if (!wanted("device-launches")) return;
    std::unique_ptr<Form> form;
    try {
      form = device_launches_form(gpu, program, wavefront, loaded);
    } catch (const std::exception& error) {  // it wants more of the toolkit than the others do
      report_.note(fmt::format("{}: no device-launches: {}\n", program.name, error.what()));
      return;
    }
    measure(program, size_name, *form, {});
  }

  static std::pair<std::string, pergola::ptx::Module> compiled(const Program& program) {
    auto request = value_of(pergola::source::load_file(source_path(program)));
    request.arch = "sm_90";
    std::string ptx = value_of(pergola::source::compile(request)).ptx;
    auto module = value_of(pergola::ptx::parse(ptx, program.source_file));
    return {std::move(ptx), std::move(module)};
  }
  // Without blocks that write nothing, and of that with small blocks several to one of the device's, each as it is and
  // started early. Nothing where there are no such blocks.
  void run_trimmed_and_packed(const Program& program, const std::string& size_name, ProgramOnDevice& loaded) {
    const bool trims = wanted("pergola-trimmed") || wanted("pergola-trimmed-early");
    const bool packs = wanted("pergola-packed") || wanted("pergola-packed-early");
    if (!trims && !packs) return;
    const auto start = std::chrono::steady_clock::now();
    const auto trimmed = loaded.trimmed();
    const double trim_ms = bench::ms_since(start);
    const auto chain = loaded.trimmed_chain();
    const auto run = [&](const std::string& form_name, pergola::device::GraphSpec spec, const nlohmann::json& params,
                         const pergola::runtime::PackingOptions* packing) {
      const auto one = [&](const std::string& name, pergola::device::GraphSpec of) {
        GraphForm form(name, *device_, loaded, std::move(of));
        measure(program, size_name, form, params);
      };
      if (wanted(form_name)) one(form_name, std::move(spec));
      if (!wanted(form_name + "-early")) return;
      pergola::runtime::BlockLoweringOptions options = lowerings().front().second;
      options.packing = packing;
      one(form_name + "-early", value_of(loaded.lowered(options, chain)).spec);
    };
    if (trimmed.launches != 0)
      run("pergola-trimmed", trimmed.spec,
          {{"trimmed_launches", trimmed.launches},
           {"blocks_before", trimmed.before},
           {"blocks_after", trimmed.after},
           {"lower_ms", trim_ms}},
          nullptr);
    if (!packs) return;
    const auto pack_start = std::chrono::steady_clock::now();
    auto packed = loaded.packed(trimmed);
    const pergola::runtime::PackingOptions packing;
    if (packed.launches != 0)
      run("pergola-packed", std::move(packed.spec),
          {{"packed_launches", packed.launches}, {"lower_ms", trim_ms + bench::ms_since(pack_start)}}, &packing);
  }

  void run_fused(const Program& program, const std::string& size_name, ProgramOnDevice& loaded, const char* form_name,
                 const pergola::runtime::FusedOptions& options) {
    const auto start = std::chrono::steady_clock::now();
    auto fused = value_of(loaded.fused(options));
    if (fused.segments.empty()) return;
    std::size_t launches = 0, barriers = 0, warps = 0;
    for (const auto& segment : fused.segments) {
      launches += segment.count;
      barriers += segment.barriers;
      warps = std::max<std::size_t>(warps, segment.shape.warps * segment.shape.blocks);
    }
    nlohmann::json params = {{"fused_launches", launches},
                             {"segments", fused.segments.size()},
                             {"barriers", barriers},
                             {"warps", warps},
                             {"lower_ms", bench::ms_since(start)},
                             {"memory_kb", fused.memory_bytes / 1024}};
    if (options.columns) params["columns"] = fused.segments.front().columns;
    for (const std::string& reason : fused.plain_reasons)
      if (!reason.empty() && !params.contains("first_reason")) params["first_reason"] = reason;
    GraphForm form(form_name, *device_, loaded, std::move(fused.spec));
    measure(program, size_name, form, params);
  }

  static nlohmann::json params_of(const pergola::runtime::LoweredMerged& merged) {
    std::size_t launches = 0;
    for (const auto& group : merged.groups) launches += group.launches.size();
    nlohmann::json params = {{"merged_launches", launches}, {"groups", merged.groups.size()}};
    for (const std::string& reason : merged.plain_reasons)
      if (!reason.empty() && !params.contains("first_reason")) params["first_reason"] = reason;
    return params;
  }

  // Nothing where it would be the plain graph, or with `of_kernels` the same as without.
  void run_merged(const Program& program, const std::string& size_name, ProgramOnDevice& loaded, const char* form_name,
                  bool of_kernels) {
    const auto start = std::chrono::steady_clock::now();
    auto merged = value_of(loaded.merged({.different_kernels = of_kernels}));
    if (std::none_of(merged.groups.begin(), merged.groups.end(),
                     [&](const auto& group) { return !of_kernels || group.in_a_row; }))
      return;
    nlohmann::json params = params_of(merged);
    params["lower_ms"] = bench::ms_since(start);
    GraphForm form(form_name, *device_, loaded, std::move(merged.spec));
    measure(program, size_name, form, params);
  }

  // Nothing where it would be the plain graph.
  void run_constants(const Program& program, const std::string& size_name, ProgramOnDevice& loaded) {
    const auto start = std::chrono::steady_clock::now();
    auto constants = loaded.constants();
    if (constants.launches == 0) return;
    const nlohmann::json params = {{"constant_launches", constants.launches}, {"lower_ms", bench::ms_since(start)}};
    GraphForm form("pergola-constants", *device_, loaded, std::move(constants.spec));
    measure(program, size_name, form, params);
  }

  // Nothing where it would be the plain graph.
  void run_stacked(const Program& program, const std::string& size_name, ProgramOnDevice& loaded) {
    const auto start = std::chrono::steady_clock::now();
    auto stacked = value_of(loaded.stacked());
    if (stacked.stacks == 0) return;
    nlohmann::json params = {{"stacks", stacked.stacks}, {"launches", stacked.spec.nodes.size()}};
    params["lower_ms"] = bench::ms_since(start);
    GraphForm form("pergola-stacked", *device_, loaded, std::move(stacked.spec));
    measure(program, size_name, form, params);
  }

  void run_merged_early(const Program& program, const std::string& size_name, ProgramOnDevice& loaded) {
    const auto start = std::chrono::steady_clock::now();
    const auto merged = value_of(loaded.merged({}));
    if (merged.groups.empty()) return;
    auto early = value_of(loaded.merged_early(merged));
    if (early.early == 0) return;
    nlohmann::json params = params_of(merged);
    params["early"] = early.early;
    params["lower_ms"] = bench::ms_since(start);
    GraphForm form("pergola-merged-early", *device_, loaded, std::move(early.spec));
    measure(program, size_name, form, params);
  }

  // What the captured graph takes with kernels that return at once: the launches' own time.
  double launches_alone_ms(const Program& program, const pergola::ptx::Module& module, ProgramOnDevice& loaded) {
    pergola::ptx::Module empty = module;
    for (pergola::ptx::Item& item : empty.items) {
      auto* const function = std::get_if<pergola::ptx::Function>(&item.node);
      if (function == nullptr || !function->is_entry) continue;
      pergola::ptx::Instruction end;
      end.op = pergola::ptx::Op::kRet;
      function->body.clear();
      function->body.push_back({std::move(end), function->location});
    }
    const bench::Gpu gpu(pergola::ptx::print(empty));
    const auto form = driver_form(gpu, program, module, loaded, DriverStyle::kGraph);
    std::vector<double> times;
    for (int i = 0; i < settings_.runs + form->warm_ups; ++i) {
      const auto start = std::chrono::steady_clock::now();
      form->run();
      if (i >= form->warm_ups) times.push_back(bench::ms_since(start));
    }
    std::sort(times.begin(), times.end());
    return alone_ = times[times.size() / 2];
  }

  static std::vector<std::pair<std::string, pergola::runtime::BlockLoweringOptions>> lowerings() {
    std::vector<std::pair<std::string, pergola::runtime::BlockLoweringOptions>> result;
    pergola::runtime::BlockLoweringOptions options;
    options.chain.by_block = false;
    options.chain.most_running = ~std::uint32_t{0};
    result.emplace_back("pergola-early", options);
    result.emplace_back("pergola-by-block", pergola::runtime::BlockLoweringOptions());
    return result;
  }
  bool wanted(const std::string& form) const {
    return settings_.forms.empty() || ("," + settings_.forms + ",").find("," + form + ",") != std::string::npos;
  }

  void measure(const Program& program, const std::string& size_name, Form& form, nlohmann::json params) {
    const auto run = [&] {
      form.reset();
      const auto start = std::chrono::steady_clock::now();
      form.run();
      return bench::ms_since(start);
    };
    for (int i = 0; i < form.warm_ups || (on_gpu() && !form.is_steady()); ++i) run();
    std::vector<double> times;
    for (int i = 0; i < settings_.runs; ++i) times.push_back(run());
    const std::string wrong = form.check();
    if (!wrong.empty()) fmt::print(stderr, "{} {}: {}\n", program.name, form.name, wrong);
    params["size"] = size_name;
    params["launches"] = program.launches.size();
    params["most_blocks"] = program.most_blocks();
    params["instantiate_ms"] = form.instantiate_ms;
    report_.add(program.name, form.name, params, times, wrong.empty());
    std::sort(times.begin(), times.end());
    times_[form.name] = times[times.size() / 2];
  }

  void summarise(const Program& program, const std::string& size_name) {
    const double stream = times_["stream"];
    std::string line =
        fmt::format("= {:9} {:6} {:4} launches, stream {:9.1f} us ({:6.2f} each)", program.name, size_name,
                    program.launches.size(), stream * 1e3, stream * 1e3 / program.launches.size());
    for (const auto& [name, time] : times_)
      if (name != "stream") line += fmt::format(" {} {:.2f}", name, stream / time);
    line += fmt::format(" | launches free {:.2f}", stream / std::max(times_["graph"] - alone_, 1e-6));
    lines.push_back(line);
    const auto best_graph =
        times_.contains("graph-streams") ? std::min(times_["graph"], times_["graph-streams"]) : times_["graph"];
    for (const auto& [name, time] : times_) {
      Sums& sums = sums_[size_name][name];
      sums.over_stream += std::log(stream / time);
      sums.over_graph += std::log(best_graph / time);
      ++sums.programs;
    }
  }

 public:
  // Geometric means over the programs, by size and form.
  void add_means(bench::Report& report) {
    for (const auto& [size, forms] : sums_) {
      report.note(fmt::format("Geometric means, {}, over stream / over the better captured graph: ", size));
      for (const auto& [form, sums] : forms)
        if (form != "stream" && form != "streams" && form != "graph-streams")
          report.note(fmt::format("{} {:.2f} / {:.2f} ({} programs); ", form,
                                  std::exp(sums.over_stream / sums.programs), std::exp(sums.over_graph / sums.programs),
                                  sums.programs));
      report.note("\n");
    }
  }

  std::vector<std::string> lines;

 private:
  struct Sums {
    double over_stream = 0, over_graph = 0;  // logarithms
    int programs = 0;
  };
  std::map<std::string, std::map<std::string, Sums>> sums_;
  const DevicePtr device_;
  const Settings& settings_;
  bench::Report& report_;
  std::map<std::string, double> times_;  // median, ms
  double alone_ = 0;                     // launches of the graph, ms
};

// Figure 12: two launches of as many blocks, each block of the second needs `degree` of the first.
void run_degrees(Suite& suite, bool is_small) {
  std::vector<std::uint32_t> sizes{128, 256, 512, 1024, 2048, 4096}, degrees{1, 2, 4, 8, 16, 32, 64, 128};
  if (is_small) sizes = {16}, degrees = {1, 16};
  for (const std::uint32_t blocks : sizes)
    for (const std::uint32_t degree : degrees)
      suite.run(make_vector_add(blocks, degree), fmt::format("{} blocks, degree {}", blocks, degree));
}

DevicePtr first_gpu() {
  const auto options = value_of(pergola::device::CudaDeviceOptions::from_environment());
  return value_of(pergola::device::create_cuda_device(0, options));
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app(
      "The eighteen programs in every form, on a GPU. With --small and no driver, or PERGOLA_DEVICE=cpu: the "
      "forms of sessions on the CPU device.",
      "block_forms_bench");
  Settings settings;
  app.add_option("--only", settings.only, "Programs, by name, with commas");
  app.add_option("--forms", settings.forms,
                 "Forms of Pergola, and those by hand beside streams and graphs, with commas");
  app.add_option("--runs", settings.runs, "Of each form");
  app.add_option("--waves", settings.waves, "Sizes beside the paper's, in waves of blocks");
  app.add_flag("--explain", settings.explain, "Says what became of the launches of sessions");
  app.add_flag("--degrees", settings.degrees, "Figure 12 in place of the programs: blocks by dependency degree");
  app.add_flag("--no-paper", settings.no_paper, "Without the paper's sizes");
  return bench::run_main(app, argc, argv, [&](const bench::Options& options) {
    // The driver compiles Pergola's kernels as it compiles the hand-written forms', unless told otherwise.
    setenv("PERGOLA_CUDA_ROUNDING", "driver", 0);
    const char* const named = std::getenv("PERGOLA_DEVICE");
    const bool on_cpu = named != nullptr ? std::string_view(named) == "cpu"
                                         : options.small && !pergola::device::cuda_status().available;
    const DevicePtr device = on_cpu ? value_of(pergola::runtime::open_device("cpu")) : first_gpu();
    if (on_cpu) settings.runs = std::min(settings.runs, 3);
    bench::Report report("blocks", {device->info().name, pergola::device::cuda_status().driver_version}, argc, argv);
    Suite suite(device, settings, report);
    if (settings.degrees) run_degrees(suite, options.small);
    for (const ProgramFactory& factory : all()) {
      if (settings.degrees) break;
      if (!settings.only.empty() && ("," + settings.only + ",").find("," + factory.name + ",") == std::string::npos)
        continue;
      if (options.small) {
        suite.run(factory.make(Size::small()), "small");
        continue;
      }
      if (!settings.no_paper) suite.run(factory.make(Size::paper()), "paper");
      for (const double waves : settings.waves)
        suite.run(factory.make(Size::by_waves(waves, suite.blocks_at_once(factory))), fmt::format("{} waves", waves));
      if (!options.report.empty()) report.write(options.report);  // what there is, should a later program fail
    }
    if (report.is_empty())
      throw std::runtime_error("nothing was run: there is no such program or form as --only and --forms name");
    suite.add_means(report);
    if (on_cpu) report.note("No GPU: the forms of sessions alone, on the CPU device, which show that they work.");
    for (const std::string& line : suite.lines) fmt::print("{}\n", line);
    return report;
  });
}
