// Ways of a graph that are put back have no graph until they are tried again, on the device with a virtual clock.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <deque>
#include <map>
#include <random>
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
      const auto slower = test_.slower_on.find({name_, &on});
      static_cast<FakeQueue&>(on).run(test_.takes_ns[name_] * (slower == test_.slower_on.end() ? 1 : slower->second));
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
  // What who makes graphs does for them.
  void serve(GraphWays& ways) {
    most_alive = std::max(most_alive, alive.size());
    if (!ways.asks()) return;
    (void)ways.take_put_back();
    const std::size_t again = ways.to_make();
    EXPECT_EQ(ways.to_make(), GraphWays::kNone) << "it is told once";
    if (again == GraphWays::kNone) return;
    const std::string name = ways.all()[again].name;
    ASSERT_NE(ways.all()[again].spec, nullptr) << name;
    made_again.push_back(name);
    ways.made(again, can_make.contains(name) ? std::make_shared<Graph>(*this, name) : nullptr);
  }
  void launch(GraphWays& ways, int times) {
    for (int n = 0; n < times; ++n) {
      ASSERT_TRUE(ways.launch(*queue).ok());
      device->state().host_ns = device->state().end_ns();
      device->state().steps.clear();
      serve(ways);
    }
  }
  void launch_until_chosen(GraphWays& ways) {
    for (int n = 0; n < 50000 && ways.chosen() == nullptr; ++n) launch(ways, 1);
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
  std::map<std::pair<std::string, device::Queue*>, double> slower_on;  // by what
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

TEST_F(PutBackWays, OneThatCannotBeMadeAgain_IsTriedTheNextTime) {
  GraphWays ways({way("plain", 100e3)});
  ways.add(way("a", 150e3));
  ways.add(way("b", 120e3));
  launch_until_chosen(ways);
  can_make.erase("a");
  takes_ns["a"] = 10e3, takes_ns["b"] = 50e3;
  launch_again(ways);
  EXPECT_EQ(chosen(ways), "b");
  can_make.insert("a");
  launch_again(ways);
  EXPECT_EQ(chosen(ways), "a");
  EXPECT_THAT(made_again, ElementsAre("a", "b", "plain", "a"));
}

// The host is some launches ahead: a way's times come between the launch before a timed one of it and that, and show
// that it is hopeless by now.
TEST_F(PutBackWays, LateTimes_PutAWayBackThatWasToBeLaunchedNext) {
  for (std::size_t ahead = 0; ahead < 24; ++ahead) {
    SCOPED_TRACE(ahead);
    made_again.clear();
    GraphWays ways({way("plain", 100e3)});
    ways.add(way("a", 120e3));
    ways.add(way("b", 120e3));
    launch_until_chosen(ways);
    takes_ns["a"] = 1000e3;
    std::deque<double> ends;
    for (int n = 0; n < 20000 && made_again.size() < 4; ++n) {
      ASSERT_TRUE(ways.launch(*queue).ok());
      ends.push_back(device->state().end_ns());
      if (n != 0) device->state().steps.clear();
      if (ends.size() > ahead + 1) ends.pop_front();
      if (ends.size() == ahead + 1) device->state().host_ns = std::max(device->state().host_ns, ends.front());
      serve(ways);
    }
    EXPECT_EQ(made_again.size(), 4u) << "both, twice";
    device->state().host_ns = device->state().end_ns();
  }
}

// A way that was put back may come to be the fastest, as the one that runs has lost the stream on which it was.
TEST_F(PutBackWays, OneThatIsTheFastestAfterAll_MayBeRefused) {
  const auto other = std::move(device->create_queue()).value();
  slower_on[{"a", queue.get()}] = 1.2, slower_on[{"a", other.get()}] = 0.5;
  GraphWays ways({way("plain", 100e3)});
  const auto launch_on = [&](int n, bool other_is_free) {
    const device::Queue* const wanted = ways.choose();
    device::Queue& to = other_is_free && (wanted == other.get() || (wanted == nullptr && n % 2 == 1)) ? *other : *queue;
    ASSERT_TRUE(ways.launch(to, other_is_free || wanted != other.get()).ok());
    device->state().host_ns = device->state().end_ns();
    serve(ways);
  };
  for (int n = 0; n < 4; ++n) launch_on(n, true);
  ways.add(way("a", 100e3));
  for (int n = 0; n < 200 && ways.chosen() == nullptr; ++n) launch_on(n, true);
  ASSERT_EQ(chosen(ways), "a");
  can_make.clear();
  ways.add(way("b", 99e3));
  for (int n = 0; n < 400; ++n) launch_on(n, false);
  EXPECT_THAT(made_again, ElementsAre("plain", "b")) << "each once";
  EXPECT_EQ(chosen(ways), "a");
}

// Whatever comes when: what is launched has a graph, what is asked for has a spec, and it ends.
TEST_F(PutBackWays, RandomTimesStreamsAndRefusals) {
  const auto seed = std::random_device()();
  SCOPED_TRACE(::testing::Message() << "seed " << seed);
  std::mt19937 random(seed);
  const auto one_of = [&](std::uint32_t n) { return random() % n == 0; };
  std::vector<std::unique_ptr<device::Queue>> queues;
  for (int n = 0; n < 3; ++n) queues.push_back(std::move(device->create_queue()).value());
  const std::vector<std::string> names{"plain", "a", "b", "c", "d"};
  for (int round = 0; round < 60; ++round) {
    GraphWays ways({way("plain", 100e3)});
    std::size_t added = 1, busy = 3;
    for (int n = 0; n < 3000; ++n) {
      if (one_of(500)) takes_ns[names[random() % names.size()]] = 60e3 + random() % 90000;
      if (one_of(300)) {
        busy = random() % 6;
        for (const std::string& name : names)
          for (const auto& each : queues) slower_on[{name, each.get()}] = 0.6 + random() % 9 * 0.1;
      }
      if (one_of(400)) can_make = one_of(2) ? std::set<std::string>{"a", "c"} : std::set(names.begin(), names.end());
      if (added < names.size() && ways.has_tried_all() && n > 3) {
        ways.add(way(names[added], 60e3 + random() % 90000));
        ++added;
      }
      const device::Queue* const wanted = ways.choose();
      ASSERT_NE(std::ranges::find(ways.all(), ways.launched().name, &GraphWays::Way::name)->graph, nullptr);
      std::size_t to = n / (1 + round % 7) % 3;
      const bool is_free = !one_of(16);
      for (std::size_t k = 0; k < queues.size(); ++k)
        if (queues[k].get() == wanted && is_free && round % 2 == 1) to = k;
      if (to == busy) to = (to + 1) % 3;
      ASSERT_TRUE(ways.launch(*queues[to], is_free).ok());
      if (random() % (round % 5 + 2) == 0) device->state().host_ns = device->state().end_ns();
      if (device->state().steps.size() > 200) device->state().steps.clear();
      serve(ways);
    }
    device->state().host_ns = device->state().end_ns();
    can_make = {names.begin(), names.end()};
    launch_until_chosen(ways);
    EXPECT_THAT(alive, ElementsAre(chosen(ways)));
    slower_on.clear();
  }
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
  // What was there before the region was cut as it is has gone.
  const long chunks = 1;
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
