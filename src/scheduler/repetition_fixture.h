// Launches that come again one by one, by their texts, and what the scheduler tells of them with repetitions and
// without (repetition.h, turn_repetition.h).
#pragma once

#include <fmt/format.h>
#include <gmock/gmock.h>

#include <map>
#include <random>

#include "src/scheduler/graph_fixture.h"
#include "tests/support/sanitized.h"

namespace pergola::scheduler::testing {

struct Use {
  std::string array;
  Mode mode = Mode::kReadWrite;
  Range range{0, 1000};
};

// "" where they are the same, else the first that is not.
inline std::string difference(const std::vector<std::string>& a, const std::vector<std::string>& b) {
  for (std::size_t i = 0; i < std::max(a.size(), b.size()); ++i) {
    const std::string one = i < a.size() ? a[i] : "nothing", other = i < b.size() ? b[i] : "nothing";
    if (one != other && !one.ends_with("?") && !other.ends_with("?")) return one + " | " + other;
  }
  return "";
}

class Repetitions : public TextTest {
 protected:
  // What is repeated is no graph. So nothing is held, and no other thread looks at the clock that tests move.
  Repetitions() { device->has_graphs = false; }
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
    std::map<std::uint64_t, int> order;  // by id
    std::vector<std::string> told;
    for (const DagVertex& vertex : scheduler->picture().vertices) {
      if (!vertex.is_on_stream()) continue;
      const int number = static_cast<int>(order.size());
      order[vertex.id] = number;
      std::map<std::string, int> latest;
      for (std::uint32_t i = 0; i < vertex.edge_count; ++i) {
        const DagVertex::Edge& edge = vertex.edges[i];
        // Each once, by the first argument that meets it: which that is depends on which of them are left.
        const bool is_of_reader = edge.hazard == Hazard::kWriteAfterRead;
        const std::string how = fmt::format("by {} of {} {}", is_of_reader ? "any" : std::to_string(edge.argument),
                                            edge.resource, to_string(edge.hazard));
        const auto shown = order.find(edge.parent);  // else by how long it was before the first that is
        const int parent = shown != order.end() ? shown->second : -static_cast<int>(order.begin()->first - edge.parent);
        int& last = latest.try_emplace(how, parent).first->second;
        last = std::max(last, parent);
      }
      std::string edges;
      for (const auto& [how, parent] : latest) edges += fmt::format(" {} {},", parent, how);
      told.push_back(fmt::format("{} {}:{}", number, vertex.name, vertex.more_edges == 0 ? edges : "?"));
    }
    return told;
  }
  // Streams, positions there and orders of the latest of those.
  std::vector<std::string> places() {
    std::vector<std::string> told;
    const std::vector<DagVertex> vertices = scheduler->picture().vertices;
    constexpr std::size_t kLatest = 600;
    for (std::size_t i = vertices.size() - std::min(vertices.size(), kLatest); i < vertices.size(); ++i) {
      std::string orders;
      for (const DagVertex::Edge& edge : vertices[i].kept_edges()) orders += fmt::format(" {}", to_string(edge.order));
      told.push_back(
          fmt::format("{} on {} at {}:{}", vertices[i].name, vertices[i].stream, vertices[i].position, orders));
    }
    return told;
  }
  void start_again(const std::string& policy) {
    close();
    open(policy);
    scheduler->set_queue_trust(std::chrono::nanoseconds(0));
  }
};

struct Op {
  enum class Kind { kLaunch, kFill, kRead, kWrite, kEvent, kTime, kTicket, kLook } kind = Kind::kLaunch;
  std::string name;
  std::vector<Use> uses;
};

// Of random programs.
struct Loops {
  int loops = 1, launches = 1;  // of each
  std::uint64_t arrays = 1, kernels = 1;
  std::uint64_t others = 1;           // kinds of Op that come in between
  std::uint64_t one_other_in = 25;    // launches
  std::uint64_t one_left_out_in = 0;  // 0: none is
};
// Loops of `length()` kernels each on places in memory, of which something in between, or one left out, breaks some.
template <typename Length>
std::vector<Op> random_loops(std::mt19937_64& random, const Loops& shape, const Length& length) {
  const auto below = [&](std::uint64_t bound) { return random() % bound; };
  const auto use = [&] {
    const auto begin = below(4) * 250;
    const bool whole = below(2) == 0;
    return Use{fmt::format("a{}", below(shape.arrays)), static_cast<Mode>(1 + below(3)),
               whole ? Range{0, 1000} : Range{begin, begin + 250 * (1 + below(4 - begin / 250))}};
  };
  std::vector<Op> ops;
  for (int loop = 0; loop < shape.loops; ++loop) {
    std::vector<Op> body(length());
    for (Op& op : body) {
      op.name = fmt::format("k{}", below(shape.kernels));
      for (std::uint64_t n = 1 + below(3); n > 0; --n) op.uses.push_back(use());
    }
    for (int i = 0; i < shape.launches; ++i) {
      if (shape.one_left_out_in == 0 || below(shape.one_left_out_in) != 0)
        ops.push_back(body[static_cast<std::size_t>(i) % body.size()]);
      if (below(shape.one_other_in) != 0) continue;
      Op other{static_cast<Op::Kind>(1 + below(shape.others)), "k9", {use()}};
      if (other.kind == Op::Kind::kFill) other.uses[0].mode = Mode::kWrite;
      ops.push_back(other);
    }
  }
  return ops;
}

class RandomRepetitions : public Repetitions {
 protected:
  // Programs that `make` draws, each under one of the policies and at one of the paces.
  template <typename Make>
  void compare_random(const std::vector<std::string>& policies, const std::vector<double>& paces_ns, const Make& make) {
    const std::uint64_t seed = std::random_device{}();
    SCOPED_TRACE(fmt::format("seed {}", seed));
    std::mt19937_64 random(seed);
    std::uint64_t all_repeated = 0;
    for (int program = 0; program < test_support::rounds(40); ++program) {
      SCOPED_TRACE(fmt::format("program {}", program));
      const std::string& policy = policies[random() % policies.size()];
      const double pace_ns = paces_ns[random() % paces_ns.size()];
      all_repeated += compare(make(random), policy, pace_ns);
      if (HasFailure()) return;
    }
    EXPECT_GT(all_repeated, std::uint64_t{test_support::rounds(1000)});
  }
  struct Ran {
    const Op* op;
    double start_ns, end_ns;
  };
  static bool conflict(const Op& a, const Op& b) {
    for (const Use& x : a.uses)
      for (const Use& y : b.uses)
        if (x.array == y.array && x.range.overlaps(y.range) && (writes(x.mode) || writes(y.mode))) return true;
    return false;
  }
  // Nothing that conflicts overlaps, and the host waits for what it has to. It takes `pace_ns` from one to the next.
  void run_program(const std::vector<Op>& ops, double pace_ns) {
    constexpr std::size_t kLookBack = 40;
    std::vector<Ran> ran;
    for (const Op& op : ops) {
      device->state().host_ns += pace_ns;
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
          const Op host{op.kind, "", {{op.uses[0].array, mode, op.uses[0].range}}};
          for (const Ran& before : ran)
            if (conflict(*before.op, host)) {
              ASSERT_LE(before.end_ns, device->state().host_ns);
            }
          continue;
        }
        case Op::Kind::kEvent: ASSERT_TRUE(scheduler->record().ok()); continue;
        case Op::Kind::kTime: device->state().host_ns += 0.5; continue;
        case Op::Kind::kTicket: ASSERT_TRUE(ticket == 0 || scheduler->event_of(ticket).ok()); continue;
        case Op::Kind::kLook: ASSERT_FALSE(scheduler->picture().vertices.size() > DagLog::kCapacity); continue;
      }
      const Step step = device->state().of(Step::Kind::kLaunch).back();
      ran.push_back({&op, step.start_ns, step.end_ns});
    }
    ASSERT_EQ(graph_launches(), 0u);
    for (std::size_t i = 0; i < ran.size(); ++i)
      for (std::size_t j = i < kLookBack ? 0 : i - kLookBack; j < i; ++j)
        if (conflict(*ran[j].op, *ran[i].op)) {
          ASSERT_LE(ran[j].end_ns, ran[i].start_ns) << j << " and " << i;
        }
  }
  // With repetitions and without: how many there were with them.
  std::uint64_t compare(const std::vector<Op>& ops, const std::string& policy, double pace_ns) {
    std::vector<std::string> plain;
    for (const char* const graphs : {"graphs=off", "graphs=recurring"}) {
      start_again(graphs + policy);
      run_program(ops, pace_ns);
      if (HasFatalFailure()) return 0;
      if (plain.empty()) {
        plain = story();
        EXPECT_EQ(repeated(), 0u);
      } else {
        EXPECT_EQ(difference(story(), plain), "");
      }
      EXPECT_TRUE(scheduler->synchronize().ok());
    }
    return repeated();
  }
};

}  // namespace pergola::scheduler::testing
