// Turns that are repeated (scheduler/turn_repetition.h) on the CPU device, where a kernel of one fails.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <atomic>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "src/base/call_text.h"
#include "src/runtime/devices.h"
#include "src/runtime/local_session.h"
#include "src/runtime/test_arrays.h"

namespace pergola::runtime {
namespace {

// Two chains that meet, of which one traps in the end: what is told is the fault, not what was skipped for it. A step
// traps as its word comes to `trap_at`.
constexpr std::string_view kTraps = R"(.version 7.0
.target sm_70
.address_size 64
.visible .entry step(.param .u64 x, .param .u32 trap_at) {
  .reg .b64 %a;
  .reg .b32 %r, %t;
  .reg .pred %p;
  ld.param.u64 %a, [x];
  ld.param.u32 %t, [trap_at];
  ld.global.u32 %r, [%a];
  add.u32 %r, %r, 1;
  st.global.u32 [%a], %r;
  setp.ne.u32 %p, %r, %t;
  @%p bra E;
  trap;
E:
  ret;
}
.visible .entry both(.param .u64 x, .param .u64 y) {
  .reg .b64 %a, %b;
  .reg .b32 %r, %s;
  ld.param.u64 %a, [x];
  ld.param.u64 %b, [y];
  ld.global.u32 %r, [%a];
  ld.global.u32 %s, [%b];
  max.u32 %r, %r, %s;
  st.global.u32 [%a], %r;
  ret;
}
)";

struct FailingTurns : ::testing::Test, protected TestArrays {};

TEST_F(FailingTurns, AFaultIsToldAsOne) {
  for (const char* const policy : {"graphs=off,fork-cost=0", "graphs=recurring,fork-cost=0", "graphs=recurring"})
    for (const int after : {702, 710, 1000}) {
      SCOPED_TRACE(fmt::format("{} {}", policy, after));
      auto session = LocalSession::create(open_device("cpu").value(), policy);
      ASSERT_TRUE(session) << session.message();
      const auto module = (*session)->load_text(kTraps, {.name = "traps.ptx"}).value();
      const auto step = module->kernel("step").value(), both = module->kernel("both").value();
      const auto x = (*session)->allocate(session::ElementType::kU32, 4, 4).value();
      const auto y = (*session)->allocate(session::ElementType::kU32, 4, 4).value();
      set(x, 0), set(y, 0);
      const session::LaunchShape config{.grid = {1, 1, 1}, .block = {1, 1, 1}};
      const std::vector<session::Argument> of_x = {session::ArrayArgument{x, 0}, number(0)},
                                           of_y = {session::ArrayArgument{y, 0}, number(700)},
                                           of_both = {session::ArrayArgument{x, 0}, session::ArrayArgument{y, 0}};
      std::atomic<std::uint64_t> dropped{0};
      const auto go = [&](const session::KernelPtr& kernel, const std::vector<session::Argument>& arguments) {
        const std::uint32_t block[] = {1, 1, 1};
        const std::string written = &arguments == &of_x ? "x, never" : &arguments == &of_y ? "y, at 700" : "x, y";
        const CallText text{kernel.get(), std::as_bytes(std::span(block)), std::as_bytes(std::span(written)), &dropped,
                            dropped.load()};
        std::optional<Status> again = kernel->launch_again(text, nullptr);
        if (!again) (void)kernel->launch(config, arguments, nullptr, nullptr, &text);
      };
      for (int i = 0; i < after; ++i) {
        go(step, of_x);
        go(step, of_y);
        go(both, of_both);
      }
      const Status told = (*session)->synchronize();
      EXPECT_EQ(told.code(), Code::kDeviceFault) << told.message();
    }
}

}  // namespace
}  // namespace pergola::runtime
