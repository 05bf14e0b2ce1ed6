// Three tables of Pagoda's paper (section 6) that narrow_bench has no place for: see README.md beside this file.
//
//   narrow_figures_bench [--small] [--figures parts,sizes,occupancy,launches] [--tasks N] [--runs N] [--fences on|off]
//                        [--kernels FOLDER] [--report PATH]
//
//   parts      Figure 7: the executor on a quarter, a half and all of the multiprocessors
//   sizes      Figure 11: MM and CONV by input size and threads a task, up to 64 K
//   occupancy  Table 5: DCT and MM with shared memory and without, and how many warps are at work on average
//   launches   not of the paper: ordinary launches that are independent, with tasks=off and with tasks=small
//
// On a GPU beside streams, and for the occupancy beside one fused grid; without one, on the CPU device beside ordinary
// launches. All results are compared with a reference.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <set>
#include <stdexcept>
#include <string>
#include <vector>

#include "../support/main.h"
#include "harness.h"
#include "src/source/source.h"

namespace {

using namespace narrow;

struct Selection {
  std::vector<std::string> figures{"parts", "sizes", "occupancy", "launches"};
  std::size_t tasks = 0;
  int runs = 0;
  bool small = false;
  std::string fences = "off";
  std::string kernels = NARROW_BENCH_FOLDER;
};

std::string compiled(const std::string& path, const pergola_device_info& device) {
  auto request = pergola::source::load_file(path);
  if (!request) throw std::runtime_error(request.message());
  request->arch = "sm_" + std::to_string(device.compute_major) + std::to_string(device.compute_minor);
  auto result = pergola::source::compile(*request);
  if (!result) throw std::runtime_error(result.message());
  return result->ptx;
}

std::unique_ptr<Problem> problem_of(const std::string& name, std::unique_ptr<Kind> kind, std::size_t tasks, int size,
                                    unsigned threads) {
  const std::string kernel = kind->kernel;
  std::vector<std::unique_ptr<Kind>> kinds;
  kinds.push_back(std::move(kind));
  return std::make_unique<Problem>(name, kernel, std::move(kinds), tasks,
                                   [=](std::size_t) { return Problem::Shape{0, size, threads}; });
}

// Of the stamps that tasks have left: how many warps were at work on average, from the first one's begin to the last
// one's end, and for how long that was.
struct AtWork {
  double warps = 0, ms = 0;
};
AtWork at_work(const Problem& problem, const std::vector<std::byte>& scratch) {
  std::uint64_t first = ~std::uint64_t{0}, last = 0;
  double busy_ns = 0;
  for (const Task& task : problem.tasks())
    for (std::size_t at = task.scratch; at < task.scratch + task.bytes.scratch; at += 16) {
      std::uint64_t stamp[2];
      std::memcpy(stamp, scratch.data() + at, sizeof stamp);
      first = std::min(first, stamp[0]), last = std::max(last, stamp[1]);
      busy_ns += static_cast<double>(stamp[1] - stamp[0]);
    }
  const auto ns = static_cast<double>(last - first);
  return {ns == 0 ? 0 : busy_ns / ns, ns * 1e-6};
}

class Figures {
 public:
  Figures(const Selection& selection, const bench::Gpu* gpu, const pergola_device_info& device, bench::Report& report)
      : selection_(selection),
        gpu_(gpu),
        device_(device),
        report_(report),
        bench_(gpu, selection.kernels + "/kernels.cu", report, selection.runs, {}) {
    bench_.copies = false;
  }

  // Figure 7.
  void parts() {
    char cell[160];
    table_ +=
        "\nFigure 7, milliseconds of all tasks and, behind it, the speed of the whole:\n\n"
        "| problem | quarter | half | all |\n|---|---|---|---|\n";
    const auto problems = make_problems(selection_.tasks);
    for (const auto& problem : problems) {
      if (problem->is_irregular || problem->is_variant) continue;
      if (selection_.small && problem->name() != "MM" && problem->name() != "MB") continue;
      prepare(*problem);
      double ms[3] = {};
      const unsigned parts[] = {4, 2, 1};
      for (std::size_t i = 0; i < 3; ++i) {
        const pergola::Session session;
        const auto data = make_pergola_data(session, session.load(bench_.kernels_path()), *problem);
        const std::uint32_t blocks = std::max(1u, device_.sm_count / parts[i]);
        const pergola::TaskPool pool = session.task_pool({.blocks = parts[i] == 1 ? 0 : blocks});
        Bench::Subject subject = subject_of(*problem);
        subject.params["part"] = 1.0 / parts[i];
        ms[i] = bench_.measure(subject, *make_tasks(data, pool, 1, false));
      }
      release(*problem);
      std::snprintf(cell, sizeof cell, "| %s | %.3f, %.2f | %.3f, %.2f | %.3f |\n", problem->name().c_str(), ms[0],
                    ms[2] / ms[0], ms[1], ms[2] / ms[1], ms[2]);
      table_ += cell;
    }
  }

  // Figure 11.
  void sizes() {
    const std::vector<unsigned> threads = selection_.small
                                              ? std::vector<unsigned>{32, 256, 512}
                                              : std::vector<unsigned>{32, 128, 512, 2048, 8192, 32768, 65536};
    table_ += "\nFigure 11, how many times as fast the pool's tasks are as " + std::string(other_name()) +
              ", by threads a task:\n\n| problem |";
    for (const unsigned count : threads) table_ += " " + std::to_string(count) + " |";
    table_ += "\n|---|";
    for (std::size_t i = 0; i < threads.size(); ++i) table_ += "---|";
    table_ += "\n";
    for (const char* name : {"MM", "CONV"})
      for (const int size : selection_.small ? std::vector<int>{64} : std::vector<int>{64, 128, 256}) {
        const std::size_t tasks = std::max<std::size_t>(1, selection_.tasks * 64 / static_cast<std::size_t>(size));
        const bool is_product = std::string_view(name) == "MM";
        const auto problem = problem_of(
            name, is_product ? make_product("product_grid") : make_convolution("convolution_grid"), tasks, size, 32);
        prepare(*problem);
        table_ += "| " + problem->name() + " " + std::to_string(size) + " |";
        for (const unsigned count : threads) one_size(*problem, size, count);
        release(*problem);
        table_ += "\n";
      }
  }

  // Table 5.
  void occupancy() {
    struct Row {
      const char *name, *kernel;
      int size;
      unsigned threads;
    };
    constexpr Row kRows[] = {{"DCT-shared", "cosine_shared", 128, 64},
                             {"DCT-64", "cosine", 128, 64},
                             {"MM-256", "product_tiled", 64, 256},
                             {"MM-plain-256", "product_plain", 64, 256}};
    const auto kind_of = [](const Row& row) {
      return std::string_view(row.name).starts_with("DCT") ? make_cosine(row.kernel) : make_product(row.kernel);
    };
    table_ +=
        "\nTable 5, occupancy: warps at work on average, of those that the device holds:\n\n"
        "| problem | over " +
        std::string(other_name()) +
        " with shared memory | pool: occupancy | of its executor warps | fused: occupancy | its blocks could "
        "have |\n|---|---|---|---|---|---|\n";
    double with_shared = 0;
    for (const Row& row : kRows) {
      const auto problem = problem_of(row.name, kind_of(row), selection_.tasks, row.size, row.threads);
      prepare(*problem);
      const Bench::Subject subject = subject_of(*problem);
      const double other = measure_other(subject, *problem);
      if (row.kernel == std::string_view("cosine_shared") || row.kernel == std::string_view("product_tiled"))
        with_shared = other;
      const double own = measure_pool(subject, *problem);
      if (gpu_ != nullptr) {
        const DeviceData data(*gpu_, *problem);
        bench_.measure(subject, *make_fused(data));
      }
      release(*problem);
      const auto stamped =
          problem_of(row.name, make_stamped(kind_of(row), row.threads), selection_.tasks, row.size, row.threads);
      add_occupancy(*stamped, row.kernel, with_shared / own);
    }
  }

  // A launch on each of many arrays, round by round; the pool's tasks beside them.
  void launches() {
    table_ +=
        "\nOrdinary launches that are independent, microseconds a launch:\n\n"
        "| steps of a launch | tasks=off | tasks=small | times as fast | became tasks |\n|---|---|---|---|---|\n";
    for (const int steps : selection_.small ? std::vector<int>{10} : std::vector<int>{10, 500, 5000}) {
      const auto [off, none] = independent(steps, "tasks=off");
      const auto [small, share] = independent(steps, "tasks=small");
      char cells[160];
      std::snprintf(cells, sizeof cells, "| %d | %.2f | %.2f | %.2f | %.0f %% |\n", steps, off, small, off / small,
                    100 * share);
      table_ += cells;
    }
  }

  const std::string& table() const { return table_; }

 private:
  // Microseconds a launch, and which share of the launches became tasks.
  std::pair<double, double> independent(int steps, const std::string& policy) {
    const std::size_t arrays = selection_.small ? 32 : 1024;
    const pergola::Session session("", policy);
    const pergola::Kernel kernel = session.load(bench_.kernels_path()).kernel("busy");
    std::vector<pergola::Array<float>> outs;
    for (std::size_t i = 0; i < arrays; ++i) outs.push_back(session.array<float>(128, 0.f));
    session.synchronize();
    const auto round = [&] {
      for (std::size_t i = 0; i < arrays; ++i) kernel(pergola::grid(1, 128), outs[i], steps, static_cast<float>(i));
      session.synchronize();
    };
    // Until the kernel is timed and made a task, which another thread does.
    const auto start = std::chrono::steady_clock::now();
    while (bench::ms_since(start) < (selection_.small ? 300 : 2000)) round();
    const double before = launches_as_tasks(session);
    const auto times = bench::time_ms(selection_.runs, round);
    const double share = (launches_as_tasks(session) - before) / static_cast<double>(arrays * (times.size() + 1));
    bool right = true;
    for (std::size_t i = 0; i < arrays; ++i) {
      float expected = static_cast<float>(i) + 127.f;
      for (int step = 0; step < steps; ++step) expected = std::fma(expected, 1.0001f, 0.5f);
      right &= outs[i].read()[127] == expected;
    }
    report_.add("independent-launches", "pergola-launches",
                {{"policy", policy}, {"launches", arrays}, {"steps", steps}, {"as_tasks", share}}, times, right);
    std::vector<double> sorted = times;
    std::sort(sorted.begin(), sorted.end());
    return {sorted[sorted.size() / 2] * 1e3 / static_cast<double>(arrays), share};
  }
  static double launches_as_tasks(const pergola::Session& session) {
    const auto report = nlohmann::json::parse(session.graphs("json"));
    if (!report.contains("tasks")) return 0;
    double sum = 0;
    for (const auto& one : report["tasks"]["kernels"]) sum += one["tasks"].get<double>();
    return sum;
  }

  const char* other_name() const { return gpu_ != nullptr ? "streams" : "ordinary launches"; }
  void prepare(Problem& problem) const {
    if (gpu_ != nullptr) gpu_->enter();
    problem.prepare(gpu_);
  }
  void release(Problem& problem) const {
    if (gpu_ != nullptr) gpu_->enter();
    problem.release();
  }
  static Bench::Subject subject_of(const Problem& problem) {
    return {problem.name(), {{"tasks", problem.tasks().size()}}, false,
            true,           [&] { problem.clobber(); },          [&] { return problem.is_right(); }};
  }

  // The best of streams, or the CPU device's ordinary launches.
  double measure_other(const Bench::Subject& subject, const Problem& problem) {
    if (gpu_ == nullptr)
      return bench_.measure(subject,
                            *make_launches(make_pergola_data(bench_.in_order(), bench_.in_order_module(), problem)));
    const DeviceData data(*gpu_, problem);
    double best = 1e300;
    for (const unsigned host_threads : {1u, 4u})
      best = std::min(best, bench_.measure(subject, *make_streams(data, host_threads)));
    return best;
  }
  double measure_pool(const Bench::Subject& subject, const Problem& problem) {
    const pergola::Session session;
    const auto data = make_pergola_data(session, session.load(bench_.kernels_path()), problem);
    const pergola::TaskPool pool = session.task_pool();
    double best = 1e300;
    for (const unsigned host_threads : {1u, 4u})
      best = std::min(best, bench_.measure(subject, *make_tasks(data, pool, host_threads, false)));
    return best;
  }

  // Blocks of at most 256 threads, as the paper's HyperQ programs have them.
  void one_size(Problem& problem, int size, unsigned threads) {
    const unsigned block = std::min(threads, 256u);
    problem.reshape(threads / block, block);
    Bench::Subject subject = subject_of(problem);
    subject.params["size"] = size;
    subject.params["threads"] = threads;
    const double other = measure_other(subject, problem), own = measure_pool(subject, problem);
    char cell[40];
    std::snprintf(cell, sizeof cell, " %.2f |", other / own);
    table_ += cell;
    std::fflush(stdout);
  }

  // A run with stamps, whose time is not compared with any other's.
  void add_occupancy(Problem& stamped, const std::string& kernel, double speed) {
    prepare(stamped);
    const double held = device_.sm_count * (gpu_ != nullptr ? gpu_->most_warps() : 64);
    char cells[200];
    AtWork pool_work;
    double executors = 0;
    {
      const pergola::Session session;
      const auto data = make_pergola_data(session, session.load(bench_.kernels_path()), stamped);
      const pergola::TaskPool pool = session.task_pool();
      const auto form = make_tasks(data, pool, 4, false);
      pool_work = run_stamped(stamped, *form, [&] { return scratch_of(*data); });
      executors = pool.info().blocks * 31.0;
      add_row(stamped, *form, pool_work, held, {{"executor_warps", executors}});
    }
    AtWork fused_work;
    double could = 0;
    if (gpu_ != nullptr) {
      gpu_->enter();
      const DeviceData data(*gpu_, stamped);
      const auto form = make_fused(data);
      fused_work = run_stamped(stamped, *form, [&] { return data.scratch(); });
      could = gpu_->resident_warps(gpu_->function("fused_" + kernel), static_cast<int>(stamped.most_threads())) /
              static_cast<double>(gpu_->most_warps());
      add_row(stamped, *form, fused_work, held, {{"could_be", could}});
    }
    release(stamped);
    std::snprintf(cells, sizeof cells, "| %s | %.2f | %.2f | %.2f | %.2f | %.2f |\n", stamped.name().c_str(), speed,
                  pool_work.warps / held, pool_work.warps / executors, fused_work.warps / held, could);
    table_ += cells;
  }
  template <typename Scratch>
  static AtWork run_stamped(const Problem& problem, Form& form, const Scratch& scratch) {
    form.load();
    form.run(Measure::kCompute);  // the first one compiles and starts what is to run
    problem.clobber();
    form.clobber();
    form.run(Measure::kCompute);
    form.fetch(Measure::kCompute);
    return at_work(problem, scratch());
  }
  void add_row(const Problem& problem, const Form& form, const AtWork& work, double held, nlohmann::json more) {
    nlohmann::json params = {{"tasks", problem.tasks().size()}, {"measure", "occupancy"}};
    params.update(form.params);
    params.update(more);
    params["occupancy"] = work.warps / held;
    report_.add(problem.name(), form.name, params, {work.ms}, problem.is_right() && work.warps > 0);
  }

  const Selection& selection_;
  const bench::Gpu* const gpu_;
  const pergola_device_info device_;
  bench::Report& report_;
  Bench bench_;
  std::string table_;
};

bench::Report run(const Selection& selection, int argc, char** argv) {
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
  bench::Report report("narrow-figures", {device.name, device.driver}, argc, argv);
  Figures figures(selection, gpu.get(), device, report);
  const std::set<std::string> wanted(selection.figures.begin(), selection.figures.end());
  if (wanted.contains("parts")) figures.parts();
  if (wanted.contains("sizes")) figures.sizes();
  if (wanted.contains("occupancy")) figures.occupancy();
  if (wanted.contains("launches")) figures.launches();
  std::printf("%s", figures.table().c_str());
  report.note(figures.table());
  return report;
}

}  // namespace

int main(int argc, char** argv) {
  Selection selection;
  CLI::App app("Narrow tasks by parts of the device, input sizes and occupancy.", "narrow_figures_bench");
  app.add_option("--figures", selection.figures, "These alone, of parts,sizes,occupancy,launches")
      ->delimiter(',')
      ->check(CLI::IsMember({"parts", "sizes", "occupancy", "launches"}));
  app.add_option("--tasks", selection.tasks, "Tasks of a problem; of sizes, where the input is the smallest")
      ->check(CLI::Range(8, 100'000));
  app.add_option("--runs", selection.runs, "Measured runs of each form, at most")->check(CLI::Range(1, 10'000));
  app.add_option("--fences", selection.fences, "Fences around the pool's tasks: on, off")
      ->check(CLI::IsMember({"on", "off"}));
  app.add_option("--kernels", selection.kernels, "The folder of kernels.cu and by_hand.cu");
  return bench::run_main(app, argc, argv, [&](const bench::Options& options) {
    selection.small = options.small;
    if (selection.tasks == 0) selection.tasks = options.small ? 8 : 8192;
    if (selection.runs == 0) selection.runs = options.small ? 1 : 5;
    return run(selection, argc, argv);
  });
}
