// Reads beside a thread that launches all of the time: there is never a moment in which nothing uses the array, and a
// read that waited for one would be overtaken by thousands of launches, for most of a second.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <deque>
#include <thread>

#include "src/runtime/devices.h"
#include "src/runtime/discrete_device.h"
#include "src/runtime/local_session.h"
#include "src/runtime/overtaking_device.h"
#include "src/runtime/test_arrays.h"
#include "tests/support/sanitized.h"

namespace pergola::runtime {
namespace {

constexpr std::uint32_t kWords = 64;

// x[i] is one more in the end, and that takes so many turns.
constexpr std::string_view kSlowly = R"(.version 7.0
.target sm_70
.address_size 64
.visible .entry slowly(.param .u64 x, .param .u32 turns) {
  .reg .b64 %a<2>;
  .reg .b32 %r<4>;
  .reg .pred %p;
  ld.param.u64 %a0, [x];
  ld.param.u32 %r0, [turns];
  mov.u32 %r1, %tid.x;
  mul.wide.u32 %a1, %r1, 4;
  add.s64 %a0, %a0, %a1;
  ld.global.u32 %r2, [%a0];
  mov.u32 %r3, 0;
L:
  add.u32 %r3, %r3, 1;
  setp.lt.u32 %p, %r3, %r0;
  @%p bra L;
  add.u32 %r2, %r2, 1;
  st.global.u32 [%a0], %r2;
  ret;
}
.visible .entry fails(.param .u64 y) {
  .reg .b64 %a;
  ld.param.u64 %a, [y];
  st.global.u32 [%a], 1;
  trap;
  ret;
}
)";

class OvertakenReads : public ::testing::TestWithParam<bool>, protected TestArrays {
 protected:
  static constexpr std::uint32_t kReads = 30, kUnderWay = 5;
  // While the read goes on, others' launches may be as many as its own thread sleeps through; a thousand times as many
  // came before.
  static constexpr std::uint64_t kMost = 100 * kReads;

  void SetUp() override {
    auto device = open_device("cpu");
    ASSERT_TRUE(device) << device.message();
    device::DevicePtr used = std::move(device).value();
    if (GetParam()) used = std::make_shared<DiscreteDevice>(std::move(used));
    auto session = LocalSession::create(used, "graphs=off");
    ASSERT_TRUE(session) << session.message();
    session_ = std::move(session).value();
    module_ = session_->load_text(kSlowly, {.name = "slowly.ptx"}).value();
    kernel_ = module_->kernel("slowly").value();
    x_ = session_->allocate(session::ElementType::kU32, 4, kWords).value();
    set(x_, 0);
  }

  // So many launches have begun while the reads went on, each of which finds words that are alike and no older than
  // what was there when it began.
  template <typename Read>
  std::uint64_t overtaken_by(const Read& read) {
    std::atomic<bool> ends{false};
    std::atomic<std::uint64_t> launched{0}, ended{0};
    std::jthread other([&] {
      const std::vector<session::Argument> arguments = {session::ArrayArgument{x_, 0},
                                                        number(test_support::kSanitized ? 500 : 20'000)};
      std::deque<session::EventPtr> under_way;
      while (!ends) {
        session::EventPtr event;
        EXPECT_TRUE(kernel_->launch({.grid = {1, 1, 1}, .block = {kWords, 1, 1}}, arguments, &event).ok());
        ++launched;
        under_way.push_back(std::move(event));
        if (under_way.size() < kUnderWay) continue;
        EXPECT_TRUE(under_way.front()->wait().ok());
        under_way.pop_front();
        ++ended;
      }
    });
    while (launched < 2 * kUnderWay) std::this_thread::yield();
    const std::uint64_t before = launched;
    for (std::uint32_t i = 0; i < kReads; ++i) {
      const std::uint64_t least = ended;
      const Words words = read();
      EXPECT_GE(words[0], least);
      EXPECT_THAT(words, ::testing::Each(words[0]));
    }
    const std::uint64_t meanwhile = launched - before;
    ends = true;
    return meanwhile;
  }

  std::shared_ptr<LocalSession> session_;
  session::ModulePtr module_;
  session::KernelPtr kernel_;
  session::ArrayPtr x_;
};

TEST_P(OvertakenReads, ACopy_IsThereSoon) {
  EXPECT_LE(overtaken_by([&] { return read(x_); }), kMost);
  // It is a piece of work that others come after: nothing is lost.
  ASSERT_TRUE(session_->synchronize().ok());
}

// Of the host's memory it is the array itself, which the device is at: that is not looked at.
TEST_P(OvertakenReads, TheHostsSide_IsThereSoon) {
  const auto read_there = [&] {
    const auto words = host(x_, session::Access::kRead);
    return GetParam() ? Words(words.begin(), words.end()) : Words(kWords, ~0u);
  };
  EXPECT_LE(overtaken_by(read_there), kMost);
}

TEST_P(OvertakenReads, AWait_EndsSoon) {
  EXPECT_LE(overtaken_by([&] {
              EXPECT_TRUE(x_->wait(0, x_->size_bytes(), std::nullopt).ok());
              return Words(kWords, ~0u);
            }),
            kMost);
}

// One thread, on a device that has others' work come while it waits.
class OvertakenReadsInSteps : public ::testing::TestWithParam<bool>, protected TestArrays {
 protected:
  static constexpr std::uint32_t kNever = 0xdeadbeef;

  void open(std::string_view policy) {
    device::DevicePtr used = std::move(open_device("cpu")).value();
    if (GetParam()) used = discrete_ = std::make_shared<DiscreteDevice>(std::move(used));
    device_ = std::make_shared<OvertakingDevice>(std::move(used));
    session_ = LocalSession::create(device_, policy).value();
    module_ = session_->load_text(kSlowly, {.name = "slowly.ptx"}).value();
    x_ = session_->allocate(session::ElementType::kU32, 4, kWords).value();
    y_ = session_->allocate(session::ElementType::kU32, 4, kWords).value();
    set(x_, 0), set(y_, 0);
    ASSERT_TRUE(session_->synchronize().ok());
  }
  void TearDown() override {
    if (session_ == nullptr) return;  // a test that has been skipped
    device_->hooks() = {};
    (void)session_->synchronize();
  }
  void slowly() {
    const std::vector<session::Argument> arguments = {session::ArrayArgument{x_, 0}, number(2000)};
    EXPECT_TRUE(launch("slowly", arguments).ok());
  }
  void fails(const session::ArrayPtr& array) {
    EXPECT_TRUE(launch("fails", std::vector<session::Argument>{session::ArrayArgument{array, 0}}).ok());
  }
  Status launch(std::string_view name, std::span<const session::Argument> arguments) {
    return module_->kernel(name).value()->launch({.grid = {1, 1, 1}, .block = {kWords, 1, 1}}, arguments);
  }
  Status read_to(Words& words) {
    words.assign(kWords, kNever);
    return x_->read(0, std::as_writable_bytes(std::span(words)));
  }

  std::shared_ptr<DiscreteDevice> discrete_;
  std::shared_ptr<OvertakingDevice> device_;
  std::shared_ptr<LocalSession> session_;
  session::ModulePtr module_;
  session::ArrayPtr x_, y_;
};

TEST_P(OvertakenReadsInSteps, EachTimeByAnother_HasWhatWasThere) {
  open("graphs=off");
  slowly();
  std::uint32_t launched = 1;
  device_->hooks().before_wait = [&] { slowly(), ++launched; };
  Words words;
  EXPECT_TRUE(read_to(words).ok());
  EXPECT_GE(launched, 4u);
  EXPECT_GE(words[0], 1u);
  EXPECT_THAT(words, ::testing::Each(words[0]));
  device_->hooks() = {};
  EXPECT_THAT(read(x_), ::testing::Each(launched)) << "nothing is lost";
}

// A read that says it is there has the data, also where nobody can say any more why it has not.
TEST_P(OvertakenReadsInSteps, AFailureThatAnotherThreadIsTold_IsTheReadsToo) {
  open("graphs=off");
  slowly();
  int begun = 0, ended = 0;
  device_->hooks().before_wait = [&] { ++begun == 3 ? fails(x_) : begun < 3 ? slowly() : void(); };
  device_->hooks().after_wait = [&] {
    if (++ended != 4) return;
    device_->hooks() = {};
    std::thread([&] { EXPECT_FALSE(session_->synchronize().ok()); }).join();
  };
  Words words;
  EXPECT_FALSE(read_to(words).ok());
}

TEST_P(OvertakenReadsInSteps, AFailureOfOtherWorkOnItsStream_IsTheReadsToo) {
  open("graphs=off,max-streams=1");
  slowly();
  int begun = 0;
  device_->hooks().before_wait = [&] {
    if (++begun <= 3) slowly();
    if (begun == 3) fails(y_);
  };
  Words words;
  const Status status = read_to(words);
  EXPECT_GE(begun, 4);
  EXPECT_TRUE(!status.ok() || words[0] != kNever);
}

TEST_P(OvertakenReadsInSteps, WithoutPageLockedMemory_TakeAsLongAsTheyTake) {
  if (!GetParam()) GTEST_SKIP() << "only the device with memory of its own can be told to have none of the host's";
  open("graphs=off");
  discrete_->has_no_host_memory = true;
  slowly();
  int begun = 0;
  device_->hooks().before_wait = [&] {
    if (++begun <= 6) slowly();
  };
  Words words;
  const Status status = read_to(words);
  EXPECT_TRUE(status.ok()) << status.message();
  EXPECT_THAT(words, ::testing::Each(7u));
  discrete_->has_no_host_memory = false;
}

INSTANTIATE_TEST_SUITE_P(Memory, OvertakenReadsInSteps, ::testing::Bool(),
                         [](const auto& which) { return which.param ? "OfTheDevice" : "OfTheHost"; });
INSTANTIATE_TEST_SUITE_P(Memory, OvertakenReads, ::testing::Bool(),
                         [](const auto& which) { return which.param ? "OfTheDevice" : "OfTheHost"; });

}  // namespace
}  // namespace pergola::runtime
