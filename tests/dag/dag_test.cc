// Random programs on sessions, under every policy, against the same program run in order on the host: launches on views
// that overlap, copies, writes, fills, reads of parts, arrays that go while they are used, kernels that reach memory
// through pointers in memory, and a module's variable. On the device that PERGOLA_DEVICE names, else the CPU device.
//
// PERGOLA_DAG_SEED repeats a program; PERGOLA_DAG_PROGRAMS sets how many there are.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <functional>
#include <random>

#include "driver_like_device.h"
#include "src/runtime/devices.h"
#include "src/runtime/local_session.h"
#include "src/runtime/runtime.h"
#include "src/runtime/small_tasks.h"
#include "src/session/task_pool.h"

namespace pergola {
namespace {

using session::Argument;
using session::ArrayArgument;
using session::ArrayPtr;
using session::ElementType;
using session::Number;

constexpr std::uint32_t kCount = 300;  // elements of an array
constexpr int kArrays = 6;

// scale: x[i] = x[i] * f + 1.  add: y[i] += x[i].  mix: y[i] = x[i] ^ i.  All over i < n.
// chase: adds 1 to what each pointer of a table points at.  count: counter += x[0].  tell: y[0] = counter.
constexpr std::string_view kPtx = R"(.version 8.3
.target sm_80
.address_size 64
.visible .global .u32 counter = 7;

.visible .entry scale(.param .u64 px, .param .u32 pf, .param .u32 pn) {
  .reg .pred %p<2>; .reg .b32 %r<8>; .reg .b64 %rd<4>;
  ld.param.u64 %rd1, [px]; ld.param.u32 %r1, [pf]; ld.param.u32 %r2, [pn];
  mov.u32 %r3, %ctaid.x; mov.u32 %r4, %ntid.x; mov.u32 %r5, %tid.x; mad.lo.s32 %r3, %r3, %r4, %r5;
  setp.ge.u32 %p1, %r3, %r2; @%p1 bra DONE;
  mul.wide.u32 %rd2, %r3, 4; add.s64 %rd3, %rd1, %rd2;
  ld.global.u32 %r6, [%rd3]; mad.lo.u32 %r7, %r6, %r1, 1; st.global.u32 [%rd3], %r7;
DONE: ret;
}
.visible .entry add(.param .u64 px, .param .u64 py, .param .u32 pn) {
  .reg .pred %p<2>; .reg .b32 %r<9>; .reg .b64 %rd<6>;
  ld.param.u64 %rd1, [px]; ld.param.u64 %rd2, [py]; ld.param.u32 %r2, [pn];
  mov.u32 %r3, %ctaid.x; mov.u32 %r4, %ntid.x; mov.u32 %r5, %tid.x; mad.lo.s32 %r3, %r3, %r4, %r5;
  setp.ge.u32 %p1, %r3, %r2; @%p1 bra DONE;
  mul.wide.u32 %rd3, %r3, 4; add.s64 %rd4, %rd1, %rd3; add.s64 %rd5, %rd2, %rd3;
  ld.global.u32 %r6, [%rd4]; ld.global.u32 %r7, [%rd5]; add.u32 %r8, %r6, %r7; st.global.u32 [%rd5], %r8;
DONE: ret;
}
.visible .entry mix(.param .u64 px, .param .u64 py, .param .u32 pn) {
  .reg .pred %p<2>; .reg .b32 %r<8>; .reg .b64 %rd<6>;
  ld.param.u64 %rd1, [px]; ld.param.u64 %rd2, [py]; ld.param.u32 %r2, [pn];
  mov.u32 %r3, %ctaid.x; mov.u32 %r4, %ntid.x; mov.u32 %r5, %tid.x; mad.lo.s32 %r3, %r3, %r4, %r5;
  setp.ge.u32 %p1, %r3, %r2; @%p1 bra DONE;
  mul.wide.u32 %rd3, %r3, 4; add.s64 %rd4, %rd1, %rd3; add.s64 %rd5, %rd2, %rd3;
  ld.global.u32 %r6, [%rd4]; xor.b32 %r7, %r6, %r3; st.global.u32 [%rd5], %r7;
DONE: ret;
}
.visible .entry chase(.param .u64 pt) {
  .reg .b32 %r<4>; .reg .b64 %rd<5>;
  ld.param.u64 %rd1, [pt]; mov.u32 %r1, %tid.x; mul.wide.u32 %rd2, %r1, 8; add.s64 %rd3, %rd1, %rd2;
  ld.global.u64 %rd4, [%rd3]; ld.global.u32 %r2, [%rd4]; add.u32 %r3, %r2, 1; st.global.u32 [%rd4], %r3;
  ret;
}
.visible .entry count(.param .u64 px) {
  .reg .b32 %r<4>; .reg .b64 %rd<2>;
  ld.param.u64 %rd1, [px]; ld.global.u32 %r1, [%rd1]; ld.global.u32 %r2, [counter]; add.u32 %r3, %r1, %r2;
  st.global.u32 [counter], %r3;
  ret;
}
.visible .entry tell(.param .u64 py) {
  .reg .b32 %r<2>; .reg .b64 %rd<2>;
  ld.param.u64 %rd1, [py]; ld.global.u32 %r1, [counter]; st.global.u32 [%rd1], %r1;
  ret;
}
)";

std::uint64_t number_from(const char* name, std::uint64_t otherwise) {
  const char* text = std::getenv(name);
  return text == nullptr ? otherwise : std::strtoull(text, nullptr, 0);
}

// Printed, as a test that does not end has no trace.
std::uint64_t first_seed() {
  const std::uint64_t seed = number_from("PERGOLA_DAG_SEED", std::random_device{}());
  std::printf("PERGOLA_DAG_SEED=%llu\n", static_cast<unsigned long long>(seed));
  std::fflush(stdout);
  return seed;
}

Argument number(std::uint32_t value) {
  return Number{ElementType::kU32, value};
}

// Device and host side by side.
class Program {
 public:
  Program(session::Session& session, session::Module& module, std::uint64_t seed)
      : session_(session), module_(module), random_(seed) {}

  void run(int launches) {
    for (int i = 0; i < kArrays; ++i) make(i);
    for (int i = 0; i < launches && !::testing::Test::HasFailure(); ++i) step(static_cast<int>(below(12)));
    check_all();
  }

  // The same launches again and again, of late with something else between them now and then. In some programs scalars
  // change every so many turns; in some with short turns, each turn has copies, writes and reads in the same places,
  // which go ahead of launches or do not. With `other_arrays` those of a turn are not those of the one before it.
  void run_turns(int launches, int turns, const std::function<void()>& after_turn, bool other_arrays = false) {
    for (int i = 0; i < kArrays; ++i) make(i);
    std::vector<std::uint64_t> seeds;
    for (int i = 0; i < launches; ++i) seeds.push_back(random_());
    std::mt19937_64 others(random_());
    constexpr std::uint32_t kChanges[] = {0, 1, 1, 7};
    const std::uint32_t changes_every = kChanges[others() % std::size(kChanges)];
    const bool has_others = launches < 64 && others() % 2 == 0;
    const std::span<const int> kinds = std::span(kLaunches).first(has_others ? std::size(kLaunches) : 4);
    for (int turn = 0; turn < turns && !::testing::Test::HasFailure(); ++turn) {
      if (changes_every != 0) turn_number_ = static_cast<std::uint32_t>(turn) / changes_every;
      if (other_arrays) take_others(launches % 4, static_cast<std::uint32_t>(turn), others);
      for (const std::uint64_t seed : seeds) {
        random_.seed(seed);
        step(kinds[below(static_cast<std::uint32_t>(kinds.size()))]);
        if (turn <= turns / 2 || others() % 200 != 0) continue;
        random_.seed(others());
        step(static_cast<int>(below(12)));
      }
      after_turn();
    }
    check_all();
  }

 private:
  static constexpr int kLaunches[] = {0, 2, 4, 10, 6, 7, 8};  // of step()'s kinds: first four that are launches

  // New ones in place of some, parts that move on, or those of other launches; now and then two are the same, so that
  // launches that were side by side are not.
  void take_others(int kind, std::uint32_t turn, std::mt19937_64& others) {
    random_.seed(others());
    if (kind == 0 || kind == 3)
      for (const int i : {1, 4}) make(places_[i]);
    if (kind == 1 || kind == 3) moved_ = 3 * turn;
    if (kind == 2 || kind == 3) std::rotate(places_.begin(), places_.begin() + 1, places_.end());
    if (turn > 20 && others() % 8 == 0) places_[others() % kArrays] = places_[others() % kArrays];
  }
  void check_all() {
    for (int i = 0; i < kArrays && !::testing::Test::HasFailure(); ++i) check(i, 0, kCount);
  }

  std::uint32_t below(std::uint32_t bound) { return static_cast<std::uint32_t>(random_() % bound); }
  static void ok(const Status& status) { ASSERT_TRUE(status.ok()) << status.message(); }

  void make(int i) {
    auto array = session_.allocate(ElementType::kU32, 0, kCount);
    ASSERT_TRUE(array.ok()) << array.message();
    arrays_[i] = *array;
    host_[i].assign(kCount, 0);
    for (std::uint32_t& value : host_[i]) value = static_cast<std::uint32_t>(random_());
    ok(arrays_[i]->write(0, std::as_bytes(std::span(host_[i]))));
  }
  void launch(const char* kernel, std::vector<Argument> arguments, std::uint32_t blocks, std::uint32_t threads) {
    auto found = module_.kernel(kernel);
    ASSERT_TRUE(found.ok()) << found.message();
    ok((*found)->launch({.grid = {blocks, 1, 1}, .block = {threads, 1, 1}}, arguments));
  }
  Argument view(int i, std::uint32_t first) { return ArrayArgument{arrays_[i], std::uint64_t{first} * 4}; }
  void check(int i, std::uint32_t first, std::uint32_t count) {
    std::vector<std::uint32_t> got(count);
    ok(arrays_[i]->read(first * 4, std::as_writable_bytes(std::span(got))));
    for (std::uint32_t k = 0; k < count; ++k)
      ASSERT_EQ(got[k], host_[i][first + k]) << "element " << first + k << " of array " << i;
  }

  void step(int kind) {
    const int a = places_[below(kArrays)], b = places_[below(kArrays)];
    const std::uint32_t n = 1 + below(kCount), last = kCount - n + 1, from = (below(last) + moved_) % last;
    std::uint32_t to = (below(last) + moved_) % last;
    // Of one array a step uses one range twice, or two apart: threads would race in what is between.
    const bool are_apart = from + n <= to || to + n <= from;
    if (a == b && !are_apart) to = from;
    const std::uint32_t blocks = (n + 63) / 64;
    std::vector<std::uint32_t>&x = host_[a], &y = host_[b];
    switch (kind) {
      case 0:
      case 1: {
        const std::uint32_t factor = below(100) + turn_number_;
        launch("scale", {view(a, from), number(factor), number(n)}, blocks, 64);
        for (std::uint32_t i = 0; i < n; ++i) x[from + i] = x[from + i] * factor + 1;
        break;
      }
      case 2:
      case 3:
        launch("add", {view(a, from), view(b, to), number(n)}, blocks, 64);
        for (std::uint32_t i = 0; i < n; ++i) y[to + i] += x[from + i];
        break;
      case 4:
      case 5:
        launch("mix", {view(a, from), view(b, to), number(n)}, blocks, 64);
        for (std::uint32_t i = 0; i < n; ++i) y[to + i] = x[from + i] ^ i;
        break;
      case 6:
        ok(arrays_[b]->copy_from(to * 4, arrays_[a], from * 4, n * 4));
        if (a != b || from != to) std::copy_n(x.begin() + from, n, y.begin() + to);
        break;
      case 7: {
        std::vector<std::uint32_t> values(n);
        for (std::uint32_t& value : values) value = static_cast<std::uint32_t>(random_());
        ok(arrays_[a]->write(from * 4, std::as_bytes(std::span(values))));
        std::copy(values.begin(), values.end(), x.begin() + from);
        break;
      }
      case 8: check(a, from, n); break;
      case 9: chase(a, b, from, to); break;
      case 10:
        if (below(2) == 0) {
          launch("count", {view(a, from)}, 1, 1);
          counter_ += x[from];
        } else {
          launch("tell", {view(b, to)}, 1, 1);
          y[to] = counter_;
        }
        break;
      case 11:
        if (below(2) == 0) {
          make(a);  // the old one goes, perhaps while it is used
        } else {
          const std::uint32_t value = below(5);
          ok(arrays_[a]->fill(std::as_bytes(std::span(&value, 1))));
          x.assign(kCount, value);
        }
        break;
    }
  }

  void chase(int a, int b, std::uint32_t from, std::uint32_t to) {
    if (a == b) return;
    const std::uint64_t pointers[] = {arrays_[a]->address() + from * 4, arrays_[b]->address() + to * 4};
    auto table = session_.allocate(ElementType::kU64, 0, 2);
    ASSERT_TRUE(table.ok()) << table.message();
    ok((*table)->write(0, std::as_bytes(std::span(pointers))));
    launch("chase", {ArrayArgument{*table, 0}}, 1, 2);
    ++host_[a][from];
    ++host_[b][to];
  }

  session::Session& session_;
  session::Module& module_;
  std::mt19937_64 random_;
  ArrayPtr arrays_[kArrays];
  std::vector<std::uint32_t> host_[kArrays];
  std::uint32_t counter_ = 7;
  std::uint32_t turn_number_ = 0;                     // as launches are given it
  std::array<int, kArrays> places_{0, 1, 2, 3, 4, 5};  // which array stands for which
  std::uint32_t moved_ = 0;                           // elements by which all parts are further on
};

// Every launch that may be a task is short enough, whatever the machine, and worth a resident kernel's start.
void take_every_task(session::Session& session) {
  dynamic_cast<runtime::LocalSession&>(session).scheduler().set_task_bounds({.most_ns = 1e9, .launches_in_a_row = 0});
}

// Launches come so fast that all would come after others under way, were nothing waited for now and then.
void settle_small_tasks(runtime::LocalSession& session, int turn) {
  if (session.small_tasks() == nullptr || turn % 3 == 0) return;
  session.small_tasks()->settle();
  EXPECT_TRUE(session.synchronize().ok());
}

std::uint64_t launches_as_tasks(session::Session& session) {
  std::uint64_t sum = 0;
  for (const auto& kernel : dynamic_cast<runtime::LocalSession&>(session).scheduler().graphs().tasks.kernels)
    sum += kernel.tally.tasks;
  return sum;
}

// After `programs` of them: in some, and on a slow machine in more, each launch comes after one of a stream that is
// under way. More are run then, up to this many.
bool is_without_tasks_yet(session::Session& session, std::uint64_t programs) {
  return programs < 40 && launches_as_tasks(session) == 0;
}

// A policy as a test's name.
std::string name_of(std::string policy) {
  for (char& c : policy)
    if (std::isalnum(static_cast<unsigned char>(c)) == 0) c = '_';
  return policy;
}

// A pool whose tasks a resident kernel runs, which take every launch that they may.
session::TaskPoolPtr resident_pool(session::Session& session) {
  session::TaskPoolOptions resident;
  resident.executor = session::TaskExecutor::kResident;
  const auto pool = session.task_pool(resident);
  EXPECT_TRUE(pool.ok()) << pool.message();
  take_every_task(session);
  return pool.ok() ? *pool : nullptr;
}

class Dag : public ::testing::TestWithParam<const char*> {
 protected:
  static const char* device_name() { return std::getenv("PERGOLA_DEVICE") == nullptr ? "cpu" : ""; }
  static session::SessionPtr open() {
    auto session = runtime::create_session(device_name(), GetParam());
    EXPECT_TRUE(session.ok()) << session.message();
    if (session.ok()) take_every_task(**session);
    return session.ok() ? *session : nullptr;
  }
};

TEST_P(Dag, RandomPrograms_EqualTheSequentialOrder) {
  const std::uint64_t programs = number_from("PERGOLA_DAG_PROGRAMS", 40);
  const std::uint64_t first = first_seed();
  const auto session = open();
  ASSERT_NE(session, nullptr);
  for (std::uint64_t i = 0; i < programs && !HasFailure(); ++i) {
    SCOPED_TRACE(fmt::format("PERGOLA_DAG_SEED={} PERGOLA_DAG_PROGRAMS=1", first + i));
    auto module = session->load_text(kPtx, {});  // its variable begins anew
    ASSERT_TRUE(module.ok()) << module.message();
    Program(*session, **module, first + i).run(30);
  }
}

TEST_P(Dag, LongProgram_EqualsTheSequentialOrder) {
  const std::uint64_t seed = first_seed();
  SCOPED_TRACE(fmt::format("PERGOLA_DAG_SEED={}", seed));
  const auto session = open();
  ASSERT_NE(session, nullptr);
  auto module = session->load_text(kPtx, {});
  ASSERT_TRUE(module.ok()) << module.message();
  Program(*session, **module, seed).run(1500);
}

// `policy` is the session's.
void run_programs_in_turns(session::Session& session, std::string_view policy, bool other_arrays = false) {
  const std::uint64_t asked = number_from("PERGOLA_DAG_PROGRAMS", 40), programs = asked / 16 + 1;
  const std::uint64_t first = first_seed();
  auto& local = dynamic_cast<runtime::LocalSession&>(session);
  scheduler::Scheduler& scheduler = local.scheduler();
  const bool has_tasks = policy.starts_with("tasks=small");
  for (std::uint64_t i = 0;
       (i < programs || (has_tasks && is_without_tasks_yet(session, i))) && !::testing::Test::HasFailure(); ++i) {
    SCOPED_TRACE(
        fmt::format("PERGOLA_DAG_SEED={} PERGOLA_DAG_PROGRAMS={}: program {}", first, std::max(asked, 16 * i), i));
    if (i >= programs) std::printf("program %llu: no task yet\n", static_cast<unsigned long long>(i));
    auto module = session.load_text(kPtx, {});
    ASSERT_TRUE(module.ok()) << module.message();
    // Now as ever, now as long as it takes, so that chunks are completed on a slow machine too.
    scheduler.set_graph_patience(i % 2 == 0 ? std::chrono::seconds(1) : std::chrono::seconds(0));
    int turn = 0;
    // The first has turns long enough to become graphs whatever it draws (Recurrence::kConfirm); short ones whose
    // scalars change need not.
    const int launches = i == 0 ? 80 : 3 + static_cast<int>((first + i) % 30);
    const auto after_turn = [&] {
      if (++turn % 10 == 0) scheduler.settle_graphs();
      settle_small_tasks(local, turn);
    };
    Program(session, **module, first + i).run_turns(launches, 40, after_turn, other_arrays);
  }
  if (policy == "graphs=always") {
    EXPECT_GT(scheduler.graph_counters().launches, 0u) << fmt::format("PERGOLA_DAG_SEED={}", first);
    if (other_arrays) {
      EXPECT_GT(scheduler.graph_counters().rebinding, 0u) << fmt::format("PERGOLA_DAG_SEED={}", first);
    }
  }
  if (has_tasks) {
    EXPECT_GT(launches_as_tasks(session), 0u) << fmt::format("PERGOLA_DAG_SEED={}", first);
  }
}

TEST_P(Dag, TurnsOfTheSameLaunches_EqualTheSequentialOrder) {
  const auto session = open();
  ASSERT_NE(session, nullptr);
  run_programs_in_turns(*session, GetParam());
}

INSTANTIATE_TEST_SUITE_P(Policies, Dag,
                         ::testing::Values("execution=async", "retrieve-new-stream=always-new",
                                           "retrieve-parent-stream=same-as-parent", "dependency=no-const",
                                           "execution=sync", "max-streams=2", "max-streams=1", "fork-cost=0",
                                           "graphs=always", "graphs=recurring", "graphs=off", "memory=managed",
                                           "memory=managed,graphs=always", "tasks=small",
                                           "tasks=small,dependency=no-const", "tasks=small,graphs=always"),
                         [](const auto& policy) { return name_of(policy.param); });

TEST_P(Dag, TurnsOfOtherArrays_EqualTheSequentialOrder) {
  const auto session = open();
  ASSERT_NE(session, nullptr);
  run_programs_in_turns(*session, GetParam(), true);
}

// What graphs are made of: each way by itself, and each form of a turn.
class DagOfGraphs : public ::testing::TestWithParam<std::string> {};

TEST_P(DagOfGraphs, TurnsOfTheSameLaunches_EqualTheSequentialOrder) {
  const std::string policy = "graphs=always," + GetParam();
  auto session = runtime::create_session(std::getenv("PERGOLA_DEVICE") == nullptr ? "cpu" : "", policy);
  ASSERT_TRUE(session.ok()) << session.message();
  run_programs_in_turns(**session, policy);
}

INSTANTIATE_TEST_SUITE_P(Policies, DagOfGraphs,
                         ::testing::Values("turns=leads", "turns=whole", "turns=launches", "blocks=off",
                                           "blocks=trimmed", "blocks=packed", "blocks=packed-early", "blocks=early",
                                           "blocks=by-block", "blocks=fused", "blocks=columns", "blocks=merged",
                                           "blocks=merged-kernels", "blocks=merged-early", "blocks=stacked",
                                           "blocks=stacked-alone", "blocks=merged-stacked", "blocks=constants",
                                           "blocks=copies-together"),
                         [](const auto& policy) { return name_of(policy.param); });

// By a resident kernel, which fills the device: it leaves for each launch that is none, and comes back.
TEST(DagOfASession, TasksOfAResidentKernel_EqualTheSequentialOrder) {
#if defined(PERGOLA_TSAN)
  GTEST_SKIP() << "TSan does not connect the device half's fences with the host";
#endif
  const std::uint64_t first = first_seed();
  auto session =
      runtime::create_session(std::getenv("PERGOLA_DEVICE") == nullptr ? "cpu" : "", "tasks=small,graphs=off");
  ASSERT_TRUE(session.ok()) << session.message();
  const auto pool = resident_pool(**session);
  ASSERT_NE(pool, nullptr);
  for (std::uint64_t i = 0; (i < 3 || is_without_tasks_yet(**session, i)) && !::testing::Test::HasFailure(); ++i) {
    SCOPED_TRACE(fmt::format("PERGOLA_DAG_SEED={}: program {}", first, i));
    auto module = (*session)->load_text(kPtx, {});
    ASSERT_TRUE(module.ok()) << module.message();
    int turn = 0;
    Program(**session, **module, first + i).run_turns(12, 30, [&] {
      settle_small_tasks(dynamic_cast<runtime::LocalSession&>(**session), ++turn);
    });
  }
  EXPECT_GT(launches_as_tasks(**session), 0u)
      << fmt::format("PERGOLA_DAG_SEED={}\n", first)
      << scheduler::explain(dynamic_cast<runtime::LocalSession&>(**session).scheduler().graphs().tasks);
}

// A pure chain needs one stream, and arrays that only readers share none of each other.
TEST(DagOfASession, Picture_ShowsLaunchesAndWhyTheyAreOrdered) {
  auto session = runtime::create_session("cpu");
  ASSERT_TRUE(session.ok()) << session.message();
  auto module = (*session)->load_text(kPtx, {});
  ASSERT_TRUE(module.ok()) << module.message();
  auto x = *(*session)->allocate(ElementType::kU32, 0, kCount);
  auto y = *(*session)->allocate(ElementType::kU32, 0, kCount);
  const Argument scale[] = {ArrayArgument{x, 0}, number(3), number(kCount)};
  const Argument mix[] = {ArrayArgument{y, 0}, ArrayArgument{x, 0}, number(kCount)};
  ASSERT_TRUE((*(*module)->kernel("scale"))->launch({.grid = {5, 1, 1}, .block = {64, 1, 1}}, scale).ok());
  ASSERT_TRUE((*(*module)->kernel("mix"))->launch({.grid = {5, 1, 1}, .block = {64, 1, 1}}, mix).ok());
  const auto dot = (*session)->dag("dot");
  ASSERT_TRUE(dot.ok()) << dot.message();
  EXPECT_NE(dot->find("scale"), std::string::npos) << *dot;
  EXPECT_NE(dot->find("mix"), std::string::npos) << *dot;
  EXPECT_NE(dot->find("[label=\"argument 1, array 1 WAW\"]"), std::string::npos) << *dot;
  const auto mermaid = (*session)->dag("mermaid");
  ASSERT_TRUE(mermaid.ok());
  EXPECT_EQ(mermaid->rfind("flowchart LR\n", 0), 0u);
  EXPECT_NE(mermaid->find("|argument 1, array 1 WAW|"), std::string::npos) << *mermaid;
  const auto svg = (*session)->dag("svg");
  ASSERT_TRUE(svg.ok());
  EXPECT_NE(svg->find(">argument 1, array 1 WAW<"), std::string::npos) << *svg;
  EXPECT_EQ((*session)->dag("png").code(), Code::kInvalidArgument);
}

// The same where calls wait for the resident kernel as a driver's may, with its lock.
class DagOfADriver : public ::testing::TestWithParam<const char*> {};

TEST_P(DagOfADriver, TurnsOfTheSameLaunches_EqualTheSequentialOrder) {
#if defined(PERGOLA_TSAN)
  GTEST_SKIP() << "TSan does not connect the device half's fences with the host";
#endif
  auto inner = runtime::open_device("cpu");
  ASSERT_TRUE(inner.ok()) << inner.message();
  auto session = runtime::LocalSession::create(std::make_shared<DriverLikeDevice>(*inner), GetParam());
  ASSERT_TRUE(session.ok()) << session.message();
  const auto pool = resident_pool(**session);
  ASSERT_NE(pool, nullptr);
  run_programs_in_turns(**session, GetParam());
}

INSTANTIATE_TEST_SUITE_P(Policies, DagOfADriver,
                         ::testing::Values("tasks=small", "tasks=small,dependency=no-const",
                                           "tasks=small,graphs=always"),
                         [](const auto& policy) { return name_of(policy.param); });

}  // namespace
}  // namespace pergola
