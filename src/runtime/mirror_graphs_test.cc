// Turns in which arrays go to the device and come back, as graphs with their copies, on the fake driver, whose kernels
// and copies run for real: what is queued, where the newest contents are, and what is left after a failure.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cstring>
#include <thread>

#include "src/device/cuda/cuda_device.h"
#include "src/device/cuda/cuda_driver_types.h"
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

class MirrorGraphs : public ::testing::Test, protected TestArrays {
 protected:
  // So large that the first uploads of a turn go when they come.
  static constexpr std::uint32_t kLarge = 32'768;

  // Kernels of other ways than the plain one have names that the fake does not know. Which form of turns is the fastest
  // here depends on the machine.
  void SetUp() override { open("graphs=always,blocks=off,turns=leads"); }
  void open(std::string_view policy) {
    kernel_ = nullptr, module_ = nullptr, session_ = nullptr;
    control().reset();
    control().set("virtual", 1);  // arrays share a piece of memory
    auto device = device::create_cuda_device(0, {.driver_library = PERGOLA_FAKE_CUDA});
    ASSERT_TRUE(device) << device.message();
    auto session = LocalSession::create(std::move(device).value(), policy);
    ASSERT_TRUE(session) << session.message();
    session_ = std::move(session).value();
    scheduler().set_graph_patience(std::chrono::hours(1));
    auto module = session_->load_text(kAddPtx, {.name = "mirror.ptx"});
    ASSERT_TRUE(module) << module.message();
    module_ = std::move(module).value();
    auto kernel = module_->kernel("add");
    ASSERT_TRUE(kernel) << kernel.message();
    kernel_ = std::move(kernel).value();
  }
  void TearDown() override { control().go(); }

  scheduler::Scheduler& scheduler() { return session_->scheduler(); }
  std::uint64_t graphs() { return scheduler().graph_counters().launches; }
  ArrayPtr array() {
    auto made = session_->allocate(session::ElementType::kU32, 4, count_);
    EXPECT_TRUE(made) << made.message();
    ++dropped_;  // it may be where one was that has gone
    return std::move(made).value();
  }
  // As the C interface does it: by its text, where that is known.
  Status try_add(const ArrayPtr& x, const ArrayPtr& y) {
    const session::Array* const written[] = {x.get(), y.get()};
    const std::uint32_t block[] = {32, 1, 1};
    const CallText text{kernel_.get(), std::as_bytes(std::span(block)), std::as_bytes(std::span(written)), &dropped_,
                        dropped_.load()};
    if (const std::optional<Status> again = kernel_->launch_again(text, nullptr)) return *again;
    return kernel_->launch({.grid = {1, 1, 1}, .block = {block[0], block[1], block[2]}},
                           std::vector<session::Argument>{ArrayArgument{x, 0}, ArrayArgument{y, 0},
                                                          session::Number{session::ElementType::kU32, count_}},
                           nullptr, nullptr, &text);
  }
  std::uint64_t by_text() { return scheduler().graph_counters().by_text; }
  void add(const ArrayPtr& x, const ArrayPtr& y) {
    const Status status = try_add(x, y);
    EXPECT_TRUE(status.ok()) << status.message();
  }
  // z = x + 2 y, written and read by the host.
  void cold_turn(std::uint32_t value) {
    set(x_, value);
    set(z_, 0);
    add(x_, z_);
    set(y_, value + 1);
    add(y_, z_);
    add(y_, z_);
    EXPECT_THAT(host(z_, Access::kRead), Each(3 * value + 2));
  }
  void learn() {
    for (std::uint32_t i = 0; i < 40; ++i) {
      cold_turn(i);
      scheduler().settle_graphs();
    }
    ASSERT_GT(graphs(), 0u);
    control().log();
  }

  struct RandomStep {
    std::uint64_t what;
    std::size_t a, b;
  };
  static ::testing::AssertionResult are(std::span<const std::uint32_t> words, std::uint32_t value) {
    const auto other = std::find_if(words.begin(), words.end(), [&](std::uint32_t word) { return word != value; });
    if (other == words.end()) return ::testing::AssertionSuccess();
    return ::testing::AssertionFailure() << "word " << other - words.begin() << " is " << *other << ", not " << value;
  }
  // Programs whose turns begin so, in this form of turns, as many of them in a session. Where one's graphs have to wait
  // for what their copies would not wait for, copies are no part of graphs for what may be all later programs of its
  // session.
  void run_random_turns(int programs, int in_a_session, const std::vector<RandomStep>& begin = {},
                        std::string_view turns = "leads", std::string_view blocks = "off");

  std::shared_ptr<LocalSession> session_;
  session::ModulePtr module_;
  session::KernelPtr kernel_;
  std::atomic<std::uint64_t> dropped_{0};
  ArrayPtr x_, y_, z_;
  std::uint32_t count_ = 64;  // words of an array
  bool has_led_ = false;      // in a random program uploads have gone at once
};

TEST_F(MirrorGraphs, AColdTurn_IsOneCallOfTheDriver) {
  x_ = array(), y_ = array(), z_ = array();
  learn();
  const std::uint64_t before = graphs();
  cold_turn(1000);
  EXPECT_THAT(control().log(), ::testing::MatchesRegex("graph on [0-9]\n"));
  EXPECT_EQ(graphs(), before + 1);
  for (const ArrayPtr& each : {x_, y_, z_}) EXPECT_EQ(each->location(), Location::kBoth);
}

// Their uploads come with them, as in the turns before, without a look at their arguments.
TEST_F(MirrorGraphs, LaunchesOfAColdTurn_AreKnownByTheirText) {
  x_ = array(), y_ = array(), z_ = array();
  learn();
  const std::uint64_t before = by_text(), graphs_before = graphs();
  cold_turn(1000);
  EXPECT_EQ(by_text(), before + 3);
  set(x_, 5);
  set(z_, 0);
  set(y_, 6);
  add(x_, z_);
  EXPECT_EQ(by_text(), before + 4) << "y is not one of its arrays";
  EXPECT_EQ(x_->location(), Location::kBoth);
  EXPECT_EQ(z_->location(), Location::kDevice);
  EXPECT_EQ(y_->location(), Location::kHost);
  add(y_, z_);
  add(y_, z_);
  EXPECT_THAT(host(z_, Access::kRead), Each(17));
  EXPECT_EQ(graphs(), graphs_before + 2);
  set(x_, 7);
  add(x_, z_);  // z is not written this time: its upload was expected, and does not come
  EXPECT_THAT(host(z_, Access::kRead), Each(24));
  cold_turn(8);
}

// While another thread is at an array, whoever brings it up for a launch goes the way that waits.
TEST_F(MirrorGraphs, ThreadsThatUseTheSideOfOneArray_AndLaunchWithOthers) {
  x_ = array(), y_ = array(), z_ = array();
  learn();
  const ArrayPtr own = array(), sum = array();
  std::thread other([&] {
    for (std::uint32_t i = 0; i < 300; ++i) {
      set(own, i);
      set(sum, 1);
      add(own, sum);
      ASSERT_TRUE(are(host(sum, Access::kRead), i + 1));
    }
  });
  for (std::uint32_t i = 0; i < 300; ++i) cold_turn(i);
  other.join();
}

TEST_F(MirrorGraphs, LargeUploadsThatATurnBeginsWith_GoWhenTheyCome) {
  count_ = kLarge;
  x_ = array(), y_ = array(), z_ = array();
  learn();
  set(x_, 5);
  set(z_, 0);
  add(x_, z_);
  EXPECT_THAT(control().log(), ::testing::MatchesRegex("copy on [0-9]\ncopy on [0-9]\n"))
      << "x and z; the launch is held";
  EXPECT_EQ(x_->location(), Location::kBoth);
  set(y_, 6);
  add(y_, z_);
  add(y_, z_);
  EXPECT_EQ(control().log(), "") << "y's is part of the graph";
  EXPECT_THAT(host(z_, Access::kRead), Each(17));
  EXPECT_THAT(control().log(), HasSubstr("graph on "));
  cold_turn(7);
}

// The first to go cannot, and its caller is told.
TEST_F(MirrorGraphs, AnUploadThatGoesWhenItComesAndCannot_LeavesTheContentsOnTheHost) {
  count_ = kLarge;
  x_ = array(), y_ = array(), z_ = array();
  learn();
  control().fail("cuMemcpyAsync", device::cuda::CUDA_ERROR_OUT_OF_MEMORY, 0);
  set(x_, 5);
  set(z_, 0);
  EXPECT_FALSE(try_add(x_, z_).ok());
  EXPECT_EQ(x_->location(), Location::kHost);
  for (std::uint32_t i = 0; i < 40; ++i) cold_turn(i);
}

TEST_F(MirrorGraphs, WhereTheNewestContentsAre_IsToldAsOfCopiesThatRan) {
  x_ = array(), y_ = array(), z_ = array();
  learn();
  set(x_, 5);
  EXPECT_EQ(x_->location(), Location::kHost);
  set(z_, 0);
  add(x_, z_);  // the copies and the launch are held
  EXPECT_EQ(control().log(), "");
  EXPECT_EQ(x_->location(), Location::kBoth);
  EXPECT_EQ(z_->location(), Location::kDevice);
  EXPECT_THAT(host(x_, Access::kRead), Each(5)) << "nobody writes it";
  EXPECT_EQ(control().log(), "");
  set(x_, 6);  // only once the upload has read it
  EXPECT_THAT(control().log(), ::testing::Not(HasSubstr("graph")));
  EXPECT_THAT(host(z_, Access::kRead), Each(5));
  EXPECT_EQ(x_->location(), Location::kHost);
  cold_turn(7);
}

TEST_F(MirrorGraphs, AGraphThatCannotBeLaunched_LeavesTheContentsOnTheHost) {
  x_ = array(), y_ = array(), z_ = array();
  learn();
  control().fail("cuGraphLaunch", device::cuda::CUDA_ERROR_OUT_OF_MEMORY, 0);
  set(x_, 5);
  set(z_, 0);
  add(x_, z_);
  set(y_, 6);
  add(y_, z_);
  add(y_, z_);
  const auto found = z_->host(Access::kRead, std::nullopt);
  EXPECT_FALSE(found.ok());
  EXPECT_FALSE(session_->synchronize().ok());
  EXPECT_EQ(x_->location(), Location::kHost);
  EXPECT_EQ(y_->location(), Location::kHost);
  set(z_, 0);
  add(x_, z_);
  add(y_, z_);
  EXPECT_THAT(host(z_, Access::kRead), Each(11));
  for (std::uint32_t i = 0; i < 40; ++i) cold_turn(i);
}

TEST_F(MirrorGraphs, ArraysThatGo_WhileTheirCopiesAreHeld) {
  x_ = array(), y_ = array(), z_ = array();
  learn();
  set(x_, 5);
  set(z_, 0);
  add(x_, z_);
  x_.reset();
  EXPECT_THAT(host(z_, Access::kRead), Each(5));
  x_ = array();
  for (std::uint32_t i = 0; i < 40; ++i) {
    cold_turn(i);
    scheduler().settle_graphs();
  }
  control().log();
  cold_turn(3);
  EXPECT_THAT(control().log(), ::testing::MatchesRegex("graph on [0-9]\n"));
}

TEST_F(MirrorGraphs, ASessionThatEndsWhileCopiesAreHeld) {
  x_ = array(), y_ = array(), z_ = array();
  learn();
  set(x_, 5);
  set(z_, 0);
  add(x_, z_);
  EXPECT_EQ(control().log(), "");
  EXPECT_TRUE(session_->synchronize().ok());
  EXPECT_THAT(control().log(), HasSubstr("add on "));
  set(x_, 6);
  add(x_, z_);
}

TEST_F(MirrorGraphs, OtherWays_SayThatTheyAreForLaunchesAlone) {
  for (const char* way : {"early", "by-block", "fused", "merged-early"}) {
    open(fmt::format("graphs=always,blocks={}", way));
    x_ = array(), y_ = array(), z_ = array();
    learn();
    EXPECT_THAT(explain(scheduler().graphs()), HasSubstr("it has copies between the host and the device")) << way;
    cold_turn(9);
    EXPECT_THAT(control().log(), ::testing::MatchesRegex("graph on [0-9]\n"));
    x_ = y_ = z_ = nullptr;
  }
}

// Turns of uploads, launches and downloads, with something else now and then, against vectors that are worked on at
// once.
void MirrorGraphs::run_random_turns(int programs, int in_a_session, const std::vector<RandomStep>& begin,
                                    std::string_view turns, std::string_view blocks) {
  const std::uint64_t seed = test_support::seed_of("PERGOLA_MIRROR_SEED");
  test_support::Random random(seed);
  constexpr std::size_t kArrays = 4;
  bool has_copies = false;
  const auto is_with_copies = [](const scheduler::RegionReport& region) {
    return region.replaced != 0 && std::any_of(region.kernels.begin(), region.kernels.end(),
                                               [](const auto& one) { return one.name == "upload"; });
  };
  for (int program = 0; program < programs; ++program) {
    if (program % in_a_session == 0) open(fmt::format("graphs=always,blocks={},turns={}", blocks, turns));
    std::vector<ArrayPtr> arrays;
    std::vector<std::uint32_t> expected(kArrays, 1);
    for (std::size_t i = 0; i < kArrays; ++i) set(arrays.emplace_back(array()), 1);
    const auto step = [&](std::uint64_t what, std::size_t a, std::size_t b) {
      const auto value = static_cast<std::uint32_t>(random.below(1000));
      switch (what) {
        case 0:
        case 1: add(arrays[a], arrays[b]), expected[b] += expected[a]; break;
        case 2: set(arrays[a], expected[a] = value); break;
        case 3: ASSERT_TRUE(are(host(arrays[a], Access::kRead), expected[a])); break;
        case 4: ASSERT_TRUE(arrays[a]->prefetch(Location::kHost).ok()); break;
        case 5:
          ASSERT_TRUE(arrays[a]->copy_from(0, arrays[b], 0, count_ * 4).ok());
          expected[a] = expected[b];
          break;
        case 6:  // in two parts; where the value is odd a part alone, with what is there
          if (value % 2 == 0) fill(arrays[a], 0, count_ / 3, expected[a] = value);
          fill(arrays[a], count_ / 3, count_ - count_ / 3, expected[a]);
          break;
        default: set(arrays[a] = array(), expected[a] = value);
      }
    };
    std::vector<RandomStep> turn(4 + random.below(8));
    for (RandomStep& each : turn) {
      each.what = random.below(5), each.a = random.below(kArrays);
      each.b = (each.a + 1 + random.below(kArrays - 1)) % kArrays;
    }
    turn.insert(turn.begin(), begin.begin(), begin.end());
    for (int i = 0; i < 80; ++i) {
      SCOPED_TRACE(fmt::format("seed {}, program {}, turn {}", seed, program, i));
      for (const RandomStep& each : turn) {
        step(each.what, each.a, each.b);
        if (i > 40 && random.below(60) == 0) step(random.below(8), each.b, each.a);
      }
      if (i % 4 == 0) scheduler().settle_graphs();
      if (HasFatalFailure()) return;
    }
    for (std::size_t i = 0; i < kArrays; ++i)
      ASSERT_TRUE(are(host(arrays[i], Access::kRead), expected[i])) << "seed " << seed << ", program " << program;
    const auto report = scheduler().graphs();
    has_led_ |= explain(report).find("that a turn begins with go at once") != std::string::npos;
    has_copies |= std::any_of(report.regions.begin(), report.regions.end(), is_with_copies);
  }
  EXPECT_TRUE(has_copies || turns == "launches") << explain(scheduler().graphs());
}

TEST_F(MirrorGraphs, RandomTurns_LeaveWhatTheSequentialOrderLeaves) {
  run_random_turns(12, 2);
}

// Arrays that the host writes and reads, small ones: what goes up is one copy, and what comes down another.
TEST_F(MirrorGraphs, CopiesTogether_AreOneEachWay) {
  open("graphs=always,blocks=copies-together,turns=whole");
  std::vector<ArrayPtr> ups, downs;
  for (int i = 0; i < 5; ++i) {
    ups.push_back(array());
    set(ups.back(), 1);  // so that their host sides are made in order
  }
  for (int i = 0; i < 5; ++i) {
    downs.push_back(array());
    set(downs.back(), 0);
  }
  const auto turn = [&](std::uint32_t value) {
    for (std::uint32_t i = 0; i < 5; ++i) set(ups[i], value + i);
    for (std::size_t i = 0; i < 5; ++i) add(ups[i], downs[i]);
    for (const ArrayPtr& each : downs) ASSERT_TRUE(each->prefetch(Location::kHost).ok());
  };
  std::uint32_t sum = 0;
  for (std::uint32_t n = 0; n < 40; ++n) {
    turn(n), sum += n;
    for (std::uint32_t i = 0; i < 5; ++i) ASSERT_THAT(host(downs[i], Access::kRead), Each(sum + (n + 1) * i)) << n;
    scheduler().settle_graphs();
  }
  EXPECT_THAT(explain(scheduler().graphs()), HasSubstr("copies-together, the only way: 10 copies"));
  EXPECT_THAT(explain(scheduler().graphs()), HasSubstr("became 2"));
}

TEST_F(MirrorGraphs, RandomTurnsOfCopiesTogether_LeaveWhatTheSequentialOrderLeaves) {
  for (const char* turns : {"whole", "leads"}) run_random_turns(8, 2, {}, turns, "copies-together");
}

TEST_F(MirrorGraphs, RandomTurnsOfLargeUploads_LeaveWhatTheSequentialOrderLeaves) {
  count_ = kLarge;
  constexpr std::uint64_t kAdd = 0, kSet = 2, kRead = 3;
  for (const char* turns : {"leads", "measured", "whole", "launches"}) {
    has_led_ = false;
    run_random_turns(turns == std::string_view("leads") ? 4 : 3, 1,
                     {{kRead, 3, 0}, {kSet, 0, 1}, {kSet, 1, 0}, {kAdd, 0, 1}, {kAdd, 1, 2}, {kAdd, 2, 3}}, turns);
    EXPECT_TRUE(has_led_ || turns == std::string_view("whole") || turns == std::string_view("launches")) << turns;
  }
}

}  // namespace
}  // namespace pergola::runtime
