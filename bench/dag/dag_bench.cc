// Six programs of dependent kernels, each scheduled by hand in four ways and by Pergola: see README.md beside this
// file.
//
//   dag_bench [--small] [--only VEC,B&S,...] [--bytes 10M,100M,1G] [--block 256 | 32,64,...] [--runs N] [--untimed N]
//             [--forms A,B,...] [--pageable] [--alone] [--matrix FILE.mtx] [--kernels kernels.cu] [--report PATH]
//   dag_bench --memory-percent 90 --alone --measure resident [--tiles N] ...
//
// PERGOLA_DEVICE chooses the device. Above 16 GB the host has one tile of the data, of which the device has many, and
// the kernels count by 64 bits; --tiles does the same at any size.
//
// On a GPU all forms run, in turns; without one, Pergola alone. Every form's results are compared with a reference in
// double precision; the program fails where one differs.
#include <algorithm>
#include <array>
#include <cstdio>
#include <map>
#include <optional>
#include <set>
#include <stdexcept>
#include <string>
#include <vector>

#include "../support/main.h"
#include "harness.h"
#include "src/source/source.h"

namespace {

using namespace dag;

// Above, all kernels but VEC's need 64 bits to count elements, and the host would need more memory than it has.
constexpr std::size_t kMostUntiled = 16'000'000'000;

struct Selection {
  std::vector<std::string> problems;
  std::vector<std::size_t> bytes;
  double memory_percent = 0;
  std::vector<unsigned> blocks{256};
  std::size_t tiles = 0;  // 0: as many as the size needs
  bool pageable = false;  // the host's memory, in place of page-locked
  BenchOptions bench{.runs = 0};
  std::string matrix, once, trace, kernels = DAG_BENCH_KERNELS;
};

struct Maker {
  std::string name;
  std::unique_ptr<Problem> (*make)(Setup&);
  std::size_t tile_bytes = 1'000'000'000;  // about what a tile takes on the device
};
// Of HITS it is one graph, whose vectors have 54 MB: a large graph's would not stay in caches either.
const std::vector<Maker> kProblems{
    {"VEC", make_vec}, {"B&S", make_black_scholes},        {"IMG", make_img},
    {"ML", make_ml},   {"HITS", make_hits, 4'000'000'000}, {"DL", make_dl},
};

std::vector<std::string> problem_names() {
  std::vector<std::string> names;
  for (const Maker& problem : kProblems) names.push_back(problem.name);
  return names;
}

void add_options(CLI::App& app, Selection& selection) {
  app.add_option("--only", selection.problems, "These problems alone, as in VEC,IMG")
      ->delimiter(',')
      ->check(CLI::IsMember(problem_names()));
  app.add_option("--bytes", selection.bytes, "Sizes, as in 10M,1G")
      ->delimiter(',')
      ->transform(CLI::AsSizeValue(true))
      ->check(CLI::Range(std::size_t{1'000'000}, std::size_t{1} << 40));
  app.add_option("--memory-percent", selection.memory_percent,
                 "One size more: so much of the device's memory, as in 90")
      ->check(CLI::Range(1.0, 95.0));
  app.add_option("--tiles", selection.tiles,
                 "So many copies on the device of what the host has; without, 1, and above 16 GB as many as needed")
      ->check(CLI::Range(1, 10'000));
  const CLI::Validator whole_warps(
      [](const std::string& text) { return std::stoul(text) % 32 == 0 ? "" : text + " is no multiple of 32"; }, "");
  app.add_option("--block", selection.blocks, "Threads of a block, as in 32,64,1024")
      ->delimiter(',')
      ->check(CLI::Range(32, 1024))
      ->check(whole_warps);
  app.add_option("--runs", selection.bench.runs, "Measured runs of each form")->check(CLI::Range(1, 100'000));
  auto* const untimed =
      app.add_option("--untimed", selection.bench.untimed,
                     "Runs of the same form before each measured one; without, 1, and with --alone none")
          ->check(CLI::Range(0, 1000));
  app.add_flag("--pageable", selection.pageable, "The host's arrays in pageable memory");
  app.add_flag("--alone", selection.bench.alone, "One form after the other, for sizes that leave no room for others");
  app.add_option("--measure", selection.bench.measures, "One of the two alone")
      ->delimiter(',')
      ->transform(CLI::CheckedTransformer(
          std::map<std::string, Measure>{{"cold", Measure::kCold}, {"resident", Measure::kResident}}));
  app.add_option("--forms", selection.bench.forms, "These forms alone, as in serial,streams,capture,graph,pergola")
      ->delimiter(',')
      ->check(CLI::IsMember(kForms));
  app.add_option("--policy", selection.bench.policies,
                 "A form more with this policy of the scheduler, as in graphs=always,turns=whole; may be given again")
      ->take_all();
  app.add_flag("--explain", selection.bench.explain,
               "Print which of Pergola's launches became graphs, and why others did not; and each timed run");
  app.add_flag("--after-others", selection.bench.after_others,
               "Cold runs right after those of other forms, in place of one more of the same form that is not timed")
      ->excludes(untimed);
  app.add_option("--matrix", selection.matrix, "HITS on this graph, FILE.mtx");
  app.add_option("--once", selection.once,
                 "For profilers: one iteration of this form alone, untimed; resident, or cold by --measure cold");
  app.add_option("--trace", selection.trace,
                 "With --once pergola: that iteration is recorded there, behind ten that are not")
      ->needs("--once");
  app.add_option("--kernels", selection.kernels, "The kernels, FILE.cu");
}

// The kernels of all forms, as PTX and on the GPU; in each of the two widths of what counts elements when it is first
// asked for.
class Kernels {
 public:
  struct Loaded {
    std::string ptx;
    std::unique_ptr<Gpu> gpu;  // null without one
  };
  Kernels(std::string path, const pergola_device_info& device) : path_(std::move(path)), device_(device) {}

  bool are_on_gpu() const { return std::string(device_.id).starts_with("cuda"); }
  const Loaded& get(bool wide) {
    auto& loaded = loaded_[wide ? 1 : 0];
    if (!loaded) {
      loaded.emplace(compiled(wide));
      if (are_on_gpu()) loaded->gpu = std::make_unique<Gpu>(loaded->ptx);
    }
    if (loaded->gpu) loaded->gpu->enter();
    return *loaded;
  }

 private:
  Loaded compiled(bool wide) const {
    auto request = pergola::source::load_file(path_);
    if (!request) throw std::runtime_error(request.message());
    if (are_on_gpu())
      request->arch = "sm_" + std::to_string(device_.compute_major) + std::to_string(device_.compute_minor);
    if (wide) request->defines.push_back("WIDE_INDEX");
    auto result = pergola::source::compile(*request);
    if (!result) throw std::runtime_error(result.message());
    return {result->ptx, nullptr};
  }

  const std::string path_;
  const pergola_device_info device_;
  std::array<std::optional<Loaded>, 2> loaded_;
};

// Whole gigabytes, at least one.
std::size_t share_of(const pergola_device_info& device, double percent) {
  constexpr std::size_t kUnit = 1'000'000'000;
  return std::max<std::size_t>(
             1, static_cast<std::size_t>(static_cast<double>(device.memory_bytes) * percent / 100) / kUnit) *
         kUnit;
}

// How often the device has what the host has. Throws std::runtime_error where the command line asks for what cannot be.
std::size_t tiles_of(const Selection& selection, const Maker& problem, std::size_t bytes) {
  const bool is_read = problem.name == "HITS" && !selection.matrix.empty();  // its size is the file's
  const bool fits = bytes <= kMostUntiled || is_read;
  const std::size_t needed = fits ? 1 : (bytes + problem.tile_bytes - 1) / problem.tile_bytes;
  const std::size_t tiles = selection.tiles != 0 ? selection.tiles : needed;
  if (tiles == 1 && !fits && problem.name != "VEC")
    throw std::runtime_error("Without tiles the kernels of " + problem.name + " count by int, up to " +
                             std::to_string(kMostUntiled) + " bytes; leave --tiles out, or give more.");
  const std::vector<Measure>& measures = selection.bench.measures;
  const bool wants_cold = std::find(measures.begin(), measures.end(), Measure::kCold) != measures.end();
  const bool is_once_resident = !selection.once.empty() && measures.size() != 1;
  if (tiles > 1 && wants_cold && !is_once_resident)
    throw std::runtime_error("Of " + problem.name + " with " + std::to_string(bytes) + " bytes the host has one of " +
                             std::to_string(tiles) +
                             " tiles, so there is nothing to measure `cold`; add --measure resident.");
  return tiles;
}

nlohmann::json params_of(const Selection& selection, const Setup& setup) {
  nlohmann::json params{{"bytes", setup.bytes}, {"block", setup.block}};
  if (setup.tiles > 1) params["tiles"] = setup.tiles;
  if (selection.pageable) params["host"] = "pageable";
  if (selection.bench.alone) params["forms"] = "alone";
  if (selection.bench.after_others) params["runs"] = "after others'";
  if (selection.bench.untimed.value_or(1) != 1) params["untimed"] = *selection.bench.untimed;
  return params;
}

bench::Report run(Selection selection, const std::string& report_path, int argc, char** argv) {
  pergola::Session session;
  const pergola_device_info device = session.device();
  if (selection.memory_percent != 0) selection.bytes.push_back(share_of(device, selection.memory_percent));
  Kernels kernels(selection.kernels, device);
  if (kernels.are_on_gpu() && std::string(device.id) != "cuda:0")
    throw std::runtime_error("The hand-written forms run on cuda:0; the device is " + std::string(device.id) +
                             ". CUDA_VISIBLE_DEVICES can make another GPU the first.");
  bench::Report report("dag", {device.name, device.driver}, argc, argv);
  BenchOptions options = selection.bench;
  options.is_staged = selection.pageable || !kernels.are_on_gpu();
  Bench bench(report, std::move(options));
  std::set<std::string> noted;
  for (const Maker& maker : kProblems) {
    bool wanted = selection.problems.empty();
    for (const std::string& given : selection.problems) wanted |= given == maker.name;
    if (!wanted) continue;
    for (const std::size_t bytes : selection.bytes) {
      for (const unsigned block : selection.blocks) {
        const std::size_t tiles = tiles_of(selection, maker, bytes);
        const Kernels::Loaded& loaded = kernels.get(tiles > 1);
        bench.use(loaded.gpu.get(), &loaded.ptx);
        HostMemory memory(selection.pageable ? nullptr : loaded.gpu.get());
        Setup setup{memory, bytes, block, tiles, selection.matrix, ""};
        const auto problem = maker.make(setup);
        if (!setup.notes.empty() && noted.insert(setup.notes).second) report.note(setup.notes + "\n\n");
        if (!selection.once.empty()) {
          bench.run_once(*problem, selection.once, selection.trace);
          continue;
        }
        bench.run(*problem, params_of(selection, setup));
        if (!report_path.empty()) report.write(report_path, bench.summary());  // cut short, a run leaves what it has
      }
    }
  }
  const std::string summary = selection.once.empty() ? bench.summary() : "";
  std::printf("\n%s", summary.c_str());
  report.note(summary);
  return report;
}

}  // namespace

int main(int argc, char** argv) {
  Selection selection;
  CLI::App app("Six programs of dependent kernels, scheduled by hand and by Pergola.", "dag_bench");
  add_options(app, selection);
  return bench::run_main(app, argc, argv, [&](const bench::Options& options) {
    if (selection.bytes.empty() && selection.memory_percent == 0)
      selection.bytes = options.small ? std::vector<std::size_t>{1'000'000}
                                      : std::vector<std::size_t>{10'000'000, 100'000'000, 1'000'000'000};
    if (selection.bench.runs == 0) selection.bench.runs = options.small ? 1 : 30;
    return run(selection, options.report, argc, argv);
  });
}
