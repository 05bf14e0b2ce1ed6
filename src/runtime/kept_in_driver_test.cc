// A thread that is kept in the driver while a resident kernel runs, as by another's call that waits for that kernel and
// has the driver's lock: on a device whose events are recorded only once the queue is idle. Whoever starts the kernel
// has its locks then, so that nobody tells it to leave; it leaves by itself.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include "src/runtime/devices.h"
#include "src/runtime/local_session.h"
#include "src/runtime/overtaking_device.h"
#include "src/runtime/test_arrays.h"
#include "src/session/task_pool.h"
#include "tests/support/sanitized.h"

namespace pergola::runtime {
namespace {

constexpr std::uint32_t kThreadsOfATask = 32;

// x[i] is one more in the end.
constexpr std::string_view kAddOnePtx = R"(.version 7.0
.target sm_70
.address_size 64
.visible .entry add_one(.param .u64 x) {
  .reg .b64 %a<3>;
  .reg .b32 %r<3>;
  ld.param.u64 %a0, [x];
  mov.u32 %r1, %tid.x;
  mul.wide.u32 %a1, %r1, 4;
  add.s64 %a2, %a0, %a1;
  atom.global.add.u32 %r2, [%a2], 1;
  ret;
}
)";

class KeptInDriver : public ::testing::Test, protected TestArrays {
 protected:
  void SetUp() override {
#if defined(PERGOLA_TSAN)
    GTEST_SKIP() << "TSan does not connect the device half's fences with the host";
#endif
    device_ = std::make_shared<OvertakingDevice>(std::move(open_device("cpu")).value());
    session_ = LocalSession::create(device_, "").value();
    module_ = session_->load_text(kAddOnePtx, {.name = "add.ptx"}).value();
    x_ = session_->allocate(session::ElementType::kU32, 4, kThreadsOfATask).value();
    set(x_, 0);
    session::TaskPoolOptions options;
    options.executor = session::TaskExecutor::kResident;
    pool_ = session_->task_pool(options).value();
    kind_ = pool_->prepare(module_->kernel("add_one").value(), {.grid = {1, 1, 1}, .block = {kThreadsOfATask, 1, 1}})
                .value();
    ASSERT_TRUE(session_->synchronize().ok());
  }
  void TearDown() override {
    if (session_ == nullptr) return;
    device_->hooks().before_record = nullptr;
    EXPECT_TRUE(session_->synchronize().ok());
  }
  void keep_who_records() {
    device_->hooks().before_record = [this](device::Queue& queue) {
      constexpr std::chrono::seconds kLongest(20);
      const auto end = std::chrono::steady_clock::now() + kLongest;
      while (!queue.poll()) {
        ++kept_;
        if (std::chrono::steady_clock::now() > end) {
          ADD_FAILURE() << "What runs in the queue did not end in 20 s, in which nobody could tell it to.";
          return;
        }
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
      }
    };
  }
  std::vector<session::Argument> arguments() const { return {session::ArrayArgument{x_, 0}}; }

  std::shared_ptr<OvertakingDevice> device_;
  std::shared_ptr<LocalSession> session_;
  session::ModulePtr module_;
  session::TaskPoolPtr pool_;
  session::TaskKindPtr kind_;
  session::ArrayPtr x_;
  std::atomic<int> kept_{0};
};

TEST_F(KeptInDriver, TheResidentKernelLeavesByItself) {
  keep_who_records();
  constexpr std::uint32_t kTasks = 50;
  for (std::uint32_t n = 0; n < kTasks; ++n) ASSERT_TRUE(kind_->spawn(arguments()).ok());
  EXPECT_TRUE(pool_->wait_all().ok());
  EXPECT_THAT(read(x_), testing::Each(kTasks));
  EXPECT_GT(kept_, 0);
}

// It waits for the kernel to be away, whose start another thread is kept in.
TEST_F(KeptInDriver, ALaunchWaitsNoLongerThanThat) {
  keep_who_records();
  std::thread spawns([&] {
    EXPECT_TRUE(kind_->spawn(arguments()).ok());
    EXPECT_TRUE(pool_->wait_all().ok());
  });
  while (kept_ == 0) std::this_thread::yield();
  EXPECT_TRUE(module_->kernel("add_one")
                  .value()
                  ->launch({.grid = {1, 1, 1}, .block = {kThreadsOfATask, 1, 1}}, arguments())
                  .ok());
  EXPECT_TRUE(session_->synchronize().ok());
  spawns.join();
  EXPECT_THAT(read(x_), testing::Each(2u));
}

}  // namespace
}  // namespace pergola::runtime
