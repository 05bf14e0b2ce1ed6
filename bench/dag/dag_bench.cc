// Six programs of dependent kernels, each scheduled by hand in four ways and by Pergola: see README.md beside this
// file.
//
//   dag_bench [--small] [--only VEC,B&S,...] [--bytes 10M,100M,1G] [--block 256 | 32,64,...] [--runs N] [--pageable]
//             [--matrix FILE.mtx] [--kernels kernels.cu] [--report PATH]        PERGOLA_DEVICE chooses the device
//
// On a GPU all forms run, in turns; without one, Pergola alone. Every form's results are compared with a reference in
// double precision; the program fails where one differs.
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <filesystem>
#include <map>
#include <set>
#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

#include "../support/report.h"
#include "harness.h"
#include "src/source/source.h"

namespace {

using namespace dag;

struct Options {
  std::vector<std::string> problems;
  std::vector<std::size_t> bytes{10'000'000, 100'000'000, 1'000'000'000};
  std::vector<unsigned> blocks{256};
  int runs = 30;
  bool pageable = false;  // the host's memory, in place of page-locked
  std::string matrix, kernels = DAG_BENCH_KERNELS, report;
};

const std::vector<std::pair<std::string, std::unique_ptr<Problem> (*)(Setup&)>> kProblems{
    {"VEC", make_vec}, {"B&S", make_black_scholes}, {"IMG", make_img},
    {"ML", make_ml},   {"HITS", make_hits},         {"DL", make_dl},
};

[[noreturn]] void usage(const std::string& wrong) {
  std::fprintf(stderr,
               "dag_bench: %s\nusage: dag_bench [--small] [--only VEC,B&S,IMG,ML,HITS,DL] [--bytes 10M,100M,1G]\n"
               "                 [--block 32,64,...,1024] [--runs N] [--pageable] [--matrix FILE.mtx]\n"
               "                 [--kernels FILE.cu] [--report PATH]   (PATH.json and PATH.md are written)\n",
               wrong.c_str());
  std::exit(2);
}

std::vector<std::string> parts_of(const std::string& text) {
  std::vector<std::string> parts;
  std::stringstream in(text);
  for (std::string part; std::getline(in, part, ',');) parts.push_back(part);
  return parts;
}

// "100M": 1 MB to 16 GB, as kernels index by int.
std::size_t bytes_of(const std::string& text) {
  const std::map<char, double> units{{'K', 1e3}, {'M', 1e6}, {'G', 1e9}};
  char* end = nullptr;
  double value = std::strtod(text.c_str(), &end);
  if (const auto unit = units.find(*end); unit != units.end()) {
    value *= unit->second;
    ++end;
  }
  if (end == text.c_str() || *end != '\0' || !(value >= 1e6 && value <= 16e9))
    usage("--bytes takes 1M to 16G, not '" + text + "'");
  return static_cast<std::size_t>(value);
}

int whole_number(const std::string& option, const std::string& text, int low, int high) {
  char* end = nullptr;
  const long value = std::strtol(text.c_str(), &end, 10);
  if (end == text.c_str() || *end != '\0' || value < low || value > high)
    usage(option + " takes " + std::to_string(low) + " to " + std::to_string(high) + ", not '" + text + "'");
  return static_cast<int>(value);
}

Options options_of(int argc, char** argv) {
  Options options;
  for (int i = 1; i < argc; ++i) {
    const std::string option = argv[i];
    if (option == "--small") {
      options.bytes = {1'000'000};
      options.runs = 1;
      continue;
    }
    if (option == "--pageable") {
      options.pageable = true;
      continue;
    }
    if (i + 1 == argc) usage("'" + option + "' is unknown, or needs a value");
    const std::string value = argv[++i];
    if (option == "--only") {
      options.problems = parts_of(value);
    } else if (option == "--bytes") {
      options.bytes.clear();
      for (const std::string& part : parts_of(value)) options.bytes.push_back(bytes_of(part));
    } else if (option == "--block") {
      options.blocks.clear();
      for (const std::string& part : parts_of(value)) {
        options.blocks.push_back(static_cast<unsigned>(whole_number(option, part, 32, 1024)));
        if (options.blocks.back() % 32 != 0) usage("--block takes multiples of 32, not " + part);
      }
    } else if (option == "--runs") {
      options.runs = whole_number(option, value, 1, 100000);
    } else if (option == "--matrix") {
      options.matrix = value;
    } else if (option == "--kernels") {
      options.kernels = value;
    } else if (option == "--report") {
      options.report = value;
    } else {
      usage("'" + option + "' is unknown");
    }
  }
  for (const std::string& name : options.problems) {
    bool known = false;
    for (const auto& problem : kProblems) known |= problem.first == name;
    if (!known) usage("there is no problem '" + name + "'");
  }
  return options;
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

bool run(const Options& options, int argc, char** argv) {
  pergola::Session session;
  const pergola_device_info device = session.device();
  const bool on_gpu = std::string(device.id).starts_with("cuda");
  if (on_gpu && std::string(device.id) != "cuda:0")
    throw std::runtime_error("The hand-written forms run on cuda:0; the device is " + std::string(device.id) +
                             ". CUDA_VISIBLE_DEVICES can make another GPU the first.");
  const std::string ptx = compiled(options.kernels, device, on_gpu);
  const std::unique_ptr<Gpu> gpu = on_gpu ? std::make_unique<Gpu>(ptx) : nullptr;
  bench::Report report("dag", {device.name, device.driver}, argc, argv);
  Bench bench(gpu.get(), ptx, report, options.runs);
  std::set<std::string> noted;
  for (const auto& [name, make] : kProblems) {
    bool wanted = options.problems.empty();
    for (const std::string& given : options.problems) wanted |= given == name;
    if (!wanted) continue;
    for (const std::size_t bytes : options.bytes) {
      for (const unsigned block : options.blocks) {
        if (gpu) gpu->enter();
        HostMemory memory(options.pageable ? nullptr : gpu.get());
        Setup setup{memory, bytes, block, options.matrix, ""};
        const auto problem = make(setup);
        if (!setup.notes.empty() && noted.insert(setup.notes).second) report.note(setup.notes + "\n\n");
        nlohmann::json params{{"bytes", bytes}, {"block", block}};
        if (options.pageable) params["host"] = "pageable";
        bench.run(*problem, params);
        if (!options.report.empty()) report.write(options.report);  // a run that is cut short leaves what it has
      }
    }
  }
  const std::string summary = bench.summary();
  std::printf("\n%s", summary.c_str());
  report.note(summary);
  if (!options.report.empty()) report.write(options.report);
  return report.all_checked();
}

}  // namespace

int main(int argc, char** argv) try {
  if (run(options_of(argc, argv), argc, argv)) return 0;
  std::fprintf(stderr, "dag_bench: a result differs from its reference.\n");
  return 1;
} catch (const std::exception& error) {
  std::fprintf(stderr, "dag_bench: %s\n", error.what());
  return 1;
}
