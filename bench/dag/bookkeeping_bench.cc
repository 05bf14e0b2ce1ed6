// What the scheduler itself costs a task: dependencies, stream, log, waits and events, on a device that does nothing.
//
//   bookkeeping_bench [--small] [--dependencies 0,1,2,3] [--report PATH]
//
// Problem task-cost: median_ms is the host's time of one task, in milliseconds. params: how many parents each task has,
// and how many tasks are submitted while none ends ("tasks"); the cost should not grow with them. Each batch follows
// one that is not timed, in the same session, and has ended: streams are there, as in a program that goes on.
// `new-session` is without that, streams and all being made.
#include <algorithm>
#include <cstdio>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "../support/main.h"
#include "src/scheduler/scheduler.h"

namespace {

using namespace pergola;  // NOLINT: a program
using scheduler::Access;
using scheduler::Mode;

std::uint64_t work_done = 0;  // by queues: read at the end, so that nothing is optimised away

class IdleEvent final : public device::Event {
 public:
  std::optional<Status> poll() override { return std::nullopt; }
  Status wait(std::optional<std::chrono::nanoseconds>) override { return {}; }
  Result<double> elapsed_ns(const Event&) override { return 0.0; }
};

// Takes everything, ends nothing until it is waited for.
class IdleQueue final : public device::Queue {
 public:
  Status launch(const device::ModulePtr&, const device::Kernel&, const device::LaunchConfig&,
                std::span<const std::byte>) override {
    return {};
  }
  Status copy_to_device(const device::BufferPtr&, std::size_t, std::span<const std::byte>) override { return {}; }
  Status copy_to_host(std::span<std::byte>, const device::BufferPtr&, std::size_t) override { return {}; }
  Status copy(const device::BufferPtr&, std::size_t, const device::BufferPtr&, std::size_t, std::size_t) override {
    return {};
  }
  Status fill(const device::BufferPtr&, std::size_t, std::size_t, std::uint32_t, std::uint32_t) override { return {}; }
  Status wait(const device::EventPtr&) override { return {}; }
  Result<device::EventPtr> record() override { return event_; }
  std::optional<Status> poll() override { return std::nullopt; }
  Status synchronize() override { return {}; }

 private:
  const device::EventPtr event_ = std::make_shared<IdleEvent>();  // one for all: events are the driver's cost, not ours
};

class IdleDevice final : public device::Device {
 public:
  const device::DeviceInfo& info() const override { return info_; }
  Result<device::ModulePtr> load(const device::ModuleSource&) override { return none(); }
  Result<device::BufferPtr> allocate(std::size_t, device::MemoryKind) override { return none(); }
  Result<device::TexturePtr> create_texture(const device::TextureDescription&) override { return none(); }
  Result<std::unique_ptr<device::Queue>> create_queue() override {
    return std::unique_ptr<device::Queue>(std::make_unique<IdleQueue>());
  }
  Result<std::unique_ptr<device::ExecutableGraph>> instantiate(device::GraphSpec) override { return none(); }
  Status health() const override { return {}; }

 private:
  static Error none() { return PERGOLA_ERROR(kUnsupported, "The idle device only has queues."); }
  device::DeviceInfo info_;
};

class Tasks {
 public:
  explicit Tasks(std::size_t arrays) {
    auto made = scheduler::Scheduler::create(std::make_shared<IdleDevice>(), {});
    if (!made.ok()) throw std::runtime_error(made.message());
    scheduler_ = std::move(*made);
    for (std::size_t i = 0; i < arrays; ++i) arrays_.push_back(scheduler_->create_resource(4096));
    site_ = scheduler_->site("task");
  }

  // Milliseconds of each of `tasks` tasks, which write an array of their own and read those of the `parents` before.
  double submit_ms(std::size_t parents, std::size_t tasks) {
    const auto start = std::chrono::steady_clock::now();
    for (std::size_t i = 0; i < tasks; ++i) {
      Access accesses[4] = {{arrays_[i % arrays_.size()].get(), {0, 4096}, Mode::kWrite}};
      for (std::size_t p = 1; p <= parents; ++p)
        accesses[p] = {arrays_[(i + arrays_.size() - p) % arrays_.size()].get(), {0, 4096}, Mode::kRead};
      const Status status =
          scheduler_->submit({.site = site_, .accesses = std::span(accesses, parents + 1)}, [](device::Queue&) {
            ++work_done;
            return Status();
          });
      if (!status.ok()) throw std::runtime_error(status.message());
    }
    const std::chrono::duration<double, std::milli> elapsed = std::chrono::steady_clock::now() - start;
    submitted_ += tasks;
    return elapsed.count() / static_cast<double>(tasks);
  }

  void end_all() {
    if (const Status status = scheduler_->synchronize(); !status.ok()) throw std::runtime_error(status.message());
    if (scheduler_->counters().computations != submitted_) throw std::runtime_error("tasks were lost");
  }

 private:
  std::unique_ptr<scheduler::Scheduler> scheduler_;
  std::vector<std::unique_ptr<scheduler::Resource>> arrays_;
  scheduler::WorkSite* site_ = nullptr;
  std::size_t submitted_ = 0;
};

// Of tasks without parents none may write what another has written.
std::size_t arrays_for(std::size_t parents, std::size_t tasks) {
  constexpr std::size_t kArrays = 64;
  return parents == 0 ? std::max(kArrays, tasks) : kArrays;
}

std::vector<double> task_ms(std::size_t parents, std::size_t tasks, int runs) {
  std::vector<double> times;
  Tasks one(arrays_for(parents, tasks));
  for (int run = -2; run < 2 * runs; ++run) {
    const double ms = one.submit_ms(parents, tasks);
    one.end_all();
    if (run >= 0 && run % 2 == 1) times.push_back(ms);
  }
  return times;
}

std::vector<double> new_session_ms(std::size_t parents, std::size_t tasks, int runs) {
  std::vector<double> times;
  for (int run = -1; run < runs; ++run) {
    Tasks one(arrays_for(parents, tasks));
    const double ms = one.submit_ms(parents, tasks);
    one.end_all();
    if (run >= 0) times.push_back(ms);
  }
  return times;
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app("What a task costs the scheduler, on a device that does nothing.", "bookkeeping_bench");
  std::vector<std::size_t> dependencies{0, 1, 2, 3};
  app.add_option("--dependencies", dependencies, "how many parents a task has, 0 to 3")
      ->delimiter(',')
      ->check(CLI::Range(0, 3));
  return bench::run_main(app, argc, argv, [&](const bench::Options& options) {
    bench::Report report("bookkeeping", {"none", "a device that does nothing"}, argc, argv);
    const int runs = options.small ? 3 : 30;
    for (const std::size_t parents : dependencies)
      for (const std::size_t tasks : {10u, 1000u, 100000u}) {
        const nlohmann::json params{{"dependencies", parents}, {"tasks", tasks}};
        report.add("task-cost", "pergola", params, task_ms(parents, tasks, runs), true);
        report.add("new-session", "pergola", params, new_session_ms(parents, tasks, runs), true);
      }
    if (work_done == 0) throw std::runtime_error("nothing was submitted");
    return report;
  });
}
