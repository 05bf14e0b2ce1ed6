// For tests: programs whose launches recur, on the device with a virtual clock.
#pragma once

#include "src/scheduler/scheduler_fixture.h"

namespace pergola::scheduler::testing {

// One other way, which is the plain one again.
class Same final : public GraphLowerer {
 public:
  std::size_t count() const override { return 1; }
  std::optional<GraphWay> way(std::size_t, const device::GraphSpec& plain, std::span<const LaunchToLower>) override {
    return GraphWay{"same", "", plain};
  }
  std::string name(std::size_t) const override { return "same"; }
  bool keeps_plain() const override { return true; }
};

// As kernels of the device with a virtual clock have it.
class FakeBlockForm final : public BlockForm {
 public:
  explicit FakeBlockForm(bool exists) : exists_(exists) {}
  Result<Kernel> make() override {
    ++made;
    if (!exists_) return PERGOLA_ERROR(kUnsupported, "a.ptx:7: this kernel takes no block.");
    return Kernel{nullptr, &kernel_};
  }
  int made = 0;

 private:
  const bool exists_;
  const FakeKernel kernel_{kInABlock};
};

// Kernels that may take their parameters from memory: the first of these is a scalar, for how long the kernel runs.
class BlockFormTest : public SchedulerTest {
 protected:
  void TearDown() override { scheduler.reset(); }  // before the kernels, which no module holds here
  void launch_with(const std::string& name, std::span<const Access> accesses, std::span<const std::byte> parameters,
                   const CallText* text = nullptr) {
    auto& form = forms_[name];
    if (form == nullptr) form = std::make_shared<FakeBlockForm>(!refused_.contains(name));
    const auto scalars = [] { return ByteRanges{{0, sizeof(double)}}; };
    const FunctionRef<ByteRanges()> ask = scalars;
    const KernelCall call{module_, kernels_[name], config_, parameters, &ask, &form, text};
    const Work work{.site = scheduler->site(name), .accesses = accesses, .call = &call};
    const Status status = scheduler->submit(work, [&](device::Queue& queue) {
      return queue.launch(call.module, call.kernel, call.config, call.parameters);
    });
    ASSERT_TRUE(status.ok()) << status.message();
  }
  // Of all kernels, whichever way they ran, in the order of submission.
  std::vector<double> durations() const {
    std::vector<double> found;
    for (const Step& step : device->state().steps) {
      if (step.kind == Step::Kind::kLaunch) found.push_back(step.end_ns - step.start_ns);
      if (step.kind == Step::Kind::kGraph)
        found.insert(found.end(), step.durations_ns.begin(), step.durations_ns.end());
    }
    return found;
  }

  device::LaunchConfig config_{{1, 1, 1}, {32, 1, 1}};
  device::ModulePtr module_;
  std::map<std::string, FakeKernel> kernels_;
  std::map<std::string, std::shared_ptr<BlockForm>> forms_;
  std::set<std::string> refused_;  // kernels that have no such form
};

class GraphTest : public SchedulerTest {
 protected:
  // A launch that may become part of a graph; its name stands in the step's duration.
  void launch(const std::string& name, const std::vector<std::string>& in, const std::vector<std::string>& out,
              double ns = 1000, Ticket* ticket = nullptr, device::EventPtr* event = nullptr) {
    std::vector<Access> accesses;
    for (const std::string& each : in) accesses.push_back(all(each, Mode::kRead));
    for (const std::string& each : out) accesses.push_back(all(each, Mode::kWrite));
    const KernelCall call{module_, kernels_[name], config_, std::as_bytes(std::span(&ns, 1))};
    const auto tell = [&] { return WorkDetail{config_.grid, config_.block, 0, "of " + name}; };
    const FunctionRef<WorkDetail()> detail = tell;
    const Work work{.site = scheduler->site(name), .accesses = accesses, .call = &call, .detail = &detail};
    const Status status = scheduler->submit(
        work,
        [&](device::Queue& queue) { return queue.launch(call.module, call.kernel, call.config, call.parameters); },
        event, ticket);
    ASSERT_TRUE(status.ok()) << status.message();
  }
  // Four launches, of which two may run at once.
  void turn() {
    launch("a", {"x"}, {"y"}, 1000);
    launch("b", {"x"}, {"z"}, 2000);
    launch("c", {"y", "z"}, {"w"}, 3000);
    launch("d", {"w"}, {"x"}, 4000);
  }
  void turns(int count) {
    for (int i = 0; i < count; ++i) turn();
  }
  static constexpr int kTurns = scheduler::GraphLowering::kFewestRepeated / 4;  // in a graph
  // Enough for the period to be found and the graph to be made. The region begins with "a", and its next turn is next.
  void learn() {
    turns(17);  // the first, and 64 launches that bear the period out
    turns(1);   // its first launch has the graph made
    scheduler->settle_graphs();
    turns(kTurns - 1);
    ASSERT_EQ(scheduler->graph_counters().regions, 1u);
    ASSERT_EQ(scheduler->graph_counters().graphs, 1u);
    ASSERT_EQ(graph_launches(), 0u);
  }
  RegionReport report() { return scheduler->graphs().regions.back(); }  // of the latest region

  device::LaunchConfig config_{{1, 1, 1}, {32, 1, 1}};
  device::ModulePtr module_;
  std::map<std::string, FakeKernel> kernels_;
};

// Launches that may be known by what their caller wrote.
class TextTest : public GraphTest {
 protected:
  // As a program would: by its text where that is known, else the whole way. Whether it was known.
  std::pair<bool, Status> write_text(const std::string& name, const std::string& arguments,
                                     std::span<const Access> accesses, double ns) {
    const std::string config = "1x32";
    const CallText text{&kernels_[name], std::as_bytes(std::span(config)), std::as_bytes(std::span(arguments)),
                        &dropped, dropped.load()};
    if (std::optional<Status> again = scheduler->submit_again(text, &ticket)) return {true, *std::move(again)};
    const KernelCall call{.module = module_,
                          .kernel = kernels_[name],
                          .config = config_,
                          .parameters = std::as_bytes(std::span(&ns, 1)),
                          .text = &text};
    const Work work{.site = scheduler->site(name), .accesses = accesses, .call = &call};
    const auto enqueue = [&](device::Queue& queue) {
      return queue.launch(call.module, call.kernel, call.config, call.parameters);
    };
    return {false, scheduler->submit(work, enqueue, nullptr, &ticket)};
  }

  std::atomic<std::uint64_t> dropped{0};
  Ticket ticket = 0;  // of the last one
};

}  // namespace pergola::scheduler::testing
