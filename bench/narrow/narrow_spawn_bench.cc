// Tasks that tasks spawn: empty ones of 64 threads by the number of warps that spawn them, beside the same spawned by
// the host; and a binary tree, each node of which spawns its children.
//
//   narrow_spawn_bench [--small] [--tasks N] [--runs N] [--pool-blocks N] [--kernels FOLDER] [--report PATH]
//
// Times are of all tasks of a row, from before the first is spawned to after the pool has been waited for; the rates
// are in the notes. In a run of its own each row's tasks are counted: each ran exactly once.
#include <algorithm>
#include <cstdio>
#include <string>
#include <thread>
#include <vector>

#include "../support/main.h"
#include "pergola/pergola.hpp"
#include "pergola/tasks.hpp"

namespace {

constexpr unsigned kThreads = 64;

struct Selection {
  std::size_t tasks = 0;
  int runs = 0;
  bool small = false;
  std::uint32_t pool_blocks = 0;
  std::string kernels = NARROW_BENCH_FOLDER;
};

// The kernels' parameters, for spawn_packed().
struct Leaves {
  std::uint32_t each, unused;
  std::uint64_t handle, refused;
};
struct CountingLeaves {
  std::uint64_t counters;
  std::uint32_t first, each;
  std::uint64_t handle, refused;
};
struct CountingLeaf {
  std::uint64_t counters;
  std::uint32_t index, unused;
};
struct Tree {
  std::uint64_t counters, self;
  std::uint32_t nodes, unused;
};
struct Node {
  std::uint64_t tree;
  std::uint32_t node, unused;
};

class SpawnBench {
 public:
  SpawnBench(const Selection& selection, bench::Report& report)
      : selection_(selection),
        report_(report),
        module_(session_.load(selection.kernels + "/spawning.cu")),
        pool_(session_.task_pool({.blocks = selection.pool_blocks})),
        leaf_(prepare("leaf", kThreads)),
        counting_leaf_(prepare("counting_leaf", kThreads)) {}

  void run() {
    const std::vector<unsigned> warps =
        selection_.small ? std::vector<unsigned>{1, 2} : std::vector<unsigned>{1, 4, 16, 64, 256, 1024};
    for (const unsigned spawners : warps) by_tasks(spawners);
    for (const unsigned producers : selection_.small ? std::vector<unsigned>{1} : std::vector<unsigned>{1, 4})
      by_host(producers);
    tree();
  }

 private:
  pergola::TaskKind prepare(const char* kernel, unsigned threads) {
    return pool_.prepare(module_.kernel(kernel), pergola::grid(1, threads));
  }

  void add(const std::string& problem, const std::string& form, nlohmann::json params, std::size_t tasks,
           std::vector<double> times, bool right) {
    std::vector<double> sorted = times;
    std::sort(sorted.begin(), sorted.end());
    char text[80];
    std::snprintf(text, sizeof text, ": %.3f million tasks a second\n\n",
                  static_cast<double>(tasks) / sorted[sorted.size() / 2] / 1000);
    report_.note(problem + ", " + form + ", " + params.dump() + text);
    params["tasks"] = tasks;
    report_.add(problem, form, params, std::move(times), right);
    std::fflush(stdout);
  }
  static bool all_once(const pergola::Array<unsigned>& counters, std::size_t first = 0) {
    const auto counted = counters.read();
    return std::all_of(counted.begin() + static_cast<std::ptrdiff_t>(first), counted.end(),
                       [](unsigned count) { return count == 1; });
  }

  // So many warps, each of whose lanes spawns its part.
  void by_tasks(unsigned spawners) {
    const auto each = static_cast<std::uint32_t>(std::max<std::size_t>(1, selection_.tasks / spawners / 32));
    const std::size_t tasks = std::size_t{each} * spawners * 32;
    auto refused = session_.array<unsigned>(1, 0u);
    auto counters = session_.array<unsigned>(tasks, 0u);
    session_.synchronize();
    const pergola::TaskKind roots = prepare("spawn_leaves", 32), counting = prepare("spawn_counting_leaves", 32);
    const Leaves leaves{each, 0, leaf_.on_device(), refused.address()};
    auto times = bench::time_ms(selection_.runs, [&] {
      for (unsigned n = 0; n < spawners; ++n) roots.spawn_packed(leaves);
      pool_.wait_all();
    });
    for (unsigned n = 0; n < spawners; ++n)
      counting.spawn_packed(
          CountingLeaves{counters.address(), n * 32 * each, each, counting_leaf_.on_device(), refused.address()});
    pool_.wait_all();
    add("spawn-rate", "pergola-device", {{"spawners", spawners}, {"threads", kThreads}}, tasks, std::move(times),
        all_once(counters) && refused.read()[0] == 0);
  }

  void by_host(unsigned producers) {
    const std::size_t tasks = selection_.tasks / producers * producers;
    auto counters = session_.array<unsigned>(tasks, 0u);
    session_.synchronize();
    const std::uint64_t address = counters.address();
    const auto on_threads = [&](const auto& spawn) {
      std::vector<std::thread> threads;
      for (unsigned t = 0; t < producers; ++t)
        threads.emplace_back([&, t] {
          for (std::size_t n = t; n < tasks; n += producers) spawn(n);
        });
      for (std::thread& thread : threads) thread.join();
      pool_.wait_all();
    };
    const std::uint64_t nothing = 0;
    auto times =
        bench::time_ms(selection_.runs, [&] { on_threads([&](std::size_t) { leaf_.spawn_packed(nothing); }); });
    on_threads(
        [&](std::size_t n) { counting_leaf_.spawn_packed(CountingLeaf{address, static_cast<std::uint32_t>(n), 0}); });
    add("spawn-rate", "pergola", {{"producers", producers}, {"threads", kThreads}}, tasks, std::move(times),
        all_once(counters));
  }

  void tree() {
    std::uint32_t nodes = 2;
    while (2 * std::size_t{nodes} <= selection_.tasks) nodes *= 2;
    const pergola::TaskKind kind = prepare("tree", 32);
    auto counters = session_.array<unsigned>(nodes, 0u);
    auto memory = session_.array<std::uint64_t>(sizeof(Tree) / 8, std::uint64_t{0});
    const Tree tree{counters.address(), kind.on_device(), nodes, 0};
    std::vector<std::uint64_t> words(sizeof(Tree) / 8);
    std::memcpy(words.data(), &tree, sizeof tree);
    memory.write(words);
    session_.synchronize();
    bool right = true;
    const std::uint64_t before = spawned_by_tasks();
    auto times = bench::time_ms(selection_.runs, [&] {
      kind.spawn_packed(Node{memory.address(), 1, 0});
      pool_.wait_all();
    });
    const std::uint64_t spawned = spawned_by_tasks() - before;
    counters.fill(0u);
    session_.synchronize();
    kind.spawn_packed(Node{memory.address(), 1, 0});
    pool_.wait_all();
    right &= all_once(counters, 1);
    char text[120];
    std::snprintf(text, sizeof text, "tree: of %u nodes a run %.0f were spawned, others done by who found no room\n\n",
                  nodes - 1, static_cast<double>(spawned) / (selection_.runs + 1));
    report_.note(text);
    add("tree", "pergola-device", {{"threads", 32}}, nodes - 1, std::move(times), right);
  }
  std::uint64_t spawned_by_tasks() const {
    pool_.park();
    return pool_.info().spawned_by_tasks;
  }

  const Selection& selection_;
  bench::Report& report_;
  const pergola::Session session_;
  const pergola::Module module_;
  const pergola::TaskPool pool_;
  const pergola::TaskKind leaf_, counting_leaf_;
};

}  // namespace

int main(int argc, char** argv) {
  Selection selection;
  CLI::App app("What it costs tasks to spawn tasks.", "narrow_spawn_bench");
  app.add_option("--tasks", selection.tasks, "Tasks of a row")->check(CLI::Range(64, 100'000'000));
  app.add_option("--runs", selection.runs, "Measured runs of each row")->check(CLI::Range(1, 10'000));
  app.add_option("--pool-blocks", selection.pool_blocks, "Resident blocks of the pool; 0: as many as the device holds");
  app.add_option("--kernels", selection.kernels, "The folder of spawning.cu");
  return bench::run_main(app, argc, argv, [&](const bench::Options& options) {
    selection.small = options.small;
    if (selection.tasks == 0) selection.tasks = options.small ? 256 : 1 << 20;
    if (selection.runs == 0) selection.runs = options.small ? 1 : 20;
    const pergola::Session session;
    const pergola_device_info device = session.device();
    bench::Report report("narrow-spawn", {device.name, device.driver}, argc, argv);
    SpawnBench(selection, report).run();
    return report;
  });
}
