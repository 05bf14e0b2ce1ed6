// What goes ahead of held launches and what does not, on the device with a virtual clock: by hazard and range of bytes,
// by what asks, and random programs in which nothing that conflicts may overlap.
#include <gmock/gmock.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <thread>

#include "src/scheduler/graph_fixture.h"

namespace pergola::scheduler::testing {
namespace {

class GraphPassing : public GraphTest {
 protected:
  static constexpr std::uint64_t kHalf = kBytes / 2;

  // A launch that uses the first half of each array, reads these and writes those.
  void launch_half(const std::string& name, const std::vector<std::string>& in, const std::vector<std::string>& out,
                   double ns = 1000) {
    std::vector<Access> accesses;
    for (const std::string& each : in) accesses.push_back({&array(each), {0, kHalf}, Mode::kRead});
    for (const std::string& each : out) accesses.push_back({&array(each), {0, kHalf}, Mode::kWrite});
    submit_launch(name, accesses, Mode::kNone, ns);
  }
  void submit_launch(const std::string& name, std::span<const Access> accesses, Mode universal, double ns) {
    const KernelCall call{module_, kernels_[name], config_, std::as_bytes(std::span(&ns, 1))};
    const Work work{.site = scheduler->site(name), .accesses = accesses, .universal = universal, .call = &call};
    const Status status = scheduler->submit(work, [&](device::Queue& queue) {
      return queue.launch(call.module, call.kernel, call.config, call.parameters);
    });
    ASSERT_TRUE(status.ok()) << status.message();
  }
  void half_turn() {
    launch_half("a", {"x"}, {"y"}, 1000);
    launch_half("b", {"x"}, {"z"}, 2000);
    launch_half("c", {"y", "z"}, {"w"}, 3000);
    launch_half("d", {"w"}, {"x"}, 4000);
  }
  // The next turn is next, and its launches are held.
  void learn_halves() {
    for (int i = 0; i < 18; ++i) half_turn();
    scheduler->settle_graphs();
    for (int i = 0; i < kTurns - 1; ++i) half_turn();
    ASSERT_EQ(scheduler->graph_counters().graphs, 1u);
  }
  // The launch in the middle may use anything.
  void any_turn() {
    launch("a", {"x"}, {"y"});
    submit_launch("any", {}, Mode::kReadWrite, 1000);
    launch("b", {"y"}, {"z"}), launch("c", {"z"}, {"w"});
  }
  void learn_any() {
    for (int i = 0; i < 18; ++i) any_turn();
    scheduler->settle_graphs();
    for (int i = 0; i < kTurns - 1; ++i) any_turn();
  }
  void other(WorkKind kind, const std::string& name, Range range, Mode mode) {
    const Access access{&array(name), range, mode};
    const Status status =
        scheduler->submit({.kind = kind, .site = scheduler->site("other"), .accesses = std::span(&access, 1)},
                          [&](device::Queue& queue) { return queue.fill(nullptr, 0, range.end - range.begin, 0, 1); });
    ASSERT_TRUE(status.ok()) << status.message();
  }
  void fill(const std::string& name, Range range = {0, kBytes}) { other(WorkKind::kFill, name, range, Mode::kWrite); }
  void upload(const std::string& name) { other(WorkKind::kCopyToDevice, name, {0, kBytes}, Mode::kWrite); }
  std::vector<Step> others() const { return device->state().of(Step::Kind::kFill); }
  std::uint64_t interrupted() const { return scheduler->graph_counters().interrupted; }
  std::uint64_t passed() const { return scheduler->graph_counters().passed; }
};

struct PassingCase {
  const char* name;
  const char* array;
  Range range;
  Mode mode;
  bool flushes;
};

class GraphPassingCases : public GraphPassing, public ::testing::WithParamInterface<PassingCase> {};

// a (x -> y) is held; both use the first half of an array.
TEST_P(GraphPassingCases, WhatConflictsFlushes_AndNothingElse) {
  const PassingCase& one = GetParam();
  for (const bool is_of_the_host : {false, true}) {
    arrays.clear();
    device->state() = FakeState();
    open_always();
    learn_halves();
    const std::size_t kernels = kernel_launches();
    launch_half("a", {"x"}, {"y"}, 1000);
    ASSERT_EQ(kernel_launches(), kernels) << "it is held";
    if (is_of_the_host)
      ASSERT_TRUE(scheduler->begin_host_access({&array(one.array), one.range, one.mode}).ok());
    else
      other(WorkKind::kCopy, one.array, one.range, one.mode);
    EXPECT_EQ(kernel_launches(), kernels + (one.flushes ? 1 : 0));
    EXPECT_EQ(interrupted(), one.flushes ? 1u : 0u);
    EXPECT_EQ(passed() == 0, one.flushes);
    if (is_of_the_host) continue;
    ASSERT_EQ(others().size(), 1u) << "it is queued at once";
    if (one.flushes) {
      EXPECT_GE(others()[0].start_ns, device->state().of(Step::Kind::kLaunch).back().end_ns);
    }
    ASSERT_TRUE(scheduler->synchronize().ok());
  }
}

INSTANTIATE_TEST_SUITE_P(All, GraphPassingCases,
                         ::testing::Values(PassingCase{"RAW", "y", {499, 500}, Mode::kRead, true},
                                           PassingCase{"RAW_behind", "y", {500, 501}, Mode::kRead, false},
                                           PassingCase{"WAR", "x", {0, 1}, Mode::kWrite, true},
                                           PassingCase{"WAR_behind", "x", {500, 1000}, Mode::kWrite, false},
                                           PassingCase{"WAW", "y", {499, 1000}, Mode::kWrite, true},
                                           PassingCase{"WAW_behind", "y", {500, 600}, Mode::kWrite, false},
                                           PassingCase{"BothRead", "x", {0, 1000}, Mode::kRead, false},
                                           PassingCase{"Apart", "v", {0, 1000}, Mode::kReadWrite, false}),
                         [](const auto& one) { return one.param.name; });

TEST_F(GraphPassing, ACopyThatPasses_LeavesTheTurnOneGraph) {
  open_always();
  learn_halves();
  const std::size_t kernels = kernel_launches();
  for (int turn = 0; turn < 3 * kTurns; ++turn) {
    launch_half("a", {"x"}, {"y"}, 1000);
    fill("v");
    launch_half("b", {"x"}, {"z"}, 2000);
    launch_half("c", {"y", "z"}, {"w"}, 3000);
    upload("u");
    launch_half("d", {"w"}, {"x"}, 4000);
  }
  EXPECT_EQ(kernel_launches(), kernels);
  EXPECT_EQ(graph_launches(), 3u);
  EXPECT_EQ(others().size(), 6u * kTurns);
  EXPECT_EQ(interrupted(), 0u);
  EXPECT_EQ(passed(), 6u * kTurns);
  ASSERT_TRUE(scheduler->synchronize().ok());
}

// And the region is found with copies in it from the first turn on.
TEST_F(GraphPassing, ARegionWithCopiesInIt_IsFoundAndIsGraphs) {
  open_always();
  const auto turn_with_fills = [&] {
    fill("u");
    turn();
    fill("v");
  };
  for (int i = 0; i < 40; ++i) {
    turn_with_fills();
    scheduler->settle_graphs();
  }
  EXPECT_EQ(scheduler->graph_counters().regions, 1u);
  const std::size_t kernels = kernel_launches();
  const std::uint64_t before = interrupted();
  for (int i = 0; i < 4 * kTurns; ++i) turn_with_fills();
  EXPECT_EQ(kernel_launches(), kernels);
  EXPECT_EQ(interrupted(), before);
}

TEST_F(GraphPassing, WhatALaterLaunchOfTheChunkUses_ComesBeforeTheWholeGraph) {
  open_always();
  learn_halves();
  launch_half("a", {"x"}, {"y"}, 1000);
  launch_half("b", {"x"}, {"z"}, 2000);
  fill("w");  // which c is to write
  launch_half("c", {"y", "z"}, {"w"}, 3000);
  launch_half("d", {"w"}, {"x"}, 4000);
  for (int i = 0; i < kTurns - 1; ++i) half_turn();
  ASSERT_EQ(graph_launches(), 1u);
  ASSERT_EQ(others().size(), 1u);
  EXPECT_GE(device->state().of(Step::Kind::kGraph)[0].start_ns, others()[0].end_ns);
  EXPECT_EQ(interrupted(), 0u);
}

// A copy over the link would have all of the graph wait for it: from then on a graph begins where it is used first.
TEST_F(GraphPassing, AnUploadThatALaterLaunchUses_BeginsAGraphOfItsOwn) {
  open_always();
  const auto turn_with_upload = [&] {
    ASSERT_TRUE(scheduler->synchronize().ok());
    launch("a", {"x"}, {"y"}, 1000);
    upload("u");
    launch("b", {"y"}, {"z"}, 2000);
    launch("c", {"u", "z"}, {"w"}, 3000);
    launch("d", {"w"}, {"v"}, 4000);
  };
  for (int i = 0; i < 40; ++i) {
    turn_with_upload();
    scheduler->settle_graphs();
  }
  const std::size_t kernels = kernel_launches(), graphs = graph_launches();
  const std::uint64_t before = interrupted();
  for (int i = 0; i < 8; ++i) turn_with_upload();
  EXPECT_EQ(kernel_launches(), kernels);
  EXPECT_EQ(graph_launches(), graphs + 16) << "a and b do not wait for u, c and d do";
  EXPECT_EQ(interrupted(), before);
}

TEST_F(GraphPassing, TheHostWaitsForWhatIsHeldOnly_WhereThatMakesIt) {
  open_always();
  learn();
  ASSERT_TRUE(run("make", {}, {"v"}, 1e6).ok());  // is another launch: begins the region anew
  turns(kTurns);
  scheduler->settle_graphs();
  turns(1);
  ASSERT_TRUE(scheduler->synchronize().ok());
  turns(kTurns);
  scheduler->settle_graphs();
  ASSERT_TRUE(scheduler->synchronize().ok());
  fill("v");
  const std::size_t kernels = kernel_launches();
  launch("a", {"x"}, {"y"}, 1000);
  ASSERT_EQ(kernel_launches(), kernels);
  ASSERT_TRUE(read("v").ok());  // waits for the fill
  EXPECT_GE(device->state().host_ns, others().back().end_ns);
  EXPECT_TRUE(static_cast<bool>(scheduler->try_host_access(all("v", Mode::kReadWrite))));
  EXPECT_EQ(kernel_launches(), kernels);
  ASSERT_TRUE(read("y").ok());
  EXPECT_EQ(kernel_launches(), kernels + 1);
  EXPECT_GE(device->state().host_ns, device->state().of(Step::Kind::kLaunch).back().end_ns);
}

// The launches that are held meanwhile are too late for that, not for a slow host: the chunk is cut there and no
// shorter elsewhere.
TEST_F(GraphPassing, AWaitThatOutlastsThePatience_CutsTheChunkThere) {
  open("graphs=always");
  scheduler->set_graph_patience(std::chrono::milliseconds(50));
  const auto turn_with_wait = [&](bool long_wait) {
    fill("v");
    launch("a", {"x"}, {"y"}, 1000), launch("b", {"x"}, {"z"}, 2000);
    if (long_wait)
      device->state().while_waiting = [&] {
        std::this_thread::sleep_for(std::chrono::milliseconds(60));
        while (scheduler->holds_launches()) std::this_thread::sleep_for(std::chrono::milliseconds(1));
      };
    ASSERT_TRUE(read("v").ok());
    device->state().while_waiting = nullptr;
    launch("c", {"y", "z"}, {"w"}, 3000), launch("d", {"w"}, {"x"}, 4000);
    device->state().host_ns += 1e5;
  };
  for (int i = 0; i < 60; ++i) {
    turn_with_wait(i > 17);
    scheduler->settle_graphs();
  }
  const std::uint64_t overdue = scheduler->graph_counters().overdue;
  EXPECT_GE(overdue, 1u);
  const std::size_t kernels = kernel_launches(), graphs = graph_launches();
  for (int i = 0; i < 4; ++i) turn_with_wait(true);
  EXPECT_EQ(scheduler->graph_counters().overdue, overdue);
  EXPECT_EQ(kernel_launches(), kernels);
  EXPECT_EQ(graph_launches(), graphs + 4) << "c d a b, between two waits";
}

TEST_F(GraphPassing, MemoryThatGoes_GoesBehindWhatUsesIt) {
  open_always();
  learn();
  array("v"), array("empty");
  const std::size_t kernels = kernel_launches();
  launch("a", {"x"}, {"y"}, 1000);
  auto memory = std::make_shared<int>();
  const std::weak_ptr<int> alive = memory;
  scheduler->retire(std::move(arrays["v"]), std::move(memory));
  EXPECT_TRUE(alive.expired()) << "nobody uses it";
  EXPECT_EQ(kernel_launches(), kernels);
  launch("b", {"x"}, {"z"}, 2000);
  const std::size_t graphs = graph_launches();
  memory = std::make_shared<int>();
  const std::weak_ptr<int> used = memory;
  scheduler->retire(std::move(arrays["x"]), std::move(memory));
  EXPECT_EQ(kernel_launches(), kernels) << "they need not go for that";
  EXPECT_FALSE(used.expired());
  launch("c", {"y", "z"}, {"w"}, 3000);
  EXPECT_FALSE(scheduler->await_retired(true, std::nullopt)) << "launches are held";
  EXPECT_FALSE(used.expired());
  EXPECT_TRUE(scheduler->await_retired(false, std::nullopt)) << "these have gone first";
  EXPECT_EQ(kernel_launches(), kernels + 3);
  EXPECT_EQ(graph_launches(), graphs);
  EXPECT_TRUE(used.expired());
  EXPECT_FALSE(scheduler->await_retired(false, std::nullopt)) << "nothing is left";
}

TEST_F(GraphPassing, MuchMemoryThatGoes_IsNotHeldFor) {
  open_always();
  learn_any();
  const std::size_t kernels = kernel_launches();
  launch("a", {"x"}, {"y"});
  submit_launch("any", {}, Mode::kReadWrite, 1000);
  std::vector<std::weak_ptr<int>> left;
  const auto retire = [&](int times) {
    for (int i = 0; i < times; ++i) {
      auto memory = std::make_shared<int>();
      left.push_back(memory);
      scheduler->retire(scheduler->create_resource(i), std::move(memory));
    }
  };
  retire(60);
  EXPECT_EQ(kernel_launches(), kernels);
  for (const auto& each : left) EXPECT_FALSE(each.expired());
  retire(10);
  EXPECT_EQ(kernel_launches(), kernels + 2);
  EXPECT_TRUE(scheduler->synchronize().ok());
  for (const auto& each : left) EXPECT_TRUE(each.expired());
}

TEST_F(GraphPassing, AHeldLaunchThatMayUseAnything_IsPassedByNothing) {
  open_always();
  learn_any();
  const std::size_t kernels = kernel_launches();
  launch("a", {"x"}, {"y"});
  fill("v");
  EXPECT_EQ(kernel_launches(), kernels);
  submit_launch("any", {}, Mode::kReadWrite, 1000);
  fill("v");
  EXPECT_EQ(kernel_launches(), kernels + 2);
  EXPECT_GE(others().back().start_ns, device->state().of(Step::Kind::kLaunch).back().end_ns);
}

TEST_F(GraphPassing, ReadersAsWriters_ArePassedByNoReader) {
  open("graphs=always,dependency=no-const");
  scheduler->set_graph_patience(std::chrono::hours(1));
  learn_halves();
  const std::size_t kernels = kernel_launches();
  launch_half("a", {"x"}, {"y"}, 1000);
  other(WorkKind::kCopy, "x", {0, 10}, Mode::kRead);
  EXPECT_EQ(kernel_launches(), kernels + 1);
}

TEST_F(GraphPassing, ASessionThatEndsAfterSomethingHasPassed_LaunchesWhatIsHeld) {
  open_always();
  learn();
  const std::size_t kernels = kernel_launches();
  launch("a", {"x"}, {"y"}, 1000);
  fill("v");
  EXPECT_EQ(kernel_launches(), kernels);
  scheduler.reset();
  EXPECT_EQ(kernel_launches(), kernels + 1);
}

// ── Random programs ─────────────────────────────────────────────────────────────────────────────────────────────────

// One piece of work: when it ran, or the graph did that it was in.
struct Piece {
  std::vector<Access> accesses;
  double ns = 0;         // by which its step is known
  bool is_copy = false;  // one that may be part of a graph
  double start_ns = -1, end_ns = -1;
  std::size_t step = 0;
};

bool conflicts(const Piece& a, const Piece& b) {
  for (const Access& x : a.accesses)
    for (const Access& y : b.accesses)
      if (x.resource == y.resource && x.range.begin < y.range.end && y.range.begin < x.range.end &&
          (writes(x.mode) || writes(y.mode)))
        return true;
  return false;
}

// By its index a region finds what a look at one launch after the other finds.
TEST_F(GraphPassing, TheFirstInConflict_IsTheOneThatALoopFinds) {
  open_always();
  const unsigned seed = 20261127;
  std::mt19937 random(seed);
  const auto below = [&](std::uint64_t bound) { return random() % bound; };
  const auto random_access = [&] {
    const std::uint64_t begin = below(5) * 200;
    return Access{
        &array(fmt::format("a{}", below(4))), {begin, begin + 200 * below(3)}, static_cast<Mode>(1 + below(3))};
  };
  for (int round = 0; round < 300; ++round) {
    SCOPED_TRACE(fmt::format("seed {}, round {}", seed, round));
    Region region;
    const std::size_t count = 1 + below(12);
    for (std::size_t i = 0; i < count; ++i) {
      std::vector<Access> accesses;
      for (std::uint64_t a = below(4); a != 0; --a) accesses.push_back(random_access());
      const double ns = 1;
      const KernelCall call{module_, kernels_["k"], config_, std::as_bytes(std::span(&ns, 1))};
      const Mode universal = below(12) == 0 ? static_cast<Mode>(1 + below(3)) : Mode::kNone;
      region.launches.emplace_back(
          Work{.site = scheduler->site("k"), .accesses = accesses, .universal = universal, .call = &call}, 0);
      if (below(4) != 0) continue;
      region.launches.back().rebind();
      for (Access& access : accesses) access = random_access();
      region.launches.back().set_latest_accesses(accesses);
    }
    for (int question = 0; question < 10; ++question) {
      const std::vector<Access> asked(1 + below(2), random_access());
      const std::size_t begin = below(count + 1), end = begin + below(count + 1 - begin);
      const bool readers_conflict = below(2) == 0, have_come = below(2) == 0;
      const auto is_known = [&](const Launch& launch) {
        return have_come || !launch.rebinds() || launch.universal != Mode::kNone;
      };
      std::size_t expected = begin;
      while (expected < end &&
             !(is_known(region.launches[expected]) && conflict(asked, region.launches[expected], readers_conflict)))
        ++expected;
      EXPECT_EQ(region.first_in_conflict(asked, begin, end, readers_conflict, have_come), expected);
    }
  }
}

class RandomPassing : public GraphPassing {
 protected:
  std::uint64_t below(std::uint64_t bound) { return random_() % bound; }
  Access random_access() {
    std::uint64_t begin = below(4) * 250, end = begin + 250 * (1 + below(2));
    return {&array(fmt::format("a{}", below(6))), {begin, std::min(end, kBytes)}, static_cast<Mode>(1 + below(3))};
  }
  void launch_again(const Piece& like) {
    if (like.is_copy) {
      const CopyCall call{memory_, memory_, static_cast<std::size_t>(like.ns * FakeQueue::kBytesPerNs)};
      const Work work{
          .kind = WorkKind::kCopyToDevice, .site = scheduler->site("copy"), .accesses = like.accesses, .copy = &call};
      ASSERT_TRUE(
          scheduler
              ->submit(work,
                       [&](device::Queue& queue) { return queue.copy(call.to, 0, call.from, 0, call.size_bytes); })
              .ok());
    } else {
      submit_launch(fmt::format("k{}", like.ns), like.accesses, Mode::kNone, like.ns);
    }
    ran_.push_back(like);
  }
  // The host's is known by no step: it has ended when it returns.
  void random_other() {
    Piece one{{random_access()}, 1e6 + static_cast<double>(ran_.size())};
    if (below(3) == 0) {
      ASSERT_TRUE(scheduler->begin_host_access(one.accesses[0]).ok());
      one.ns = 0;
      one.start_ns = one.end_ns = device->state().host_ns;
    } else {
      constexpr WorkKind kKinds[] = {WorkKind::kCopyToDevice, WorkKind::kCopyToHost, WorkKind::kCopy, WorkKind::kFill};
      ASSERT_TRUE(submit("other", {.kind = kKinds[below(4)], .accesses = one.accesses}, one.ns).ok());
    }
    ran_.push_back(one);
  }
  // Each launch of one duration is in the order of its turns.
  void find_steps() {
    std::map<double, std::vector<std::size_t>> by_ns;
    for (std::size_t i = 0; i < ran_.size(); ++i) by_ns[ran_[i].ns].push_back(i);
    std::map<double, std::size_t> next;
    const auto found = [&](double ns, const Step& step, std::size_t number) {
      ASSERT_LT(next[ns], by_ns[ns].size());
      Piece& one = ran_[by_ns[ns][next[ns]++]];
      one.start_ns = step.start_ns, one.end_ns = step.end_ns, one.step = number;
    };
    std::size_t number = 0;
    for (const Step& step : device->state().steps) {
      ++number;
      if (step.kind == Step::Kind::kLaunch || step.kind == Step::Kind::kCopy)
        found(std::round(step.end_ns - step.start_ns), step, number);
      if (step.kind == Step::Kind::kGraph)
        for (const double ns : step.durations_ns) found(ns, step, number);
    }
    for (const Piece& one : ran_) ASSERT_GE(one.start_ns, 0) << one.ns << " never ran";
  }

  void run_programs(const std::string& policy, int programs, int turns, bool others);

  std::mt19937_64 random_;
  std::vector<Piece> ran_;
  std::uint64_t graphs_ = 0, went_ahead_ = 0, copies_in_graphs_ = 0, programs_with_leads_ = 0, programs_with_forms_ = 0,
                programs_ahead_ = 0;
  const device::BufferPtr memory_ = *device->allocate(8, device::MemoryKind::kDevice);
};

// `turns`: of each program; `others`: whether something else comes in between.
void RandomPassing::run_programs(const std::string& policy, int programs, int turns, bool others) {
  const std::uint64_t seed = std::random_device{}();
  SCOPED_TRACE(fmt::format("seed {}", seed));
  random_.seed(seed);
  for (int program = 0; program < programs; ++program) {
    arrays.clear(), ran_.clear();
    device->state() = FakeState();
    open_always(policy);
    device->state().launch_ns = static_cast<double>(below(3)) * 3000;  // so that different forms take the least
    const bool begins_with_an_upload = program % 4 == 0;               // a large one, behind a wait of the host
    const bool has_many_uploads = program % 8 == 0;  // some of which go ahead of the piece that they come in
    std::vector<Piece> turn(has_many_uploads ? 14 + below(4) : 3 + below(6));
    for (std::size_t i = 0; i < turn.size(); ++i) {
      turn[i].ns = 1000 + static_cast<double>(i);
      const bool must_lead = begins_with_an_upload && i == 0, is_of_many = has_many_uploads && i % 2 == 0;
      turn[i].is_copy = must_lead || is_of_many || (program % 2 == 0 && below(3) == 0);
      if (is_of_many)
        turn[i].ns += 2000;
      else if (must_lead || (turn[i].is_copy && below(2) == 0))
        turn[i].ns += 10000;  // which may go when it comes
      for (std::uint64_t n = 1 + below(2); n > 0; --n) turn[i].accesses.push_back(random_access());
    }
    const std::uint64_t place = below(turn.size() + 1);         // of something else in each turn
    const bool waits = begins_with_an_upload || below(2) == 0;  // the host does, for each turn
    Piece always{{random_access()}, 0};
    const auto kind = below(2) == 0 ? WorkKind::kFill : WorkKind::kCopyToDevice;
    for (int i = 0; i < turns; ++i) {
      for (std::size_t k = 0; k < turn.size(); ++k) {
        if (k == place) {
          always.ns = 2e6 + static_cast<double>(ran_.size());
          ASSERT_TRUE(submit("always", {.kind = kind, .accesses = always.accesses}, always.ns).ok());
          ran_.push_back(always);
        }
        launch_again(turn[k]);
        if (others && i > 30 && below(20) == 0) random_other();
      }
      if (waits) {
        ASSERT_TRUE(scheduler->synchronize().ok());
      }
      scheduler->settle_graphs();
    }
    ASSERT_TRUE(scheduler->synchronize().ok());
    graphs_ += graph_launches(), went_ahead_ += passed();
    const std::string told = explain(scheduler->graphs());
    programs_ahead_ += told.find("which go when they come") != std::string::npos;
    programs_with_leads_ += told.find("that a turn begins with go at once, while") != std::string::npos;
    programs_with_forms_ +=
        told.find("  turns as leads, ") != std::string::npos && told.find("still being") == std::string::npos;
    find_steps();
    for (const Piece& one : ran_)
      copies_in_graphs_ += one.is_copy && device->state().steps[one.step - 1].kind == Step::Kind::kGraph;
    for (std::size_t i = 0; i < ran_.size(); ++i)
      for (std::size_t j = i + 1; j < ran_.size(); ++j)
        if (conflicts(ran_[i], ran_[j]) && (ran_[i].step != ran_[j].step || ran_[i].step == 0)) {
          ASSERT_LE(ran_[i].end_ns, ran_[j].start_ns) << "program " << program << ", " << i << " and " << j;
        }
  }
  EXPECT_GT(graphs_, 0u);
  EXPECT_GT(copies_in_graphs_, 0u);
}

TEST_F(RandomPassing, NothingThatConflictsOverlaps) {
  run_programs("", 60, 70, true);
  EXPECT_GT(went_ahead_, 0u);
  EXPECT_GT(programs_with_leads_, 0u);
  EXPECT_GT(programs_ahead_, 0u);
}

TEST_F(RandomPassing, NothingThatConflictsOverlaps_WhileFormsOfTurnsAreTried) {
  run_programs("", 16, 160, false);
  EXPECT_GT(programs_with_forms_, 0u);
}

TEST_F(RandomPassing, NothingThatConflictsOverlaps_InAnyFormOfTurns) {
  for (const char* policy : {"turns=leads", "turns=whole", "turns=launches"}) run_programs(policy, 20, 70, true);
}

}  // namespace
}  // namespace pergola::scheduler::testing
