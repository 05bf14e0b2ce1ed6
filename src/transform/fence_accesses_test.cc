// What is checked, what one check does for, and where lanes leave. That faults fail their tasks alone is
// runtime/task_fences_test.
#include "src/transform/fence_accesses.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "src/ptx/parser.h"
#include "src/ptx/printer.h"
#include "src/ptx/verifier.h"
#include "src/transform/fence_groups.h"

namespace pergola::transform {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

// The body of a kernel `k` with that text; %rd1 to %rd3 are its parameters a, b, c.
TaskBody fenced(const std::string& text, bool merges = true, const std::string& functions = "") {
  const auto module = ptx::parse(
      ".version 8.3\n.target sm_90\n.address_size 64\n" + functions +
          ".visible .entry k(.param .u64 a, .param .u64 b, .param .u64 c)\n{\n.reg .pred %p<4>; .reg .b32 %r<8>; .reg "
          ".b64 %rd<8>; .reg .f32 %f<8>;\nld.param.u64 %rd1, [a]; ld.param.u64 %rd2, [b]; ld.param.u64 %rd3, [c];\n" +
          text + "\nret;\n}\n",
      "k.ptx");
  EXPECT_TRUE(module.ok()) << module.message();
  EXPECT_TRUE(ptx::verify(*module).ok()) << ptx::verify(*module).message();
  TaskConfig config;
  config.parameters = ptx::Space::kShared;
  config.fences = FenceConfig{};
  config.fences->merges = merges;
  auto body = entry_to_task(*module, "k", config);
  EXPECT_TRUE(body.ok()) << body.message();
  const auto again = ptx::parse(ptx::print(body->module), "body");
  EXPECT_TRUE(again.ok()) << again.message();
  const Status verified = ptx::verify(*again);
  EXPECT_TRUE(verified.ok()) << verified.message() << ptx::print(body->module);
  return *body;
}
std::string text_of(const TaskBody& body) {
  return ptx::print(body.module);
}

TEST(FenceAccesses, EachWildAccessIsAsked_OthersAreNot) {
  const TaskBody body = fenced(R"(
  .shared .b32 box; .local .b32 own;
  st.shared.u32 [box], 1; st.local.u32 [own], 1; ld.global.u32 %r1, [table+4];
  ld.global.u32 %r2, [%rd1]; ld.u32 %r3, [%rd2+4]; st.global.v4.f32 [%rd3], {%f1, %f2, %f3, %f4};
  atom.global.add.u32 %r4, [%rd1+8], 1; red.global.add.u32 [%rd2+64], 1;)",
                               true, ".global .u32 table[2] = {1, 2};\n");
  EXPECT_EQ(body.fence_counts.accesses, 5u);
  EXPECT_EQ(body.fence_counts.checks, 5u);
  ASSERT_EQ(body.fences.size(), 5u);
  std::vector<std::pair<std::string, std::uint32_t>> got;
  for (const FenceSite& site : body.fences) got.emplace_back(site.instruction, site.bytes);
  EXPECT_THAT(got, ::testing::ElementsAre(std::pair("ld.global.u32", 4u), std::pair("ld.u32", 4u),
                                          std::pair("st.global.v4.f32", 16u), std::pair("atom.global.add.u32", 4u),
                                          std::pair("red.global.add.u32", 4u)));
  EXPECT_THAT(text_of(body), HasSubstr("isspacep.global"));
}

TEST(FenceAccesses, Neighbours_ShareAnEndEach) {
  const char* text = R"(
  ld.global.f32 %f1, [%rd1]; ld.global.f32 %f2, [%rd1+4]; ld.global.f32 %f3, [%rd1+12]; st.global.f32 [%rd1+8], %f1;)";
  const TaskBody merged = fenced(text), single = fenced(text, false);
  EXPECT_EQ(merged.fence_counts.accesses, 4u);
  EXPECT_EQ(merged.fence_counts.checks, 2u);
  EXPECT_EQ(single.fence_counts.checks, 4u);
  EXPECT_LT(merged.fence_counts.instructions, single.fence_counts.instructions);
}

TEST(FenceAccesses, OneCheckStands_OnlyForWhatSurelyComes) {
  // A guard, a call, another value of the register, another block: the later access may not come, or elsewhere.
  const std::pair<const char*, std::uint32_t> cases[] = {
      {"ld.global.u32 %r1, [%rd1]; @%p1 ld.global.u32 %r2, [%rd1+4];", 2},
      {"ld.global.u32 %r1, [%rd1]; call f, (); ld.global.u32 %r2, [%rd1+4];", 2},
      {"ld.global.u32 %r1, [%rd1]; add.s64 %rd1, %rd1, 4; ld.global.u32 %r2, [%rd1];", 2},
      {"ld.global.u32 %r1, [%rd1]; @%p1 bra $far; ld.global.u32 %r2, [%rd1+4]; $far:", 2},
      {"ld.global.u32 %r1, [%rd1]; ld.global.u32 %r2, [%rd1+4096];", 2},
      {"ld.global.u32 %r1, [%rd1]; ld.volatile.global.u32 %r2, [%rd1];", 1},
      {"ld.global.u64 %rd1, [%rd1]; ld.global.u64 %rd2, [%rd1];", 2},
      {"@%p1 ld.global.u32 %r1, [%rd1]; @%p1 ld.global.u32 %r2, [%rd1];", 1},
  };
  for (const auto& [text, checks] : cases)
    EXPECT_EQ(fenced(text, true, ".func f() { ret; }\n").fence_counts.checks, checks) << text;
}

TEST(FenceAccesses, WhatIsKnownOnEveryWay_IsNotAskedAgain) {
  const std::pair<const char*, std::uint32_t> cases[] = {
      {"ld.global.u32 %r1, [%rd1]; @%p1 bra $far; ld.global.u32 %r2, [%rd1]; $far: st.global.u32 [%rd1], %r2;", 1},
      {"@%p1 bra $far; ld.global.u32 %r2, [%rd1]; $far: st.global.u32 [%rd1], %r2;", 2},
      {"ld.global.u32 %r1, [%rd1]; $again: st.global.u32 [%rd1], %r2; @%p1 bra $again;", 1},
      {"ld.global.u32 %r1, [%rd1]; $again: st.global.u32 [%rd1], %r2; add.s64 %rd1, %rd1, 4; @%p1 bra $again;", 2},
      // Who has failed goes on to a barrier, so it has not passed.
      {"ld.global.u32 %r1, [%rd1]; bar.sync 0; @%p1 bra $far; bar.sync 0; $far: ld.global.u32 %r1, [%rd1]; bar.sync "
       "0;",
       2},
  };
  for (const auto& [text, checks] : cases) EXPECT_EQ(fenced(text).fence_counts.checks, checks) << text;
}

// What one pointer is the root of mostly lies in one granule: that is asked first, without the table.
TEST(FenceAccesses, WhereARootIsAskedAgain_ItsGranuleIsRemembered) {
  const std::pair<const char*, int> cases[] = {
      {"ld.global.u32 %r1, [%rd1]; st.global.u32 [%rd2], %r1;", 0},
      {"ld.global.u32 %r1, [%rd1]; shl.b64 %rd5, %rd3, 2; add.s64 %rd4, %rd1, %rd5; st.global.u32 [%rd4], %r1;", 1},
      {"$again: ld.global.u32 %r1, [%rd1]; add.s64 %rd1, %rd1, 4; st.global.u32 [%rd2], %r1; @%p1 bra $again;", 2},
      {"cvta.to.global.u64 %rd4, %rd1; mul.wide.u32 %rd5, %r1, 4; add.s64 %rd6, %rd5, %rd4; st.global.u32 [%rd6], 1; "
       "st.global.u32 [%rd4], 2;",
       1},
  };
  for (const auto& [text, roots] : cases) {
    const std::string got = text_of(fenced(text));
    for (int n = 0; n < 3; ++n)
      EXPECT_EQ(got.find(fmt::format("%pergola_fence_low_{}", n)) != std::string::npos, n < roots) << text << got;
  }
}

TEST(FenceAccesses, Lanes_LeaveWhereNobodyCountsOnThem) {
  EXPECT_THAT(text_of(fenced("st.global.u32 [%rd1], 1;")),
              AllOf(HasSubstr("bra $pergola_end;"), Not(HasSubstr("@!%pergola_fence_bad st"))));
  EXPECT_THAT(text_of(fenced("bar.sync 0; st.global.u32 [%rd1], 1;")), Not(HasSubstr("@!%pergola_fence_bad st")));
  EXPECT_THAT(text_of(fenced("ld.global.u32 %r1, [%rd1]; bar.sync 0;")),
              AllOf(HasSubstr("@!%pergola_fence_bad ld.global.u32 %r1"), HasSubstr("mov.b32 %r1, 0;")));
  EXPECT_THAT(text_of(fenced("@%p1 ld.global.u32 %r1, [%rd1]; bar.sync 0;")),
              AllOf(HasSubstr("$pergola_fence_skip"), HasSubstr("mov.b32 %r1, 0;")));
  // Several that share a check go to the scratch.
  EXPECT_THAT(text_of(fenced("ld.global.u32 %r1, [%rd1]; ld.global.u32 %r2, [%rd1+4]; bar.sync 0;")),
              AllOf(HasSubstr("%pergola_fenced_0+4]"), HasSubstr("add.s64 %pergola_fenced_0, %pergola_fenced_0,")));
  // What may spin traps some day.
  EXPECT_THAT(text_of(fenced("ld.volatile.global.u32 %r1, [%rd1]; bar.sync 0;")), HasSubstr("trap;"));
}

TEST(FenceAccesses, Traps_Leave) {
  const TaskBody body = fenced("setp.eq.u64 %p1, %rd1, 0; @%p1 trap; st.global.u32 [%rd2], 1;");
  EXPECT_THAT(text_of(body), Not(HasSubstr("trap;")));
  ASSERT_EQ(body.fences.size(), 2u);
  EXPECT_EQ(body.fences[0].kind, FenceSite::Kind::kTrap);
  // Lanes that trap before a barrier are seen to leave, as by a return.
  EXPECT_THAT(text_of(fenced("mov.u32 %r1, %tid.x; setp.eq.u32 %p1, %r1, 3; @%p1 trap; bar.sync 0;")),
              HasSubstr("vote.sync.ballot.b32 %pergola_live"));
}

constexpr char kAssert[] = R"(
.extern .func __assertfail(.param .b64 a, .param .b64 b, .param .b32 c, .param .b64 d, .param .b64 e);
.global .align 1 .b8 $str[6] = {105, 32, 60, 32, 110, 0};
.global .align 1 .b8 $str1[5] = {107, 46, 99, 117, 0};
)";
constexpr char kFails[] = R"(
  setp.ne.u32 %p1, %r1, 0; @%p1 bra $holds;
  mov.u64 %rd4, $str; cvta.global.u64 %rd5, %rd4; mov.u64 %rd6, $str1; cvta.global.u64 %rd7, %rd6;
  { .param .b64 p0; st.param.b64 [p0], %rd5; .param .b64 p1; st.param.b64 [p1], %rd7; .param .b32 p2;
    st.param.b32 [p2], 12; .param .b64 p3; st.param.b64 [p3], %rd7; .param .b64 p4; st.param.b64 [p4], 1;
    call.uni __assertfail, (p0, p1, p2, p3, p4); }
  $holds: st.global.u32 [%rd1], 1;)";

TEST(FenceAccesses, AFailedAssert_SaysWhatDoesNotHold) {
  const TaskBody body = fenced(kFails, true, kAssert);
  ASSERT_EQ(body.fences.size(), 2u);
  EXPECT_EQ(body.fences[0].kind, FenceSite::Kind::kAssert);
  EXPECT_EQ(body.fences[0].text, "`i < n` at k.cu:12");
  EXPECT_THAT(text_of(body), Not(HasSubstr("call.uni __assertfail")));
}

// To end lanes there would make the kernel ragged, and ragged kernels have no partial masks: the assert stays as it is.
TEST(FenceAccesses, WhatWouldBeRefused_KeepsItsAssert) {
  const TaskBody body = fenced(std::string("mov.u32 %r1, %tid.x; setp.lt.u32 %p2, %r1, 9; @%p2 bra $met;\n") + kFails +
                                   "\n$met: shfl.sync.idx.b32 %r2, %r1, 0, 31, 255;",
                               true, kAssert);
  EXPECT_THAT(text_of(body), HasSubstr("call.uni __assertfail"));
}

TEST(FenceAccesses, WithoutFences_NothingChanges_AndMallocIsNotFenced) {
  const TaskBody body = fenced(
      "{ .param .b64 n; st.param.b64 [n], 8; .param .b64 r; call.uni (r), malloc, (n); ld.param.b64 %rd1, [r]; }\n"
      "st.global.u32 [%rd1], 1;",
      true, ".extern .func (.param .b64 r) malloc(.param .b64 n);\n");
  EXPECT_TRUE(body.fences.empty());
  EXPECT_THAT(text_of(body), Not(HasSubstr("pergola_fence")));
}

}  // namespace
}  // namespace pergola::transform
