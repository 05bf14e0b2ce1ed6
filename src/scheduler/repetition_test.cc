// Launches behind their like (repetition.h): written down as any other would be, and only where nothing is different.
#include <fmt/format.h>
#include <gmock/gmock.h>

#include <random>

#include "src/scheduler/graph_fixture.h"

namespace pergola::scheduler::testing {
namespace {

struct Use {
  std::string array;
  Mode mode = Mode::kReadWrite;
  Range range{0, 1000};
};

// "" where they are the same, else the first that is not.
std::string difference(const std::vector<std::string>& a, const std::vector<std::string>& b) {
  for (std::size_t i = 0; i < std::max(a.size(), b.size()); ++i) {
    const std::string one = i < a.size() ? a[i] : "nothing", other = i < b.size() ? b[i] : "nothing";
    if (one != other && !one.ends_with("?") && !other.ends_with("?")) return one + " | " + other;
  }
  return "";
}

class Repetitions : public TextTest {
 protected:
  Status write(const std::string& name, const std::vector<Use>& uses, double ns = 1) {
    std::string arguments = name;
    std::vector<Access> accesses;
    for (const Use& use : uses) {
      arguments += fmt::format(" {}[{}:{}] {}", use.array, use.range.begin, use.range.end, static_cast<int>(use.mode));
      accesses.push_back({&array(use.array), use.range, use.mode, static_cast<std::uint16_t>(accesses.size() + 1)});
    }
    return write_text(name, arguments, accesses, ns).second;
  }
  void write_times(int times, const std::string& name, const std::vector<Use>& uses) {
    for (int i = 0; i < times; ++i) ASSERT_TRUE(write(name, uses).ok());
  }
  // Until launches of it are repeated.
  void learn(const std::string& name, const std::vector<Use>& uses) {
    for (int i = 0; i < 400 && repeated() == 0; ++i) ASSERT_TRUE(write(name, uses).ok());
    ASSERT_NE(repeated(), 0u);
  }
  // Launches of it until one has been, which is known to go on: an event is recorded behind each eighth.
  void until_repeated(const std::string& name, const std::vector<Use>& uses) {
    for (std::uint64_t before = ~std::uint64_t{0}; repeated() != before + 1;) {
      before = repeated();
      ASSERT_TRUE(write(name, uses).ok());
    }
  }
  std::uint64_t repeated() { return scheduler->counters().repeated; }
  // What each piece of work on a stream is and comes after, by their order: it does not depend on what is known to have
  // ended. Of readers of the same bytes the last, which stands for the others; "?" where there are more edges than are
  // kept.
  std::vector<std::string> story() {
    std::map<std::uint64_t, int> order;
    std::vector<std::string> told;
    for (const DagVertex& vertex : scheduler->picture().vertices) {
      if (!vertex.is_on_stream()) continue;
      const int number = static_cast<int>(order.size());
      order[vertex.id] = number;
      std::map<std::string, int> latest;
      for (std::uint32_t i = 0; i < vertex.edge_count; ++i) {
        const DagVertex::Edge& edge = vertex.edges[i];
        int& last = latest[fmt::format("by {} of {} {}", edge.argument, edge.resource, to_string(edge.hazard))];
        last = std::max(last, order.at(edge.parent));
      }
      std::string edges;
      for (const auto& [how, parent] : latest) edges += fmt::format(" {} {},", parent, how);
      told.push_back(fmt::format("{} {}:{}", number, vertex.name, vertex.more_edges == 0 ? edges : "?"));
    }
    return told;
  }
  void start_again(const std::string& policy) {
    scheduler.reset();
    arrays.clear();
    device->state() = FakeState();
    open(policy);
    scheduler->set_queue_trust(std::chrono::nanoseconds(0));
  }
};

TEST_F(Repetitions, AChain_IsWrittenDownAsWithoutThem) {
  const std::vector<Use> uses{{"x"}, {"y", Mode::kWrite}};
  std::vector<std::string> plain;
  Counters counted;
  for (const char* const policy : {"graphs=off", "graphs=recurring"}) {
    start_again(policy);
    write_times(500, "a", uses);
    if (plain.empty()) {
      plain = story();
      counted = scheduler->counters();
      EXPECT_EQ(counted.repeated, 0u);
      continue;
    }
    EXPECT_EQ(difference(story(), plain), "");
    const Counters with = scheduler->counters();
    EXPECT_GE(with.repeated, 250u);
    EXPECT_EQ(with.computations, counted.computations);
    EXPECT_EQ(with.dependencies, counted.dependencies);
    EXPECT_EQ(with.streams, counted.streams);
    EXPECT_EQ(with.waits, counted.waits);
    EXPECT_LE(scheduler->frontier_size(), 2u);
    EXPECT_EQ(kernel_launches(), 500u);
    ASSERT_TRUE(scheduler->synchronize().ok());
  }
}

// Its own end is what an event of it tells, and what the host waits for.
TEST_F(Repetitions, EachHasItsTicket_AndItsEnd) {
  open("graphs=recurring");
  const std::vector<Use> uses{{"x"}};
  learn("a", uses);
  device->state().host_ns += 1e6;
  ASSERT_TRUE(scheduler->synchronize().ok());
  until_repeated("a", uses);
  const std::uint64_t before = repeated();
  const Ticket first = ticket;
  ASSERT_TRUE(write("a", uses).ok());
  EXPECT_EQ(ticket, first + (1u << 10)) << "the next place on the same stream";
  EXPECT_EQ(repeated(), before + 1);
  const double end = device->state().of(Step::Kind::kLaunch).back().end_ns;
  ASSERT_TRUE(read("x").ok());
  EXPECT_EQ(device->state().host_ns, end);
  EXPECT_TRUE(scheduler->event_of(first).ok());
}

// Once it has ended there is nothing to come behind; and what is between two is before the second.
TEST_F(Repetitions, WhereSomethingCameBetween_TheNextIsPlacedAnew) {
  open("graphs=recurring");
  const std::vector<Use> uses{{"x"}};
  learn("a", uses);
  const auto is_anew = [&] {
    const std::uint64_t before = repeated();
    EXPECT_TRUE(write("a", uses).ok());
    const bool anew = repeated() == before;
    write_times(8, "a", uses);
    EXPECT_GT(repeated(), before) << "and those after it are repeated";
    return anew;
  };
  EXPECT_FALSE(is_anew());
  ASSERT_TRUE(read("x").ok());
  EXPECT_TRUE(is_anew()) << "the host has waited";
  ASSERT_TRUE(scheduler->event_of(ticket).ok());
  EXPECT_TRUE(is_anew()) << "there is an event behind the last";
  ASSERT_TRUE(run("b", {"x"}, {"z"}).ok());
  EXPECT_TRUE(is_anew()) << "another launch reads what it writes";
  ASSERT_TRUE(run("b", {}, {"z"}).ok());
  EXPECT_TRUE(is_anew()) << "another launch came";
  ASSERT_TRUE(scheduler->synchronize().ok());
}

TEST_F(Repetitions, OneThatTheDeviceRefuses_SaysSo_AndHasItsPlaceAllTheSame) {
  open("graphs=recurring");
  learn("a", {{"x"}});
  until_repeated("a", {{"x"}});
  const Counters before = scheduler->counters();
  device->state().refuse_launches = {PERGOLA_ERROR(kInvalidArgument, "refused")};
  EXPECT_EQ(write("a", {{"x"}}).code(), Code::kInvalidArgument);
  EXPECT_EQ(scheduler->counters().repeated, before.repeated + 1);
  EXPECT_EQ(scheduler->counters().computations, before.computations + 1);
  write_times(3, "a", {{"x"}});
  EXPECT_TRUE(scheduler->synchronize().ok());
}

TEST_F(Repetitions, OneThatFails_IsTold_AndThoseBehindItAreSkipped) {
  open("graphs=recurring");
  learn("a", {{"x"}});
  until_repeated("a", {{"x"}});
  device->state().fail_next = {PERGOLA_ERROR(kInternal, "it has failed")};
  write_times(3, "a", {{"x"}});
  const Status told = read("x");
  EXPECT_FALSE(told.ok());
  EXPECT_EQ(scheduler->synchronize().message(), "it has failed");
  write_times(20, "a", {{"x"}});
  EXPECT_TRUE(scheduler->synchronize().ok());
}

// A reader of one stream stands for those before it: no more of them are left than without repetitions.
TEST_F(Repetitions, ReadersDoNotGather) {
  open("graphs=recurring");
  const std::vector<Use> uses{{"x"}, {"c", Mode::kRead}};
  learn("a", uses);
  write_times(200, "a", uses);
  ASSERT_TRUE(run("b", {}, {"c"}).ok());
  const DagVertex last = scheduler->picture().vertices.back();
  ASSERT_EQ(last.more_edges, 0u);
  std::uint64_t latest = 0;
  for (std::uint32_t i = 0; i < last.edge_count; ++i) latest = std::max(latest, last.edges[i].parent);
  EXPECT_EQ(latest, last.id - 1);
  EXPECT_LE(scheduler->frontier_size(), 10u);
  ASSERT_TRUE(scheduler->synchronize().ok());
}

struct Op {
  enum class Kind { kLaunch, kFill, kRead, kWrite, kEvent, kTime } kind = Kind::kLaunch;
  std::string name;
  std::vector<Use> uses;
};

// Loops of one kernel or two, of which something in between, or another place in memory, breaks some.
std::vector<Op> random_program(std::mt19937_64& random) {
  const auto below = [&](std::uint64_t bound) { return random() % bound; };
  const auto use = [&] {
    const auto begin = below(4) * 250;
    const bool whole = below(2) == 0;
    return Use{fmt::format("a{}", below(3)), static_cast<Mode>(1 + below(3)),
               whole ? Range{0, 1000} : Range{begin, begin + 250 * (1 + below(4 - begin / 250))}};
  };
  std::vector<Op> ops;
  for (int loop = 0; loop < 3; ++loop) {
    std::vector<Op> body(1 + (below(4) == 0 ? 1 : 0));
    for (Op& op : body) {
      op.name = fmt::format("k{}", below(2));
      for (std::uint64_t n = 1 + below(3); n > 0; --n) op.uses.push_back(use());
    }
    for (int i = 0; i < 220; ++i) {
      ops.push_back(body[static_cast<std::size_t>(i) % body.size()]);
      if (below(25) != 0) continue;
      Op other{static_cast<Op::Kind>(1 + below(5)), "k9", {use()}};
      if (other.kind == Op::Kind::kFill) other.uses[0].mode = Mode::kWrite;
      ops.push_back(other);
    }
  }
  return ops;
}

TEST_F(Repetitions, RandomLoops_AreWrittenDownAsWithoutThem_AndNothingThatConflictsOverlaps) {
  const std::uint64_t seed = std::random_device{}();
  SCOPED_TRACE(fmt::format("seed {}", seed));
  std::mt19937_64 random(seed);
  std::uint64_t all_repeated = 0;
  for (int program = 0; program < 40; ++program) {
    const std::vector<Op> ops = random_program(random);
    std::vector<std::string> plain;
    const char* const also[] = {"", "", ",dependency=no-const", ",retrieve-parent-stream=same-as-parent",
                                ",fork-cost=0"};
    const std::string others = also[random() % std::size(also)];
    for (const char* const policy : {"graphs=off", "graphs=recurring"}) {
      start_again(policy + others);
      struct Ran {
        const Op* op;
        double start_ns, end_ns;
      };
      std::vector<Ran> ran;
      for (const Op& op : ops) {
        switch (op.kind) {
          case Op::Kind::kLaunch: ASSERT_TRUE(write(op.name, op.uses).ok()); break;
          case Op::Kind::kFill: {
            const Access access{&array(op.uses[0].array), op.uses[0].range, Mode::kWrite, 0};
            ASSERT_TRUE(submit(op.name, {.accesses = std::span(&access, 1)}, 1).ok());
            break;
          }
          case Op::Kind::kRead:
          case Op::Kind::kWrite: {
            const Mode mode = op.kind == Op::Kind::kRead ? Mode::kRead : Mode::kWrite;
            ASSERT_TRUE(scheduler->begin_host_access({&array(op.uses[0].array), op.uses[0].range, mode, 0}).ok());
            continue;
          }
          case Op::Kind::kEvent: ASSERT_TRUE(scheduler->record().ok()); continue;
          case Op::Kind::kTime: device->state().host_ns += 0.5; continue;
        }
        const Step step = device->state().of(Step::Kind::kLaunch).back();
        ran.push_back({&op, step.start_ns, step.end_ns});
      }
      ASSERT_EQ(graph_launches(), 0u);
      const auto conflict = [](const Op& a, const Op& b) {
        for (const Use& x : a.uses)
          for (const Use& y : b.uses)
            if (x.array == y.array && x.range.overlaps(y.range) && (writes(x.mode) || writes(y.mode))) return true;
        return false;
      };
      for (std::size_t i = 0; i < ran.size(); ++i)
        for (std::size_t j = i < 40 ? 0 : i - 40; j < i; ++j)
          if (conflict(*ran[j].op, *ran[i].op)) {
            ASSERT_LE(ran[j].end_ns, ran[i].start_ns) << "program " << program << " " << j << " and " << i;
          }
      if (plain.empty())
        plain = story();
      else
        ASSERT_EQ(difference(story(), plain), "") << "program " << program;
      all_repeated += repeated();
      ASSERT_TRUE(scheduler->synchronize().ok());
    }
  }
  EXPECT_GT(all_repeated, 1000u);
}

}  // namespace
}  // namespace pergola::scheduler::testing
