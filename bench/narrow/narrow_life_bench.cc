// What a pool of narrow tasks costs others, and how soon each of its tasks has ended.
//
//   narrow_life_bench [--small] [--kernels FOLDER] [--pool-blocks N] [--report PATH]
//
// Problems (times of one launch, task or load each):
//   launch-behind   an ordinary launch of the session, until it has ended: without a pool, with one that is parked,
//   that
//                   is idle and hot, that is busy with tasks of params.task_us
//   foreign-launch  the same on a stream of the process that Pergola does not know (form driver; GPUs only)
//   kernel-beside   a kernel of about 1 ms that fills the device: what an idle pool takes from it
//   registering     a kernel is prepared while another thread spawns tasks and waits for each: how long the longest of
//                   these took, and the preparing
//   latency         params.tasks irregular tasks, all there at once: from the moment a task is spawned to its end by
//   the
//                   device's clock; form batches: from the moment its batch is launched as one grid to that grid's end
#include <algorithm>
#include <atomic>
#include <cmath>
#include <memory>
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

constexpr unsigned kThreads = 128;
constexpr int kStepsOfAMicrosecond = 440;  // on an H100 or H200: four cycles a step, at 1.8 GHz

struct Selection {
  bool small = false;
  std::uint32_t pool_blocks = 0;
  std::string kernels = NARROW_BENCH_FOLDER;
};

struct BusyParameters {
  std::uint64_t out;
  std::int32_t steps;
  float value;
};
struct StampedParameters {
  std::uint64_t steps, out, stamps;
  std::int32_t first;
};

double ns_now() {
  return std::chrono::duration<double, std::nano>(Clock::now().time_since_epoch()).count();
}

// x of a thread after so many steps of the kernels' loops.
float stepped(float x, int steps) {
  for (int i = 0; i < steps; ++i) x = std::fma(x, 1.0001f, 0.5f);
  return x;
}

class LifeBench {
 public:
  LifeBench(const Selection& selection, bench::Report& report, bench::Gpu* gpu)
      : selection_(selection),
        report_(report),
        gpu_(gpu),
        session_(),
        module_(session_.load(selection.kernels + "/kernels.cu")),
        empty_(module_.kernel("empty")),
        busy_(module_.kernel("busy")),
        stamped_(module_.kernel("stamped")),
        out_(session_.array<float>(kThreads, 0.f)) {}

  void run() {
    const int launches = selection_.small ? 20 : 500;
    add("launch-behind", "pergola", {{"pool", "none"}}, time_launches(launches, [] {}), true);
    const std::vector<double> alone = time_kernels();
    const pergola::TaskPool pool = session_.task_pool({.blocks = selection_.pool_blocks});
    const pergola::TaskKind task = pool.prepare(empty_, pergola::grid(1, kThreads));
    launches_behind(pool, task, launches);
    kernels_beside(pool, task, alone);
    registering(pool, task);
    latency(pool);
  }

 private:
  static constexpr std::uint64_t kNothing = 0;

  void add(const std::string& problem, const std::string& form, const nlohmann::json& params, std::vector<double> times,
           bool right) {
    std::sort(times.begin(), times.end());
    const double p99 = times[times.size() * 99 / 100];
    report_.add(problem, form, params, times, right);
    if (times.size() < 20) return;
    nlohmann::json row = params;
    row["quantile"] = "p99";
    report_.add(problem, form, row, {p99}, right);
  }

  template <typename Before>
  std::vector<double> time_launches(int count, Before&& before) {
    std::vector<double> times;
    for (int i = -count / 10; i < count; ++i) {
      before();
      const auto start = Clock::now();
      empty_(pergola::grid(1, kThreads), nullptr).wait();
      if (i >= 0) times.push_back(bench::ms_since(start));
    }
    return times;
  }

  void launches_behind(const pergola::TaskPool& pool, const pergola::TaskKind& task, int launches) {
    add("launch-behind", "pergola", {{"pool", "parked"}}, time_launches(launches, [&] { pool.park(); }), true);
    const auto heat = [&] { pool.wait(task.spawn_packed(kNothing)); };
    add("launch-behind", "pergola", {{"pool", "idle, hot"}}, time_launches(launches, heat), true);
    for (const int microseconds : selection_.small ? std::vector<int>{10} : std::vector<int>{10, 50, 200}) {
      const int steps = microseconds * kStepsOfAMicrosecond;
      const pergola::TaskKind long_task = pool.prepare(stamped_, pergola::grid(1, kThreads));
      constexpr int kKept = 4096;  // the stamps of so many tasks, the last ones
      const auto each = session_.array<int>(kKept, steps);
      const auto out = session_.array<float>(kKept, 0.f);
      const auto stamps = session_.array<unsigned long long>(2 * kKept, 0ull);
      session_.synchronize();
      StampedParameters parameters{each.address(), out.address(), stamps.address(), 0};
      std::atomic<bool> over{false};
      std::thread producer([&] {
        while (!over.load(std::memory_order_relaxed)) {
          long_task.spawn_packed(parameters);
          parameters.first = (parameters.first + 1) % kKept;
        }
      });
      // Between launches tasks get the device back, as they would in a program that does other things too.
      auto times = time_launches(launches, [] { std::this_thread::sleep_for(std::chrono::microseconds(500)); });
      over = true;
      producer.join();
      pool.wait_all();
      const bool right = out.read()[0] == stepped(0.f, steps);
      add("launch-behind", "pergola", {{"pool", "busy"}, {"task_us", microseconds}}, std::move(times), right);
      // Beside as many others as there is room for, a task takes longer than alone.
      const auto stamped = stamps.read();
      std::vector<double> lengths;
      for (std::size_t i = 0; i < kKept; ++i)
        if (stamped[2 * i] != 0) lengths.push_back(static_cast<double>(stamped[2 * i + 1] - stamped[2 * i]) * 1e-6);
      add("launch-behind", "pergola", {{"task_us", microseconds}, {"what", "length of a task"}}, std::move(lengths),
          right);
    }
    if (gpu_ == nullptr) return;
    gpu_->enter();
    CUstream stream = nullptr;
    check((*gpu_)->cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING), "making a stream");
    const CUfunction kernel = gpu_->function("empty");
    CUdeviceptr nothing = 0;
    void* parameters[] = {&nothing};
    const auto once = [&] {
      check(gpu_->launch_kernel(kernel, 1, 1, 1, kThreads, 1, 1, 0, stream, parameters, nullptr), "launching");
      check((*gpu_)->cuStreamSynchronize(stream), "waiting");
    };
    for (const bool hot : {false, true}) {
      std::vector<double> times;
      for (int i = 0; i < launches; ++i) {
        if (hot)
          heat();
        else
          pool.park();
        const auto start = Clock::now();
        once();
        times.push_back(bench::ms_since(start));
      }
      add("foreign-launch", "driver", {{"pool", hot ? "idle, hot" : "parked"}}, std::move(times), true);
    }
    (*gpu_)->cuStreamDestroy(stream);
  }

  // The kernel alone is timed, by events around it.
  std::vector<double> time_kernels(const pergola::TaskPool* pool = nullptr, const pergola::TaskKind* task = nullptr) {
    const int steps = selection_.small ? 100 : 1000 * kStepsOfAMicrosecond;
    const unsigned blocks = selection_.small ? 4 : 132 * 16;
    std::vector<double> times;
    for (int i = -2; i < (selection_.small ? 3 : 30); ++i) {
      if (task != nullptr) pool->wait(task->spawn_packed(kNothing));
      const auto start = Clock::now();
      busy_(pergola::grid(blocks, kThreads), out_, steps, 1.f);
      session_.synchronize();
      if (i >= 0) times.push_back(bench::ms_since(start));
    }
    kernels_right_ = out_.read()[0] == stepped(1.f, steps);
    return times;
  }
  void kernels_beside(const pergola::TaskPool& pool, const pergola::TaskKind& task, const std::vector<double>& alone) {
    add("kernel-beside", "pergola", {{"pool", "none"}}, alone, kernels_right_);
    pool.park();
    add("kernel-beside", "pergola", {{"pool", "parked"}}, time_kernels(), kernels_right_);
    add("kernel-beside", "pergola", {{"pool", "idle, hot"}}, time_kernels(&pool, &task), kernels_right_);
  }

  void registering(const pergola::TaskPool& pool, const pergola::TaskKind& task) {
    std::vector<double> preparing, longest;
    for (const char* name : {"mandelbrot", "product_plain", "convolution", "cosine"}) {
      const pergola::Kernel kernel = module_.kernel(name);
      std::atomic<bool> over{false};
      double most = 0;
      std::thread other([&] {
        while (!over.load(std::memory_order_relaxed)) {
          const auto start = Clock::now();
          pool.wait(task.spawn_packed(kNothing));
          most = std::max(most, bench::ms_since(start));
        }
      });
      std::this_thread::sleep_for(std::chrono::milliseconds(2));
      const auto start = Clock::now();
      (void)pool.prepare(kernel, pergola::grid(1, kThreads));
      preparing.push_back(bench::ms_since(start));
      over = true;
      other.join();
      longest.push_back(most);
    }
    report_.add("registering", "pergola", {{"what", "preparing"}}, preparing, true);
    report_.add("registering", "pergola", {{"what", "longest task meanwhile"}}, longest, true);
  }

  // What to add to the device's clock for the host's, in ns: by the shortest of many round trips.
  double clocks_apart(const pergola::TaskPool& pool, const pergola::TaskKind& kind, const StampedParameters& parameters,
                      const pergola::Array<unsigned long long>& stamps) const {
    double shortest = 1e18, apart = 0;
    for (int i = 0; i < 100; ++i) {
      const double before = ns_now();
      pool.wait(kind.spawn_packed(parameters));
      const double after = ns_now();
      if (after - before >= shortest) continue;
      shortest = after - before;
      apart =
          (before + after) / 2 - static_cast<double>(stamps.read()[2 * static_cast<std::size_t>(parameters.first) + 1]);
    }
    return apart;
  }

  void latency(const pergola::TaskPool& pool) {
    const int tasks = selection_.small ? 64 : 16384;
    std::vector<int> steps(static_cast<std::size_t>(tasks) + 1);
    std::uint32_t random = 1;
    for (int i = 0; i < tasks; ++i) {  // 1 to 50 us, as many of each
      random = random * 1664525u + 1013904223u;
      steps[static_cast<std::size_t>(i)] =
          (selection_.small ? 1 : kStepsOfAMicrosecond) * (1 + static_cast<int>(random >> 16) % 50);
    }
    auto on_device = session_.array<int>(steps.size());
    on_device.write(steps);
    auto out = session_.array<float>(steps.size(), 0.f);
    auto stamps = session_.array<unsigned long long>(2 * steps.size(), 0ull);
    session_.synchronize();
    const pergola::TaskKind kind = pool.prepare(stamped_, pergola::grid(1, kThreads));
    StampedParameters parameters{on_device.address(), out.address(), stamps.address(), tasks};
    const auto is_right = [&] {
      const auto got = out.read();
      for (std::size_t i = 0; i < static_cast<std::size_t>(tasks); ++i)
        if (got[i] != stepped(0.f, steps[i])) return false;
      return true;
    };
    for (int run = 0; run < (selection_.small ? 1 : 5); ++run) {
      const double apart = clocks_apart(pool, kind, parameters, stamps);
      std::vector<double> spawned(static_cast<std::size_t>(tasks));
      const auto start = Clock::now();
      for (int i = 0; i < tasks; ++i) {
        spawned[static_cast<std::size_t>(i)] = ns_now();
        StampedParameters own = parameters;
        own.first = i;
        kind.spawn_packed(own);
      }
      pool.wait_all();
      const double all_ms = bench::ms_since(start);
      const auto stamped = stamps.read();
      std::vector<double> times;
      for (std::size_t i = 0; i < spawned.size(); ++i)
        times.push_back((static_cast<double>(stamped[2 * i + 1]) + apart - spawned[i]) * 1e-6);
      add("latency", "pergola", {{"tasks", tasks}, {"run", run}}, std::move(times), is_right());
      report_.add("latency", "pergola", {{"tasks", tasks}, {"run", run}, {"what", "all"}}, {all_ms}, is_right());
    }
    for (int batch = 32; batch <= tasks; batch *= 2) {
      std::vector<double> times;
      out.fill(0.f);
      session_.synchronize();
      const auto start = Clock::now();
      for (int first = 0; first < tasks; first += batch) {
        // All are there at once: those of later batches wait for the earlier ones.
        stamped_(pergola::grid(static_cast<unsigned>(std::min(batch, tasks - first)), kThreads), on_device, out, stamps,
                 first)
            .wait();
        times.insert(times.end(), static_cast<std::size_t>(std::min(batch, tasks - first)), bench::ms_since(start));
      }
      const double all_ms = bench::ms_since(start);
      add("latency", "batches", {{"tasks", tasks}, {"batch", batch}}, std::move(times), is_right());
      report_.add("latency", "batches", {{"tasks", tasks}, {"batch", batch}, {"what", "all"}}, {all_ms}, is_right());
    }
  }

  const Selection& selection_;
  bench::Report& report_;
  bench::Gpu* const gpu_;
  const pergola::Session session_;
  const pergola::Module module_;
  const pergola::Kernel empty_, busy_, stamped_;
  const pergola::Array<float> out_;
  bool kernels_right_ = false;
};

bench::Report run(const Selection& selection, int argc, char** argv) {
  const pergola::Session session;
  const pergola_device_info device = session.device();  // whose texts are the session's
  std::unique_ptr<bench::Gpu> gpu;
  if (std::string(device.id) == "cuda:0") {
    auto request = pergola::source::load_file(selection.kernels + "/kernels.cu");
    if (!request) throw std::runtime_error(request.message());
    request->arch = "sm_" + std::to_string(device.compute_major) + std::to_string(device.compute_minor);
    const auto compiled = pergola::source::compile(*request);
    if (!compiled) throw std::runtime_error(compiled.message());
    gpu = std::make_unique<bench::Gpu>(compiled->ptx);
  }
  bench::Report report("narrow-life", {device.name, device.driver}, argc, argv);
  LifeBench(selection, report, gpu.get()).run();
  return report;
}

}  // namespace

int main(int argc, char** argv) {
  Selection selection;
  CLI::App app("What a pool of narrow tasks costs others, and how soon its tasks have ended.", "narrow_life_bench");
  app.add_option("--kernels", selection.kernels, "The folder of kernels.cu");
  app.add_option("--pool-blocks", selection.pool_blocks, "Resident blocks of the pool; 0: as many as the device holds");
  return bench::run_main(app, argc, argv, [&](const bench::Options& options) {
    selection.small = options.small;
    return run(selection, argc, argv);
  });
}
