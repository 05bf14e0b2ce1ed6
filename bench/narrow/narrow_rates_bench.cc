// What narrow tasks cost by themselves: tasks that do nothing, by the count of host threads that spawn them and by
// their width; one task alone, there and back; tasks of about 1, 10, 50 and 200 microseconds. Beside them, on a GPU,
// launches on 32 streams, a wide graph, and one grid of as many blocks.
//
//   narrow_rates_bench [--small] [--tasks N] [--runs N] [--only PROBLEMS] [--pool-blocks N] [--kernels FOLDER]
//                      [--report PATH]
//
// Times are of all tasks of a row; the rates are in the notes. Every pool is checked to have run each task exactly
// once.
#include <algorithm>
#include <array>
#include <atomic>
#include <cmath>
#include <cstdio>
#include <exception>
#include <optional>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "../support/gpu.h"
#include "../support/main.h"
#include "pergola/pergola.hpp"
#include "pergola/tasks.hpp"
#include "src/source/source.h"

namespace {

using bench::check;
using namespace bench::cuda;
using Clock = std::chrono::steady_clock;

constexpr std::size_t kStreams = 32;
constexpr unsigned kThreads = 128;

struct Selection {
  std::size_t tasks = 0;
  int runs = 0;
  bool small = false;
  std::uint32_t pool_blocks = 0;
  std::vector<std::string> only;
  std::string kernels = NARROW_BENCH_FOLDER;
};

struct BusyParameters {
  std::uint64_t out;
  std::int32_t steps;
  float value;
};
struct CountParameters {
  std::uint64_t counters;
  std::int32_t index;
};

// body(first, step) on so many threads; rethrows what one of them throws.
template <typename Body>
void on_threads(unsigned threads, const Body& body) {
  std::vector<std::exception_ptr> failed(threads);
  std::vector<std::thread> others;
  const auto guarded = [&](unsigned t) {
    try {
      body(t, threads);
    } catch (...) {
      failed[t] = std::current_exception();
    }
  };
  for (unsigned t = 1; t < threads; ++t) others.emplace_back(guarded, t);
  guarded(0);
  for (std::thread& other : others) other.join();
  for (const std::exception_ptr& one : failed)
    if (one) std::rethrow_exception(one);
}

// The same tasks by the driver.
class Driver {
 public:
  explicit Driver(const std::string& ptx) : gpu_(ptx) {
    for (CUstream& stream : streams_) check(gpu_->cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING), "making a stream");
    check(gpu_->cuMemAlloc(&out_, kThreads * sizeof(float)), "allocating");
  }
  ~Driver() {
    gpu_->cuMemFree(out_);
    for (CUstream stream : streams_) gpu_->cuStreamDestroy(stream);
  }
  Driver(const Driver&) = delete;
  Driver& operator=(const Driver&) = delete;

  struct Work {
    CUfunction kernel = nullptr;
    std::vector<void*> parameters;
  };
  Work empty() { return {gpu_.function("empty"), {&nothing_}}; }
  Work busy(int steps) {
    steps_ = steps;
    return {gpu_.function("busy"), {&out_, &steps_, &value_}};
  }

  void streams(Work& work, std::size_t tasks, unsigned host_threads) {
    on_threads(host_threads, [&](unsigned first, unsigned step) {
      gpu_.enter();
      for (std::size_t i = first; i < tasks; i += step) launch(work, 1, streams_[i % kStreams]);
    });
    for (CUstream stream : streams_) check(gpu_->cuStreamSynchronize(stream), "waiting for a stream");
  }
  void fused(Work& work, std::size_t tasks) {
    launch(work, static_cast<unsigned>(tasks), streams_[0]);
    check(gpu_->cuStreamSynchronize(streams_[0]), "waiting for the grid");
  }
  CUgraphExec make_graph(Work& work, std::size_t tasks) {
    CUgraph graph = nullptr;
    check(gpu_->cuGraphCreate(&graph, 0), "making a graph");
    CUDA_KERNEL_NODE_PARAMS node{};
    node.func = work.kernel;
    node.gridDimX = node.gridDimY = node.gridDimZ = 1;
    node.blockDimX = kThreads, node.blockDimY = node.blockDimZ = 1;
    node.kernelParams = work.parameters.data();
    for (std::size_t i = 0; i < tasks; ++i) {
      CUgraphNode made = nullptr;
      check(gpu_->cuGraphAddKernelNode(&made, graph, nullptr, 0, &node), "adding a node");
    }
    CUgraphExec executable = nullptr;
    check(gpu_->cuGraphInstantiateWithFlags(&executable, graph, 0), "instantiating a graph");
    check(gpu_.upload_graph(executable, streams_[0]), "uploading a graph");
    check(gpu_->cuStreamSynchronize(streams_[0]), "uploading a graph");
    check(gpu_->cuGraphDestroy(graph), "giving a graph up");
    return executable;
  }
  void run(CUgraphExec graph) {
    check(gpu_->cuGraphLaunch(graph, streams_[0]), "launching a graph");
    check(gpu_->cuStreamSynchronize(streams_[0]), "waiting for a graph");
  }
  void drop(CUgraphExec graph) { gpu_->cuGraphExecDestroy(graph); }
  void enter() const { gpu_.enter(); }
  std::array<float, kThreads> out() const {
    std::array<float, kThreads> values{};
    check(gpu_->cuMemcpyDtoHAsync(values.data(), out_, sizeof values, streams_[0]), "copying a result");
    check(gpu_->cuStreamSynchronize(streams_[0]), "copying a result");
    return values;
  }

 private:
  void launch(Work& work, unsigned blocks, CUstream stream) {
    check(gpu_.launch_kernel(work.kernel, blocks, 1, 1, kThreads, 1, 1, 0, stream, work.parameters.data(), nullptr),
          "launching a task");
  }
  bench::Gpu gpu_;
  std::array<CUstream, kStreams> streams_{};
  CUdeviceptr nothing_ = 0, out_ = 0;
  int steps_ = 0;
  float value_ = 1;
};

class RatesBench {
 public:
  RatesBench(const Selection& selection, bench::Report& report, std::unique_ptr<Driver> driver)
      : selection_(selection), report_(report), driver_(std::move(driver)) {}

  void run() {
    const auto wants = [&](const char* problem) {
      return selection_.only.empty() ||
             std::find(selection_.only.begin(), selection_.only.end(), problem) != selection_.only.end();
    };
    if (wants("empty-rate")) empty_by_producers();
    if (wants("round-trip")) round_trips();
    if (wants("work-rate")) by_work();
    if (wants("width-rate")) by_width();
  }

 private:
  // A session of its own for each measure: its resident kernel has this kernel alone.
  struct Pool {
    explicit Pool(const Selection& selection, const char* kernel_name)
        : module(session.load(selection.kernels + "/kernels.cu")),
          kernel(module.kernel(kernel_name)),
          pool(session.task_pool({.blocks = selection.pool_blocks})) {}
    pergola::Session session;
    pergola::Module module;
    pergola::Kernel kernel;
    pergola::TaskPool pool;
  };

  void add(const std::string& problem, const std::string& form, nlohmann::json params, std::size_t tasks,
           std::vector<double> times, bool right) {
    std::vector<double> sorted = times;
    std::sort(sorted.begin(), sorted.end());
    const double rate = static_cast<double>(tasks) / sorted[sorted.size() / 2] / 1000;
    char text[80];
    std::snprintf(text, sizeof text, ": %.3f million tasks a second\n\n", rate);
    report_.note(problem + ", " + form + ", " + params.dump() + text);
    params["tasks"] = tasks;
    report_.add(problem, form, params, std::move(times), right);
    std::fflush(stdout);
  }

  // Every task exactly once.
  bool counts_right(unsigned threads, unsigned producers, std::size_t tasks, std::size_t at_once = 1) {
    Pool own(selection_, "count");
    auto counters = own.session.array<unsigned>(tasks, 0u);
    own.session.synchronize();
    const std::uint64_t address = counters.address();
    const pergola::TaskKind kind = own.pool.prepare(own.kernel, pergola::grid(1, threads));
    on_threads(producers, [&](unsigned first, unsigned step) {
      std::vector<CountParameters> some;
      for (std::size_t i = first; i < tasks; i += step) {
        const CountParameters parameters{address, static_cast<std::int32_t>(i)};
        if (at_once == 1) {
          kind.spawn_packed(parameters);
          continue;
        }
        some.push_back(parameters);
        if (some.size() < at_once && i + step < tasks) continue;
        kind.spawn_many(some);
        some.clear();
      }
    });
    own.pool.wait_all();
    const auto counted = counters.read();
    return std::all_of(counted.begin(), counted.end(), [](unsigned count) { return count == 1; });
  }

  // By so many threads; each task by itself, or so many at once.
  std::vector<double> time_empty(const pergola::TaskPool& pool, const pergola::TaskKind& kind, unsigned producers,
                                 std::size_t tasks, std::size_t at_once = 1) const {
    const std::vector<std::uint64_t> nothing(at_once);
    return bench::time_ms(selection_.runs, [&] {
      on_threads(producers, [&](unsigned first, unsigned step) {
        if (at_once == 1)
          for (std::size_t i = first; i < tasks; i += step) kind.spawn_packed(nothing[0]);
        else
          for (std::size_t i = first * at_once; i < tasks; i += step * at_once)
            kind.spawn_many(std::span(nothing).first(std::min(at_once, tasks - i)));
      });
      pool.wait_all();
    });
  }

  void empty_by_producers() {
    const std::size_t many = selection_.small ? selection_.tasks : 32 * selection_.tasks;
    {
      Pool own(selection_, "empty");
      const pergola::TaskKind kind = own.pool.prepare(own.kernel, pergola::grid(1, kThreads));
      for (const unsigned producers : {1u, 2u, 4u, 8u}) {
        auto times = time_empty(own.pool, kind, producers, many);
        add("empty-rate", "pergola", {{"producers", producers}, {"threads", kThreads}}, many, std::move(times),
            counts_right(kThreads, producers, many));
      }
      for (const std::size_t at_once : {std::size_t{32}, std::size_t{1024}, std::size_t{65536}})
        for (const unsigned producers : {1u, 2u, 4u, 8u}) {
          auto times = time_empty(own.pool, kind, producers, many, at_once);
          add("empty-rate", "pergola", {{"at_once", at_once}, {"producers", producers}, {"threads", kThreads}}, many,
              std::move(times), counts_right(kThreads, producers, many, at_once));
        }
    }
    measure_launches("empty-rate", {{"threads", kThreads}}, std::nullopt);
    if (driver_) {
      driver_->enter();
      Driver::Work work = driver_->empty();
      measure_driver("empty-rate", {{"threads", kThreads}}, work, std::nullopt);
    }
  }

  // Of `busy` with so many steps, or of `empty`, which leaves nothing to compare.
  void measure_driver(const std::string& problem, const nlohmann::json& params, Driver::Work& work,
                      std::optional<int> steps) {
    const std::size_t tasks = selection_.tasks;
    const auto with = [&](const char* key, const nlohmann::json& value) {
      nlohmann::json own = params;
      own[key] = value;
      return own;
    };
    const auto is_right = [&] { return !steps || is_busy_right(driver_->out(), *steps); };
    for (const unsigned threads : {1u, 2u, 4u, 8u}) {
      auto times = bench::time_ms(selection_.runs, [&] { driver_->streams(work, tasks, threads); });
      add(problem, "streams", with("producers", threads), tasks, std::move(times), is_right());
    }
    CUgraphExec graph = driver_->make_graph(work, tasks);
    auto times = bench::time_ms(selection_.runs, [&] { driver_->run(graph); });
    add(problem, "graph", with("shape", "wide"), tasks, std::move(times), is_right());
    driver_->drop(graph);
    times = bench::time_ms(selection_.runs, [&] { driver_->fused(work, tasks); });
    add(problem, "fused", params, tasks, std::move(times), is_right());
  }

  // An ordinary launch a task, on one stream.
  void measure_launches(const std::string& problem, const nlohmann::json& params, std::optional<int> steps) {
    const pergola::Session session("", "max-streams=1");
    const pergola::Module module = session.load(selection_.kernels + "/kernels.cu");
    const pergola::Kernel kernel = module.kernel(steps ? "busy" : "empty");
    const auto out = session.array<float>(kThreads, 0.f);
    const std::size_t tasks = std::min<std::size_t>(selection_.tasks, 4096);
    auto times = bench::time_ms(selection_.runs, [&] {
      for (std::size_t i = 0; i < tasks; ++i) {
        if (steps)
          kernel(pergola::grid(1, kThreads), out, *steps, 1.f);
        else
          kernel(pergola::grid(1, kThreads), nullptr);
      }
      session.synchronize();
    });
    add(problem, "pergola-launches", params, tasks, std::move(times), !steps || is_busy_right(contents(out), *steps));
  }

  // One task alone, from before it is spawned to after wait() has returned.
  void round_trips() {
    Pool own(selection_, "empty");
    const pergola::TaskKind kind = own.pool.prepare(own.kernel, pergola::grid(1, kThreads));
    const std::uint64_t nothing = 0;
    const auto once = [&] {
      const auto start = Clock::now();
      own.pool.wait(kind.spawn_packed(nothing));
      return bench::ms_since(start);
    };
    const int hot = selection_.small ? 200 : 20000, parked = selection_.small ? 20 : 500;
    std::vector<double> times;
    for (int i = -hot / 10; i < hot; ++i)
      if (const double ms = once(); i >= 0) times.push_back(ms);
    add_round_trip("pergola", "hot", times);
    times.clear();
    for (int i = 0; i < parked; ++i) {
      own.pool.park();
      times.push_back(once());
    }
    add_round_trip("pergola", "parked", times);
    if (!driver_) return;
    driver_->enter();
    Driver::Work work = driver_->empty();
    times.clear();
    for (int i = -hot / 10; i < hot; ++i) {
      const auto start = Clock::now();
      driver_->fused(work, 1);
      if (i >= 0) times.push_back(bench::ms_since(start));
    }
    add_round_trip("streams", "hot", times);
  }
  void add_round_trip(const std::string& form, const std::string& state, std::vector<double> times) {
    std::sort(times.begin(), times.end());
    const double p99 = times[times.size() * 99 / 100];
    report_.add("round-trip", form, {{"state", state}}, times, true);
    report_.add("round-trip", form, {{"state", state}, {"quantile", "p99"}}, {p99}, true);
  }

  // About so many microseconds on an H100 or H200: four cycles a step, at 1.8 GHz.
  void by_work() {
    for (const int microseconds : selection_.small ? std::vector<int>{1} : std::vector<int>{1, 10, 50, 200}) {
      const int steps = microseconds * 440;
      const nlohmann::json params{{"about_us", microseconds}, {"steps", steps}, {"threads", kThreads}};
      {
        Pool own(selection_, "busy");
        auto out = own.session.array<float>(kThreads, 0.f);
        own.session.synchronize();
        const BusyParameters parameters{out.address(), steps, 1.f};
        const pergola::TaskKind kind = own.pool.prepare(own.kernel, pergola::grid(1, kThreads));
        for (const unsigned producers : {1u, 4u}) {
          out.fill(0.f);
          own.session.synchronize();
          auto times = bench::time_ms(selection_.runs, [&] {
            on_threads(producers, [&](unsigned first, unsigned step) {
              for (std::size_t i = first; i < selection_.tasks; i += step) kind.spawn_packed(parameters);
            });
            own.pool.wait_all();
          });
          nlohmann::json row = params;
          row["producers"] = producers;
          add("work-rate", "pergola", row, selection_.tasks, std::move(times), is_busy_right(contents(out), steps));
        }
      }
      measure_launches("work-rate", params, steps);
      if (!driver_) continue;
      driver_->enter();
      Driver::Work work = driver_->busy(steps);
      measure_driver("work-rate", params, work, steps);
    }
  }
  static std::array<float, kThreads> contents(const pergola::Array<float>& out) {
    std::array<float, kThreads> got{};
    out.read(got);
    return got;
  }
  static bool is_busy_right(const std::array<float, kThreads>& got, int steps) {
    for (unsigned thread = 0; thread < kThreads; ++thread) {
      float x = 1.f + static_cast<float>(thread);
      for (int i = 0; i < steps; ++i) x = std::fma(x, 1.0001f, 0.5f);
      if (got[thread] != x) return false;
    }
    return true;
  }

  void by_width() {
    const std::size_t tasks = selection_.small ? selection_.tasks : 8 * selection_.tasks;
    const std::vector<unsigned> widths =
        selection_.small ? std::vector<unsigned>{32, 992} : std::vector<unsigned>{32, 64, 128, 256, 384, 512, 768, 992};
    for (const unsigned threads : widths) {
      Pool own(selection_, "empty");
      const pergola::TaskKind kind = own.pool.prepare(own.kernel, pergola::grid(1, threads));
      for (const unsigned producers : {1u, 4u})
        add("width-rate", "pergola", {{"producers", producers}, {"threads", threads}}, tasks,
            time_empty(own.pool, kind, producers, tasks), counts_right(threads, producers, selection_.tasks));
    }
  }

  const Selection& selection_;
  bench::Report& report_;
  const std::unique_ptr<Driver> driver_;
};

bench::Report run(const Selection& selection, int argc, char** argv) {
  const pergola::Session session;
  const pergola_device_info device = session.device();
  std::unique_ptr<Driver> driver;
  if (std::string(device.id) == "cuda:0") {
    auto request = pergola::source::load_file(selection.kernels + "/kernels.cu");
    if (!request) throw std::runtime_error(request.message());
    request->arch = "sm_" + std::to_string(device.compute_major) + std::to_string(device.compute_minor);
    const auto compiled = pergola::source::compile(*request);
    if (!compiled) throw std::runtime_error(compiled.message());
    driver = std::make_unique<Driver>(compiled->ptx);
  }
  bench::Report report("narrow-rates", {device.name, device.driver}, argc, argv);
  RatesBench(selection, report, std::move(driver)).run();
  return report;
}

}  // namespace

int main(int argc, char** argv) {
  Selection selection;
  CLI::App app("What narrow tasks cost by themselves.", "narrow_rates_bench");
  app.add_option("--tasks", selection.tasks, "Tasks of a row; empty ones are 32 times as many")
      ->check(CLI::Range(32, 10'000'000));
  app.add_option("--runs", selection.runs, "Measured runs of each row")->check(CLI::Range(1, 10'000));
  app.add_option("--only", selection.only, "These problems alone")
      ->delimiter(',')
      ->check(CLI::IsMember({"empty-rate", "round-trip", "work-rate", "width-rate"}));
  app.add_option("--pool-blocks", selection.pool_blocks, "Resident blocks of the pool; 0: as many as the device holds");
  app.add_option("--kernels", selection.kernels, "The folder of kernels.cu");
  return bench::run_main(app, argc, argv, [&](const bench::Options& options) {
    selection.small = options.small;
    if (selection.tasks == 0) selection.tasks = options.small ? 256 : 32768;
    if (selection.runs == 0) selection.runs = options.small ? 1 : 10;
    return run(selection, argc, argv);
  });
}
