#include "src/transform/fused_chain.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "src/ptx/parser.h"
#include "src/ptx/printer.h"
#include "src/ptx/verifier.h"

namespace pergola::transform {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

// A table lookup and a load that the compiler takes for constant, then BODY.
constexpr std::string_view kPart = R"(.version 7.8
.target sm_75
.address_size 64
.const .align 4 .u32 factors[2] = {3, 5};
.visible .entry part(.param .u64 x, .param .u64 y)
{
  .reg .pred %p<3>; .reg .b32 %r<6>; .reg .b64 %rd<5>;
  ld.param.u64 %rd1, [x]; ld.param.u64 %rd2, [y];
  mov.u32 %r1, %tid.x; mul.wide.u32 %rd3, %r1, 4; add.s64 %rd1, %rd1, %rd3; add.s64 %rd2, %rd2, %rd3;
  setp.lt.u32 %p1, %r1, 7;
  BODY
  ld.global.nc.u32 %r2, [%rd1];
  ld.const.u32 %r3, [factors+4];
  mul.lo.u32 %r2, %r2, %r3;
  st.global.u32 [%rd2], %r2;
  ret;
}
)";

Result<TaskBody> part(bool is_one_warp, std::string_view body, std::vector<std::uint32_t> constant_lines = {}) {
  std::string text(kPart);
  text.replace(text.find("BODY"), 4, body);
  PERGOLA_ASSIGN(const ptx::Module module, ptx::parse(text, "part.ptx"));
  PERGOLA_TRY(ptx::verify(module));
  return entry_to_task(module, "part", fused_config(is_one_warp, std::move(constant_lines)));
}

Result<std::string> fused_text(std::span<const TaskBody* const> bodies, const FusedShape& shape) {
  PERGOLA_ASSIGN(const ptx::Module module, fused_chain(bodies, shape));
  const std::string text = ptx::print(module);
  PERGOLA_ASSIGN(const ptx::Module again, ptx::parse(text, "fused.ptx"));
  PERGOLA_TRY(ptx::verify(again));
  return text;
}

TEST(FusedChain, OfOneBlock_MeetsAtItsBarrier) {
  const auto body = part(true, "");
  ASSERT_TRUE(body.ok()) << body.message();
  const TaskBody* const bodies[] = {&*body};
  const auto text = fused_text(bodies, {.blocks = 1, .warps = 5});
  ASSERT_TRUE(text.ok()) << text.message();
  EXPECT_THAT(*text, HasSubstr(".reqntid 160"));
  EXPECT_THAT(*text, HasSubstr("barrier.sync"));
  EXPECT_THAT(*text, Not(HasSubstr("cluster")));
  EXPECT_THAT(*text, Not(HasSubstr("pergola_run_body")));
  EXPECT_THAT(*text, Not(HasSubstr("brx.idx"))) << "there is one body";
}

TEST(FusedChain, OfACluster_MeetsAtTheClusters) {
  const auto body = part(true, ""), other = part(false, "bar.sync 0;");
  ASSERT_TRUE(body.ok() && other.ok()) << body.message() << other.message();
  const TaskBody* const bodies[] = {&*body, &*other};
  const auto text = fused_text(bodies, {.blocks = 8, .warps = 4});
  ASSERT_TRUE(text.ok()) << text.message();
  EXPECT_THAT(*text, HasSubstr(".reqnctapercluster 8"));
  EXPECT_THAT(*text, HasSubstr(".target sm_90"));
  EXPECT_THAT(*text, HasSubstr("barrier.cluster.arrive.release;"));
  EXPECT_THAT(*text, HasSubstr("barrier.cluster.wait.acquire;"));
  EXPECT_THAT(*text, HasSubstr("brx.idx"));
  EXPECT_THAT(*text, HasSubstr("factors__1"));
}

TEST(FusedChain, BarriersOfOneWarp_AreTheWarps) {
  for (const char* barrier : {"bar.sync 0;", "bar.sync 3, 32;", "barrier.sync 1;", "bar.red.popc.u32 %r4, 0, %p1;",
                              "bar.red.or.pred %p2, 0, %p1;", "@%p1 ret; bar.sync 0;"}) {
    const auto body = part(true, barrier);
    ASSERT_TRUE(body.ok()) << barrier << body.message();
    EXPECT_TRUE(can_be_fused(*body, true).ok()) << barrier;
    EXPECT_TRUE(body->barriers.empty()) << barrier;
    const std::string text = ptx::print(body->module);
    EXPECT_THAT(text, HasSubstr("bar.warp.sync")) << barrier;
    EXPECT_THAT(text, Not(HasSubstr("mbarrier"))) << barrier;
    EXPECT_THAT(text, Not(HasSubstr("cas"))) << barrier;
  }
}

TEST(FusedChain, SeveralWarpsThatMayNotAllArrive_AreRefused) {
  const auto whole = part(false, "bar.sync 0;"), leaves = part(false, "@%p1 ret; bar.sync 0;");
  ASSERT_TRUE(whole.ok() && leaves.ok()) << whole.message() << leaves.message();
  EXPECT_TRUE(can_be_fused(*whole, false).ok());
  EXPECT_EQ(can_be_fused(*leaves, false).code(), Code::kUnsupported);
  EXPECT_THAT(can_be_fused(*leaves, false).message(), HasSubstr("Kernel 'part'"));
}

// Data is constant for as long as the fused kernel runs only where whoever asks for it says so.
TEST(FusedChain, LoadsAreCoherent_ButOfConstantLines) {
  const auto coherent = part(true, "");
  ASSERT_TRUE(coherent.ok()) << coherent.message();
  EXPECT_THAT(ptx::print(coherent->module), Not(HasSubstr("ld.global.nc")));
  const auto before = std::count(kPart.begin(), kPart.begin() + kPart.find("ld.global.nc"), '\n');
  const auto kept = part(true, "", {static_cast<std::uint32_t>(before + 1)});
  ASSERT_TRUE(kept.ok()) << kept.message();
  EXPECT_THAT(ptx::print(kept->module), HasSubstr("ld.global.nc"));
}

}  // namespace
}  // namespace pergola::transform
