// Narrow tasks in several forms, by hand and by Pergola: see README.md beside this file.
//
//   narrow_bench [--small] [--tasks N] [--only MB,SLUD,...] [--forms streams,pergola,...] [--runs N]
//                [--pool-blocks N] [--fences on|off] [--kernels FOLDER] [--report PATH] PERGOLA_DEVICE chooses the
//                device
//
// On a GPU all forms run; without one, the host's cores and Pergola on the CPU device. Every form's results are
// compared with a reference, over all tasks; the program fails where one differs.
#include <cstdio>
#include <cstdlib>
#include <set>
#include <stdexcept>
#include <string>
#include <vector>

#include "../support/main.h"
#include "harness.h"
#include "sparse_lu.h"
#include "src/source/source.h"

namespace {

using namespace narrow;

struct Selection {
  std::vector<std::string> problems, forms;
  std::size_t tasks = 0;
  int runs = 0;
  std::uint32_t pool_blocks = 0;
  std::string fences = "off";
  std::string kernels = NARROW_BENCH_FOLDER;
};

void add_options(CLI::App& app, Selection& selection) {
  app.add_option("--only", selection.problems, "These problems alone, as in MB,MM-plain,SLUD")->delimiter(',');
  app.add_option("--forms", selection.forms, "These forms alone, as in streams,pergola")->delimiter(',');
  app.add_option("--tasks", selection.tasks, "Tasks of a problem; SLUD takes the matrix that has about 8 times as many")
      ->check(CLI::Range(32, 1'000'000));
  app.add_option("--runs", selection.runs, "Measured runs of each form, at most")->check(CLI::Range(1, 10'000));
  app.add_option("--pool-blocks", selection.pool_blocks, "Blocks of Pergola's resident kernel, if not all (Figure 7)");
  app.add_option("--fences", selection.fences, "Fences around Pergola's tasks, a pool's default, or none: on, off")
      ->check(CLI::IsMember({"on", "off"}));
  app.add_option("--kernels", selection.kernels, "The folder of kernels.cu and by_hand.cu");
}

// The kernels and what is written by hand of them, as PTX for the driver.
std::string compiled(const std::string& path, const pergola_device_info& device) {
  auto request = pergola::source::load_file(path);
  if (!request) throw std::runtime_error(request.message());
  request->arch = "sm_" + std::to_string(device.compute_major) + std::to_string(device.compute_minor);
  auto result = pergola::source::compile(*request);
  if (!result) throw std::runtime_error(result.message());
  return result->ptx;
}

void refuse_unknown(const Selection& selection, const std::vector<std::unique_ptr<Problem>>& problems) {
  for (const std::string& given : selection.problems) {
    bool known = given == "SLUD";
    for (const auto& problem : problems) known |= problem->name() == given;
    if (!known)
      throw std::runtime_error("There is no problem '" + given + "'; README.md beside the program has their names.");
  }
}

bench::Report run(const Selection& selection, const std::string& report_path, int argc, char** argv) {
  if (!__builtin_cpu_supports("avx2") || !__builtin_cpu_supports("fma"))
    throw std::runtime_error("The host's forms are compiled for x86-64-v3 (AVX2, FMA), which this machine has not.");
  setenv("PERGOLA_TASK_FENCES", selection.fences.c_str(), 1);  // of every pool of the process
  const pergola::Session session;
  const pergola_device_info device = session.device();
  const std::string id = device.id;
  const bool on_gpu = id.starts_with("cuda");
  if (on_gpu && id != "cuda:0")
    throw std::runtime_error("The hand-written forms run on cuda:0; the device is " + id +
                             ". CUDA_VISIBLE_DEVICES can make another GPU the first.");
  const std::unique_ptr<bench::Gpu> gpu =
      on_gpu ? std::make_unique<bench::Gpu>(compiled(selection.kernels + "/by_hand.cu", device)) : nullptr;
  bench::Report report("narrow", {device.name, device.driver}, argc, argv);
  Bench bench(gpu.get(), selection.kernels + "/kernels.cu", report, selection.runs,
              {selection.forms.begin(), selection.forms.end()});
  bench.pool_blocks = selection.pool_blocks;
  const auto problems = make_problems(selection.tasks);
  refuse_unknown(selection, problems);
  const auto wanted = [&](const std::string& name) {
    bool found = selection.problems.empty();
    for (const std::string& given : selection.problems) found |= given == name;
    return found;
  };
  const auto save = [&] {
    if (!report_path.empty()) report.write(report_path);  // a run that is cut short leaves what it has
    std::fflush(stdout);
  };
  if (wanted("SLUD")) {
    run_sparse_lu(bench, gpu.get(), selection.tasks * 273 / 32);
    save();
  }
  for (const auto& problem : problems) {
    if (!wanted(problem->name())) continue;
    bench.run(*problem);
    save();
  }
  const std::string summary = bench.summary();
  std::printf("\n%s", summary.c_str());
  report.note(summary);
  return report;
}

}  // namespace

int main(int argc, char** argv) {
  Selection selection;
  CLI::App app("Narrow tasks in several forms, by hand and by Pergola.", "narrow_bench");
  add_options(app, selection);
  return bench::run_main(app, argc, argv, [&](const bench::Options& options) {
    if (selection.tasks == 0) selection.tasks = options.small ? 64 : 32768;
    if (selection.runs == 0) selection.runs = options.small ? 1 : 10;
    // A barrier, none, early returns, dependent tasks, mixed ones, irregular ones: the variants take the same paths.
    if (options.small && selection.problems.empty())
      selection.problems = {"MB", "MM", "3DES", "DCT-shared", "SLUD", "MPE", "FB-irregular"};
    return run(selection, options.report, argc, argv);
  });
}
