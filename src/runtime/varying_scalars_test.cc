// Loops whose launches are given a step number, on a session: they run as graphs, and give what they give without. On
// the CPU device, whose graphs run their launches one after the other.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "src/device/cuda/cuda_device.h"
#include "src/runtime/local_session.h"
#include "src/runtime/runtime.h"

namespace pergola::runtime {
namespace {

using session::Argument;
using session::ArrayArgument;
using session::ElementType;
using session::Number;
using ::testing::HasSubstr;

// step: x[i] = x[i] * 3 + step (a 32-bit number), by a double that is added to y[0] too.
// ask: the same for one element, where the kernel asks which space the address of its parameter is of.
// count: counter += step, and x[0] = counter.
constexpr std::string_view kStepsPtx = R"(.version 7.7
.target sm_70
.address_size 64
.visible .global .u32 counter = 0;
.visible .entry step(.param .u64 px, .param .u64 py, .param .u32 step, .param .f64 pf, .param .u32 pn) {
  .reg .pred %p<3>; .reg .b32 %r<9>; .reg .b64 %rd<5>; .reg .f64 %d<4>;
  ld.param.u32 %r2, [pn]; mov.u32 %r3, %ctaid.x; mov.u32 %r4, %ntid.x; mov.u32 %r5, %tid.x;
  mad.lo.s32 %r3, %r3, %r4, %r5; setp.ge.u32 %p1, %r3, %r2; @%p1 bra DONE;
  ld.param.u64 %rd1, [px]; ld.param.u32 %r1, [step]; mul.wide.u32 %rd2, %r3, 4; add.s64 %rd3, %rd1, %rd2;
  ld.global.u32 %r6, [%rd3]; mad.lo.u32 %r7, %r6, 3, %r1; st.global.u32 [%rd3], %r7;
  setp.ne.u32 %p2, %r3, 0; @%p2 bra DONE;
  ld.param.u64 %rd4, [py]; ld.param.f64 %d1, [pf]; ld.global.f64 %d2, [%rd4]; add.f64 %d3, %d1, %d2;
  st.global.f64 [%rd4], %d3;
DONE: ret;
}
.visible .entry ask(.param .u64 px, .param .u32 step) {
  .reg .pred %p<2>; .reg .b32 %r<4>; .reg .b64 %rd<4>;
  ld.param.u64 %rd1, [px]; mov.b64 %rd2, step; cvta.param.u64 %rd2, %rd2; isspacep.global %p1, %rd2;
  ld.u32 %r1, [%rd2]; ld.global.u32 %r2, [%rd1]; mad.lo.u32 %r3, %r2, 3, %r1; st.global.u32 [%rd1], %r3;
  ret;
}
.visible .entry count(.param .u64 px, .param .u32 step) {
  .reg .b32 %r<4>; .reg .b64 %rd<2>;
  ld.param.u64 %rd1, [px]; ld.param.u32 %r1, [step]; ld.global.u32 %r2, [counter]; add.u32 %r3, %r1, %r2;
  st.global.u32 [counter], %r3; st.global.u32 [%rd1], %r3;
  ret;
}
)";

class VaryingScalars : public ::testing::Test {
 protected:
  static constexpr std::uint32_t kCount = 40;

  void SetUp() override {
    auto session = create_session("cpu", "graphs=always");
    ASSERT_TRUE(session.ok()) << session.message();
    session_ = *session;
    auto module = session_->load_text(kStepsPtx, {.name = "steps.ptx"});
    ASSERT_TRUE(module.ok()) << module.message();
    module_ = *module;
    scheduler().set_graph_patience(std::chrono::seconds(10));
    for (session::ArrayPtr& x : x_) x = make(ElementType::kU32, kCount);
    y_ = make(ElementType::kF64, 1);
  }
  session::ArrayPtr make(ElementType type, std::uint64_t count) {
    auto array = session_->allocate(type, 0, count);
    EXPECT_TRUE(array.ok()) << array.message();
    const std::vector<std::byte> zero((*array)->size_bytes());
    EXPECT_TRUE((*array)->write(0, zero).ok());
    return *array;
  }
  scheduler::Scheduler& scheduler() { return dynamic_cast<LocalSession&>(*session_).scheduler(); }
  void launch(const char* kernel, std::vector<Argument> arguments, std::uint32_t threads) {
    auto found = module_->kernel(kernel);
    ASSERT_TRUE(found.ok()) << found.message();
    const Status status = (*found)->launch({.grid = {1, 1, 1}, .block = {threads, 1, 1}}, arguments, nullptr, nullptr);
    ASSERT_TRUE(status.ok()) << status.message();
  }
  static Argument u32(std::uint32_t value) { return Number{ElementType::kU32, value}; }
  static Argument f64(double value) { return Number{ElementType::kF64, std::bit_cast<std::uint64_t>(value)}; }
  std::uint32_t first_of(const session::ArrayPtr& array) {
    std::uint32_t value = 0;
    EXPECT_TRUE(array->read(0, std::as_writable_bytes(std::span(&value, 1))).ok());
    return value;
  }

  session::SessionPtr session_;
  session::ModulePtr module_;
  session::ArrayPtr x_[2], y_;
};

TEST_F(VaryingScalars, AHundredTurnsOfSixtyFourLaunches_RunAsGraphsAndAreRight) {
  std::uint32_t want[2] = {0, 0};
  double want_y = 0;
  for (std::uint32_t turn = 0; turn < 100; ++turn) {
    for (std::uint32_t i = 0; i < 64; ++i) {
      // Some are given the turn, some change seldom, some never.
      const std::uint32_t step = i % 3 == 0 ? turn + i : i % 3 == 1 ? turn / 40 : i;
      const double f = i % 5 == 0 ? 0.5 * turn : 1.25;
      // The first is of another shape, so that no shorter turn recurs.
      launch("step", {ArrayArgument{x_[i % 2], 0}, ArrayArgument{y_, 0}, u32(step), f64(f), u32(kCount)},
             i == 0 ? 96 : 64);
      want[i % 2] = want[i % 2] * 3 + step;
      want_y += f;
    }
    if (turn % 5 == 0) scheduler().settle_graphs();
  }
  std::vector<std::uint32_t> got(kCount);
  for (int a = 0; a < 2; ++a) {
    ASSERT_TRUE(x_[a]->read(0, std::as_writable_bytes(std::span(got))).ok());
    EXPECT_THAT(got, ::testing::Each(want[a]));
  }
  double got_y = 0;
  ASSERT_TRUE(y_->read(0, std::as_writable_bytes(std::span(&got_y, 1))).ok());
  EXPECT_EQ(got_y, want_y);
  const scheduler::GraphCounters counters = scheduler().graph_counters();
  EXPECT_GE(counters.replaced, 100u * 64 * 3 / 4);
  EXPECT_GE(counters.varying, 64u / 3);
  EXPECT_EQ(counters.refused, 0u) << counters.refusal;
}

TEST_F(VaryingScalars, AKernelThatCannot_StaysLaunches_AndTheRefusalHasItsLine) {
  std::uint32_t want = 0;
  for (std::uint32_t turn = 0; turn < 20; ++turn) {
    for (std::uint32_t i = 0; i < 70; ++i) {
      launch("ask", {ArrayArgument{x_[0], 0}, u32(turn + i)}, 1);
      want = want * 3 + turn + i;
    }
    scheduler().settle_graphs();
  }
  EXPECT_EQ(first_of(x_[0]), want);
  const scheduler::GraphCounters counters = scheduler().graph_counters();
  EXPECT_EQ(counters.launches, 0u);
  EXPECT_EQ(counters.refused, 1u);
  EXPECT_THAT(counters.refusal, HasSubstr("steps.ptx:18: the parameters of kernel 'ask' cannot lie in memory"));
}

// A second module would count in a variable of its own.
TEST_F(VaryingScalars, AKernelWithAVariableThatIsWritten_StaysLaunches) {
  std::uint32_t want = 0;
  for (std::uint32_t turn = 0; turn < 4500; ++turn) {
    launch("count", {ArrayArgument{x_[0], 0}, u32(turn)}, 1);
    want += turn;
    if (turn % 20 == 0) scheduler().settle_graphs();
  }
  EXPECT_EQ(first_of(x_[0]), want);
  const scheduler::GraphCounters counters = scheduler().graph_counters();
  EXPECT_EQ(counters.launches, 0u);
  EXPECT_THAT(counters.refusal, HasSubstr("Kernel 'count' uses variable 'counter'"));
}

// The graphs' memory and modules are theirs: the session's may go first.
TEST_F(VaryingScalars, TheModuleMayGo_WhileItsGraphsRun) {
  for (std::uint32_t turn = 0; turn < 30; ++turn) {
    for (std::uint32_t i = 0; i < 64; ++i)
      launch("step", {ArrayArgument{x_[0], 0}, ArrayArgument{y_, 0}, u32(turn), f64(0), u32(kCount)}, 64);
    if (turn == 15) scheduler().settle_graphs();
  }
  module_.reset();
  std::uint32_t want = 0;
  for (std::uint32_t turn = 0; turn < 30; ++turn)
    for (int i = 0; i < 64; ++i) want = want * 3 + turn;
  EXPECT_EQ(first_of(x_[0]), want);
  EXPECT_TRUE(session_->synchronize().ok());
}

// Through the driver's calls, on one that runs add_one in both forms (device/cuda/fake): its streams run behind the
// program, so a block that was filled again too early would be seen.
TEST(VaryingScalarsOnAGpu, AHundredTurns_AreRight) {
  auto device = device::create_cuda_device(0, {.driver_library = PERGOLA_FAKE_CUDA});
  ASSERT_TRUE(device.ok()) << device.message();
  auto session = create_session(std::move(*device), "graphs=always");
  ASSERT_TRUE(session.ok()) << session.message();
  // Adds 1 to the first n of x.
  auto module = (*session)->load_text(R"(.version 8.0
.target sm_70
.address_size 64
.visible .entry add_one(.param .u64 px, .param .u32 pn) {
  .reg .pred %p<2>; .reg .b32 %r<4>; .reg .b64 %rd<4>;
  ld.param.u64 %rd1, [px]; ld.param.u32 %r1, [pn]; mov.u32 %r2, %tid.x; setp.ge.u32 %p1, %r2, %r1; @%p1 bra DONE;
  mul.wide.u32 %rd2, %r2, 4; add.s64 %rd3, %rd1, %rd2; ld.global.u32 %r3, [%rd3]; add.u32 %r3, %r3, 1;
  st.global.u32 [%rd3], %r3;
DONE: ret;
})",
                                      {});
  ASSERT_TRUE(module.ok()) << module.message();
  auto kernel = (*module)->kernel("add_one");
  ASSERT_TRUE(kernel.ok()) << kernel.message();
  auto x = *(*session)->allocate(ElementType::kU32, 0, 32);
  std::vector<std::uint32_t> want(32, 0), got(32);
  ASSERT_TRUE(x->write(0, std::as_bytes(std::span(want))).ok());
  auto& scheduler = dynamic_cast<LocalSession&>(**session).scheduler();
  scheduler.set_graph_patience(std::chrono::seconds(10));
  for (std::uint32_t turn = 0; turn < 100; ++turn) {
    for (std::uint32_t i = 0; i < 64; ++i) {
      const std::uint32_t n = i % 2 == 0 ? turn % 33 : 1 + i / 4;
      const Argument arguments[] = {ArrayArgument{x, 0}, Number{ElementType::kU32, n}};
      const Status status = (*kernel)->launch({.grid = {1, 1, 1}, .block = {i == 0 ? 64u : 32u, 1, 1}}, arguments);
      ASSERT_TRUE(status.ok()) << status.message();
      for (std::uint32_t k = 0; k < n; ++k) ++want[k];
    }
    if (turn % 5 == 0) scheduler.settle_graphs();
  }
  ASSERT_TRUE(x->read(0, std::as_writable_bytes(std::span(got))).ok());
  EXPECT_EQ(got, want);
  const scheduler::GraphCounters counters = scheduler.graph_counters();
  EXPECT_GE(counters.replaced, 100u * 64 * 3 / 4) << counters.refusal;
  EXPECT_EQ(counters.varying, 32u);
}

}  // namespace
}  // namespace pergola::runtime
