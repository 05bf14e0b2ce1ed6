// Sessions with memory=managed on the fake driver, whose kernels run for real: which calls move an array's memory, on
// which stream and before what; with concurrent access, and without, where the fake makes it an error for a stream to
// use memory that it does not see.
#include "src/runtime/managed_memory.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>
#include <numeric>

#include "src/device/cuda/cuda_device.h"
#include "src/device/cuda/cuda_driver_types.h"
#include "src/runtime/devices.h"
#include "src/runtime/fake_driver.h"
#include "src/runtime/local_array.h"
#include "src/runtime/test_arrays.h"
#include "tests/support/random.h"

namespace pergola::runtime {
namespace {

using session::Access;
using session::ArrayArgument;
using session::ArrayPtr;
using session::Location;
using ::testing::Each;
using ::testing::HasSubstr;

const std::string kManagedPtx = kAddPtx + R"(.visible .entry add_one(.param .u64 data, .param .u32 count) {
  .reg .b64 %a;
  .reg .b32 %r;
  ld.param.u64 %a, [data];
  ld.global.u32 %r, [%a];
  st.global.u32 [%a], %r;
  ret;
}
.visible .entry hold(.param .u64 data, .param .u64 flag) {
  .reg .b64 %a;
  ld.param.u64 %a, [data];
  st.global.u32 [%a], 1;
  ret;
}
)";

class ManagedTest : public ::testing::Test, protected TestArrays {
 protected:
  static constexpr std::uint32_t kSmall = 64, kLarge = 17 << 10;  // elements of 4 bytes: less and more than 64 KiB

  void SetUp() override { control().reset(); }
  void TearDown() override {
    control().go();
    if (session_ == nullptr) return;
    EXPECT_TRUE(session_->synchronize().ok());
  }

  static Result<std::shared_ptr<LocalSession>> try_open(std::string_view policy) {
    PERGOLA_ASSIGN(auto device, device::create_cuda_device(0, {.driver_library = PERGOLA_FAKE_CUDA}));
    return LocalSession::create(std::move(device), policy);
  }
  void open(bool concurrent, std::string_view policy = "memory=managed") {
    control().set("concurrent", concurrent ? 1 : 0);
    auto session = try_open(policy);
    ASSERT_TRUE(session) << session.message();
    session_ = std::move(session).value();
    auto module = session_->load_text(kManagedPtx, {.name = "managed.ptx"});
    ASSERT_TRUE(module) << module.message();
    module_ = std::move(module).value();
    control().log();
  }
  ArrayPtr array(std::uint32_t count = kSmall) {
    auto made = session_->allocate(session::ElementType::kU32, 4, count);
    EXPECT_TRUE(made) << made.message();
    return std::move(made).value();
  }
  ArrayPtr filled(std::uint32_t value, std::uint32_t count = kSmall) {
    ArrayPtr made = array(count);
    set(made, value);
    return made;
  }
  Status launch(std::string_view name, const std::vector<session::Argument>& arguments) {
    PERGOLA_ASSIGN(auto kernel, module_->kernel(name));
    return kernel->launch({.grid = {1, 1, 1}, .block = {32, 1, 1}}, arguments);
  }
  void add_one(const ArrayPtr& x) {
    const Status status = launch("add_one", {ArrayArgument{x, 0}, count_of(x)});
    EXPECT_TRUE(status.ok()) << status.message();
  }
  void add(const ArrayPtr& x, const ArrayPtr& y) {
    const Status status = launch("add", {ArrayArgument{x, 0}, ArrayArgument{y, 0}, count_of(x)});
    EXPECT_TRUE(status.ok()) << status.message();
  }
  static session::Argument count_of(const ArrayPtr& x) {
    return session::Number{session::ElementType::kU32, x->count()};
  }

  std::shared_ptr<LocalSession> session_;
  session::ModulePtr module_;
};

// ── Concurrent access: prefetches ───────────────────────────────────────────────────────────────────────────────────

TEST_F(ManagedTest, Concurrent_LaunchPrefetchesWhatIsNotThere_OnItsStreamAndBeforeIt) {
  open(true);
  const ArrayPtr x = filled(2), y = filled(3), z = filled(4);
  EXPECT_EQ(control().log(), "");
  EXPECT_EQ(x->location(), Location::kHost);
  control().hold();
  add(x, y);
  EXPECT_EQ(control().log(), "prefetch a to device on 0\nprefetch b to device on 0\nadd on 0\n");
  EXPECT_EQ(x->location(), Location::kDevice);
  add(x, z);  // reads x as well, which has been sent for already
  EXPECT_EQ(control().log(), "prefetch c to device on 1\nadd on 1\n");
  add(y, z);
  EXPECT_EQ(control().log(), "0 waits for 1\nadd on 0\n");
  control().go();
  EXPECT_THAT(host(z, Access::kRead), Each(2 + 4 + 5));
}

TEST_F(ManagedTest, Concurrent_HostWorksOnTheArrayItself_WhichMovesWhereItIsLarge) {
  open(true);
  const ArrayPtr small = filled(1), large = filled(1, kLarge);
  EXPECT_EQ(reinterpret_cast<std::uint64_t>(host(large, Access::kRead).data()), large->address());
  add_one(small);
  add_one(large);
  ASSERT_TRUE(session_->synchronize().ok());
  control().log();
  EXPECT_THAT(host(small, Access::kReadWrite), Each(2));
  EXPECT_EQ(control().log(), "");  // page by page, as it is touched
  EXPECT_THAT(host(large, Access::kRead), Each(2));
  EXPECT_THAT(control().log(), ::testing::MatchesRegex("prefetch b to host on [0-9]\n"));
  EXPECT_EQ(large->location(), Location::kHost);
  EXPECT_THAT(host(large, Access::kRead), Each(2));
  EXPECT_EQ(control().log(), "");
  add_one(small);
  add_one(large);
  ASSERT_TRUE(session_->synchronize().ok());
  EXPECT_THAT(control().log(),
              ::testing::AllOf(HasSubstr("prefetch a to device on "), HasSubstr("prefetch b to device on ")));
}

TEST_F(ManagedTest, Concurrent_ReadsAndWritesLeaveTheArrayWhereItIs) {
  open(true);
  const ArrayPtr x = filled(1, kLarge);
  std::vector<std::uint32_t> values(kLarge, 7), back(kLarge);
  ASSERT_TRUE(x->write(0, std::as_bytes(std::span(values))).ok());
  EXPECT_EQ(control().log(), "");  // it is on the host: taken by the host
  add_one(x);
  ASSERT_TRUE(session_->synchronize().ok());
  control().log();
  ASSERT_TRUE(x->read(0, std::as_writable_bytes(std::span(back))).ok());
  EXPECT_THAT(back, Each(8u));
  EXPECT_THAT(control().log(), ::testing::MatchesRegex("copy to host on [0-9]\n"));
  ASSERT_TRUE(x->write(0, std::as_bytes(std::span(values))).ok());
  EXPECT_THAT(control().log(), ::testing::MatchesRegex("copy to device on [0-9]\n"));
  const auto view = x->view();
  ASSERT_TRUE(view) << view.message();
  EXPECT_EQ(std::memcmp(view->data(), values.data(), view->size()), 0);
  EXPECT_EQ(x->location(), Location::kDevice);
}

TEST_F(ManagedTest, Concurrent_PrefetchIsWorkThatOthersWaitFor) {
  open(true);
  const ArrayPtr x = filled(1), y = filled(1);
  control().hold();
  ASSERT_TRUE(x->prefetch(Location::kDevice).ok());
  ASSERT_TRUE(x->prefetch(Location::kDevice).ok());
  EXPECT_EQ(control().log(), "prefetch a to device on 0\n");
  add_one(x);
  ASSERT_TRUE(x->prefetch(Location::kHost).ok());
  EXPECT_EQ(control().log(), "add_one on 0\nprefetch a to host on 0\n");
  EXPECT_EQ(x->location(), Location::kHost);
  EXPECT_EQ(x->host(Access::kRead, std::chrono::milliseconds(1)).code(), Code::kTimeout);
  EXPECT_EQ(x->prefetch(Location::kBoth).code(), Code::kInvalidArgument);
  add(x, y);
  EXPECT_EQ(control().log(), "prefetch a to device on 0\nprefetch b to device on 0\nadd on 0\n");
  control().go();
  EXPECT_THAT(host(y, Access::kRead), Each(3));
}

// A turn of two launches, and 16 of them a graph. The fake runs kernels by their names, and those of other ways than
// the plain one have others: so without blocks.
TEST_F(ManagedTest, Concurrent_AGraphPrefetchesWhatTheHostHasHad_OnItsStreamAndBeforeIt) {
  open(true, "memory=managed,graphs=always,blocks=off");
  session_->scheduler().set_graph_patience(std::chrono::hours(1));
  const ArrayPtr x = filled(1), y = filled(0), other = filled(5);
  std::uint32_t expected = 0;
  const auto turns = [&](int count) {
    for (int i = 0; i < count; ++i) add_one(y), add(x, y), expected += 2;
  };
  turns(33);
  session_->scheduler().settle_graphs();
  turns(64);
  EXPECT_THAT(host(y, Access::kRead), Each(expected));
  session_->scheduler().settle_graphs();
  turns(32);
  ASSERT_TRUE(session_->synchronize().ok());
  const std::uint64_t graphs = session_->scheduler().graph_counters().launches;
  ASSERT_GT(graphs, 0u);
  EXPECT_EQ(y->location(), Location::kDevice);
  control().log();
  turns(16);  // nothing has moved
  EXPECT_THAT(control().log(), ::testing::MatchesRegex("(graph on [0-9]\n)+"));
  EXPECT_THAT(host(y, Access::kReadWrite), Each(expected));
  EXPECT_EQ(y->location(), Location::kHost);
  control().log();
  turns(16);
  EXPECT_THAT(control().log(),
              ::testing::MatchesRegex("prefetch b to device on ([0-9])\ngraph on [0-9]\n(graph on [0-9]\n)*"));
  EXPECT_THAT(host(x, Access::kRead), Each(1));
  EXPECT_THAT(host(y, Access::kRead), Each(expected));
  turns(1);  // held, and then launched one by one: each prefetches what it uses
  control().log();
  EXPECT_THAT(host(y, Access::kRead), Each(expected));
  EXPECT_THAT(control().log(), ::testing::MatchesRegex("prefetch b to device on [0-9]\nadd_one on [0-9]\nprefetch a to "
                                                       "device on [0-9]\nadd on [0-9]\n(.*)"));
  EXPECT_GT(session_->scheduler().graph_counters().launches, graphs);
}

// What stands before a launch is not looked at where its text is known: that the host has had an array is.
TEST_F(ManagedTest, Concurrent_LaunchesKnownByTheirText_PrefetchWhatTheHostHasHad) {
  open(true, "memory=managed,graphs=always,blocks=off");
  session_->scheduler().set_graph_patience(std::chrono::hours(1));
  const ArrayPtr x = filled(0);
  const auto kernel = module_->kernel("add_one");
  ASSERT_TRUE(kernel) << kernel.message();
  const std::atomic<std::uint64_t> dropped{0};
  const std::uint64_t bytes[] = {x->address(), x->count()};
  const std::uint32_t shape[] = {1, 32};
  const CallText text{kernel->get(), std::as_bytes(std::span(shape)), std::as_bytes(std::span(bytes)), &dropped, 0};
  std::uint32_t expected = 0, by_text = 0;
  const auto launches = [&](int count) {
    for (int i = 0; i < count; ++i, ++expected) {
      std::optional<Status> again = (*kernel)->launch_again(text, nullptr);
      by_text += again.has_value();
      if (!again)
        again = (*kernel)->launch({.grid = {1, 1, 1}, .block = {32, 1, 1}},
                                  std::vector<session::Argument>{ArrayArgument{x, 0}, count_of(x)}, nullptr, nullptr,
                                  &text);
      ASSERT_TRUE(again->ok()) << again->message();
    }
  };
  for (int i = 0; i < 6; ++i) {
    launches(32);
    EXPECT_THAT(host(x, Access::kRead), Each(expected));
    session_->scheduler().settle_graphs();
  }
  EXPECT_EQ(x->location(), Location::kHost);
  control().log();
  by_text = 0;
  launches(32);
  EXPECT_EQ(by_text, 32u);
  EXPECT_THAT(control().log(), ::testing::MatchesRegex("prefetch a to device on [0-9]\ngraph on [0-9]\n"));
  EXPECT_THAT(host(x, Access::kRead), Each(expected));
}

TEST_F(ManagedTest, Concurrent_AnArrayThatGoesWhileALaunchOfItIsHeld_IsPrefetchedBefore) {
  open(true, "memory=managed,graphs=always,blocks=off");
  session_->scheduler().set_graph_patience(std::chrono::hours(1));
  ArrayPtr x = filled(1);
  const ArrayPtr y = filled(0);
  for (int i = 0; i < 100; ++i) add(x, y);
  session_->scheduler().settle_graphs();
  for (std::uint32_t i = 1; i <= 4; ++i) {
    for (int k = 0; k < 32; ++k) add(x, y);
    EXPECT_THAT(host(y, Access::kRead), Each(100 + i * 32));
    session_->scheduler().settle_graphs();
  }
  EXPECT_THAT(host(x, Access::kReadWrite), Each(1));
  control().log();
  for (int i = 0; i < 3; ++i) add(x, y);
  EXPECT_EQ(control().log(), "");  // held
  x.reset();
  EXPECT_THAT(control().log(), HasSubstr("prefetch a to device"));
  EXPECT_THAT(host(y, Access::kRead), Each(100 + 4 * 32 + 3));
}

// The launch has not taken the array yet, which is on the host still.
TEST_F(ManagedTest, Concurrent_APrefetchToTheHost_ComesAfterLaunchesThatAreHeld) {
  open(true, "memory=managed,graphs=always,blocks=off");
  session_->scheduler().set_graph_patience(std::chrono::hours(1));
  const ArrayPtr x = filled(0), other = filled(0);
  std::uint32_t expected = 0;
  for (int i = 0; i < 6; ++i) {
    for (int k = 0; k < 32; ++k) add_one(x), ++expected;
    EXPECT_THAT(host(x, Access::kRead), Each(expected));
    session_->scheduler().settle_graphs();
  }
  EXPECT_EQ(x->location(), Location::kHost);
  control().log();
  for (int k = 0; k < 3; ++k) add_one(x), ++expected;
  ASSERT_EQ(control().log(), "") << "held";
  ASSERT_TRUE(other->prefetch(Location::kHost).ok());
  EXPECT_EQ(control().log(), "") << "no launch uses it";
  ASSERT_TRUE(x->prefetch(Location::kHost).ok());
  EXPECT_THAT(control().log(), ::testing::MatchesRegex("prefetch a to device on [0-9]\n(add_one on [0-9]\n)+"
                                                       "prefetch a to host on [0-9]\n"));
  EXPECT_EQ(x->location(), Location::kHost);
  EXPECT_THAT(host(x, Access::kRead), Each(expected));
  ASSERT_TRUE(x->prefetch(Location::kHost).ok());
  EXPECT_EQ(control().log(), "") << "it is there, and nothing is held";
}

// ── Without: who sees the array ─────────────────────────────────────────────────────────────────────────────────────

TEST_F(ManagedTest, Restricted_AnArrayIsSeenByTheStreamThatUsesIt) {
  open(false);
  const ArrayPtr x = filled(2), y = filled(3), z = filled(4), w = filled(5);
  EXPECT_EQ(control().log(), "");
  control().hold();
  add(x, y);
  EXPECT_EQ(control().log(), "attach a to 0\nattach b to 0\nadd on 0\n");
  add_one(z);
  EXPECT_EQ(control().log(), "attach c to 1\nadd_one on 1\n");
  add_one(y);  // its stream sees it
  EXPECT_EQ(control().log(), "add_one on 0\n");
  add(y, z);  // c changes streams behind what used it on the other
  EXPECT_EQ(control().log(), "0 waits for 1\nattach c to 0\nadd on 0\n");
  add(x, w);  // only reads x, as add(x, y) does; but two streams cannot see it
  const std::string log = control().log();
  EXPECT_THAT(log, ::testing::MatchesRegex("([12]) waits for 0\nattach a to [12]\nattach d to [12]\nadd on [12]\n"));
  control().go();
  EXPECT_THAT(host(z, Access::kRead), Each(5 + 6));
  EXPECT_THAT(host(w, Access::kRead), Each(5 + 2));
}

TEST_F(ManagedTest, Restricted_TheHostSeesAnArrayAgain_WhileKernelsRunOnOthers) {
  open(false);
  const ArrayPtr x = filled(1), y = filled(1);
  add_one(x);
  ASSERT_TRUE(session_->synchronize().ok());
  std::uint32_t flag = 0;
  ASSERT_TRUE(
      launch("hold", {ArrayArgument{y, 0}, session::AddressArgument{reinterpret_cast<std::uint64_t>(&flag)}}).ok());
  control().log();
  EXPECT_EQ(y->host(Access::kRead, std::chrono::milliseconds(1)).code(), Code::kTimeout);
  EXPECT_EQ(control().log(), "");  // nothing changes for an array in use
  EXPECT_THAT(host(x, Access::kReadWrite), Each(2));
  EXPECT_THAT(control().log(), ::testing::MatchesRegex("attach a to host on [1-9]\n"));
  EXPECT_THAT(host(x, Access::kReadWrite), Each(2));
  EXPECT_EQ(control().log(), "");
  __atomic_store_n(&flag, 1, __ATOMIC_RELEASE);
  EXPECT_EQ(host(y, Access::kRead)[0], 2u);
  EXPECT_THAT(control().log(), ::testing::MatchesRegex("attach b to host on [1-9]\n"));
}

TEST_F(ManagedTest, Restricted_WorkThatMayUseAnyArray_SeesAll) {
  open(false);
  const ArrayPtr x = filled(1), y = filled(1);
  control().hold();
  add_one(y);
  EXPECT_EQ(control().log(), "attach b to 0\nadd_one on 0\n");
  ASSERT_TRUE(launch("add_one", {session::AddressArgument{x->address()}, count_of(x)}).ok());
  EXPECT_EQ(control().log(), "attach a to 0\nadd_one on 0\n");
  control().go();
  EXPECT_THAT(host(x, Access::kRead), Each(2));
}

TEST_F(ManagedTest, Restricted_LaunchesThatRecur_StayLaunches) {
  open(false, "memory=managed,graphs=always");
  const ArrayPtr x = filled(0);
  for (int i = 0; i < 300; ++i) {
    add_one(x);
    session_->scheduler().settle_graphs();
  }
  EXPECT_THAT(host(x, Access::kRead), Each(300));
  EXPECT_EQ(session_->scheduler().graph_counters().launches, 0u);
  EXPECT_THAT(session_->scheduler().graphs().off, HasSubstr("one stream at a time"));
}

TEST_F(ManagedTest, Restricted_PrefetchToTheHostShowsItToTheHost) {
  open(false);
  const ArrayPtr x = filled(1);
  ASSERT_TRUE(x->prefetch(Location::kDevice).ok());
  EXPECT_EQ(control().log(), "");  // no work has said which stream
  add_one(x);
  ASSERT_TRUE(x->prefetch(Location::kHost).ok());
  EXPECT_THAT(host(x, Access::kRead), Each(2));
  EXPECT_THAT(control().log(), HasSubstr("attach a to 0\nadd_one on 0\nattach a to host on "));
}

TEST_F(ManagedTest, Restricted_WhatOtherStreamsWouldUse_IsRefused) {
  open(false);
  const ArrayPtr x = filled(1);
  const session::CallAccess access{.array = x};
  const auto nothing = [](void*) { return 0; };
  for (const Status& status : {session_->call("sync", std::span(&access, 1), true, nothing), session_->wait_stream(1),
                               session_->make_stream_wait(1)}) {
    EXPECT_EQ(status.code(), Code::kUnsupported);
    EXPECT_THAT(status.message(), HasSubstr("memory=device"));
  }
}

// ── Both ────────────────────────────────────────────────────────────────────────────────────────────────────────────

class ManagedBothTest : public ManagedTest, public ::testing::WithParamInterface<bool> {
 protected:
  bool concurrent() const { return GetParam(); }
};

TEST_P(ManagedBothTest, LibraryCall_FindsTheArrayOnItsStream) {
  open(concurrent());
  const ArrayPtr x = filled(1);
  const session::CallAccess access{.array = x};
  std::string before;
  const auto function = [&](void* stream) {
    before = control().log();
    return stream == nullptr ? 1 : 0;
  };
  const Status status = session_->call("mine", std::span(&access, 1), false, function);
  ASSERT_TRUE(status.ok()) << status.message();
  EXPECT_EQ(before, concurrent() ? "prefetch a to device on 0\n" : "attach a to 0\n");
}

TEST_P(ManagedBothTest, MovesThatFail_AreTheLaunchsError_AndNothingHasMoved) {
  open(concurrent());
  const ArrayPtr x = filled(1);
  control().fail(concurrent() ? "cuMemPrefetchAsync" : "cuStreamAttachMemAsync", device::cuda::CUDA_ERROR_OUT_OF_MEMORY,
                 0);
  const Status status = launch("add_one", {ArrayArgument{x, 0}, count_of(x)});
  EXPECT_EQ(status.code(), Code::kResourceExhausted);
  EXPECT_THAT(status.message(), HasSubstr("managed memory"));
  EXPECT_EQ(x->location(), Location::kHost);
  add_one(x);
  EXPECT_THAT(host(x, Access::kRead), Each(2));
}

TEST_P(ManagedBothTest, RandomPrograms_LeaveWhatTheSequentialOrderLeaves) {
  open(concurrent(), "memory=managed,graphs=always");
  const std::uint64_t seed = test_support::seed_of("PERGOLA_MANAGED_SEED");
  test_support::Random random(seed);
  constexpr std::size_t kArrays = 4;
  for (int program = 0; program < 30; ++program) {
    std::vector<ArrayPtr> arrays;
    std::vector<std::uint32_t> expected(kArrays, 1);
    for (std::size_t i = 0; i < kArrays; ++i) arrays.push_back(filled(1, program % 3 == 0 ? kLarge : kSmall));
    for (int step = 0; step < 40; ++step) {
      const std::size_t a = random.below(kArrays), b = (a + 1 + random.below(kArrays - 1)) % kArrays;
      const auto value = static_cast<std::uint32_t>(random.below(100));
      std::vector<std::uint32_t> bytes(arrays[a]->count(), value);
      switch (random.below(9)) {
        case 0:
        case 1: add_one(arrays[a]), ++expected[a]; break;
        case 2:
        case 3: add(arrays[b], arrays[a]), expected[a] += expected[b]; break;
        case 4: {
          const auto on_host = host(arrays[a], Access::kWrite);
          std::fill(on_host.begin(), on_host.end(), expected[a] = value);
          break;
        }
        case 5: EXPECT_THAT(host(arrays[a], Access::kRead), Each(expected[a])); break;
        case 6: {
          const bool writes = value % 2 == 0;
          if (writes) {
            ASSERT_TRUE(arrays[a]->write(0, std::as_bytes(std::span(bytes))).ok());
            expected[a] = value;
          } else {
            ASSERT_TRUE(arrays[a]->read(0, std::as_writable_bytes(std::span(bytes))).ok());
            EXPECT_THAT(bytes, Each(expected[a]));
          }
          break;
        }
        case 7:
          if (value % 2 == 0) {
            ASSERT_TRUE(arrays[a]->copy_from(0, arrays[b], 0, arrays[a]->size_bytes()).ok());
            expected[a] = expected[b];
          } else {
            const std::uint64_t part = value % 3 == 0 ? 0 : arrays[a]->count() / 3;
            fill(arrays[a], part, arrays[a]->count() - part, value);
            fill(arrays[a], 0, part, value);
            expected[a] = value;
          }
          break;
        default: ASSERT_TRUE(arrays[a]->prefetch(value % 2 == 0 ? Location::kHost : Location::kDevice).ok());
      }
    }
    for (std::size_t i = 0; i < kArrays; ++i) {
      const auto view = arrays[i]->view();
      ASSERT_TRUE(view) << view.message();
      const std::span words(reinterpret_cast<const std::uint32_t*>(view->data()), view->size() / 4);
      ASSERT_THAT(words, Each(expected[i])) << "seed " << seed << ", program " << program << ", array " << i;
    }
  }
}

// Turns of one program that the host steps into at random: graphs, parts of them launched one by one, and what moves in
// between leave what the sequential order leaves.
// The fake runs kernels by name: those of other ways than the plain graph it does not know.
TEST_P(ManagedBothTest, RandomTurns_LeaveWhatTheSequentialOrderLeaves) {
  open(concurrent(), "memory=managed,graphs=always,blocks=off");
  const std::uint64_t seed = test_support::seed_of("PERGOLA_MANAGED_SEED");
  test_support::Random random(seed);
  constexpr std::size_t kArrays = 4;
  for (int program = 0; program < 6; ++program) {
    std::vector<ArrayPtr> arrays;
    std::vector<std::uint32_t> expected(kArrays, 1);
    for (std::size_t i = 0; i < kArrays; ++i) arrays.push_back(filled(1, program % 3 == 0 ? kLarge : kSmall));
    std::vector<std::pair<std::size_t, std::size_t>> turn;  // (a, b): a += b; a == b: a += 1
    for (std::size_t i = 0, steps = 3 + random.below(8); i < steps; ++i)
      turn.emplace_back(random.below(kArrays), random.below(kArrays));
    for (int i = 0; i < 60; ++i) {
      for (const auto& [a, b] : turn) {
        if (a == b)
          add_one(arrays[a]), ++expected[a];
        else
          add(arrays[b], arrays[a]), expected[a] += expected[b];
        if (random.below(100) < 97) continue;
        const std::size_t asked = random.below(kArrays);
        ASSERT_THAT(host(arrays[asked], random.below(2) == 0 ? Access::kRead : Access::kReadWrite),
                    Each(expected[asked]))
            << "seed " << seed << ", program " << program << ", turn " << i << ", array " << asked;
      }
      if (i % 8 == 0) session_->scheduler().settle_graphs();
    }
    for (std::size_t i = 0; i < kArrays; ++i)
      ASSERT_THAT(host(arrays[i], Access::kRead), Each(expected[i])) << "seed " << seed << ", program " << program;
  }
  EXPECT_EQ(session_->scheduler().graph_counters().launches > 0, concurrent());
}

INSTANTIATE_TEST_SUITE_P(Access, ManagedBothTest, ::testing::Bool(),
                         [](const auto& one) { return one.param ? "Concurrent" : "Restricted"; });

// ── Where there is none ─────────────────────────────────────────────────────────────────────────────────────────────

TEST_F(ManagedTest, DeviceWithoutManagedMemory_IsRefusedByName) {
  control().set("managed", 0);
  const auto session = try_open("memory=managed");
  ASSERT_EQ(session.code(), Code::kUnsupported);
  EXPECT_THAT(session.message(), HasSubstr("'cuda:0' (Fake GPU) has no managed memory"));
  EXPECT_TRUE(try_open("memory=device").ok());
  auto null = open_device("null");
  ASSERT_TRUE(null) << null.message();
  EXPECT_EQ(LocalSession::create(*null, "memory=managed").code(), Code::kUnsupported);
}

TEST_F(ManagedTest, CpuDevice_HasTheArrayAlready) {
  auto device = open_device("cpu");
  ASSERT_TRUE(device) << device.message();
  auto session = LocalSession::create(*device, "memory=managed");
  ASSERT_TRUE(session) << session.message();
  const auto x = (*session)->allocate(session::ElementType::kU32, 4, 8);
  ASSERT_TRUE(x) << x.message();
  const auto bytes = (*x)->host(Access::kWrite);
  ASSERT_TRUE(bytes) << bytes.message();
  EXPECT_EQ(reinterpret_cast<std::uint64_t>(bytes->data()), (*x)->address());
  EXPECT_EQ((*x)->location(), Location::kBoth);
}

}  // namespace
}  // namespace pergola::runtime
