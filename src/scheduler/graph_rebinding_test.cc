// Launches whose arrays change from turn to turn, on the device with a virtual clock.
#include <gmock/gmock.h>

#include <random>

#include "src/scheduler/graph_fixture.h"

namespace pergola::scheduler::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class GraphRebinding : public BlockFormTest {
 protected:
  struct Parameters {
    double ns = 0;
    std::uint64_t pointers[3] = {};  // the numbers of its arrays
  };
  void launch(const std::string& name, std::vector<Access> accesses, double ns = 1000) {
    Parameters parameters{ns, {}};
    for (std::size_t i = 0; i < accesses.size(); ++i)
      parameters.pointers[i] = accesses[i].resource->id() << 32 | accesses[i].range.begin;
    launch_with(name, accesses, std::as_bytes(std::span(&parameters, 1)));
    ++submitted_;
  }
  Access in(const std::string& name) { return all(name, Mode::kRead); }
  Access out(const std::string& name) { return all(name, Mode::kWrite); }
  Access part(const std::string& name, std::uint64_t begin, std::uint64_t end, Mode mode) {
    return {&array(name), {begin, end}, mode};
  }
  std::string fresh() { return "t" + std::to_string(next_++); }
  // 40 launches in pairs: the first of each reads x and writes an array that nobody knows, which the second adds to y.
  void turn_of_temporaries() {
    for (int i = 0; i < 20; ++i) {
      const std::string t = fresh();
      launch("first", {in("x"), out(t)}, 1000 + i);
      launch("second", {in(t), all("y", Mode::kReadWrite)}, 2000 + i);
    }
  }
  template <typename Turn>
  void turns(int count, Turn turn) {
    for (int i = 0; i < count; ++i) {
      turn();
      scheduler->settle_graphs();
    }
  }
  int made(const std::string& form) const { return static_cast<const FakeBlockForm&>(*forms_.at(form)).made; }
  GraphCounters counters() { return scheduler->graph_counters(); }

  std::uint64_t next_ = 0, submitted_ = 0;
};

// Each goes as soon as nothing is to be launched with it, when launches that use it are held.
TEST_F(GraphRebinding, ArraysThatGoAtOnce_CutNoGraph) {
  open_always();
  std::vector<std::weak_ptr<int>> memory;
  const auto turn = [&] {
    for (int i = 0; i < 20; ++i) {
      const std::string t = fresh();
      launch("first", {in("x"), out(t)}, 1000 + i);
      launch("second", {in(t), all("y", Mode::kReadWrite)}, 2000 + i);
      auto its = std::make_shared<int>();
      memory.push_back(its);
      scheduler->retire(std::move(arrays.extract(t).mapped()), std::move(its));
    }
  };
  turns(20, turn);
  const std::size_t launches = kernel_launches(), graphs = graph_launches();
  turns(10, turn);
  EXPECT_EQ(kernel_launches(), launches);
  EXPECT_LE(graph_launches(), graphs + 13) << "of 400 launches, and 32 and more each";
  EXPECT_TRUE(scheduler->synchronize().ok());
  for (const auto& each : memory) EXPECT_TRUE(each.expired());
}

// Another library's memory, let in for each launch and dropped at once: to the scheduler each is another array.
TEST_F(GraphRebinding, ForeignMemoryThatComesAgain_StaysInOrder) {
  open_always();
  const auto use = [&](const char* name, double ns) {
    auto memory = scheduler->create_foreign_resource(kBytes, 0x10000);
    launch(name, {{memory.get(), {0, kBytes}, Mode::kReadWrite}}, ns);
    scheduler->retire(std::move(memory), nullptr);
  };
  turns(40, [&] {
    for (int i = 0; i < 20; ++i) use("first", 1000), use("second", 2000);
  });
  ASSERT_TRUE(scheduler->synchronize().ok());
  double end_ns = 0;
  std::size_t steps = 0;
  for (const Step& step : device->state().steps) {
    if (step.kind != Step::Kind::kLaunch && step.kind != Step::Kind::kGraph) continue;
    EXPECT_GE(step.start_ns, end_ns);
    end_ns = step.end_ns;
    ++steps;
  }
  EXPECT_EQ(steps, 1600u) << "one by one, as nothing else says in which order";
}

TEST_F(GraphRebinding, ANewArrayInEachTurn_RunsAsGraphs) {
  open_always();
  turns(20, [&] { turn_of_temporaries(); });
  const std::size_t launches = kernel_launches(), graphs = graph_launches();
  turns(50, [&] { turn_of_temporaries(); });
  EXPECT_EQ(kernel_launches(), launches);
  EXPECT_GT(graph_launches(), graphs);
  EXPECT_EQ(counters().regions, 1u);
  EXPECT_EQ(counters().flushed, 0u);
  ASSERT_TRUE(scheduler->synchronize().ok());
  EXPECT_EQ(durations().size(), submitted_);
}

TEST_F(GraphRebinding, ThePartOfAnArrayThatMovesOn_RunsAsGraphs) {
  open_always();
  std::uint64_t at = 0;
  const auto turn = [&] {
    for (int i = 0; i < 20; ++i) {
      at = (at + 7) % 31;  // its own period is longer than what is looked for
      launch("first", {part("x", 10 * at, 10 * at + 10, Mode::kRead), out("y" + std::to_string(i))});
      launch("second", {in("y" + std::to_string(i)), out("z")});
    }
  };
  turns(20, turn);
  const std::size_t launches = kernel_launches();
  turns(20, turn);
  EXPECT_EQ(kernel_launches(), launches);
}

// What the graph wrote is what a later launch waits for, and nothing that an earlier turn wrote.
TEST_F(GraphRebinding, WhatComesBehindAGraph_WaitsForTheArraysThatItCameWith) {
  open_always();
  turns(30, [&] {
    turn_of_temporaries();
    ASSERT_TRUE(read("y").ok());  // so that a graph ends here
  });
  turn_of_temporaries();
  const std::string now = "t" + std::to_string(next_ - 1), before = "t" + std::to_string(next_ - 21);
  ASSERT_TRUE(run("reads now", {now}, {"p"}).ok());
  ASSERT_TRUE(run("reads before", {before}, {"q"}).ok());
  const DagPicture picture = scheduler->picture();
  const std::size_t count = picture.vertices.size();
  EXPECT_THAT(picture.vertices.at(count - 3).name, HasSubstr("graph of"));
  const DagVertex &now_reader = picture.vertices.at(count - 2), &before_reader = picture.vertices.at(count - 1);
  ASSERT_EQ(now_reader.edge_count, 1u);
  EXPECT_EQ(now_reader.edges[0].hazard, Hazard::kReadAfterWrite);
  EXPECT_EQ(now_reader.edges[0].parent, count - 2) << "the latest graph, by its number from 1";
  for (std::uint32_t i = 0; i < before_reader.edge_count; ++i) EXPECT_NE(before_reader.edges[i].parent, count - 2);
}

TEST_F(GraphRebinding, WhereArraysStandOtherwise_TheTurnGoesLaunchByLaunch) {
  open_always();
  turns(20, [&] { turn_of_temporaries(); });
  const std::size_t launches = kernel_launches();
  for (int i = 0; i < 20; ++i) {
    const std::string t = fresh();
    launch("first", {in("x"), out(t)}, 1000 + i);
    launch("second", {in(i == 5 ? fresh() : t), all("y", Mode::kReadWrite)}, 2000 + i);
  }
  EXPECT_GT(kernel_launches(), launches);
  EXPECT_GE(counters().flushed, 1u);
  const RegionReport report = scheduler->graphs().regions.back();
  EXPECT_EQ(report.mismatched, 1u);
  EXPECT_THAT(report.mismatch, HasSubstr("'second'"));
  EXPECT_THAT(report.mismatch, HasSubstr("stand otherwise"));
  const std::size_t after = kernel_launches();
  turns(3, [&] { turn_of_temporaries(); });
  EXPECT_EQ(kernel_launches(), after) << "the region is followed still";
  ASSERT_TRUE(scheduler->synchronize().ok());
  EXPECT_EQ(durations().size(), submitted_);
}

TEST_F(GraphRebinding, WhereTheyStandOtherwiseInMostTurns_TheRegionIsGivenUp) {
  open_always();
  turns(20, [&] { turn_of_temporaries(); });
  for (int turn = 0; turn < 30; ++turn)
    for (int i = 0; i < 20; ++i) {
      const std::string t = fresh();
      launch("first", {in("x"), out(t)}, 1000 + i);
      launch("second", {in(i == turn % 20 ? fresh() : t), all("y", Mode::kReadWrite)}, 2000 + i);
    }
  const RegionReport report = scheduler->graphs().regions.back();
  EXPECT_LE(report.mismatched, 16u);
  ASSERT_FALSE(report.graphs.empty());
  EXPECT_THAT(report.graphs.back().refusal, HasSubstr("stand otherwise"));
  ASSERT_TRUE(scheduler->synchronize().ok());
  EXPECT_EQ(durations().size(), submitted_);
}

TEST_F(GraphRebinding, ArraysThatAreTheSame_NeedNoBlock) {
  open_always();
  turns(20, [&] {
    for (int i = 0; i < 20; ++i) {
      launch("first", {in("x"), out("t" + std::to_string(i))});
      launch("second", {in("t" + std::to_string(i)), all("y", Mode::kReadWrite)});
    }
  });
  EXPECT_GT(graph_launches(), 0u);
  EXPECT_EQ(counters().rebinding, 0u);
  EXPECT_THAT(device->state().of(Step::Kind::kCopyUp), IsEmpty());
}

TEST_F(GraphRebinding, BuffersThatTakeTurns_AreALongerTurnOfTheSame) {
  open_always();
  int turn = 0;
  turns(120, [&] {
    const std::string a = "b" + std::to_string(turn % 3), b = "b" + std::to_string((turn + 1) % 3);
    ++turn;
    for (int i = 0; i < 10; ++i) launch("k" + std::to_string(i), {in(a), out(b)});
  });
  const RegionReport report = scheduler->graphs().regions.back();
  EXPECT_EQ(report.period, 30u);
  EXPECT_THAT(report.rebinding, IsEmpty());
}

TEST_F(GraphRebinding, AKernelThatTakesNoBlock_StaysLaunches) {
  refused_ = {"first"};
  open_always();
  turns(40, [&] { turn_of_temporaries(); });
  EXPECT_EQ(graph_launches(), 0u);
  EXPECT_GE(counters().refused, 1u);
  EXPECT_EQ(made("first"), 1);
  ASSERT_TRUE(scheduler->synchronize().ok());
  EXPECT_EQ(durations().size(), submitted_);
}

TEST_F(GraphRebinding, AmongOthers_AKernelThatTakesNoBlockGoesAlone) {
  refused_ = {"odd"};
  open_always();
  const auto turn = [&] {
    std::string t = fresh();
    for (int i = 0; i < 40; ++i) {
      launch("k" + std::to_string(i), {in(t), out("y" + std::to_string(i))});
      if (i == 20) launch("odd", {in(t), out("z")});
    }
  };
  turns(30, turn);
  const std::size_t launches = kernel_launches(), replaced = counters().replaced;
  turns(10, turn);
  EXPECT_GE(kernel_launches(), launches + 10);
  EXPECT_GE(counters().replaced, replaced + 10u * 19) << explain(scheduler->graphs());  // before it or behind it
  EXPECT_THAT(explain(scheduler->graphs()), HasSubstr("its arrays change, and its kernel cannot take its parameters"));
}

TEST_F(GraphRebinding, OnlyLaunchesWhoseArraysChange_AreInTheBlock) {
  open_always();
  turns(20, [&] {
    for (int i = 0; i < 10; ++i) launch("same" + std::to_string(i), {in("x"), all("y", Mode::kReadWrite)});
    const std::string t = fresh();
    for (int i = 0; i < 30; ++i)
      launch("new", {in("x"), part(t, 10 * static_cast<std::uint64_t>(i), 10 * i + 10u, Mode::kWrite)});
  });
  EXPECT_GT(graph_launches(), 0u);
  EXPECT_EQ(made("same0"), 0);
  EXPECT_GT(made("new"), 0);
  EXPECT_THAT(scheduler->graphs().regions.back().rebinding, ElementsAre("new"));
  EXPECT_THAT(explain(scheduler->graphs()),
              HasSubstr("arrays change from turn to turn, and their addresses are in memory, of new"));
}

// The host steps in where the turn ends, which is not where it was found.
TEST_F(GraphRebinding, TurnsThatTheHostWaitsFor_BecomeOneGraphEach) {
  open_always();
  const auto turn = [&] {
    std::string t = fresh();
    launch("a", {in("x"), out(t)});
    for (int i = 0; i < 8; ++i) {
      const std::string next = fresh();
      launch("k" + std::to_string(i), {in(t), out(next)});
      t = next;
    }
    launch("z", {in(t), out("y")});
    ASSERT_TRUE(read("y").ok());
  };
  turns(60, turn);
  const std::size_t launches = kernel_launches(), graphs = graph_launches();
  turns(20, turn);
  EXPECT_EQ(kernel_launches(), launches);
  EXPECT_EQ(graph_launches(), graphs + 20);
}

// Each launch runs once, with its own duration, in order; and arrays go while launches that use them are held.
TEST_F(GraphRebinding, RandomPrograms_RunEachLaunchOnce) {
  const std::uint64_t seed = std::random_device{}();
  SCOPED_TRACE(seed);
  std::mt19937_64 random(seed);
  const auto below = [&](std::uint64_t bound) { return random() % bound; };
  std::uint64_t graphs = 0;
  for (int program = 0; program < 30; ++program) {
    device->state().steps.clear();
    scheduler.reset();
    arrays.clear();
    forms_.clear();
    open_always();
    std::vector<double> expected;
    const std::uint64_t length = 2 + below(60), temporaries = 1 + below(3);
    std::vector<std::uint64_t> from(length), to(length);
    for (std::size_t i = 0; i < length; ++i) from[i] = below(temporaries + 2), to[i] = below(temporaries + 2);
    const std::uint64_t odd = below(3) == 0 ? 1 + below(40) : 0;  // every so many launches another array
    std::vector<std::string> old;
    const bool go_at_once = below(2) == 0;  // when nothing of the turn is to be launched with them; else a turn later
    const auto is_last_use = [&](std::size_t i, std::uint64_t name) {
      for (std::size_t later = i + 1; later < length; ++later)
        if (from[later] == name || to[later] == name) return false;
      return true;
    };
    const auto retire = [&](const std::string& name) {
      if (auto gone = arrays.extract(name); !gone.empty()) scheduler->retire(std::move(gone.mapped()), nullptr);
    };
    for (std::uint64_t turn = 0; turn < 1200 / length + 5; ++turn) {
      std::vector<std::string> names{"x", "y"};
      for (std::uint64_t t = 0; t < temporaries; ++t) names.push_back(fresh());
      for (std::size_t i = 0; i < length; ++i) {
        expected.push_back(static_cast<double>(1 + i + (turn % 3) * 100));
        const bool is_odd = odd != 0 && below(odd) == 0;
        const std::string read_from = is_odd ? fresh() : names[from[i]];
        launch("k" + std::to_string(i % 5), {in(read_from), out(names[to[i]]), all("order", Mode::kReadWrite)},
               expected.back());
        if (go_at_once) {
          if (is_odd) retire(read_from);
          for (const std::uint64_t name : {from[i], to[i]})
            if (name >= 2 && is_last_use(i, name)) retire(names[name]);
        }
        if (below(300) == 0) {
          ASSERT_TRUE(read("x").ok());
        }
        if (below(100) == 0) scheduler->settle_graphs();
      }
      for (const std::string& name : old) retire(name);
      old.assign(names.begin() + 2, names.end());
    }
    ASSERT_TRUE(scheduler->synchronize().ok());
    const std::vector<double> found = durations();
    ASSERT_EQ(found.size(), expected.size());
    for (std::size_t i = 0; i < found.size(); ++i) ASSERT_NEAR(found[i], expected[i], 1e-3) << i;
    graphs += graph_launches();
  }
  EXPECT_GT(graphs, 100u);
}

}  // namespace
}  // namespace pergola::scheduler::testing
