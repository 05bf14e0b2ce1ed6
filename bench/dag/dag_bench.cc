// Six programs of dependent kernels, each scheduled by hand in four ways and by Pergola: see README.md beside this
// file.
//
//   dag_bench [--small] [--only VEC,B&S,...] [--bytes 10M,100M,1G] [--block 256 | 32,64,...] [--runs N] [--untimed N]
//             [--forms A,B,...] [--pageable] [--alone] [--matrix FILE.mtx] [--kernels kernels.cu] [--report PATH]
//
// PERGOLA_DEVICE chooses the device.
//
// On a GPU all forms run, in turns; without one, Pergola alone. Every form's results are compared with a reference in
// double precision; the program fails where one differs.
#include <cstdio>
#include <filesystem>
#include <map>
#include <set>
#include <stdexcept>
#include <string>
#include <vector>

#include "../support/main.h"
#include "harness.h"
#include "src/source/source.h"

namespace {

using namespace dag;

constexpr std::size_t kMostByInt = 16'000'000'000;  // all kernels but VEC's index by int

struct Selection {
  std::vector<std::string> problems;
  std::vector<std::size_t> bytes;
  double memory_percent = 0;
  std::vector<unsigned> blocks{256};
  bool pageable = false;  // the host's memory, in place of page-locked
  BenchOptions bench{.runs = 0};
  std::string matrix, once, trace, kernels = DAG_BENCH_KERNELS;
};

const std::vector<std::pair<std::string, std::unique_ptr<Problem> (*)(Setup&)>> kProblems{
    {"VEC", make_vec}, {"B&S", make_black_scholes}, {"IMG", make_img},
    {"ML", make_ml},   {"HITS", make_hits},         {"DL", make_dl},
};

std::vector<std::string> problem_names() {
  std::vector<std::string> names;
  for (const auto& problem : kProblems) names.push_back(problem.first);
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
  const CLI::Validator whole_warps(
      [](const std::string& text) { return std::stoul(text) % 32 == 0 ? "" : text + " is no multiple of 32"; }, "");
  app.add_option("--block", selection.blocks, "Threads of a block, as in 32,64,1024")
      ->delimiter(',')
      ->check(CLI::Range(32, 1024))
      ->check(whole_warps);
  app.add_option("--runs", selection.bench.runs, "Measured runs of each form")->check(CLI::Range(1, 100'000));
  auto* const untimed =
      app.add_option("--untimed", selection.bench.untimed, "Runs of the same form before each measured one")
          ->capture_default_str()
          ->check(CLI::Range(1, 1000));
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

// The kernels as PTX, once for all forms.
std::string compiled(const std::string& path, const pergola_device_info& device, bool on_gpu) {
  auto request = pergola::source::load_file(path);
  if (!request) throw std::runtime_error(request.message());
  if (on_gpu) request->arch = "sm_" + std::to_string(device.compute_major) + std::to_string(device.compute_minor);
  auto result = pergola::source::compile(*request);
  if (!result) throw std::runtime_error(result.message());
  return result->ptx;
}

// Whole gigabytes, at least one.
std::size_t share_of(const pergola_device_info& device, double percent) {
  constexpr std::size_t kUnit = 1'000'000'000;
  return std::max<std::size_t>(
             1, static_cast<std::size_t>(static_cast<double>(device.memory_bytes) * percent / 100) / kUnit) *
         kUnit;
}

bench::Report run(Selection selection, const std::string& report_path, int argc, char** argv) {
  pergola::Session session;
  const pergola_device_info device = session.device();
  if (selection.memory_percent != 0) selection.bytes.push_back(share_of(device, selection.memory_percent));
  const bool on_gpu = std::string(device.id).starts_with("cuda");
  if (on_gpu && std::string(device.id) != "cuda:0")
    throw std::runtime_error("The hand-written forms run on cuda:0; the device is " + std::string(device.id) +
                             ". CUDA_VISIBLE_DEVICES can make another GPU the first.");
  const std::string ptx = compiled(selection.kernels, device, on_gpu);
  const std::unique_ptr<Gpu> gpu = on_gpu ? std::make_unique<Gpu>(ptx) : nullptr;
  bench::Report report("dag", {device.name, device.driver}, argc, argv);
  BenchOptions options = selection.bench;
  options.is_staged = selection.pageable || gpu == nullptr;
  Bench bench(gpu.get(), ptx, report, std::move(options));
  std::set<std::string> noted;
  for (const auto& [name, make] : kProblems) {
    bool wanted = selection.problems.empty();
    for (const std::string& given : selection.problems) wanted |= given == name;
    if (!wanted) continue;
    for (const std::size_t bytes : selection.bytes) {
      for (const unsigned block : selection.blocks) {
        if (bytes > kMostByInt && name != "VEC")
          throw std::runtime_error("The kernels of " + name + " index by int, up to " + std::to_string(kMostByInt) +
                                   " bytes; --only VEC takes more.");
        if (gpu) gpu->enter();
        HostMemory memory(selection.pageable ? nullptr : gpu.get());
        Setup setup{memory, bytes, block, selection.matrix, ""};
        const auto problem = make(setup);
        if (!setup.notes.empty() && noted.insert(setup.notes).second) report.note(setup.notes + "\n\n");
        nlohmann::json params{{"bytes", bytes}, {"block", block}};
        if (selection.pageable) params["host"] = "pageable";
        if (selection.bench.alone) params["forms"] = "alone";
        if (selection.bench.after_others) params["runs"] = "after others'";
        if (selection.bench.untimed != BenchOptions().untimed) params["untimed"] = selection.bench.untimed;
        if (!selection.once.empty()) {
          bench.run_once(*problem, selection.once, selection.trace);
          continue;
        }
        bench.run(*problem, params);
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
