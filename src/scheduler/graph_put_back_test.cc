// Ways of a graph that are put back have no graph until they are tried again, on the device with a virtual clock.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <map>
#include <set>
#include <thread>

#include "src/scheduler/graph_ways_fixture.h"

namespace pergola::scheduler::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::Le;

// Ways by their names, which take as long as the test says by then, and what has a graph.
class PutBackWays : public GraphWaysFixture {
 protected:
  class Graph final : public device::ExecutableGraph {
   public:
    Graph(PutBackWays& test, std::string name) : test_(test), name_(std::move(name)) { test_.alive.insert(name_); }
    ~Graph() override { test_.alive.erase(test_.alive.find(name_)); }
    Status update_parameters(device::NodeId, std::span<const std::byte>) override { return {}; }
    Status launch(device::Queue& on) override {
      test_.launched.push_back(name_);
      static_cast<FakeQueue&>(on).run(test_.takes_ns[name_]);
      return {};
    }

   private:
    PutBackWays& test_;
    const std::string name_;
  };
  GraphWays::Way way(const std::string& name, double ns, bool can_be_made_again = true) {
    takes_ns[name] = ns;
    return {name, "", std::make_shared<Graph>(*this, name),
            can_be_made_again ? std::make_shared<const device::GraphSpec>() : nullptr};
  }
  // With what who makes graphs does for them.
  void launch(GraphWays& ways, int times) {
    for (int n = 0; n < times; ++n) {
      ASSERT_TRUE(ways.launch(*queue).ok());
      device->state().host_ns = device->state().end_ns();
      device->state().steps.clear();
      if (!ways.asks()) continue;
      (void)ways.take_put_back();
      const std::size_t again = ways.to_make();
      EXPECT_EQ(ways.to_make(), GraphWays::kNone) << "it is told once";
      if (again != GraphWays::kNone) {
        const std::string name = ways.all()[again].name;
        EXPECT_NE(ways.all()[again].spec, nullptr) << name;
        made_again.push_back(name);
        ways.made(again, can_make.contains(name) ? std::make_shared<Graph>(*this, name) : nullptr);
      }
      most_alive = std::max(most_alive, alive.size());
    }
  }
  void launch_until_chosen(GraphWays& ways) {
    for (int n = 0; n < 1000 && ways.chosen() == nullptr; ++n) launch(ways, 1);
    ASSERT_NE(ways.chosen(), nullptr);
  }
  std::string chosen(const GraphWays& ways) { return ways.chosen() == nullptr ? "none" : ways.chosen()->name; }
  // Until all have been tried again.
  void launch_again(GraphWays& ways) {
    for (int n = 0; n < 200000 && ways.chosen() != nullptr; ++n) launch(ways, 1);
    ASSERT_EQ(ways.chosen(), nullptr);
    launch_until_chosen(ways);
  }

  std::multiset<std::string> alive;
  std::map<std::string, double> takes_ns;
  std::set<std::string> can_make{"plain", "a", "b", "c", "d"};
  std::vector<std::string> launched, made_again;
  std::size_t most_alive = 0;
  std::unique_ptr<device::Queue> queue = std::move(device->create_queue()).value();
};

TEST_F(PutBackWays, OnlyTheOneThatStays_HasAGraph) {
  GraphWays ways({way("plain", 100e3)});
  launch(ways, 3);
  for (const auto& [name, ns] : std::map<std::string, double>{{"a", 90e3}, {"b", 140e3}, {"c", 80e3}, {"d", 95e3}}) {
    EXPECT_TRUE(ways.has_tried_all()) << name;
    ways.add(way(name, ns));
    EXPECT_FALSE(ways.has_tried_all()) << name;
    launch_until_chosen(ways);
    EXPECT_THAT(alive, ElementsAre(chosen(ways))) << name;
  }
  EXPECT_EQ(chosen(ways), "c");
  EXPECT_THAT(ways.by_time(), ElementsAre("c", "a", "d", "plain", "b")) << "their times stay";
  EXPECT_THAT(most_alive, Le(2u));
  EXPECT_TRUE(made_again.empty());
}

TEST_F(PutBackWays, AreMadeAgain_OneByOne_ToBeTriedAgain) {
  GraphWays ways({way("plain", 100e3)});
  for (const char* const name : {"a", "b", "c"}) ways.add(way(name, 120e3));
  launch_until_chosen(ways);
  EXPECT_EQ(chosen(ways), "plain");
  takes_ns["b"] = 70e3, takes_ns["c"] = 60e3;
  most_alive = 0;
  launch_again(ways);
  EXPECT_EQ(chosen(ways), "c");
  EXPECT_THAT(made_again, ElementsAre("a", "b", "c"));
  EXPECT_THAT(most_alive, Le(3u)) << "the one that runs, the fastest and the one that is tried";
  EXPECT_THAT(alive, ElementsAre("c"));
  takes_ns["c"] = 100e3;
  launch_again(ways);
  EXPECT_EQ(chosen(ways), "b");
  EXPECT_THAT(made_again, ElementsAre("a", "b", "c", "plain", "a", "b"));
  EXPECT_THAT(alive, ElementsAre("b"));
}

// What runs meanwhile is what was chosen, whatever is made and tried.
TEST_F(PutBackWays, WhileTheyAreMade_WhatWasChosenRuns) {
  GraphWays ways({way("plain", 100e3)});
  ways.add(way("a", 80e3));
  launch_until_chosen(ways);
  while (ways.chosen() != nullptr) launch(ways, 1);
  launched.clear();
  for (int n = 0; n < 200; ++n) {
    ASSERT_TRUE(ways.launch(*queue).ok());
    device->state().host_ns = device->state().end_ns();
  }
  EXPECT_EQ(std::ranges::count(launched, "a"), 200) << "nobody has made the other";
  ASSERT_TRUE(ways.asks());
  ASSERT_NE(ways.to_make(), GraphWays::kNone);
  ways.make_later();
  ASSERT_TRUE(ways.launch(*queue).ok());
  EXPECT_TRUE(ways.asks()) << "it is asked for again";
  launch_until_chosen(ways);
  EXPECT_EQ(chosen(ways), "a");
  EXPECT_THAT(made_again, ElementsAre("plain"));
}

TEST_F(PutBackWays, OneThatCannotBeMadeAgain_IsNotTriedAnyMore) {
  GraphWays ways({way("plain", 100e3)});
  ways.add(way("a", 150e3));
  ways.add(way("b", 120e3));
  launch_until_chosen(ways);
  can_make.erase("a");
  takes_ns["a"] = 10e3, takes_ns["b"] = 50e3;
  launch_again(ways);
  EXPECT_EQ(chosen(ways), "b");
  launch_again(ways);
  EXPECT_EQ(chosen(ways), "b");
  EXPECT_THAT(made_again, ElementsAre("a", "b", "plain")) << "a once";
}

TEST_F(PutBackWays, OneWithoutASpec_KeepsItsGraph) {
  GraphWays ways({way("plain", 100e3, false)});
  ways.add(way("a", 80e3));
  ways.add(way("b", 120e3));
  launch_until_chosen(ways);
  EXPECT_THAT(alive, ElementsAre("a", "plain"));
  launch_again(ways);
  EXPECT_EQ(chosen(ways), "a");
  EXPECT_THAT(made_again, ElementsAre("b"));
}

// In the scheduler, with its threads: of each chunk one graph is left, and what is tried again is made again.
TEST_F(PutBackWays, OfEachGraphInASession_OneWayIsLeft) {
  const auto lowerer = std::make_shared<Scaled>(std::vector<double>{0.9, 0.5, 1.5, 0.7}, true);
  open("graphs=always", lowerer);
  scheduler->set_graph_patience(std::chrono::hours(1));
  const auto turn = [&] {
    for (int i = 0; i < 32; ++i) this->GraphWaysFixture::launch("x");
    ASSERT_TRUE(scheduler->synchronize().ok());
  };
  const auto is_settled = [&] {
    const GraphsReport report = scheduler->graphs();
    if (report.regions.empty() || report.regions.back().graphs.empty()) return false;
    const auto& ways = report.regions.back().graphs.back().ways;
    return ways.size() == 5 && ways[2].state == WayReport::State::kKept;
  };
  const auto turns_until = [&](const auto& is_so) {
    const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(60);
    while (!is_so() && std::chrono::steady_clock::now() < until) turn();
    EXPECT_TRUE(is_so()) << explain(scheduler->graphs());
  };
  long most = 0;
  turns_until([&] {
    most = std::max(most, device->graphs_alive());
    return is_settled();
  });
  // Of a chunk, and of the one that was there before the region was cut as it is, which may be kept.
  const long chunks = static_cast<long>(scheduler->graph_counters().graphs);
  turns_until([&] { return device->graphs_alive() <= chunks; });
  EXPECT_LE(most, chunks + 3) << "the fastest, one that is tried, and one on its way out";
  const int asked = lowerer->asked;
  const std::uint64_t made = device->graphs_made();
  turns_until([&] { return device->graphs_made() >= made + 4 && is_settled(); });
  turns_until([&] { return device->graphs_alive() <= chunks; });
  EXPECT_EQ(lowerer->asked, asked) << "none is thought of anew";
}

}  // namespace
}  // namespace pergola::scheduler::testing
