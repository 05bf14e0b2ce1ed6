// Writes faster than kernels run: what waits for its turn in the host's memory has an end, and so has the wait.
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstring>
#include <thread>

#include "src/base/wait_check.h"
#include "src/device/cuda/cuda_device.h"
#include "src/runtime/fake_driver.h"
#include "src/runtime/local_array.h"
#include "src/runtime/local_session.h"
#include "src/runtime/runtime.h"
#include "src/runtime/test_arrays.h"
#include "tests/support/sanitized.h"

namespace pergola::runtime {
namespace {

// Ends once *flag is not 0.
constexpr char kSource[] = R"(.version 7.8
.target sm_75
.address_size 64
.visible .entry until(.param .u64 flag, .param .u64 x) {
  .reg .b64 %rd<3>; .reg .b32 %r<2>; .reg .pred %p;
  ld.param.u64 %rd1, [flag]; ld.param.u64 %rd2, [x];
$again:
  ld.volatile.global.u32 %r1, [%rd1]; setp.eq.u32 %p, %r1, 0; @%p bra $again;
  st.global.u32 [%rd2], %r1;
  ret;
}
)";

class StagedWrites : public ::testing::Test, protected TestArrays {
 protected:
  static constexpr std::uint64_t kMiB = std::uint64_t{1} << 20, kWords = 24 * kMiB;  // 96 MiB
  void SetUp() override {
    session_ = std::dynamic_pointer_cast<LocalSession>(create_session("cpu", "").value());
    module_ = session_->load_text(kSource, {.name = "until.ptx"}).value();
    until_ = module_->kernel("until").value();
    flag_ = session_->allocate(session::ElementType::kU32, 4, 1).value();
    x_ = session_->allocate(session::ElementType::kU32, 4, kWords).value();
    set_flag(0);
    const session::Argument arguments[] = {session::ArrayArgument{flag_, 0}, session::ArrayArgument{x_, 0}};
    ASSERT_TRUE(until_->launch({.grid = {1, 1, 1}, .block = {1, 1, 1}}, arguments).ok());
  }
  void TearDown() override { set_flag(1); }
  // Past the session, which would wait for the kernel.
  void set_flag(std::uint32_t value) {
    auto& local = dynamic_cast<LocalArray&>(*flag_);
    std::atomic_ref(*reinterpret_cast<std::uint32_t*>(local.buffer()->host_pointer())).store(value);
  }
  void write(std::uint32_t value) {
    const Words words(kWords, value);
    ASSERT_TRUE(x_->write(0, std::as_bytes(std::span(words))).ok());
  }
  std::uint64_t staged() { return session_->raw_device().staged_bytes(); }

  std::shared_ptr<LocalSession> session_;
  session::ModulePtr module_;
  session::KernelPtr until_;
  session::ArrayPtr flag_, x_;
};

TEST_F(StagedWrites, BehindAKernel_AreTaken_UntilTheyAreMuch) {
  write(1), write(2);
  EXPECT_EQ(staged(), 2 * 4 * kWords);
  const auto begun = std::chrono::steady_clock::now();
  write(3);  // waits for a second, as the kernel goes on, and is taken after all
  EXPECT_GE(std::chrono::steady_clock::now() - begun, std::chrono::milliseconds(900));
  EXPECT_EQ(staged(), 3 * 4 * kWords);
  set_flag(7);
  write(4);  // once what is before it has ended
  ASSERT_TRUE(session_->synchronize().ok());
  // A source goes with its task, a moment after the task's end is known.
  for (int i = 0; i < 1000 && staged() != 0; ++i) std::this_thread::sleep_for(std::chrono::milliseconds(10));
  EXPECT_EQ(staged(), 0u);
  EXPECT_EQ(read(x_).front(), 4u);
  EXPECT_EQ(read(x_).back(), 4u);
}

TEST_F(StagedWrites, InTheirOrder_WhetherTakenOrNot) {
  constexpr std::uint32_t kTurns = test_support::kSanitized ? 4 : 12;
  set_flag(7);
  for (std::uint32_t value = 1; value < kTurns; ++value) {
    const session::Argument arguments[] = {session::ArrayArgument{flag_, 0}, session::ArrayArgument{x_, 0}};
    ASSERT_TRUE(until_->launch({.grid = {1, 1, 1}, .block = {1, 1, 1}}, arguments).ok());
    write(value);
  }
  EXPECT_EQ(read(x_).front(), kTurns - 1);
}

// A GPU takes 2 MiB at once; of more a write waits, and so that others go on and the thread's check is heard.
class LargeWrites : public ::testing::Test, protected TestArrays {
 protected:
  static constexpr std::uint32_t kWords = 1 << 20;  // 4 MiB
  void SetUp() override {
    control().reset();
    auto device = device::create_cuda_device(0, {.driver_library = PERGOLA_FAKE_CUDA});
    ASSERT_TRUE(device) << device.message();
    session_ = LocalSession::create(std::move(device).value(), "graphs=off").value();
    module_ = session_->load_text(kAddPtx, {.name = "add.ptx"}).value();
    add_ = module_->kernel("add").value();
    for (session::ArrayPtr* array : {&x_, &y_, &other_})
      *array = session_->allocate(session::ElementType::kU32, 4, kWords).value();
  }
  void TearDown() override {
    wait_check = {};
    control().go();
  }
  Status launch(const session::ArrayPtr& from, const session::ArrayPtr& to) {
    const session::Argument arguments[] = {session::ArrayArgument{from, 0}, session::ArrayArgument{to, 0},
                                           number(kWords)};
    return add_->launch({.grid = {1, 1, 1}, .block = {32, 1, 1}}, arguments);
  }
  // Another thread launches at the first time.
  static std::int32_t third_time(void* user) {
    auto& test = *static_cast<LargeWrites*>(user);
    if (test.asked_++ == 0) std::jthread([&] { test.meanwhile_ = test.launch(test.other_, test.other_); });
    return test.asked_ < 3 ? 0 : 1;
  }
  Status write(const session::ArrayPtr& array, std::uint32_t value) {
    const Words words(kWords, value);
    return array->write(0, std::as_bytes(std::span(words)));
  }

  std::shared_ptr<LocalSession> session_;
  session::ModulePtr module_;
  session::KernelPtr add_;
  session::ArrayPtr x_, y_, other_;
  int asked_ = 0;
  Status meanwhile_;
};

TEST_F(LargeWrites, BehindAKernel_HearTheThreadsCheck_AndKeepNobodyFromTheSession) {
  ASSERT_TRUE(write(x_, 2).ok());
  ASSERT_TRUE(write(y_, 3).ok());
  ASSERT_TRUE(write(other_, 5).ok());
  ASSERT_TRUE(session_->synchronize().ok());
  control().hold();
  ASSERT_TRUE(launch(x_, y_).ok());
  wait_check = {&third_time, this};
  const Status ended = write(y_, 7);
  EXPECT_EQ(ended.code(), Code::kCallFailed) << ended.message();
  EXPECT_EQ(asked_, 3);
  EXPECT_TRUE(meanwhile_.ok()) << meanwhile_.message();
  wait_check = {};
  control().go();
  ASSERT_TRUE(session_->synchronize().ok());
  EXPECT_EQ(read(y_)[kWords - 1], 5u) << "nothing was written";
  EXPECT_EQ(read(other_)[0], 10u);
  ASSERT_TRUE(launch(x_, y_).ok());
  ASSERT_TRUE(write(y_, 7).ok());
  EXPECT_EQ(read(y_)[kWords - 1], 7u);
}

TEST_F(LargeWrites, FromPageLockedMemory_DoNotWait) {
  ASSERT_TRUE(session_->synchronize().ok());
  const auto page_locked =
      session_->raw_device().allocate(std::size_t{kWords} * 4, device::MemoryKind::kHostVisible).value();
  control().hold();
  ASSERT_TRUE(launch(x_, y_).ok());
  wait_check = {[](void*) -> std::int32_t { return 1; }, nullptr};
  const Status taken = y_->write(0, std::span(page_locked->host_pointer(), std::size_t{kWords} * 4));
  EXPECT_TRUE(taken.ok()) << taken.message();
}

}  // namespace
}  // namespace pergola::runtime
