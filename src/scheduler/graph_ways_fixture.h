// For tests: graphs that have several ways, on the device with a virtual clock.
#pragma once

#include <atomic>
#include <cstring>
#include <string>
#include <vector>

#include "src/scheduler/scheduler_fixture.h"

namespace pergola::scheduler::testing {

// The same graph, whose launches take so much of the time.
inline device::GraphSpec scaled(device::GraphSpec spec, double by) {
  for (device::GraphNode& node : spec.nodes) {
    auto& parameters = std::get<device::KernelNode>(node.work).parameters;
    double ns = 0;
    std::memcpy(&ns, parameters.data(), sizeof ns);
    ns *= by;
    std::memcpy(parameters.data(), &ns, sizeof ns);
  }
  return spec;
}

// Ways whose launches take `factors` of what the plain ones take.
class Scaled final : public GraphLowerer {
 public:
  Scaled(std::vector<double> factors, bool keeps_plain) : factors_(std::move(factors)), keeps_plain_(keeps_plain) {}
  std::size_t count() const override { return factors_.size(); }
  std::optional<GraphWay> way(std::size_t n, const device::GraphSpec& plain,
                              std::span<const LaunchToLower> launches) override {
    EXPECT_EQ(launches.size(), plain.nodes.size());
    ++asked;
    if (factors_[n] == 0) return std::nullopt;
    return GraphWay{fmt::format("way {}", n), "", scaled(plain, factors_[n])};
  }
  std::string name(std::size_t n) const override { return fmt::format("way {}", n); }
  bool keeps_plain() const override { return keeps_plain_; }
  std::atomic<int> asked = 0;

 private:
  const std::vector<double> factors_;
  const bool keeps_plain_;
};

class GraphWaysFixture : public SchedulerTest {
 protected:
  // 1000 ns that read and write the array.
  void launch(const std::string& name, double ns = 1000) {
    const Access access = all(name, Mode::kReadWrite);
    const KernelCall call{module_, kernel_, {{1, 1, 1}, {32, 1, 1}}, std::as_bytes(std::span(&ns, 1))};
    const Work work{.site = scheduler->site("a"), .accesses = std::span(&access, 1), .call = &call};
    const Status status = scheduler->submit(work, [&](device::Queue& queue) {
      return queue.launch(call.module, call.kernel, call.config, call.parameters);
    });
    ASSERT_TRUE(status.ok()) << status.message();
  }

 private:
  device::ModulePtr module_;
  FakeKernel kernel_;
};

}  // namespace pergola::scheduler::testing
