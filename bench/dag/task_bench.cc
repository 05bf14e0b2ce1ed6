// What a launch costs the host, beside the driver's own calls for the same order of work.
//
//   task_bench [--small] [--report PATH]      PERGOLA_DEVICE chooses the device
//
// Problems (median_ms is the host's time a launch, in milliseconds; batches of params.batch launches of an empty
// block):
//   chain      each launch depends on the one before it: one stream
//   fork-join  two chains that meet every third launch: streams and events
//   recurring  a region of params.region launches, params.batch / params.region times: two chains that meet at its end.
//              Each launch keeps a GPU busy for some microseconds, so that there is work queued. From a new session on:
//              the region is found and its graphs are made within the time.
//   recurring-scalars  the same, and 63 of the 64 launches are given a number that changes every turn
//   recurring-arrays   the same, and 32 of the 64 launches are given another element of an array in every turn
//   recurring-temporaries  the same, and the second chain is on an array of 1 MiB of zeros that each turn makes and
//              drops
//   recurring-as-graphs  as recurring, but from the turn on that is the first to run as graphs, and with the time that
//              making these took on the thread that makes them; params.late_runs more, whose graphs came so late that
//              no such turns were left, do not count
//   recurring-steady   the same region in a session that has run it for a second: graphs are made, their ways are
//   chosen
// Forms: driver (cuLaunchKernel, cuEventRecord, cuStreamWaitEvent by hand, for temporaries cuMemAllocAsync and
// cuMemFreeAsync from a pool that keeps all; GPUs only), pergola (pergola.hpp), pergola-no-graphs (with graphs=off),
// pergola-plain-graphs (with blocks=off: without the analysis of blocks), pergola-forks (with fork-cost=0: the two
// chains on two streams, and events between them, where by default kernels as short as these share one). Every result
// is checked.
#include <algorithm>
#include <cstdio>
#include <functional>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string>
#include <vector>

#include "../support/main.h"
#include "driver.h"
#include "pergola/pergola.hpp"

namespace {

using bench::Driver;
using Clock = std::chrono::steady_clock;

class TaskBench {
 public:
  TaskBench(bool small, int argc, char** argv)
      : runs_(small ? 3 : 30), batch_(small ? 300 : 3000), module_(session_.load_text(bench::kChainPtx)) {
    const pergola_device_info info = session_.device();
    on_gpu_ = std::string(info.id).starts_with("cuda");
    report_ = std::make_unique<bench::Report>("task", bench::Machine{info.name, info.driver}, argc, argv);
  }

  bench::Report& run() {
    const auto next = module_.kernel("next");
    auto x = session_.array<unsigned>(1, 0u);
    const auto one = pergola::grid(1, 1);
    std::unique_ptr<Driver> driver = on_gpu_ ? std::make_unique<Driver>() : nullptr;

    // By turns: the machine's pace changes within a run.
    Times by_hand, ours;
    for (int run = 0; run <= runs_; ++run) {
      if (driver) by_hand.add(run, chain_by_hand(*driver));
      x.fill(0u);
      session_.synchronize();
      const auto start = Clock::now();
      for (int i = 0; i < batch_; ++i) next(one, x);
      const double ms = bench::ms_since(start);
      ours.add(run, {ms / batch_, x.read()[0] == static_cast<unsigned>(batch_)});
    }
    tell("chain", by_hand, ours);

    by_hand = ours = {};
    Times forked;
    ForkJoin by_default(kOneByOne), forking(std::string(kOneByOne) + ",fork-cost=0");
    for (int run = 0; run <= runs_; ++run) {
      if (driver) by_hand.add(run, fork_join_by_hand(*driver));
      ours.add(run, by_default.run(batch_));
      forked.add(run, forking.run(batch_));
    }
    tell("fork-join", by_hand, ours);
    report_->add("fork-join", "pergola-forks", {{"batch", batch_}}, forked.ms, forked.right);

    for (const Changes changes : {Changes::kNothing, Changes::kScalars, Changes::kArrays}) {
      measure_recurring("pergola", "", changes);
      measure_recurring("pergola-no-graphs", "graphs=off", changes);
    }
    if (driver && driver->keep_freed()) measure_temporaries_by_hand(*driver);
    measure_recurring("pergola", "", Changes::kMemory);
    measure_recurring("pergola-no-graphs", "graphs=off", Changes::kMemory);
    measure_as_graphs();
    measure_steady("pergola", "");
    measure_steady("pergola-plain-graphs", "blocks=off");
    measure_steady("pergola-no-graphs", "graphs=off");
    return *report_;
  }

 private:
  static constexpr int kRegion = 64;
  int turns() const { return runs_ <= 3 ? 10 : 100; }

  struct Timed {
    double ms = 0;  // a launch
    bool right = false;
  };
  struct Times {
    void add(int run, Timed timed) {
      right &= timed.right;
      if (run != 0) ms.push_back(timed.ms);  // the first one loads code
    }
    std::vector<double> ms;
    bool right = true;
  };
  void tell(const char* problem, const Times& by_hand, const Times& ours) {
    if (!by_hand.ms.empty()) report_->add(problem, "driver", {{"batch", batch_}}, by_hand.ms, by_hand.right);
    report_->add(problem, "pergola", {{"batch", batch_}}, ours.ms, ours.right);
  }

  // Two chains that meet every third launch, in a session of their own.
  struct ForkJoin {
    explicit ForkJoin(const std::string& policy) : session("", policy) {}
    Timed run(int batch) {
      x.fill(0u);
      y.fill(0u);
      session.synchronize();
      const auto one = pergola::grid(1, 1);
      const auto start = Clock::now();
      for (int i = 0; i < batch / 3; ++i) {
        next(one, x);
        next(one, y);
        join(one, x, y);
      }
      const double ms = bench::ms_since(start);
      return {ms / batch, x.read()[0] == bench::fork_join_value(batch / 3)};
    }
    const pergola::Session session;
    const pergola::Module module = session.load_text(bench::kChainPtx);
    const pergola::Kernel next = module.kernel("next"), join = module.kernel("join");
    pergola::Array<unsigned> x = session.array<unsigned>(1, 0u), y = session.array<unsigned>(1, 0u);
  };

  // In each turn.
  enum class Changes { kNothing, kScalars, kArrays, kMemory };
  static std::string problem(Changes changes) {
    switch (changes) {
      case Changes::kNothing: return "recurring";
      case Changes::kScalars: return "recurring-scalars";
      case Changes::kArrays: return "recurring-arrays";
      case Changes::kMemory: return "recurring-temporaries";
    }
    return "";
  }

  static constexpr std::size_t kTemporary = std::size_t{1} << 18;  // elements

  // Two chains of one kernel that meet at the end of each turn. The second one's element is another in each turn where
  // arrays change, and of an array that the turn makes where memory does.
  struct Recurring {
    Recurring(const char* policy, std::size_t elements = 1, bool in_temporaries = false)
        : session("", policy),
          y(session.array<unsigned>(elements, 0u)),
          want_y(elements, 0u),
          makes_arrays(in_temporaries) {}

    void run(int turns, const std::function<unsigned(int)>& steps) {
      for (int turn = 0; turn < turns; ++turn)
        if (makes_arrays)
          run_turn(session.array<unsigned>(kTemporary, 0u), steps(turn));
        else if (want_y.size() == 1)
          run_turn(y, steps(turn));
        else
          run_turn(y.part(element(turn), 1), steps(turn));
    }
    template <typename Y>
    void run_turn(const Y& here, unsigned steps) {
      for (int i = 0; i < kRegion - 1; ++i)
        if (i % 2 == 0)
          scramble(pergola::grid(1, 1), x, steps);
        else
          scramble(pergola::grid(1, 1), here, steps);
      join(pergola::grid(1, 1), x, here);
    }
    // The same on the host.
    void expect(int turns, const std::function<unsigned(int)>& steps) {
      for (int turn = 0; turn < turns; ++turn) {
        if (makes_arrays) want_y[0] = 0;
        for (int i = 0; i < kRegion - 1; ++i)
          for (unsigned step = 0, n = steps(turn); step < n; ++step) {
            unsigned& value = i % 2 == 0 ? want_x : want_y[element(turn)];
            value = value * 1664525u + 1013904223u;
          }
        want_x += want_y[element(turn)];
      }
    }
    std::size_t element(int turn) const { return static_cast<std::size_t>(turn) % want_y.size(); }
    bool is_right() { return x.read()[0] == want_x && (makes_arrays || std::ranges::equal(y.read(), want_y)); }

    const pergola::Session session;
    const pergola::Module module = session.load_text(bench::kChainPtx);
    const pergola::Kernel scramble = module.kernel("scramble"), join = module.kernel("join");
    pergola::Array<unsigned> x = session.array<unsigned>(1, 0u), y;
    unsigned want_x = 0;
    std::vector<unsigned> want_y;
    const bool makes_arrays;
  };

  void measure_recurring(const char* form, const char* policy, Changes changes) {
    const auto steps = [&](int turn) {
      return (on_gpu_ ? 4000u : 4u) + (changes == Changes::kScalars ? static_cast<unsigned>(turn) : 0);
    };
    const std::size_t elements = changes == Changes::kArrays ? static_cast<std::size_t>(turns()) : 1;
    std::vector<double> times;
    bool right = true;
    for (int run = 0; run <= runs_; ++run) {
      Recurring region(policy, elements, changes == Changes::kMemory);
      region.session.synchronize();
      const auto start = Clock::now();
      region.run(turns(), steps);
      const double ms = bench::ms_since(start);
      region.expect(turns(), steps);
      right &= region.is_right();
      if (run != 0) times.push_back(ms / (turns() * kRegion));
    }
    report_->add(problem(changes), form, {{"batch", turns() * kRegion}, {"region", kRegion}}, times, right);
  }

  // The first turns of a new session that ran as graphs, and what making these took.
  void measure_as_graphs() {
    const auto steps = [&](int) { return on_gpu_ ? 4000u : 4u; };
    const int learning = 60;
    std::vector<double> times;
    bool right = true;
    int late = 0;  // runs whose graphs came too late, on a host that was busy with something else: they do not count
    for (int run = 0; run <= runs_ + late && late <= runs_; ++run) {
      Recurring region(on_gpu_ ? "" : "graphs=always");
      region.session.synchronize();
      std::vector<double> turn_ms;
      for (int turn = 0; turn < turns() + learning; ++turn) {
        const auto start = Clock::now();
        region.run(1, steps);
        turn_ms.push_back(bench::ms_since(start));
      }
      const Graphs graphs(region.session);
      region.expect(turns() + learning, steps);
      // From the turn behind the one in which the last of them was there.
      const std::size_t first = graphs.made_after / kRegion + 2, end = first + static_cast<std::size_t>(turns());
      const bool is_late = graphs.made_after == 0 || end > turn_ms.size();
      right &= region.is_right();
      if (on_gpu_ && is_late) {
        ++late;
        continue;
      }
      // A launch may have been held for too long now and then: it counts as what it took.
      right &= !on_gpu_ || graphs.replaced >= (turn_ms.size() - first) * kRegion * 9 / 10;
      double ms = graphs.making_ms;
      for (std::size_t turn = first; turn < std::min(end, turn_ms.size()); ++turn) ms += turn_ms[turn];
      if (run != 0) times.push_back(ms / (turns() * kRegion));
    }
    right &= times.size() >= static_cast<std::size_t>(runs_);
    report_->add("recurring-as-graphs", "pergola",
                 {{"batch", turns() * kRegion}, {"region", kRegion}, {"late_runs", late}}, times, right);
  }
  // Of a session: how many launches its graphs stood for, when the last was there, what making them took.
  struct Graphs {
    explicit Graphs(const pergola::Session& session) {
      const char* text = nullptr;
      if (pergola_session_graphs(session.handle(), "json", &text) != PERGOLA_OK) throw std::runtime_error("no graphs");
      const auto told = nlohmann::json::parse(text);
      for (const auto& region : told["regions"]) {
        replaced += region["replaced"].get<std::uint64_t>();
        for (const auto& graph : region["graphs"]) {
          made_after = std::max(made_after, graph["made_after"].get<std::uint64_t>());
          making_ms += graph["making_us"].get<double>() / 1e3;
        }
      }
    }
    std::uint64_t replaced = 0, made_after = 0;
    double making_ms = 0;
  };

  void measure_steady(const char* form, const char* policy) {
    const auto steps = [&](int) { return on_gpu_ ? 4000u : 4u; };
    const double warm_up_ms = runs_ <= 3 ? 10 : 1000;
    Recurring region(policy);
    std::vector<double> times;
    bool right = true;
    for (const auto begun = Clock::now(); bench::ms_since(begun) < warm_up_ms;) {
      region.run(turns(), steps);
      region.expect(turns(), steps);
      right &= region.is_right();
    }
    for (int run = 0; run < runs_; ++run) {
      const auto start = Clock::now();
      region.run(turns(), steps);
      times.push_back(bench::ms_since(start) / (turns() * kRegion));
      region.expect(turns(), steps);
      right &= region.is_right();
    }
    report_->add("recurring-steady", form, {{"batch", turns() * kRegion}, {"region", kRegion}}, times, right);
  }

  void measure_temporaries_by_hand(Driver& driver) {
    const unsigned steps = on_gpu_ ? 4000 : 4;
    std::vector<double> times;
    Recurring want("graphs=off", 1, true);
    want.expect(turns(), [&](int) { return steps; });
    bool right = true;
    for (int run = 0; run <= runs_; ++run) {
      driver.reset();
      const auto start = Clock::now();
      for (int turn = 0; turn < turns(); ++turn) driver.temporary_turn(kRegion, kTemporary, steps);
      const double ms = bench::ms_since(start);
      Driver::check(driver.synchronize(driver.streams[0]));
      right &= driver.value(0) == want.want_x;
      if (run != 0) times.push_back(ms / (turns() * kRegion));
    }
    report_->add(problem(Changes::kMemory), "driver", {{"batch", turns() * kRegion}, {"region", kRegion}}, times,
                 right);
  }

  Timed chain_by_hand(Driver& driver) const {
    const double ms = driver.chain_ms(batch_);
    return {ms, driver.value(0) == static_cast<unsigned>(batch_)};
  }
  Timed fork_join_by_hand(Driver& driver) const {
    const double ms = driver.fork_join_ms(batch_);
    return {ms, driver.value(0) == bench::fork_join_value(batch_ / 3)};
  }

  const int runs_, batch_;
  // So that launches that the device has nothing queued for go one by one, which is what chain and fork-join are about.
  static constexpr const char* kOneByOne = "graphs=recurring";
  pergola::Session session_{"", kOneByOne};
  pergola::Module module_;
  bool on_gpu_ = false;
  std::unique_ptr<bench::Report> report_;
};

}  // namespace

int main(int argc, char** argv) {
  CLI::App app("A launch through the scheduler beside the driver's own calls (PERGOLA_DEVICE=cuda:0).", "task_bench");
  return bench::run_main(app, argc, argv,
                         [&](const bench::Options& options) { return TaskBench(options.small, argc, argv).run(); });
}
